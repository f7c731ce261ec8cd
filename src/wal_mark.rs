//! The durable mark on its way to standbys: the keeper mirrors it into a sequence, whose changes go through the write-ahead
//! log like all data. A standby that is promoted reads there how far its old primary may have come.
//!
//! A sequence, because its value is set outside of transactions' visibility, is in every base backup, and is replayed by
//! servers that do not have this library. Setting it takes a transaction ID, so that the commit flushes the log and waits
//! for synchronous standbys as any other does.

use crate::errors::Refusal;
use crate::exit_hook::before_exit;
use crate::gucs::{self, WalMark};
use crate::shmem::{self, shared};
use crate::{mark, preload, trusted_clock};
use once_cell::sync::OnceCell;
use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_core::layout::Layout;
use snowflake_core::{Tick, UnixMs};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a backend waits for the keeper to look, before it starts without.
const READING: Duration = Duration::from_secs(2);

/// How long a call waits for a mark at least, whatever `max_wait` says: the log may have to go to another server.
const LEAST_PATIENCE: Duration = Duration::from_secs(2);

/// The sequence of the extension, wherever that was created. Every name and operator says where it is from: the database's
/// owner must not be able to put others in their place, as the keeper may do everything.
const SEQUENCE: &str = "SELECT c.oid FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid
    JOIN pg_catalog.pg_class c ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) c.oid
    WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_pg' AND c.relkind OPERATOR(pg_catalog.=) 'S'
        AND c.relname OPERATOR(pg_catalog.=) 'snowflake_wal_mark'";

/// What the keeper's session does not leave to settings of the server, the database or a role: what is mirrored has to be
/// flushed, and to have arrived where that is waited for; it may always be written; and nothing is found by search_path.
const SETTINGS: [(&CStr, &CStr); 5] = [
    (c"synchronous_commit", c"on"),
    (c"default_transaction_read_only", c"off"),
    (c"search_path", c""),
    (c"lock_timeout", c"0"),
    (c"role", c"none"),
];

/// The mark that came through the log, as far as the keeper has read it.
pub fn known() -> Option<UnixMs> {
    shared().wal_mark.load(Ordering::Relaxed).checked_sub(1)
}

/// As the keeper: connects to the database with the sequence, if the mark is to go there, and to none otherwise: but as
/// what does not connect at all does not stand in pg_stat_activity. Ends the process if there is no such database.
pub fn connect() {
    let database = gucs::wal_mark_database();
    BackgroundWorker::connect_worker_to_spi(is_wanted().then_some(&database.to_string_lossy()), None);
    for (name, value) in SETTINGS {
        let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_SESSION);
        // SAFETY: two C strings.
        unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) };
    }
}

/// As the keeper: reads the mark, and makes it known; false, and known as none, if there is no sequence.
pub fn read() -> bool {
    let found: Option<i64> = BackgroundWorker::transaction(|| {
        Spi::get_one(&format!("SELECT coalesce(pg_catalog.pg_sequence_last_value(oid), 0) FROM ({SEQUENCE}) sequence"))
    })
    .ok()
    .flatten();
    let mark = found.and_then(|found| UnixMs::try_from(found).ok()).unwrap_or(0);
    shared().wal_mark.store(mark.saturating_add(1), Ordering::Relaxed);
    shmem::announce_mark();
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

/// Before a DBA decides what the mark is to be: an error if the log may know better, and nobody has looked.
pub fn must_be_read() -> Result<(), Refusal> {
    if !preload::is_done() || !is_wanted() || shared().generator.is_started() {
        return Ok(());
    }
    mark::may_start()?;
    wait_for_reading();
    if known().is_none() && gucs::wal_mark() == WalMark::Require {
        return Err(Refusal::WalMark(READING));
    }
    Ok(())
}

/// What this process wants the keeper to cover, for as long as it waits: a tick plus 1, or 0. Not in a [`Want`], for
/// the end of the process, which drops nothing.
static WANTED: AtomicU64 = AtomicU64::new(0);

/// A tick that a backend wants the keeper to cover, for as long as it waits.
struct Want(Tick);

impl Want {
    fn new(tick: Tick) -> Self {
        static AT_EXIT: OnceCell<()> = OnceCell::new();
        AT_EXIT.get_or_init(|| before_exit(|_code| give_up()));
        WANTED.store(tick + 1, Ordering::Relaxed);
        Self(tick)
    }

    /// Again and again, since another backend that gives up lowers the common word.
    fn say(&self) {
        shared().wanted.fetch_max(self.0 + 1, Ordering::Relaxed);
        shared().wake_keeper();
    }
}

impl Drop for Want {
    fn drop(&mut self) {
        give_up();
    }
}

/// A call that has ended must not have the mark go where it wanted it.
fn give_up() {
    let wanted = WANTED.swap(0, Ordering::Relaxed);
    if wanted > 0 {
        let _ = shared().wanted.compare_exchange(wanted, 0, Ordering::Relaxed, Ordering::Relaxed);
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
    let patience = patience();
    let until = Instant::now() + patience;
    let want = Want::new(tick);
    loop {
        let hold_until = shared.hold_until.load(Ordering::Relaxed);
        if trusted_clock::now_ms(layout) < hold_until {
            return Ok(Some(hold_until));
        }
        let covered = || tick < shared.generator.covered_until();
        if covered() {
            return Ok(None);
        }
        if Instant::now() >= until {
            return Err(match shared.keeper_error.load(Ordering::Relaxed) {
                0 => Refusal::WalMark(patience),
                error => mark::write_error(error).into(),
            });
        }
        want.say();
        shmem::wait_for_mark(covered, Duration::from_millis(100));
    }
}

/// How long a call waits for a mark.
pub fn patience() -> Duration {
    LEAST_PATIENCE.max(Duration::from_millis(gucs::max_wait_ms()))
}

/// Whether the mark has to go through the log.
pub fn is_wanted() -> bool {
    gucs::wal_mark() != WalMark::Off
}
