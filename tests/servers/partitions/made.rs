//! What it makes.

use super::{create, rows, server};
use testbed::postgres::Client;
use testbed::{error, plan, test, value};

#[test]
fn each_period_gets_a_partition_once_by_the_calendar_of_utc_in_every_time_zone() {
    let (_cluster, mut client) = server();
    for zone in ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati"] {
        client.batch_execute(&format!("SET timezone = '{zone}'")).expect("a time zone");
        for (every, expected) in [
            (
                "1 day",
                [
                    "day_20240228|2024-02-28 00:00:00|2024-02-29 00:00:00",
                    "day_20240229|2024-02-29 00:00:00|2024-03-01 00:00:00",
                ],
            ),
            (
                "1 week",
                [
                    "day_20240226|2024-02-26 00:00:00|2024-03-04 00:00:00",
                    "day_20240304|2024-03-04 00:00:00|2024-03-11 00:00:00",
                ],
            ),
            (
                "1 month",
                [
                    "day_20240201|2024-02-01 00:00:00|2024-03-01 00:00:00",
                    "day_20240301|2024-03-01 00:00:00|2024-04-01 00:00:00",
                ],
            ),
            (
                "3 months",
                [
                    "day_20240101|2024-01-01 00:00:00|2024-04-01 00:00:00",
                    "day_20240401|2024-04-01 00:00:00|2024-07-01 00:00:00",
                ],
            ),
            (
                "1 year",
                [
                    "day_20240101|2024-01-01 00:00:00|2025-01-01 00:00:00",
                    "day_20250101|2025-01-01 00:00:00|2026-01-01 00:00:00",
                ],
            ),
            (
                "6 hours",
                [
                    "day_20240228_1200|2024-02-28 12:00:00|2024-02-28 18:00:00",
                    "day_20240228_1800|2024-02-28 18:00:00|2024-02-29 00:00:00",
                ],
            ),
        ] {
            client.batch_execute("CREATE TABLE day (id bigint PRIMARY KEY) PARTITION BY RANGE (id)").expect("a table");
            let arguments = format!("'day', '{every}', 1");
            assert_eq!(create(&mut client, &arguments), expected, "{zone}");
            assert!(create(&mut client, &arguments).is_empty(), "{zone}: the second call finds all that it wants");
            client.batch_execute("DROP TABLE day").expect("a table");
        }
    }
}

#[test]
fn ids_lie_in_the_partition_of_their_time_to_the_millisecond() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE event (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
             SELECT snowflake_create_partitions('event', '1 day', 2);
             INSERT INTO event SELECT snowflake_min_id(timestamptz '2024-02-28Z' + n * interval '1 hour' + ms * interval '1 ms')
             FROM generate_series(0, 71) n, generate_series(0, 999, 333) ms;
             INSERT INTO event SELECT snowflake_min_id(day) - 1
             FROM unnest(ARRAY[timestamptz '2024-02-29Z', '2024-03-01Z', '2024-03-02Z']) day",
        )
        .expect("rows in all partitions");
    assert_eq!(
        value(
            &mut client,
            "SELECT count(*) FROM event
             WHERE tableoid::regclass::text <> to_char(snowflake_timestamp(id) AT TIME ZONE 'UTC', '\"event_\"YYYYMMDD')"
        ),
        "0"
    );
    for outside in ["snowflake_min_id('2024-02-28Z') - 1", "snowflake_min_id('2024-03-02Z')"] {
        assert_eq!(error(&mut client, &format!("INSERT INTO event SELECT {outside}")).code().code(), "23514");
    }
}

