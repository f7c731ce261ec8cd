//! The mark in WAL is lower than the one that a server has written there before: its file was removed, or WAL was lost
//! with its timeline.

use super::nodes::{
    FAR_AHEAD, IDS, STATE_DIRECTORY, assert_only_errors, ids_after_start_margin, ids_until_past, in_separate_rounds,
    run_ahead, some_ids_without_errors, start, together_above,
};
use super::old_record::{become_primary, node, write_over};
use super::suite::{Evidence, Fault};
use std::fs;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Load, Report, Signal, Volume, allow_duplicates, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 44,
        promise: "a_data_directory_that_is_restored_after_the_file_with_the_marks_was_removed_repeats_nothing",
        short: 1,
        full: 4,
        run: removed_once,
    },
    Fault {
        row: 44,
        promise: "servers_that_take_turns_after_the_file_with_the_marks_was_removed_repeat_nothing",
        short: 1,
        full: 3,
        run: removed_by_the_other,
    },
    Fault {
        row: 44,
        promise: "a_server_whose_mark_in_wal_was_lost_with_its_timeline_repeats_nothing_of_the_other_one",
        short: 1,
        full: 3,
        run: lost_with_its_timeline,
    },
    Fault {
        row: 40,
        promise: "a_state_directory_that_was_away_is_not_known_from_the_mark_of_another_worker_in_wal",
        short: 1,
        full: 3,
        run: known_from_another_worker,
    },
];

/// What clients receive of a server whose clock is set ahead by this many seconds.
fn with_clock(server: &Cluster, seconds: f64) -> Report {
    server.set_clock(seconds);
    let load = Load::start(server, 2, IDS);
    load.wait_for_ids();
    sleep(Duration::from_secs(2));
    load.finish()
}

/// As docs/operations.md says, where a mark is too far ahead.
fn remove_marks(server: &mut Cluster) {
    server.stop(Signal::INT);
    fs::remove_file(server.wal_page_file()).expect("the page");
    server.start();
}

/// A stopped server is written over by a backup and started again, after it has issued these IDs.
fn restore(server: &mut Cluster, backup: &Cluster, before: Report, what: &str) -> Report {
    write_over(server, &backup.data(), "--force");
    server.start();
    let after = ids_until_past(server, &before);
    assert_only_errors(&after, &["53400"]);
    together_above(what, before, after)
}

fn removed_once(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let mut server = start(node("prefer"));
        let mut ids = some_ids_without_errors(&server);
        remove_marks(&mut server);
        ids.merge(ids_until_past(&server, &ids));
        let backup = Cluster::builder().backup_of(&server);
        server.restart(Signal::INT);
        ids.merge(some_ids_without_errors(&server));
        ids.merge(run_ahead(&server, FAR_AHEAD[round % 2]));
        server.stop(Signal::INT);
        restore(&mut server, &backup, ids, "a data directory restored after the file with the marks was removed")
    })
}

/// The first server knows of a higher mark than the file has, which the other one has written anew.
fn removed_by_the_other(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let mut a = start(node("prefer"));
        let mut ids = some_ids_without_errors(&a);
        let mut b = node("prefer").standby_of(&a);
        ids.merge(run_ahead(&a, FAR_AHEAD[round % 2]));
        b.wait_for_commits_of(&a);
        a.stop(Signal::INT);
        b.wait_for_replay_of(&a);
        become_primary(&mut b);
        assert_ne!(value(&mut b.connect(), "SELECT snowflake_accept_mark()"), "NULL", "when IDs begin");
        let of_b = ids_until_past(&b, &ids);
        ids = together_above("the turn of the server that was accepted", ids, of_b);
        remove_marks(&mut b);
        let of_b = ids_until_past(&b, &ids);
        ids = together_above("the same without the marks in WAL", ids, of_b);
        a.follow(&b);
        a.wait_for_commits_of(&b);
        b.stop(Signal::INT);
        a.wait_for_replay_of(&b);
        become_primary(&mut a);
        let after = ids_until_past(&a, &ids);
        together_above("the turn of the server that has known a higher mark", ids, after)
    })
}

