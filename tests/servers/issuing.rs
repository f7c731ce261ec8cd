//! The other ways to issue IDs: `snowflake_id()`, `snowflake_lastval()` and `snowflake_nextblock()`.

use std::collections::HashSet;
use std::io::Write;
use testbed::postgres::Client;
use testbed::{Cluster, Load, Report, Signal, Witness, error, need_postgresql, test, value};

/// A server with the extension, and its settings.
fn server(settings: &[(&str, &str)]) -> (Cluster, Client) {
    let builder = Cluster::builder().worker(7);
    let cluster = settings.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, client)
}

/// Takes a block, and returns its first and its last ID.
fn block(client: &mut Client, count: i32) -> (i64, i64) {
    let row = client.query_one("SELECT first, last FROM snowflake_nextblock($1)", &[&count]).expect("a block");
    (row.get(0), row.get(1))
}

#[test]
fn snowflake_id_is_snowflake_nextval_in_inserts_and_in_copy() {
    let (_cluster, mut client) = server(&[]);
    client
        .batch_execute(
            "CREATE TABLE plain (id bigint PRIMARY KEY DEFAULT snowflake_id(), n integer);
             CREATE TABLE theirs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer);
             INSERT INTO plain (n) SELECT generate_series(1, 1000);
             INSERT INTO theirs (n) SELECT generate_series(1, 1000); CHECKPOINT",
        )
        .expect("rows");
    let ascending = "SELECT snowflake_id() < snowflake_nextval() AND snowflake_nextval() < snowflake_id()";
    assert_eq!(value(&mut client, ascending), "t");
    // COPY writes many rows at once, which takes less WAL.
    let mut wal_of = |table: &str, rows: u64| {
        let position = |client: &mut Client| value(client, "SELECT pg_current_wal_insert_lsn() - '0/0'");
        let before: i64 = position(&mut client).parse().expect("a number");
        let mut writer = client.copy_in(&format!("COPY {table} (n) FROM STDIN")).expect("COPY");
        for n in 0..rows {
            writeln!(writer, "{n}").expect("a row");
        }
        assert_eq!(writer.finish().expect("rows"), rows);
        position(&mut client).parse::<i64>().expect("a number") - before
    };
    // The first one writes whole pages.
    let [ours, theirs] = ["plain", "theirs"].map(|table| (wal_of(table, 1), wal_of(table, 10_000)).1);
    assert!(ours <= theirs, "{ours} bytes, and {theirs} with a sequence");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM plain"), "11001");
}

#[test]
fn the_last_id_of_a_session_is_its_own_however_it_was_taken() {
    let (cluster, mut client) = server(&[]);
    client
        .batch_execute(
            "CREATE TABLE plain (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
             CREATE TABLE filled (id bigint PRIMARY KEY, n integer);
             CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id')",
        )
        .expect("tables");
    let undefined = error(&mut client, "SELECT snowflake_lastval()");
    let message = "snowflake_lastval is not yet defined in this session";
    assert_eq!((undefined.code().code(), undefined.message()), ("55000", message));
    let mut other = cluster.connect();
    for taken in [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_id()",
        "SELECT max(id) FROM snowflake_nextvals(10000) id",
        "SELECT last FROM snowflake_nextblock(100)",
        "INSERT INTO plain (n) VALUES (1) RETURNING id",
        "INSERT INTO filled (n) VALUES (1) RETURNING id",
        "SELECT snowflake_nextval() FROM pg_sleep(0.01)",
    ] {
        let id = value(&mut client, taken);
        value(&mut other, "SELECT snowflake_nextval()");
        assert_eq!(value(&mut client, "SELECT snowflake_lastval()"), id, "{taken}");
    }
    let mut writer = client.copy_in("COPY plain (n) FROM STDIN").expect("COPY");
    writer.write_all(b"2\n3\n").expect("rows");
    writer.finish().expect("rows");
    assert_eq!(value(&mut client, "SELECT snowflake_lastval() = max(id) FROM plain"), "t");
    // As with a sequence, a rollback takes nothing back, and no other session matters.
    let id = value(&mut client, "BEGIN; INSERT INTO plain (n) VALUES (4); SELECT snowflake_lastval()");
    client.batch_execute("ROLLBACK").expect("the end of a transaction");
    assert_eq!(value(&mut client, "SELECT snowflake_lastval()"), id);
}

#[test]
fn the_next_client_of_a_pool_does_not_see_the_last_id_of_the_one_before() {
    let (_cluster, mut client) = server(&[]);
    for (discard, forgets) in
        [("DISCARD ALL", true), ("DISCARD SEQUENCES", true), ("DISCARD PLANS", false), ("DISCARD TEMP", false)]
    {
        let id = value(&mut client, "SELECT snowflake_nextval()");
        client.batch_execute(discard).expect("DISCARD");
        if forgets {
            assert_eq!(error(&mut client, "SELECT snowflake_lastval()").code().code(), "55000", "{discard}");
        } else {
            assert_eq!(value(&mut client, "SELECT snowflake_lastval()"), id, "{discard}");
        }
    }
    let id = value(&mut client, "SELECT snowflake_nextval()");
    client.batch_execute("BEGIN").expect("a transaction");
    assert_eq!(error(&mut client, "DISCARD ALL").code().code(), "25001");
    client.batch_execute("ROLLBACK").expect("the end of a transaction");
    assert_eq!(value(&mut client, "SELECT snowflake_lastval()"), id, "a DISCARD that fails forgets nothing");
}

