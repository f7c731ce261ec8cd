//! What each rule is for: what goes wrong without it.

use crate::promise::{CHANGES, FAILOVERS, FAILOVERS_WRONG, IMAGES, REWINDS, SHORT_MARGIN, WRONG_CLOCKS};
use libtest_mimic::Trial;
use mark_model::promises::UNIQUENESS;
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
    (Rule::WalCounts, FAILOVERS_WRONG),
    (Rule::DisownedInWal, World { budget: Budget { changes: 1, ..FAILOVERS.budget }, ..FAILOVERS_WRONG }),
    (Rule::SameLayout, CHANGES),
    (Rule::WaitsForStandby, FAILOVERS_WRONG.require()),
];

/// Rules without which nothing is issued twice in small worlds: another rule stands in, at the price of a start margin.
const NOT_SEEN: &[Rule] =
    &[Rule::WalBeforeRecord, Rule::RecordNamesLifeBefore, Rule::RecordNamesWal, Rule::MarksOfOthers, Rule::WalRises];

pub fn trials() -> Vec<Trial> {
    let needed = NEEDED.iter().map(|(rule, world)| {
        trial(format!("without_the_rule_{rule}_a_timestamp_is_issued_twice"), || goes_wrong(&world.without(*rule)))
    });
    let others = NOT_SEEN.iter().map(|&rule| {
        trial(format!("without_the_rule_{rule}_small_worlds_issue_nothing_twice"), move || stays_right(rule))
    });
    needed.chain(others).collect()
}

/// Shows how a timestamp comes to be issued twice.
pub fn goes_wrong(world: &World) -> String {
    model_explorer::show_way(world, UNIQUENESS)
}

fn stays_right(rule: Rule) -> String {
    let images = World { budget: Budget { images: 1, ..World::ALONE.budget }, ..IMAGES };
    let worlds = [World::ALONE, FAILOVERS, FAILOVERS_WRONG.shared(), CHANGES, images];
    let states = worlds.map(|world| {
        let (states, steps) = model_explorer::shortest_way(&world.without(rule), UNIQUENESS);
        assert_eq!(steps, None, "the rule is needed");
        format!("\n  {states} states")
    });
    states.concat()
}
