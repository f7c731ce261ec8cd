//! The horizon: the ID below which no row can appear any more.

use crate::errors::IssueError;
use crate::issue::{issuer, without_ids};
use crate::shared::shared;
use crate::shared::writers::{Writer, prepared, writers};
use pgrx::prelude::*;
use snowflake_core::id::layout::Series;
use snowflake_core::{Position, UnixMs};
use std::sync::atomic::Ordering;

/// Why there is no horizon now.
#[derive(Debug)]
pub enum NoHorizon {
    /// A transaction that was prepared before the server started, or before its last crash, has drawn IDs: nobody knows
    /// which.
    PreparedBefore,
    /// Other workers of this cluster have come further, up to this time, and so may readers.
    BelowOtherWorkers(UnixMs),
}

/// The ID below which every transaction of this server that has drawn IDs has ended. A snapshot taken afterwards shows
/// their rows.
pub fn read() -> Result<Result<i64, NoHorizon>, IssueError> {
    // A server that has just started begins above all IDs that it has issued before.
    let (layout, series) = issuer::start()?;
    if !layout.sorts_within_ticks() {
        // The ID at a position has no tag, and so is below the IDs of its tick that have one.
        // mutant: past-tick-closed
        issuer::close_past_tick()?;
    }
    let horizon = shared().horizon.read(&shared().generator, || {
        let (holders, prepared_before) = holders();
        // mutant: prepared-before-start
        if prepared_before.is_empty() {
            Ok(holders.iter().map(|holder| holder.first).min())
        } else {
            Err(NoHorizon::PreparedBefore)
        }
    });
    let from = shared().mark.horizon_from();
    let lowest = layout.position(layout.min_id(layout.first_tick_from(from)));
    Ok(horizon.and_then(|position| {
        // mutant: horizon-below-other-workers
        if position < lowest { Err(NoHorizon::BelowOtherWorkers(from)) } else { Ok(id_at(&series, position)) }
    }))
}

/// The ID at a position; the greatest one for the position after the last.
pub fn id_at(series: &Series, position: Position) -> i64 {
    i64::try_from(series.id_at(position)).unwrap_or(i64::MAX)
}

/// A transaction that holds the horizon back.
pub struct Holder {
    /// Its first position, or a bound a little below it.
    pub first: Position,
    pub who: Who,
}

/// Who holds the horizon back.
pub enum Who {
    /// A process, by its ID.
    Process(i32),
    /// A prepared transaction, by its ID.
    Prepared(u32),
}

/// All transactions that hold the horizon back, and the IDs of those that were [prepared before](NoHorizon::PreparedBefore).
pub fn holders() -> (Vec<Holder>, Vec<u32>) {
    // In this order: a transaction that is being prepared is announced, then PostgreSQL shows it, then its entry is
    // copied, and then the process clears its own.
    let shown: Vec<_> = prepared().map(|(transaction, _)| transaction).filter(|&id| is_in_progress(id)).collect();
    let running = writers().iter().filter_map(|writer| {
        let first = writer.first.get()?;
        Some(Holder { first, who: Who::Process(writer.pid.load(Ordering::Relaxed)) })
    });
    let mut holders: Vec<_> = running.collect();
    let mut known: Vec<_> = writers().iter().map(preparing).filter(|&id| id != 0).collect();
    for (_, entry) in prepared() {
        let transaction = entry.transaction.load(Ordering::Acquire);
        if is_in_progress(transaction) {
            known.push(transaction);
            holders.extend(entry.first.get().map(|first| Holder { first, who: Who::Prepared(transaction) }));
        }
    }
    // Those that have ended meanwhile are not among the known ones.
    let mut unknown: Vec<_> = shown.into_iter().filter(|id| !known.contains(id) && is_in_progress(*id)).collect();
    if !unknown.is_empty() {
        let without = without_ids::prepared_before();
        // mutant: prepared-known
        unknown.retain(|id| !without.contains(id));
    }
    (holders, unknown)
}

fn preparing(writer: &Writer) -> u32 {
    writer.preparing.load(Ordering::Acquire)
}

/// Whether a transaction has not ended, prepared or not.
fn is_in_progress(transaction: u32) -> bool {
    // SAFETY: takes any ID, and reads shared memory of PostgreSQL's under its locks.
    transaction != 0 && unsafe { pg_sys::TransactionIdIsInProgress(pg_sys::TransactionId::from_inner(transaction)) }
}
