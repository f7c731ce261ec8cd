//! Carries migrations on after the server has started, or was promoted: whoever began them need not be there.

use super::turns::Workers;
use super::worker;
use crate::postgres::catalog::{CachedRow, relation_kind};
use crate::postgres::command::Settings;
use crate::postgres::sleep::{self, WaitEvent};
use crate::postgres::{background_worker, command};
use pgrx::bgworkers::{
    BackgroundWorker, BackgroundWorkerBuilder, BackgroundWorkerStatus, DynamicBackgroundWorker, SignalWakeFlags,
};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

/// How long a look into a database may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the postmaster for a worker that looks for migrations in all databases. If there is no room for one, migrations
/// wait until somebody calls `run` or `finish`.
pub fn look_for_migrations() {
    look_for_migrations_after(pg_sys::Oid::INVALID);
}

/// Looks into this database last, whose migrations have had a turn. Whether there is room for a worker.
pub fn look_for_migrations_after(database: pg_sys::Oid) -> bool {
    builder("snowflake_adopt_look_everywhere").set_argument(database.into_datum()).load_dynamic().is_ok()
}

fn builder(function: &str) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new("snowflake_adopt")
        .set_library("snowflake_pg")
        .set_function(function)
        .set_restart_time(None)
        .enable_spi_access()
}

/// The main function of a worker that has one worker after the other look into a database.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_adopt_look_everywhere(last: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    BackgroundWorker::connect_worker_to_spi(None, None);
    let mut databases = worker::in_transaction(databases);
    databases.sort_by_key(|database| (database.to_u32() as usize <= last.value(), database.to_u32()));
    for database in databases {
        // SAFETY: every process has an ID.
        let me = unsafe { pg_sys::MyProcPid };
        let deadline = Instant::now() + PATIENCE;
        loop {
            let look = builder("snowflake_adopt_look").set_argument(database.into_datum()).set_notify_pid(me);
            if let Ok(look) = look.load_dynamic() {
                end_until(deadline, look);
                break;
            } else if Instant::now() > deadline {
                break;
            }
            // A worker that has given its turn back is about to end.
            sleep::on_latch(Some(Duration::from_millis(100)), WaitEvent::AdoptMain);
            pgrx::check_for_interrupts!();
        }
    }
}

/// Waits for the end of a worker, and ends it if that takes too long: somebody can have locked a database, and prepared the
/// transaction.
fn end_until(deadline: Instant, look: DynamicBackgroundWorker) {
    while matches!(look.pid(), Ok(_) | Err(BackgroundWorkerStatus::NotYetStarted)) {
        // mutant: look-at-length
        if Instant::now() > deadline {
            look.terminate();
            return;
        }
        // The postmaster sets the latch when the worker has ended.
        sleep::on_latch(Some(PATIENCE), WaitEvent::AdoptMain);
        pgrx::check_for_interrupts!();
    }
}

/// The databases to which sessions can connect. Without one, nothing but shared catalogs can be read, and only so.
fn databases() -> Vec<pg_sys::Oid> {
    let mut found = Vec::new();
    // SAFETY: in a transaction. The tuples are of pg_database, and valid until the scan goes on.
    unsafe {
        let table = pg_sys::table_open(pg_sys::DatabaseRelationId, pg_sys::AccessShareLock.cast_signed());
        let scan = pg_sys::table_beginscan_catalog(table, 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if tuple.is_null() {
                break;
            }
            let database = &*pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_database>();
            // Another limit than this one is for sessions. An interrupted DROP DATABASE leaves it.
            if database.datallowconn && database.datconnlimit != -2 {
                found.push(database.oid);
            }
        }
        pg_sys::table_endscan(scan);
        pg_sys::table_close(table, pg_sys::AccessShareLock.cast_signed());
    }
    found
}

/// The main function of a worker that starts workers for the migrations of a database, in the name of whoever began them,
/// first for those that wait longest.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_adopt_look(database: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    let database = pg_sys::Oid::from(u32::try_from(database.value()).expect("an OID"));
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(database), None);
    let (migrations, mut workers) = worker::in_transaction(|| (migrations(), Workers::now()));
    for [relation, role] in migrations {
        if workers.waited_for_by(role).is_none() {
            worker::launch(relation, database, role);
            workers.add(role);
        }
    }
}

/// Table and role of each migration that no worker carries on, the one first that has waited longest. The owner of a
/// database can make a schema of this name, and what is in it must not run with the rights of a superuser: an ordinary
/// table of a superuser's runs nothing.
pub fn migrations() -> Vec<[pg_sys::Oid; 2]> {
    const MIGRATIONS: &CStr = c"SELECT relation::pg_catalog.oid, role::pg_catalog.oid FROM snowflake_adopt.migration \
        WHERE NOT is_paused AND snowflake_adopt.carrier(relation::pg_catalog.oid) IS NULL ORDER BY turn_at NULLS FIRST";
    if definer().is_none() {
        return Vec::new();
    }
    let oid = |text: Option<CString>| text.and_then(|text| text.to_str().ok()?.parse::<u32>().ok());
    command::rows::<2>(MIGRATIONS)
        .into_iter()
        .map(|row| row.map(|text| pg_sys::Oid::from(oid(text).unwrap_or(0))))
        .collect()
}

/// The superuser who owns the extension's objects, which stay there until the end of the transaction; `None` if this
/// database has no such extension.
pub fn definer() -> Option<pg_sys::Oid> {
    let settings = Settings::begin();
    settings.set(c"lock_timeout", c"10s");
    // SAFETY: in a transaction. These take C strings and any OIDs, and the table is open while its row is read.
    let (owner, schema, is_table) = unsafe {
        let schema = pg_sys::get_namespace_oid(c"snowflake_adopt".as_ptr(), true);
        let table = pg_sys::get_relname_relid(c"migration".as_ptr(), schema);
        let table = pg_sys::try_relation_open(table, pg_sys::AccessShareLock.cast_signed()).as_ref()?;
        let row = &*table.rd_rel;
        let found = (row.relowner, row.relnamespace, relation_kind(row.relkind) == pg_sys::RELKIND_RELATION);
        pg_sys::relation_close(std::ptr::from_ref(table).cast_mut(), pg_sys::NoLock.cast_signed());
        found
    };
    // SAFETY: the cache has this key, and its rows this column.
    let of_schema = unsafe {
        let row = CachedRow::find(pg_sys::SysCacheIdentifier::NAMESPACEOID, schema)?;
        pg_sys::Oid::from(u32::try_from(row.column(pg_sys::Anum_pg_namespace_nspowner)?.value()).ok()?)
    };
    // SAFETY: takes any OID.
    (is_table && unsafe { pg_sys::superuser_arg(owner) && pg_sys::superuser_arg(of_schema) }).then_some(owner)
}
