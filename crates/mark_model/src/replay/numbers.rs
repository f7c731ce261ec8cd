//! Numbers of the model for those of servers, and everything that was ever written.

use super::traces::Trace;
use crate::state::{InPage, Life, Page, Record, WORKERS, Worker};
use snowflake_core::mark::WalMark;
use snowflake_core::mark::trace::Event;
use std::collections::BTreeMap;

/// Small numbers for workers and layouts, as the model has them.
#[derive(Debug, Default)]
pub struct Numbers {
    workers: Vec<u64>,
    layouts: Vec<u64>,
    clusters: Vec<u64>,
}

/// More workers or layouts than the model has.
#[derive(Debug)]
pub struct Outside(pub &'static str);

impl Numbers {
    pub fn worker(&mut self, worker: u64) -> Result<Worker, Outside> {
        number(&mut self.workers, worker, "more than two workers")
    }

    /// Of PostgreSQL's system identifier.
    pub fn cluster(&mut self, system_identifier: u64) -> Result<u8, Outside> {
        number(&mut self.clusters, system_identifier, "more than two clusters")
    }

    pub fn layout(&mut self, layout: u64) -> Result<u8, Outside> {
        number(&mut self.layouts, layout, "more than two layouts")
    }
}

fn number(known: &mut Vec<u64>, wanted: u64, what: &'static str) -> Result<u8, Outside> {
    let position = known.iter().position(|&known| known == wanted).unwrap_or(known.len());
    if position >= WORKERS {
        return Err(Outside(what));
    }
    if position == known.len() {
        known.push(wanted);
    }
    Ok(u8::try_from(position).expect("one of two"))
}

/// What servers have written, which files that are copied or restored can bring to others.
#[derive(Debug, Default)]
pub struct Written {
    /// By life and revision.
    pub records: BTreeMap<(u64, u64), WrittenRecord>,
    /// By number.
    pub lives: BTreeMap<u64, Life>,
    /// By worker.
    pub in_wal: Vec<(u64, InPage)>,
}

/// A record, and what its writer was.
#[derive(Clone, Copy, Debug)]
pub struct WrittenRecord {
    pub record: Record,
    pub worker: u64,
    pub layout: u64,
    pub system_identifier: u64,
}

/// A server, as far as its events go.
#[derive(Default)]
struct Writer {
    identity: Option<Event>,
    /// The mark of its worker in WAL.
    in_wal: u64,
    /// What it has begun to write to WAL. Its standbys can have that when it is killed, before it has recorded it.
    begun: Option<(u64, InPage)>,
}

impl Writer {
    fn worker(&self) -> Option<u64> {
        let Some(Event::Begins { worker, .. }) = self.identity else { return None };
        Some(worker)
    }
}

impl Written {
    pub fn new(traces: &[Trace]) -> Self {
        let mut written = Self::default();
        for trace in traces {
            let mut writer = Writer::default();
            for entry in &trace.entries {
                written.add(entry.event, &mut writer);
            }
            written.in_wal.extend(writer.begun);
        }
        written
    }

    fn add(&mut self, event: Event, writer: &mut Writer) {
        match event {
            Event::Boot { .. } | Event::Stops { .. } => self.in_wal.extend(writer.begun.take()),
            Event::Begins { .. } => writer.identity = Some(event),
            Event::FoundInWal { mark, .. } => writer.in_wal = mark,
            Event::Starts { mark, wal_mark, .. } | Event::Extends { mark, wal_mark, .. } => {
                let is_off = wal_mark == WalMark::Off as u64;
                let says = if is_off { InPage::Unknown } else { InPage::Mark(mark.max(writer.in_wal + 1)) };
                writer.begun = writer.worker().map(|worker| (worker, says));
            }
            Event::Failed {} => writer.begun = None,
            Event::Recorded { revision, life, previous_life, mark, logged, others } => {
                writer.begun = None;
                let Some(Event::Begins { timeline, system_identifier, directory, worker, layout, .. }) =
                    writer.identity
                else {
                    return;
                };
                let record = Record {
                    revision,
                    life,
                    previous_life,
                    mark,
                    logged,
                    cluster: 0,
                    timeline: u32::try_from(timeline).unwrap_or(u32::MAX),
                    directory,
                    worker: 0,
                    layout: 0,
                    other: others,
                };
                self.records.insert((life, revision), WrittenRecord { record, worker, layout, system_identifier });
            }
            Event::Born { number, revision, wal_mark, .. } => {
                let directory = if let Some(Event::Begins { directory, .. }) = writer.identity { directory } else { 0 };
                let life = Life { number, revision, worker: 0, wal_mark, directory, is_own: true };
                self.lives.insert(number, life);
            }
            Event::Logged { worker, counts, .. } => {
                (writer.in_wal, writer.begun) = (counts, None);
                self.in_wal.push((worker, InPage::Mark(counts)));
            }
            Event::Disowned { worker } => {
                (writer.in_wal, writer.begun) = (0, None);
                self.in_wal.push((worker, InPage::Unknown));
            }
            _ => {}
        }
    }

    /// Whether WAL has ever said this of a worker.
    pub fn was_in_wal(&self, worker: u64, says: InPage) -> bool {
        says == InPage::Unwritten || self.in_wal.contains(&(worker, says))
    }
}

/// The page as a start has found it, of which only this worker is known.
pub fn page(worker: Worker, says: InPage, layout: Option<u8>) -> Page {
    let mut page = Page { layout, ..Page::default() };
    page.workers[usize::from(worker)] = says;
    page
}
