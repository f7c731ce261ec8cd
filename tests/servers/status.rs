//! What `snowflake_status` counts, and says that calls get; and what the server log says of a clock that goes back.

use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Builder, Cluster, Load, PATIENCE, error, issued_at, sleep_past, test, value};

/// What all servers have in common.
fn builder() -> Builder {
    Cluster::builder().worker(1).set("timezone", "UTC").set("snowflake_pg.sequence_start", "zero")
}

/// A server with the extension, after its first ID, and with nothing counted yet.
fn server(builder: Builder) -> (Cluster, Client) {
    let cluster = builder.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
    client.batch_execute("SELECT snowflake_reset_stats()").expect("nothing counted");
    (cluster, client)
}

/// One whose IDs are not ahead of its clock.
fn settled(builder: Builder) -> (Cluster, Client) {
    let (cluster, mut client) = server(builder);
    sleep_past(issued_at(value(&mut client, "SELECT snowflake_lastval()").parse().expect("an ID")));
    (cluster, client)
}

fn status(client: &mut Client, column: &str) -> String {
    value(client, &format!("SELECT {column} FROM snowflake_status"))
}

fn change(cluster: &Cluster, client: &mut Client, name: &str, to: &str) {
    client.batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.{name} = '{to}'")).expect("a setting");
    cluster.reload();
}

/// The number in a column.
fn number(client: &mut Client, column: &str) -> i64 {
    status(client, column).parse().unwrap_or_else(|_| panic!("{column} is a number"))
}

#[test]
fn ids_are_counted_one_by_one_and_in_batches_whichever_way_a_tick_starts() {
    let (cluster, mut client) = settled(builder());
    for start in ["zero", "random", "rotate"] {
        change(&cluster, &mut client, "sequence_start", start);
        client.batch_execute("SELECT snowflake_reset_stats()").expect("a reset");
        for _ in 0..50 {
            client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
            sleep(Duration::from_millis(2));
        }
        client.batch_execute("SELECT count(*) FROM snowflake_nextvals(100000)").expect("IDs");
        assert_eq!(number(&mut client, "ids_issued"), 100_050, "from {start}");
        assert_eq!(number(&mut client, "borrowed_ids + history_ids + refusals + clock_regressions"), 0, "from {start}");
    }
}

#[test]
fn ids_of_many_clients_are_counted_exactly() {
    let (cluster, mut client) = server(builder());
    let load = Load::start(&cluster, 8, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    load.wait_for_ids();
    let ids = load.finish().ids();
    assert_eq!(number(&mut client, "ids_issued"), i64::try_from(ids).expect("a number"));
}

#[test]
fn full_ticks_and_the_waits_for_the_next_are_counted() {
    let (_cluster, mut client) = settled(builder());
    let began = Instant::now();
    // A machine that is busy does not fill each tick.
    let full = "SELECT count(*) FROM (SELECT FROM snowflake_nextvals(200000) id
        GROUP BY snowflake_timestamp(id) HAVING max((snowflake_decode(id)).sequence) = 4095) full_ticks";
    let full: i64 = value(&mut client, full).parse().expect("a number");
    let took = i64::try_from(began.elapsed().as_micros()).expect("a number");
    assert!(full > 0, "no tick was full");
    assert_eq!(number(&mut client, "ticks_exhausted"), full);
    let waits = number(&mut client, "clock_waits");
    assert!((1..=200_000 / 4096).contains(&waits), "{waits} waits");
    let waited = number(&mut client, "(extract(epoch FROM clock_wait_time) * 1000000)::bigint");
    assert!(waited > 0 && waited <= took, "{waited} of {took} us");
    assert_eq!(number(&mut client, "borrowed_ids"), 0);
}

