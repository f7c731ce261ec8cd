//! Where a server begins, given the record that it finds.
//!
//! IDs continue at a mark that this server has written itself. But data directories are copied, rewound, restored and
//! promoted, and state directories are exchanged, so the mark may be another server's or an old one. [`decide`] has the
//! whole table.

use crate::UnixMs;
use crate::id::layout::Layout;
use crate::mark::life::{LastLife, Life};
use crate::mark::record::{OtherMarks, Record};
use crate::mark::wal_page::InWal;
use crate::server::identity::Identity;
use crate::server::lease::LeaseStart;
use crate::server::vmclock::Machine;

/// What matters at a start, apart from the record.
#[derive(Clone, Copy, Debug)]
pub struct StartContext {
    /// What the clock shows.
    pub now: UnixMs,
    /// See [`MarkSettings::start_margin_ms`](crate::mark::MarkSettings::start_margin_ms).
    pub start_margin_ms: u64,
    /// What WAL says of this worker; `None` if that does not count, since the registry knows.
    pub wal: Option<InWal>,
    /// Whether this server is a promoted standby.
    pub was_standby: bool,
    /// The machine; `None` if this server cannot tell.
    pub machine: Option<Machine>,
    /// What the data directory knows of the record that it wrote last; `None` if it has written none, or came from
    /// elsewhere.
    pub last_life: Option<LastLife>,
    /// Where the lease of this worker begins, if it is leased.
    pub lease: Option<LeaseStart>,
}

/// Where IDs begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartPoint {
    /// The first timestamp that may be issued.
    pub floor: UnixMs,
    /// Why IDs begin there.
    pub reason: StartReason,
}

/// What has happened, as far as the record tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartReason {
    /// The server was stopped or has crashed.
    Restart,
    /// It was promoted, or recovered to a point in time.
    Promotion,
    /// The record has no certain mark of this worker, but WAL has one.
    WalMark,
    /// The record is this server's, and WAL has a mark that its writer did not know: a write was cut off between WAL
    /// and the record, or another server has continued from here.
    Continued,
    /// The record is this server's, and the mark in WAL is below the one that its writer knew: WAL or its page was
    /// lost, and somebody may have continued from there.
    WalSetBack,
    /// The record is this server's, but was written in another directory. It may be a copy that was made too early.
    Moved,
    /// The record is newer than what this data directory wrote last: the data directory is back at an earlier state, or
    /// another server has written here meanwhile.
    NewerRecord,
    /// The record is in the directory where it was written, but by another data directory: this one was restored, or
    /// moved here.
    Restored,
    /// The record is another worker's: the worker was changed, or the data directory came from another node.
    OtherWorker,
    /// There is no record.
    Missing,
    /// The worker was leased, and nobody has issued its IDs from here on.
    Leased,
}

impl StartReason {
    /// Whether IDs begin by the clock, and not at a mark of this worker or its lease.
    pub fn counts_from_clock(self) -> bool {
        !matches!(self, Self::Restart | Self::Continued | Self::Leased)
    }

    /// Whether the clock alone tells where to begin. Such a server waits before its first ID, since the mark may
    /// return.
    pub fn relies_on_clock(self) -> bool {
        matches!(self, Self::Moved | Self::OtherWorker | Self::Missing)
    }
}

/// Why a record does not tell where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkConflict {
    /// The directory is a copy, whose original may issue the same IDs.
    Copy,
    /// The machine was restored from a snapshot, or cloned with its memory, since the record was written: a copy of
    /// this server may issue the same IDs.
    OtherGeneration,
    /// The mark is another cluster's.
    OtherCluster,
    /// The mark was written on a newer timeline than this server's.
    NewerTimeline,
    /// The record is not the one that this data directory wrote last: it is an old one, or from another directory.
    NotTheLast,
    /// There is no record, and this data directory wrote its last one in another directory.
    LeftBehind,
    /// WAL does not have the mark of the server that had the worker before: its page says so, or the server was
    /// promoted and finds nothing there.
    NotInWal,
    /// The layout has changed, so new IDs could equal old ones.
    OtherLayout,
    /// WAL says that a server of this cluster has issued IDs in this layout, which new IDs could equal.
    OtherLayoutInWal(Layout),
}

