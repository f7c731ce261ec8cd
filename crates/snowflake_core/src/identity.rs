//! Where a server begins, given the durable mark that it finds, and whose mark that is.
//!
//! IDs continue at a mark that this server has written itself. But data directories are copied, rewound, restored and
//! promoted, so that the mark may be another server's or an old one. [`decide`] has the whole table.

use crate::UnixMs;
use crate::layout::Layout;

/// Identifies a directory among its copies. Without the device number and the host's name, since a volume may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Directory {
    /// Its inode number.
    pub inode: u64,
    /// When it was created, in nanoseconds since 1970; 0 if the file system does not keep that.
    pub born_ns: u64,
}

impl Directory {
    /// Whether this is the same directory. A copy is created later than its original, so the time of birth is enough.
    /// Inode numbers count only without it, since some network file systems assign new ones at every mount.
    pub fn same_directory(&self, other: &Self) -> bool {
        if self.born_ns > 0 && other.born_ns > 0 { self.born_ns == other.born_ns } else { self.inode == other.inode }
    }
}

/// Identifies a source of IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// PostgreSQL's system identifier, which all copies of a database cluster share.
    pub system_identifier: u64,
    /// PostgreSQL's timeline, which grows with every promotion and every recovery to a point in time.
    pub timeline: u32,
    /// The directory of the mark.
    pub directory: Directory,
    /// The data center in the IDs.
    pub datacenter: u32,
    /// The worker in the IDs.
    pub worker: u32,
    /// The layout of the IDs.
    pub layout: Layout,
}

impl Identity {
    /// Whether this is the same source of IDs.
    pub fn same_source(&self, other: &Self) -> bool {
        self.directory.same_directory(&other.directory) && *self == Self { directory: self.directory, ..*other }
    }
}

/// A durable mark, and who has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Every timestamp issued is below it.
    pub mark: UnixMs,
    /// The source of these IDs.
    pub identity: Identity,
}

/// What matters at a start, apart from the record.
#[derive(Clone, Copy, Debug)]
pub struct StartContext {
    /// What the clock shows.
    pub now: UnixMs,
    /// See [`crate::reservation::start_margin_ms`].
    pub start_margin_ms: u64,
    /// The mark in WAL, if there is one.
    pub wal_mark: Option<UnixMs>,
}

/// Where IDs begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPoint {
    /// The first timestamp that may be issued.
    pub floor: UnixMs,
    /// Why it is this one.
    pub reason: StartReason,
}

/// What has happened, by the mark that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// The server was stopped or has crashed.
    Restart,
    /// It was promoted or recovered to a point in time, in the same directory.
    Promotion,
    /// The same, in a copy of the directory.
    PromotedCopy,
    /// The mark is of other IDs: the worker was changed, or the data directory came from another node.
    OtherWorker,
    /// There is no mark. Nothing is issued until the clock has passed the floor, since the mark may return.
    Missing,
}

/// Why a mark does not tell where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkConflict {
    /// The directory is a copy, whose original may issue the same IDs.
    Copy,
    /// The mark is another cluster's.
    OtherCluster,
    /// The mark was written on a newer timeline than this server's.
    NewerTimeline,
    /// The layout has changed, so that new IDs could equal old ones.
    OtherLayout,
}

/// Above everything that the writer of this mark can have issued, and servers with right clocks, and above the mark in
/// WAL, which can be a little behind. The margin is added to the clock, not to the mark, so that repeated promotions do
/// not push a server further and further ahead.
pub fn above_start_margin(mark: UnixMs, context: StartContext) -> UnixMs {
    context.now.max(context.wal_mark.unwrap_or(0)).saturating_add(context.start_margin_ms).max(mark)
}

