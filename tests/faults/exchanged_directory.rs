//! State directories that one server has in turn, and data directories that come back beside them.

use super::nodes::{
    FAR_AHEAD, NEWER, STATE_DIRECTORY, assert_only_errors, assert_refused, crash, ids_after_start_margin,
    ids_until_past, in_separate_rounds, outside, run_ahead, some_ids_without_errors, start, together_above,
};
use super::suite::{Evidence, Fault};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, PATIENCE, Report, Signal, Volume, Witness, allow_duplicates, error, skip, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 40,
        promise: "a_state_directory_that_was_away_while_another_was_far_ahead_repeats_nothing",
        short: 1,
        full: 4,
        run: |rounds| there_and_back(rounds, Place::Inside),
    },
    Fault {
        row: 40,
        promise: "an_absolute_state_directory_that_was_away_repeats_nothing",
        short: 1,
        full: 4,
        run: |rounds| there_and_back(rounds, Place::Outside),
    },
    Fault {
        row: 40,
        promise: "a_state_directory_that_was_away_goes_on_by_itself_with_the_mark_in_wal",
        short: 1,
        full: 4,
        run: there_and_back_with_wal,
    },
    Fault {
        row: 40,
        promise: "a_state_directory_that_was_away_is_accepted_above_all_that_a_right_clock_has_issued",
        short: 1,
        full: 3,
        run: there_and_back_by_a_right_clock,
    },
    Fault {
        row: 40,
        promise: "a_host_that_takes_over_without_the_state_directory_is_refused_until_it_is_accepted",
        short: 1,
        full: 4,
        run: on_another_host,
    },
    Fault {
        row: 40,
        promise: "a_state_directory_that_moves_with_its_mark_goes_on_at_once",
        short: 1,
        full: 3,
        run: moved_with_its_mark,
    },
    Fault {
        row: 40,
        promise: "a_state_directory_that_was_copied_while_its_server_ran_repeats_nothing",
        short: 1,
        full: 3,
        run: copied_while_it_ran,
    },
    Fault {
        row: 40,
        promise: "directories_that_were_made_in_the_same_instant_are_told_from_each_other",
        short: 1,
        full: 3,
        run: born_together,
    },
    Fault {
        row: 40,
        promise: "a_data_directory_that_is_put_back_beside_its_state_directory_goes_on_above_the_mark",
        short: 1,
        full: 4,
        run: put_back,
    },
];

const ACCEPT: &str = "SELECT snowflake_accept_mark()";

fn assert_refused_for_its_mark(server: &Cluster) {
    assert_refused(server, "durable mark");
}

fn accept(server: &Cluster) {
    assert_ne!(value(&mut server.connect(), ACCEPT), "NULL", "when IDs begin");
}

/// Where a state directory is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the data directory.
    Inside,
    /// On a volume.
    Outside,
}

impl Place {
    fn directory(self, volume: &Volume) -> PathBuf {
        match self {
            Self::Inside => "snowflake_pg".into(),
            Self::Outside => volume.make_directory("a"),
        }
    }
}

/// A server with one state directory, and another one that it is going to have for a while.
struct Alternating {
    server: Cluster,
    first: PathBuf,
    second: PathBuf,
    _volume: Volume,
}

impl Alternating {
    /// A running server.
    fn new(place: Place, builder: Builder) -> Self {
        let volume = Volume::empty();
        let first = place.directory(&volume);
        let server = start(builder.worker(1).own_clock().set(STATE_DIRECTORY, first.display()));
        Self { server, first, second: volume.make_directory("b"), _volume: volume }
    }

    /// Restarts it with the other directory.
    fn change_to_the_second(&mut self) {
        change(&mut self.server, &self.second);
    }

    /// Restarts it with the directory that it began with.
    fn change_back(&mut self) {
        change(&mut self.server, &self.first);
    }
}

fn change(server: &mut Cluster, directory: &Path) {
    server.stop(Signal::INT);
    server.configure(STATE_DIRECTORY, directory.display());
    server.start();
}

