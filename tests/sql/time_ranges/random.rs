//! Random queries give the same rows with and without ranges.

use fastrand::Rng;
use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{Cluster, need_extension, postgresql, test};

/// Queries for each seed.
const QUERIES: usize = 1500;

/// Layouts in which the time orders a bigint, the first one in force, the others named.
const LAYOUTS: [&str; 5] = [
    "flat",
    "sonyflake",
    "t41 w5 s9 h8",
    "t30 w8 s12 unit=1s epoch=2024-01-01T00:00:00Z",
    "t41 w5 h8 s9 epoch=2025-12-31T23:59:59.999Z",
];

#[test]
fn random_queries_give_the_same_rows_as_without_ranges() {
    let seed =
        std::env::var("SNOWFLAKE_PG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("SNOWFLAKE_PG_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    need_extension("postgres_fdw");
    client
        .batch_execute(&format!(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION postgres_fdw;
             CREATE SERVER same FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{}', dbname 'postgres');
             CREATE USER MAPPING FOR CURRENT_USER SERVER same OPTIONS (user 'postgres')",
            cluster.host().display()
        ))
        .expect("the extensions");
    let ids = make_tables(&mut client, &mut random);
    let (mut ranges, mut ordered) = (0, 0);
    for _ in 0..QUERIES {
        let zone = ["UTC", "America/New_York", "Asia/Kathmandu"][random.usize(..3)];
        // These tables are small: they are sorted unless this costs more.
        let sort = random.bool();
        client.batch_execute(&format!("SET TIME ZONE '{zone}'; SET enable_sort = {sort}")).expect("settings");
        let query = query(&mut random);
        let [with, without] = ["on", "off"].map(|setting| {
            client
                .batch_execute(&format!("SET snowflake_pg.enable_time_ranges = {setting}; BEGIN"))
                .expect("a setting");
            let rows = rows(&mut client, &query);
            client.batch_execute("ROLLBACK").expect("the end");
            rows
        });
        assert_eq!(with, without, "seed {seed}: {query}");
        client.batch_execute("SET snowflake_pg.enable_time_ranges = on").expect("a setting");
        let shown = rows(&mut client, &format!("EXPLAIN (VERBOSE) {query}")).concat();
        ranges += usize::from(shown.contains("id >= "));
        ordered += usize::from(query.contains(" LIMIT ") && !shown.contains("Sort"));
    }
    println!(
        "{QUERIES} queries over {ids} IDs, {ranges} with a range from below, {ordered} in the order of a key: 0 differences"
    );
    assert!(ranges > QUERIES / 5 && ordered > QUERIES / 50, "{ranges} {ordered}");
}

/// An ID of 2026, or near it, in some layouts.
const MIDDLE: i64 = 2_006_515_713_438_646_272;

/// Makes a table for each layout, with IDs at the ends of ticks, and returns how many IDs there are.
fn make_tables(client: &mut Client, random: &mut Rng) -> usize {
    let mut count = 0;
    client
        .batch_execute(
            "CREATE TABLE numbers (n integer PRIMARY KEY); INSERT INTO numbers SELECT generate_series(-2, 300)",
        )
        .expect("numbers");
    let stored = postgresql() < 18;
    for (n, layout) in LAYOUTS.iter().enumerate() {
        let of_type = if n % 2 == 0 { "timestamptz" } else { "timestamp" };
        client
            .batch_execute(&format!(
                "CREATE TABLE t{n} (id bigint PRIMARY KEY, other timestamptz, day date, n integer NOT NULL REFERENCES numbers);
                 CREATE INDEX ON t{n} (id) WHERE n > 20; CREATE INDEX ON t{n} (id) WHERE day IS NOT NULL OR n < 0;
                 CREATE INDEX ON t{n} ((n % 2 = 0), id); CREATE INDEX ON t{n} (n, id) WHERE other > '2026-01-02';
                 SELECT snowflake_add_created_at('t{n}', 'created_at', {stored}, '{of_type}', '{layout}');
                 CREATE TABLE s{n} (id snowflake, created_at {of_type}, n integer); CREATE INDEX ON s{n} (id);
                 CREATE FOREIGN TABLE f{n} (id bigint, other timestamptz, day date, n integer, created_at {of_type})
                    SERVER same OPTIONS (table_name 't{n}');
                 CREATE TABLE p{n} (LIKE t{n}) PARTITION BY RANGE (id);
                 CREATE TABLE p{n}_0 PARTITION OF p{n} FOR VALUES FROM (MINVALUE) TO ({MIDDLE}) PARTITION BY LIST (n);
                 CREATE TABLE p{n}_0_0 PARTITION OF p{n}_0 DEFAULT;
                 CREATE TABLE p{n}_1 PARTITION OF p{n} FOR VALUES FROM ({MIDDLE}) TO (MAXVALUE) PARTITION BY LIST (n);
                 CREATE TABLE r{n} (LIKE t{n});
                 CREATE FOREIGN TABLE p{n}_1_0 PARTITION OF p{n}_1 DEFAULT SERVER same OPTIONS (table_name 'r{n}');
                 CREATE VIEW v{n} AS SELECT *, snowflake_timestamp(id, '{layout}') AS at FROM t{n}"
            ))
            .expect("tables");
        for _ in 0..60 {
            let at = time(random, "timestamptz");
            let end = if random.bool() { 1 } else { 0 };
            let (other, day) = (time(random, "timestamptz"), time(random, "date"));
            client
                .batch_execute(&format!(
                    "INSERT INTO t{n} (id, other, day, n) SELECT greatest(id, {end}) - {end}, {other}, {day}, {count} FROM snowflake_bound({at}, '>=', '{layout}') AS id
                        WHERE id >= {end} ON CONFLICT DO NOTHING"
                ))
                .expect("a row");
            count += 1;
        }
        client
            .batch_execute(&format!(
                "INSERT INTO t{n} (id, other, n) VALUES (0, now(), -1), ((SELECT snowflake_bound('infinity', '<=', '{layout}')), NULL, -2)
                    ON CONFLICT DO NOTHING;
                 INSERT INTO s{n} SELECT id, created_at, n FROM t{n} UNION ALL SELECT NULL, NULL, n FROM t{n} WHERE n % 5 = 0;
                 INSERT INTO p{n} SELECT id, other, day, n, created_at FROM t{n} WHERE id < {MIDDLE};
                 INSERT INTO r{n} SELECT id, other, day, n, created_at FROM t{n} WHERE id >= {MIDDLE};
                 ANALYZE t{n}, s{n}"
            ))
            .expect("rows");
    }
    count
}

/// The rows of a query, without an order if it has none.
fn rows(client: &mut Client, query: &str) -> Vec<String> {
    let messages = client.simple_query(query).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|n| format!("{:?} ", row.get(n))).collect()),
        _ => None,
    });
    let mut rows: Vec<String> = rows.collect();
    if !query.contains("ORDER BY") {
        rows.sort();
    }
    rows
}

