//! Servers that take turns with a worker, as in a planned move and back, and the clock of the one that comes back.

use super::fixture::{at_once, new_server};
use super::suite::{Evidence, Fault};
use snowflake_core::id::layout::Layout;
use std::time::Duration;
use testbed::{Cluster, Load, Report, Signal, Witness, real_time, sleep_past};

pub const FAULTS: &[Fault] = &[Fault {
    row: 51,
    promise: "a_server_whose_worker_another_one_had_repeats_nothing_when_its_clock_is_set_back",
    short: 1,
    full: 5,
    run: there_and_back,
}];

const MAX_BORROW_MS: u64 = 1000;

/// How far before the last ID of the other server the clock is set back.
const BEFORE_MS: u64 = 1500;

const SECONDS: &str = "t32 w8 s12 unit=1s";

/// A policy, a layout, and what has happened before the clock is set back.
const WAYS: [(&str, &str, Before); 5] = [
    ("history", "flat", Before::Issued),
    ("borrow", "flat", Before::Begun),
    ("borrow", "flat", Before::Issued),
    ("borrow", "flat", Before::Started),
    ("history", SECONDS, Before::Issued),
];

#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// The server has started, but nothing of it has looked for its mark: it has no keeper.
    Started,
    /// The keeper has found the mark.
    Begun,
    /// An ID was issued.
    Issued,
}

fn there_and_back(rounds: usize) -> Evidence {
    let mut report = Report::default();
    for _ in 0..rounds {
        // Each with two servers of its own.
        report.merge(at_once(WAYS.len(), |way| move_and_return(WAYS[way])));
    }
    // Two of the servers may go back with their clock.
    Evidence::new(rounds, &report)
}

fn move_and_return((policy, layout, before): (&str, &str, Before)) -> Report {
    let node = || {
        let builder = Cluster::builder().worker(1).own_clock().set("snowflake_pg.layout", layout);
        // Where two servers issue IDs of the same tick, they issue the same.
        let builder = builder.set("snowflake_pg.sequence_start", "zero");
        let builder = builder.set("snowflake_pg.max_borrow", format!("{MAX_BORROW_MS}ms"));
        let builder = if before == Before::Started { builder.set("max_worker_processes", 0) } else { builder };
        new_server(builder.set("snowflake_pg.clock_regression", policy).set("snowflake_pg.max_wait", 0))
    };
    let mut a = node();
    let layout: Layout = layout.parse().expect("a layout");
    let mut report = some_ids(&a, &layout);
    a.stop(Signal::INT);

    // A new server begins above all of that.
    let mut b = node();
    let mut first = Witness::of(&b);
    let begin = layout.issued_at(first.next_id().expect("an ID").cast_unsigned());
    report.merge(first.report());
    // From then on, its IDs are not ahead of its clock.
    sleep_past(begin + layout.tick_ms());
    report.merge(some_ids(&b, &layout));
    let last = real_time();
    b.stop(Signal::INT);

    sleep_past(last + MAX_BORROW_MS + layout.tick_ms());
    a.start();
    if before != Before::Started {
        a.wait_until("SELECT state IN ('idle', 'ready') FROM snowflake_status");
    }
    if before == Before::Issued {
        let mut witness = Witness::of(&a);
        witness.next_id().expect("an ID");
        report.merge(witness.report());
    }
    let step = real_time() - last + BEFORE_MS;
    a.set_clock(-Duration::from_millis(step).as_secs_f64());
    let load = Load::start(&a, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    // Its clock has shown all times of the other server.
    sleep_past(last + step + layout.tick_ms());
    load.wait_for_some(1000);
    let load = load.finish();
    assert!(load.errors().keys().all(|error| error.starts_with("53400 ")), "{:?}", load.errors());
    report.merge(load);
    assert_eq!(report.duplicates(), 0, "of {} IDs, with {policy} and layout {layout}", report.ids());
    report
}

/// So many that a server which takes some of these ticks takes the same: a tick of a second has 4,096.
fn some_ids(server: &Cluster, layout: &Layout) -> Report {
    let load = Load::start(server, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    load.wait_for_some(if layout.tick_ms() == 1 { 20_000 } else { 2_000 });
    load.finish()
}
