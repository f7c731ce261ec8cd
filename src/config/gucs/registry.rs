//! The parameters of the registry that leases workers.

use super::checks::text_of;
use super::parameter::{Choice, Define, Number, Parameter, Text};
use crate::config::preload;
use crate::postgres::failure::Failure;
use crate::postgres::libpq;
use pgrx::pg_sys::GucContext::PGC_SIGHUP;
use pgrx::pg_sys::{GUC_SUPERUSER_ONLY, GUC_UNIT_MS, GUC_UNIT_S};
use pgrx::{pg_guard, pg_sys};
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::time::Duration;

pub(super) static PARAMETERS: &[&dyn Define] =
    &[&REGISTRY_CONNINFO, &REGISTRY_LEASE, &MAX_CLOCK_OFFSET, &CLOCK_OFFSET_ACTION];

static REGISTRY_CONNINFO: Parameter<Text> = Parameter {
    name: c"snowflake_pg.registry_conninfo",
    short: c"Sets the connection string of the registry that leases worker IDs.",
    long: c"A connection string of libpq, without a password. Empty: no registry. A server with a configured worker \
            ID leases only that one.",
    context: PGC_SIGHUP,
    // mutant: conninfo-hidden
    flags: GUC_SUPERUSER_ONLY,
    value: Text::checked(c"", check_registry),
};

/// The connection string of the registry; empty if there is none.
pub fn registry() -> String {
    REGISTRY_CONNINFO.get_lossy()
}

/// Why a text cannot be the connection string of the registry, and a hint. Neither quotes the text, since it may have a
/// password.
///
/// PostgreSQL logs the new value when a parameter is changed, so a password cannot be in it.
pub fn objection(conninfo: &CStr) -> Option<(&'static CStr, &'static CStr)> {
    // mutant: conninfo-password
    if libpq::parse(conninfo).is_none() {
        let hint = c"Valid values are as in \"host=registry.example dbname=registry user=fleet\".";
        Some((c"snowflake_pg.registry_conninfo is not a connection string", hint))
    } else if libpq::has_secret(conninfo) {
        let hint = c"Use a password file: see passfile in the manual of libpq.";
        Some((c"snowflake_pg.registry_conninfo must not contain a password", hint))
    } else {
        None
    }
}

/// Replaces a connection string with a password, and is refused for the same reason.
const HIDDEN: &CStr = c"password=*";

/// Refuses a value to which there is an [`objection`]. A server that starts with one says so, and leases no worker.
#[pg_guard]
unsafe extern "C-unwind" fn check_registry(
    new_value: *mut *mut c_char,
    _extra: *mut *mut c_void,
    _source: pg_sys::GucSource::Type,
) -> bool {
    let text = text_of(new_value);
    let Some((reason, hint)) = objection(text) else { return true };
    if preload::is_under_way() {
        if libpq::has_secret(text) {
            // So no view shows the password.
            // SAFETY: PostgreSQL passes the address of its own copy of the value, and none with a secret is shorter.
            unsafe { ptr::copy_nonoverlapping(HIDDEN.as_ptr(), *new_value, HIDDEN.count_bytes() + 1) };
        }
        return true;
    }
    // PostgreSQL's own message would quote the value.
    // SAFETY: as GUC_check_errmsg() and GUC_check_errhint() do, with copies in PostgreSQL's memory. PostgreSQL reads
    // them right after the hook, in the same thread.
    unsafe {
        pg_sys::GUC_check_errmsg_string = pg_sys::pstrdup(reason.as_ptr());
        pg_sys::GUC_check_errhint_string = pg_sys::pstrdup(hint.as_ptr());
    }
    false
}

/// Why no registry can be asked.
pub fn unset() -> Failure {
    Failure {
        hint: "Set it, and reload the configuration.".to_owned(),
        ..Failure::local("snowflake_pg.registry_conninfo is not set")
    }
}

static REGISTRY_LEASE: Parameter<Number> = Parameter {
    name: c"snowflake_pg.registry_lease",
    short: c"Sets how long IDs can be issued while the registry is down.",
    long: c"This is the length of a lease. The registry can allow less. The lease is renewed after a third of it. \
            After a crash, other servers can get the worker when the lease ends.",
    context: PGC_SIGHUP,
    flags: GUC_UNIT_S,
    value: Number::new(3_600, 5..=86_400),
};

/// How long a lease is.
pub fn registry_lease() -> Duration {
    Duration::from_secs(REGISTRY_LEASE.get())
}

static MAX_CLOCK_OFFSET: Parameter<Number> = Parameter {
    name: c"snowflake_pg.max_clock_offset",
    short: c"Sets how much the clock may differ from the registry's, or from another server's in a fleet check.",
    long: c"A larger difference is logged. clock_offset_action sets what it means for a start.",
    context: PGC_SIGHUP,
    flags: GUC_UNIT_MS,
    value: Number::new(1_000, 1..=86_400_000),
};

/// How much the clock may differ from the registry's, in milliseconds.
pub fn max_clock_offset_ms() -> u64 {
    MAX_CLOCK_OFFSET.get()
}

static CLOCK_OFFSET_ACTION: Parameter<Choice<ClockOffsetAction>> = Parameter {
    name: c"snowflake_pg.clock_offset_action",
    short: c"Sets what happens at start if the clock differs from the registry's by more than max_clock_offset.",
    long: c"",
    context: PGC_SIGHUP,
    flags: 0,
    value: Choice::new(ClockOffsetAction::Warn),
};

/// What happens at start if the clock differs too much from the registry's.
#[derive(Clone, Copy, PartialEq)]
enum ClockOffsetAction {
    Warn,
    Error,
}

snowflake_core::words!(ClockOffsetAction {
    Warn = "warn": "a warning in the server log",
    Error = "error": "no ID is issued until the clock is right",
});

/// Whether a server whose clock differs more issues no ID at start.
pub fn must_start_with_right_clock() -> bool {
    match CLOCK_OFFSET_ACTION.get() {
        ClockOffsetAction::Warn => false,
        ClockOffsetAction::Error => true,
    }
}
