//! What holds in every state, whatever happens that the mark is meant to survive.

use crate::{Bounds, bounds};
use libtest_mimic::Trial;
use mark_model::state::{Budget, WalMark};
use mark_model::world::World;
use model_explorer::trial;

const NOTHING: Budget = World::ALONE.budget;
const FAILOVER: Budget = Budget { ends: 2, backups: 1, promotions: 1, ..NOTHING };

/// Clocks show anything, so that no start margin helps.
pub const WRONG_CLOCKS: World = World { end: 3, wrong_clocks: true, ..World::ALONE };
pub const FAILURES: World = World { budget: Budget { failures: 2, ..NOTHING }, ..World::ALONE };
pub const FAILOVERS: World = World { end: 5, budget: FAILOVER, ..World::ALONE };
pub const FAILOVERS_WRONG: World = World { budget: FAILOVER, ..WRONG_CLOCKS };
pub const TWO_FAILOVERS: World =
    World { end: 6, budget: Budget { ends: 2, backups: 2, promotions: 2, ..NOTHING }, ..World::ALONE };
/// Two servers take turns with a worker, and know nothing of each other.
pub const TURNS: World =
    World { end: 7, reserve: 1, wait: 1, borrow: 1, budget: Budget { turns: 1, ..NOTHING }, ..World::ALONE };
/// A server that is ahead of its clock as far as it may be, and further.
const ADVANCES: World = World { end: 6, budget: Budget { advances: 1, ..FAILOVER }, ..World::ALONE };
/// The start margin is shorter than that.
pub const SHORT_MARGIN: World = World { reserve: 1, wait: 1, ..ADVANCES };
pub const REWINDS: World = World { budget: Budget { promotions: 2, rewinds: 1, ..FAILOVER }, ..WRONG_CLOCKS };
pub const CHANGES: World = World { budget: Budget { ends: 2, changes: 2, ..NOTHING }, ..WRONG_CLOCKS };
/// A worker of its own after a failover, or a change back and forth, under a right clock.
pub const CHANGES_RIGHT: World = World { budget: CHANGES.budget, ..World::ALONE };
const CHANGED_FAILOVER: World = World { budget: Budget { changes: 1, ..FAILOVER }, ..World::ALONE };
/// A registry leases workers. A server that is given another one has no record of what the one before has issued.
pub const LEASED: World = World { is_leased: true, ..CHANGES_RIGHT };
pub const LEASED_FAILOVER: World = World { is_leased: true, ..CHANGED_FAILOVER };
/// WAL cannot be written once.
pub const FAILED_CHANGES: World = World { budget: Budget { failures: 1, ..CHANGES.budget }, ..WRONG_CLOCKS };
/// All files of a data directory but WAL go back, and so does the record in it.
pub const BACKUPS: World = World { budget: Budget { ends: 3, images: 1, ..NOTHING }, ..WRONG_CLOCKS };
pub const BACKUPS_CHANGES: World =
    World { budget: Budget { ends: 2, images: 1, changes: 1, ..NOTHING }, ..WRONG_CLOCKS };
const IMAGES_RIGHT: World = World { budget: IMAGES.budget, ..World::ALONE }.shared();
pub const IMAGES: World = World { budget: Budget { images: 1, ..FAILOVER }, ..WRONG_CLOCKS }.shared();

