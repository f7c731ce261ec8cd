//! Readers of a cluster whose server gets another worker.

use super::{TABLE, horizon, insert, polled};
use testbed::{Cluster, Signal, test};

#[test]
fn with_another_worker_the_horizon_never_goes_back_and_is_null_while_the_clock_is_behind_it() {
    let mut cluster = Cluster::builder().worker(7).own_clock().start();
    cluster.set_clock(60.0);
    let mut client = cluster.connect();
    client.batch_execute(TABLE).expect("a table");
    let read = horizon(&mut client).expect("a horizon");
    cluster.stop(Signal::INT);
    cluster.configure("snowflake_pg.worker_id", 8);
    cluster.set_clock(0.0);
    cluster.start();
    let mut client = cluster.connect();
    assert!(insert(&mut client) < read, "the clock is behind");
    assert_eq!((horizon(&mut client), polled(&mut client)), (None, 0));
    // A restart does not forget that.
    cluster.restart(Signal::KILL);
    let mut client = cluster.connect();
    insert(&mut client);
    assert_eq!(horizon(&mut client), None);
    cluster.set_clock(70.0);
    assert!(insert(&mut client) > read);
    assert!(horizon(&mut client) > Some(read));
    assert_eq!(polled(&mut client), 6);
}
