//! IDs that another server has issued.

use super::fixture::{conninfo, member, start};
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{Cluster, Registry, Signal, error, test, value};

fn issued_elsewhere(client: &mut Client, id: &str) -> String {
    value(client, &format!("SELECT snowflake_issued_elsewhere({id})"))
}

/// A server of data center 3 that has issued an ID.
fn server() -> (Cluster, Client) {
    let cluster = start(member(7).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", 3));
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    (cluster, client)
}

#[test]
fn ids_that_this_server_issues_were_not_issued_elsewhere() {
    let (mut cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE t AS SELECT id, snowflake_issued_elsewhere(id) AS at_once FROM snowflake_nextvals(10000) id",
        )
        .expect("IDs");
    let any = "SELECT bool_or(at_once OR snowflake_issued_elsewhere(id)) FROM t";
    assert_eq!(value(&mut client, any), "f");
    assert_eq!(issued_elsewhere(&mut client, "snowflake_nextval()"), "f");
    for how in [Signal::INT, Signal::QUIT] {
        cluster.restart(how);
        let mut client = cluster.connect();
        client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
        assert_eq!(value(&mut client, any), "f", "after {how:?}");
    }
}

/// Each ID is checked by a session that has it from another one.
#[test]
fn ids_that_this_server_issues_meanwhile_were_not_issued_elsewhere() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE TABLE t (id bigint DEFAULT snowflake_nextval(), n integer)").expect("a table");
    let load = testbed::Load::start(&cluster, 3, "INSERT INTO t SELECT FROM generate_series(1, 20) RETURNING id");
    load.wait_for_ids();
    let mut checked = 0;
    for _ in 0..200 {
        let query = "SELECT count(*) || ' ' || count(*) FILTER (WHERE snowflake_issued_elsewhere(id))
            FROM (SELECT id FROM t WHERE ctid >= (SELECT format('(%s,0)', greatest(pg_relation_size('t') / 8192 - 5, 0))::tid)) s";
        let counts = value(&mut client, query);
        let (seen, elsewhere) = counts.split_once(' ').expect("two numbers");
        assert_eq!(elsewhere, "0");
        checked += seen.parse::<u64>().expect("a number");
    }
    assert!(checked > 1000, "{checked}");
    load.finish();
}

#[test]
fn ids_of_other_workers_were_not_issued_elsewhere_and_neither_was_what_is_no_id() {
    let (_cluster, mut client) = server();
    for id in [
        "snowflake_compose(now() + interval '1 day', 3, 8, 0)",
        "snowflake_compose(now() + interval '1 day', 2, 7, 0)",
        "snowflake_compose('2011-01-01', 3, 8, 0)",
        "-1",
        "'-9223372036854775808'",
    ] {
        assert_eq!(issued_elsewhere(&mut client, id), "f", "{id}");
    }
    assert_eq!(issued_elsewhere(&mut client, "NULL"), "NULL");
    let narrow = start(member(7).set("snowflake_pg.layout", "t40 w10 s10 epoch=2024-01-01T00:00:00Z"));
    let mut client = narrow.connect();
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    let (lowest, too_wide) = ("7::bigint << 10", "(1::bigint << 61) | (7::bigint << 10)");
    assert_eq!(issued_elsewhere(&mut client, lowest), "t");
    assert_eq!(error(&mut client, &format!("SELECT snowflake_decode({too_wide})")).code().code(), "22003");
    assert_eq!(issued_elsewhere(&mut client, too_wide), "f", "though its lower bits are the same");
}