/// Everything the catalogs say of a table that makes a difference, but for its bounds.
fn description(client: &mut Client, table: &str) -> String {
    let query = format!(
        "SELECT jsonb_pretty(replace(jsonb_build_array(
             (SELECT to_jsonb(c) - '{{oid,relname,reltype,relfilenode,reltoastrelid,relfrozenxid,relminmxid,relpartbound,
                                    relpages,reltuples}}'::text[] FROM pg_class c WHERE oid = t),
             (SELECT jsonb_agg(to_jsonb(a) - '{{attrelid,attoptions}}'::text[] ORDER BY attnum) FROM pg_attribute a
              WHERE attrelid = t AND attnum > 0),
             -- PostgreSQL 15.20 keeps a number of each table's own there, too.
             (SELECT jsonb_agg(option ORDER BY attnum) FROM pg_attribute, unnest(attoptions) option
              WHERE attrelid = t AND option NOT LIKE 'pg_attver=%'),
             (SELECT jsonb_agg(pg_get_expr(adbin, adrelid) ORDER BY adnum) FROM pg_attrdef WHERE adrelid = t),
             (SELECT jsonb_agg(ARRAY[conname, contype, conislocal, coninhcount, convalidated, connoinherit,
                                     conparentid > 0, pg_get_constraintdef(oid)]::text[] ORDER BY conname)
              FROM pg_constraint WHERE conrelid = t),
             (SELECT jsonb_agg(pg_get_indexdef(indexrelid) ORDER BY 1) FROM pg_index WHERE indrelid = t),
             (SELECT jsonb_agg(ARRAY[tgname, tgenabled, tgparentid > 0, pg_get_triggerdef(oid)]::text[] ORDER BY tgname)
              FROM pg_trigger WHERE tgrelid = t AND NOT tgisinternal),
             (SELECT count(*) FROM pg_trigger WHERE tgrelid = t),
             (SELECT count(*) FROM pg_statistic_ext WHERE stxrelid = t),
             (SELECT count(*) FROM pg_description WHERE objoid = t),
             (SELECT jsonb_agg(deptype::text || refclassid::regclass ORDER BY 1) FROM pg_depend WHERE objid = t)
         )::text, '{table}', 'TABLE')::jsonb) FROM (SELECT '{table}'::regclass::oid AS t) t"
    );
    value(client, &query)
}

#[test]
fn a_partition_is_what_partition_of_would_have_made() {
    let (_cluster, mut client) = server();
    client.batch_execute("SET allow_in_place_tablespaces = on").expect("a setting");
    client.batch_execute("CREATE TABLESPACE elsewhere LOCATION ''").expect("a tablespace");
    client
        .batch_execute(
            "CREATE TABLE customer (id integer PRIMARY KEY);
             CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
             CREATE TABLE orders (
                 gone integer,
                 id bigint,
                 item text COLLATE \"C\" NOT NULL DEFAULT 'tea' CONSTRAINT named CHECK (item <> ''),
                 number serial,
                 twice integer GENERATED ALWAYS AS (number * 2) STORED,
                 counted integer GENERATED BY DEFAULT AS IDENTITY,
                 customer integer REFERENCES customer ON DELETE CASCADE,
                 CONSTRAINT several CHECK (number < twice OR number <= 0),
                 PRIMARY KEY (id), UNIQUE (id, item))
                 PARTITION BY RANGE (id) TABLESPACE elsewhere;
             ALTER TABLE orders DROP COLUMN gone;
             ALTER TABLE orders ALTER item SET STORAGE EXTERNAL, ALTER item SET COMPRESSION pglz,
                 ALTER item SET STATISTICS 7, ALTER item SET (n_distinct = 5);
             ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
             CREATE INDEX ON orders (lower(item)) WHERE number > 1;
             CREATE STATISTICS together ON item, number FROM orders;
             CREATE TRIGGER always BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION nothing();
             COMMENT ON TABLE orders IS 'a comment'; COMMENT ON COLUMN orders.item IS 'another';
             CREATE TABLE line (orders bigint REFERENCES orders);
             CREATE TABLE orders_19990101 PARTITION OF orders FOR VALUES FROM (0) TO (1);
             SELECT snowflake_create_partitions('orders', '1 day', 0)",
        )
        .expect("a table with everything");
    let twin = description(&mut client, "orders_19990101");
    assert_eq!(description(&mut client, "orders_20240228"), twin);
    assert!(twin.contains("named") && twin.contains("lower(item)") && twin.contains("always"), "{twin}");
    assert_eq!(
        value(
            &mut client,
            "SELECT spcname FROM pg_class c JOIN pg_tablespace s ON s.oid = reltablespace WHERE relname = 'orders_20240228'"
        ),
        "elsewhere"
    );
}

