//! Marks that do not go through WAL: a server that takes the worker over cannot know how far it has come, wherever its
//! state directory is.

use super::nodes::{
    IDS, STATE_DIRECTORY, assert_only_errors, assert_refused, assert_unique, ids_after_start_margin, ids_until_past,
    in_separate_rounds, last_time, some_ids_without_errors, start, together_above,
};
use super::suite::{Evidence, Fault};
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Builder, Cluster, Load, Report, Signal, Volume, real_time};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 17,
        promise: "a_standby_is_refused_after_its_primary_has_turned_the_wal_mark_off",
        short: 1,
        full: 3,
        run: |rounds| refused(rounds, turned_off),
    },
    Fault {
        row: 17,
        promise: "a_standby_is_refused_if_wal_has_the_mark_of_another_worker_of_its_primary_alone",
        short: 1,
        full: 3,
        run: |rounds| refused(rounds, another_worker),
    },
    Fault {
        row: 17,
        promise: "a_standby_whose_primary_has_lost_the_file_with_the_marks_is_refused_after_a_restart_too",
        short: 1,
        full: 3,
        run: |rounds| refused(rounds, file_lost),
    },
    Fault {
        row: 17,
        promise: "standbys_with_workers_of_their_own_take_over_for_the_first_time_without_being_accepted",
        short: 2,
        full: 4,
        run: workers_of_their_own,
    },
    Fault {
        row: 17,
        promise: "a_standby_takes_over_by_the_wal_mark_that_was_off_for_a_while",
        short: 1,
        full: 3,
        run: on_again,
    },
    Fault {
        row: 22,
        promise: "a_recovery_into_another_state_directory_is_refused_where_the_wal_mark_was_off",
        short: 1,
        full: 3,
        run: recovered,
    },
];

/// So far ahead is the clock of the primary when it is lost.
const AHEAD: f64 = 12.0;

/// A node with a state directory of its own, outside the data directory.
fn node(volume: &Volume, name: &str, worker: i32) -> Builder {
    let directory = volume.make_directory(name);
    Cluster::builder().worker(worker).with_defaults().own_clock().set(STATE_DIRECTORY, directory.display())
}

fn reconfigure(server: &mut Cluster, settings: &[(&str, &str)]) {
    server.stop(Signal::INT);
    for (name, value) in settings {
        server.configure(name, value);
    }
    server.start();
}

/// What clients receive of a server whose clock is set ahead.
fn ids_ahead(server: &Cluster) -> Report {
    server.set_clock(AHEAD);
    let load = Load::start(server, 2, IDS);
    load.wait_for_ids();
    sleep(Duration::from_secs(1));
    let ids = load.finish();
    assert!(last_time(&ids) > real_time() + 9000, "the clock was not followed");
    ids
}

/// What clients receive, if they receive anything, until the clock has passed all times of these IDs.
fn whatever_until_past(server: &Cluster, used: &Report) -> Report {
    let load = Load::start(server, 2, IDS);
    sleep(Duration::from_millis((last_time(used) + 1000).saturating_sub(real_time())));
    load.finish()
}

const OFF: (&str, &str) = ("snowflake_pg.wal_mark", "off");

/// What happens to a primary and its standby before the primary is lost. Returns what clients have received until then.
type Story = fn(&mut Cluster, &mut Cluster) -> Report;

fn turned_off(primary: &mut Cluster, standby: &mut Cluster) -> Report {
    for server in [primary, standby] {
        reconfigure(server, &[OFF]);
    }
    Report::default()
}

/// Both have another worker, whose marks do not go through WAL.
fn another_worker(primary: &mut Cluster, standby: &mut Cluster) -> Report {
    for server in [primary, standby] {
        reconfigure(server, &[OFF, ("snowflake_pg.worker_id", "2")]);
    }
    Report::default()
}