#[test]
fn a_clock_that_goes_back_is_counted_with_its_size_and_its_time() {
    let (cluster, mut client) = settled(builder().own_clock());
    assert_eq!(status(&mut client, "last_regression_at"), "NULL");
    let clock = "SELECT clock_timestamp()";
    let mut steps = Vec::new();
    // Longer than a busy machine takes for the IDs, and within max_borrow.
    for (nth, step) in [(1, 2500), (2, 4500), (3, 3500)] {
        sleep(Duration::from_millis(2));
        let before = Instant::now();
        client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
        cluster.set_clock(-f64::from(step) / 1000.0);
        let from = value(&mut client, clock);
        client.batch_execute("SELECT count(*) FROM snowflake_nextvals(10)").expect("IDs");
        let until = value(&mut client, clock);
        // What passes between two calls is not part of the step.
        steps.push(i64::from(step) - i64::try_from(before.elapsed().as_millis()).expect("a number") - 1);
        cluster.set_clock(0.0);
        assert_eq!(number(&mut client, "clock_regressions"), nth);
        let within = format!("last_regression_at BETWEEN date_trunc('ms', timestamptz '{from}') AND '{until}'");
        assert_eq!(status(&mut client, &within), "t", "{from} to {until}");
    }
    let largest = number(&mut client, "(extract(epoch FROM largest_regression) * 1000)::bigint");
    assert!((steps[1]..=4500).contains(&largest), "{largest} ms, of {steps:?}");
    let borrowed = number(&mut client, "borrowed_ids");
    assert!((30..=40).contains(&borrowed), "{borrowed} IDs ahead of the clock");
    assert_eq!(number(&mut client, "history_ids + refusals"), 0);
}

#[test]
fn ids_from_the_history_are_counted() {
    let (cluster, mut client) = settled(builder().own_clock().set("snowflake_pg.clock_regression", "history"));
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    sleep(Duration::from_millis(2000));
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID that closes the ticks before it");
    cluster.set_clock(-1.4);
    let before = status(&mut client, "last_issued_at");
    let back = "SELECT count(*) FROM snowflake_nextvals(25) id WHERE snowflake_timestamp(id) <= clock_timestamp()";
    assert_eq!(value(&mut client, back), "25");
    assert_eq!(status(&mut client, "last_issued_at"), before, "of those in order");
    assert_eq!(number(&mut client, "history_ids"), 25);
    assert_eq!(number(&mut client, "ids_issued"), 27);
    assert_eq!(number(&mut client, "borrowed_ids"), 0);
}

#[test]
fn refusals_are_counted() {
    let (cluster, mut client) = server(builder().own_clock().set("snowflake_pg.clock_regression", "error"));
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.set_clock(-60.0);
    for query in ["SELECT snowflake_nextval()", "SELECT snowflake_nextvals(10)", "SELECT snowflake_nextval()"] {
        let refused = error(&mut client, query);
        assert_eq!((refused.code().code(), refused.message()), ("53400", "the server's clock has gone back"));
        assert!(refused.detail().is_some_and(|detail| detail.ends_with("snowflake_pg.clock_regression is error.")));
    }
    assert_eq!(number(&mut client, "refusals"), 3);
    assert_eq!(number(&mut client, "clock_regressions"), 1);
    assert_eq!(number(&mut client, "clock_waits"), 0, "it refuses at once");
}

#[test]
fn extensions_of_the_mark_are_counted() {
    let (_cluster, mut client) = server(builder().set("snowflake_pg.reserve_ahead", "100ms"));
    let until = Instant::now() + PATIENCE;
    while number(&mut client, "mark_extensions") < 5 {
        client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
        assert!(Instant::now() < until, "the mark is not extended");
    }
    assert_eq!(status(&mut client, "mark_wait_time < interval '1 min'"), "t");
}

#[test]
fn counting_begins_anew_by_a_reset_that_is_for_administrators() {
    let (cluster, mut client) = server(builder().own_clock().set("snowflake_pg.clock_regression", "history"));
    client.batch_execute("SELECT count(*) FROM snowflake_nextvals(50000)").expect("IDs");
    cluster.set_clock(-60.0);
    assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "53400");
    for counter in ["ids_issued", "ticks_exhausted", "clock_regressions", "clock_waits", "refusals"] {
        assert!(number(&mut client, counter) > 0, "{counter}");
    }

    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    assert_eq!(error(&mut client, "SELECT snowflake_reset_stats()").code().code(), "42501");
    client.batch_execute("RESET ROLE").expect("an administrator");
    assert!(number(&mut client, "ids_issued") > 0, "a refused reset resets nothing");

    let (issued, since) = (status(&mut client, "last_issued_at"), status(&mut client, "stats_reset_at"));
    // So that the time of the reset is another one.
    cluster.set_clock(0.0);
    client.batch_execute("SELECT snowflake_reset_stats()").expect("a reset");
    let counters =
        "SELECT concat_ws(' ', ids_issued, ticks_exhausted, borrowed_ids, history_ids, clock_regressions, clock_waits,
        refusals, largest_regression, coalesce(last_regression_at::text, 'never'), clock_wait_time) FROM snowflake_status";
    assert_eq!(value(&mut client, counters), "0 0 0 0 0 0 0 00:00:00 never 00:00:00");
    assert_eq!(status(&mut client, "state"), "ready");
    assert_eq!(status(&mut client, "last_issued_at"), issued);
    assert_ne!(status(&mut client, "stats_reset_at"), since);
    assert_eq!(status(&mut client, "stats_reset_at BETWEEN now() - interval '1 min' AND clock_timestamp()"), "t");

    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    assert_eq!(number(&mut client, "ids_issued"), 1);
}

