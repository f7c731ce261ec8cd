//! State directories that two servers share, and state directories that one server has in turn.

use crate::nodes::{
    Ahead, IDS, assert_only_errors, assert_refused, assert_unique, crash, ids_until_past, in_separate_rounds,
    run_ahead, some_ids, some_ids_without_errors, start, together_above, wait_for_wal_mark,
};
use crate::suite::{Evidence, Fault};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, Load, Report, Signal, Volume, Witness, error, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 37,
        promise: "a_base_backup_beside_its_original_with_one_absolute_state_directory_is_refused",
        short: 1,
        full: 3,
        run: |rounds| beside_its_original(rounds, backed_up),
    },
    Fault {
        row: 38,
        promise: "a_copy_beside_its_original_whose_state_directory_is_one_symlink_is_refused",
        short: 1,
        full: 3,
        run: |rounds| beside_its_original(rounds, copied_with_its_symlink),
    },
    Fault {
        row: 39,
        promise: "a_server_recovered_beside_its_original_with_one_state_directory_is_refused",
        short: 1,
        full: 3,
        run: recovered_beside_its_original,
    },
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
];

/// How long the two servers of a row work side by side.
const SIDE_BY_SIDE: Duration = Duration::from_secs(8);

/// How long a server may take to answer with an ID. Far longer than it does: only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

const STATE_DIRECTORY: &str = "snowflake_pg.state_directory";

const ACCEPT: &str = "SELECT snowflake_accept_identity()";

const IN_USE: &str = "in use by another server";

/// A running original, its copy, which was not started yet, and the volume of the state directory that they share.
struct Pair {
    volume: Volume,
    original: Cluster,
    copy: Cluster,
}

/// By pg_basebackup, with the same absolute state directory.
fn backed_up() -> Pair {
    let volume = Volume::empty();
    let original = start(outside(&volume));
    let copy = Cluster::builder().backup_of(&original);
    Pair { volume, original, copy }
}

/// By `cp -a` while the original was stopped. The state directory is relative, and leads outside.
fn copied_with_its_symlink() -> Pair {
    let volume = Volume::empty();
    let mut original = Cluster::builder().worker(1).create();
    symlink(volume.make_directory("state"), original.data().join("snowflake_pg")).expect("a symlink");
    original.start();
    original.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    some_ids_without_errors(&original);
    original.stop(Signal::INT);
    let copy = Cluster::builder().copy_of(&original);
    original.start();
    Pair { volume, original, copy }
}

/// A server whose state directory is on a volume.
fn outside(volume: &Volume) -> Builder {
    Cluster::builder().worker(1).set(STATE_DIRECTORY, volume.make_directory("state").display())
}

/// A server is refused because this other one runs, whose data directory a superuser is told.
fn assert_in_use(refused: &Cluster, by: &Cluster) {
    assert_refused(refused, IN_USE);
    let refused = error(&mut refused.connect(), "SELECT snowflake_nextval()");
    let data = by.data().display().to_string();
    assert!(refused.detail().is_some_and(|detail| detail.contains(&data)), "not {data}: {refused:?}");
}

/// Clients have seen no other error than this one.
fn assert_only_in_use(report: &Report) {
    let errors = report.errors();
    let expected = |error: &&str| error.starts_with("55000") && error.contains(IN_USE);
    assert!(errors.keys().all(expected), "{errors:?}");
}

/// A server begins beside another one that works with its state directory. What clients of the latter have received,
/// who notice nothing; those of the former receive nothing.
fn side_by_side(what: &str, first: &Cluster, second: &mut Cluster, begin: impl FnOnce(&mut Cluster)) -> Report {
    let load = Load::start(first, 2, IDS);
    load.wait_for_ids();
    begin(second);
    let refused = Load::start(second, 2, IDS);
    sleep(SIDE_BY_SIDE);
    let (ids, refused) = (load.finish(), refused.finish());
    assert_unique(what, &[&ids, &refused]);
    assert_only_errors(&ids, &[]);
    assert_eq!((ids.outages(), refused.ids()), (0, 0), "{what}");
    assert_only_in_use(&refused);
    assert_in_use(second, first);
    ids
}

