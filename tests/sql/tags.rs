//! IDs with a tag of the application's.

use std::io::Write;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::postgres::error::SqlState;
use testbed::{Cluster, Signal, StopOnDrop, assert_refused, error, test, value};

/// A server with this layout, and a table whose rows have a tag.
fn server(layout: &str) -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).set("snowflake_pg.layout", layout).start();
    let mut client = cluster.connect();
    client
        .batch_execute("CREATE EXTENSION snowflake_pg; CREATE TABLE rows (id bigint PRIMARY KEY, tag integer)")
        .expect("a table");
    (cluster, client)
}

/// The tag beside the worker, and below the sequence.
const LAYOUTS: [&str; 2] = ["t41 w5 h8 s9", "t41 w5 s9 h8"];

#[test]
fn an_id_has_the_tag_that_it_was_asked_for_and_is_unique_whatever_the_tags_are() {
    for layout in LAYOUTS {
        let (cluster, mut client) = server(layout);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut client = cluster.connect();
                scope.spawn(move || {
                    let insert = "INSERT INTO rows SELECT snowflake_nextval_tagged(tag), tag FROM (SELECT \
                        (random() * 255)::integer AS tag FROM generate_series(1, 5000) OFFSET 0) tags";
                    (0..4).for_each(|_| client.batch_execute(insert).expect("unique IDs"));
                });
            }
        });
        let seen = "SELECT concat_ws(' ', count(*), count(DISTINCT rows.tag), \
            count(*) FILTER (WHERE d.tag <> rows.tag OR worker_id <> 7)) FROM rows, snowflake_decode(id) d";
        assert_eq!(value(&mut client, seen), "80000 256 0", "{layout}");
        // Without the tags, too: a wrong tag can't make a duplicate.
        let positions = "SELECT count(DISTINCT snowflake_compose(issued_at, datacenter_id, worker_id, sequence, 0)) \
            FROM rows, snowflake_decode(id)";
        assert_eq!(value(&mut client, positions), "80000", "{layout}");
        assert_eq!(value(&mut client, "SELECT tag FROM snowflake_decode(snowflake_nextval())"), "0");
        assert_eq!(value(&mut client, "SELECT snowflake_nextval_tagged(NULL) IS NULL"), "t");
        assert_eq!(value(&mut client, "SELECT snowflake_nextval_tagged(9) = snowflake_lastval()"), "t");
    }
}

#[test]
fn ids_with_a_tag_below_the_sequence_are_in_order_and_others_by_their_ticks() {
    for (layout, order) in LAYOUTS.into_iter().zip(["snowflake_timestamp(id)", "id"]) {
        let (_cluster, mut client) = server(layout);
        let wrong = format!(
            "WITH drawn AS MATERIALIZED (
                 SELECT n, snowflake_nextval_tagged((random() * 255)::integer) AS id FROM generate_series(1, 20000) n)
             SELECT count(*) FROM (SELECT {order} AS at, lag({order}) OVER (ORDER BY n) AS before FROM drawn) pairs
             WHERE before > at"
        );
        assert_eq!(value(&mut client, &wrong), "0", "{layout}");
    }
}

#[test]
fn a_tag_outside_its_field_or_without_one_is_refused() {
    let (_cluster, mut client) = server(LAYOUTS[0]);
    for tag in [-1, 256] {
        let refused = error(&mut client, &format!("SELECT snowflake_nextval_tagged({tag})"));
        assert_refused(&refused, "22003", &[&format!("tag is {tag}"), "0 to 255"]);
    }
    let (_cluster, mut client) = server("twitter");
    let refused = error(&mut client, "SELECT snowflake_nextval_tagged(1)");
    assert_refused(&refused, "0A000", &["no tag"]);
    assert_eq!(value(&mut client, "SELECT tag IS NULL FROM snowflake_decode(snowflake_nextval())"), "t");
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let message = "snowflake_pg must be loaded via shared_preload_libraries to issue IDs";
    assert_eq!(error(&mut client, "SELECT snowflake_nextval_tagged(1)").message(), message);
}

