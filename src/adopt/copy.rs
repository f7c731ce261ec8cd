//! The trigger that keeps a second column equal to the first one while a table is adopted.

use pgrx::datum::TryFromDatumError;
use pgrx::prelude::*;
use pgrx::{AllocatedByRust, PgTrigger};
use std::num::NonZeroUsize;

/// `BEFORE INSERT OR UPDATE … FOR EACH ROW`. The arguments are pairs of names: a column of two or four bytes, and the
/// `bigint` beside it.
///
/// In C, since a trigger in SQL runs what the `search_path` of each writer finds, and its plans outlive the columns. A
/// column that is not there is left out: whoever renames it must not stop every writer, and no row becomes wrong by
/// that, since the columns are compared before one takes the other's place.
#[pg_trigger(sql = false)]
fn snowflake_adopt_copy<'row>(
    trigger: &'row PgTrigger<'row>,
) -> Result<Option<PgHeapTuple<'row, AllocatedByRust>>, TryFromDatumError> {
    let Some(row) = trigger.new() else { return Ok(None) };
    let mut row = row.into_owned();
    // Names are in the encoding of the database, which need not be UTF-8, so they are compared as they are.
    // SAFETY: the trigger has so many arguments, all C strings, and its table is open.
    let (arguments, columns) = unsafe {
        let of_trigger = trigger.trigger();
        let count = usize::try_from(of_trigger.tgnargs).unwrap_or(0);
        (std::slice::from_raw_parts(of_trigger.tgargs, count), (*trigger.trigger_data().tg_relation).rd_att)
    };
    // SAFETY: as above. Negative if there is no such column.
    let number = |name: *const std::ffi::c_char| unsafe { pg_sys::SPI_fnumber(columns, name) };
    for pair in arguments.chunks_exact(2) {
        let [Some(column), Some(beside)] =
            [pair[0], pair[1]].map(|name| usize::try_from(number(name)).ok().and_then(NonZeroUsize::new))
        else {
            continue;
        };
        // Only a trigger of somebody else's can have another type there.
        if row.get_attribute_by_index(beside).is_none_or(|to| to.atttypid != pg_sys::INT8OID) {
            continue;
        }
        let value = match row.get_attribute_by_index(column).map(|from| from.atttypid) {
            Some(pg_sys::INT2OID) => row.get_by_index::<i16>(column).map(|value| value.map(i64::from)),
            Some(pg_sys::INT4OID) => row.get_by_index::<i32>(column).map(|value| value.map(i64::from)),
            _ => continue,
        };
        row.set_by_index(beside, value.expect("of the type that was just asked for"))?;
    }
    Ok(Some(row))
}
