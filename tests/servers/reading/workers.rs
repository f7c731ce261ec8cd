//! Readers of a cluster whose server gets another worker.

use super::{TABLE, horizon, insert, polled};
use testbed::{Cluster, Registry, Signal, test, value};

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

/// Where IDs of a leased worker begin, the mark of the other one counts alone: there is no start margin. The last
/// position below the mark is followed by one at the mark.
#[test]
fn a_leased_worker_with_a_lower_number_begins_at_or_above_the_horizon_of_the_other_one() {
    let registry = Registry::start();
    let leased =
        |worker: u16| Cluster::builder().worker(worker).set("snowflake_pg.registry_conninfo", registry.conninfo());
    // It gives its worker back.
    let mut other = leased(3).start();
    other.connect().batch_execute(TABLE).expect("a table");
    other.stop(Signal::INT);
    registry.wait_until("SELECT state = 'free' FROM snowflake_registry.workers WHERE worker_id = 3");
    let mut cluster = leased(1000).set("snowflake_pg.reserve_ahead", "3s").start();
    cluster.settle();
    let mut client = cluster.connect();
    client.batch_execute(TABLE).expect("a table");
    let keeper = value(&mut client, "SELECT keeper_pid FROM snowflake_status").parse().expect("a process ID");
    // It would extend the mark.
    testbed::send(keeper, Signal::STOP);
    let read = loop {
        let mark = cluster.mark();
        let to_the_mark = "SELECT snowflake_advance(snowflake_min_id(durable_mark) - 1) FROM snowflake_status";
        client.batch_execute(to_the_mark).expect("within the mark");
        let read = horizon(&mut client).expect("a horizon");
        if cluster.mark() == mark {
            break read;
        }
    };
    cluster.kill_all();
    cluster.configure("snowflake_pg.worker_id", 3);
    cluster.start();
    let first = insert(&mut cluster.connect());
    assert!(first >= read, "{first} is below {read}");
}
