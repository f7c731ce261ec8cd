//! Checks values that would keep the next start from issuing IDs. ALTER SYSTEM refuses them, and a reload warns of
//! them. A server that starts with such a value keeps it, and issues no ID.

use super::files::last_setting;
use crate::config::{layout_cache, preload};
use crate::postgres::clock;
use crate::postgres::host_number::{self, Resolved, Unresolved};
use crate::postgres::server_encoding::displayable;
use pgrx::{pg_guard, pg_sys};
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;
use snowflake_core::server::number_source::SourceError;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ops::RangeInclusive;

/// How many bytes a value may have.
const LONGEST: usize = 1000;

/// Why a value is refused, as DETAIL, and what to set instead, as HINT.
#[derive(Debug)]
struct Refusal {
    detail: String,
    hint: Option<String>,
}

impl From<String> for Refusal {
    fn from(detail: String) -> Self {
        Self { detail, hint: None }
    }
}

/// Refuses a layout that cannot issue IDs.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn check_layout(
    new_value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    accepts(new_value, |text| Ok(check_numbers(&check_issuing(text)?)?))
}

/// The layout, if it can issue IDs now; else why not.
fn check_issuing(text: &CStr) -> Result<Layout, Refusal> {
    let layout = layout_cache::by_text(text.to_bytes()).map_err(|error| error.to_string())?;
    let now = clock::unix_ms();
    let refused = |reason: String| {
        let hint = layout
            .replacement(now)
            .map(|replacement| format!("Set it to \"{}\" instead. {replacement}", replacement.layout.short_text()));
        Refusal { detail: reason, hint }
    };
    layout.check_issuing().map_err(|error| refused(error.to_string()))?;
    layout.tick_at(now).map(|_| layout).map_err(|_| {
        let [first, last, now] = [layout.epoch(), layout.last_time(), now].map(display_time);
        refused(format!(
            "Its timestamps last {:.1} years, from {first} to {last}, and the clock shows {now}",
            layout.years()
        ))
    })
}

/// An error if the worker or the data center of the next start does not fit the layout.
fn check_numbers(layout: &Layout) -> Result<(), String> {
    for (name, now, range) in [
        (c"snowflake_pg.worker_id", super::worker_id(), layout.workers()),
        (c"snowflake_pg.datacenter_id", super::datacenter_id(), layout.datacenters()),
    ] {
        // A value from the command line is in no file, and remains.
        let next = last_setting(name).map_or_else(|| now.clone(), |set| set.value);
        let misfit =
            |text: &str| resolve(text).ok().map(|resolved| resolved.number).filter(|number| !range.contains(number));
        if let (Some(number), Some(_)) = (misfit(&next), misfit(&now)) {
            let (name, first, last) = (name.to_string_lossy(), range.start(), range.end());
            return Err(format!("{name} is {number}, and the layout allows {first} to {last}"));
        }
    }
    Ok(())
}

/// Refuses a worker ID that this server could not have now.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn check_worker(
    new_value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    accepts(new_value, |text| match resolve(&text.to_string_lossy()) {
        Err(Unresolved::Unset | Unresolved::Leased | Unresolved::InCitus) => Ok(()),
        // mutant: worker-in-layout
        resolution => {
            let hint = if is_negative(&resolution) {
                Some("If this server is to have no worker ID, set it to ''.".to_owned())
            } else {
                super::layout().ok().and_then(|layout| layout.flat_layout_hint())
            };
            check_number(resolution, Layout::workers).map_err(|detail| Refusal { detail, hint })
        }
    })
}

/// Refuses a data center that this server could not have now.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn check_datacenter(
    new_value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    accepts(new_value, |text| Ok(check_number(resolve(&text.to_string_lossy()), Layout::datacenters)?))
}

/// An error if no number was found on this host, or one that fits neither the layout in force nor the layout of the
/// next start.
fn check_number(
    resolution: Result<Resolved, Unresolved>,
    range: fn(&Layout) -> RangeInclusive<u64>,
) -> Result<(), String> {
    // It is out of the range of any layout.
    let resolved = if is_negative(&resolution) { None } else { Some(resolution.map_err(|reason| reason.to_string())?) };
    let fits = |layout: &Layout| resolved.as_ref().is_some_and(|resolved| range(layout).contains(&resolved.number));
    let Ok(layout) = super::layout() else { return Ok(()) };
    let next = || last_setting(c"snowflake_pg.layout").and_then(|set| layout_cache::by_text(set.value.as_bytes()).ok());
    if fits(&layout) || next().is_some_and(|next| fits(&next)) {
        return Ok(());
    }
    let range = range(&layout);
    let what = match &resolved {
        Some(resolved) if !resolved.is_configured() => {
            format!("The number is {} ({}), and layout", resolved.number, resolved.source)
        }
        _ => "Layout".to_owned(),
    };
    Err(format!("{what} {layout} allows {} to {}", range.start(), range.end()))
}

fn is_negative(resolution: &Result<Resolved, Unresolved>) -> bool {
    matches!(resolution, Err(Unresolved::Invalid(SourceError::Negative)))
}

/// The new value of a text parameter, as its hook gets it.
pub(super) fn text_of<'a>(new_value: *mut *mut c_char) -> &'a CStr {
    // SAFETY: PostgreSQL passes the address of the new value: a C string that outlives the hook, and not null, since
    // the default is not.
    unsafe { CStr::from_ptr(*new_value) }
}

/// Accepts a value, or passes the DETAIL and the HINT of its refusal to PostgreSQL. While the server starts, it accepts
/// any value.
fn accepts(new_value: *mut *mut c_char, check: impl FnOnce(&CStr) -> Result<(), Refusal>) -> bool {
    if preload::is_under_way() {
        return true;
    }
    let text = text_of(new_value);
    let checked = match text.count_bytes() {
        ..=LONGEST => check(text),
        length => Err(format!("It has {length} bytes, and at most {LONGEST} are allowed").into()),
    };
    let Err(Refusal { detail, hint }) = checked else { return true };
    let detail = CString::new(format!("{}.", displayable(&detail))).unwrap_or_default();
    // SAFETY: as GUC_check_errdetail() and GUC_check_errhint() do, with copies in PostgreSQL's memory. PostgreSQL reads
    // them right after the hook, in the same thread.
    unsafe {
        pg_sys::GUC_check_errdetail_string = pg_sys::pstrdup(detail.as_ptr());
        if let Some(hint) = hint.and_then(|hint| CString::new(hint).ok()) {
            pg_sys::GUC_check_errhint_string = pg_sys::pstrdup(hint.as_ptr());
        }
    }
    false
}

fn resolve(text: &str) -> Result<Resolved, Unresolved> {
    host_number::resolve(text, &super::data_directory())
}
