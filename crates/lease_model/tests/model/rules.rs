//! What each rule is for: what goes wrong without it.

use crate::promise::{
    EARLY, IMAGES, LATE, LATE_AND_RESTORED, LATE_ONCE, LATE_TWICE_AND_RESTORED, RESTORED, TWO_WORKERS,
};
use crate::{Bounds, bounds};
use lease_model::promises::UNIQUENESS;
use lease_model::rules::Rule;
use lease_model::world::{Beyond, World};
use libtest_mimic::Trial;
use model_explorer::trial;

const SHORT: World = World::CRASHES;
/// A disk went back past a renewal in the same boot, and the registry is reached.
const ROLLED_BACK: World = World { end: 3, alone: false, ..IMAGES }.with(Beyond::RolledBackPastRenewal);

/// Rules without which something is issued twice, and where that is seen soonest.
const NEEDED: &[(Rule, World)] = &[
    (Rule::NextBeginsAtGrant, SHORT),
    (Rule::FreeAfterGrant, RESTORED),
    (Rule::RenewalPresentsToken, SHORT),
    (Rule::NewTokenWithRenewal, ROLLED_BACK),
    (Rule::HeldReachesBeginning, World { end: 4, ..LATE_ONCE }),
    (Rule::ReleasePresentsToken, SHORT),
    (Rule::ReleaseNotBelowBeginning, World { alone: false, ..LATE }),
    (Rule::NotBefore, RESTORED),
    (Rule::GrantsAreBounded, RESTORED),
    (Rule::HeldBeyondRestore, RESTORED),
    (Rule::AnsweredSinceRestore, LATE_TWICE_AND_RESTORED),
    (Rule::ReleaseAsRenewal, RESTORED),
    (Rule::CurrentRowDecides, RESTORED),
    (Rule::MarginOfRestore, EARLY),
    (Rule::MarkWithinGrant, SHORT),
    (Rule::MarkBeforeIds, SHORT),
    (Rule::BeginsAtMark, SHORT),
    (Rule::BeginningInLeaseFile, SHORT),
    (Rule::LimitAfterAnswer, SHORT),
    (Rule::SameBoot, World { end: 3, ..IMAGES }),
    (Rule::OwnFile, World { end: 3, ..IMAGES }),
    (Rule::CapBeforeRelease, SHORT),
    (Rule::LeaseFileBeforeRelease, SHORT),
    (Rule::NewTokenWithRelease, LATE),
];

/// Rules that keep a server its worker, or keep others from taking it. Nothing is issued twice without them.
const NOT_FOR_UNIQUENESS: &[Rule] = &[
    Rule::LeaseBesideMark,
    Rule::RepeatChangesNothing,
    Rule::ClaimsStayClaims,
    Rule::Receipt,
    Rule::LeaseFileBeforeLimit,
    Rule::TokenInLeaseFile,
];

pub fn trials() -> Vec<Trial> {
    let needed = NEEDED.iter().map(|(rule, world)| {
        trial(format!("without_the_rule_{rule}_a_timestamp_is_issued_twice"), || goes_wrong(&world.without(*rule)))
    });
    let others = NOT_FOR_UNIQUENESS
        .iter()
        .map(|&rule| trial(format!("without_the_rule_{rule}_nothing_is_issued_twice"), move || stays_right(rule)));
    needed.chain(others).collect()
}

/// Shows how a timestamp comes to be issued twice.
pub fn goes_wrong(world: &World) -> String {
    model_explorer::show_way(world, UNIQUENESS)
}

fn stays_right(rule: Rule) -> String {
    let restored = World { end: if bounds() == Bounds::Short { 2 } else { 3 }, ..RESTORED };
    let short = [SHORT, World { late: 1, end: 2, ..LATE }, restored, World { end: 2, ..TWO_WORKERS }];
    let large = [World { late: 1, ..LATE }, World { end: 2, ..LATE }, World { end: 2, ..LATE_AND_RESTORED }];
    // A server that continues without a mark begins anywhere. With two late requests, that is more than memory holds.
    let fits = |world: &World| rule != Rule::LeaseBesideMark || world.late < 2;
    let worlds = short.into_iter().chain(large.into_iter().filter(|world| bounds() == Bounds::Full && fits(world)));
    let states = worlds.map(|world| {
        let findings = model_explorer::all(&World { is_symmetric: true, ..world.without(rule) });
        assert!(findings.broken.is_empty(), "{:?}", findings.broken);
        format!("\n  {} states in {:.1} s", findings.states, findings.took.as_secs_f64())
    });
    states.collect()
}
