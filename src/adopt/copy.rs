//! The trigger that keeps a second column equal to the first one while a table is adopted.

use pgrx::datum::TryFromDatumError;
use pgrx::prelude::*;
use pgrx::{AllocatedByRust, PgTrigger};

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
    let names = trigger.extra_args().unwrap_or_default();
    for pair in names.chunks_exact(2) {
        let (column, beside) = (pair[0].as_str(), pair[1].as_str());
        let (Some((_, from)), Some(_)) = (row.get_attribute_by_name(column), row.get_attribute_by_name(beside)) else {
            continue;
        };
        let value = match from.atttypid {
            pg_sys::INT2OID => row.get_by_name::<i16>(column).map(|value| value.map(i64::from)),
            pg_sys::INT4OID => row.get_by_name::<i32>(column).map(|value| value.map(i64::from)),
            _ => continue,
        };
        row.set_by_name(beside, value.expect("of the type that was just asked for"))?;
    }
    Ok(Some(row))
}