/// A time above the mark, and above what others have issued that this server knows nothing of, if they are never
/// further ahead of a right clock than this.
///
/// A server that begins later, even with the same mark in WAL, begins higher: the margin counts from the clock. Only if
/// the mark in WAL is further ahead than that, it counts from there. Then a clock was wrong, or somebody has had IDs
/// begin later.
pub fn above_start_margin(mark: UnixMs, context: &StartContext) -> UnixMs {
    let above = |time: UnixMs| time.saturating_add(context.start_margin_ms);
    let in_wal = in_wal(context);
    // mutant: margin-on-mark
    let floor = if in_wal <= above(context.now) { above(context.now) } else { above(in_wal) };
    floor.max(mark)
}

/// The mark in WAL that counts for this worker; 0 if there is none.
fn in_wal(context: &StartContext) -> UnixMs {
    context.wal.map_or(0, |wal| wal.highest())
}

/// The mark of this worker in WAL.
fn wal_mark(context: &StartContext) -> Option<UnixMs> {
    context.wal.and_then(|wal| wal.mark)
}

/// Whether WAL has what this worker may have issued last. It has an old mark if the marks of the last life of this data
/// directory did not go through WAL, or were another worker's.
fn wal_knows(identity: &Identity, context: &StartContext) -> bool {
    let is_in = |life: Life, mark| life.worker == identity.worker && (1..=mark).contains(&life.wal_mark);
    wal_mark(context).is_some_and(|mark| context.last_life.is_none_or(|last| is_in(last.life, mark)))
}

/// Where the server `identity` begins if it finds this record.
///
/// | record | data center, worker | cluster | written last by this data directory | directory | timeline | layout | |
/// |---|---|---|---|---|---|---|---|
/// | none | | | nowhere | | | | begins above the start margin, unless IDs of the worker were issued without a mark in WAL, or promoted and nobody has written to WAL |
/// | none | | | here | | | | begins above the start margin |
/// | none | | | in another directory | | | | refused, unless WAL knows |
/// | found | | other | | same | | | refused |
/// | found | same | other | | any | | | refused |
/// | found | any | same | an older record | the same for both | any | same | begins above the start margin |
/// | found | any | same | another record | any | | | refused, unless WAL knows |
/// | found | same | same | | any | older than the record's | | refused |
/// | found | same | same | unknown | other | same | | refused |
/// | found | same | same | | any | same or newer, on another generation of the machine since the same boot, or written by this server after it noticed that | any | refused |
/// | found | any | any | | any | any | other | refused |
/// | found | other | any | | any | any | same | begins above the start margin, unless IDs of the worker were issued without a mark in WAL, and the record knows of none, or was written here on an older timeline |
/// | found | same | same | | any | newer than the record's | same | begins above the start margin, if WAL has a mark; else refused |
/// | found | same | same | this record, in another directory | any | same | same | begins above the start margin |
/// | found | same | same | unknown | same | same | same | begins above the start margin |
/// | found | same | same | this record, here | any | same | same | begins at the mark |
///
/// In the last row, WAL can have a mark above the record that its writer did not know. A write was cut off before the
/// record, or somebody has continued from there: IDs begin there. If the mark in WAL is below the one that the writer
/// knew, or gone, WAL is not the one that it wrote to: IDs begin as after a promotion. If IDs were issued without a
/// mark in WAL since, it was another server: refused.
///
/// Another layout, in the record or in WAL, is the last conflict: a server that may be a copy beside its original must
/// be told that first.
///
/// No start is below the mark of another worker in WAL, if that is within the start margin: readers may have read up to
/// there.
///
/// If the worker was leased, and the server has not had it before, the registry knows where its IDs begin. Then only
/// another layout matters, and a promoted standby begins above the start margin. If the registry has leased the worker
/// to nobody before, a record of the same worker matters, too.
pub fn decide(
    record: Option<&Record>,
    identity: &Identity,
    context: &StartContext,
) -> Result<StartPoint, MarkConflict> {
    let by_record = || decide_by_record(record, identity, context);
    let (begins, start) = match context.lease {
        None => (0, by_record()?),
        Some(LeaseStart::Continued(begins)) => (begins, by_record()?),
        Some(LeaseStart::First(begins)) if is_known(record, identity, context) => (begins, by_record()?),
        Some(LeaseStart::First(_) | LeaseStart::At(_))
            if record.is_some_and(|record| record.identity.layout != identity.layout) =>
        {
            return Err(MarkConflict::OtherLayout);
        }
        Some(LeaseStart::First(begins)) => {
            let reason = if record.is_some() { StartReason::OtherWorker } else { StartReason::Missing };
            (begins, StartPoint { floor: above_start_margin(0, context), reason })
        }
        Some(LeaseStart::At(begins)) => {
            let known = record.map_or(0, |record| record.mark_of(identity.worker)).max(in_wal(context));
            // The old primary may not have sent its last marks, and readers may have read up to there.
            // mutant: leased-after-failover
            let floor = if context.was_standby { above_start_margin(known, context) } else { known };
            (begins, StartPoint { floor, reason: StartReason::Leased })
        }
    };
    // What this server itself wrote last counts more: a DBA may have accepted another layout since.
    if start.reason != StartReason::Restart
        && let Some(layout) = other_layout_in_wal(identity, context)
    {
        return Err(MarkConflict::OtherLayoutInWal(layout));
    }
    // IDs of one server ascend, even if it had another worker before.
    let had = context.lease.and(record).filter(|record| is_here(record, identity)).map_or(0, |record| record.mark);
    Ok(StartPoint { floor: start.floor.max(begins).max(had).max(others_within_reach(context)), ..start })
}

