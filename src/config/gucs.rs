//! The configuration parameters.
//!
//! They exist only if the library is preloaded: PostgreSQL does not let a library that is loaded later define
//! parameters that are fixed when the server starts. The rest of the code gets typed values and never a setting.

use crate::config::{layout_cache, preload};
use once_cell::sync::OnceCell;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;
use snowflake_core::id::layout::{Layout, LayoutError};
use snowflake_core::mark;
use snowflake_core::mark::reservation;
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

mod checks;
pub mod files;
mod policy;
pub mod registry;
mod serial;
mod set;
mod strict;
mod words;

use checks::{CheckHook, check_datacenter, check_layout, check_worker};
use strict::{define_choice, define_number};
use words::words;

pub use policy::{clock_regression, max_borrow_ms, max_wait_ms, policy, sequence_exhaustion, sequence_start};
pub use serial::{has_serial_schemas, is_serial_schema, widens_serial};
pub use set::set_parameters;
pub use strict::{InvalidSetting, invalid_setting};

const DEFAULT_LAYOUT: &CStr = c"flat";

static WORKER_ID: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"-1"));
static DATACENTER_ID: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"0"));
static LAYOUT: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(DEFAULT_LAYOUT));
static RESERVE_AHEAD: GucSetting<i32> = GucSetting::<i32>::new(2_000);
static KEEP_WARM: GucSetting<i32> = GucSetting::<i32>::new(60);
static START_MARGIN: GucSetting<i32> = GucSetting::<i32>::new(1_000);
static MAX_FORWARD_JUMP: GucSetting<i32> = GucSetting::<i32>::new(3_600_000);
static TIME_STAMP_COUNTER: GucSetting<TimeStampCounter> =
    GucSetting::<TimeStampCounter>::new(TimeStampCounter::DEFAULT);
static TRACK_WRITERS: GucSetting<bool> = GucSetting::<bool>::new(true);
static WAL_MARK: GucSetting<WalMark> = GucSetting::<WalMark>::new(WalMark::Prefer);
static CITUS_DATABASE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"postgres"));
static STATE_DIRECTORY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"snowflake_pg"));

/// Whether the CPU's time-stamp counter may stand in for the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeStampCounter {
    /// If the kernel keeps time by it.
    Auto,
    /// No: every ID reads the clock.
    Off,
}

impl TimeStampCounter {
    /// Off on arm64: it has run under QEMU alone, whose counter is a clock of the machine below it.
    const DEFAULT: Self = if cfg!(target_arch = "x86_64") { Self::Auto } else { Self::Off };
}

words!(TimeStampCounter { Auto = c"auto", Off = c"off" | c"false" | c"no" | c"0" });

/// [`mark::WalMark`] as PostgreSQL spells it.
#[derive(Clone, Copy)]
enum WalMark {
    Off,
    Prefer,
    Require,
}

words!(WalMark { Off = c"off" | c"false" | c"no" | c"0", Prefer = c"prefer", Require = c"require" });