/// The first ID of a server that may have to wait for its clock before; `None` if it refuses to begin.
fn first_id(server: &Cluster) -> Option<Report> {
    let (mut witness, deadline) = (Witness::of(server), Instant::now() + PATIENCE);
    loop {
        match witness.next_id().map_err(|refused| refused.code().code().to_owned()) {
            Ok(_) => return Some(witness.report()),
            Err(code) if code == "55000" => return None,
            Err(code) => assert!(code == "53400" && Instant::now() < deadline, "{code}"),
        }
        sleep(Duration::from_millis(20));
    }
}

/// IDs of a server that may have to be accepted before. Its clock is right, and was.
fn ids_accepted_if_need_be(server: &Cluster) -> Report {
    let first = first_id(server);
    if first.is_none() {
        assert_refused_for_its_mark(server);
        accept(server);
    }
    let mut ids = ids_after_start_margin(server);
    ids.merge(first.unwrap_or_default());
    ids
}

/// What a server adds that has begun again, with this ID, until its clock has passed what it issued before.
fn goes_on_above(what: &str, server: &Cluster, before: Report, first: Report) -> Report {
    let mut after = ids_until_past(server, &before);
    assert_only_errors(&after, &["53400"]);
    after.merge(first);
    together_above(what, before, after)
}

/// A server refuses to begin, also after a crash, until it is accepted. Where it begins then is not told: its clock was
/// wrong, and the mark that knows of that is lost.
fn refused_until_accepted(what: &str, server: &mut Cluster) {
    // Among times that were issued before, ahead of the clock. What the last record of that life says depends on luck.
    allow_duplicates();
    println!("{what}: refused: {}", error(&mut server.connect(), "SELECT snowflake_nextval()").message());
    assert_refused_for_its_mark(server);
    crash(server);
    assert_refused_for_its_mark(server);
    accept(server);
    assert!(first_id(server).is_some(), "{what}: refused although it was accepted");
}

fn there_and_back(rounds: usize, place: Place) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let ahead = FAR_AHEAD[round % 2];
        let mut state = Alternating::new(place, Cluster::builder().set("snowflake_pg.wal_mark", "off"));
        let mut ids = some_ids_without_errors(&state.server);
        state.change_to_the_second();
        ids.merge(ids_accepted_if_need_be(&state.server));
        ids.merge(run_ahead(&state.server, ahead));
        state.change_back();
        let what = format!("back in a first directory, {place:?}, after {ahead:?} in the second");
        if let Some(first) = first_id(&state.server) {
            return goes_on_above(&what, &state.server, ids, first);
        }
        refused_until_accepted(&what, &mut state.server);
        ids
    })
}

fn there_and_back_with_wal(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let ahead = FAR_AHEAD[round % 2];
        let mut state = Alternating::new(Place::Outside, Cluster::builder());
        let mut ids = some_ids_without_errors(&state.server);
        state.change_to_the_second();
        ids.merge(ids_after_start_margin(&state.server));
        ids.merge(run_ahead(&state.server, ahead));
        state.change_back();
        let what = format!("back in a first directory, with the mark in WAL, after {ahead:?} in the second");
        goes_on_above(&what, &state.server, ids, Report::default())
    })
}

/// After a crash the server is ahead of its clock by what it had reserved, which is within the start margin.
fn there_and_back_by_a_right_clock(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |round| {
        let place = [Place::Inside, Place::Outside][round % 2];
        let without = Cluster::builder().with_defaults().set("snowflake_pg.wal_mark", "off");
        let mut state = Alternating::new(place, without);
        let mut ids = some_ids_without_errors(&state.server);
        state.change_to_the_second();
        ids.merge(ids_accepted_if_need_be(&state.server));
        crash(&mut state.server);
        ids.merge(some_ids_without_errors(&state.server));
        state.change_back();
        let what = format!("back in a first directory, {place:?}, after a crash in the second");
        let mut after = ids_accepted_if_need_be(&state.server);
        after.merge(ids_until_past(&state.server, &ids));
        together_above(&what, ids, after)
    });
    evidence.crashes(rounds)
}

fn on_another_host(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let ahead = FAR_AHEAD[round % 2];
        let mut state = Alternating::new(Place::Outside, Cluster::builder().set("snowflake_pg.wal_mark", "off"));
        let mut ids = some_ids_without_errors(&state.server);
        ids.merge(run_ahead(&state.server, ahead));
        state.server.stop(Signal::INT);
        // What is at this path there.
        fs::rename(&state.first, state.first.with_extension("other_host")).expect("the first host's");
        fs::rename(&state.second, &state.first).expect("the second host's");
        state.server.start();
        let what = format!("a host without the state directory, after {ahead:?}");
        if let Some(first) = first_id(&state.server) {
            goes_on_above(&what, &state.server, ids, first);
            panic!("{what}: not refused");
        }
        refused_until_accepted(&what, &mut state.server);
        ids
    })
}