/// A is ahead, crashes, and its last WAL is lost: B takes over, and A is rewound. Later they take turns without a
/// promotion, and B goes on above A's mark, but below what A once had in WAL.
fn lost_with_its_timeline(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let with = |name: &str, reserve_ahead: &str| {
            let builder = node("prefer").set("wal_log_hints", "on").set("snowflake_pg.max_borrow", "3min");
            let builder = builder.set(STATE_DIRECTORY, volume.make_directory(name).display());
            builder.set("snowflake_pg.reserve_ahead", reserve_ahead)
        };
        let mut a = start(with("a", "4s"));
        a.wait_until("SELECT snowflake_nextval() > 0");
        let mut b = with("b", "200ms").standby_of(&a);
        b.wait_for_commits_of(&a);
        b.stop(Signal::INT);
        // IDs up to here may come again: A's mark is lost with its WAL. What matters comes later.
        allow_duplicates();
        drop(with_clock(&a, 90.0));
        a.set_clock(0.0);
        a.restart(Signal::INT);
        drop(some_ids_without_errors(&a));
        a.kill_all();
        b.start();
        b.promote();
        drop(ids_after_start_margin(&b));
        // pg_rewind wants a server that was stopped as planned.
        a.single_user("SELECT 1\n");
        a.rewind(&b);
        a.follow(&b);
        a.wait_for_commits_of(&b);
        b.stop(Signal::INT);
        a.wait_for_replay_of(&b);
        a.promote();
        let mut ids = ids_after_start_margin(&a);
        b.follow(&a);
        b.wait_for_commits_of(&a);
        a.stop(Signal::INT);
        b.wait_for_replay_of(&a);
        become_primary(&mut b);
        let load = Load::start(&b, 2, IDS);
        load.wait_for_ids();
        sleep(Duration::from_secs(1));
        ids.merge(load.finish());
        a.follow(&b);
        a.wait_for_commits_of(&b);
        b.stop(Signal::INT);
        a.wait_for_replay_of(&b);
        become_primary(&mut a);
        let load = Load::start(&a, 2, IDS);
        sleep(Duration::from_secs(5));
        together_above("the turn of a server whose mark in WAL was lost", ids, load.finish())
    })
}

/// Worker 2 has an old mark in WAL. Then it has issued IDs with another state directory and without WAL, and the last
/// life is worker 1's.
fn known_from_another_worker(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let (first, second) = (volume.make_directory("a"), volume.path().join("b"));
        let mut server = start(node("prefer").set("snowflake_pg.worker_id", 2).set(STATE_DIRECTORY, first.display()));
        let mut ids = some_ids_without_errors(&server);
        ids.merge(with_clock(&server, 15.0));
        server.stop(Signal::INT);
        assert!(Command::new("cp").arg("-a").args([&first, &second]).status().expect("cp").success());
        server.configure(STATE_DIRECTORY, second.display());
        server.configure("snowflake_pg.wal_mark", "off");
        server.start();
        ids.merge(ids_after_start_margin(&server));
        ids.merge(with_clock(&server, 40.0));
        server.stop(Signal::INT);

        server.set_clock(0.0);
        server.configure("snowflake_pg.wal_mark", "prefer");
        server.configure("snowflake_pg.worker_id", 1);
        server.start();
        drop(ids_after_start_margin(&server));
        server.stop(Signal::INT);

        server.configure(STATE_DIRECTORY, first.display());
        server.configure("snowflake_pg.worker_id", 2);
        server.start();
        super::nodes::assert_refused(&server, "durable mark");
        server.stop(Signal::INT);
        server.configure(STATE_DIRECTORY, second.display());
        server.start();
        let after = ids_until_past(&server, &ids);
        assert_only_errors(&after, &["53400"]);
        together_above("a state directory that was away while another worker had WAL", ids, after)
    })
}
