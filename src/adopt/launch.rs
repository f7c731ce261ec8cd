//! Starts background workers.

use super::turns::Workers;
use crate::postgres::command;
use pgrx::bgworkers::BackgroundWorkerBuilder;
use pgrx::prelude::*;
use std::ffi::CString;

/// Starts a worker for the migration of this table, as the role that began it. Returns its process ID, 0 if there
/// was nothing to do, or if others must end before, or NULL if `max_worker_processes` leaves room for none.
#[pg_extern(sql = false)]
fn snowflake_adopt_launch(relation: pg_sys::Oid) -> Option<i32> {
    // It runs as the role that started the migration, never as the one that resumes it, who may be a superuser.
    let migration = format!(
        "SELECT role::pg_catalog.oid FROM snowflake_adopt.migration \
         WHERE relation::pg_catalog.oid OPERATOR(pg_catalog.=) {}::pg_catalog.oid",
        relation.to_u32()
    );
    let migration = CString::new(migration).expect("no zero byte");
    let oid = |text: Option<CString>| text?.to_str().ok()?.parse::<u32>().ok().map(pg_sys::Oid::from);
    let Some([Some(role)]) = command::rows::<1>(&migration).pop().map(|row| row.map(oid)) else {
        return Some(0);
    };
    if Workers::now().waited_for_by(role).is_some() {
        return Some(0);
    }
    // SAFETY: every session has a database.
    let database = unsafe { pg_sys::MyDatabaseId };
    launch(relation, database, role)
}

/// Starts a worker for the migration of this table, which connects as this role.
pub fn launch(relation: pg_sys::Oid, database: pg_sys::Oid, role: pg_sys::Oid) -> Option<i32> {
    // SAFETY: every process has an ID.
    let me = unsafe { pg_sys::MyProcPid };
    builder("snowflake_adopt_worker")
        .set_argument(relation.into_datum())
        .set_extra(&[database, role].map(|oid| oid.to_u32().to_string()).join(" "))
        .set_notify_pid(me)
        .load_dynamic()
        .ok()
        .map(|worker| worker.wait_for_startup().unwrap_or(0))
}

/// Looks into this database last, whose migrations have had a turn. Whether there is room for a worker.
pub fn look_for_migrations_after(database: pg_sys::Oid) -> bool {
    builder("snowflake_adopt_look_everywhere").set_argument(database.into_datum()).load_dynamic().is_ok()
}

/// A worker with this main function.
pub fn builder(function: &str) -> BackgroundWorkerBuilder {
    BackgroundWorkerBuilder::new("snowflake_adopt")
        .set_library("snowflake_pg")
        .set_function(function)
        .set_restart_time(None)
        .enable_spi_access()
}
