//! Takes the mark to standbys: the keeper writes it to a sequence, and so to WAL. A server that begins to issue IDs
//! reads there how far its worker may have come, on this server before it was rewound, or on another one.
//!
//! Each worker has a sequence of its own, which the keeper creates: `snowflake_wal_mark_<data center>_<worker>`. A
//! sequence changes outside of transactions' visibility, is in every base backup and in no publication, and is replayed
//! by servers without this library. `setval()` takes a transaction ID here, so that the commit flushes WAL and waits
//! for synchronous standbys.
//!
//! The layout of the IDs goes the same way, in the comment of the sequence for all workers: a promoted standby with
//! another layout could issue the IDs of its primary again.

use crate::config::gucs::{self, WalMark};
use crate::durable::lock;
use crate::errors::IssueError;
use crate::shared::shared;
use crate::worker;
use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use pgrx::spi::SpiError;
use snowflake_core::UnixMs;
use snowflake_core::layout::Layout;
use std::ffi::CStr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a backend waits for the keeper to read the mark in WAL.
const READING: Duration = Duration::from_secs(2);

/// A sequence of the extension by its name, in whatever schema it is. Every name and operator is qualified: the keeper
/// is a superuser, and the owner of the database must not be able to substitute others.
const SEQUENCE: &str = "SELECT c.oid FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
        AND d.refobjid OPERATOR(pg_catalog.=) e.oid
    JOIN pg_catalog.pg_class c ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.objid OPERATOR(pg_catalog.=) c.oid
    WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_pg' AND c.relkind OPERATOR(pg_catalog.=) 'S'
        AND c.relname OPERATOR(pg_catalog.=) $1::pg_catalog.name";

/// The schema of the extension, quoted.
const SCHEMA: &str = "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace
    WHERE e.extname OPERATOR(pg_catalog.=) 'snowflake_pg'";

/// The sequence that the script of the extension creates. It has the mark of that time, for all workers.
const COMMON: &str = "snowflake_wal_mark";

/// What its comment ends with, before the layout of the server that wrote to WAL last.
const COMMENT: &str = "durable mark in Unix milliseconds when the extension was created; not for nextval()";
const LAYOUT: &str = "; layout ";

/// The sequence of this worker.
fn own_name() -> String {
    let (datacenter, worker) = worker::numbers().map_or((0, 0), |(numbers, _)| numbers);
    format!("{COMMON}_{datacenter}_{worker}")
}

/// Settings of the keeper's session that override those of the server, the database or a role. The mark must be flushed
/// and acknowledged, may always be written, and does not depend on search_path.
const SETTINGS: [(&CStr, &CStr); 6] = [
    // The keeper creates a sequence. An event trigger that draws an ID would wait for the keeper.
    (c"session_replication_role", c"replica"),
    (c"synchronous_commit", c"on"),
    (c"default_transaction_read_only", c"off"),
    (c"search_path", c""),
    (c"lock_timeout", c"0"),
    (c"role", c"none"),
];

/// Whether the keeper has read what is in WAL.
pub fn is_read() -> bool {
    shared().wal_mark.load(Ordering::Relaxed) > 0
}

/// Waits until the keeper has read the mark in WAL, before this backend starts the generator.
pub fn wait_for_reading() {
    // SAFETY: set when the process starts. In single-user mode there is no keeper.
    if !unsafe { pg_sys::IsUnderPostmaster } {
        return;
    }
    let until = Instant::now() + READING;
    while !is_read() && Instant::now() < until {
        shared().wake_keeper();
        lock::wait_for_change(is_read, Duration::from_millis(100));
    }
}

/// An error if the mark goes through WAL, and the keeper has not read it: where IDs begin may depend on it.
pub fn check_is_read() -> Result<(), IssueError> {
    if is_wanted() && !is_read() { Err(IssueError::MarkNotRead(READING)) } else { Ok(()) }
}

/// The mark of this worker in WAL that the keeper has read; `None` if there is none, or if it has not read it.
pub fn known_mark() -> Option<UnixMs> {
    shared().wal_mark.load(Ordering::Relaxed).checked_sub(2)
}

/// The mark in WAL that counts for this worker, as this server knows it now; 0 if there is none.
pub fn present_mark() -> UnixMs {
    shared().in_wal.load(Ordering::Relaxed)
}

/// What the keeper has read of all workers: none may begin below it.
pub fn known_floor() -> UnixMs {
    shared().wal_floor.load(Ordering::Relaxed)
}

/// The layout of the server that wrote to WAL last; `None` if the keeper has not read it.
pub fn known_layout() -> Option<Layout> {
    shared().wal_layout.read().parse().ok()
}

/// As the keeper: connects to the database of the sequence, if the mark goes through WAL, or if the metadata of Citus is
/// there. Otherwise it connects to no database, but still connects, so that pg_stat_activity shows it. Ends the process
/// if the database does not exist.
pub fn connect() {
    let database = gucs::wal_mark_database();
    let needs_database = is_wanted() || worker::is_in_citus();
    BackgroundWorker::connect_worker_to_spi(needs_database.then_some(&database.to_string_lossy()), None);
    for (name, value) in SETTINGS {
        let (context, source) = (pg_sys::GucContext::PGC_SUSET, pg_sys::GucSource::PGC_S_SESSION);
        // SAFETY: two C strings.
        unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) };
    }
}

