//! Resumes migrations after a start or a promotion, without the sessions that began them.

use super::database::{in_transaction, migrations};
use super::launch::{builder, launch, look_for_migrations_after};
use super::turns::Workers;
use crate::postgres::background_worker;
use crate::postgres::sleep::{self, WaitEvent};
use pgrx::bgworkers::{BackgroundWorker, BackgroundWorkerStatus, DynamicBackgroundWorker, SignalWakeFlags};
use pgrx::prelude::*;
use std::time::{Duration, Instant};

/// How long a look into a database may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks the postmaster for a worker that looks for migrations in all databases. If there is no room for one, migrations
/// wait until somebody calls `run` or `finish`.
pub fn look_for_migrations() {
    look_for_migrations_after(pg_sys::Oid::INVALID);
}

/// The main function of a worker that has one worker after the other look into a database.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_adopt_look_everywhere(last: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    BackgroundWorker::connect_worker_to_spi(None, None);
    let mut databases = in_transaction(databases);
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

/// Waits for the end of a worker, and ends it if that takes too long: somebody can have locked a database, and prepared
/// the transaction.
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

/// The main function of a worker that starts workers for a database's migrations, as the roles that began them, and
/// first for those that wait longest.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_adopt_look(database: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    let database = pg_sys::Oid::from(u32::try_from(database.value()).expect("an OID"));
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(database), None);
    let (migrations, mut workers) = in_transaction(|| (migrations(), Workers::now()));
    for [relation, role] in migrations {
        if workers.waited_for_by(role).is_none() {
            launch(relation, database, role);
            workers.add(role);
        }
    }
}
