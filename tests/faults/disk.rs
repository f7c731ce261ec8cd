//! A disk that forgets, fails, fills up or is slow, and a durable mark that is damaged or gone.

use super::fixture::{assert_kept, assert_kept_without_errors, at_once, server};
use super::suite::{Evidence, Fault};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::state_file;
use std::collections::HashSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Order, PATIENCE, Report, Signal, Witness, issued_at, real_time};

pub const FAULTS: &[Fault] = &[
    Fault { row: 5, promise: "ids_stay_unique_when_the_power_is_cut", short: 5, full: 40, run: power_cut },
    Fault {
        row: 5,
        promise: "the_first_mark_of_a_server_is_there_after_the_power_is_cut",
        short: 1,
        full: 10,
        run: power_cut_after_the_first_mark,
    },
    Fault {
        row: 5,
        promise: "every_id_is_below_the_mark_that_was_flushed_before_it_is_returned",
        short: 3,
        full: 30,
        run: flushed_before_returned,
    },
    Fault { row: 5, promise: "a_slow_disk_makes_ids_wait_and_nothing_worse", short: 3, full: 30, run: slow_disk },
    Fault {
        row: 5,
        promise: "a_disk_too_slow_for_max_borrow_is_told_of_instead_of_waited_for",
        short: 1,
        full: 5,
        run: too_slow_disk,
    },
    Fault {
        row: 6,
        promise: "a_mark_that_cannot_be_written_stops_ids_at_the_old_one_until_it_can",
        short: 1,
        full: 8,
        run: mark_cannot_be_written,
    },
    Fault {
        row: 6,
        promise: "a_server_that_cannot_write_its_first_mark_leaves_the_old_one",
        short: 1,
        full: 5,
        run: first_mark_cannot_be_written,
    },
    Fault { row: 7, promise: "a_damaged_mark_is_refused_until_it_is_restored", short: 28, full: 160, run: damaged },
    Fault {
        row: 7,
        promise: "a_damaged_mark_is_given_up_for_a_floor_that_is_named",
        short: 1,
        full: 5,
        run: damaged_and_reset,
    },
    Fault {
        row: 7,
        promise: "a_missing_mark_starts_above_what_a_right_clock_can_have_issued",
        short: 1,
        full: 5,
        run: missing,
    },
    Fault {
        row: 7,
        promise: "a_mark_deleted_while_ids_are_ahead_of_the_clock_does_no_harm",
        short: 2,
        full: 10,
        run: deleted_while_ahead,
    },
];

/// A server on a disk of its own, with marks that last for a moment only.
fn server_with_disk() -> Cluster {
    server(Cluster::builder().worker(1).faulty_disk().set("snowflake_pg.reserve_ahead", "100ms"))
}

/// The disk is a little slow, so that the power is often cut in the middle of a flush.
fn power_cut(rounds: usize) -> Evidence {
    let mut cluster = server_with_disk();
    cluster.disk().obey(Order::Slow(Duration::from_millis(10)));
    let mut witness = Witness::of(&cluster);
    let mut report = Report::default();
    for round in 0..rounds {
        witness.connect(&cluster);
        witness.next_id().expect("an ID");
        let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
        sleep(Duration::from_millis(100 + 37 * (u64::try_from(round).expect("a few") % 7)));
        cluster.cut_power();
        report.merge(load.finish());
        let last = report.received().max().expect("an ID");
        assert!(issued_at(last) < cluster.mark(), "{last} is above the mark that the disk still has");
        cluster.start();
    }
    witness.connect(&cluster);
    witness.next_id().expect("an ID");
    report.merge(witness.report());
    assert_kept_without_errors(rounds, &report, 0).crashes(rounds)
}

/// That one is in a new file. All later ones are written into it.
fn power_cut_after_the_first_mark(rounds: usize) -> Evidence {
    let mut cluster = server(Cluster::builder().worker(1).faulty_disk());
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    for _ in 0..rounds {
        cluster.stop(Signal::INT);
        fs::remove_file(cluster.mark_file()).expect("the mark");
        cluster.start();
        witness.connect(&cluster);
        let first = witness.next_id().expect("an ID");
        cluster.cut_power();
        assert!(issued_at(first) < cluster.mark(), "{first} is above the mark that the disk still has");
        cluster.start();
        witness.connect(&cluster);
        witness.next_id().expect("an ID");
    }
    assert_kept_without_errors(rounds, &witness.report(), 0).crashes(rounds)
}

