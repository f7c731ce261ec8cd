//! Every disk that a power failure can leave, and a start on each.
//!
//! A server of its own does everything by which a mark comes to disk, and a library in its processes keeps a journal of
//! what it does to the files. Then no server is needed: the power is cut before each step of the journal.

mod disk;
mod judge;
mod order;
mod page;
mod start;
mod wal;

use super::fixture::assert_kept_without_errors;
use super::suite::{Evidence, Fault};
use disk::{Disk, Found};
use judge::{Judge, Note, table};
use snowflake_core::mark::WalMark;
use snowflake_core::server::identity::Worker;
use start::Server;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{
    Cluster, Event, Load, Order, PATIENCE, Report, Signal, Turn, Witness, default_layout, issued_at, record_in, value,
};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 5,
        promise: "every_disk_that_a_power_cut_can_leave_starts_above_what_was_issued",
        short: 1,
        full: 2,
        run: every_disk,
    },
    Fault {
        row: 5,
        promise: "a_server_starts_on_any_disk_that_a_power_cut_can_leave",
        short: 6,
        full: 100,
        run: any_disk,
    },
    Fault {
        row: 5,
        promise: "a_page_of_marks_that_a_power_cut_has_torn_is_whole_again_after_recovery",
        short: 4,
        full: 64,
        run: page::torn,
    },
];

/// How many steps can be outstanding at the same time. There are never as many.
const OUTSTANDING: usize = 3;

/// A server whose journal is kept, and what the test has said in it.
struct Recording {
    cluster: Cluster,
    witness: Witness,
    worker: Worker,
    notes: Vec<Note>,
}

impl Recording {
    fn new() -> Self {
        let builder = Cluster::builder().worker(1).faulty_disk().set("snowflake_pg.reserve_ahead", "100ms");
        let cluster = builder.create();
        cluster.disk().journal().begin().expect("a journal");
        Self { cluster, witness: Witness::default(), worker: 1, notes: Vec::new() }
    }

    fn turn(&self) -> Turn {
        self.cluster.disk().journal().turn().expect("a lock").expect("the journal")
    }

    fn note(&mut self, note: Note) {
        self.turn().append(&Event::Note(self.notes.len().to_string())).expect("the journal");
        self.notes.push(note);
    }

    fn operation(&mut self, name: &str) {
        self.note(Note::Operation(name.to_owned()));
    }

    fn configure(&mut self, worker: Worker, wal_mark: WalMark) {
        self.cluster.configure("snowflake_pg.worker_id", worker);
        self.cluster.configure("snowflake_pg.wal_mark", wal_mark);
        self.worker = worker;
        self.note(Note::Configured(worker, wal_mark));
    }

    fn start(&mut self) {
        self.cluster.start();
        self.witness.connect(&self.cluster);
    }

    /// Clients receive IDs until the mark was written so many times more.
    fn issue(&mut self, marks: usize) {
        self.issue_one();
        let (last, deadline) = (self.revision() + marks as u64, Instant::now() + PATIENCE);
        while self.revision() < last {
            assert!(Instant::now() < deadline, "the mark stays where it is");
            self.issue_one();
        }
        self.issue_one();
    }

    fn revision(&self) -> u64 {
        record_in(&self.cluster.mark_file()).revision
    }

    fn issue_one(&mut self) {
        let id = self.witness.next_id().expect("an ID");
        self.note(Note::Issued(self.worker, issued_at(id)));
    }

    /// Nothing is done that the journal does not have yet.
    fn kill(&mut self) {
        let turn = self.turn();
        self.cluster.kill_all_holding(turn);
    }

    /// Kills the server while the files of this machine can become several disks; returns these.
    fn kill_while_outstanding(&mut self, before: &Disk) -> Vec<Found> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "nothing is outstanding");
            let (turn, mut disk) = (self.turn(), before.clone());
            for event in self.cluster.disk().journal().events().expect("the journal") {
                disk.apply(&event);
            }
            // What was renamed over is gone from this machine.
            let (present, outcomes) = (disk.last(), disk.outcomes(OUTSTANDING));
            let is_possible =
                |found: &Found| found.directory == present.directory && found.life_file() == present.life_file();
            let possible: Vec<_> = outcomes.into_iter().filter(is_possible).collect();
            if possible.len() > 1 {
                self.cluster.kill_all_holding(turn);
                return possible;
            }
            drop(turn);
            sleep(Duration::from_millis(1));
        }
    }

    /// Gives the state file of a stopped server these bytes.
    fn exchange_mark(&mut self, bytes: Vec<u8>) {
        fs::write(self.cluster.mark_file(), &bytes).expect("a file");
        self.note(Note::Exchanged(bytes));
    }

    /// The journal, with the notes.
    fn events(&self) -> Vec<(Event, Option<Note>)> {
        let events = self.cluster.disk().journal().events().expect("the journal");
        let note = |event: &Event| match event {
            Event::Note(number) => self.notes.get(number.parse::<usize>().ok()?).cloned(),
            _ => None,
        };
        events.into_iter().map(|event| (event.clone(), note(&event))).collect()
    }
}

