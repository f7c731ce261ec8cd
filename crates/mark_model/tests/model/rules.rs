//! What each rule is for: what goes wrong without it.

use crate::promise::{
    BACKUPS, BACKUPS_CHANGES, CHANGES, CHANGES_RIGHT, FAILED_CHANGES, FAILOVERS, FAILOVERS_WRONG, IMAGES, LEASED,
    LEASED_FAILOVER, REWINDS, SHORT_MARGIN, TURNS, WRONG_CLOCKS,
};
use libtest_mimic::Trial;
use mark_model::promises::{AHEAD, ALARM, HORIZON, UNIQUENESS};
use mark_model::rules::Rule;
use mark_model::state::Budget;
use mark_model::world::World;
use model_explorer::trial;

/// Rules without which something is issued twice, and where that is seen soonest.
const NEEDED: &[(Rule, World)] = &[
    (Rule::MarkBeforeIds, WRONG_CLOCKS),
    (Rule::BeginsAtMark, WRONG_CLOCKS),
    (Rule::BeginsAtClock, TURNS),
    (Rule::StartMargin, FAILOVERS),
    (Rule::AboveLead, SHORT_MARGIN),
    (Rule::LifeInDataDirectory, FAILOVERS),
    (Rule::CopiedLifeSaysNothing, FAILOVERS_WRONG.off()),
    (Rule::RecordNamesDirectory, FAILOVERS_WRONG.off()),
    (Rule::RecordNamesTimeline, REWINDS.off()),
    (Rule::RecordNamesWal, BACKUPS_CHANGES),
    (Rule::MarksOfOthers, FAILED_CHANGES),
    (Rule::WalCounts, FAILOVERS_WRONG),
    (Rule::WalRises, BACKUPS),
    (Rule::DisownedInWal, World { budget: Budget { changes: 1, ..FAILOVERS.budget }, ..FAILOVERS_WRONG }),
    (Rule::SameLayout, CHANGES),
    (Rule::WaitsForStandby, FAILOVERS_WRONG.require()),
];

/// Rules without which a plain restart goes wrong, and the promise that is broken then.
const NEEDED_BY_RESTARTS: &[(Rule, &str)] =
    &[(Rule::WalBeforeRecord, ALARM), (Rule::RecordNamesLifeBefore, ALARM), (Rule::RecordNamesWal, AHEAD)];

/// Rules that no other promise needs: without them, the start margin still keeps a timestamp from being issued twice.
const FOR_RESTARTS_ALONE: &[Rule] = &[Rule::WalBeforeRecord, Rule::RecordNamesLifeBefore];

/// Rules without which the horizon of a cluster falls, and where that is seen soonest.
const NEEDED_BY_READERS: &[(Rule, World)] = &[
    (Rule::BeginsAboveOthers, LEASED),
    (Rule::LeasedAboveMargin, World { end: 3, ..LEASED_FAILOVER }),
    (Rule::HorizonAboveOthers, CHANGES),
    (Rule::StartMargin, CHANGES_RIGHT),
];

pub fn trials() -> Vec<Trial> {
    let needed = NEEDED.iter().map(|(rule, world)| {
        trial(format!("without_the_rule_{rule}_a_timestamp_is_issued_twice"), || goes_wrong(&world.without(*rule)))
    });
    let by_restarts = NEEDED_BY_RESTARTS.iter().map(|&(rule, promise)| {
        let what = if promise == ALARM { "a_restart_is_a_false_alarm" } else { "a_planned_restart_leaves_a_gap" };
        let show = move || model_explorer::show_way(&World::ALONE.without(rule), promise);
        trial(format!("without_the_rule_{rule}_{what}"), show)
    });
    let by_readers = NEEDED_BY_READERS.iter().map(|&(rule, world)| {
        let show = move || model_explorer::show_way(&world.without(rule), HORIZON);
        trial(format!("without_the_rule_{rule}_the_horizon_of_a_cluster_falls"), show)
    });
    let others = FOR_RESTARTS_ALONE.iter().map(|&rule| {
        trial(format!("without_the_rule_{rule}_small_worlds_issue_nothing_twice"), move || stays_unique(rule))
    });
    let all = Trial::test("no_rule_is_needless", || {
        let is_needed = |rule: &Rule| {
            let needed = NEEDED.iter().chain(NEEDED_BY_READERS).any(|(needed, _)| needed == rule);
            needed || FOR_RESTARTS_ALONE.contains(rule)
        };
        assert!(Rule::ALL.iter().all(is_needed), "a rule is in no list");
        let is_shown = |rule: &Rule| NEEDED_BY_RESTARTS.iter().any(|(needed, _)| needed == rule);
        assert!(FOR_RESTARTS_ALONE.iter().all(is_shown), "a rule without a counterexample");
        Ok(())
    });
    needed.chain(by_restarts).chain(by_readers).chain(others).chain([all]).collect()
}

/// Shows how a timestamp comes to be issued twice.
pub fn goes_wrong(world: &World) -> String {
    model_explorer::show_way(world, UNIQUENESS)
}

fn stays_unique(rule: Rule) -> String {
    let images = World { budget: Budget { images: 1, ..World::ALONE.budget }, ..IMAGES };
    let worlds = [World::ALONE, FAILOVERS, FAILOVERS_WRONG.shared(), CHANGES, images, BACKUPS];
    let states = worlds.map(|world| {
        let (states, steps) = model_explorer::shortest_way(&world.without(rule), UNIQUENESS);
        assert_eq!(steps, None, "the rule is needed");
        format!("\n  {states} states")
    });
    states.concat()
}