/// Where the server `own` begins if it finds this record.
///
/// | mark | data center, worker | cluster | directory | timeline | layout | |
/// |---|---|---|---|---|---|---|
/// | none | | | | | | begins above the start margin, and waits for it |
/// | found | | other | same | | | refused |
/// | found | other | any | any | | same | begins above the start margin |
/// | found | other | any | any | | other | refused |
/// | found | same | other | any | | | refused |
/// | found | same | same | any | older than the mark's | | refused |
/// | found | same | same | other | same | | refused |
/// | found | same | same | any | any | other | refused |
/// | found | same | same | any | newer than the mark's | same | begins above the start margin |
/// | found | same | same | same | same | same | begins at the mark, whatever came through WAL |
///
/// Another layout is the last conflict: to a server that may be a copy beside its original, that has to be said.
pub fn decide(found: Option<&Record>, own: &Identity, context: StartContext) -> Result<StartPoint, MarkConflict> {
    let floor = above_start_margin(found.map_or(0, |record| record.mark), context);
    let Some(Record { mark, identity }) = found else { return Ok(StartPoint { floor, reason: StartReason::Missing }) };
    let same_directory = identity.directory.same_directory(&own.directory);
    let same_cluster = identity.system_identifier == own.system_identifier;
    let same_worker = (identity.datacenter, identity.worker) == (own.datacenter, own.worker);
    let other_layout = identity.layout != own.layout;
    if !same_cluster && (same_directory || same_worker) {
        Err(MarkConflict::OtherCluster)
    } else if same_worker && identity.timeline > own.timeline {
        Err(MarkConflict::NewerTimeline)
    } else if same_worker && identity.timeline == own.timeline && !same_directory {
        Err(MarkConflict::Copy)
    } else if other_layout {
        Err(MarkConflict::OtherLayout)
    } else if !same_worker {
        Ok(StartPoint { floor, reason: StartReason::OtherWorker })
    } else if identity.timeline < own.timeline {
        Ok(StartPoint {
            floor,
            reason: if same_directory { StartReason::Promotion } else { StartReason::PromotedCopy },
        })
    } else {
        Ok(StartPoint { floor: *mark, reason: StartReason::Restart })
    }
}

