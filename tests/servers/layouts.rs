//! Layouts of every kind, on servers that are killed, lose their mark, or come to the end of their layout.

use snowflake_core::id::layout::Layout;
use std::fs;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Cluster, Load, PATIENCE, Signal, Witness, error, real_time, skip, sleep_past, test, value};

fn server(layout: &str) -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(3).set("snowflake_pg.layout", layout).set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    (cluster, client)
}

#[test]
fn every_layout_that_can_issue_does_so_also_after_a_crash() {
    let layouts = [
        "uid epoch=2024-01-01T00:00:00Z",
        "k8s",
        "js",
        "sonyflake",
        "instagram t40 w13 s10",
        "t41 w2 s20",
        "t41 s8 d3 w4 unit=7ms epoch=0",
        "t50 w5 epoch=2020-01-01T00:00:00Z",
    ];
    scope(|scope| {
        for layout in layouts {
            scope.spawn(move || issues_its_ids_also_after_a_crash(layout));
        }
    });
}

fn issues_its_ids_also_after_a_crash(layout: &str) {
    let (mut cluster, _) = server(layout);
    Witness::of(&cluster).next_id().expect("an ID");
    let load = Load::start(&cluster, 3, "SELECT snowflake_nextval() FROM generate_series(1, 20)");
    load.wait_for_ids();
    cluster.restart(Signal::KILL);
    sleep(Duration::from_millis(300));
    let report = load.finish();
    report.assert_unique_and_ordered();
    assert!(report.ids() > 60 && report.errors().is_empty(), "{layout}: {} IDs, {:?}", report.ids(), report.errors());
    let mut client = cluster.connect();
    let right = format!(
        "SELECT d.worker_id = 3 AND abs(extract(epoch FROM d.issued_at - clock_timestamp())) < 5
                AND snowflake_compose(d.issued_at, d.datacenter_id, d.worker_id, d.sequence) = id
                AND d = snowflake_decode(id, '{layout}')
         FROM snowflake_nextval() id, snowflake_decode(id) d"
    );
    assert_eq!(value(&mut client, &right), "t", "{layout}");
    if layout == "js" {
        assert_eq!(value(&mut client, "SELECT snowflake_nextval() < 2::bigint ^ 53"), "t");
    }
}

/// With ticks of a second, each restart takes IDs further ahead of the clock; where full ticks are borrowed, every call
/// can. A mark that is lost then is made up for all the same.
#[test]
fn a_mark_that_is_lost_while_coarse_ticks_are_as_far_ahead_as_they_get_is_made_up_for() {
    loses_its_mark("t32 w10 s8 unit=1s epoch=2024-01-01T00:00:00Z", "wait", "SELECT snowflake_nextvals(256)");
}

#[test]
fn a_mark_that_is_lost_while_borrowed_ticks_are_as_far_ahead_as_they_get_is_made_up_for() {
    loses_its_mark("js", "borrow", "SELECT snowflake_nextvals(250000)");
}

fn loses_its_mark(layout: &str, exhaustion: &str, query: &str) {
    let builder = Cluster::builder().worker(3).set("snowflake_pg.layout", layout);
    let mut cluster = builder.set("snowflake_pg.sequence_exhaustion", exhaustion).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let layout: Layout = layout.parse().expect("a layout");
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    // A machine that is slow to restart the server uses up what the restart before has gained.
    for attempt in 0.. {
        cluster.restart(Signal::KILL);
        witness.connect(&cluster);
        let last = *witness.ask(query).expect("IDs").last().expect("an ID");
        if layout.issued_at(last.cast_unsigned()) > real_time() + 600 {
            break;
        }
        if attempt == 30 {
            skip("this machine restarts servers so slowly that IDs do not get further ahead than reserve_ahead");
        }
    }
    cluster.stop(Signal::KILL);
    fs::remove_file(cluster.mark_file()).expect("the mark");
    cluster.start();
    witness.connect(&cluster);
    // The first tick above all that can have been issued may be further ahead than max_borrow for the rest of a tick.
    let began = Instant::now();
    while let Err(refusal) = witness.ask(query) {
        assert!(refusal.code().code() == "53400" && began.elapsed() < PATIENCE, "{refusal:?}");
    }
    let report = witness.report();
    report.assert_unique_and_ordered();
    assert!(report.largest_lead_ms(&layout, 0) <= 5000, "further ahead than max_borrow");
}

/// IDs begin with the second above the floor, and the clock has to reach one from which that is no further ahead than
/// `max_borrow`. Whatever part of a second it shows, the first call waits for it.
#[test]
fn a_mark_that_is_lost_of_a_layout_of_seconds_makes_the_first_call_wait_and_not_fail() {
    scope(|scope| {
        for nth in 0..4 {
            scope.spawn(move || {
                let mut cluster = server("t32 w10 s8 unit=1s epoch=2024-01-01T00:00:00Z").0;
                let mut witness = Witness::of(&cluster);
                for _ in 0..2 {
                    witness.next_id().expect("an ID");
                    // Within the second in which it came: the next start waits longest then.
                    sleep_past(real_time() / 1000 * 1000 + nth * 250);
                    cluster.stop(Signal::KILL);
                    fs::remove_file(cluster.mark_file()).expect("the mark");
                    cluster.start();
                    witness.connect(&cluster);
                    witness.next_id().expect("an ID after a wait");
                }
                witness.report().assert_unique_and_ordered();
            });
        }
    });
}

/// It could not issue anything, and the way back would be one to smaller IDs.
#[test]
fn a_layout_that_is_over_is_not_accepted() {
    let (mut cluster, mut client) = server("twitter");
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.configure("snowflake_pg.layout", "t40 w10 s13 epoch=1970-01-01T00:00:00Z");
    cluster.restart(Signal::INT);
    let mut client = cluster.connect();
    for query in ["SELECT snowflake_accept_mark()", "SELECT snowflake_accept_mark(force => true)"] {
        let refused = error(&mut client, query);
        assert_eq!((refused.code().code(), refused.message()), ("2200H", "reached the last timestamp of the layout"));
    }
    assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "outside the layout");
    cluster.configure("snowflake_pg.layout", "twitter");
    cluster.restart(Signal::INT);
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("the old layout is still that of the mark");
}

/// A mark that nothing needs would be a damaged one.
#[test]
fn the_mark_never_passes_the_end_of_the_layout() {
    let layout: Layout = "twitter".parse().expect("a layout");
    let mut cluster = Cluster::builder().worker(1).own_clock().create();
    let set_clock = |cluster: &Cluster, before_the_end_ms: u64| {
        cluster.set_clock((layout.end() - before_the_end_ms - real_time()) as f64 / 1000.0);
    };
    set_clock(&cluster, 1_800_000);
    cluster.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.configure("snowflake_pg.reserve_ahead", "1min");
    cluster.reload();
    set_clock(&cluster, 30_000);
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID of the last minute");
    assert_eq!(cluster.mark(), layout.end());
    drop(client);
    cluster.restart(Signal::KILL);
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_eq!((refused.code().code(), refused.message()), ("2200H", "reached the last timestamp of the layout"));
}
