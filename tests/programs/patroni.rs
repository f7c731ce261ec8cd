//! Fault row 18: three nodes under Patroni and etcd, whatever goes wrong, issue no ID twice. Clients ask every node all
//! the time, and keep every ID. At the end comes a table of what was seen.

mod events;
mod fleet;
mod program;
mod table;

use self::events::{Event, Seen};
use self::fleet::{Fleet, NODES, Workers};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use testbed::runner::Kind;
use testbed::{Report, default_layout, real_time};

/// A fleet, and what goes wrong with it.
struct Case {
    promise: &'static str,
    workers: Workers,
    /// How far the nodes' clocks are from the real one, in seconds.
    clocks: [f64; NODES],
}

const RIGHT: [f64; NODES] = [0.0; NODES];
/// How far a clock may be behind the last ID, so that its node waits for it. An hour is far more.
const MOMENT: Duration = Duration::from_secs(10);
/// So that every failover goes to a clock that is far away.
const APART: [f64; NODES] = [0.0, 3600.0, -3600.0];

const CASES: &[Case] = &[
    Case { promise: "nodes_with_workers_of_their_own_issue_no_id_twice", workers: Workers::Own, clocks: RIGHT },
    Case {
        promise: "nodes_that_share_a_worker_and_replicate_synchronously_issue_no_id_twice",
        workers: Workers::Shared,
        clocks: RIGHT,
    },
    Case { promise: "nodes_that_lease_their_workers_issue_no_id_twice", workers: Workers::Leased, clocks: RIGHT },
    Case {
        promise: "nodes_with_workers_of_their_own_and_clocks_an_hour_apart_issue_no_id_twice",
        workers: Workers::Own,
        clocks: APART,
    },
    Case {
        promise: "nodes_that_share_a_worker_with_clocks_an_hour_apart_issue_no_id_twice",
        workers: Workers::Shared,
        clocks: APART,
    },
];

static SEEN: Mutex<Vec<(&str, Vec<Seen>)>> = Mutex::new(Vec::new());

/// The fleets, as tests.
pub fn cases() -> Vec<testbed::runner::Case> {
    CASES
        .iter()
        .map(|case| {
            let name = format!("patroni::{}", case.promise);
            testbed::runner::Case::new(name, Kind::By("make suite NAME=patroni"), move || {
                let found = case.run();
                SEEN.lock().unwrap_or_else(PoisonError::into_inner).push((case.promise, found));
            })
        })
        .collect()
}

/// Shows a table of what was seen.
pub fn report() {
    table::print(&SEEN.lock().unwrap_or_else(PoisonError::into_inner));
}

impl Case {
    fn run(&self) -> Vec<Seen> {
        let mut fleet = Fleet::start(self.workers, self.clocks);
        let issues_for_sure = self.clocks == RIGHT || self.workers == Workers::Own;
        // Of more promotions, one can have gone to a clock that is ahead, without an ID that tells so.
        let mut are_known = true;
        let mut all = Report::default();
        let seen: Vec<_> = Event::ALL
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
        let last = received.range().map_or(0, |(_, last)| default_layout().issued_at(last.cast_unsigned()));
        let clock = Duration::from_millis(real_time()).as_secs_f64() + self.clocks[node];
        clock + MOMENT.as_secs_f64() < Duration::from_millis(last).as_secs_f64()
    }
}