/// A time of this type near others, near the ends of ticks, or far away.
fn time(random: &mut Rng, of_type: &str) -> String {
    let text = match random.u8(0..15) {
        // No timestamptz, in some zones.
        12 if of_type != "timestamptz" => {
            ["294276-12-31 23:59:59", "999999-12-31"][usize::from(of_type == "date")].to_owned()
        }
        13 if of_type != "timestamptz" => "4714-11-24 00:00:01 BC".to_owned(),
        14 if of_type == "timestamp" => "294276-12-31 05:00".to_owned(),
        0 => "infinity".to_owned(),
        1 => "-infinity".to_owned(),
        2 => "1969-07-20 20:17:40.000001".to_owned(),
        3 => "2010-11-04 01:42:54.657".to_owned(),
        4 => "2300-01-01".to_owned(),
        5 => "294276-12-31".to_owned(),
        6 => format!("2026-01-01 00:00:00.{:03}{:03}", random.u32(0..3), [0, 1, 500, 999][random.usize(..4)]),
        _ => format!("2026-01-0{} {:02}:00:{:02}", random.u32(1..4), random.u32(0..24), random.u32(0..60)),
    };
    format!("'{text}'::{of_type}")
}

/// What a time is compared with; `row` has a column of times.
fn compared(random: &mut Rng, row: &str) -> String {
    match random.u8(0..13) {
        0 => format!("{row}.other"),
        10 => format!("{row}.day"),
        11 => format!("(SELECT max(other) FROM t1 WHERE n < {row}.n)"),
        12 => "(SELECT now() - interval '1 day' * 100)".to_owned(),
        1 => "now() - interval '1 day' * 100".to_owned(),
        2 => "NULL::timestamptz".to_owned(),
        3 => format!("(SELECT max(other) FROM t0 WHERE n < {})", random.u32(0..30)),
        4 | 5 => time(random, "date"),
        6 => time(random, "timestamp"),
        _ => time(random, "timestamptz"),
    }
}

/// A condition on the time of `row`.
fn condition(random: &mut Rng, of_row: &str, row: &str) -> String {
    let compared = |random: &mut Rng| compared(random, row);
    let operator = ["<", "<=", "=", ">=", ">", "<>"][random.usize(..6)];
    match random.u8(0..10) {
        0 => format!("{of_row} BETWEEN {} AND {}", compared(random), compared(random)),
        1 => format!("{of_row} NOT BETWEEN {} AND {}", compared(random), compared(random)),
        2 => format!("NOT ({of_row} {operator} {})", compared(random)),
        3 => format!("({of_row} {operator} {}) IS NOT TRUE", compared(random)),
        4 => format!("({} OR {})", condition(random, of_row, row), condition(random, of_row, row)),
        5 => format!("{} AND {}", condition(random, of_row, row), condition(random, of_row, row)),
        6 => format!("{} {operator} {of_row}", compared(random)),
        7 => {
            let n = ["NULL".to_owned(), random.u32(0..60).to_string()][usize::from(random.u8(0..5) > 0)].clone();
            format!("({of_row}, {row}.n) {operator} ({}, {n})", compared(random))
        }
        _ => format!("{of_row} {operator} {}", compared(random)),
    }
}