fn moved_with_its_mark(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut server = start(Cluster::builder().worker(1).with_defaults());
        let mut ids = some_ids_without_errors(&server);
        let mut from = server.data().join("snowflake_pg");
        for to in ["moved", "again"].map(|name| volume.path().join(name)) {
            // The mark is ahead of the clock then, and alone knows of what was issued.
            server.kill_all();
            fs::rename(&from, &to).expect("the state directory");
            server.configure(STATE_DIRECTORY, to.display());
            server.start();
            ids = together_above("a state directory that was moved", ids, some_ids_without_errors(&server));
            assert_eq!(value(&mut server.connect(), ACCEPT), "NULL", "there is nothing to accept");
            from = to;
        }
        ids
    });
    evidence.crashes(2 * rounds)
}

/// The copy has an old mark. The clock was right, so that the start margin is enough.
fn copied_while_it_ran(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut server = start(outside(&volume).set("snowflake_pg.wal_mark", "off"));
        // As far ahead of the clock as a restart lets it be.
        crash(&mut server);
        let mut ids = some_ids_without_errors(&server);
        let copy = volume.path().join("copy");
        let copied = Command::new("cp").arg("-a").arg(volume.path().join("state")).arg(&copy).status();
        assert!(copied.expect("cp").success());
        ids.merge(some_ids_without_errors(&server));
        server.kill_all();
        server.configure(STATE_DIRECTORY, copy.display());
        let logged = server.log().len();
        server.start();
        let what = "a copy of the state directory that was made too early";
        let ids = together_above(what, ids, ids_after_start_margin(&server));
        let log = &server.log()[logged..];
        assert!(log.contains("durable mark found that was written in another directory"), "{log}");
        ids
    });
    evidence.crashes(2 * rounds)
}

/// A file system may know births no more exactly than to some milliseconds.
fn born_together(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let volume = Volume::empty();
        if !volume.keeps_inode_numbers() {
            skip("this file system may assign new inode numbers");
        }
        let [first, second] = volume.make_directories_at_once();
        let builder = Cluster::builder().worker(1).own_clock().set("snowflake_pg.wal_mark", "off");
        let mut server = start(builder.set(STATE_DIRECTORY, first.display()));
        let mut ids = some_ids_without_errors(&server);
        server.stop(Signal::INT);
        // The copy has the mark, in the other directory.
        let mut copy = Cluster::builder().set(STATE_DIRECTORY, second.display()).copy_of(&server);
        let copied = Command::new("cp").arg("-a").args([first.join("mark"), second.join("mark")]).status();
        assert!(copied.expect("cp").success());
        copy.start();
        assert_refused(&copy, "copy");
        copy.stop(Signal::INT);
        fs::remove_file(second.join("mark")).expect("the copy of the mark");

        server.start();
        ids.merge(run_ahead(&server, FAR_AHEAD[round % 2]));
        change(&mut server, &second);
        let what = "another directory that was made in the same instant";
        assert!(first_id(&server).is_none(), "{what} passes for the same");
        refused_until_accepted(what, &mut server);
        ids
    })
}

/// As a snapshot of its volume does, which keeps inodes.
fn put_back(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let ahead = FAR_AHEAD[round % 2];
        let volume = Volume::empty();
        let mut server = start(outside(&volume).own_clock());
        let mut ids = some_ids_without_errors(&server);
        server.stop(Signal::INT);
        let snapshot = server.snapshot();
        server.start();
        ids.merge(some_ids_without_errors(&server));
        server.restart(Signal::INT);
        ids.merge(run_ahead(&server, ahead));
        server.stop(Signal::INT);
        server.put_back(&snapshot);
        let logged = server.log().len();
        server.start();
        let what = format!("a data directory that was put back, after {ahead:?}");
        let ids = goes_on_above(&what, &server, ids, Report::default());
        let log = &server.log()[logged..];
        assert!(log.contains(NEWER), "{log}");
        ids
    })
}