/// The highest mark of another worker in WAL, if a right clock allows IDs above it; else 0. Readers may have read up to
/// it. Further ahead, a clock was wrong: then there is no horizon until IDs are above the mark.
pub fn others_within_reach(context: &StartContext) -> UnixMs {
    let reach = context.now.saturating_add(context.start_margin_ms);
    // mutant: above-other-workers
    context.wal.map(|wal| wal.others).filter(|&others| others <= reach).unwrap_or(0)
}

/// The layout of the server that wrote to WAL last, if it is another one.
fn other_layout_in_wal(identity: &Identity, context: &StartContext) -> Option<Layout> {
    context.wal.and_then(|wal| wal.layout).filter(|&layout| layout != identity.layout)
}

/// Whether this worker is known here, or in WAL.
fn is_known(record: Option<&Record>, identity: &Identity, context: &StartContext) -> bool {
    record.is_some_and(|record| record.mark_of(identity.worker) > 0)
        || context.last_life.is_some_and(|last| last.life.worker == identity.worker)
        || context.wal.is_some_and(|wal| wal.mark.is_some() || wal.is_unknown)
}

fn decide_by_record(
    record: Option<&Record>,
    identity: &Identity,
    context: &StartContext,
) -> Result<StartPoint, MarkConflict> {
    let mark = record.map_or(0, |record| record.mark_of(identity.worker));
    let begin = |reason| Ok(StartPoint { floor: above_start_margin(mark, context), reason });
    let (wal_knows, in_wal) = (wal_knows(identity, context), in_wal(context));
    let by_wal_or = |reason| begin(if wal_knows { StartReason::WalMark } else { reason });
    let is_elsewhere = context.last_life.is_some_and(|last| last.elsewhere);
    // Another server may have had the worker, as far as WAL can tell.
    let wal = context.wal.filter(|_| !matches!(context.lease, Some(LeaseStart::Continued(_))));
    let is_after_another = wal.is_some_and(|wal| wal.mark.is_none());
    let is_unknown = wal.is_some_and(|wal| wal.is_unknown);
    // A page that cannot be read does not say so.
    let is_disowned = is_unknown && wal.is_some_and(|wal| wal.layout.is_some());
    let Some(record) = record else {
        let is_unwritten = context.was_standby && wal.is_some_and(|wal| wal.is_unwritten());
        let has_begun_here = context.last_life.is_some_and(|last| last.life.worker == identity.worker);
        return if is_elsewhere && !wal_knows {
            Err(MarkConflict::LeftBehind)
        } else if (is_unknown || is_unwritten) && !has_begun_here {
            Err(MarkConflict::NotInWal)
        } else {
            by_wal_or(StartReason::Missing)
        };
    };
    let writer = &record.identity;
    let same_directory = writer.directory.same_inode(&identity.directory);
    let same_cluster = writer.system_identifier == identity.system_identifier;
    let same_worker = writer.worker == identity.worker;
    let is_the_last = context.last_life.map(|last| record.continues(last.life.number));
    let is_newer =
        same_directory && context.last_life.is_some_and(|last| !last.elsewhere && record.revision > last.life.revision);
    let same_place = same_directory || is_the_last == Some(true);
    // Since this server wrote here, another one can have had the worker on a later timeline.
    let knows_worker = record.mark_of(identity.worker) > 0 && !(same_directory && writer.timeline < identity.timeline);
    // mutant: restored-directory
    // mutant: moved-copy
    if !same_cluster && (same_directory || same_worker) {
        Err(MarkConflict::OtherCluster)
    } else if is_the_last == Some(false) && !is_newer && !wal_knows {
        Err(MarkConflict::NotTheLast)
    } else if same_worker && writer.timeline > identity.timeline {
        Err(MarkConflict::NewerTimeline)
    } else if same_worker && writer.timeline == identity.timeline && !same_place {
        Err(MarkConflict::Copy)
    } else if same_worker && (was_cloned(record, context) || same_place && was_noticed(record)) {
        Err(MarkConflict::OtherGeneration)
    } else if writer.layout != identity.layout {
        Err(MarkConflict::OtherLayout)
    } else if !same_worker && is_disowned && !knows_worker {
        Err(MarkConflict::NotInWal)
    } else if !same_worker {
        by_wal_or(StartReason::OtherWorker)
    } else if is_the_last == Some(false) {
        begin(if is_newer { StartReason::NewerRecord } else { StartReason::WalMark })
    } else if writer.timeline < identity.timeline && is_after_another {
        Err(MarkConflict::NotInWal)
    } else if writer.timeline < identity.timeline {
        begin(StartReason::Promotion)
    } else if is_elsewhere {
        by_wal_or(StartReason::Moved)
    } else if is_disowned && record.logged > 0 {
        Err(MarkConflict::NotInWal)
    } else if context.last_life.is_none() {
        begin(StartReason::Restored)
    } else if context.wal.is_some() && in_wal < record.logged {
        begin(StartReason::WalSetBack)
    } else if in_wal > record.mark.max(record.logged) {
        // Without a margin: a server that is killed again and again between WAL and the record must not run further and
        // further ahead.
        Ok(StartPoint { floor: in_wal, reason: StartReason::Continued })
    } else {
        // mutant: restart-floor
        Ok(StartPoint { floor: record.mark, reason: StartReason::Restart })
    }
}

