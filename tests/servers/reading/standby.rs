//! Readers on a standby, and after its promotion.

use super::{horizon, insert, polled, server};
use testbed::{Cluster, error, test, value};

#[test]
fn a_standby_has_no_horizon_and_can_be_read_below_that_of_the_primary_when_it_has_replayed_as_far() {
    let (primary, mut client) = server();
    let standby = Cluster::builder().worker(8).set("max_prepared_transactions", 10).standby_of(&primary);
    let mut reader = standby.connect();
    for query in ["SELECT snowflake_horizon()", "SELECT * FROM snowflake_poll(NULL::orders, 0)"] {
        let refused = error(&mut reader, query);
        assert_eq!(refused.message(), "recovery is in progress");
    }
    let mut other = primary.connect();
    other.batch_execute("BEGIN").expect("a transaction");
    let open = insert(&mut other);
    insert(&mut client);
    // As docs/reading.md has it.
    for expected in [3, 5] {
        let horizon = value(&mut client, "SELECT snowflake_horizon()");
        let position = value(&mut client, "SELECT pg_current_wal_insert_lsn()");
        // What is inserted now must not be among the rows.
        insert(&mut client);
        standby.wait_until(&format!("SELECT pg_last_wal_replay_lsn() >= '{position}'"));
        let rows = format!("SELECT count(*) FROM orders WHERE id < {horizon}");
        assert_eq!(value(&mut reader, &rows), expected.to_string(), "the open transaction has drawn {open}");
        if expected == 3 {
            other.batch_execute("ROLLBACK").expect("its end");
        }
    }
}

#[test]
fn after_a_promotion_a_transaction_prepared_on_the_old_primary_is_waited_for() {
    let (primary, mut client) = server();
    let standby = Cluster::builder().worker(8).set("max_prepared_transactions", 10).standby_of(&primary);
    client.batch_execute("BEGIN").expect("a transaction");
    insert(&mut client);
    client.batch_execute("PREPARE TRANSACTION 'moved'").expect("a prepared transaction");
    standby.wait_for_commits_of(&primary);
    standby.promote();
    let mut reader = standby.connect();
    assert_eq!((horizon(&mut reader), polled(&mut reader)), (None, 0));
    reader.batch_execute("COMMIT PREPARED 'moved'").expect("its end");
    assert_eq!(polled(&mut reader), 4);
}
