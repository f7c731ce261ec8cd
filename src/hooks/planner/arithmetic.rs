//! The time of an ID in PostgreSQL's own functions, which is all that a virtual column may call:
//! `to_timestamp(((id >> 22) + 1288834974657) / 1000.0)`, and with a unit of 10 ms
//! `to_timestamp(((id >> 16) * 10 + 1409529600000) / 1000.0)`. The division may be one of `numeric` or of `double
//! precision`: until the year 2242, `to_timestamp()` gives the same microsecond, and layouts that last longer have no
//! ranges. A column of type `timestamp` has it `AT TIME ZONE 'UTC'`, and one of milliseconds or finer, such as
//! `timestamp(3)`, a conversion that changes nothing.

use super::id::{TimeOf, call, column, text};
use crate::config::gucs;
use crate::hooks::tree::{cast, nodes};
use pgrx::pg_sys::{
    self, Const, FLOAT8OID, FuncExpr, INT4OID, INT8OID, NUMERICOID, Node, NodeTag, Oid, OpExpr, TEXTOID, TIMESTAMPTZOID,
};
use pgrx::{FromDatum, IntoDatum, direct_function_call};
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;

/// The ID whose time this is, and the layout with the same shift, unit and epoch.
///
/// # Safety
///
/// An expression.
pub unsafe fn time_of(node: *mut Node) -> Option<TimeOf> {
    // SAFETY: the arguments of calls and operators are expressions.
    unsafe {
        const ROUNDED: &[u32] = &[pg_sys::F_TIMESTAMP_TIMESTAMP_INT4, pg_sys::F_TIMESTAMPTZ_TIMESTAMPTZ_INT4];
        let node = match called(node, ROUNDED) {
            // mutant: range-precision
            Some([rounded, digits]) if whole(digits)? >= 3 => rounded,
            _ => node,
        };
        let in_utc = called(node, &[pg_sys::F_TIMEZONE_TEXT_TIMESTAMPTZ]).filter(|&[zone, _]| is_utc(zone));
        let [seconds] = called(in_utc.map_or(node, |[_, node]| node), &[pg_sys::F_TO_TIMESTAMP_FLOAT8])?;
        let by_numeric = || {
            let [numeric] = called(seconds, &[pg_sys::F_FLOAT8_NUMERIC])?;
            let [ms, thousand] = called(numeric, &[pg_sys::F_NUMERIC_DIV])?;
            let [ms] = called(ms, &[pg_sys::F_NUMERIC_INT8])?;
            Some((ms, thousand))
        };
        let by_double = || {
            let [ms, thousand] = called(seconds, &[pg_sys::F_FLOAT8DIV])?;
            let [ms] = called(ms, &[pg_sys::F_FLOAT8_INT8])?;
            Some((ms, thousand))
        };
        let (ms, thousand) = by_double().or_else(by_numeric)?;
        if number(thousand) != Some(1000.0) {
            return None;
        }
        let [since, epoch] = called(ms, &[pg_sys::F_INT8PL, pg_sys::F_INT84PL])?;
        let (tick, unit) = match called(since, &[pg_sys::F_INT8MUL, pg_sys::F_INT84MUL]) {
            Some([tick, unit]) => (tick, whole(unit)?),
            None => (since, 1),
        };
        let [id, shift] = called(tick, &[pg_sys::F_INT8SHR])?;
        let id = column(id)?;
        let layout = layout(u32::try_from(whole(shift)?).ok()?, unit, whole(epoch)?)?;
        Some(TimeOf { id, layout: text(&layout)?, in_utc: in_utc.is_some(), is_called: false, is_foreign: false })
    }
}

/// The time of an ID, as such an expression.
pub fn time_at(id: *mut Node, layout: &Layout) -> Option<*mut Node> {
    let call = |function: u32, returns, arguments| call(Oid::from(function), returns, arguments);
    let shift = layout.min_id(1).trailing_zeros().cast_signed();
    let [unit, epoch] = [layout.tick_ms(), layout.epoch()].map(|ms| number_node(INT8OID, 8, ms.cast_signed()));
    let tick = call(pg_sys::F_INT8SHR, INT8OID, vec![id, number_node(INT4OID, 4, shift)?]);
    let since_epoch = call(pg_sys::F_INT8MUL, INT8OID, vec![tick, unit?]);
    let ms = call(pg_sys::F_INT8PL, INT8OID, vec![since_epoch, epoch?]);
    let ms = call(pg_sys::F_FLOAT8_INT8, FLOAT8OID, vec![ms]);
    let seconds = call(pg_sys::F_FLOAT8DIV, FLOAT8OID, vec![ms, number_node(FLOAT8OID, 8, 1000.0)?]);
    Some(call(pg_sys::F_TO_TIMESTAMP_FLOAT8, TIMESTAMPTZOID, vec![seconds]))
}

