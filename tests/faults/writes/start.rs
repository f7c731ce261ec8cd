//! A start of the core on what a disk has after a power failure. It writes as src/durable does, so the power can be cut
//! again: [`super::order`] compares.

use super::disk::{DIRECTORY, Disk, Found, LIFE, MARK, NEW_LIFE, NEW_MARK};
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use snowflake_core::issue::generator::Generator;
use snowflake_core::mark::life::{self, LastLife, Life};
use snowflake_core::mark::record::Record;
use snowflake_core::mark::start_table::StartPoint;
use snowflake_core::mark::state_file::{self, Damage};
use snowflake_core::mark::trace::Event as Traced;
use snowflake_core::mark::wal_page::{InWal, WalPage};
use snowflake_core::mark::{Begin, Mark, MarkSettings, MarkState, Refusal, Storage, WalMark};
use snowflake_core::server::identity::{Identity, Inode, Worker};
use snowflake_core::server::lease::LeaseStart;
use snowflake_core::server::vmclock::Machine;
use testbed::{Event, Key};

/// How far the clock of a start can be wrong: what is issued must not depend on it.
pub const MARGIN_MS: u64 = 1000;

/// The server that starts.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    pub system_identifier: u64,
    pub layout: Layout,
    pub worker: Worker,
    pub wal_mark: WalMark,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum Failure {
    Refused(Refusal),
    Damaged(Damage),
    PowerCut,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Failure {
    /// In a word or two.
    pub fn name(&self) -> String {
        match self {
            Self::Refused(Refusal::Conflict { conflict, .. }) => format!("refused: {conflict:?}"),
            Self::Refused(refusal) => format!("refused: {refusal:?}"),
            Self::Damaged(_) => "refused: damaged".to_owned(),
            Self::PowerCut => "the power is cut".to_owned(),
        }
    }
}

/// The disk and the page of marks that a start finds, and what it writes.
#[derive(Clone)]
pub struct Files {
    server: Server,
    pub disk: Disk,
    pub wal: WalPage,
    /// How many steps are left before the power is cut.
    pub steps_left: usize,
    made: u64,
}

impl Files {
    /// `start` tells it from the starts before it, which made other files.
    pub fn new(server: Server, found: &Found, wal: &WalPage, start: u64) -> Self {
        Self { server, disk: Disk::with(found), wal: wal.clone(), steps_left: usize::MAX, made: start << 32 }
    }

    /// Starts the server; the clock shows `now`, and as late a time as the server then waits for.
    pub fn start(&mut self, now: UnixMs) -> Result<StartPoint, Failure> {
        let Server { layout, wal_mark, .. } = self.server;
        let settings = MarkSettings {
            layout,
            reserve_ahead_ms: 500,
            max_borrow_ms: MARGIN_MS,
            borrows_ticks: true,
            start_wait_ms: MARGIN_MS,
            first_wait_ms: MARGIN_MS,
            wal_mark,
        };
        if self.disk.last().directory.is_none() {
            let key = self.new_key();
            self.step(Event::Directory { path: DIRECTORY.into(), key })?;
            self.flush("")?;
        }
        let (generator, state) = (Generator::new(layout.sequence_bits()), MarkState::default());
        let mut mark = Mark::new(&generator, &state, settings, self);
        let begin = match mark.start(now)? {
            Begin::Waiting(point) => mark.start(point.floor)?,
            begin => begin,
        };
        let Begin::At { point, .. } = begin else { panic!("the server waits for longer than it said: {begin:?}") };
        Ok(point)
    }

    fn step(&mut self, event: Event) -> Result<(), Failure> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(Failure::PowerCut)?;
        self.disk.apply(&event);
        Ok(())
    }

    /// As `prepare` in src/durable/replace.rs.
    fn prepare(&mut self, temporary: &str, key: Key, bytes: Vec<u8>) -> Result<(), Failure> {
        if self.disk.has(temporary) {
            self.step(Event::Remove { path: temporary.into() })?;
        }
        self.step(Event::Write { path: temporary.into(), key: key.clone(), at: 0, bytes })?;
        self.step(Event::Flush { path: temporary.into(), key })
    }

    /// As `commit` there.
    fn commit(&mut self, temporary: &str, path: &str, directory: &str) -> Result<(), Failure> {
        self.step(Event::Rename { from: temporary.into(), to: path.into() })?;
        self.flush(directory)
    }

    fn flush(&mut self, directory: &str) -> Result<(), Failure> {
        self.step(Event::Flush { path: directory.into(), key: Key::imagined(0, 0) })
    }

    fn new_key(&mut self) -> Key {
        self.made += 1;
        Key::imagined(u64::MAX - self.made, u64::MAX - self.made)
    }

    fn placed(&self, record: &Record) -> Record {
        Record { identity: Identity { directory: self.inode(), ..record.identity }, ..*record }
    }

    fn inode(&self) -> Inode {
        inode(&self.disk.last().directory.expect("a state directory"))
    }
}

