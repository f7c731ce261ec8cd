//! The errors of a clock with which no ID can be issued, and of a layout that has ended.

use crate::config::gucs;
use crate::postgres::report::error_report;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::PgSqlErrorCode::*;
use snowflake_core::id::layout::{Layout, Replacement, TimeError};
use snowflake_core::issue::policy::ClockRegression;
use snowflake_core::mark::wal_page::FILE;
use snowflake_core::{UnixMs, display_time};

/// What keeps IDs from continuing while the clock is behind.
#[derive(Debug)]
pub enum ClockLimit {
    /// IDs may be ahead of the clock, up to this.
    MaxBorrow {
        /// `snowflake_pg.max_borrow`.
        ms: u64,
    },
    /// IDs may not be ahead of the clock, and calls have waited for this time.
    MaxWait {
        /// `snowflake_pg.max_wait`.
        ms: u64,
        /// `snowflake_pg.clock_regression`.
        regression: ClockRegression,
    },
}

/// The error for a clock that shows a time outside the layout.
pub(super) fn outside_layout(now: UnixMs, outside: TimeError) -> ErrorReport {
    match outside {
        TimeError::BeforeEpoch { epoch } => error_report(
            ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            "the server's clock is before the epoch of the layout",
        )
        .set_detail(format!("The clock shows {}, and the epoch is {}.", display_time(now), display_time(epoch)))
        .set_hint("Set the clock, or choose an earlier epoch in snowflake_pg.layout and restart the server."),
        TimeError::AfterEnd { last } => {
            let replacement = gucs::layout().ok().and_then(|layout| layout.replacement(now));
            let later = replacement.map(|Replacement { layout, .. }| {
                format!(" Layout \"{}\" begins later, for servers without old IDs.", layout.short_text())
            });
            error_report(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED, "reached the last timestamp of the layout")
                .set_detail(format!(
                    "The clock shows {}, and the last timestamp is {}.",
                    display_time(now),
                    display_time(last)
                ))
                .set_hint(format!(
                    "Check the clock. If it is right, change snowflake_pg.layout; see docs/layouts.md in the documentation of \
                     snowflake_pg.{}",
                    later.unwrap_or_default()
                ))
        }
    }
}

/// The error for IDs that would begin after the end of the layout.
pub(super) fn layout_ends_before(layout: Layout, begin: UnixMs) -> ErrorReport {
    error_report(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "the layout ends before IDs would begin")
        .set_detail(format!(
            "IDs would begin at {}, and the last timestamp of layout {layout} is {}.",
            display_time(begin),
            display_time(layout.last_time())
        ))
        .set_hint(format!(
            "Check snowflake_pg.layout. If the mark in WAL is wrong, stop the server, remove the file \"global/{FILE}\", \
             and start the server."
        ))
}

/// The error for a clock that stays behind what was issued.
pub(super) fn behind(last: UnixMs, issued: bool, now: UnixMs, until: UnixMs, limit: ClockLimit) -> ErrorReport {
    // None of this start: its first IDs are above all earlier ones, and above what the clock showed then.
    let (which, again) = if issued { ("the last timestamp issued is", " again") } else { ("IDs begin after", "") };
    let (now, last, until) = (display_time(now), display_time(last), display_time(until));
    let (limits, when) = match limit {
        ClockLimit::MaxBorrow { ms } => (
            format!("snowflake_pg.max_borrow is {ms} ms"),
            ", or once snowflake_pg.max_borrow is greater than the difference",
        ),
        ClockLimit::MaxWait { ms, regression } => {
            (format!("snowflake_pg.clock_regression is {regression}, and snowflake_pg.max_wait is {ms} ms"), "")
        }
    };
    error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "the server's clock is too far behind the last ID issued")
        .set_detail(format!("The clock shows {now}, and {which} {last}; {limits}."))
        .set_hint(format!("Check the clock. IDs will be issued{again} once it reaches {until}{when}."))
}

/// The error for a clock by which IDs are to begin, and that has just jumped ahead.
pub(super) fn jumped(now: UnixMs) -> ErrorReport {
    error_report(
        ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
        "cannot begin to issue IDs by a clock that has just jumped ahead",
    )
    .set_detail(format!("The clock shows {}, and is trusted once it has been steady for a minute.", display_time(now)))
    .set_hint("If the clock is right, wait, or call snowflake_accept_clock(). If it is not, set it back.")
}

/// The error for a clock that has gone back, by the policy `error`.
pub(super) fn went_back(now: UnixMs, shown: UnixMs) -> ErrorReport {
    error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, "the server's clock has gone back")
        .set_detail(format!(
            "The clock shows {}, {} ms earlier than it has shown before; snowflake_pg.clock_regression is error.",
            display_time(now),
            shown.saturating_sub(now)
        ))
        .set_hint(format!("Check the clock. IDs will be issued again once it reaches {}.", display_time(shown)))
}

/// The error for a server whose IDs begin at a later time. It has to wait for at most `wait_ms`, if its clock is right.
pub(super) fn start_pending(now: UnixMs, until: UnixMs, was_reset: bool, wait_ms: u64) -> ErrorReport {
    let is_long = until.saturating_sub(now) > wait_ms;
    let (now, until) = (display_time(now), display_time(until));
    let message = if was_reset || is_long {
        "the server's clock is behind the time at which IDs begin"
    } else {
        "the server does not issue IDs yet"
    };
    let (why, hint) = if was_reset {
        (
            "snowflake_reset_mark() was called with a time far ahead",
            "If that is too late, call snowflake_reset_mark() again, with an earlier time that is still later than \
             every ID of this server."
                .to_owned(),
        )
    } else if is_long {
        (
            "No reliable durable mark of this worker was found",
            "Check the clock. IDs will be issued once it reaches that time.".to_owned(),
        )
    } else {
        ("This server is new, or its durable mark was lost", "Nothing to do: IDs begin then.".to_owned())
    };
    error_report(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED, message)
        .set_detail(format!("The clock shows {now}. {why}, so IDs begin at {until}."))
        .set_hint(hint)
}
