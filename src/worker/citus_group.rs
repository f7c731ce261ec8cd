//! The group of this node in a Citus cluster, which is the worker ID of a server with `worker_id = citus`.
//!
//! It is in Citus's metadata, in a database. The keeper reads it there when the server has started, and looks again
//! before it extends the mark.

use crate::config::gucs;
use crate::errors::{ConfigurationError, IssueError};
use crate::postgres::report::warning;
use crate::postgres::server_encoding::displayable;
use crate::shared::throttle::Throttle;
use crate::shared::{mark_lock, shared};
use crate::worker;
use once_cell::sync::OnceCell;
use pgrx::PgLogLevel;
use pgrx::bgworkers::BackgroundWorker;
use pgrx::prelude::*;
use std::time::{Duration, Instant};

/// As the keeper, connected to the database: looks for the group. Returns whether it is known.
pub fn find() -> bool {
    let group = &shared().citus;
    if group.get().is_some() {
        return true;
    }
    match BackgroundWorker::transaction(|| read(worker::starts_as_standby())) {
        Ok(number) => {
            group.set(number);
            shared().lease.wake_client();
        }
        Err(reason) => {
            static WARNINGS: OnceCell<Throttle> = OnceCell::new();
            if WARNINGS.get_or_init(Throttle::default).is_due() {
                warning("could not determine snowflake_pg.worker_id")
                    .set_detail(format!("It is \"citus\". {}.", displayable(&reason)))
                    .report(PgLogLevel::WARNING);
            }
            group.set_reason(&reason);
        }
    }
    mark_lock::wake_waiters();
    group.get().is_some()
}

/// As the keeper: looks again. Citus can give this node another group, and its old one to another node. A clone that is
/// made of this node later does not matter to it.
pub fn check_again() {
    let group = &shared().citus;
    let group_now = BackgroundWorker::transaction(|| read(false));
    group.set_lost(group_now.ok() != group.get());
}

/// An error if this node has another group than at the start, or none.
pub fn check() -> Result<(), IssueError> {
    if worker::is_in_citus() && shared().citus.is_lost() {
        return Err(ConfigurationError::OtherGroup(shared().citus.get().unwrap_or(0)).into());
    }
    Ok(())
}

/// Waits until the keeper knows the group, no longer than a call may wait.
pub fn wait() {
    let until = Instant::now() + Duration::from_millis(gucs::max_wait_ms());
    let is_known = || shared().citus.get().is_some();
    while Instant::now() < until && !is_known() {
        shared().wake_keeper();
        mark_lock::wait_for_change(is_known, Duration::from_millis(100));
    }
}

/// The group, unless this can be a clone that has none of its own yet. Each name is qualified: the keeper is a
/// superuser, and the owner of the database must not be able to substitute others.
fn read(can_be_clone: bool) -> Result<u64, String> {
    const EXISTS: &str = "SELECT pg_catalog.to_regclass('pg_catalog.pg_dist_local_group') IS NOT NULL
        AND pg_catalog.to_regclass('pg_catalog.pg_dist_node') IS NOT NULL";
    // A node that was not added to a cluster has group 0, as the coordinator has. A standby that was promoted as a
    // clone (Citus 13.2) has the group of its original, until Citus gives it one of its own.
    const GROUP: &str = "SELECT l.groupid FROM pg_catalog.pg_dist_local_group l
        WHERE EXISTS (SELECT FROM pg_catalog.pg_dist_node)
        AND NOT ($1 AND EXISTS (SELECT FROM pg_catalog.pg_dist_node clone, pg_catalog.pg_dist_node original
            WHERE pg_catalog.to_jsonb(clone) OPERATOR(pg_catalog.->>) 'nodeisclone' OPERATOR(pg_catalog.=) 'true'
            AND (pg_catalog.to_jsonb(clone) OPERATOR(pg_catalog.->>) 'nodeprimarynodeid')
                OPERATOR(pg_catalog.=) original.nodeid::pg_catalog.text
            AND original.groupid OPERATOR(pg_catalog.=) l.groupid))";
    let database = gucs::citus_database();
    let database = database.to_string_lossy();
    // Not by get_one(), which takes a transaction ID for each.
    let exists =
        Spi::connect(|client| client.select(EXISTS, Some(1), &[]).ok()?.first().get_one::<bool>().ok().flatten());
    if !exists.unwrap_or(false) {
        return Err(format!("Database \"{database}\" has no Citus metadata"));
    }
    let group = Spi::connect(|client| {
        let rows = client.select(GROUP, Some(1), &[can_be_clone.into()]).ok()?;
        rows.first().get_one::<i32>().ok().flatten()
    });
    let reason = if can_be_clone { "has no group of its own yet" } else { "is in no Citus cluster" };
    group
        .and_then(|group| u64::try_from(group).ok())
        .ok_or_else(|| format!("According to the metadata in database \"{database}\", this node {reason}"))
}
