//! Logs the configuration when the server starts, and warns of what endangers IDs.

use crate::config::gucs;
use crate::config::gucs::files;
use crate::durable::identity;
use crate::errors::{ConfigurationError, IssueError};
use crate::postgres::clock;
use crate::postgres::host_number::Resolved;
use crate::postgres::report::{error_report, warning};
use crate::postgres::server_encoding::displayable;
use crate::shared::shared;
use crate::worker;
use pgrx::bgworkers::{BackgroundWorkerBuilder, BgWorkerStartTime};
use pgrx::prelude::*;
use pgrx::{PgLogLevel, PgSqlErrorCode, log};
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;
use snowflake_core::server::number_source::NumberSource;
use std::ffi::CStr;
use std::sync::atomic::Ordering;

/// Logs the configuration. Only while preloading. The logging collector starts later, so the configuration is logged
/// again for its files: by the keeper, and on a standby, which has no keeper, by a background worker that ends at once.
pub fn write() {
    if is_collected() && worker::starts_as_standby() {
        BackgroundWorkerBuilder::new("snowflake_pg startup log")
            .set_library("snowflake_pg")
            .set_function("snowflake_pg_startup_log")
            .set_start_time(BgWorkerStartTime::PostmasterStart)
            .set_restart_time(None)
            .load();
    }
    log_configuration();
}

/// The main function of that background worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_pg_startup_log(_argument: pg_sys::Datum) {
    write_for_collector();
}

/// Logs the configuration for the logging collector, if there is one, and if no other process has done so.
pub fn write_for_collector() {
    if is_collected() && !shared().configuration_logged.swap(true, Ordering::Relaxed) {
        log_configuration();
    }
}

fn is_collected() -> bool {
    // SAFETY: a setting that is fixed when the server starts.
    unsafe { pg_sys::Logging_collector }
}

/// Logs who this server is, its layout, and every other parameter that is set. Warns if no ID will be issued, or if
/// another server may issue the same IDs.
fn log_configuration() {
    let mut line = format!(
        "snowflake_pg {}: worker_id = {}, datacenter_id = {}, layout = '{}' ({})",
        env!("CARGO_PKG_VERSION"),
        with_source(gucs::worker_id(), worker::worker().as_ref()),
        with_source(gucs::datacenter_id(), worker::datacenter().as_ref()),
        displayable(&gucs::layout_text().to_string_lossy()),
        gucs::layout().map_or_else(|_| "invalid".to_owned(), |layout| layout.to_string()),
    );
    for (name, value) in gucs::set_parameters() {
        if !["worker_id", "datacenter_id", "layout"].contains(&name) {
            line += &format!(", {name} = {value}");
        }
    }
    log!("{line}");
    match worker::layout_and_series() {
        Ok((layout, _)) => warn_of_the_end(&layout),
        Err(IssueError::Configuration(ConfigurationError::NoGroup(_)) | IssueError::Lease(_)) => {}
        Err(error) => error.log(PgLogLevel::WARNING),
    }
    for (variable, value) in
        [(c"snowflake_pg.worker_id", gucs::worker_id()), (c"snowflake_pg.datacenter_id", gucs::datacenter_id())]
    {
        warn_of_alter_system(variable, &value);
    }
    if worker::starts_as_standby() && identity::is_shared_with_source() {
        warn_of_shared_worker();
    }
    if gucs::layout().is_ok_and(|layout| gucs::start_wait_ms(&layout) > gucs::max_borrow_ms()) {
        error_report(
            PgSqlErrorCode::ERRCODE_CONFIG_FILE_ERROR,
            "snowflake_pg.reserve_ahead is greater than snowflake_pg.max_borrow",
        )
        .set_detail("After a crash or a promotion, IDs begin that far ahead, and the first calls wait for the clock.")
        .set_hint("Decrease it, or increase snowflake_pg.max_borrow.")
        .report(PgLogLevel::WARNING);
    }
}

/// Warns of a layout that ends within a year.
fn warn_of_the_end(layout: &Layout) {
    const YEAR_MS: u64 = 365 * 86_400_000;
    let now = clock::unix_ms();
    match layout.tick_at(now) {
        Err(outside) => IssueError::Clock(now, outside).log(PgLogLevel::WARNING),
        Ok(_) if layout.last_time() - now < YEAR_MS => {
            warning("the layout reaches its last timestamp within a year")
                .set_detail(format!("The last one is {}.", display_time(layout.last_time())))
                .set_hint(
                    "Change snowflake_pg.layout before that; see docs/layouts.md in the documentation of snowflake_pg.",
                )
                .report(PgLogLevel::WARNING);
        }
        Ok(_) => {}
    }
}

/// A parameter in the log: its number, and the source of that unless it is the configuration; its text if there is no
/// number.
fn with_source(text: String, resolved: Option<&Resolved>) -> String {
    match resolved {
        Some(resolved) if !resolved.is_configured() => {
            format!("{} ({})", resolved.number, displayable(&resolved.source))
        }
        Some(resolved) => resolved.number.to_string(),
        None if text.is_empty() => "''".to_owned(),
        None => displayable(&text),
    }
}

/// Warns of a number in the file that ALTER SYSTEM writes. Other values give each server its own number.
fn warn_of_alter_system(name: &CStr, value: &str) {
    let number = |text: &str| match NumberSource::parse(text) {
        Ok(NumberSource::Number(number)) => Some(number),
        _ => None,
    };
    let Some(value) = number(value) else { return };
    if files::in_automatic_file(name).and_then(|set| number(&set.value)) != Some(value) {
        return;
    }
    let variable = name.to_string_lossy();
    let overridden = match files::in_main_file(name).filter(|other| number(&other.value) != Some(value)) {
        Some(other) => {
            format!(" It overrides {}, from file \"{}\" line {}.", other.value, other.file.display(), other.line)
        }
        None => String::new(),
    };
    error_report(PgSqlErrorCode::ERRCODE_CONFIG_FILE_ERROR, format!("{variable} is set by ALTER SYSTEM"))
        .set_detail(format!(
            "Base backups copy postgresql.auto.conf, so a server made from one also has {variable} = {value}, and \
             issues the same IDs.{overridden}"
        ))
        .set_hint(format!("Set {variable} in this server's own configuration, and use ALTER SYSTEM RESET {variable}."))
        .report(PgLogLevel::WARNING);
}

fn warn_of_shared_worker() {
    warning("this standby has the worker ID of the server that it was copied from")
    .set_detail(format!(
        "Both have snowflake_pg.worker_id = {} and snowflake_pg.datacenter_id = {}, and the other one did not write its \
             mark to WAL. After a promotion, this server issues no IDs until snowflake_accept_mark() is called.",
        with_source(gucs::worker_id(), worker::worker().as_ref()),
        with_source(gucs::datacenter_id(), worker::datacenter().as_ref())
    ))
    .set_hint(
        "Set snowflake_pg.wal_mark = prefer on both and restart them, or give this server its own \
         snowflake_pg.worker_id.",
    )
    .report(PgLogLevel::WARNING);
}