fn number_node(of_type: Oid, length: i32, value: impl IntoDatum) -> Option<*mut Node> {
    let value = value.into_datum()?;
    // SAFETY: the value is of the type, which is passed by value.
    Some(unsafe { pg_sys::makeConst(of_type, -1, Oid::INVALID, length, value, false, true) }.cast())
}

/// 2242-03-16, from which on microseconds are lost in a number of seconds of this type, in milliseconds.
const EXACT_UNTIL: u128 = (1 << 33) * 1000;

/// A layout of 63 bits in which the time is above these bits: the one in force, if that is one.
fn layout(shift: u32, unit: i64, epoch: i64) -> Option<String> {
    let (unit, epoch) = (u64::try_from(unit).ok()?, u64::try_from(epoch).ok()?);
    let time = 63_u32.checked_sub(shift).filter(|&bits| bits > 0)?;
    // mutant: range-exact
    if (u128::from(unit) << time) + u128::from(epoch) > EXACT_UNTIL {
        return None;
    }
    let is_it = |known: &Layout| {
        known.max_id() == i64::MAX.cast_unsigned()
            && (known.min_id(1).trailing_zeros(), known.tick_ms(), known.epoch()) == (shift, unit, epoch)
    };
    if gucs::layout().is_ok_and(|layout| is_it(&layout)) {
        return gucs::layout_text().into_string().ok();
    }
    let sequence = shift.min(20);
    let fields = [('t', time), ('w', shift - sequence), ('s', sequence)];
    let fields: Vec<_> =
        fields.iter().filter(|(_, bits)| *bits > 0).map(|(name, bits)| format!("{name}{bits}")).collect();
    Some(format!("{} unit={unit}ms epoch={}", fields.join(" "), display_time(epoch)))
}

/// The arguments of a call, or of an operator, of one of these functions.
unsafe fn called<const N: usize>(node: *mut Node, functions: &[u32]) -> Option<[*mut Node; N]> {
    // SAFETY: as above.
    unsafe {
        let (function, arguments) = if let Some(call) = cast::<FuncExpr>(node, NodeTag::T_FuncExpr) {
            ((*call).funcid, (*call).args)
        } else {
            let operator = cast::<OpExpr>(node, NodeTag::T_OpExpr)?;
            (pg_sys::get_opcode((*operator).opno), (*operator).args)
        };
        let is_one = functions.contains(&function.to_u32());
        if is_one { nodes(arguments).collect::<Vec<_>>().try_into().ok() } else { None }
    }
}

/// A constant that is not NULL.
unsafe fn constant(node: *mut Node) -> Option<*mut Const> {
    // SAFETY: as above.
    unsafe { cast::<Const>(node, NodeTag::T_Const).filter(|&constant| !(*constant).constisnull) }
}

/// The constant `'UTC'`.
unsafe fn is_utc(node: *mut Node) -> bool {
    // SAFETY: as above.
    unsafe {
        constant(node).is_some_and(|constant| {
            (*constant).consttype == TEXTOID && <&str>::from_datum((*constant).constvalue, false) == Some("UTC")
        })
    }
}

/// A constant of an integer type.
unsafe fn whole(node: *mut Node) -> Option<i64> {
    // SAFETY: the value is of the type.
    unsafe {
        let constant = constant(node)?;
        match (*constant).consttype {
            INT4OID => i32::from_datum((*constant).constvalue, false).map(i64::from),
            INT8OID => i64::from_datum((*constant).constvalue, false),
            _ => None,
        }
    }
}

/// A constant that is a number with a fraction.
unsafe fn number(node: *mut Node) -> Option<f64> {
    // SAFETY: as above.
    unsafe {
        let constant = constant(node)?;
        match (*constant).consttype {
            FLOAT8OID => f64::from_datum((*constant).constvalue, false),
            NUMERICOID => direct_function_call(pg_sys::numeric_float8, &[Some((*constant).constvalue)]),
            _ => None,
        }
    }
}