const PROMISES: &[(&str, World, Bounds)] = &[
    ("a_server_that_crashes_stops_and_starts_issues_nothing_twice", World::ALONE, Bounds::Short),
    ("a_server_whose_writes_fail_issues_nothing_twice", FAILURES, Bounds::Short),
    ("a_server_whose_writes_fail_without_wal_issues_nothing_twice", FAILURES.off(), Bounds::Short),
    ("with_wal_mark_off_a_server_issues_nothing_twice", World::ALONE.off(), Bounds::Short),
    ("a_server_with_any_clock_issues_nothing_twice", WRONG_CLOCKS, Bounds::Short),
    ("a_failover_lets_nothing_be_issued_twice", FAILOVERS, Bounds::Short),
    ("a_failover_with_wal_mark_require_lets_nothing_be_issued_twice", FAILOVERS.require(), Bounds::Short),
    ("a_failover_with_wal_mark_off_lets_nothing_be_issued_twice", FAILOVERS_WRONG.off(), Bounds::Short),
    ("a_failover_with_any_clock_lets_nothing_be_issued_twice", FAILOVERS_WRONG, Bounds::Short),
    ("a_failover_of_a_directory_outside_lets_nothing_be_issued_twice", FAILOVERS_WRONG.shared(), Bounds::Short),
    ("a_server_whose_configuration_changes_issues_nothing_twice", CHANGES, Bounds::Short),
    ("another_worker_goes_on_above_what_was_read", CHANGES_RIGHT, Bounds::Short),
    ("another_worker_goes_on_above_what_was_read_after_a_failover", CHANGED_FAILOVER, Bounds::Short),
    ("another_leased_worker_goes_on_above_what_was_read", LEASED, Bounds::Short),
    ("another_leased_worker_goes_on_above_what_was_read_after_a_failover", LEASED_FAILOVER, Bounds::Full),
    ("a_server_whose_configuration_changes_without_wal_issues_nothing_twice", CHANGES.off(), Bounds::Short),
    ("a_server_whose_configuration_changes_while_writes_fail_issues_nothing_twice", FAILED_CHANGES, Bounds::Short),
    ("a_server_that_is_put_back_to_a_backup_with_later_wal_issues_nothing_twice", BACKUPS, Bounds::Short),
    ("a_server_whose_configuration_changes_and_is_put_back_issues_nothing_twice", BACKUPS_CHANGES, Bounds::Short),
    (
        "a_failover_after_a_server_is_put_back_lets_nothing_be_issued_twice",
        World { budget: Budget { images: 1, ..FAILOVER }, ..WRONG_CLOCKS },
        Bounds::Full,
    ),
    ("a_data_directory_that_goes_back_lets_nothing_be_issued_twice", IMAGES, Bounds::Short),
    ("a_data_directory_that_goes_back_without_wal_lets_nothing_be_issued_twice", IMAGES.off(), Bounds::Short),
    ("two_failovers_and_a_rewind_let_nothing_be_issued_twice", REWINDS, Bounds::Short),
    ("two_failovers_of_a_directory_outside_let_nothing_be_issued_twice", REWINDS.shared(), Bounds::Short),
    ("a_failover_after_an_advance_lets_nothing_be_issued_twice", ADVANCES, Bounds::Short),
    ("a_start_margin_shorter_than_max_borrow_lets_nothing_be_issued_twice", SHORT_MARGIN, Bounds::Full),
    ("servers_that_take_turns_with_a_worker_issue_nothing_twice", TURNS, Bounds::Short),
    ("servers_that_take_turns_without_wal_issue_nothing_twice", TURNS.off(), Bounds::Short),
    ("failovers_one_after_another_let_nothing_be_issued_twice", TWO_FAILOVERS, Bounds::Full),
    ("a_data_directory_that_goes_back_under_a_right_clock_lets_nothing_be_issued_twice", IMAGES_RIGHT, Bounds::Short),
    (
        "many_crashes_let_nothing_be_issued_twice",
        World { end: 8, budget: Budget { ends: 5, ..NOTHING }, ..World::ALONE },
        Bounds::Short,
    ),
    (
        "failovers_over_a_longer_time_let_nothing_be_issued_twice",
        World { end: 7, budget: Budget { rewinds: 1, ..TWO_FAILOVERS.budget }, ..World::ALONE },
        Bounds::Full,
    ),
    (
        "many_changes_of_the_configuration_let_nothing_be_issued_twice",
        World { end: 6, budget: Budget { ends: 3, changes: 3, ..NOTHING }, ..World::ALONE },
        Bounds::Full,
    ),
    (
        "a_change_of_the_configuration_at_a_failover_lets_nothing_be_issued_twice",
        World { budget: Budget { changes: 1, ..FAILOVER }, ..WRONG_CLOCKS },
        Bounds::Full,
    ),
];

pub fn trials() -> Vec<Trial> {
    let promises = PROMISES.iter().filter(|(_, _, from)| *from <= bounds());
    promises.map(|(name, world, _)| trial(*name, || hold(world))).collect()
}

fn hold(world: &World) -> String {
    let findings = model_explorer::hold(world);
    // No standby may begin without marks in WAL, or without a standby of its own if that is required.
    let may_be_unseen = world.wal_mark != WalMark::Prefer && world.budget.promotions > 0;
    assert!(findings.unseen.is_empty() || may_be_unseen, "never seen: {:?}", findings.unseen);
    let seen = findings.seen.iter().map(|property| format!("\n  seen: {property}")).collect::<String>();
    format!("{} states in {:.1} s: each promise holds in all{seen}", findings.states, findings.took.as_secs_f64())
}
