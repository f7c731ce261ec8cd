//! Servers whose IDs must never be ahead of their clock. The fault suite has the clocks that are set.

use testbed::{Cluster, Signal, test, value};

#[test]
fn a_server_that_may_not_borrow_waits_out_its_own_restart() {
    let mut cluster = Cluster::builder().worker(1).with_defaults().set("snowflake_pg.max_borrow", 0).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the first ID of all");
    drop(client);
    cluster.restart(Signal::QUIT);
    assert_eq!(
        value(&mut cluster.connect(), "SELECT snowflake_timestamp(snowflake_nextval()) <= clock_timestamp()"),
        "t"
    );
}

#[test]
fn a_saturated_server_never_issues_more_than_the_layout_allows() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.settle();
    // No timestamp is ahead of the clock, not even the first: a full tick waits for the next one.
    let query = "WITH id AS MATERIALIZED (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000000))
        SELECT max(snowflake_timestamp(id)) <= clock_timestamp() FROM id";
    assert_eq!(value(&mut client, query), "t");
    assert_eq!(
        value(
            &mut client,
            "SELECT max(snowflake_timestamp(id)) <= clock_timestamp() FROM snowflake_nextvals(1000000) id"
        ),
        "t"
    );
}

#[test]
fn an_id_says_when_it_was_issued_with_and_without_the_time_stamp_counter() {
    for counter in ["auto", "off"] {
        let cluster = Cluster::builder().worker(1).set("snowflake_pg.time_stamp_counter", counter).start();
        let mut client = cluster.connect();
        cluster.settle();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the first ID of all");
        // Columns are computed from left to right. Where two clocks meet, a millisecond can be over a little later.
        let query = "SELECT count(*) || ' of ' || count(DISTINCT id)
            || ', wrong: ' || count(*) FILTER (WHERE issued_at > after OR issued_at < before - interval '2 ms')
            FROM (SELECT before, id, after, snowflake_timestamp(id) AS issued_at
                  FROM (SELECT clock_timestamp() AS before, snowflake_nextval() AS id, clock_timestamp() AS after
                        FROM generate_series(1, 200000) OFFSET 0) calls) ids";
        assert_eq!(value(&mut client, query), "200000 of 200000, wrong: 0", "time_stamp_counter = {counter}");
    }
}

#[test]
fn a_full_millisecond_is_waited_for_even_by_a_server_that_never_waits_for_its_clock() {
    let cluster = Cluster::builder().worker(1).set("snowflake_pg.max_wait", 0).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM snowflake_nextvals(50000) id"), "50000");
}