#[test]
fn only_what_no_partition_covers_gets_one() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE TABLE log (id bigint) PARTITION BY RANGE (id)").expect("a table");
    // From days to weeks: what the days have left of the week is before and after them.
    assert_eq!(create(&mut client, "'log', '1 day', 1").len(), 2);
    assert_eq!(
        create(&mut client, "'log', '1 week', 0"),
        [
            "log_20240226|2024-02-26 00:00:00|2024-02-28 00:00:00",
            "log_20240301|2024-03-01 00:00:00|2024-03-04 00:00:00"
        ]
    );
    // Back to days: the first that is missing follows the week.
    assert_eq!(create(&mut client, "'log', '1 day', 5"), ["log_20240304|2024-03-04 00:00:00|2024-03-05 00:00:00"]);
    // A hole in the middle, and a partition that begins where no period does.
    client.batch_execute("DROP TABLE log_20240229").expect("a hole");
    let by_hand = value(
        &mut client,
        "SELECT format('CREATE TABLE by_hand PARTITION OF log FOR VALUES FROM (%s) TO (%s)',
                       snowflake_min_id('2024-02-29 06:00Z'), snowflake_min_id('2024-02-29 07:30:15Z'))",
    );
    client.batch_execute(&by_hand).expect("a partition");
    assert_eq!(
        create(&mut client, "'log', '1 month', 0"),
        [
            "log_20240201|2024-02-01 00:00:00|2024-02-26 00:00:00",
            "log_20240229|2024-02-29 00:00:00|2024-02-29 06:00:00",
            "log_20240229_073015|2024-02-29 07:30:15|2024-03-01 00:00:00"
        ]
    );
    // All of time, but for a day.
    client
        .batch_execute(
            "CREATE TABLE open (id bigint) PARTITION BY RANGE (id);
             DO $$ BEGIN
                 EXECUTE format('CREATE TABLE past PARTITION OF open FOR VALUES FROM (MINVALUE) TO (%s)',
                                snowflake_min_id('2024-02-29Z'));
                 EXECUTE format('CREATE TABLE future PARTITION OF open FOR VALUES FROM (%s) TO (MAXVALUE)',
                                snowflake_min_id('2024-03-01Z'));
             END $$",
        )
        .expect("partitions without an end");
    assert_eq!(create(&mut client, "'open', '1 month', 9"), ["open_20240229|2024-02-29 00:00:00|2024-03-01 00:00:00"]);
}

#[test]
fn partitions_reach_from_the_epoch_at_the_earliest_to_the_end_of_the_layout_at_the_latest() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TABLE young (id bigint) PARTITION BY RANGE (id);
             CREATE TABLE old (id bigint) PARTITION BY RANGE (id);
             CREATE TABLE coarse (id bigint) PARTITION BY RANGE (id)",
        )
        .expect("tables");
    let bounds =
        "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relispartition AND relname LIKE 'NAME%' ORDER BY 1";
    assert_eq!(
        create(&mut client, "'young', '1 day', 0, 'twitter epoch=2024-02-28T06:00:00Z'"),
        ["young_20240228_0600|2024-02-28 06:00:00|2024-02-29 00:00:00"]
    );
    assert_eq!(
        rows(&mut client, &bounds.replace("NAME", "young")),
        [format!("FOR VALUES FROM ('0') TO ('{}')", (18 * 3_600_000_u64) << 22)]
    );
    assert_eq!(
        create(&mut client, "'old', '10 years', 1, 'flat epoch=0'")[1],
        "old_20300101|2030-01-01 00:00:00|2039-09-07 15:47:35.552"
    );
    assert!(rows(&mut client, &bounds.replace("NAME", "old_2030"))[0].ends_with("TO (MAXVALUE)"));
    // Ticks of a second that begin between the seconds of the clock.
    assert_eq!(
        create(&mut client, "'coarse', '1 day', 0, 't31 w20 s12 unit=1s epoch=2020-01-01T00:00:00.657Z'"),
        ["coarse_20240228|2024-02-28 00:00:00.657|2024-02-29 00:00:00.657"]
    );
    let beyond = error(&mut client, "SELECT snowflake_create_partitions('old', '10 years', 2, 'flat epoch=0')");
    assert_eq!((beyond.code().code(), beyond.message()), ("22008", "the layout ends before the last partition begins"));
}

