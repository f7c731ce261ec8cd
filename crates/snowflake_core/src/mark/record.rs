//! What a server keeps of the IDs that were issued: a durable mark for each worker, and who wrote it.

use crate::UnixMs;
use crate::server::identity::{Identity, Worker};
use crate::server::vmclock::Machine;

/// How many workers beside the present one have a mark of their own in a record. All others share one mark.
pub const OTHER_WORKERS: usize = 8;

/// The durable mark of a server, who wrote it, and the marks of the workers that the server had before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Counts the writes of the state file, from 1. The record with the greatest revision counts.
    pub revision: u64,
    /// A random number, new whenever the generator starts. Not 0.
    pub life: u64,
    /// The number of the previous life, as the data directory that wrote this knew it; 0 if it knew none.
    pub previous_life: u64,
    /// Every timestamp issued is below this mark.
    pub mark: UnixMs,
    /// The mark in WAL for this worker, as its writer knew it; 0 if none. If WAL has a higher one, somebody has
    /// continued from there. If it has a lower one, WAL is at an older state.
    pub logged: UnixMs,
    /// The source of these IDs.
    pub identity: Identity,
    /// The machine on which the server has begun, which can have been cloned since; `None` if it could not tell. If the
    /// server has noticed that, the machine [says so](Machine::cloned) until somebody accepts it.
    pub machine: Option<Machine>,
    /// The marks of other workers.
    pub others: OtherMarks,
    /// What a later library has written behind that.
    pub later: LaterFields,
}

/// Fields of a record that this library does not know, and keeps; all 0 if there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaterFields(pub [u8; Self::LENGTH]);

impl LaterFields {
    /// How many bytes there are for them.
    pub const LENGTH: usize = 140;
}

impl Default for LaterFields {
    fn default() -> Self {
        Self([0; Self::LENGTH])
    }
}

impl Record {
    /// Every timestamp that a worker is known to have issued is below this.
    pub fn mark_of(&self, worker: Worker) -> UnixMs {
        if worker == self.identity.worker { self.mark } else { self.others.mark_of(worker) }
    }

    /// The highest mark of any worker.
    pub fn highest_mark(&self) -> UnixMs {
        self.others.highest().max(self.mark)
    }

    /// Whether the life with this number wrote this record, or came right before the one that did.
    pub fn continues(&self, life: u64) -> bool {
        self.life == life || self.previous_life == life
    }

    /// The marks of others that a worker keeps in its first record after this one.
    pub fn others_for(&self, worker: Worker) -> OtherMarks {
        let mut others = self.others;
        if worker != self.identity.worker {
            others.remove(worker);
            others.insert(self.identity.worker, self.mark);
        }
        others
    }
}

/// Marks of several workers. They are lower bounds: another server may have issued IDs of these workers since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OtherMarks {
    listed: [Option<(Worker, UnixMs)>; OTHER_WORKERS],
    /// The mark of each worker that is not listed.
    unlisted: UnixMs,
}

impl OtherMarks {
    /// One mark for all workers.
    pub fn all_at(mark: UnixMs) -> Self {
        Self { unlisted: mark, ..Self::default() }
    }

    /// The marks of listed workers, and one mark for all others.
    pub fn new(listed: impl IntoIterator<Item = (Worker, UnixMs)>, unlisted: UnixMs) -> Self {
        let mut marks = Self::all_at(unlisted);
        listed.into_iter().for_each(|(worker, mark)| marks.insert(worker, mark));
        marks
    }

    /// The workers that have a mark of their own.
    pub fn listed(&self) -> impl Iterator<Item = (Worker, UnixMs)> {
        self.listed.iter().filter_map(|&mark| mark)
    }

    /// The mark of each worker that is not listed.
    pub fn unlisted(&self) -> UnixMs {
        self.unlisted
    }

    /// The mark of a worker.
    pub fn mark_of(&self, worker: Worker) -> UnixMs {
        self.listed().find(|&(listed, _)| listed == worker).map_or(self.unlisted, |(_, mark)| mark)
    }