#[test]
fn a_block_is_as_many_adjacent_ids_of_one_tick_as_were_asked_for() {
    for start in ["zero", "random", "rotate"] {
        let (_cluster, mut client) = server(&[("snowflake_pg.sequence_start", start)]);
        let mut before = 0;
        for count in [1, 2, 50, 4000, 4096, 1, 4096, 4095, 128] {
            let (first, last) = block(&mut client, count);
            assert_eq!(last - first + 1, i64::from(count), "{start}");
            assert!(first > before, "{start}: {first} after {before}");
            before = last;
            let of_tick = format!("SELECT snowflake_timestamp({first}) = snowflake_timestamp({last})");
            assert_eq!(value(&mut client, &of_tick), "t", "{start}");
        }
        assert_eq!(value(&mut client, &format!("SELECT snowflake_nextval() > {before}")), "t");
        assert_eq!(value(&mut client, "SELECT ids_issued >= 16469 FROM snowflake_status"), "t");
    }
}

#[test]
fn a_count_that_no_tick_has_is_refused_with_what_a_tick_has() {
    for (layout, most) in [("twitter", 4096), ("t45 w10 s8", 256), ("t48 w10", 1)] {
        let (_cluster, mut client) =
            server(&[("snowflake_pg.layout", &format!("{layout} epoch=2020-01-01T00:00:00Z"))]);
        block(&mut client, most);
        for count in [0, -1, most + 1, i32::MAX, i32::MIN] {
            let refused = error(&mut client, &format!("SELECT snowflake_nextblock({count})"));
            assert_eq!(refused.code().code(), "22023", "{layout}");
            assert_eq!(refused.message(), format!("count must be between 1 and {most}"), "{layout}");
            let detail = format!("The count is {count}, and a tick of the layout has {most} IDs.");
            assert_eq!(refused.detail(), Some(&*detail), "{layout}");
        }
        assert_eq!(value(&mut client, "SELECT snowflake_nextblock(NULL)"), "NULL");
    }
}

#[test]
fn a_layout_whose_ids_are_not_adjacent_has_no_blocks() {
    let (_cluster, mut client) = server(&[("snowflake_pg.layout", "sonyflake")]);
    let refused = error(&mut client, "SELECT snowflake_nextblock(10)");
    assert_eq!((refused.code().code(), refused.message()), ("0A000", "IDs of this layout are not adjacent"));
    assert_eq!(refused.detail(), Some("The sequence is not the lowest field of \"t39 s8 w16\"."));
    assert_eq!(refused.hint(), Some("Use snowflake_nextvals(count)."));
}

/// Blocks of a whole tick, too, which wait for a tick that nobody else has begun.
#[test]
fn blocks_beside_all_other_calls_and_through_a_crash_are_whole_and_nobody_elses() {
    let (mut cluster, client) = server(&[]);
    drop(client);
    let blocks = ["SELECT generate_series(first, last) FROM snowflake_nextblock(64)", WHOLE_TICK];
    let others = ["SELECT snowflake_nextval()", "SELECT * FROM snowflake_nextvals(3000)"];
    let loads: Vec<_> = blocks.iter().chain(&others).map(|query| Load::start(&cluster, 2, query)).collect();
    for round in 0..2 {
        // Single calls are slow beside the others, which receive millions meanwhile.
        loads.iter().for_each(|load| load.wait_for_some(500));
        if round == 0 {
            cluster.restart(Signal::KILL);
        }
    }
    let mut all = Report::default();
    for (load, query) in loads.into_iter().zip(blocks.iter().chain(&others)) {
        let report = load.finish();
        println!("{} IDs from {query}", report.ids());
        assert_eq!(report.inversions(), 0, "{query}");
        all.merge(report);
    }
    assert_eq!(all.duplicates(), 0);
}

const WHOLE_TICK: &str = "SELECT generate_series(first, last) FROM snowflake_nextblock(4096)";

#[test]
fn blocks_go_on_while_the_clock_is_behind_by_every_policy_that_lets_ids_go_on() {
    for policy in ["borrow", "history"] {
        let cluster = Cluster::builder().worker(7).own_clock().set("snowflake_pg.clock_regression", policy).start();
        cluster.settle();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        let mut taken = HashSet::new();
        for offset in [0.0, -1.0, -2.0] {
            cluster.set_clock(offset);
            for count in [100, 4096, 1] {
                let (first, last) = block(&mut client, count);
                assert_eq!(last - first + 1, i64::from(count), "{policy}");
                assert!((first..=last).all(|id| taken.insert(id)), "{policy}: issued twice");
                assert!(taken.insert(value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID")));
            }
        }
    }
}

#[test]
fn no_way_to_read_and_write_files_makes_an_id_come_twice() {
    need_postgresql(18);
    let ways = value(
        &mut Cluster::builder().start().connect(),
        "SELECT string_agg(way, ' ') FROM pg_settings, unnest(enumvals) way
        WHERE name = 'io_method'",
    );
    assert!(ways.contains("worker") && ways.contains("sync"), "{ways}");
    for way in ways.split(' ') {
        let mut cluster =
            Cluster::builder().worker(7).set("snowflake_pg.wal_mark", "require").set("io_method", way).create();
        if let Err(log) = cluster.try_start() {
            assert!(way == "io_uring" && log.contains("io_uring"), "{log}"); // Not every machine allows it.
            continue;
        }
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let mut witness = Witness::default();
        for _ in 0..3 {
            cluster.wait_until("SELECT snowflake_nextval() > 0");
            witness.connect(&cluster);
            witness.ask("SELECT snowflake_nextvals(1000)").expect("IDs");
            cluster.restart(Signal::KILL);
        }
        witness.report().assert_unique_and_ordered();
    }
}
