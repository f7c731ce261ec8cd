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
use testbed::Report;

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
        let are_right = self.clocks == RIGHT;
        let mut all = Report::default();
        let seen: Vec<_> = events
            .iter()
            .map(|&event| {
                let mut seen = event.happen(&mut fleet, are_right);
                all.merge(std::mem::take(&mut seen.report));
                seen.duplicates = all.duplicates();
                assert_eq!(seen.duplicates, 0, "after {event:?}, of {} IDs: {:?}", all.ids(), all.errors());
                seen
            })
            .collect();
        assert!(all.ids() > 0, "no ID was received: {:?}", all.errors());
        seen
    }
}
