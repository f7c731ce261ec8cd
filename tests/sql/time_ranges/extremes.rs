//! Times that are far away.

use super::database;
use testbed::{test, value};

/// PostgreSQL's operators compare them, and its casts refuse them.
#[test]
fn a_date_or_timestamp_that_no_timestamptz_can_be_is_compared_as_postgresql_does() {
    let (_database, mut client) = database();
    client
        .batch_execute(
            "DELETE FROM orders WHERE item::integer >= 60;
             CREATE VIEW in_utc AS SELECT id, to_timestamp(((id >> 22) + 1288834974657) / 1000.0) AT TIME ZONE 'UTC' AS created_at FROM orders;
             CREATE TABLE ends (day date, at timestamp); INSERT INTO ends VALUES ('999999-12-31', '294276-12-31 23:59'), ('infinity', 'infinity'), (NULL, NULL),
                 ('4714-11-24 BC', '4714-11-24 00:00:01 BC'), ('2026-01-01', '2026-01-01 00:00:30'), ('-infinity', '-infinity'), ('294276-12-31', '294276-12-31');
             SET plan_cache_mode = force_generic_plan; SET jit = off",
        )
        .expect("times");
    let mut compared = 0;
    for zone in ["UTC", "America/New_York", "Asia/Kathmandu"] {
        for view in ["seen", "in_utc"] {
            for operator in ["<", "<=", "=", ">=", ">"] {
                let conditions = ["ends.day", "ends.at"].map(|end| {
                    format!("SELECT string_agg(n::text, ' ' ORDER BY day, at) FROM ends, LATERAL (SELECT count(*) AS n FROM {view} WHERE created_at {operator} {end}) s")
                });
                let constants = ["'999999-12-31'::date", "'294276-12-31 23:59'::timestamp", "'4714-11-24 BC'::date"]
                    .map(|end| format!("SELECT count(*) FROM {view} WHERE created_at {operator} {end}"));
                let rows =
                    format!("SELECT count(*) FROM {view} WHERE (created_at, id) {operator} ('999999-12-31'::date, 5)");
                for query in conditions.iter().chain(&constants).chain([&rows]) {
                    let [on, off] = ["on", "off"].map(|setting| {
                        let settings =
                            format!("SET TIME ZONE '{zone}'; SET snowflake_pg.enable_time_ranges = {setting}");
                        client.batch_execute(&settings).expect("settings");
                        value(&mut client, query)
                    });
                    assert_eq!(on, off, "{zone}: {query}");
                    compared += 1;
                }
            }
        }
    }
    assert_eq!(compared, 180);
    client
        .batch_execute(
            "SET snowflake_pg.enable_time_ranges = on; PREPARE until AS SELECT count(*) FROM seen WHERE created_at < $1::date",
        )
        .expect("a query");
    assert_eq!(value(&mut client, "EXECUTE until('999999-12-31')"), "60");
    assert_eq!(value(&mut client, "EXECUTE until('2026-01-01')"), "0");
}

/// `to_timestamp(double precision)` is exact until 2242.
#[test]
fn a_column_is_its_own_value_also_in_a_layout_that_lasts_beyond_microseconds() {
    let (_database, mut client) = database();
    let layout = "t46 w8 s9 epoch=2020-01-01T00:00:00Z";
    let expression = value(&mut client, &format!("SELECT snowflake_time_expression('id', 'timestamptz', '{layout}')"));
    client
        .batch_execute(&format!(
            "CREATE TABLE late (id bigint PRIMARY KEY, created_at timestamptz GENERATED ALWAYS AS ({expression}) STORED);
             INSERT INTO late SELECT snowflake_compose('2276-01-28Z'::timestamptz + n * interval '1 ms', NULL, 7, 0, 0, '{layout}')
                 FROM generate_series(530, 549) n"
        ))
        .expect("a table");
    client.batch_execute("SET jit = off").expect("a setting");
    let own = "SELECT created_at FROM late ORDER BY id";
    let own: Vec<String> = client
        .query(&format!("SELECT to_json(created_at)::text FROM ({own}) s"), &[])
        .expect("times")
        .iter()
        .map(|row| row.get::<_, String>(0).replace('"', "'"))
        .collect();
    assert!(own.iter().any(|time| time.contains("001+")), "none is a microsecond off: {own:?}");
    for time in own {
        assert_eq!(value(&mut client, &format!("SELECT count(*) FROM late WHERE created_at = {time}")), "1", "{time}");
    }
}