/// I1, as seen from outside: a client that has received an ID finds a mark above it on disk, flushed, however soon it
/// looks.
fn flushed_before_returned(seconds: usize) -> Evidence {
    let cluster = server_with_disk();
    cluster.disk().obey(Order::Slow(Duration::from_millis(100)));
    // A new server waits for a moment, which is not to count.
    Witness::of(&cluster).next_id().expect("an ID");
    let until = Instant::now() + Duration::from_secs(u64::try_from(seconds).expect("a few seconds"));
    let look = |_| {
        let mut witness = Witness::of(&cluster);
        let mut marks = HashSet::new();
        while Instant::now() < until {
            let id = witness.next_id().expect("an ID");
            let flushed = cluster.disk().flushed_mark().expect("a mark that is flushed");
            assert!(issued_at(id) < flushed, "{id} is above the mark {flushed} that was flushed");
            assert!(issued_at(id) < cluster.mark(), "{id} is above the mark on disk");
            marks.insert(flushed);
        }
        let marks = marks.len();
        assert!(marks > seconds, "the test means something only if the mark was extended meanwhile: {marks} marks");
        witness.report()
    };
    let report = at_once(4, look);
    assert_kept_without_errors(seconds, &report, 0)
}

/// A flush takes longer than the mark that it writes would have lasted.
fn slow_disk(seconds: usize) -> Evidence {
    let cluster = server_with_disk();
    Witness::of(&cluster).next_id().expect("an ID");
    cluster.disk().obey(Order::Slow(Duration::from_millis(300)));
    let load = Load::start(&cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    let mark = cluster.mark();
    sleep(Duration::from_secs(u64::try_from(seconds).expect("a few seconds")));
    assert!(cluster.mark() > mark, "the test means something only if the mark was extended meanwhile");
    assert_kept_without_errors(seconds, &load.finish(), 0)
}

/// Every mark has passed when it is there, since it may not run ahead as far as the disk takes.
fn too_slow_disk(rounds: usize) -> Evidence {
    let builder = Cluster::builder().worker(1).faulty_disk();
    let cluster = server(builder.set("snowflake_pg.reserve_ahead", "200ms").set("snowflake_pg.max_borrow", "300ms"));
    let mut witness = Witness::of(&cluster);
    let bound = "SET statement_timeout = '60 s'";
    witness.session().batch_execute(bound).expect("a bound for a test that hangs");
    for _ in 0..rounds {
        witness.next_id().expect("an ID");
        cluster.disk().obey(Order::Slow(Duration::from_millis(500)));
        sleep(Duration::from_secs(1));
        let refused = witness.refusal();
        let message = "could not keep the durable mark ahead of the clock";
        assert_eq!((refused.code().code(), refused.message()), ("53400", message), "{refused:?}");
        assert!(refused.detail().is_some_and(|detail| detail.contains("max_borrow is 300 ms")), "{refused:?}");
        assert!(refused.hint().is_some_and(|hint| hint.contains("faster disk")), "{refused:?}");
        cluster.disk().obey(Order::Work);
        witness.next_id().expect("IDs again, in the same session");
    }
    assert_kept(rounds, &witness.report(), 0)
}

/// A way in which a disk can fail.
struct Failure {
    begin: fn(&Cluster),
    end: fn(&Cluster),
    code: &'static str,
    message: &'static str,
}

const FAILURES: [Failure; 5] = [
    Failure {
        begin: |cluster| cluster.disk().obey(Order::Full),
        end: |cluster| cluster.disk().obey(Order::Work),
        code: "53100",
        message: "could not write file ",
    },
    Failure {
        begin: |cluster| cluster.disk().obey(Order::FailFileFlush),
        end: |cluster| cluster.disk().obey(Order::Work),
        code: "58030",
        message: "could not fsync file ",
    },
    Failure {
        begin: |cluster| {
            cluster.disk().obey(Order::FailDirectoryFlush);
            lose_mark(cluster);
        },
        end: |cluster| cluster.disk().obey(Order::Work),
        code: "58030",
        message: "could not fsync directory ",
    },
    Failure {
        begin: |cluster| {
            allow(cluster, 0o500);
            // Nobody can remove a file there now, but its owner can make it read-only.
            fs::set_permissions(cluster.mark_file(), Permissions::from_mode(0o400)).expect("a mark");
        },
        end: |cluster| {
            allow(cluster, 0o700);
            fs::set_permissions(cluster.mark_file(), Permissions::from_mode(0o600)).expect("a mark");
        },
        code: "42501",
        message: "could not ",
    },
    // Not even root can create a file in the place of a directory, or remove a directory that is not empty.
    Failure {
        begin: |cluster| {
            while fs::create_dir_all(obstacle(cluster).join("full")).is_err() {
                assert!(obstacle(cluster).is_file(), "somebody is writing the mark");
            }
            lose_mark(cluster);
        },
        end: |cluster| fs::remove_dir_all(obstacle(cluster)).expect("the obstacle"),
        code: "58030",
        message: "could not remove file ",
    },
];

/// Without a file to write to, the server has to create one.
fn lose_mark(cluster: &Cluster) {
    fs::remove_file(cluster.mark_file()).expect("a mark");
}

fn allow(cluster: &Cluster, mode: u32) {
    let directory = cluster.data().join("snowflake_pg");
    fs::set_permissions(directory, Permissions::from_mode(mode)).expect("own directory");
}

/// Where the extension writes a new file before it takes the old one's place.
fn obstacle(cluster: &Cluster) -> PathBuf {
    cluster.mark_file().with_extension("new")
}

fn mark_cannot_be_written(rounds: usize) -> Evidence {
    let cluster = server_with_disk();
    let mut witness = Witness::of(&cluster);
    let times = rounds * FAILURES.len();
    for failure in FAILURES.iter().cycle().take(times) {
        witness.next_id().expect("an ID");
        (failure.begin)(&cluster);
        let deadline = Instant::now() + PATIENCE;
        let refused = loop {
            assert!(Instant::now() < deadline, "IDs without a mark");
            match witness.next_id() {
                Ok(id) => {
                    assert!(issued_at(id) < cluster.disk().flushed_mark().expect("a mark"), "{id} above the mark")
                }
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.code().code(), failure.code, "{refused:?}");
        assert!(refused.message().starts_with(failure.message), "{refused:?}");
        assert!(refused.detail().is_some() && refused.hint().is_some(), "{refused:?}");
        assert_eq!(witness.refusal().code().code(), failure.code, "and again");
        (failure.end)(&cluster);
        witness.next_id().expect("IDs again, in the same session");
    }
    assert!(!cluster.log().contains("PANIC"), "{}", cluster.log());
    assert_kept(times, &witness.report(), 0)
}

/// Files can be renamed in the directory, but it can't be opened, and so not be flushed.
fn first_mark_cannot_be_written(rounds: usize) -> Evidence {
    let mut cluster = server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    for _ in 0..rounds {
        witness.next_id().expect("an ID");
        cluster.stop(Signal::INT);
        let mark = fs::read(cluster.mark_file()).expect("a mark");
        allow(&cluster, 0o300);
        cluster.start();
        for _ in 0..3 {
            witness.connect(&cluster);
            assert_eq!(witness.refusal().code().code(), "42501");
        }
        assert_eq!(fs::read(cluster.mark_file()).expect("a mark"), mark, "left as it was");
        allow(&cluster, 0o700);
        witness.next_id().expect("IDs again");
    }
    assert_kept(rounds, &witness.report(), 0)
}

fn assert_refused_as_damaged(witness: &mut Witness) {
    let refused = witness.refusal();
    assert_eq!(refused.code().code(), "XX001");
    assert!(refused.message().ends_with("snowflake_pg/mark\" is damaged"), "{refused:?}");
    assert!(refused.detail().is_some() && refused.hint().is_some(), "{refused:?}");
}

/// How many bytes of a record its checksum protects, with the checksum.
const CHECKED: usize = 504;

/// Every way to damage it that is of a kind of its own, and then a bit in so many of its bytes.
fn damaged(bytes: usize) -> Evidence {
    let mut cluster = server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    cluster.stop(Signal::INT);
    let good = fs::read(cluster.mark_file()).expect("a mark");
    let record = state_file::decode(&good).expect("a record");
    // In the record that counts. What is damaged in the one before does not matter.
    let flipped = |byte: usize| {
        let mut flipped = good.clone();
        flipped[state_file::offset(record.revision) + byte] ^= 4;
        flipped
    };
    // Whole, but of a time that no server of this layout can have come to.
    let absurd = state_file::encode(&Record { mark: u64::MAX, ..record });
    for damaged in [flipped(17), good[..20].to_vec(), Vec::new(), [good.clone(), good.clone()].concat(), absurd] {
        fs::write(cluster.mark_file(), &damaged).expect("a damaged mark");
        cluster.start();
        witness.connect(&cluster);
        for _ in 0..2 {
            assert_refused_as_damaged(&mut witness);
        }
        assert_eq!(fs::read(cluster.mark_file()).expect("a mark"), damaged, "left as it was");
        cluster.stop(Signal::INT);
        assert_eq!(fs::read(cluster.mark_file()).expect("a mark"), damaged, "left as it was, by the shutdown, too");
    }
    cluster.start();
    witness.connect(&cluster);
    for byte in (0..bytes).map(|byte| byte * CHECKED / bytes) {
        fs::write(cluster.mark_file(), flipped(byte)).expect("a damaged mark");
        assert_refused_as_damaged(&mut witness);
    }
    fs::write(cluster.mark_file(), &good).expect("the mark");
    witness.next_id().expect("IDs again");
    assert_kept(bytes, &witness.report(), 0)
}

fn damaged_and_reset(rounds: usize) -> Evidence {
    let mut cluster = server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    for _ in 0..rounds {
        witness.next_id().expect("an ID");
        cluster.stop(Signal::QUIT);
        fs::write(cluster.mark_file(), b"").expect("a damaged mark");
        cluster.start();
        witness.connect(&cluster);
        assert_refused_as_damaged(&mut witness);
        let floor = real_time() + 3000;
        let reset = format!("SELECT snowflake_reset_mark(to_timestamp({floor} / 1000.0))");
        witness.session().batch_execute(&reset).expect("a state that is given up");
        let id = witness.next_id().expect("IDs again");
        assert!(issued_at(id) >= floor, "{id} is below the floor {floor}");
    }
    assert_kept(rounds, &witness.report(), 0).crashes(rounds)
}

fn missing(rounds: usize) -> Evidence {
    let mut cluster = server(Cluster::builder().worker(1).with_defaults().set("snowflake_pg.wal_mark", "off"));
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    for _ in 0..rounds {
        cluster.stop(Signal::INT);
        fs::remove_file(cluster.mark_file()).expect("the mark");
        let before = real_time();
        cluster.start();
        witness.connect(&cluster);
        let issued_at = issued_at(witness.next_id().expect("an ID"));
        assert!(issued_at >= before + 5000, "{issued_at} at {before}");
        assert!(issued_at <= real_time() + 3000, "it has waited for two seconds by then");
    }
    let log = cluster.log();
    assert!(log.matches("LOG:  snowflake_pg: no durable mark found").count() > rounds, "{log}");
    assert_kept_without_errors(rounds, &witness.report(), 0)
}

/// Draws IDs right after a crash, when they are as far ahead of the clock as they get.
fn draw_ahead(cluster: &mut Cluster, witness: &mut Witness) {
    witness.connect(cluster);
    witness.next_id().expect("an ID");
    cluster.restart(Signal::KILL);
    witness.connect(cluster);
    witness.ask("SELECT snowflake_nextvals(20000)").expect("IDs");
    cluster.stop(Signal::QUIT);
}

fn deleted_while_ahead(rounds: usize) -> Evidence {
    // So far ahead that a machine that is slow to restart the server does not use it up.
    let mut cluster = server(Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", "4s"));
    let mut witness = Witness::default();
    for _ in 0..rounds {
        draw_ahead(&mut cluster, &mut witness);
        fs::remove_file(cluster.mark_file()).expect("the mark");
        cluster.start();
    }
    draw_ahead(&mut cluster, &mut witness);
    let evidence = assert_kept_without_errors(rounds, &witness.report(), 0).crashes(2 * (rounds + 1));
    assert!(evidence.lead_ms > Some(0), "the test means something only if IDs were ahead: {evidence:?}");
    evidence
}