fn inode(key: &Key) -> Inode {
    let (number, born_ns) = key.inode().expect("an inode");
    Inode { number, born_ns }
}

/// The record in a state file.
pub fn record(found: &Found) -> Option<Record> {
    state_file::decode(&found.mark.as_ref()?.1).ok()
}

impl Storage for &mut Files {
    type Error = Failure;

    fn monotonic_ms(&self) -> u64 {
        0
    }

    fn worker(&self) -> Result<Worker, Failure> {
        Ok(self.server.worker)
    }

    fn identity(&self, directory: Inode, worker: Worker) -> Result<Identity, Failure> {
        let Server { system_identifier, layout, .. } = self.server;
        Ok(Identity { system_identifier, timeline: 1, directory, worker, layout })
    }

    fn machine(&self) -> Option<Machine> {
        None
    }

    fn was_standby(&self) -> bool {
        false
    }

    fn lease(&self) -> Result<Option<LeaseStart>, Failure> {
        Ok(None)
    }

    fn usable_until(&self) -> Result<UnixMs, Failure> {
        Ok(UnixMs::MAX)
    }

    fn directory(&self) -> Result<Inode, Failure> {
        Ok(self.inode())
    }

    fn read_record(&self) -> Result<Option<Record>, Failure> {
        self.disk.last().mark.map(|(_, bytes)| state_file::decode(&bytes)).transpose().map_err(Failure::Damaged)
    }

    fn is_damaged(error: &Failure) -> bool {
        matches!(error, Failure::Damaged(_))
    }

    fn is_newer(_error: &Failure) -> bool {
        false
    }

    fn add_record(&mut self, record: &Record) -> Result<Inode, Failure> {
        let (key, _) = self.disk.last().mark.expect("the file with the last record");
        let bytes = state_file::encode_slot(&self.placed(record)).to_vec();
        let at = state_file::offset(record.revision) as u64;
        self.step(Event::Write { path: MARK.into(), key: key.clone(), at, bytes })?;
        self.step(Event::Flush { path: MARK.into(), key })?;
        self.directory()
    }

    fn replace_record(&mut self, record: &Record) -> Result<Inode, Failure> {
        let key = self.new_key();
        self.prepare(NEW_MARK, key, state_file::encode(&self.placed(record)))?;
        self.commit(NEW_MARK, MARK, DIRECTORY)?;
        self.directory()
    }

    fn read_life(&self) -> Result<Option<LastLife>, Failure> {
        let read =
            |(key, bytes): (Key, Vec<u8>)| life::decode(&bytes, inode(&key), self.inode()).expect("of this library");
        Ok(self.disk.last().life.and_then(read))
    }

    fn prepare_life(&mut self, life: Life, directory: Inode) -> Result<(), Failure> {
        let key = self.new_key();
        let bytes = life::encode(life, inode(&key), directory);
        self.prepare(NEW_LIFE, key, bytes)
    }

    fn commit_life(&mut self) -> Result<(), Failure> {
        self.commit(NEW_LIFE, LIFE, "")
    }

    fn new_life(&mut self) -> u64 {
        self.made += 1;
        u64::MAX - self.made
    }

    fn read_wal(&self, worker: Worker) -> Result<InWal, Failure> {
        Ok(self.wal.look_up(worker))
    }

    fn write_wal(&mut self, worker: Worker, mark: UnixMs) -> Result<UnixMs, Failure> {
        self.step(Event::Note(String::new()))?;
        self.wal.raise(worker, mark, self.server.layout, ROOM);
        Ok(self.wal.look_up(worker).highest())
    }

    fn disown_in_wal(&mut self, worker: Worker) -> Result<(), Failure> {
        self.step(Event::Note(String::new()))?;
        self.wal.disown(worker, self.server.layout, ROOM);
        Ok(())
    }

    fn wait_for_standbys(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn report_wal(&mut self, _failure: Option<Failure>) {}

    fn sign(&mut self) {}

    fn trace(&self, _events: &[Traced]) {}
}

/// What a page has beside its header.
const ROOM: usize = 8192 - 24;
