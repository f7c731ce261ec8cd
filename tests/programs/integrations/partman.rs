//! pg_partman, which partitions by number.

use super::column;
use testbed::postgres::Client;
use testbed::{Cluster, need_extension, test};

/// The width of a day in IDs.
const DAY: &str = "(snowflake_min_id('2026-01-02Z') - snowflake_min_id('2026-01-01Z'))::text";

/// A server of this layout with pg_partman and a table that it partitions by the day.
fn server(layout: &str) -> (Cluster, Client) {
    need_extension("pg_partman");
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").set("snowflake_pg.layout", layout).start();
    let mut client = cluster.connect();
    client
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg; CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman;
             CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), what text) PARTITION BY RANGE (id);
             SELECT partman.create_parent('public.events', 'id', 'native', {DAY}, p_premake => 3,
                 p_start_partition => snowflake_min_id(now() - interval '3 days')::text);
             INSERT INTO events (what) SELECT 'a' FROM generate_series(1, 1000);
             UPDATE partman.part_config SET premake = 30, infinite_time_partitions = true;
             SELECT partman.run_maintenance('public.events')"
        ))
        .expect("partitions");
    (cluster, client)
}

const PARTITIONS: &str = "SELECT DISTINCT %
    FROM (SELECT substring(pg_get_expr(relpartbound, oid) FROM '\\((?:'')?(\\d+)')::bigint AS since FROM pg_class
        WHERE relispartition AND relkind = 'r' AND pg_get_expr(relpartbound, oid) <> 'DEFAULT') s";

/// The times of day at which partitions begin.
fn beginnings(client: &mut Client) -> Vec<String> {
    column(client, &PARTITIONS.replace('%', "snowflake_timestamp(since)::time::text"))
}

#[test]
fn days_of_pg_partman_begin_at_midnight_if_the_epoch_of_the_layout_does() {
    let (_cluster, mut client) = server("t41 d5 w5 s12 epoch=2024-01-01T00:00:00Z");
    assert_eq!(beginnings(&mut client), ["00:00:00"]);
    assert_eq!(column(&mut client, &PARTITIONS.replace('%', "(count(*) > 30)::text")), ["true"]);
    assert_eq!(column(&mut client, "SELECT count(*)::text FROM events_default"), ["0"], "today has a partition");
}

/// By its arithmetic, periods are counted from ID 0, which is the layout's epoch.
#[test]
fn days_of_pg_partman_begin_at_the_time_of_day_of_the_epoch_otherwise() {
    let (_cluster, mut client) = server("twitter");
    assert_eq!(beginnings(&mut client), ["01:42:54.657"]);
}

#[test]
fn pg_partman_drops_days_that_are_older_than_its_retention() {
    let (_cluster, mut client) = server("twitter");
    client
        .batch_execute(&format!(
            "UPDATE partman.part_config SET retention = {DAY}, retention_keep_table = false;
             SELECT partman.run_maintenance('public.events')"
        ))
        .expect("maintenance");
    let oldest =
        "(min(snowflake_timestamp(since)) BETWEEN now() - interval '2 days' AND now() - interval '1 day')::text";
    assert_eq!(column(&mut client, &PARTITIONS.replace('%', oldest)), ["true"]);
    assert_eq!(column(&mut client, "SELECT count(*)::text FROM events"), ["1000"]);
}
