//! The errors of a configuration with which no ID can be issued.

use crate::config::gucs::InvalidSetting;
use crate::postgres::clock;
use crate::postgres::host_number::{Resolved, Unresolved};
use crate::postgres::report::error_report;
use crate::postgres::server_encoding::{characters, displayable, quoted};
use pgrx::PgSqlErrorCode;
use pgrx::pg_sys::panic::ErrorReport;
use snowflake_core::id::layout::{FieldKind, Layout, LayoutError, SeriesError};
use std::ffi::CString;

/// What is wrong with the configuration. All but the first are SQLSTATE F0000.
#[derive(Debug)]
pub enum ConfigurationError {
    /// `snowflake_pg.worker_id` is empty. The layout gives its range.
    WorkerUnset(Layout),
    /// A parameter has an invalid value.
    InvalidSetting(&'static InvalidSetting),
    /// The worker ID or the data center could not be found on this host.
    Unresolved { variable: &'static str, text: String, reason: &'static Unresolved },
    /// The worker is the group of this node in a Citus cluster, which the keeper does not know, for this reason.
    NoGroup(String),
    /// The node no longer has this group, which it had at the start.
    OtherGroup(u64),
    /// `snowflake_pg.layout` is this text, which is not a layout.
    InvalidLayout(CString, LayoutError),
    /// The layout can only be decoded, or the worker or the data center does not fit it.
    InvalidSeries {
        layout: Layout,
        /// What does not fit.
        misfit: SeriesError,
        /// The number, unless the configuration itself has it.
        resolved: Option<&'static Resolved>,
    },
}

/// The HINT for a parameter that must differ between servers.
fn set_for_this_server(variable: &str, to_what: &str) -> String {
    format!(
        "Set {variable} {to_what}, and restart the server. Base backups copy the configuration files in the data \
         directory, such as the one that ALTER SYSTEM writes. A standby may keep this setting, but a copy that issues \
         IDs alongside this server needs its own."
    )
}

fn invalid_value(variable: &str, quoted_text: &str, detail: &str) -> ErrorReport {
    let message = format!("invalid value for parameter \"{variable}\": {quoted_text}");
    error_report(PgSqlErrorCode::ERRCODE_CONFIG_FILE_ERROR, message)
        .set_detail(detail)
        .set_hint(format!("Correct {variable} in the configuration, and restart the server."))
}

impl From<ConfigurationError> for ErrorReport {
    fn from(error: ConfigurationError) -> Self {
        use PgSqlErrorCode::{ERRCODE_CONFIG_FILE_ERROR, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE};
        match error {
            ConfigurationError::WorkerUnset(layout) => {
                let range = layout.workers();
                error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "this server has no worker ID")
                    .set_detail("snowflake_pg.worker_id is not set.")
                    .set_hint(set_for_this_server(
                        "snowflake_pg.worker_id",
                        &format!("to a number from {} to {} that no other server has", range.start(), range.end()),
                    ))
            }
            ConfigurationError::InvalidSetting(InvalidSetting { variable, text, allowed }) => {
                invalid_value(variable, &format!("\"{text}\""), allowed)
            }
            ConfigurationError::Unresolved {
                variable,
                text,
                reason: reason @ (Unresolved::Invalid(_) | Unresolved::Unset),
            } => invalid_value(variable, &quoted(&text), &format!("{}.", displayable(&reason.to_string()))),
            ConfigurationError::Unresolved { variable, text, reason } => {
                error_report(ERRCODE_CONFIG_FILE_ERROR, format!("could not determine {variable}"))
                    .set_detail(format!("It is {}. {}.", quoted(&text), displayable(&reason.to_string())))
                    .set_hint(format!(
                        "Correct that, or set {variable} to a number, \"env:VARIABLE\" or \"file:/path\", and restart \
                         the server."
                    ))
            }
            ConfigurationError::NoGroup(reason) => {
                error_report(ERRCODE_CONFIG_FILE_ERROR, "could not determine snowflake_pg.worker_id")
                    .set_detail(format!("It is \"citus\". {}.", displayable(&reason)))
                    .set_hint(
                        "Add this server to the cluster, or set snowflake_pg.citus_database to the database with the \
                         Citus metadata.",
                    )
            }
            ConfigurationError::OtherGroup(group) => {
                error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the group of this Citus node has changed")
                    .set_detail(format!("Worker ID {group} of this server may now belong to another node."))
                    .set_hint("Restart this server to give it the worker ID of its new group.")
            }
            ConfigurationError::InvalidLayout(text, failure) => invalid_value(
                "snowflake_pg.layout",
                &quoted(&characters(text.to_bytes())),
                &format!("{}.", displayable(&failure.to_string())),
            ),
            ConfigurationError::InvalidSeries { layout, misfit: SeriesError::DecodeOnly(reason), .. } => {
                let hint = match layout.replacement(clock::unix_ms()) {
                    Some(replacement) => format!(
                        "Set snowflake_pg.layout to \"{}\", and restart the server. {replacement}",
                        replacement.layout.short_text()
                    ),
                    None => "Set snowflake_pg.layout to another layout, and restart the server.".to_owned(),
                };
                error_report(ERRCODE_CONFIG_FILE_ERROR, "IDs of this layout can be decoded but not issued")
                    .set_detail(format!("{reason}."))
                    .set_hint(hint)
            }
            ConfigurationError::InvalidSeries { layout, misfit: SeriesError::Number(kind, number), resolved } => {
                let variable = match kind {
                    FieldKind::Datacenter => "snowflake_pg.datacenter_id",
                    _ => "snowflake_pg.worker_id",
                };
                let source =
                    resolved.map_or_else(String::new, |resolved| format!(" ({})", displayable(&resolved.source)));
                let mut hint = match (resolved, number.range) {
                    (_, (0, 0)) if kind == FieldKind::Datacenter => format!(
                        "The layout has no data centers: remove {variable}, and restart the server. To replace \
                         layout \"twitter\" by \"flat\", set the worker ID to 32 times the data center plus the worker."
                    ),
                    (None, (0, 0)) => set_for_this_server(variable, "to 0"),
                    (None, (first, last)) => {
                        set_for_this_server(variable, &format!("to a number from {first} to {last}"))
                    }
                    (Some(_), _) => format!(
                        "Set snowflake_pg.layout to one that has room for it, or {variable} to another value, and restart \
                         the server."
                    ),
                };
                if let (FieldKind::Worker, Some(remark)) = (kind, layout.flat_layout_hint()) {
                    hint = format!("{hint} {remark}");
                }
                error_report(ERRCODE_CONFIG_FILE_ERROR, format!("{variable} does not fit the layout"))
                    .set_detail(format!(
                        "{variable} is {}{source}, and layout {layout} allows {} to {}.",
                        number.value, number.range.0, number.range.1
                    ))
                    .set_hint(hint)
            }
        }
    }
}