/// The power is cut again so many times, in the starts that follow.
fn every_disk(cuts: usize) -> Evidence {
    let mut recording = Recording::new();
    record(&mut recording);
    let identifier = value(&mut recording.cluster.connect(), "SELECT system_identifier FROM pg_control_system()");
    let server = Server {
        system_identifier: identifier.parse::<i64>().expect("an identifier").cast_unsigned(),
        layout: default_layout(),
        worker: 1,
        wal_mark: WalMark::Prefer,
    };
    recording.cluster.stop(Signal::INT);
    let events = recording.events();
    let mut judge = Judge::new(server, OUTSTANDING, cuts);
    judge.go_through(&events);
    let last = Disk::read(&recording.cluster.data()).last();
    assert_eq!(judge.disk().last(), last, "the journal does not have all that was done");
    order::check(events.iter().map(|(event, _)| event));
    println!("{}", table(judge.tallies()));
    let report = recording.witness.report();
    report.assert_unique_and_ordered();
    Evidence::new(judge.tallies().iter().map(|(_, tally)| tally.disks + tally.again).sum(), &report)
}

/// Real servers, whose power is cut while something is outstanding, by a disk that is a little slow. Each then has one
/// of the disks that this can leave.
fn any_disk(rounds: usize) -> Evidence {
    let mut recording = Recording::new();
    recording.start();
    recording.cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    recording.witness.next_id().expect("an ID");
    recording.cluster.stop(Signal::INT);
    let mut report = Report::default();
    for round in 0..rounds {
        recording.configure(1, if round % 2 == 0 { WalMark::Off } else { WalMark::Prefer });
        let before = Disk::read(&recording.cluster.data());
        recording.cluster.disk().journal().begin().expect("a journal");
        recording.cluster.disk().obey(Order::Slow(Duration::from_millis(10)));
        recording.start();
        let load = Load::start(&recording.cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
        if round % 4 > 1 {
            load.wait_for_ids(); // Otherwise, the server still starts.
        }
        let possible = recording.kill_while_outstanding(&before);
        recording.cluster.disk().obey(Order::Work);
        report.merge(load.finish());
        possible[round % possible.len()].write(&recording.cluster.data());
        if let Some(last) = report.received().max() {
            assert!(issued_at(last) < recording.cluster.mark(), "{last} is above the mark that the disk has");
        }
        recording.start();
        recording.witness.next_id().expect("an ID");
        recording.cluster.stop(Signal::QUIT);
    }
    let log = recording.cluster.log();
    assert_eq!(log.matches("no durable mark found").count(), 1, "{log}");
    report.merge(recording.witness.report());
    assert_kept_without_errors(rounds, &report, 0).crashes(2 * rounds)
}

/// Everything by which a mark comes to disk.
fn record(recording: &mut Recording) {
    recording.operation("first start");
    recording.configure(1, WalMark::Prefer);
    recording.start();
    recording.cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    recording.issue(0);
    recording.operation("extension");
    recording.issue(8);
    recording.operation("planned stop");
    recording.cluster.stop(Signal::INT);
    recording.operation("restart");
    recording.start();
    recording.issue(3);
    recording.operation("kill -9 and restart");
    recording.kill();
    recording.start();
    recording.issue(3);
    recording.operation("flush that fails");
    recording.cluster.disk().obey(Order::FailFileFlush);
    let last = recording.revision() + 10; // A server that flushes nothing does not fail.
    while recording.witness.next_id().is_ok() && recording.revision() < last {}
    recording.cluster.disk().obey(Order::Work);
    recording.issue(3);
    recording.operation("other worker");
    recording.cluster.stop(Signal::INT);
    recording.configure(2, WalMark::Prefer);
    recording.start();
    recording.issue(2);
    recording.cluster.stop(Signal::INT);
    recording.configure(1, WalMark::Prefer);
    recording.start();
    recording.issue(2);
    recording.operation("wal_mark off, and on");
    for wal_mark in [WalMark::Off, WalMark::Require] {
        recording.cluster.stop(Signal::INT);
        recording.configure(1, wal_mark);
        recording.start();
        recording.issue(2);
    }
    recording.operation("snowflake_accept_mark()");
    recording.cluster.stop(Signal::INT);
    recording.configure(1, WalMark::Off);
    let old = fs::read(recording.cluster.mark_file()).expect("a mark");
    recording.start();
    recording.issue(2);
    recording.cluster.stop(Signal::INT);
    recording.start();
    recording.issue(2);
    recording.cluster.stop(Signal::INT);
    recording.exchange_mark(old);
    recording.start();
    assert_eq!(recording.witness.refusal().code().code(), "55000");
    recording.witness.session().batch_execute("SELECT snowflake_accept_mark()").expect("a mark that counts");
    recording.issue(2);
    recording.operation("snowflake_reset_mark()");
    recording.cluster.stop(Signal::INT);
    recording.exchange_mark(b"damaged".to_vec());
    recording.start();
    assert_eq!(recording.witness.refusal().code().code(), "XX001");
    let reset = "SELECT snowflake_reset_mark(clock_timestamp() + interval '2 s')";
    recording.witness.session().batch_execute(reset).expect("a mark that counts");
    recording.issue(2);
}
