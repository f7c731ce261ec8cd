//! A standby takes over: from a primary that is dead, or only seems to be.

use super::nodes::{
    IDS, START_MARGIN_MS, assert_above, assert_only_errors, crash, ids_after_start_margin, lead_ms,
    some_ids_without_errors, start,
};
use super::suite::{Evidence, Fault};
use snowflake_core::UnixMs;
use std::iter;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Builder, Cluster, Load, Report, error, issued_at, real_time, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 17,
        promise: "a_standby_behind_the_clock_takes_over_its_primarys_worker_by_the_wal_mark",
        short: 1,
        full: 5,
        run: standby_behind_the_clock,
    },
    Fault {
        row: 17,
        promise: "a_standby_behind_the_clock_takes_over_with_a_worker_of_its_own",
        short: 1,
        full: 5,
        run: standby_with_its_own_worker,
    },
    Fault {
        row: 17,
        promise: "a_standby_with_a_right_clock_takes_over_its_primarys_worker",
        short: 1,
        full: 5,
        run: |rounds| standby_with_a_right_clock(|| start(Cluster::builder().worker(1).with_defaults()), rounds),
    },
    Fault {
        row: 17,
        promise: "a_standby_with_a_right_clock_takes_over_while_the_wal_mark_is_preferred",
        short: 1,
        full: 5,
        run: |rounds| standby_with_a_right_clock(|| with_wal_mark("prefer"), rounds),
    },
    Fault {
        row: 17,
        promise: "a_second_standby_takes_over_at_once_from_the_first_of_which_it_knows_nothing",
        short: 1,
        full: 5,
        run: second_failover,
    },
    Fault {
        row: 17,
        promise: "a_new_server_takes_over_at_once_from_one_that_was_promoted_a_moment_before",
        short: 1,
        full: 5,
        run: new_server,
    },
    Fault {
        row: 17,
        promise: "a_standby_whose_machine_was_paused_for_hours_begins_once_its_clock_is_trusted",
        short: 1,
        full: 2,
        run: paused_standby,
    },
    Fault { row: 19, promise: "both_sides_of_a_split_brain_issue_different_ids", short: 1, full: 10, run: split_brain },
];

/// How far the standby's clock is behind the primary's.
const BEHIND_MS: i64 = 5000;

/// A server that writes its mark through WAL, for its standbys.
fn with_wal_mark(wal_mark: &str) -> Cluster {
    let primary = start(Cluster::builder().worker(1).with_defaults().set("snowflake_pg.wal_mark", wal_mark));
    assert_eq!(value(&mut primary.connect(), "SHOW snowflake_pg.wal_mark"), wal_mark);
    primary
}

/// A standby whose clock is behind from its start on. (PostgreSQL waits by the clock before it looks for WAL again, so
/// a step back would only make the promotion late.)
fn behind(standby: Builder, primary: &Cluster) -> Cluster {
    let mut standby = standby.own_clock().backup_of(primary);
    standby.set_clock(-5.0);
    standby.follow(primary);
    standby
}

/// How far ahead a server looks that is to look ahead little, in milliseconds.
const LITTLE_MS: UnixMs = 200;

/// A server that looks so little ahead that two nodes issue IDs at the same times: then it is their workers alone that
/// tell their IDs apart.
fn with_its_own_worker(worker: i32) -> Builder {
    Cluster::builder()
        .worker(worker)
        .set("snowflake_pg.reserve_ahead", LITTLE_MS)
        .set("snowflake_pg.max_borrow", LITTLE_MS)
}

/// The IDs of two nodes are of the same times, at least in part.
fn assert_overlap(one: &Report, other: &Report) {
    let times = [one, other].map(|report| {
        let (lowest, highest) = report.range().expect("IDs");
        [lowest, highest].map(issued_at)
    });
    assert!(times[0][0] < times[1][1] && times[1][0] < times[0][1], "the row shows nothing: {times:?}");
}

/// Lets the primary answer to nobody from now on but the standby that it has.
fn replicate_synchronously(primary: &Cluster) {
    primary.configure("synchronous_standby_names", "*");
    primary.reload();
    primary.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
}

/// Kills a primary under this load, at this time or a little later, and promotes its standby, which clients keep asking
/// all the while. What the clients of each have received.
fn take_over(mut primary: Cluster, old: Load, standby: &Cluster, at: UnixMs) -> (Report, Report) {
    let new = Load::start(standby, 2, IDS);
    old.wait_for_ids();
    sleep(Duration::from_millis(300.max(at.saturating_sub(real_time()))));
    primary.kill_all();
    standby.promote();
    new.wait_for_ids();
    sleep(Duration::from_millis(300));
    assert!(primary.try_connect().is_err(), "the old primary is alive");
    let (old, new) = (old.finish(), new.finish());
    assert_only_errors(&old, &[]);
    (old, new)
}

