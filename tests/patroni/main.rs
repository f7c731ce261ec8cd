//! Fault row 18: three nodes under Patroni and etcd, whatever goes wrong, issue no ID twice. Clients ask every node all
//! the time, and keep every ID.
//!
//! A short form runs in `make test`; `make test-patroni` lets everything go wrong. Both end with a table of what was seen.

mod events;
mod fleet;
mod program;
mod table;

use crate::events::{Event, Seen};
use crate::fleet::{Fleet, NODES, Workers};
use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use testbed::{Report, real_time, twitter};

/// A fleet, and what goes wrong with it.
struct Case {
    promise: &'static str,
    workers: Workers,
    /// How far the nodes' clocks are from the real one, in seconds.
    clocks: [f64; NODES],
    /// What goes wrong in the short form.
    short: &'static [Event],
}

const RIGHT: [f64; NODES] = [0.0; NODES];
/// How far a clock may be behind the last ID, so that its node waits for it. An hour is far more.
const MOMENT: Duration = Duration::from_secs(10);
/// So that every failover goes to a clock that is far away.
const APART: [f64; NODES] = [0.0, 3600.0, -3600.0];
const SPLIT_BRAIN: &[Event] = &[Event::KilledPostgres, Event::KilledPatroni];

const CASES: &[Case] = &[
    Case {
        promise: "nodes_with_workers_of_their_own_issue_no_id_twice",
        workers: Workers::Own,
        clocks: RIGHT,
        short: SPLIT_BRAIN,
    },
    Case {
        promise: "nodes_that_share_a_worker_and_replicate_synchronously_issue_no_id_twice",
        workers: Workers::Shared,
        clocks: RIGHT,
        short: SPLIT_BRAIN,
    },
    Case {
        promise: "nodes_that_lease_their_workers_issue_no_id_twice",
        workers: Workers::Leased,
        clocks: RIGHT,
        short: SPLIT_BRAIN,
    },
    Case {
        promise: "nodes_with_workers_of_their_own_and_clocks_an_hour_apart_issue_no_id_twice",
        workers: Workers::Own,
        clocks: APART,
        short: &[],
    },
    Case {
        promise: "nodes_that_share_a_worker_with_clocks_an_hour_apart_issue_no_id_twice",
        workers: Workers::Shared,
        clocks: APART,
        short: &[],
    },
];

fn main() -> ExitCode {
    let full = std::env::var_os("SNOWFLAKE_PG_PATRONI").is_some_and(|counts| counts == "full");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let trials = CASES.iter().filter(|case| full || !case.short.is_empty()).map(|case| {
        let seen = Arc::clone(&seen);
        Trial::test(case.promise, move || {
            let events = if full { Event::ALL } else { case.short };
            let found = case.run(events);
            seen.lock().unwrap_or_else(PoisonError::into_inner).push((case.promise, found));
            Ok(())
        })
    });
    let mut arguments = Arguments::from_args();
    // Most of the time, a fleet waits.
    arguments.test_threads = arguments.test_threads.or(Some(CASES.len()));
    let conclusion = libtest_mimic::run(&arguments, trials.collect());
    table::print(&seen.lock().unwrap_or_else(PoisonError::into_inner));
    conclusion.exit_code()
}

impl Case {
    fn run(&self, events: &[Event]) -> Vec<Seen> {
        let mut fleet = Fleet::start(self.workers, self.clocks);
        let issues_for_sure = self.clocks == RIGHT || self.workers == Workers::Own;
        // Of more promotions, one can have gone to a clock that is ahead, without an ID that tells so.
        let mut are_known = true;
        let mut all = Report::default();
        let seen: Vec<_> = events
            .iter()
            .map(|&event| {
                let mut seen = event.happen(&mut fleet, issues_for_sure);
                all.merge(std::mem::take(&mut seen.report));
                seen.duplicates = all.duplicates();
                assert_eq!(seen.duplicates, 0, "after {event:?}, of {} IDs: {:?}", all.ids(), all.errors());
                are_known &= seen.promotions <= 1;
                let primary = fleet.primary();
                if issues_for_sure || are_known && !self.is_behind(primary, &all) {
                    println!("{event:?}: waits for an ID of node {primary}");
                    fleet.wait_for_ids_of(primary);
                }
                seen
            })
            .collect();
        assert!(all.ids() > 0, "no ID was received: {:?}", all.errors());
        seen
    }

    /// Whether a node's clock is behind the last ID, by more than a moment.
    fn is_behind(&self, node: usize, received: &Report) -> bool {
        let last = received.range().map_or(0, |(_, last)| twitter().issued_at(last.cast_unsigned()));
        let clock = Duration::from_millis(real_time()).as_secs_f64() + self.clocks[node];
        clock + MOMENT.as_secs_f64() < Duration::from_millis(last).as_secs_f64()
    }
}
