//! The durable mark on its way to standbys: the keeper mirrors it into a sequence, whose changes go through the write-ahead
//! log like all data. A standby that is promoted reads there how far its old primary may have come.
//!
//! A sequence, because its value is set outside of transactions' visibility, is in every base backup, and is replayed by
//! servers that do not have this library. Setting it takes a transaction ID, so that the commit flushes the log and waits
//! for synchronous standbys as any other does.

use crate::errors::Refusal;
use crate::gucs::{self, WalMark};
use crate::shmem::{self, shared};
use crate::{anchor, mark};
use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_core::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a backend waits for the keeper to look, before it starts without.
const READING: Duration = Duration::from_secs(2);

/// How long a call waits for the keeper at least, whatever `max_wait` says: the log may have to go to another server.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// The sequence of the extension, wherever that was created.
const SEQUENCE: &str = "SELECT c.oid FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND d.refobjid = e.oid
    JOIN pg_catalog.pg_class c ON d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = c.oid
    WHERE e.extname = 'snowflake_pg' AND c.relkind = 'S' AND c.relname = 'snowflake_wal_mark'";

/// The mark that came through the log, as far as the keeper has read it.
pub fn known() -> Option<UnixMs> {
    shared().wal_mark.load(Ordering::Relaxed).checked_sub(1)
}

/// As the keeper: connects to the database with the sequence, if the mark is to go there, and to none otherwise: but as
/// what does not connect at all does not stand in pg_stat_activity. Ends the process if there is no such database.
pub fn connect() {
    let database = gucs::wal_mark_database();
    BackgroundWorker::connect_worker_to_spi(is_wanted().then_some(&database.to_string_lossy()), None);
    // Whatever the server's default: what is mirrored has to be flushed, and to have arrived where that is waited for.
    // SAFETY: two C strings.
    unsafe {
        pg_sys::SetConfigOption(
            c"synchronous_commit".as_ptr(),
            c"on".as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_SESSION,
        );
    }
}

/// As the keeper: reads the mark, and makes it known; false if there is no sequence.
pub fn read() -> bool {
    let found: Option<i64> = BackgroundWorker::transaction(|| {
        Spi::get_one(&format!("SELECT coalesce(pg_catalog.pg_sequence_last_value(oid), 0) FROM ({SEQUENCE}) sequence"))
    })
    .ok()
    .flatten();
    if let Some(found) = found {
        shared().wal_mark.store(UnixMs::try_from(found).unwrap_or(0).saturating_add(1), Ordering::Relaxed);
        shmem::announce_mark();
    }
    found.is_some()
}

/// As the keeper: writes a mark, and waits until it is flushed and, with synchronous replication, has arrived; false if
/// there is no sequence.
pub fn write(mark: UnixMs) -> bool {
    let Ok(mark) = i64::try_from(mark) else { return false };
    let written: Option<i64> = BackgroundWorker::transaction(|| {
        Spi::get_one_with_args(
            &format!(
                "SELECT pg_catalog.setval(oid, greatest($1, pg_catalog.pg_sequence_last_value(oid)))
                 FROM ({SEQUENCE}) sequence"
            ),
            &[mark.into()],
        )
    })
    .ok()
    .flatten();
    written.is_some()
}

/// Lets a backend that is about to start the generator wait a moment for the keeper, which has to read the mark first.
pub fn wait_for_reading() {
    let until = Instant::now() + READING;
    while known().is_none() && Instant::now() < until {
        shared().wake_keeper();
        shmem::wait_for_mark(|| known().is_some(), Duration::from_millis(100));
    }
}

/// Lets the keeper bring the generator to where it may issue `tick`. Returns until when the caller has to wait, like
/// [`mark::cover`].
pub fn ask_keeper(layout: &Layout, tick: Tick) -> Result<Option<UnixMs>, Refusal> {
    let shared = shared();
    if !shared.generator.is_started() {
        mark::may_start()?;
        if known().is_some() {
            mark::plan()?; // If it can't be started, this says why.
        }
    }
    let patience = LEAST_PATIENCE.max(Duration::from_millis(gucs::max_wait_ms()));
    let until = Instant::now() + patience;
    shared.wanted.fetch_max(tick + 1, Ordering::Relaxed);
    loop {
        let hold_until = shared.hold_until.load(Ordering::Relaxed);
        if anchor::unix_ms(mark::issued(layout)) < hold_until {
            return Ok(Some(hold_until));
        }
        let covered = || tick < shared.generator.covered_until();
        if covered() {
            return Ok(None);
        }
        if Instant::now() >= until {
            return Err(Refusal::WalMark(patience));
        }
        shared.wake_keeper();
        shmem::wait_for_mark(covered, Duration::from_millis(100));
    }
}

/// Whether the mark has to go through the log.
pub fn is_wanted() -> bool {
    gucs::wal_mark() != WalMark::Off
}