/// Whether the machine was restored or cloned since the record was written.
fn was_cloned(record: &Record, context: &StartContext) -> bool {
    context.machine.zip(record.machine).is_some_and(|(now, then)| now.was_cloned_since(&then))
}

/// Whether its writer has noticed that the machine was cloned, and nobody has accepted that. A base backup does not
/// know whether somebody has accepted it since.
fn was_noticed(record: &Record) -> bool {
    // mutant: cloned-until-accepted
    record.machine.is_some_and(|then| then.is_cloned())
}

/// Whether a server wrote this record itself, or restored it in place.
fn is_here(record: &Record, identity: &Identity) -> bool {
    let writer = &record.identity;
    writer.system_identifier == identity.system_identifier && writer.directory.same_inode(&identity.directory)
}

/// The mark after a DBA has vouched that no other server issues these IDs, and the marks of other workers then; `None`
/// if new IDs could equal old ones because the layout has changed, unless that is `forced`.
pub fn accept(
    record: Option<&Record>,
    identity: &Identity,
    context: &StartContext,
    forced: bool,
) -> Option<(UnixMs, OtherMarks)> {
    let known = record.map_or(0, Record::highest_mark);
    let same_layout = record.is_none_or(|record| record.identity.layout == identity.layout);
    let wal_layout = other_layout_in_wal(identity, context);
    if same_layout && wal_layout.is_none() {
        let mark = above_start_margin(record.map_or(0, |record| record.mark_of(identity.worker)), context);
        return Some((mark, record.map_or_else(OtherMarks::default, |record| record.others_for(identity.worker))));
    }
    let mark = above_start_margin(known, context);
    let lowest = |layout: &Layout, at| layout.min_id(layout.first_tick_from(at));
    let is_above = |layout: &Layout, highest| lowest(&identity.layout, mark) >= lowest(layout, highest);
    // The mark in WAL is this worker's alone: others can have come further, up to the margin.
    let above = record.is_none_or(|record| is_above(&record.identity.layout, known))
        && wal_layout.is_none_or(|layout| is_above(&layout, mark));
    // Marks of the old layout mean nothing in the new one, but IDs at or above this one are above all old ones.
    (above || forced).then(|| (mark, OtherMarks::all_at(mark)))
}

#[cfg(test)]
mod tests;
