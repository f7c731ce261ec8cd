//! What must hold in a short simulation, and what goes wrong in it when a rule is broken.

use fleet_simulation::settings::{Rule, Settings, Way};
use fleet_simulation::simulation::{Findings, Simulation};
use fleet_simulation::tally::Count;

fn simulate(broken: &'static [Rule], seed: u64) -> Findings {
    Simulation::new(Settings { broken, ..Settings::short(seed) }).run()
}

/// How many duplicates each way to give workers has in a day.
fn duplicates(findings: &Findings) -> [u64; 3] {
    findings.tallies.each_ref().map(|tally| tally.audit.duplicates)
}

/// Breaks a rule for a day, or for some, until IDs come twice. Only where the rule counts, and nowhere else.
fn must_be_found(broken: &'static [Rule], ways: &[Way]) {
    let is_found = (1..=5).any(|seed| {
        let counts = duplicates(&simulate(broken, seed));
        for way in Way::ALL.into_iter().filter(|way| !ways.contains(way)) {
            assert_eq!(counts[way as usize], 0, "{way:?} without {broken:?}");
        }
        ways.iter().all(|&way| counts[way as usize] > 0)
    });
    assert!(is_found, "nothing comes twice without {broken:?}");
}

#[test]
fn no_id_is_issued_twice_in_a_day_of_crashes_failovers_and_wrong_clocks() {
    let findings = simulate(&[], 1);
    assert_eq!(duplicates(&findings), [0; 3]);
    for way in Way::ALL {
        let tally = &findings.tallies[way as usize];
        for what in [Count::Crashes, Count::Stops, Count::Failovers, Count::LostStates, Count::ClockFaults] {
            assert!(tally.get(what) > 10, "only {} {what:?} where workers are {way:?}", tally.get(what));
        }
        assert!(tally.audit.received > 100_000_000, "only {} IDs", tally.audit.received);
    }
    let leased = &findings.tallies[Way::Leased as usize];
    assert!(leased.worker_waits.count > 10, "only {} claims had to wait", leased.worker_waits.count);
}

#[test]
fn a_former_primary_without_standbys_is_refused_within_its_reservation_if_its_clock_runs() {
    let findings = simulate(&[], 2);
    let split_brains = &findings.tallies[Way::Shared as usize].split_brains;
    let (went_on, refused) = (split_brains.clock_right, split_brains.refused);
    assert!(refused > 10, "only {refused} were refused");
    // One that was promoted itself a moment before is as far ahead of its clock as max_borrow allows.
    assert!(went_on.longest <= 5_100_000, "IDs for {} us", went_on.longest);
}

#[test]
fn the_same_seed_shows_the_same() {
    let [one, other] = [3, 3].map(|seed| {
        let all = simulate(&[], seed).all();
        (all.audit, all.get(Count::Calls), all.get(Count::Requests))
    });
    assert_eq!(one, other);
}

#[test]
fn ids_come_twice_if_a_restart_ignores_the_mark() {
    must_be_found(&[Rule::BeginsAtMark], &Way::ALL);
}

#[test]
fn ids_come_twice_if_a_promoted_standby_ignores_the_mark_in_wal() {
    must_be_found(&[Rule::BeginsAboveMarkInWal], &[Way::Shared]);
}

#[test]
fn ids_come_twice_if_a_former_primary_goes_on_without_its_standbys() {
    must_be_found(&[Rule::MarkIsAcknowledged], &[Way::Shared]);
}

#[test]
fn ids_come_twice_if_the_mark_passes_the_grant_of_a_lease() {
    must_be_found(&[Rule::MarkWithinGrant], &[Way::Leased]);
}

#[test]
fn ids_come_twice_if_a_worker_is_given_away_too_early_and_begins_where_it_began_before() {
    must_be_found(&[Rule::FreeAfterGrant, Rule::NextBeginsAtGrant], &[Way::Leased]);
}

/// No clock has to be right for I3: it only decides when a worker is free.
#[test]
fn no_id_is_issued_twice_if_a_worker_is_given_away_too_early_and_begins_at_the_grant() {
    assert_eq!(duplicates(&simulate(&[Rule::FreeAfterGrant], 1)), [0; 3]);
}
