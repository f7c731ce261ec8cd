//! Random schedules of clock steps, crashes, restarts, failing disks and calls, on a server whose generator and mark
//! are real, and whose disk and clocks are simulated.

#![cfg(not(loom))]

mod disk;
mod events;
mod model;
mod record;
mod server;
mod start;

use events::{event, layout, moving, policy, uneventful, wal_mark};
use proptest::prelude::*;
use server::Server;

/// How many schedules are tried: more in `make test-all`.
fn cases() -> u32 {
    if std::env::var_os("SNOWFLAKE_PG_TESTS").is_none() { 2_500 } else { 10_000 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Strictly ascending over all of a server's lives: nothing twice, nothing out of order, unless the policy is to go
    /// back with the clock. Then nothing twice.
    #[test]
    fn no_schedule_makes_a_server_issue_an_id_twice_or_out_of_order(
        layout in layout(), wal_mark in wal_mark(), events in prop::collection::vec(event(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        for event in &events {
            server.happen(event);
        }
        if server.unordered {
            server.received.sort_unstable();
        }
        let rising = server.received.windows(2).all(|pair| pair[0] < pair[1]);
        prop_assert!(rising, "{:?}", server.received);
    }

    /// Whoever takes the worker over knows how far it has come, or is refused, and stays so when it is started again.
    #[test]
    fn no_schedule_makes_two_servers_issue_an_id_of_one_worker_twice_whatever_becomes_of_wal_mark(
        layout in layout(), wal_mark in wal_mark(), events in prop::collection::vec(moving(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        for event in &events {
            server.happen(event);
        }
        server.received.sort_unstable();
        let twice = server.received.windows(2).find(|pair| pair[0] >= pair[1]);
        prop_assert_eq!(twice, None);
    }

    /// A server whose disk works is never stuck: once the clock has passed every mark, IDs flow.
    #[test]
    fn a_server_always_recovers_once_its_clock_has_caught_up(
        layout in layout(), wal_mark in wal_mark(), events in prop::collection::vec(event(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        for event in &events {
            server.happen(event);
        }
        let received = server.received.len();
        server.disk.works = true;
        server.clock += 10_000_000;
        server.call(1);
        // It may have had to wait for the start margin of a start.
        server.clock += 10_000;
        server.call(1);
        prop_assert!(server.received.len() > received);
    }

    /// A mark that is lost is made up for by the guard, however far ahead the ticks and the policy let IDs be.
    #[test]
    fn a_server_that_loses_its_mark_under_a_right_clock_issues_nothing_twice(
        layout in layout(), wal_mark in wal_mark(), policy in policy(), events in prop::collection::vec(uneventful(), 1..60),
    ) {
        let mut server = Server::new(layout, wal_mark);
        server.policy = policy;
        for event in &events {
            server.happen(event);
        }
        server.received.sort_unstable();
        let twice = server.received.windows(2).find(|pair| pair[0] >= pair[1]);
        prop_assert_eq!(twice, None);
    }
}