/// As the keeper: reads the mark and publishes it. Returns false, and publishes that there is none, if there is no
/// extension.
pub fn read_mark() -> bool {
    let (common, own, layout) =
        BackgroundWorker::transaction(|| (last_value(COMMON), last_value(&own_name()), layout_in_comment()));
    shared().wal_layout.write(&layout.unwrap_or_default());
    shared().wal_floor.store(common.unwrap_or(0), Ordering::Relaxed);
    shared().in_wal.store(own.max(common).unwrap_or(0), Ordering::Relaxed);
    let own = own.filter(|&mark| mark > 0);
    shared().wal_mark.store(own.map_or(1, |mark| mark.saturating_add(2)), Ordering::Relaxed);
    lock::wake_waiters();
    common.is_some()
}

/// As the keeper: writes a mark, or a higher one, and waits until it is flushed and, with synchronous replication,
/// acknowledged. Returns false if there is no extension. Each mark is above the one before, and above the one for all
/// workers, so that another server's mark that follows does not equal one that this server knows.
pub fn write_mark(mark: UnixMs) -> Result<bool, IssueError> {
    let number = i64::try_from(mark).unwrap_or(i64::MAX);
    BackgroundWorker::transaction(|| {
        let Some(common) = last_value(COMMON) else { return Ok(false) };
        let name = own_name();
        if last_value(&name).is_none() {
            create(&name)?;
        }
        let set = format!(
            "SELECT pg_catalog.setval(oid, greatest($2,
                 least(greatest(pg_catalog.pg_sequence_last_value(oid), $3), {}) OPERATOR(pg_catalog.+) 1::pg_catalog.int8))
             FROM ({SEQUENCE}) sequence",
            i64::MAX - 1
        );
        let arguments = [name.into(), number.into(), i64::try_from(common).unwrap_or(i64::MAX).into()];
        let written: Result<Option<i64>, SpiError> = Spi::get_one_with_args(&set, &arguments);
        let written = or_panic(written).and_then(|mark| mark.try_into().ok());
        note_layout();
        // Before the commit, whose wait for a synchronous standby can end with the process.
        shared().in_wal.store(written.unwrap_or(0).max(common), Ordering::Relaxed);
        Ok(written.is_some())
    })
}

/// The mark in a sequence of the extension, 0 if it was never set; `None` if there is no such sequence.
fn last_value(name: &str) -> Option<UnixMs> {
    let query = format!("SELECT coalesce(pg_catalog.pg_sequence_last_value(oid), 0) FROM ({SEQUENCE}) sequence");
    let found: Option<i64> = none_without_row(Spi::get_one_with_args(&query, &[name.into()]));
    found.map(|mark| UnixMs::try_from(mark).unwrap_or(0))
}

/// The layout in the comment of the sequence for all workers.
fn layout_in_comment() -> Option<String> {
    let query = format!("SELECT pg_catalog.obj_description(oid, 'pg_class') FROM ({SEQUENCE}) sequence");
    let comment: Option<String> = none_without_row(Spi::get_one_with_args(&query, &[COMMON.into()]));
    comment.and_then(|comment| comment.rsplit_once(LAYOUT).map(|(_, layout)| layout.to_owned()))
}

/// Takes the layout of this server to WAL, unless it is there.
fn note_layout() {
    let Ok(layout) = gucs::layout() else { return };
    let layout = layout.to_string();
    if shared().wal_layout.read() == layout {
        return;
    }
    let name = format!("SELECT oid::pg_catalog.regclass::pg_catalog.text FROM ({SEQUENCE}) sequence");
    let name: Option<String> = none_without_row(Spi::get_one_with_args(&name, &[COMMON.into()]));
    let name = name.expect("the extension has it");
    or_panic(Spi::run(&format!("COMMENT ON SEQUENCE {name} IS '{COMMENT}{LAYOUT}{layout}'")));
    shared().wal_layout.write(&layout);
}

/// Creates the sequence of a worker, which then belongs to the extension. There is an extension. An error if something
/// else has its name: PostgreSQL's own error would end the keeper.
fn create(name: &str) -> Result<(), IssueError> {
    let schema: Option<String> = none_without_row(Spi::get_one(SCHEMA));
    let sequence = format!("{}.{name}", schema.expect("the schema of the extension"));
    let other = "SELECT pg_catalog.to_regclass($1)::pg_catalog.oid";
    let other: Option<pg_sys::Oid> = or_panic(Spi::get_one_with_args(other, &[sequence.as_str().into()]));
    if other.is_some() {
        return Err(IssueError::MarkSequenceTaken(sequence));
    }
    for command in [
        format!("CREATE SEQUENCE {sequence}"),
        format!("COMMENT ON SEQUENCE {sequence} IS 'durable mark of a worker in Unix milliseconds; not for nextval()'"),
        format!("ALTER EXTENSION snowflake_pg ADD SEQUENCE {sequence}"),
    ] {
        or_panic(Spi::run(&command));
    }
    Ok(())
}

/// No row is nothing.
fn none_without_row<T>(result: Result<Option<T>, SpiError>) -> Option<T> {
    match result {
        Err(SpiError::InvalidPosition) => None,
        result => or_panic(result),
    }
}

/// Every error of SPI is a bug, and is raised; PostgreSQL's own errors never come here.
fn or_panic<T>(result: Result<T, SpiError>) -> T {
    result.unwrap_or_else(|error| panic!("the mark in WAL cannot be read or written: {error}"))
}

/// Whether the mark goes through WAL.
pub fn is_wanted() -> bool {
    gucs::wal_mark() != WalMark::Off
}