#[test]
fn tags_are_composed_explained_and_read_by_any_layout_and_by_the_planner() {
    let (_cluster, mut client) = server(LAYOUTS[0]);
    let layout = "'t41 w5 h8 s9'";
    let id = value(&mut client, &format!("SELECT snowflake_compose('2026-01-01Z', NULL, 3, 4, 200, {layout})"));
    assert_eq!(value(&mut client, "SELECT snowflake_compose('2026-01-01Z', NULL, 3, 4, 200)"), id);
    let parts = format!("SELECT concat_ws(' ', worker_id, sequence, tag) FROM snowflake_decode({id}, {layout})");
    assert_eq!(value(&mut client, &parts), "3 4 200");
    let explained = value(&mut client, &format!("SELECT snowflake_explain({id})"));
    assert!(explained.contains("\nh tag          200 of 0 to 255\n"), "{explained}");
    assert!(explained.contains("wwwww hhhhhhhh sssssssss"), "{explained}");
    let refused = error(&mut client, "SELECT snowflake_compose('2026-01-01Z', 0, 3, 4, 300)");
    assert_eq!(refused.message(), "tag does not fit the layout");
    let no_tag = error(&mut client, "SELECT snowflake_compose('2026-01-01Z', 0, 3, 4, 1, 'twitter')");
    assert!(no_tag.detail().is_some_and(|detail| detail.ends_with("has no such field.")));
    // Without a tag, an ID of any layout has tag 0, or none.
    for (layout, tag) in [(LAYOUTS[0], "0"), (LAYOUTS[1], "0"), ("t41 w5 s17", "NULL")] {
        let composed = |tag: &str| format!("snowflake_compose('2026-01-01Z', NULL, 3, 4, {tag}, '{layout}')");
        let query = format!("SELECT {} = {}", composed("NULL"), composed("0"));
        assert_eq!(value(&mut client, &query), "t", "{layout}");
        let query = format!("SELECT tag FROM snowflake_decode({}, '{layout}')", composed("NULL"));
        assert_eq!(value(&mut client, &query), tag, "{layout}");
    }
    let same =
        "SELECT snowflake_compose('2026-01-01Z', NULL, 3, 4, NULL) = snowflake_compose('2026-01-01Z', NULL, 3, 4)";
    assert_eq!(value(&mut client, same), "t");
    client
        .batch_execute(
            "CREATE INDEX by_tag ON rows (((snowflake_decode(id, 't41 w5 h8 s9')).tag));
             INSERT INTO rows SELECT snowflake_nextval_tagged(n % 256), n % 256 FROM generate_series(1, 20000) n; ANALYZE rows",
        )
        .expect("an index on the tag");
    let plan = testbed::plan(&mut client, "EXPLAIN SELECT * FROM rows WHERE (snowflake_decode(id)).tag = 5");
    assert!(plan.contains("by_tag"), "{plan}");
}

#[test]
fn a_default_may_have_a_tag_in_insert_and_copy() {
    let (_cluster, mut client) = server(LAYOUTS[0]);
    client
        .batch_execute("CREATE TABLE kinds (id bigint PRIMARY KEY DEFAULT snowflake_nextval_tagged(3), n integer)")
        .expect("a table");
    client.batch_execute("INSERT INTO kinds (n) VALUES (1), (2)").expect("rows");
    let mut copy = client.copy_in("COPY kinds (n) FROM STDIN").expect("COPY");
    copy.write_all(b"3\n4\n").expect("rows");
    copy.finish().expect("rows");
    assert_eq!(value(&mut client, "SELECT count(*) FROM kinds WHERE (snowflake_decode(id)).tag = 3"), "4");
}

#[test]
fn rows_get_the_tag_of_their_column_by_the_trigger_of_the_example_and_others_are_refused() {
    let (_cluster, mut client) = server(LAYOUTS[1]);
    let example = std::fs::read_to_string(testbed::project().join("examples/sql/shards.sql")).expect("the example");
    client.batch_execute(&example).expect("the example");
    let insert = "INSERT INTO notes (shard, body) VALUES (200, 'tea'), (7, 'cake')";
    client.batch_execute(insert).expect("rows");
    let mut copy = client.copy_in("COPY notes (shard, body) FROM STDIN").expect("COPY");
    (0..256).for_each(|shard| writeln!(copy, "{shard}\tcopied").expect("a row"));
    copy.finish().expect("rows");
    let right = "SELECT concat_ws(' ', count(*), sum((tag = shard)::integer), count(DISTINCT shard)) FROM notes, snowflake_decode(id)";
    assert_eq!(value(&mut client, right), "258 258 256");
    let wrong = error(&mut client, "INSERT INTO notes VALUES (snowflake_nextval_tagged(8), 7)");
    assert_eq!(wrong.code(), &SqlState::CHECK_VIOLATION);
    let outside = error(&mut client, "INSERT INTO notes (shard) VALUES (256)");
    assert_eq!(outside.code(), &SqlState::NUMERIC_VALUE_OUT_OF_RANGE);
    client.batch_execute("ANALYZE notes; SET enable_seqscan = off").expect("statistics");
    let plan = testbed::plan(&mut client, "EXPLAIN SELECT * FROM notes WHERE (snowflake_decode(id)).tag = 5");
    assert!(plan.contains("notes_tag_idx"), "{plan}");
}