/// The evidence of rounds with a primary and its standby each.
pub fn in_rounds(rounds: usize, mut round: impl FnMut(&mut Report) -> i64) -> Evidence {
    let mut all = Report::default();
    let mut lead = 0;
    for _ in 0..rounds {
        let mut seen = Report::default();
        lead = round(&mut seen).max(lead);
        seen.assert_unique_and_ordered();
        // The next round's servers have the same worker, and know nothing of these: they rely on the clock.
        let (_, highest) = seen.range().expect("IDs");
        sleep(Duration::from_millis((issued_at(highest) + 1).saturating_sub(real_time())));
        all.merge(seen);
    }
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all).lead_ms(lead)
}

fn standby_behind_the_clock(rounds: usize) -> Evidence {
    let evidence = in_rounds(rounds, |all| {
        let primary = with_wal_mark("require");
        let before = some_ids_without_errors(&primary);
        let standby = behind(Cluster::builder(), &primary);
        replicate_synchronously(&primary);
        let old = Load::start(&primary, 2, IDS);
        // Past where the standby would begin by the mark that it was given with its base backup.
        let at = standby.mark() + START_MARGIN_MS + 500;
        let (mut old, new) = take_over(primary, old, &standby, at);
        old.merge(before);
        // In recovery before the promotion, and too far behind what the primary has issued right after it.
        assert_only_errors(&new, &["25006", "53400"]);
        assert_above(&new, &old);
        let lead = lead_ms(&old, 0).max(lead_ms(&new, -BEHIND_MS));
        together(all, [old, new]);
        lead
    });
    evidence.crashes(rounds)
}

fn standby_with_its_own_worker(rounds: usize) -> Evidence {
    let evidence = in_rounds(rounds, |all| {
        let primary = start(with_its_own_worker(1));
        let began = real_time();
        let old = Load::start(&primary, 2, IDS);
        old.wait_for_ids();
        let standby = behind(with_its_own_worker(2), &primary);
        // The standby begins by its own clock, which then shows times of which the primary has issued IDs.
        let at = began + BEHIND_MS.unsigned_abs() + 300;
        let (old, new) = take_over(primary, old, &standby, at);
        assert_only_errors(&new, &["25006", "53400"]);
        assert_overlap(&old, &new);
        let lead = lead_ms(&old, 0).max(lead_ms(&new, -BEHIND_MS));
        together(all, [old, new]);
        lead
    });
    evidence.crashes(rounds)
}

fn standby_with_a_right_clock(primary: fn() -> Cluster, rounds: usize) -> Evidence {
    let evidence = in_rounds(rounds, |all| {
        let mut primary = primary();
        let before = some_ids_without_errors(&primary);
        let standby = Cluster::builder().standby_of(&primary);
        // Ahead of its clock: that is what the start margin is for.
        crash(&mut primary);
        let began = real_time();
        let old = Load::start(&primary, 2, IDS);
        let (mut old, new) = take_over(primary, old, &standby, 0);
        old.merge(before);
        assert_only_errors(&new, &["25006"]);
        assert_above(&new, &old);
        let (lowest, _) = new.range().expect("IDs");
        let floor = issued_at(lowest);
        assert!(floor >= began + START_MARGIN_MS, "the floor is {floor} and not beyond {began} by the start margin");
        let lead = lead_ms(&old, 0).max(lead_ms(&new, 0));
        together(all, [old, new]);
        lead
    });
    evidence.crashes(2 * rounds)
}

/// Both standbys know the same mark, which is ahead of the clock, and further if somebody has had IDs begin later.
fn second_failover(rounds: usize) -> Evidence {
    let evidence = in_rounds(2 * rounds, {
        let mut is_advanced = false;
        move |all| {
            is_advanced = !is_advanced;
            let [old, first, second] = before_the_clock_gets_there(|| two_promotions(is_advanced));
            assert_above(&second, &first);
            let lead = lead_ms(&first, 0).max(lead_ms(&second, 0));
            together(all, [old, first, second]);
            lead
        }
    });
    evidence.crashes(4 * rounds)
}

