//! Carries migrations on after the server has started, or was promoted: whoever began them need not be there.

use super::worker;
use crate::postgres::{background_worker, command};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerBuilder, SignalWakeFlags};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};

/// Asks the postmaster for a worker that looks for migrations in all databases. If there is no room for one, migrations
/// wait until somebody calls `run` or `finish`.
pub fn look_for_migrations() {
    let _ = builder("snowflake_adopt_look_everywhere").load_dynamic();
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
pub extern "C-unwind" fn snowflake_adopt_look_everywhere(_argument: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    BackgroundWorker::connect_worker_to_spi(None, None);
    for database in worker::in_transaction(databases) {
        // SAFETY: every process has an ID.
        let me = unsafe { pg_sys::MyProcPid };
        let look = builder("snowflake_adopt_look").set_argument(database.into_datum()).set_notify_pid(me);
        if let Ok(look) = look.load_dynamic() {
            let _ = look.wait_for_shutdown();
        }
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

/// The main function of a worker that starts a worker for each migration of a database, in the name of whoever began it.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_adopt_look(database: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    let database = pg_sys::Oid::from(u32::try_from(database.value()).expect("an OID"));
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(database), None);
    for [relation, role] in worker::in_transaction(migrations) {
        worker::launch(relation, database, role);
    }
}

/// Table and role of each migration. The owner of a database can make a schema of this name, and
/// what is in it must not run with the rights of a superuser: an ordinary table of a superuser's runs nothing.
fn migrations() -> Vec<[pg_sys::Oid; 2]> {
    const TABLES: &CStr = c"SELECT c.oid FROM pg_catalog.pg_class c \
        JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace \
        JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) c.relowner \
        WHERE n.nspname OPERATOR(pg_catalog.=) 'snowflake_adopt' AND c.relname OPERATOR(pg_catalog.=) 'migration' \
        AND c.relkind OPERATOR(pg_catalog.=) 'r' AND o.rolsuper";
    const MIGRATIONS: &CStr =
        c"SELECT relation::pg_catalog.oid, role::pg_catalog.oid FROM snowflake_adopt.migration WHERE NOT is_paused";
    if command::rows::<1>(TABLES).is_empty() {
        return Vec::new();
    }
    let oid = |text: Option<CString>| text.and_then(|text| text.to_str().ok()?.parse::<u32>().ok());
    command::rows::<2>(MIGRATIONS)
        .into_iter()
        .map(|row| row.map(|text| pg_sys::Oid::from(oid(text).unwrap_or(0))))
        .collect()
}