/// A query with conditions on times.
fn query(random: &mut Rng) -> String {
    let n = random.usize(..LAYOUTS.len());
    let layout = LAYOUTS[n];
    let time = match random.u8(0..3) {
        0 if n == 0 => "snowflake_timestamp(t.id)".to_owned(),
        0 => format!("(snowflake_decode(t.id, '{layout}')).issued_at"),
        1 => "t.created_at".to_owned(),
        _ => format!("snowflake_timestamp(t.id, '{layout}')"),
    };
    let table = ["t", "t", "f", "p"][random.usize(..4)];
    let direction = if random.bool() { "" } else { "DESC" };
    match random.u8(0..12) {
        10 | 11 => first(random, &format!("{table}{n} t"), &time),
        0 => format!("SELECT * FROM t{n} t LEFT JOIN v{n} v ON {} AND v.n = t.n", condition(random, "v.at", "v")),
        1 => {
            format!("SELECT * FROM v{n} v RIGHT JOIN t{n} t ON t.n = v.n + 1 WHERE {}", condition(random, "v.at", "t"))
        }
        2 => format!("SELECT * FROM t{n} t FULL JOIN v{n} v ON t.n = v.n + 1 WHERE {}", condition(random, "v.at", "t")),
        3 => format!(
            "SELECT * FROM t{n} t WHERE EXISTS (SELECT FROM {table}0 o WHERE o.n = t.n AND {})",
            condition(random, &time, "o")
        ),
        4 => format!("WITH v AS (SELECT * FROM v{n}) SELECT * FROM v WHERE {}", condition(random, "v.at", "v")),
        5 => format!(
            "SELECT * FROM (SELECT v.*, count(*) OVER (ORDER BY n) FROM v{n} v) v WHERE {}",
            condition(random, "v.at", "v")
        ),
        6 => format!("DELETE FROM {table}{n} t WHERE {} RETURNING *", condition(random, &time, "t")),
        7 => format!("SELECT {time} FROM s{n} t ORDER BY {time} {direction} LIMIT {}", random.u32(1..50)),
        8 if random.bool() => format!(
            "SELECT count(*), max({time}), min({time}) FILTER (WHERE n > 5) FROM {table}{n} t WHERE {} GROUP BY n % {}",
            condition(random, &time, "t"),
            random.u32(1..4)
        ),
        8 => format!(
            "SELECT * FROM s{n} t, LATERAL (SELECT max(other) AS other, max(day) AS day, max(n) AS n FROM t{n}) o WHERE {}",
            condition(random, &time, "o")
        ),
        _ => format!("SELECT * FROM {table}{n} t WHERE {}", condition(random, &time, "t")),
    }
}

/// The first rows of a query with conditions for which some tables have indexes.
fn first(random: &mut Rng, table: &str, time: &str) -> String {
    const CHOOSE: [&str; 10] = [
        "t.n > 20",
        "t.n > 25",
        "t.n = 7",
        "t.n % 2 = 0",
        "(t.n < 0 OR t.day IS NOT NULL)",
        "t.other > '2026-01-02'",
        "NOT (t.n <= 20)",
        "(t.n = 7) IS TRUE",
        "NOT (t.n % 2 = 0)",
        "t.id > 7",
    ];
    let mut conditions: Vec<String> =
        (0..random.usize(1..4)).map(|_| CHOOSE[random.usize(..CHOOSE.len())].to_owned()).collect();
    if random.bool() {
        conditions.push(condition(random, time, "t"));
    }
    let mut from = table.to_owned();
    if random.bool() {
        from = format!("(SELECT * FROM {table} WHERE {}) t", conditions.swap_remove(0));
        conditions.push("true".to_owned());
    }
    if random.u8(0..3) == 0 {
        from = format!("{from}, numbers m");
        conditions.push("m.n = t.n".to_owned());
    }
    let conditions = conditions.join(" AND ");
    if random.u8(0..4) == 0 {
        return format!("SELECT max({time}), min({time}) FROM {from} WHERE {conditions}");
    }
    let direction = if random.bool() { "" } else { "DESC" };
    format!("SELECT {time} FROM {from} WHERE {conditions} ORDER BY {time} {direction} LIMIT {}", random.u32(1..50))
}