#[test]
fn temporary_and_sub_partitioned_tables_and_other_types_of_the_id_can_have_partitions_by_time() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE TEMPORARY TABLE brief (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
             CREATE TABLE region (id bigint, name text) PARTITION BY LIST (name);
             CREATE TABLE east PARTITION OF region FOR VALUES IN ('east') PARTITION BY RANGE (id);
             CREATE DOMAIN order_id AS bigint CHECK (value > 0);
             CREATE TABLE tame (id order_id) PARTITION BY RANGE (id);
             CREATE TABLE typed (id snowflake PRIMARY KEY) PARTITION BY RANGE (id)",
        )
        .expect("tables");
    for table in ["brief", "east", "tame", "typed"] {
        assert_eq!(create(&mut client, &format!("'{table}', '1 day', 1")).len(), 2, "{table}");
        assert!(create(&mut client, &format!("'{table}', '1 day', 1")).is_empty(), "{table}");
    }
    client
        .batch_execute(
            "INSERT INTO region VALUES (snowflake_min_id(now()), 'east');
             INSERT INTO typed VALUES (snowflake_min_id(now()))",
        )
        .expect("rows");
    assert_eq!(value(&mut client, "SELECT relpersistence FROM pg_class WHERE relname = 'brief_20240228'"), "t");
}

#[test]
fn a_day_of_a_table_with_thirty_is_read_from_one_partition() {
    for id in ["bigint", "snowflake"] {
        let (_cluster, mut client) = server();
        client
            .batch_execute(&format!(
                "CREATE TABLE orders (id {id} PRIMARY KEY, n integer) PARTITION BY RANGE (id);
                 SELECT snowflake_create_partitions('orders', '1 day', 29);
                 INSERT INTO orders SELECT snowflake_min_id(timestamptz '2024-02-28Z' + n * interval '1 minute'), n
                 FROM generate_series(0, 30 * 1440 - 1) n;
                 ANALYZE orders"
            ))
            .expect("thirty days");
        let range = "snowflake_within(id, '2024-03-10Z', '2024-03-11Z')";
        let query = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM orders WHERE {range}");
        let plan = plan(&mut client, &query);
        assert!(plan.contains("Subplans Removed: 29"), "{id}: {plan}");
        assert!(plan.contains("on orders_20240310") && plan.matches(" on orders_").count() == 1, "{id}: {plan}");
        assert_eq!(value(&mut client, &format!("SELECT count(*) FROM orders WHERE {range}")), "1440");
    }
}

#[test]
fn partitions_can_be_made_wherever_the_extension_lives() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "DROP EXTENSION snowflake_pg; CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids;
             CREATE SCHEMA other; ALTER EXTENSION snowflake_pg SET SCHEMA other;
             CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
             SET search_path = ''",
        )
        .expect("schemas");
    let query = "SELECT partition FROM other.snowflake_create_partitions('shop.orders', '1 day', 0)";
    assert_eq!(value(&mut client, query), "shop.orders_20240228");
}