/// The new mark after a DBA has vouched that no other server issues these IDs; `None` if new IDs could equal old ones
/// because the layout has changed.
pub fn accept(found: &Record, own: &Identity, context: StartContext) -> Option<UnixMs> {
    let floor = above_start_margin(found.mark, context);
    let lowest = |layout: &Layout, at| layout.min_id(layout.first_tick_from(at));
    let above =
        found.identity.layout == own.layout || lowest(&own.layout, floor) >= lowest(&found.identity.layout, found.mark);
    above.then_some(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMs = 1_800_000_000_000;
    const CONTEXT: StartContext = StartContext { now: NOW, start_margin_ms: 2000, wal_mark: None };
    const MARK: UnixMs = NOW - 5000;

    fn own() -> Identity {
        Identity {
            system_identifier: 7,
            timeline: 3,
            directory: Directory { inode: 11, born_ns: 1_700_000_000_000_000_001 },
            datacenter: 1,
            worker: 5,
            layout: "twitter".parse().unwrap(),
        }
    }

    /// What is decided when the record found differs from the server's own in this.
    fn found(differ: impl Fn(&mut Identity)) -> Result<StartPoint, MarkConflict> {
        let mut identity = own();
        differ(&mut identity);
        decide(Some(&Record { mark: MARK, identity }), &own(), CONTEXT)
    }

    fn copied(identity: &mut Identity) {
        identity.directory = Directory { inode: 12, born_ns: 1_700_000_000_000_000_000 };
    }

    const PAST_THE_GUARD: UnixMs = NOW + 2000;

    #[test]
    fn a_restart_begins_at_the_mark() {
        assert_eq!(found(|_| ()), Ok(StartPoint { floor: MARK, reason: StartReason::Restart }));
    }

    #[test]
    fn a_promotion_begins_above_the_start_margin_also_in_a_copy() {
        let beginning = |reason| Ok(StartPoint { floor: PAST_THE_GUARD, reason });
        assert_eq!(found(|old| old.timeline = 2), beginning(StartReason::Promotion));
        let promoted_copy = found(|old| {
            old.timeline = 2;
            copied(old);
        });
        assert_eq!(promoted_copy, beginning(StartReason::PromotedCopy));
    }

    #[test]
    fn a_copy_on_the_same_timeline_is_refused() {
        assert_eq!(found(copied), Err(MarkConflict::Copy));
    }

    #[test]
    fn a_copy_with_a_worker_of_its_own_simply_works() {
        let beginning = Ok(StartPoint { floor: PAST_THE_GUARD, reason: StartReason::OtherWorker });
        assert_eq!(found(|old| old.worker = 6), beginning);
        assert_eq!(found(|old| old.datacenter = 2), beginning);
        for timeline in [2, 4] {
            let copy = found(|old| {
                old.worker = 6;
                old.timeline = timeline;
                copied(old);
            });
            assert_eq!(copy, beginning);
        }
    }

    #[test]
    fn another_layout_is_refused_whatever_else_has_changed_and_does_not_hide_a_copy() {
        let epoch = |old: &mut Identity| old.layout = "twitter epoch=2024-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(found(epoch), Err(MarkConflict::OtherLayout));
        let worker_too = found(|old| {
            epoch(old);
            old.worker = 6;
        });
        assert_eq!(worker_too, Err(MarkConflict::OtherLayout));
        let too = |differ: fn(&mut Identity)| {
            found(|old| {
                epoch(old);
                differ(old);
            })
        };
        assert_eq!(too(copied), Err(MarkConflict::Copy));
        assert_eq!(too(|old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
        assert_eq!(too(|old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
        assert_eq!(too(|old| old.timeline = 2), Err(MarkConflict::OtherLayout));
    }

    #[test]
    fn another_clusters_mark_is_refused_where_its_ids_or_its_directory_are_ours() {
        assert_eq!(found(|old| old.system_identifier = 8), Err(MarkConflict::OtherCluster));
        for timeline in [2, 3, 4] {
            let foreign = found(|old| {
                old.system_identifier = 8;
                old.timeline = timeline;
                copied(old);
            });
            assert_eq!(foreign, Err(MarkConflict::OtherCluster));
        }
        let shared = found(|old| {
            old.system_identifier = 8;
            old.worker = 6;
        });
        assert_eq!(shared, Err(MarkConflict::OtherCluster));
        let brought_along = found(|old| {
            old.system_identifier = 8;
            old.worker = 6;
            copied(old);
        });
        assert_eq!(brought_along, Ok(StartPoint { floor: PAST_THE_GUARD, reason: StartReason::OtherWorker }));
    }

    #[test]
    fn a_mark_of_a_newer_timeline_is_refused() {
        assert_eq!(found(|old| old.timeline = 4), Err(MarkConflict::NewerTimeline));
    }

    #[test]
    fn a_missing_mark_begins_above_the_start_margin() {
        assert_eq!(
            decide(None, &own(), CONTEXT),
            Ok(StartPoint { floor: PAST_THE_GUARD, reason: StartReason::Missing })
        );
    }

    #[test]
    fn the_mark_of_the_write_ahead_log_counts_unless_the_own_one_is_known_to_be_newer() {
        let wal_mark = Some(NOW + 9000);
        let context = StartContext { wal_mark, ..CONTEXT };
        assert_eq!(decide(None, &own(), context).unwrap().floor, NOW + 11_000);
        let mut record = Record { mark: MARK, identity: own() };
        assert_eq!(decide(Some(&record), &own(), context).unwrap().floor, MARK);
        record.identity.timeline = 2;
        assert_eq!(decide(Some(&record), &own(), context).unwrap().floor, NOW + 11_000);
        let old = StartContext { wal_mark: Some(NOW - 9000), ..CONTEXT };
        assert_eq!(decide(Some(&record), &own(), old).unwrap().floor, PAST_THE_GUARD);
    }

    #[test]
    fn a_promotion_never_begins_below_the_mark_and_some_in_a_row_do_not_add_up() {
        let record = |mark| Record { mark, identity: Identity { timeline: 2, ..own() } };
        assert_eq!(decide(Some(&record(NOW + 60_000)), &own(), CONTEXT).unwrap().floor, NOW + 60_000);
        assert_eq!(decide(Some(&record(NOW + 2000)), &own(), CONTEXT).unwrap().floor, PAST_THE_GUARD);
    }

    /// A reboot, a remount or another host must never look like a copy.
    #[test]
    fn a_directory_is_the_same_whatever_becomes_of_its_inode_number_as_long_as_its_birth_is_known() {
        let elsewhere = |old: &mut Identity| old.directory.inode = 99;
        assert_eq!(found(elsewhere).unwrap().reason, StartReason::Restart);
        let unborn = |inode| Directory { inode, born_ns: 0 };
        assert!(unborn(1).same_directory(&unborn(1)) && !unborn(1).same_directory(&unborn(2)));
        assert!(unborn(11).same_directory(&own().directory), "a file system that has begun to tell");
    }

    #[test]
    fn an_accepted_mark_begins_above_the_start_margin() {
        let mut record = Record { mark: NOW + 100, identity: own() };
        record.identity.system_identifier = 8;
        assert_eq!(accept(&record, &own(), CONTEXT), Some(NOW + 2000));
    }

    #[test]
    fn another_layout_is_accepted_only_where_new_ids_are_greater_than_all_old_ones() {
        let accepted = |old: &str, new: &str| {
            let own = Identity { layout: new.parse().unwrap(), ..own() };
            let record = Record { mark: NOW + 100, identity: Identity { layout: old.parse().unwrap(), ..own } };
            accept(&record, &own, CONTEXT).is_some()
        };
        assert!(accepted("twitter", "flat"), "the same bits under other names");
        assert!(accepted("twitter epoch=2024-01-01T00:00:00Z", "twitter"), "an earlier epoch makes IDs greater");
        assert!(!accepted("twitter", "twitter epoch=2024-01-01T00:00:00Z"), "a later one, smaller");
    }
}
