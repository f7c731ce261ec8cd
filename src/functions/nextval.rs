//! Issuing IDs.

use super::decode::misfit_error;
use super::layout::layout_in_force;
use super::row::{Row, column};
use crate::config::preload;
use crate::errors::{IssueError, summary};
use crate::issue::{issuer, last_id};
use crate::postgres::report::{error_report, raise};
use crate::shared::shared;
use pgrx::Internal;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// The largest batch: a quarter of a second at the full rate of layout `flat`.
const MAX_BATCH: u32 = 1_000_000;

/// The next ID, for SQL, and under another name for COPY.
///
/// A plain C function, since `#[pg_guard]` costs a part of an ID. An ERROR of [`slow_path`], which is guarded, jumps
/// over this frame. That is sound as long as the frame has nothing to drop; keep it so.
#[unsafe(no_mangle)]
extern "C-unwind" fn snowflake_nextval(_call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    let id = issuer::join().unwrap_or_else(|| slow_path());
    last_id::set(id);
    id.into()
}

/// What PG_FUNCTION_INFO_V1() defines in C.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_nextval() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// tests/servers/instructions.rs knows this name, and counts the instructions outside of it.
#[cold]
#[inline(never)]
#[pg_guard]
extern "C-unwind" fn slow_path() -> i64 {
    issuer::take().unwrap_or_else(|error| refuse(error))
}

/// The next ID, whatever it takes; an ERROR if there is none.
pub fn next() -> i64 {
    let id = issuer::take().unwrap_or_else(|error| refuse(error));
    last_id::set(id);
    id
}

/// The next ID, with a tag of the application's. Worker and sequence make it unique, whatever the tag is.
#[pg_extern(sql = false)]
fn snowflake_nextval_tagged(tag: i32) -> i64 {
    if !preload::is_done() {
        IssueError::NotPreloaded.raise();
    }
    let layout = layout_in_force();
    if *layout.tags().end() == 0 {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, "the layout has no tag")
                .set_detail(format!("The layout is {layout}."))
                .set_hint("Add a field such as h8 to snowflake_pg.layout, or call snowflake_nextval()."),
        );
    }
    let bits = layout.tag_bits(tag.into()).unwrap_or_else(|misfit| raise(misfit_error("tag", &misfit, &layout)));
    let id = next() | bits.cast_signed();
    last_id::set(id);
    id
}

/// [`snowflake_nextval_tagged`], as COPY calls it.
#[pg_extern(sql = false)]
fn snowflake_nextval_tagged_in_copy(_not_from_sql: Internal, tag: i32) -> i64 {
    snowflake_nextval_tagged(tag)
}

/// The next `count` IDs, all taken when the call begins.
#[pg_extern(sql = false)]
fn snowflake_nextvals(count: i32) -> SetOfIterator<'static, i64> {
    let Some(wanted) = u32::try_from(count).ok().filter(|wanted| (1..=MAX_BATCH).contains(wanted)) else {
        raise(bad_count(MAX_BATCH.into()).set_detail(format!("The count is {count}.")));
    };
    let (ids, last) = issuer::next_batch(wanted).unwrap_or_else(|error| refuse(error));
    last_id::set(last);
    SetOfIterator::new(ids)
}

/// The first and the last of `count` adjacent IDs of one tick.
#[pg_extern(sql = false)]
fn snowflake_nextblock(count: i32) -> Row {
    let layout = layout_in_force();
    if !layout.sequence_is_lowest() {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED, "IDs of this layout are not adjacent")
                .set_detail(format!("The sequence is not the lowest field of \"{}\".", layout.fields_text()))
                .set_hint("Use snowflake_nextvals(count)."),
        );
    }
    let most = layout.ids_per_tick();
    let Some(wanted) = u32::try_from(count).ok().filter(|&wanted| (1..=most).contains(&wanted.into())) else {
        raise(
            bad_count(most)
                .set_detail(format!("The count is {count}, and a tick of the layout has {most} IDs."))
                .set_hint("For more IDs, take more than one block, or use snowflake_nextvals(count)."),
        );
    };
    let block = issuer::next_block(wanted).unwrap_or_else(|error| refuse(error));
    last_id::set(*block.end());
    Row::new([("first", column(*block.start())), ("last", column(*block.end()))])
}

fn bad_count(most: u64) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, format!("count must be between 1 and {most}"))
}

#[cold]
pub fn refuse(error: IssueError) -> ! {
    summary::raise_recorded(error, |summary| {
        if preload::is_done() {
            shared().statistics.count_refusal(summary);
        }
    })
}
