//! What keeps this server from issuing IDs, and how near it is to its limits.

use super::row::{Column, Row, column};
use super::status::{has_no_lease, is_in_recovery, number};
use super::time::{interval, timestamptz};
use crate::clock;
use crate::config::{gucs, preload};
use crate::durable;
use crate::errors::summary::summary;
use crate::errors::{ConfigurationError, IssueError, may_read_all_settings};
use crate::issue::issuer;
use crate::server_encoding::shown;
use crate::shared::text::SharedText;
use crate::shared::{Shared, shared};
use crate::worker;
use pgrx::prelude::*;
use snowflake_core::layout::Layout;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// One row, for the view `snowflake_status`.
#[pg_extern(sql = false)]
fn snowflake_get_health() -> Row {
    let problem = problem();
    let (problem_sqlstate, problem) = parts(problem.as_deref());
    if !preload::is_done() {
        return Row::of([
            ("problem_sqlstate", problem_sqlstate),
            ("problem", problem),
            ("library_version", column(env!("CARGO_PKG_VERSION"))),
        ]);
    }
    let Shared { generator, statistics, keeper_pid, .. } = shared();
    let counts = generator.counts();
    let layout = gucs::layout().ok();
    let mark_left = layout.filter(|layout| counts.issued > 0 && is_busy(layout)).map(|layout| {
        let mark = layout.time_of(generator.covered_until());
        interval(mark.saturating_sub(clock::unix_ms()))
    });
    let refused_at = Some(statistics.last_refusal_at.load(Ordering::Relaxed)).filter(|&at| at > 0);
    let refusal = refused_at.map(|_| statistics.last_refusal.read());
    let (refusal_sqlstate, refusal) = parts(refusal.as_deref());
    let ids_per_second = |layout: Layout| i64::try_from(layout.ids_per_tick() * 1000 / layout.tick_ms()).ok();
    Row::of([
        ("problem_sqlstate", problem_sqlstate),
        ("problem", problem),
        ("keeper_pid", column(Some(keeper_pid.load(Ordering::Relaxed)).filter(|&pid| pid > 0))),
        ("last_refusal_at", column(refused_at.map(timestamptz))),
        ("last_refusal_sqlstate", refusal_sqlstate),
        ("last_refusal", refusal),
        ("ids_per_second", column(layout.and_then(ids_per_second))),
        ("busiest_second", number(counts.busiest_second)),
        ("mark_left", column(mark_left)),
        ("library_version", column(env!("CARGO_PKG_VERSION"))),
    ])
}

/// Whether the keeper keeps the mark ahead of the clock, since IDs were issued a short time ago.
fn is_busy(layout: &Layout) -> bool {
    let last_use = Duration::from_millis(shared().last_timestamp(layout)) + gucs::keep_warm();
    clock::since_1970() < last_use
}

/// The SQLSTATE of the text of an error, for everybody, and the rest for users who may read all settings.
fn parts(summary: Option<&str>) -> (Column, Column) {
    let (sqlstate, rest) = summary.and_then(|summary| summary.split_once(' ')).unzip();
    (column(sqlstate), column(rest.filter(|_| may_read_all_settings()).map(shown)))
}

/// The text of the error that [`state`](super::status::state) stands for, or of what the keeper fails to do; `None` if nothing is wrong.
fn problem() -> Option<String> {
    if !preload::is_done() {
        return Some(summary(IssueError::NotPreloaded));
    }
    let Shared { generator, lease, keeper_failure, wal_failure, .. } = shared();
    let now = clock::unix_ms();
    let error = match worker::layout_and_series() {
        Ok(_) | Err(IssueError::Lease(_) | IssueError::Configuration(ConfigurationError::NoGroup(_)))
            if is_in_recovery() =>
        {
            IssueError::InRecovery
        }
        Err(error) => error,
        Ok((layout, _)) => match layout.tick_at(now) {
            Err(error) => IssueError::Clock(now, error),
            Ok(_) if has_no_lease(lease) => durable::lease::start().err().unwrap_or_else(durable::lease::ended),
            Ok(_) => {
                let failures = [keeper_failure, wal_failure].map(SharedText::read);
                let failure = failures.into_iter().find(|failure| !failure.is_empty());
                let until = shared().mark.not_before();
                if failure.is_some() {
                    return failure;
                }
                match issuer::clock_error(&layout).filter(|_| generator.is_started()) {
                    Some(error) => error,
                    None if generator.is_started() || until == 0 => return None,
                    None => durable::start::pending(now, until),
                }
            }
        },
    };
    Some(summary(error))
}
