//! The durable mark on its way to standbys: the keeper mirrors it into a sequence, whose changes go through WAL
//! like all data. A standby that is promoted reads there how far its old primary may have come.
//!
//! A sequence, because its value is set outside of transactions' visibility, is in every base backup, and is replayed by
//! servers that do not have this library. Setting it takes a transaction ID, so that the commit flushes WAL and waits
//! for synchronous standbys as any other does.

use crate::config::gucs::{self, WalMark};
use crate::durable::lock;
use crate::shared::shared;
use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use snowflake_core::UnixMs;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

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

/// The mark that came through WAL, as far as the keeper has read it.
pub fn known_mark() -> Option<UnixMs> {
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
pub fn read_mark() -> bool {
    let found: Option<i64> = BackgroundWorker::transaction(|| {
        Spi::get_one(&format!("SELECT coalesce(pg_catalog.pg_sequence_last_value(oid), 0) FROM ({SEQUENCE}) sequence"))
    })
    .ok()
    .flatten();
    let mark = found.and_then(|found| UnixMs::try_from(found).ok()).unwrap_or(0);
    shared().wal_mark.store(mark.saturating_add(1), Ordering::Relaxed);
    lock::wake_waiters();
    found.is_some()
}

/// As the keeper: writes a mark, and waits until it is flushed and, with synchronous replication, has arrived; false if
/// there is no sequence.
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
    .ok()
    .flatten();
    written.is_some()
}

/// Whether the mark has to go through WAL.
pub fn is_wanted() -> bool {
    gucs::wal_mark() != WalMark::Off
}