#[test]
fn an_id_of_this_worker_above_the_last_one_issued_was_issued_elsewhere() {
    let (cluster, mut client) = server();
    cluster.settle();
    let last = value(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(issued_elsewhere(&mut client, &last), "f");
    assert_eq!(issued_elsewhere(&mut client, &format!("{last} + 1")), "t", "the next one of the same tick");
    assert_eq!(issued_elsewhere(&mut client, "snowflake_compose(now() + interval '1 hour', 3, 7, 0)"), "t");
    let ahead = value(&mut client, "SELECT snowflake_compose(clock_timestamp() + interval '2 s', 3, 7, 5)");
    assert_eq!(issued_elsewhere(&mut client, &ahead), "t");
    client.batch_execute(&format!("SELECT snowflake_advance({ahead})")).expect("an advance");
    assert_eq!(issued_elsewhere(&mut client, &ahead), "f", "the server cannot issue it any more");
}

#[test]
fn an_id_of_this_worker_from_before_the_cluster_was_made_was_issued_elsewhere() {
    let (_cluster, mut client) = server();
    let made = "to_timestamp((SELECT system_identifier FROM pg_control_system()) >> 32)";
    for (when, expected) in [
        (format!("{made} - interval '1 day'"), "f"),
        (format!("{made} - interval '1 day' - interval '1 ms'"), "t"),
        (format!("{made} - interval '1 year'"), "t"),
        (format!("{made} - interval '1 hour'"), "f"),
        ("'2010-11-05'".to_owned(), "t"),
    ] {
        assert_eq!(issued_elsewhere(&mut client, &format!("snowflake_compose({when}, 3, 7, 0)")), expected, "{when}");
    }
}

/// A registry gives a worker to one server after the other.
#[test]
fn an_id_from_before_a_lease_was_not_issued_elsewhere() {
    let registry = Registry::start();
    let builder = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let cluster = start(builder);
    let mut client = cluster.connect();
    let worker = value(&mut client, "SELECT worker_id FROM snowflake_decode(snowflake_nextval())");
    assert_eq!(issued_elsewhere(&mut client, &format!("snowflake_compose('2020-01-01', 0, {worker}, 0)")), "f");
    assert_eq!(
        issued_elsewhere(&mut client, &format!("snowflake_compose(now() + interval '1 day', 0, {worker}, 0)")),
        "t"
    );
}

#[test]
fn a_server_that_issues_no_ids_does_not_know_which_were_issued_elsewhere() {
    let ids = ["snowflake_compose('2011-01-01', 0, 1, 0)", "snowflake_compose('2070-01-01', 0, 1, 0)"];
    let builders =
        [Cluster::builder(), Cluster::builder().set("shared_preload_libraries", "snowflake_pg"), member(5000)];
    for builder in builders {
        let cluster = start(builder);
        for id in ids {
            assert_eq!(issued_elsewhere(&mut cluster.connect(), id), "NULL", "{id}");
        }
    }
    let primary = start(member(2));
    let standby = member(1).standby_of(&primary);
    for id in ids {
        assert_eq!(issued_elsewhere(&mut standby.connect(), id), "NULL", "{id}");
    }
    assert_eq!(issued_elsewhere(&mut standby.connect(), "snowflake_compose(now(), 0, 2, 0)"), "f", "another worker's");
    // It waits until a mark that may have been lost can't matter any more.
    let waiting = start(member(1).set("snowflake_pg.max_borrow", "1h").set("snowflake_pg.max_first_wait", "1h"));
    assert_eq!(issued_elsewhere(&mut waiting.connect(), ids[1]), "NULL");
}

#[test]
fn a_duplicate_worker_shows_in_replicated_rows_before_it_collides() {
    let publisher = start(member(1).set("wal_level", "logical"));
    let subscriber = start(member(1));
    let table = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)";
    for cluster in [&publisher, &subscriber] {
        cluster.connect().batch_execute(table).expect("a table");
    }
    publisher.settle();
    subscriber.connect().batch_execute("INSERT INTO orders (item) VALUES ('own'), ('own')").expect("rows");
    std::thread::sleep(Duration::from_millis(50));
    publisher
        .connect()
        .batch_execute("CREATE PUBLICATION p FOR TABLE orders; INSERT INTO orders (item) VALUES ('tea'), ('cake')")
        .expect("rows");
    let subscribe = format!("CREATE SUBSCRIPTION s CONNECTION '{}' PUBLICATION p", conninfo(&publisher));
    subscriber.connect().batch_execute(&subscribe).expect("a subscription");
    subscriber.wait_until("SELECT count(*) = 4 FROM orders");
    let mut client = subscriber.connect();
    let query = "SELECT string_agg(item, ' ' ORDER BY id) FROM orders
        WHERE id >= snowflake_min_id(now() - interval '1 hour') AND snowflake_issued_elsewhere(id)";
    assert_eq!(value(&mut client, query), "tea cake");
    let rows = client.query(&format!("EXPLAIN {}", query.replace("orders\n", "orders /*+ */")), &[]).expect("a plan");
    let plan: String = rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect();
    assert!(plan.contains("Index Cond: (id >= "), "{plan}");
    client.batch_execute("DROP SUBSCRIPTION s").expect("the end");
}
