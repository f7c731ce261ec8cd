//! Takes the mark to standbys: the keeper writes it to a sequence, and so to WAL. A promoted standby reads there how
//! far its old primary may have come.
//!
//! A sequence changes outside of transactions' visibility, is in every base backup, and is replayed by servers without
//! this library. `setval()` takes a transaction ID here, so that the commit flushes WAL and waits for synchronous
//! standbys.

use crate::config::gucs::{self, WalMark};
use crate::durable::lock;
use crate::shared::shared;
use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use pgrx::spi::SpiError;
use snowflake_core::UnixMs;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// The sequence of the extension, in whatever schema it is. Every name and operator is qualified: the keeper is a
/// superuser, and the owner of the database must not be able to substitute others.
const SEQUENCE: &str = "SELECT c.oid FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid
    JOIN pg_catalog.pg_class c ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) c.oid
    WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_pg' AND c.relkind OPERATOR(pg_catalog.=) 'S'
        AND c.relname OPERATOR(pg_catalog.=) 'snowflake_wal_mark'";

/// Settings of the keeper's session that override those of the server, the database or a role. The mark must be flushed
/// and acknowledged, may always be written, and does not depend on search_path.
const SETTINGS: [(&CStr, &CStr); 5] = [
    (c"synchronous_commit", c"on"),
    (c"default_transaction_read_only", c"off"),
    (c"search_path", c""),
    (c"lock_timeout", c"0"),
    (c"role", c"none"),
];

/// The mark in WAL that the keeper has read; `None` until it has.
pub fn known_mark() -> Option<UnixMs> {
    shared().wal_mark.load(Ordering::Relaxed).checked_sub(1)
}

/// As the keeper: connects to the database of the sequence, if the mark goes through WAL. Otherwise it connects to no
/// database, but still connects, so that pg_stat_activity shows it. Ends the process if the database does not exist.
pub fn connect() {
    let database = gucs::wal_mark_database();
    BackgroundWorker::connect_worker_to_spi(is_wanted().then_some(&database.to_string_lossy()), None);
    for (name, value) in SETTINGS {
        let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_SESSION);
        // SAFETY: two C strings.
        unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) };
    }
}

/// As the keeper: reads the mark and publishes it. Returns false, and publishes that there is none, if there is no
/// sequence.
pub fn read_mark() -> bool {
    let found: Option<i64> = BackgroundWorker::transaction(|| {
        Spi::get_one(&format!("SELECT coalesce(pg_catalog.pg_sequence_last_value(oid), 0) FROM ({SEQUENCE}) sequence"))
    })
    .unwrap_or_else(none_without_sequence);
    let mark = found.and_then(|found| UnixMs::try_from(found).ok()).unwrap_or(0);
    shared().wal_mark.store(mark.saturating_add(1), Ordering::Relaxed);
    lock::wake_waiters();
    found.is_some()
}

/// As the keeper: writes a mark, and waits until it is flushed and, with synchronous replication, acknowledged. Returns
/// false if there is no sequence.
pub fn write_mark(mark: UnixMs) -> bool {
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
    .unwrap_or_else(none_without_sequence);
    written.is_some()
}

/// No row is no sequence. Every other error of SPI is a bug, and is raised; PostgreSQL's own errors never come here.
fn none_without_sequence(error: SpiError) -> Option<i64> {
    match error {
        SpiError::InvalidPosition => None,
        error => panic!("the mark in WAL cannot be read or written: {error}"),
    }
}

/// Whether the mark goes through WAL.
pub fn is_wanted() -> bool {
    gucs::wal_mark() != WalMark::Off
}