fn beside_its_original(rounds: usize, pair: fn() -> Pair) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        // In this order, so that the volume outlives the servers.
        let Pair { volume: _volume, mut original, mut copy } = pair();
        let what = "an original, and its copy beside it";
        let ids = side_by_side(what, &original, &mut copy, Cluster::start);

        // A lock goes with its owner, whatever becomes of that.
        let load = Load::start(&copy, 2, IDS);
        original.kill_all();
        load.wait_for_ids();
        let taken_over = load.finish();
        assert_only_in_use(&taken_over);
        let ids = together_above("an original that was killed, and its copy", ids, taken_over);

        let what = "a copy that took over, and the original beside it";
        let alone = side_by_side(what, &copy, &mut original, Cluster::start);
        let ids = together_above("the copy, before and after", ids, alone);

        original.stop(Signal::INT);
        copy.stop(Signal::INT);
        original.start();
        let ids = accepted("the original, after its copy", &original, ids);
        original.restart(Signal::INT);
        together_above("the original, later", ids, some_ids_without_errors(&original))
    });
    evidence.crashes(rounds)
}

/// A server that finds another one's mark issues nothing until it is accepted, and then above all before. The clocks
/// were right all the time.
fn accepted(what: &str, server: &Cluster, before: Report) -> Report {
    let early = Load::start(server, 2, IDS);
    assert_refused_for_its_mark(server);
    let early = early.finish();
    assert_unique(what, &[&before, &early]);
    assert_eq!(early.ids(), 0, "{what}");
    accept(server);
    together_above(what, before, ids_after_start_margin(server))
}

fn assert_refused_for_its_mark(server: &Cluster) {
    assert_refused(server, "durable mark");
}

fn accept(server: &Cluster) {
    assert_ne!(value(&mut server.connect(), ACCEPT), "NULL", "when IDs begin");
}

/// IDs of a server that may have to wait for its start margin before.
fn ids_after_start_margin(server: &Cluster) -> Report {
    let ids = some_ids(server);
    assert_only_errors(&ids, &["53400"]);
    ids
}

fn recovered_beside_its_original(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut original = outside(&volume).create();
        original.archive();
        original.start();
        let mut client = original.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let before = some_ids_without_errors(&original);
        let mut copy = Cluster::builder().backup_of(&original);
        let moment = value(&mut client, "SELECT clock_timestamp()");
        client.batch_execute("CREATE TABLE mistake ()").expect("a table");
        original.wait_for_archive();
        let what = "an original, and its copy of another time beside it";
        let ids = side_by_side(what, &original, &mut copy, |copy| copy.recover(&original, &moment));
        together_above("the original, before and after", before, ids)
    })
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
    println!("{what}: refused: {}", error(&mut server.connect(), "SELECT snowflake_nextval()").message());
    assert_refused_for_its_mark(server);
    crash(server);
    assert_refused_for_its_mark(server);
    accept(server);
    assert!(first_id(server).is_some(), "{what}: refused although it was accepted");
}

/// How a server comes to be far ahead of its clock, in one round after the other.
const FAR_AHEAD: [Ahead; 2] = [Ahead::Clock, Ahead::Advance];

fn there_and_back(rounds: usize, place: Place) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let ahead = FAR_AHEAD[round % 2];
        let mut state = Alternating::new(place, Cluster::builder());
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
        let builder = Cluster::builder().set("snowflake_pg.wal_mark", "prefer");
        let mut state = Alternating::new(Place::Outside, builder);
        state.server.wait_for_mark_in_wal();
        let mut ids = some_ids_without_errors(&state.server);
        wait_for_wal_mark(&state.server, &ids);
        state.change_to_the_second();
        ids.merge(ids_after_start_margin(&state.server));
        ids.merge(run_ahead(&state.server, ahead));
        wait_for_wal_mark(&state.server, &ids);
        state.change_back();
        let what = format!("back in a first directory, with the mark in WAL, after {ahead:?} in the second");
        goes_on_above(&what, &state.server, ids, Report::default())
    })
}

/// After a crash the server is ahead of its clock by what it had reserved, which is within the start margin.
fn there_and_back_by_a_right_clock(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |round| {
        let place = [Place::Inside, Place::Outside][round % 2];
        let mut state = Alternating::new(place, Cluster::builder());
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
        let mut state = Alternating::new(Place::Outside, Cluster::builder());
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
        let mut server = start(Cluster::builder().worker(1));
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
