//! A record that is this server's, and that says less than WAL: somebody has continued from it, or the data directory
//! was restored over itself.

use super::nodes::{
    Ahead, FAR_AHEAD, IDS, assert_only_errors, assert_refused, ids_until_past, in_separate_rounds, run_ahead,
    some_ids_without_errors, start, together_above,
};
use super::suite::{Evidence, Fault};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Builder, Cluster, Load, Signal, error, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 44,
        promise: "a_data_directory_that_is_restored_over_itself_repeats_nothing_of_what_is_in_wal",
        short: 2,
        full: 4,
        run: restored_in_place,
    },
    Fault {
        row: 44,
        promise: "a_data_directory_that_is_restored_to_when_it_was_far_ahead_repeats_nothing",
        short: 1,
        full: 3,
        run: restored_to_when_it_was_ahead,
    },
    Fault {
        row: 44,
        promise: "servers_that_take_turns_without_a_promotion_repeat_nothing_of_what_is_in_wal",
        short: 1,
        full: 4,
        run: turns_on_one_timeline,
    },
    Fault {
        row: 45,
        promise: "a_promoted_standby_begins_above_the_mark_in_wal_before_its_keeper_runs",
        short: 1,
        full: 3,
        run: slow_keeper,
    },
];

/// A node whose mark also goes to WAL.
pub fn node(wal_mark: &str) -> Builder {
    Cluster::builder().worker(1).own_clock().set("wal_keep_size", "256MB").set("snowflake_pg.wal_mark", wal_mark)
}

/// Writes all files but WAL and the settings over those of a stopped server.
pub fn write_over(server: &Cluster, backup: &Path, how: &str) {
    let (wal, kept) = (server.data().join("pg_wal"), server.host().join("pg_wal"));
    let (settings, kept_settings) = (server.data().join("postgresql.conf"), server.host().join("kept.conf"));
    fs::rename(&wal, &kept).expect("WAL");
    fs::copy(&settings, &kept_settings).expect("the settings");
    let copied = Command::new("cp").args(["-a", how]).args([backup.join("."), server.data()]).status();
    assert!(copied.expect("cp").success());
    fs::remove_dir_all(&wal).expect("the backup's WAL");
    fs::rename(&kept, &wal).expect("WAL");
    fs::copy(&kept_settings, &settings).expect("the settings");
}

/// All files but WAL are those of a backup, which are written over the present ones, or take their places. There is no
/// promotion, since the backup is replayed as after a crash.
fn restored_in_place(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let how = ["--remove-destination", "--force"][round % 2];
        let mut server = start(node("require"));
        let backup = Cluster::builder().backup_of(&server);
        server.restart(Signal::INT);
        let mut before = some_ids_without_errors(&server);
        before.merge(run_ahead(&server, FAR_AHEAD[round % 2]));
        server.stop(Signal::INT);

        write_over(&server, &backup.data(), how);
        server.start();

        let timeline = "SELECT timeline_id FROM pg_control_checkpoint()";
        assert_eq!(value(&mut server.connect(), timeline), "1", "it was not promoted");
        let after = ids_until_past(&server, &before);
        assert_only_errors(&after, &["53400"]);
        together_above(&format!("a data directory restored over itself by cp {how}"), before, after)
    })
}

/// As long as the server continues from a mark in WAL that was far ahead, its new marks are no higher.
fn restored_to_when_it_was_ahead(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let mut server = start(node("require").set("snowflake_pg.reserve_ahead", "4s"));
        let mut ids = some_ids_without_errors(&server);
        ids.merge(run_ahead(&server, Ahead::Clock));
        server.configure("snowflake_pg.max_borrow", "1min");
        // Lowers the mark in the state file, and not the one in WAL.
        server.restart(Signal::INT);
        ids.merge(some_ids_without_errors(&server));
        let backup = Cluster::builder().backup_of(&server);
        let load = Load::start(&server, 2, IDS);
        load.wait_for_ids();
        sleep(Duration::from_secs(1));
        server.stop(Signal::QUIT);
        ids = together_above("a server that was ahead of its clock", ids, load.finish());

        write_over(&server, &backup.data(), "--force");
        server.start();
        let after = ids_until_past(&server, &ids);
        assert_only_errors(&after, &["53400"]);
        together_above("a data directory restored to when it was ahead of its clock", ids, after)
    })
}

/// The standby is stopped and started as a primary, and the other way round. WAL goes on where it was.
fn turns_on_one_timeline(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let mut a = start(node("require"));
        let mut before = some_ids_without_errors(&a);
        let mut b = node("require").standby_of(&a);
        b.wait_for_commits_of(&a);
        a.stop(Signal::INT);
        b.wait_for_replay_of(&a);
        become_primary(&mut b);
        // To the server it is a copy, whose original might still run.
        assert_refused(&b, "copy");
        assert_ne!(value(&mut b.connect(), "SELECT snowflake_accept_mark()"), "NULL", "when IDs begin");
        let mut ids_of_b = ids_until_past(&b, &before);
        ids_of_b.merge(run_ahead(&b, FAR_AHEAD[round % 2]));
        before = together_above("the other server's turn", before, ids_of_b);

        a.follow(&b);
        a.wait_for_commits_of(&b);
        b.stop(Signal::INT);
        a.wait_for_replay_of(&b);
        become_primary(&mut a);
        let after = ids_until_past(&a, &before);
        assert_only_errors(&after, &["53400"]);
        together_above("the first server's second turn", before, after)
    })
}

pub fn become_primary(standby: &mut Cluster) {
    standby.stop(Signal::INT);
    fs::remove_file(standby.data().join("standby.signal")).expect("the signal of a standby");
    standby.start();
}

/// The mark in WAL is that of the server from which it takes over.
fn slow_keeper(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let mut a = start(node("prefer"));
        // Each new process waits, the keeper among them.
        let b = node("prefer").set("post_auth_delay", 4).standby_of(&a);
        let mut client = b.connect();
        let load = Load::start(&a, 2, IDS);
        load.wait_for_ids();
        let mut before = load.finish();
        before.merge(run_ahead(&a, FAR_AHEAD[round % 2]));
        b.wait_for_commits_of(&a);
        a.stop(Signal::QUIT);
        client.batch_execute("SELECT pg_promote()").expect("a promotion");
        let refused = error(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(refused.code().code(), "53400", "{refused:?}");
        let after = ids_until_past(&b, &before);
        assert_only_errors(&after, &["53400"]);
        together_above("a promotion with a slow keeper", before, after)
    })
}
