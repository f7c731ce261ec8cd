//! What no rule prevents. Somebody must keep each of these from happening.

use crate::promise::{IMAGES, RESTORED};
use crate::rules::goes_wrong;
use lease_model::promises::{GIVEN_AWAY, UNIQUENESS};
use lease_model::rules::{Off, Rule};
use lease_model::world::{Beyond, World};
use libtest_mimic::Trial;
use model_explorer::Findings;
use model_explorer::trial;

const LIMITS: &[(&str, World)] = &[
    ("a_disk_that_goes_back_in_the_same_boot_can_repeat_ids", IMAGES.with(Beyond::RolledBackDisk)),
    ("a_server_that_is_cloned_with_its_memory_repeats_ids", World::CRASHES.with(Beyond::ClonedMemory)),
    ("a_registry_that_goes_back_on_its_timeline_can_let_ids_come_twice", RESTORED.with(Beyond::UnnoticedRestore)),
    (
        "an_old_primary_of_the_registry_that_goes_on_can_let_ids_come_twice",
        World { restores: 3, ..World::CRASHES }.with(Beyond::SplitRegistry),
    ),
];

fn is_broken(findings: &Findings, promise: &str) -> bool {
    findings.broken.iter().any(|&(name, _)| name == promise)
}

pub fn trials() -> Vec<Trial> {
    let limits = LIMITS.iter().map(|(name, world)| trial(*name, || goes_wrong(world)));
    let noticed = trial("a_disk_that_goes_back_past_a_renewal_is_noticed_where_the_registry_is_reached", || {
        let world = World { end: 3, alone: false, ..IMAGES }.with(Beyond::RolledBackPastRenewal);
        let findings = model_explorer::all(&world);
        assert!(findings.broken.is_empty(), "{:?}", findings.broken);
        format!("{} states in {:.1} s", findings.states, findings.took.as_secs_f64())
    });
    let lost = World { end: 3, ..RESTORED }.with(Beyond::UnnoticedRestore);
    let told = trial("a_server_whose_worker_was_lost_and_given_away_issues_nothing_once_it_is_told", move || {
        let findings = model_explorer::all(&lost);
        assert!(is_broken(&findings, UNIQUENESS) && !is_broken(&findings, GIVEN_AWAY), "{:?}", findings.broken);
        let without = World { off: Off::only(Rule::StopsWhenGivenAway), ..lost };
        assert!(model_explorer::shortest_way(&without, GIVEN_AWAY).1.is_some(), "without the rule");
        format!("{} states in {:.1} s", findings.states, findings.took.as_secs_f64())
    });
    limits.chain([noticed, told]).collect()
}
