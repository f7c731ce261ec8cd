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

impl Written {
    pub fn new(traces: &[Trace]) -> Self {
        let mut written = Self::default();
        for trace in traces {
            let (mut identity, mut in_wal) = (None, 0);
            for entry in &trace.entries {
                written.add(entry.event, &mut identity, &mut in_wal);
            }
        }
        written
    }

    /// `in_wal` is the mark of the server's worker in WAL.
    fn add(&mut self, event: Event, identity: &mut Option<Event>, in_wal: &mut u64) {
        match event {
            Event::Begins { .. } => *identity = Some(event),
            Event::FoundInWal { mark, .. } => *in_wal = mark,
            // Its standbys can have a mark when it is killed, before it has recorded that.
            Event::Starts { mark, wal_mark, .. } | Event::Extends { mark, wal_mark, .. } => {
                if let Some(Event::Begins { worker, .. }) = *identity
                    && wal_mark != WalMark::Off as u64
                {
                    self.in_wal.push((worker, InPage::Mark(mark.max(*in_wal + 1))));
                }
            }
            Event::Recorded { revision, life, previous_life, mark, logged, others } => {
                let Some(Event::Begins { timeline, system_identifier, directory, worker, layout, .. }) = *identity
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
                let directory = if let Some(Event::Begins { directory, .. }) = *identity { directory } else { 0 };
                let life = Life { number, revision, worker: 0, wal_mark, directory, is_own: true };
                self.lives.insert(number, life);
            }
            Event::Logged { worker, counts, .. } => {
                *in_wal = counts;
                self.in_wal.push((worker, InPage::Mark(counts)));
            }
            Event::Disowned { worker } => {
                *in_wal = 0;
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
