//! What each rule is for: what goes wrong without it.

use crate::promise::{
    CHANGES, FAILED_CHANGES, FAILOVERS, FAILOVERS_WRONG, IMAGES, REWINDS, SHORT_MARGIN, WRONG_CLOCKS,
};
use libtest_mimic::Trial;
use mark_model::promises::{AHEAD, ALARM, UNIQUENESS};
use mark_model::rules::Rule;
use mark_model::state::Budget;
use mark_model::world::World;
use model_explorer::trial;

/// Rules without which something is issued twice, and where that is seen soonest.
const NEEDED: &[(Rule, World)] = &[
    (Rule::MarkBeforeIds, WRONG_CLOCKS),
    (Rule::BeginsAtMark, WRONG_CLOCKS),
    (Rule::StartMargin, FAILOVERS),
    (Rule::AboveLead, SHORT_MARGIN),
    (Rule::LifeInDataDirectory, FAILOVERS),
    (Rule::CopiedLifeSaysNothing, FAILOVERS_WRONG.off()),
    (Rule::RecordNamesDirectory, FAILOVERS_WRONG.off()),
    (Rule::RecordNamesTimeline, REWINDS.off()),
    (Rule::MarksOfOthers, FAILED_CHANGES),
    (Rule::WalCounts, FAILOVERS_WRONG),
    (Rule::DisownedInWal, World { budget: Budget { changes: 1, ..FAILOVERS.budget }, ..FAILOVERS_WRONG }),
    (Rule::SameLayout, CHANGES),
    (Rule::WaitsForStandby, FAILOVERS_WRONG.require()),
];

/// Rules without which a plain restart goes wrong, and the promise that is broken then. Nothing is issued twice: the start
/// margin stands in.
const NEEDED_BY_RESTARTS: &[(Rule, &str)] =
    &[(Rule::WalBeforeRecord, ALARM), (Rule::RecordNamesLifeBefore, ALARM), (Rule::RecordNamesWal, AHEAD)];

/// Rules that others imply.
const IMPLIED: &[Rule] = &[Rule::WalRises];

pub fn trials() -> Vec<Trial> {
    let needed = NEEDED.iter().map(|(rule, world)| {
        trial(format!("without_the_rule_{rule}_a_timestamp_is_issued_twice"), || goes_wrong(&world.without(*rule)))
    });
    let by_restarts = NEEDED_BY_RESTARTS.iter().map(|&(rule, promise)| {
        let what = if promise == ALARM { "a_restart_is_a_false_alarm" } else { "a_planned_restart_leaves_a_gap" };
        let show = move || model_explorer::show_way(&World::ALONE.without(rule), promise);
        trial(format!("without_the_rule_{rule}_{what}"), show)
    });
    let restarts = NEEDED_BY_RESTARTS.iter().map(|&(rule, _)| {
        trial(format!("without_the_rule_{rule}_small_worlds_issue_nothing_twice"), move || stays_unique(rule))
    });
    let implied = IMPLIED.iter().map(|&rule| {
        trial(format!("without_the_rule_{rule}_all_promises_hold_in_small_worlds"), move || stays_right(rule))
    });
    let all = Trial::test("each_rule_is_needed_or_implied", || {
        let lists = [NEEDED.iter().map(|(rule, _)| *rule).collect(), IMPLIED.to_vec()];
        let by_restarts = NEEDED_BY_RESTARTS.iter().map(|(rule, _)| *rule);
        let listed: Vec<_> = lists.concat().into_iter().chain(by_restarts).collect();
        let is_once = |rule: &Rule| listed.iter().filter(|listed| *listed == rule).count() == 1;
        assert!(Rule::ALL.iter().all(is_once), "a rule is in no list, or in two");
        Ok(())
    });
    needed.chain(by_restarts).chain(restarts).chain(implied).chain([all]).collect()
}

/// Shows how a timestamp comes to be issued twice.
pub fn goes_wrong(world: &World) -> String {
    model_explorer::show_way(world, UNIQUENESS)
}

const IMAGES_ALONE: World = World { budget: Budget { images: 1, ..World::ALONE.budget }, ..IMAGES };

/// Worlds in which each way is looked for that a rule could be needed.
const SMALL: [World; 5] = [World::ALONE, FAILOVERS, FAILOVERS_WRONG.shared(), CHANGES, IMAGES_ALONE];

fn stays_unique(rule: Rule) -> String {
    let states = SMALL.map(|world| {
        let (states, steps) = model_explorer::shortest_way(&world.without(rule), UNIQUENESS);
        assert_eq!(steps, None, "the rule is needed");
        format!("\n  {states} states")
    });
    states.concat()
}

fn stays_right(rule: Rule) -> String {
    let worlds = SMALL.into_iter().chain([REWINDS, FAILED_CHANGES, FAILOVERS_WRONG.require()]);
    worlds.map(|world| format!("\n  {} states", model_explorer::hold(&world.without(rule)).states)).collect()
}
