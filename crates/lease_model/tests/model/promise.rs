//! What holds in every state, whatever happens that the protocol promises to stand.

use crate::{Bounds, bounds};
use lease_model::world::World;
use libtest_mimic::Trial;
use model_explorer::trial;

/// A world where nothing is issued twice.
struct Promise {
    name: &'static str,
    world: World,
    /// The shortest bounds with which it is explored.
    from: Bounds,
}

const fn small(name: &'static str, world: World) -> Promise {
    Promise { name, world, from: Bounds::Short }
}

const fn large(name: &'static str, world: World) -> Promise {
    Promise { name, world, from: Bounds::Full }
}

pub const CRASHES: World = World { end: 6, longest_grant: 3, ..World::CRASHES };
pub const LATE: World = World { late: 2, end: 3, ..World::CRASHES };
pub const LATE_ONCE: World = World { late: 1, end: 5, ..World::CRASHES };
pub const RESTORED: World = World { restores: 1, ..World::CRASHES };
pub const LATE_AND_RESTORED: World = World { late: 1, restores: 1, end: 3, ..World::CRASHES };
pub const LATE_TWICE_AND_RESTORED: World = World { late: 2, end: 2, longest_grant: 1, ..LATE_AND_RESTORED };
pub const IMAGES: World = World { images: 1, ..World::CRASHES };
pub const EARLY: World = World { images: 1, restores: 1, early: 1, end: 3, ..World::CRASHES };
pub const TWO_WORKERS: World = World { workers: 2, end: 3, ..World::CRASHES };

const PROMISES: &[Promise] = &[
    small("servers_that_crash_stop_and_lose_answers_issue_nothing_twice", CRASHES),
    small("requests_that_arrive_late_and_twice_let_nothing_be_issued_twice", LATE),
    small("a_request_that_arrives_much_later_lets_nothing_be_issued_twice", LATE_ONCE),
    small("a_restored_registry_lets_nothing_be_issued_twice", RESTORED),
    small("a_registry_restored_twice_lets_nothing_be_issued_twice", World { restores: 2, end: 3, ..World::CRASHES }),
    small(
        "requests_from_just_before_a_restore_let_nothing_be_issued_twice",
        World { end: 2, longest_grant: 1, ..LATE_AND_RESTORED },
    ),
    large("requests_from_before_a_restore_let_nothing_be_issued_twice", LATE_AND_RESTORED),
    small("a_copied_disk_and_one_from_a_backup_let_nothing_be_issued_twice", IMAGES),
    small("servers_that_claim_their_workers_early_issue_nothing_twice", EARLY),
    small("servers_that_change_their_workers_issue_nothing_twice", TWO_WORKERS),
    small("three_servers_issue_nothing_twice", World { servers: 3, late: 1, ..World::CRASHES }),
    large(
        "servers_that_crash_over_a_long_time_issue_nothing_twice",
        World { end: 8, longest_grant: 4, ..World::CRASHES },
    ),
    large("requests_that_arrive_late_and_much_later_let_nothing_be_issued_twice", World { end: 4, ..LATE }),
    large("requests_from_long_before_a_restore_let_nothing_be_issued_twice", World { end: 4, ..LATE_AND_RESTORED }),
    large("two_requests_from_before_a_restore_let_nothing_be_issued_twice", LATE_TWICE_AND_RESTORED),
    large("requests_from_before_two_restores_let_nothing_be_issued_twice", World { restores: 2, ..LATE_AND_RESTORED }),
    large("late_requests_and_early_claims_let_nothing_be_issued_twice", World { early: 1, ..LATE_AND_RESTORED }),
    large("copied_disks_and_a_restored_registry_let_nothing_be_issued_twice", World { end: 4, ..EARLY }),
    large("two_workers_and_a_late_request_let_nothing_be_issued_twice", World { late: 1, ..TWO_WORKERS }),
    large("two_workers_and_a_restored_registry_let_nothing_be_issued_twice", World { restores: 1, ..TWO_WORKERS }),
    large("three_servers_and_two_workers_let_nothing_be_issued_twice", World { servers: 3, ..TWO_WORKERS }),
    large("three_servers_and_a_restored_registry_let_nothing_be_issued_twice", World { servers: 3, ..RESTORED }),
];

pub fn trials() -> Vec<Trial> {
    let promises = PROMISES.iter().filter(|promise| promise.from <= bounds());
    promises.map(|promise| trial(promise.name, || hold(&promise.world))).collect()
}

fn hold(world: &World) -> String {
    let findings = model_explorer::hold(world);
    assert!(findings.unseen.is_empty(), "never seen: {:?}", findings.unseen);
    let seen = findings.seen.iter().map(|property| format!("\n  seen: {property}")).collect::<String>();
    format!(
        "{} states in {:.1} s, uniqueness and I1 to I4 hold in all of them{seen}",
        findings.states,
        findings.took.as_secs_f64()
    )
}
