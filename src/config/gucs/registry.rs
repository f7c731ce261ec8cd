//! The parameters of the registry that leases workers.

use super::checks::text_of;
use super::{define_choice, define_number, milliseconds, text, words};
use crate::config::preload;
use crate::postgres::failure::Failure;
use crate::postgres::libpq;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::{pg_guard, pg_sys};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::time::Duration;

static REGISTRY_CONNINFO: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c""));
static REGISTRY_LEASE: GucSetting<i32> = GucSetting::<i32>::new(3_600);
static MAX_CLOCK_OFFSET: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static CLOCK_OFFSET_ACTION: GucSetting<ClockOffsetAction> =
    GucSetting::<ClockOffsetAction>::new(ClockOffsetAction::Warn);

/// What happens at start if the clock differs too much from the registry's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockOffsetAction {
    /// A warning.
    Warn,
    /// No ID is issued.
    Error,
}

words!(ClockOffsetAction { Warn = c"warn", Error = c"error" });

/// Defines these parameters; see [`super::define`].
pub(super) fn define() {
    // SAFETY: the check is guarded against panics by #[pg_guard].
    unsafe {
        GucRegistry::define_string_guc_with_hooks(
            c"snowflake_pg.registry_conninfo",
            c"Sets the connection string of the registry that leases worker IDs.",
            c"As libpq reads it, without a password. Empty: there is no registry. A server with a worker ID of its own \
                leases that one alone.",
            &REGISTRY_CONNINFO,
            GucContext::Sighup,
            GucFlags::SUPERUSER_ONLY,
            Some(check_registry),
            None,
            None,
        );
    }
    define_number(
        c"snowflake_pg.registry_lease",
        c"Sets how long IDs go on while the registry is away.",
        c"This is the length of a lease. The registry can allow less. The lease is renewed after a third of it. After a \
            crash the worker is free for others when the lease ends.",
        &REGISTRY_LEASE,
        5,
        86_400,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    define_number(
        c"snowflake_pg.max_clock_offset",
        c"Sets how much the clock may differ from the registry's, or from another server's in a fleet check.",
        c"A larger difference is logged. clock_offset_action sets what it means for a start.",
        &MAX_CLOCK_OFFSET,
        1,
        86_400_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    define_choice(
        c"snowflake_pg.clock_offset_action",
        c"Sets what happens at start if the clock differs from the registry's by more than max_clock_offset.",
        c"warn: a warning in the server log. error: no ID is issued until the clock is right.",
        &CLOCK_OFFSET_ACTION,
        GucContext::Sighup,
        GucFlags::default(),
    );
}

/// Why this is no connection string for the registry, and a hint. They do not quote it, since it may have a password.
///
/// PostgreSQL logs the new value when a parameter is changed, so a password cannot be in it.
pub fn objection(conninfo: &CStr) -> Option<(&'static CStr, &'static CStr)> {
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

/// What takes the place of a connection string with a password, and is refused for the same reason.
const HIDDEN: &CStr = c"password=*";

/// Refuses such a value. A server that starts with it says so, and leases no worker.
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
            // No view shows it then.
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

/// The connection string of the registry; empty if there is none.
pub fn registry() -> String {
    text(&REGISTRY_CONNINFO)
}

/// How long a lease is.
pub fn registry_lease() -> Duration {
    Duration::from_secs(u64::try_from(REGISTRY_LEASE.get()).expect("the variable's range begins above 0"))
}

/// How much the clock may differ from the registry's, in milliseconds.
pub fn max_clock_offset_ms() -> u64 {
    milliseconds(&MAX_CLOCK_OFFSET)
}

/// What happens at start if it differs more.
pub fn clock_offset_action() -> ClockOffsetAction {
    CLOCK_OFFSET_ACTION.get()
}
