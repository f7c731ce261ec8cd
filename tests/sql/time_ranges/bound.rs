//! `snowflake_bound()`: a comparison with it is true for an ID if the comparison of the ID's time is.

use super::database;
use testbed::postgres::Client;
use testbed::{error, test, value};

/// Layouts in which the time orders a bigint, also with IDs of 64 bits, of which the negative ones are not compared.
const LAYOUTS: &[&str] = &[
    "flat",
    "sonyflake",
    "tsid",
    "t41 w5 s9 h8",
    "t30 w8 s12 unit=1s epoch=2024-01-01T00:00:00Z",
    "t41 d1 w1 h1 s1 unit=333ms",
    "t41 s22",
];

/// IDs and times around the ends of ticks, of the layout and of all times, and at random.
const PAIRS: &str = "CREATE FUNCTION pairs(layout text) RETURNS TABLE (id bigint, at timestamptz) BEGIN ATOMIC
    WITH ids AS (
        SELECT snowflake_bound('infinity', '<=', layout) AS id UNION SELECT 0
        UNION SELECT (random() * snowflake_bound('infinity', '<=', layout)::double precision * 0.999)::bigint FROM generate_series(1, 30)),
    -- Few layouts last beyond PostgreSQL's times.
    near AS (
        SELECT i.id + n AS id FROM ids i, generate_series(-1, 1) n WHERE i.id + n::numeric BETWEEN 0 AND snowflake_bound('infinity', '<=', layout)),
    times AS (
        SELECT snowflake_timestamp(id, layout) + us * interval '1 us' AS at FROM near, (VALUES (-1), (0), (1), (500000)) n(us)
        UNION SELECT unnest('{-infinity, infinity, 1969-07-20 20:17:40.000001Z, 4713-01-01 BC, 2026-01-01Z}'::timestamptz[]))
    SELECT near.id, times.at FROM near, times
        WHERE layout <> 'tsid' OR NOT isfinite(at) OR at < snowflake_timestamp(snowflake_bound('infinity', '<=', layout), layout) - interval '3 s';
    END";

/// How many pairs there are, and how many of them differ.
fn differences(client: &mut Client, layout: &str, condition: &str) -> (usize, usize) {
    let query = format!(
        "SELECT count(*)::text, count(*) FILTER (WHERE {condition})::text FROM (
             SELECT id, at, '{layout}'::text AS layout FROM pairs('{layout}') OFFSET 0) s"
    );
    let row = client.query_one(&query, &[]).unwrap_or_else(|error| panic!("{layout}: {error:?}"));
    let number = |n: usize| row.get::<_, String>(n).parse().expect("a number");
    (number(0), number(1))
}

#[test]
fn an_id_is_beyond_a_bound_exactly_if_its_time_compares_so() {
    let (_database, mut client) = database();
    client.batch_execute(PAIRS).expect("a function");
    // A bound of NULL is one that no ID is beyond.
    for layout in LAYOUTS {
        for (operator, beyond) in [(">=", ">="), (">", ">="), ("<=", "<="), ("<", "<=")] {
            let condition = format!(
                "coalesce(id {beyond} snowflake_bound(at, '{operator}', layout), false) <> (snowflake_timestamp(id, layout) {operator} at)"
            );
            let (pairs, differ) = differences(&mut client, layout, &condition);
            assert!(pairs > 10_000, "{layout}: {pairs} pairs");
            assert_eq!(differ, 0, "{layout} {operator}");
        }
        let within = "snowflake_within(id, at, at + interval '3 s', layout) IS TRUE
            <> (snowflake_timestamp(id, layout) >= at AND snowflake_timestamp(id, layout) < at + interval '3 s')";
        assert_eq!(differences(&mut client, layout, within).1, 0, "{layout}");
    }
}

#[test]
fn a_bound_takes_the_four_operators_and_any_time() {
    let (_database, mut client) = database();
    for (arguments, expected) in [
        ("'2026-01-01Z', '>='", "2006515713438646272"),
        ("'2026-01-01Z', '<'", "2006515713438646271"),
        ("'2026-01-01Z', '>'", "2006515713442840576"),
        ("'2026-01-01Z', '<='", "2006515713442840575"),
        ("'infinity', '<'", "9223372036854775807"),
        ("'infinity', '>='", "NULL"),
        ("'2100-01-01Z', '>'", "NULL"),
        ("'-infinity', '<='", "NULL"),
        ("'-infinity', '>'", "-9223372036854775808"),
        ("'-infinity', '>', 'tsid'", "0"),
        ("'infinity', '<', 'tsid'", "9223372036854775807"),
        ("'infinity', '<', 'js'", "9007199254740991"),
    ] {
        assert_eq!(value(&mut client, &format!("SELECT snowflake_bound({arguments})")), expected, "{arguments}");
    }
    for operator in ["=", "<>", " >", "between", ""] {
        let refused = error(&mut client, &format!("SELECT snowflake_bound(now(), '{operator}')"));
        let message = format!("unrecognized operator: \"{operator}\"");
        let hint = Some("Operators are >=, >, <= and <.");
        assert_eq!((refused.code().code(), refused.message(), refused.hint()), ("22023", &*message, hint));
    }
    for (call, code, message) in [
        ("snowflake_bound('2100-01-01Z', '<', 'tsid')", "22008", "timestamp is after the last bigint of the layout"),
        ("snowflake_bound(now(), '<', 'w10 t41')", "22023", "IDs of this layout do not sort by time"),
        ("snowflake_min_id('infinity')", "22008", "timestamp is after the end of the layout"),
        ("snowflake_min_id('-infinity')", "22008", "timestamp is before the epoch of the layout"),
    ] {
        let refused = error(&mut client, &format!("SELECT {call}"));
        assert_eq!((refused.code().code(), refused.message()), (code, message), "{call}");
    }
}
