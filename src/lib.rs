//! PostgreSQL extension: 64-bit, time-ordered, decodable Snowflake IDs that are never issued twice.
//!
//! This crate is the boundary to PostgreSQL. `snowflake_core` defines what an ID is, and when one may be issued.
//! docs/architecture.md shows which module uses which.

#![warn(missing_docs)]
#![allow(unsafe_code, reason = "this crate is the boundary to C; the core forbids it")]

use config::{gucs, preload};
use pgrx::prelude::*;
use postgres::tsc;

mod adopt;
mod config;
mod durable;
mod errors;
mod functions;
mod hooks;
mod issue;
mod postgres;
mod registry;
mod shared;
mod startup_log;
mod stops;
mod trusted_clock;
mod worker;

::pgrx::pg_module_magic!(name, version);

/// What `make install` looks for, so that it never installs the library for another version of PostgreSQL, which would
/// not start then.
// SAFETY: no other library has this symbol. An exported one stays when the linker leaves out what nobody uses.
#[unsafe(no_mangle)]
pub static SNOWFLAKE_PG_BUILT_FOR: [u8; 37] = {
    // The linker may put a digit right behind it.
    let mut text = *b"snowflake_pg built for PostgreSQL ...";
    let major = pg_sys::PG_MAJORVERSION.to_bytes();
    (text[34], text[35]) = (major[0], major[1]);
    text
};

// For cargo-pgrx, which builds the script of the extension itself; `make install` joins these files. They use names
// that pgrx gives to functions (`…_wrapper`): CREATE EXTENSION, which every test on servers runs, fails if one of them
// is missing.
extension_sql_file!("../sql/extension/01_issue.sql", name = "issue");
extension_sql_file!("../sql/extension/02_place.sql", name = "place", requires = ["issue"]);
extension_sql_file!("../sql/extension/03_decode.sql", name = "decode", requires = ["place"]);
extension_sql_file!("../sql/extension/04_within.sql", name = "within", requires = ["decode"]);
extension_sql_file!("../sql/extension/05_created_at.sql", name = "created_at", requires = ["within"]);
extension_sql_file!("../sql/extension/06_partitions.sql", name = "partitions", requires = ["created_at"]);
extension_sql_file!("../sql/extension/07_read.sql", name = "read", requires = ["partitions"]);
extension_sql_file!("../sql/extension/08_text.sql", name = "text", requires = ["read"]);
extension_sql_file!("../sql/extension/09_type.sql", name = "type", requires = ["text"]);
extension_sql_file!("../sql/extension/10_layouts.sql", name = "layouts", requires = ["type"]);
extension_sql_file!("../sql/extension/11_status.sql", name = "status", requires = ["layouts"]);
extension_sql_file!("../sql/extension/12_fleet.sql", name = "fleet", requires = ["status"]);
extension_sql_file!("../sql/extension/13_admin.sql", name = "admin", requires = ["fleet"]);

/// Called by PostgreSQL when it loads the library: in the postmaster when it is preloaded, else in one session.
///
/// Without preload there is no shared memory and so no generator, but everything else works: CREATE EXTENSION,
/// restoring a dump, and decoding.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    if preload::is_under_way() {
        preload::record();
        gucs::define();
        worker::find();
        if gucs::may_use_time_stamp_counter() {
            tsc::measure();
        }
        shared::reserve(|| {
            durable::directory_lock::open();
            durable::shutdown::prepare();
            (trusted_clock::first_jump_guard(), durable::trace::open(), shared::machine::first_generation())
        });
        issue::writer::watch();
        durable::keeper::register(|| {
            startup_log::write_for_collector();
            adopt::resume::look_for_migrations();
        });
        registry::client::register();
        hooks::utility::watch();
        hooks::planner::watch();
        startup_log::write();
    }
}