    /// The highest mark of any worker.
    pub fn highest(&self) -> UnixMs {
        self.listed().map(|(_, mark)| mark).max().unwrap_or(0).max(self.unlisted)
    }

    /// Lists a worker. If there is no room, the lowest mark is left out of the list, and counts for all that are not in
    /// it.
    fn insert(&mut self, worker: Worker, mark: UnixMs) {
        self.remove(worker);
        let lowest_first = |entry: &&mut Option<(Worker, UnixMs)>| entry.map(|(_, mark)| mark);
        let entry = self.listed.iter_mut().min_by_key(lowest_first).expect("the list has room for some");
        match entry.replace((worker, mark)) {
            Some((other, left_out)) if left_out > mark => {
                *entry = Some((other, left_out));
                self.unlisted = self.unlisted.max(mark);
            }
            Some((_, left_out)) => self.unlisted = self.unlisted.max(left_out),
            None => {}
        }
    }

    fn remove(&mut self, worker: Worker) {
        for entry in &mut self.listed {
            entry.take_if(|(listed, _)| *listed == worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::identity::Inode;
    use proptest::prelude::*;

    fn record(worker: Worker, mark: UnixMs, others: OtherMarks) -> Record {
        let directory = Inode { number: 1, born_ns: 1 };
        let layout = "flat".parse().expect("a layout");
        let identity = Identity { system_identifier: 1, timeline: 1, directory, worker, layout };
        let later = LaterFields::default();
        Record { revision: 1, life: 1, previous_life: 0, mark, logged: 0, identity, machine: None, others, later }
    }

    #[test]
    fn a_worker_keeps_its_mark_while_others_take_over() {
        let first = record(1, 100, OtherMarks::default());
        let second = record(2, 200, first.others_for(2));
        assert_eq!([1, 2, 3].map(|worker| second.mark_of(worker)), [100, 200, 0]);
        let back = record(1, 300, second.others_for(1));
        assert_eq!([1, 2].map(|worker| back.mark_of(worker)), [300, 200]);
        assert_eq!(back.others.listed().count(), 1);
        assert_eq!(back.others_for(1), back.others, "a restart changes nothing");
    }

    #[test]
    fn a_full_list_leaves_out_the_lowest_mark() {
        let full = || (0..).map(|worker| (worker, 100 + worker)).take(OTHER_WORKERS);
        let mark_of = |new: UnixMs, worker| OtherMarks::new(full().chain([(99, new)]), 7).mark_of(worker);
        assert_eq!([0, 1, 99, 50].map(|worker| mark_of(500, worker)), [100, 101, 500, 100]);
        assert_eq!([0, 1, 99, 50].map(|worker| mark_of(50, worker)), [100, 101, 50, 50]);
        assert_eq!([0, 1, 99, 50].map(|worker| mark_of(100, worker)), [100, 101, 100, 100]);
    }

    #[test]
    fn a_record_continues_the_life_that_wrote_it_and_the_one_before() {
        let record = Record { life: 7, previous_life: 6, ..record(1, 100, OtherMarks::default()) };
        assert_eq!([5, 6, 7].map(|life| record.continues(life)), [false, true, true]);
    }

    proptest! {
        /// However many workers take over, one after the other.
        #[test]
        fn no_worker_is_ever_known_by_less_than_it_has_issued(
            takeovers in prop::collection::vec((0_u64..40, 0_u64..1000), 1..200),
        ) {
            let mut present = record(99, 0, OtherMarks::default());
            let mut issued = std::collections::BTreeMap::new();
            for (worker, mark) in takeovers {
                let mark = mark.max(present.mark_of(worker));
                present = record(worker, mark, present.others_for(worker));
                issued.insert(worker, mark);
                for (&worker, &mark) in &issued {
                    prop_assert!(present.mark_of(worker) >= mark, "{worker:?}");
                }
                prop_assert!(present.highest_mark() >= *issued.values().max().expect("one at least"));
            }
        }
    }
}
