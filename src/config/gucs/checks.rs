//! Checks values that would keep the next start from issuing IDs. ALTER SYSTEM refuses them, and a reload warns of
//! them. A server that starts with such a value keeps it, and issues no ID.

use super::files::last_setting;
use crate::clock;
use crate::config::{layout_cache, preload};
use crate::server_encoding::shown;
use pgrx::{pg_guard, pg_sys};
use snowflake_core::display_time;
use snowflake_core::layout::Layout;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::RangeInclusive;

/// Refuses a layout that cannot issue IDs.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn check_layout(
    new_value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the address of the new value.
    let value = unsafe { *new_value };
    // SAFETY: the new value is a C string, since the default is not NULL.
    let text = unsafe { CStr::from_ptr(value) };
    preload::is_under_way() || accept(check_issuing(text).and_then(|layout| check_numbers(&layout)))
}

/// The layout, if it can issue IDs now; else why not.
fn check_issuing(text: &CStr) -> Result<Layout, String> {
    let layout = layout_cache::by_text(text.to_bytes()).map_err(|error| error.to_string())?;
    layout.check_issuing().map_err(|error| error.to_string())?;
    let now = clock::unix_ms();
    layout.tick_at(now).map(|_| layout).map_err(|_| {
        let [first, last, now] = [layout.epoch(), layout.last_time(), now].map(display_time);
        format!("Its timestamps last {:.1} years, from {first} to {last}, and the clock shows {now}", layout.years())
    })
}

/// An error if the worker or the data center of the next start does not fit the layout.
fn check_numbers(layout: &Layout) -> Result<(), String> {
    for (name, now, range) in [
        (c"snowflake_pg.worker_id", super::worker_id().unwrap_or(-1), layout.workers()),
        (c"snowflake_pg.datacenter_id", super::datacenter_id(), layout.datacenters()),
    ] {
        // A value from the command line is in no file, and remains.
        let next = last_setting(name).and_then(|set| set.number()).unwrap_or(now);
        let fits = |number: i32| u64::try_from(number).is_ok_and(|number| range.contains(&number));
        if next != -1 && !fits(next) && !fits(now) {
            let (name, first, last) = (name.to_string_lossy(), range.start(), range.end());
            return Err(format!("{name} is {next}, and the layout allows {first} to {last}"));
        }
    }
    Ok(())
}

/// Refuses a worker ID that does not fit the layout.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn check_worker(
    new_value: *mut c_int,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the address of the new value.
    let value = unsafe { *new_value };
    preload::is_under_way() || value == -1 || accept(check_number(value, Layout::workers))
}

/// Refuses a data center that does not fit the layout.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn check_datacenter(
    new_value: *mut c_int,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    // SAFETY: PostgreSQL passes the address of the new value.
    let value = unsafe { *new_value };
    preload::is_under_way() || accept(check_number(value, Layout::datacenters))
}

/// An error if a number fits neither the layout in force nor the layout of the next start.
fn check_number(number: c_int, range: fn(&Layout) -> RangeInclusive<u64>) -> Result<(), String> {
    let fits = |layout: &Layout| u64::try_from(number).is_ok_and(|number| range(layout).contains(&number));
    let Ok(layout) = super::layout() else { return Ok(()) };
    let next = || last_setting(c"snowflake_pg.layout").and_then(|set| layout_cache::by_text(set.value.as_bytes()).ok());
    if fits(&layout) || next().is_some_and(|next| fits(&next)) {
        return Ok(());
    }
    let range = range(&layout);
    Err(format!("Layout {layout} allows {} to {}", range.start(), range.end()))
}

/// Accepts a value, or passes the DETAIL of its refusal to PostgreSQL.
fn accept(checked: Result<(), String>) -> bool {
    let Err(reason) = checked else { return true };
    let detail = CString::new(format!("{}.", shown(&reason))).unwrap_or_default();
    // SAFETY: copies a C string into PostgreSQL's memory.
    let detail = unsafe { pg_sys::pstrdup(detail.as_ptr()) };
    // SAFETY: as GUC_check_errdetail() does; PostgreSQL reads it right after the hook, in the same thread.
    unsafe { pg_sys::GUC_check_errdetail_string = detail };
    false
}