/// What clients of a primary received, and of its two standbys, which took over one after the other.
fn two_promotions(is_advanced: bool) -> Option<[Report; 3]> {
    let mut primary = start(Cluster::builder().worker(1).with_defaults().set("snowflake_pg.reserve_ahead", "4s"));
    let standbys = [(), ()].map(|()| Cluster::builder().standby_of(&primary));
    let old = Load::start(&primary, 2, IDS);
    old.wait_for_ids();
    sleep(Duration::from_millis(300));
    if is_advanced {
        let later = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '6 s'))";
        primary.connect().batch_execute(later).expect("an advance");
        standbys.iter().for_each(|standby| standby.wait_for_commits_of(&primary));
    }
    primary.kill_all();
    let old = old.finish();
    let [first, second] = standbys.map(|mut standby| {
        let is_ahead = is_advanced || primary.mark() > real_time();
        standby.promote();
        let ids = ids_after_start_margin(&standby);
        standby.kill_all();
        is_ahead.then_some(ids)
    });
    Some([old, first?, second?])
}

/// Does this again if a slow machine took so long that the clock was beyond what the row is about.
fn before_the_clock_gets_there<T>(attempt: impl FnMut() -> Option<T>) -> T {
    iter::repeat_with(attempt).take(20).flatten().next().expect("a round that shows something")
}

fn split_brain(rounds: usize) -> Evidence {
    in_rounds(rounds, |all| {
        let primary = start(with_its_own_worker(1));
        let standby = with_its_own_worker(2).standby_of(&primary);
        let old = Load::start(&primary, 2, IDS);
        old.wait_for_ids();
        let frozen = primary.freeze();
        standby.promote();
        let new = Load::start(&standby, 2, IDS);
        new.wait_for_ids();
        drop(frozen);
        old.wait_for_ids();
        new.wait_for_ids();
        // Until neither is ahead of its clock any more.
        sleep(Duration::from_secs(1));
        let (old, new) = (old.finish(), new.finish());
        assert_only_errors(&old, &[]);
        assert_only_errors(&new, &[]);
        assert_overlap(&old, &new);
        let lead = lead_ms(&old, 0).max(lead_ms(&new, 0));
        together(all, [old, new]);
        lead
    })
}

/// A server that knows nothing of those that had its worker before.
fn new_server(rounds: usize) -> Evidence {
    let evidence = in_rounds(rounds, |all| {
        let mut new = Cluster::builder().worker(1).with_defaults().create();
        let before = before_the_clock_gets_there(|| {
            let mut primary = start(Cluster::builder().worker(1).with_defaults());
            let mut before = ids_after_start_margin(&primary);
            let mut standby = Cluster::builder().standby_of(&primary);
            primary.kill_all();
            standby.promote();
            before.merge(ids_after_start_margin(&standby));
            standby.kill_all();
            let (_, highest) = before.range().expect("IDs");
            (issued_at(highest) > real_time() + 2 * START_MARGIN_MS).then_some(before)
        });
        new.start();
        new.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let after = ids_after_start_margin(&new);
        assert_above(&after, &before);
        let lead = lead_ms(&before, 0).max(lead_ms(&after, 0));
        together(all, [before, after]);
        lead
    });
    evidence.crashes(2 * rounds)
}

/// Its old clock shows times of which its primary has issued IDs.
fn paused_standby(rounds: usize) -> Evidence {
    const HOURS: f64 = -7200.0;
    let node = || Cluster::builder().worker(1).with_defaults().set("snowflake_pg.sequence_start", "zero").own_clock();
    let evidence = in_rounds(rounds, |all| {
        let mut primary = node().create();
        primary.set_clock(HOURS);
        primary.start();
        primary.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let mut before = ids_after_start_margin(&primary);
        let mut standby = node().backup_of(&primary);
        standby.set_clock(HOURS - 10.0);
        standby.follow(&primary);
        before.merge(some_ids_without_errors(&primary));
        primary.kill_all();
        standby.set_clock(0.0);
        standby.promote();
        let refused = error(&mut standby.connect(), "SELECT snowflake_nextval()");
        assert_eq!(refused.code().code(), "53400", "{refused:?}");
        assert!(refused.message().contains("jumped ahead"), "{refused:?}");
        standby.connect().batch_execute("SELECT snowflake_accept_clock()").expect("a clock");
        let after = ids_after_start_margin(&standby);
        assert_above(&after, &before);
        let lead = lead_ms(&after, 0);
        together(all, [before, after]);
        lead
    });
    evidence.crashes(rounds)
}

pub fn together(all: &mut Report, reports: impl IntoIterator<Item = Report>) {
    reports.into_iter().for_each(|report| all.merge(report));
}
