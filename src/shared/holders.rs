//! The transactions that hold the horizon back.

use crate::shared::shared;
use crate::shared::without_ids;
use crate::shared::writers::{Writer, prepared, writers};
use pgrx::prelude::*;
use snowflake_core::Position;
use std::sync::atomic::Ordering;

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

/// The position below which every transaction of this server that has drawn IDs has ended. A snapshot taken afterwards
/// shows their rows, and the records of their ends are in WAL. `None` if a transaction that was prepared before the
/// server started has drawn IDs: nobody knows which.
pub fn horizon() -> Option<Position> {
    let least = || {
        let (holders, prepared_before) = holders();
        // mutant: prepared-before-start
        if prepared_before.is_empty() { Ok(holders.iter().map(|holder| holder.first).min()) } else { Err(()) }
    };
    shared().horizon.read(&shared().generator, least).ok()
}

/// All transactions that hold the horizon back, and the IDs of those that were prepared before the server started.
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
