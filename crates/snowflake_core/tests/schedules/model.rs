//! What servers do, held to the model of the mark.

use crate::events::{Event, layout, moving, uneventful, wal_mark};
use crate::server::Server;
use mark_model::rules::Rule;
use mark_model::world::World;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::WalMark;

/// Many events each: fewer than of others.
fn cases() -> u32 {
    if std::env::var_os("SNOWFLAKE_PG_TESTS").is_none() { 200 } else { 2_000 }
}

type Schedule = (Layout, WalMark, Vec<Event>);

/// Whatever fails, crashes or is configured; or state files are lost, after which servers begin ahead of a right clock.
fn schedule() -> impl Strategy<Value = Schedule> {
    let events = prop_oneof![
        4 => prop::collection::vec(moving(), 1..60),
        1 => prop::collection::vec(uneventful(), 1..60),
    ];
    (layout(), wal_mark(), events)
}

fn server((layout, wal_mark, events): Schedule) -> Server {
    let mut server = Server::new(layout, wal_mark);
    events.iter().for_each(|event| server.happen(event));
    server
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_model_allows_what_a_server_does(schedule in schedule()) {
        let outcome = server(schedule).disk.replay(World::ALONE);
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}

/// Rules that matter where there are several servers or other configurations, and the one that IDs wait for the mark:
/// events do not say when an ID is issued, or a horizon read.
const UNSEEN: &[Rule] = &[
    Rule::MarkBeforeIds,
    Rule::CopiedLifeSaysNothing,
    Rule::RecordNamesDirectory,
    Rule::RecordNamesTimeline,
    Rule::MarksOfOthers,
    Rule::SameLayout,
    Rule::BeginsAboveOthers,
    Rule::LeasedAboveMargin,
    Rule::HorizonAboveOthers,
    Rule::WaitsForStandby,
];

/// A model with a mistake is noticed, as a server with one is.
#[test]
fn a_model_without_one_of_its_rules_does_not_allow_what_a_server_does() {
    let mut runner = TestRunner::deterministic();
    let servers: Vec<_> =
        (0..600).map(|_| server(schedule().new_tree(&mut runner).expect("a schedule").current())).collect();
    let is_seen = |rule: &Rule| servers.iter().any(|server| server.disk.replay(World::ALONE.without(*rule)).is_err());
    let (seen, unseen): (Vec<_>, Vec<_>) = Rule::ALL.into_iter().partition(is_seen);
    println!("noticed: {seen:?}");
    assert!(unseen.iter().all(|rule| UNSEEN.contains(rule)), "nobody notices a model without {unseen:?}");
}
