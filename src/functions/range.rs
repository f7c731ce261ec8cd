//! IDs as points in time, for selecting rows by when they were made.

use super::decode::layout;
use super::time::unix_ms;
use crate::errors::{error, report};
use pgrx::prelude::*;
use snowflake_core::display_time;
use snowflake_core::layout::TimeError;

/// The lowest ID of the tick in which a point in time lies. `-infinity` is below every ID, and `infinity` is above.
#[pg_extern(sql = false)]
fn snowflake_min_id(at: TimestampWithTimeZone) -> i64 {
    if at.is_neg_infinity() {
        return 0;
    }
    if at.is_infinity() {
        return i64::MAX;
    }
    let layout = layout();
    let tick = unix_ms(at).map_or(Err(TimeError::BeforeEpoch { epoch: layout.epoch() }), |ms| layout.tick_at(ms));
    match tick {
        Ok(tick) => layout.min_id(tick).cast_signed(),
        Err(outside) => {
            let (message, open) = match outside {
                TimeError::BeforeEpoch { .. } => ("timestamp is before the epoch of the layout", "-infinity"),
                TimeError::AfterEnd { .. } => ("timestamp is after the end of the layout", "infinity"),
            };
            report(
                error(PgSqlErrorCode::ERRCODE_DATETIME_FIELD_OVERFLOW, message)
                    .set_detail(format!(
                        "IDs of this layout have timestamps from {} to {}.",
                        display_time(layout.epoch()),
                        display_time(layout.last_time())
                    ))
                    .set_hint(format!("For a range that is open on this side, use '{open}'.")),
            )
        }
    }
}