#[test]
fn a_clock_that_keeps_going_back_is_warned_of_once_a_minute() {
    let (cluster, mut client) = settled(builder().own_clock());
    let began = Instant::now();
    for _ in 0..12 {
        cluster.set_clock(0.0);
        client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
        // Longer than a busy machine takes for an ID.
        cluster.set_clock(-4.5);
        client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    }
    assert_eq!(number(&mut client, "clock_regressions"), 12);
    let log = cluster.log();
    let warnings: Vec<_> = log.match_indices("WARNING:  snowflake_pg: the server's clock has gone back").collect();
    let minutes = usize::try_from(began.elapsed().as_secs() / 60).expect("a few");
    assert!((1..=1 + minutes).contains(&warnings.len()), "{log}");
    let detail = &log[warnings[0].0..];
    let detail = detail.lines().nth(1).expect("a detail");
    let (_, size) = detail.split_once("DETAIL:  It went back by ").unwrap_or_else(|| panic!("{detail}"));
    let size: u32 = size.split(' ').next().and_then(|size| size.parse().ok()).expect("a size");
    assert!((1..=4500).contains(&size), "{detail}");
    assert!(detail.ends_with("snowflake_pg.clock_regression is borrow."), "{detail}");
}

/// With one ID in a tick, that lie modulo 2 as their sequence starts.
#[test]
fn ids_that_come_one_by_one_are_even_from_zero_and_both_even_and_odd_otherwise() {
    let (cluster, mut client) = settled(builder());
    for start in ["zero", "random", "rotate"] {
        change(&cluster, &mut client, "sequence_start", start);
        let mut odd = 0;
        for _ in 0..200 {
            odd += value(&mut client, "SELECT snowflake_nextval() % 2").parse::<u32>().expect("a remainder");
            sleep(Duration::from_millis(2));
        }
        match start {
            "zero" => assert_eq!(odd, 0),
            // Five standard deviations from the middle.
            _ => assert!((65..=135).contains(&odd), "{odd} of 200 are odd from {start}"),
        }
    }
}

#[test]
fn the_status_says_what_calls_get_while_no_standby_acknowledges_the_mark() {
    let builder = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "require");
    let cluster = builder.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.configure("synchronous_standby_names", "absent");
    cluster.reload();
    let refused = loop {
        match client.batch_execute("SELECT snowflake_nextval()") {
            Ok(()) => yield_now(),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53400"), "{refused:?}");
    cluster.wait_until("SELECT problem_sqlstate = '53400' FROM snowflake_status");
    cluster.wait_until("SELECT can_issue = 0 FROM snowflake_metrics");
    let problem = value(&mut client, "SELECT problem FROM snowflake_status");
    assert!(problem.contains("waiting for a synchronous standby"), "{problem}");
    cluster.configure("synchronous_standby_names", "");
    cluster.reload();
    cluster.wait_until("SELECT problem IS NULL FROM snowflake_status");
    client.batch_execute("SELECT snowflake_nextval()").expect("IDs again");
}

#[test]
fn the_status_says_what_calls_get_where_only_a_keeper_may_write_the_mark_and_there_is_none() {
    let builder = Cluster::builder().worker(1).set("max_worker_processes", 0).set("snowflake_pg.wal_mark", "require");
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut client = cluster.connect();
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(
        (refused.code().code(), refused.message()),
        ("53400", "could not write the durable mark to WAL in time")
    );
    let hint = refused.hint().expect("what to do");
    assert!(hint.contains("increase max_worker_processes"), "{hint}");
    let status = "SELECT state, problem_sqlstate, problem FROM snowflake_status";
    let row = client.query_one(status, &[]).expect("the status");
    let [state, code, problem] = [0, 1, 2].map(|column| row.get::<_, Option<String>>(column).unwrap_or_default());
    assert_eq!((state.as_str(), code.as_str()), ("not started", "53400"), "{problem}");
    assert!(problem.contains(&refused.message()[1..]) && problem.contains(hint), "{problem}");
    assert_eq!(value(&mut client, "SELECT can_issue FROM snowflake_metrics"), "0");
}