/// The standby has no page with marks, and nothing in WAL that brings it one.
fn file_lost(primary: &mut Cluster, standby: &mut Cluster) -> Report {
    reconfigure(primary, &[OFF]);
    let ids = some_ids_without_errors(primary);
    for server in [&*primary, standby] {
        standby.wait_for_commits_of(primary);
        server.connect().batch_execute("CHECKPOINT").expect("a checkpoint");
    }
    standby.stop(Signal::INT);
    fs::remove_file(standby.wal_page_file()).expect("the page");
    standby.start();
    ids
}

fn refused(rounds: usize, story: Story) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut primary = start(node(&volume, "primary", 1));
        let mut before = some_ids_without_errors(&primary);
        let mut standby = node(&volume, "standby", 1).standby_of(&primary);
        before.merge(story(&mut primary, &mut standby));
        before.merge(ids_ahead(&primary));
        standby.wait_for_commits_of(&primary);
        primary.kill_all();
        standby.promote();
        let mut after = whatever_until_past(&standby, &before);
        // A refusal is no matter of when the server was started.
        standby.restart(Signal::INT);
        after.merge(whatever_until_past(&standby, &before));
        assert_unique("a standby whose primary had no mark in WAL", &[&before, &after]);
        assert_only_errors(&after, &["55000"]);
        assert_refused(&standby, "WAL does not contain the durable mark");
        standby.connect().batch_execute("SELECT snowflake_accept_mark()").expect("an acceptance");
        let accepted = some_ids_without_errors(&standby);
        together_above("after the acceptance", before, accepted)
    });
    evidence.crashes(rounds)
}

/// One round with the mark in WAL, and one without.
fn workers_of_their_own(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |round| {
        let volume = Volume::empty();
        let wal_mark = ["prefer", "off"][round % 2];
        let with = |name, worker| node(&volume, name, worker).set("snowflake_pg.wal_mark", wal_mark);
        let mut primary = start(with("first", 1));
        let [mut second, mut third] =
            [("second", 2), ("third", 3)].map(|(name, worker)| with(name, worker).standby_of(&primary));
        let mut ids = some_ids_without_errors(&primary);
        second.wait_for_commits_of(&primary);
        primary.kill_all();
        second.promote();
        ids.merge(ids_after_start_margin(&second));
        third.stop(Signal::INT);
        third.follow(&second);
        third.wait_for_commits_of(&second);
        second.kill_all();
        third.promote();
        ids.merge(ids_after_start_margin(&third));
        ids
    });
    evidence.crashes(2 * rounds)
}

fn on_again(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut primary = start(node(&volume, "primary", 1));
        let mut before = some_ids_without_errors(&primary);
        reconfigure(&mut primary, &[OFF]);
        before.merge(ids_ahead(&primary));
        reconfigure(&mut primary, &[("snowflake_pg.wal_mark", "prefer")]);
        before.merge(some_ids_without_errors(&primary));
        let standby = node(&volume, "standby", 1).standby_of(&primary);
        primary.kill_all();
        standby.promote();
        let after = ids_until_past(&standby, &before);
        assert_only_errors(&after, &["53400"]);
        together_above("a standby of a primary whose mark is in WAL again", before, after)
    });
    evidence.crashes(rounds)
}

/// Its timeline is new, but it was no standby.
fn recovered(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let server = node(&volume, "original", 1).set("snowflake_pg.wal_mark", "off").create();
        server.archive();
        let mut server = server;
        server.start();
        server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let mut before = some_ids_without_errors(&server);
        let mut copy = node(&volume, "copy", 1).set("snowflake_pg.wal_mark", "off").backup_of(&server);
        before.merge(ids_ahead(&server));
        let until = testbed::value(&mut server.connect(), "SELECT now()");
        server.connect().batch_execute("CREATE TABLE later ()").expect("a table");
        server.wait_for_archive();
        server.kill_all();
        copy.recover(&server, &until);
        let after = whatever_until_past(&copy, &before);
        assert_unique("a recovery to a point in time", &[&before, &after]);
        assert_only_errors(&after, &["55000"]);
        assert_refused(&copy, "WAL does not contain the durable mark");
        before
    })
}