/// Defines all parameters. Only in the postmaster, while it preloads.
pub fn define() {
    for (name, short, long, setting, check) in [
        (
            c"snowflake_pg.worker_id",
            c"Sets the worker ID of this server, or where it comes from.",
            c"A number, or hostname, env:VARIABLE, file:/path, ipv4, ipv4:network/bits, citus or registry. No two servers of \
                a data center may have the same number. -1: none is set, and no ID is issued.",
            &WORKER_ID,
            check_worker as CheckHook,
        ),
        (
            c"snowflake_pg.datacenter_id",
            c"Sets the data center of this server, or where it comes from.",
            c"A number, or a source as for worker_id. Only for layouts with this field.",
            &DATACENTER_ID,
            check_datacenter,
        ),
        (
            c"snowflake_pg.layout",
            c"Sets which bits of an ID are its timestamp, data center, worker and sequence.",
            c"A name in snowflake_layouts, or fields from the highest bits to the lowest (t41 d5 w5 s12), then unit= \
                and epoch=. Equal on all servers of a fleet.",
            &LAYOUT,
            check_layout,
        ),
    ] {
        let (context, flags) = (GucContext::Postmaster, GucFlags::default());
        // SAFETY: the check is guarded against panics by #[pg_guard].
        unsafe {
            GucRegistry::define_string_guc_with_hooks(name, short, long, setting, context, flags, Some(check), None, None);
        }
    }
    policy::define();
    registry::define();
    serial::define();
    define_number(
        c"snowflake_pg.reserve_ahead",
        c"Sets how far the durable mark is ahead of the clock.",
        c"The mark is a time on disk that no ID reaches, and at which IDs continue after a crash. A larger value means \
            fewer writes, and IDs further ahead after a crash.",
        &RESERVE_AHEAD,
        100,
        60_000,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    define_number(
        c"snowflake_pg.keep_warm",
        c"Sets how long after the last ID the durable mark is kept ahead of the clock.",
        c"A call within this time does not wait for the disk. 0: only while IDs are issued.",
        &KEEP_WARM,
        0,
        86_400,
        GucContext::Sighup,
        GucFlags::UNIT_S,
    );
    define_number(
        c"snowflake_pg.start_margin",
        c"Sets how far ahead of the clock IDs begin after a promotion, or without a durable mark.",
        c"At least reserve_ahead is used. The clocks of servers with the same worker should differ by less.",
        &START_MARGIN,
        0,
        86_400_000,
        GucContext::Postmaster,
        GucFlags::UNIT_MS,
    );
    define_number(
        c"snowflake_pg.max_forward_jump",
        c"Sets how far the clock may jump ahead and be trusted at once.",
        c"A larger jump is trusted after a minute, or by snowflake_accept_clock(). IDs follow the old clock until then.",
        &MAX_FORWARD_JUMP,
        1_000,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    define_choice(
        c"snowflake_pg.time_stamp_counter",
        c"Sets whether the CPU's time-stamp counter may stand in for the clock, for a millisecond at most.",
        c"auto: where the kernel keeps time by it. off: every ID reads the clock.",
        &TIME_STAMP_COUNTER,
        GucContext::Postmaster,
        GucFlags::NO_SHOW_ALL,
    );
    GucRegistry::define_bool_guc(
        c"snowflake_pg.track_writers",
        c"Keeps the first ID of each transaction until it ends, for readers by ID.",
        c"snowflake_horizon(), snowflake_poll() and snowflake_writers need it.",
        &TRACK_WRITERS,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    define_choice(
        c"snowflake_pg.wal_mark",
        c"Sets whether the durable mark is also written to WAL, for standbys.",
        c"prefer: it is. require: it is, and synchronous standbys must have it. off: it is not.",
        &WAL_MARK,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"snowflake_pg.citus_database",
        c"Sets the database with the metadata of Citus, for worker_id = citus.",
        c"The number of this node is read from it.",
        &CITUS_DATABASE,
        GucContext::Postmaster,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"snowflake_pg.state_directory",
        c"Sets the directory of the durable mark.",
        c"Relative to the data directory, or absolute. An absolute one must exist and belong to this server alone.",
        &STATE_DIRECTORY,
        GucContext::Postmaster,
        GucFlags::SUPERUSER_ONLY,
    );
    // SAFETY: the prefix is a C string that lives as long as the process.
    unsafe { pg_sys::MarkGUCPrefixReserved(c"snowflake_pg".as_ptr()) };
}

/// The text of a parameter in the configuration files, on the command line or from SET, also of one that is not
/// defined.
pub fn raw_setting(name: &CStr) -> Option<CString> {
    // SAFETY: takes a C string, and gives another one, which is copied before anything can change the parameter. It is
    // null for a parameter that is not set, as missing_ok is true.
    unsafe {
        let value = pg_sys::GetConfigOption(name.as_ptr(), true, false);
        (!value.is_null()).then(|| CStr::from_ptr(value).to_owned())
    }
}

/// The worker ID, or where it comes from: a text of [`snowflake_core::server::number_source`].
pub fn worker_id() -> String {
    text(&WORKER_ID)
}

/// The data center, or where it comes from.
pub fn datacenter_id() -> String {
    text(&DATACENTER_ID)
}

fn text(setting: &'static GucSetting<Option<CString>>) -> String {
    setting.get().unwrap_or_default().to_string_lossy().into_owned()
}

/// The text of the layout. Without preload the parameter is not defined, but PostgreSQL keeps its text.
pub fn layout_text() -> CString {
    let text = if preload::is_done() { LAYOUT.get() } else { raw_setting(c"snowflake_pg.layout") };
    text.unwrap_or_else(|| DEFAULT_LAYOUT.to_owned())
}

/// The layout in force.
pub fn layout() -> Result<Layout, LayoutError> {
    static PRELOADED: OnceCell<Layout> = OnceCell::new();
    if preload::is_done() {
        PRELOADED.get_or_try_init(|| layout_cache::by_text(layout_text().to_bytes())).copied()
    } else {
        layout_cache::by_text(layout_text().to_bytes())
    }
}

/// How far the durable mark is ahead of the clock, in milliseconds.
pub fn reserve_ahead_ms() -> u64 {
    milliseconds(&RESERVE_AHEAD)
}

/// How long after the last ID the mark is still kept ahead of the clock.
pub fn keep_warm() -> Duration {
    Duration::from_secs(u64::try_from(KEEP_WARM.get()).expect("the variable's range begins at 0"))
}

/// How far above the clock a server begins that cannot know what was issued before, in milliseconds.
pub fn start_margin_ms(layout: &Layout) -> u64 {
    let borrows_ticks = sequence_exhaustion().borrows_ticks();
    reservation::start_margin_ms(
        least_start_margin_ms(),
        reserve_ahead_ms(),
        layout.tick_ms(),
        borrows_ticks,
        max_borrow_ms(),
    )
}

/// `snowflake_pg.start_margin`, in milliseconds: the least start margin.
fn least_start_margin_ms() -> u64 {
    milliseconds(&START_MARGIN)
}

/// The largest jump ahead that is trusted at once, in milliseconds.
pub fn max_forward_jump_ms() -> u64 {
    milliseconds(&MAX_FORWARD_JUMP)
}

/// Whether the time-stamp counter may be used.
pub fn time_stamp_counter() -> TimeStampCounter {
    TIME_STAMP_COUNTER.get()
}

/// Whether the first ID of each transaction is kept until it ends.
pub fn track_writers() -> bool {
    TRACK_WRITERS.get()
}

/// Whether the durable mark is also written to WAL, and so sent to standbys.
pub fn wal_mark() -> mark::WalMark {
    match WAL_MARK.get() {
        WalMark::Off => mark::WalMark::Off,
        WalMark::Prefer => mark::WalMark::Prefer,
        WalMark::Require => mark::WalMark::Require,
    }
}

/// The database with the metadata of Citus.
pub fn citus_database() -> CString {
    CITUS_DATABASE.get().unwrap_or_default()
}

fn milliseconds(setting: &'static GucSetting<i32>) -> u64 {
    u64::try_from(setting.get()).expect("the variable's range begins at 0")
}

/// The directory of the durable mark: absolute, or relative to the data directory.
pub fn state_directory() -> PathBuf {
    PathBuf::from(OsString::from_vec(STATE_DIRECTORY.get().unwrap_or_default().into_bytes()))
}

/// The data directory of the server.
pub fn data_directory() -> PathBuf {
    // SAFETY: PostgreSQL sets it before it loads any library, to a C string that lives as long as the process.
    let data_directory = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(OsString::from_vec(data_directory.to_bytes().to_vec()))
}