/// Whichever tags they have: without its tag, too, no ID comes twice.
#[test]
fn ids_with_tags_are_unique_over_crashes_and_layouts_with_and_without_a_tag() {
    let (mut cluster, _) = server(LAYOUTS[0]);
    let mut drawn = std::collections::HashSet::new();
    let mut count = 0;
    for (nth, layout) in ["t41 w5 h8 s9", "t41 w5 s17", "t41 w5 s9 h8", "t41 w5 h8 s9"].into_iter().enumerate() {
        if nth > 0 {
            cluster.configure("snowflake_pg.layout", layout);
            cluster.restart(Signal::INT);
            let accept = "SELECT snowflake_accept_mark()";
            cluster.connect().batch_execute(accept).expect("the new layout");
        }
        for crash in [false, true] {
            if crash {
                cluster.restart(Signal::KILL);
            }
            let call = if layout.contains('h') {
                "snowflake_nextval_tagged((random() * 255)::integer)"
            } else {
                "snowflake_nextval()"
            };
            let ids = cluster.connect().query(&format!("SELECT {call} FROM generate_series(1, 20000)"), &[]);
            for row in ids.expect("IDs") {
                let id: i64 = row.get(0);
                // The position: without worker and tag.
                let sequence = match layout {
                    "t41 w5 h8 s9" => id & 511,
                    "t41 w5 s9 h8" => id >> 8 & 511,
                    _ => id & 0x1_ffff,
                };
                drawn.insert(id);
                assert!(drawn.insert(-(id >> 22 << 22 | sequence)), "{id} of {layout} is another one but for its tag");
                count += 2;
            }
        }
    }
    assert_eq!(drawn.len(), count);
}

#[test]
fn a_reader_by_id_misses_no_row_whatever_the_tags_are_and_gets_the_last_one_soon() {
    const TAGGED: &str = "snowflake_nextval_tagged((random() * 255)::integer)";
    const PLACED: &str = "snowflake_nextval_for_shard(8, (random() * 7)::integer)";
    let kinds = LAYOUTS.map(|layout| [(layout, TAGGED), (layout, PLACED)]);
    for (layout, issue) in kinds.into_iter().flatten().chain([("flat", PLACED)]) {
        let (cluster, mut client) = server(layout);
        cluster.settle();
        let done = std::sync::atomic::AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let mut reader = cluster.connect();
            let done = &done;
            let reader = scope.spawn(move || {
                let deadline = Instant::now() + Duration::from_secs(120);
                let mut seen: Vec<i64> = Vec::new();
                loop {
                    let was_done = done.load(std::sync::atomic::Ordering::Relaxed);
                    let after = seen.last().copied().unwrap_or(0);
                    let rows = reader.query("SELECT id FROM snowflake_poll(NULL::rows, $1, 100)", &[&after]);
                    let rows = rows.expect("rows");
                    seen.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
                    if rows.is_empty() {
                        std::thread::sleep(Duration::from_millis(2));
                        // The clock has to pass the last tick.
                        if was_done && seen.len() >= 6000 {
                            return seen;
                        }
                        assert!(Instant::now() < deadline, "{layout}, {issue}: {} rows", seen.len());
                    }
                }
            });
            let writers: Vec<_> = (0..4)
                .map(|_| {
                    let mut writer = cluster.connect();
                    scope.spawn(move || {
                        for _ in 0..500 {
                            let insert = format!("INSERT INTO rows SELECT {issue} FROM generate_series(1, 3)");
                            writer.batch_execute(&insert).expect("rows");
                        }
                    })
                })
                .collect();
            let writing = StopOnDrop(done);
            writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
            drop(writing);
            reader.join().expect("a reader")
        });
        assert!(seen.is_sorted(), "{layout}, {issue}");
        assert_eq!(value(&mut client, "SELECT count(*) FROM rows"), seen.len().to_string(), "{layout}, {issue}");
    }
}
