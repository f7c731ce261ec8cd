//! PostgreSQL extension: 64-bit, time-ordered, decodable Snowflake IDs that are never issued twice.
//!
//! This crate is the boundary to PostgreSQL; what an ID is, and when one may be issued, stands in `snowflake_core`.
//! From the outside in:
//!
//! - `functions`: what SQL sees, one file for each family; `sql/snowflake_pg.sql` declares it.
//! - [`issuer`]: gives IDs to a backend; [`wait`] waits for the clock.
//! - [`mark`] keeps the durable mark ahead of them; [`keeper`] does so in the background, [`wal_mark`] by way of the
//!   write-ahead log; [`shutdown`] lowers it when the server ends as planned; [`identity`] tells whose it is.
//! - [`layouts`]: by their text; [`encoding`]: of texts.
//! - [`startup_log`]: what the server log says of the configuration.
//! - [`preload`], [`gucs`], [`shmem`] with [`statistics`] and [`turns`], [`clock`], [`counter`], [`trusted_clock`], [`state_file`],
//!   [`errors`]: configuration, shared memory, time and which of it to believe, disk, refusals.

#![allow(unsafe_code, reason = "this crate is the boundary to C; the core forbids it")]

use pgrx::prelude::*;

mod clock;
mod counter;
mod durable;
mod encoding;
mod errors;
mod exit_hook;
mod functions;
mod gucs;
mod issuer;
mod layouts;
mod preload;
mod shmem;
mod sleep;
mod startup_log;
mod statistics;
mod throttle;
mod trusted_clock;
mod turns;
mod wait;

::pgrx::pg_module_magic!(name, version);

/// What `make install` looks for, before a PostgreSQL of another version gets this library and does not start any more.
// SAFETY: no other library has this symbol. An exported one stays when the linker leaves out what nobody uses.
#[unsafe(no_mangle)]
pub static SNOWFLAKE_PG_BUILT_FOR: [u8; 36] = {
    let mut text = *b"snowflake_pg built for PostgreSQL ..";
    let major = pg_sys::PG_MAJORVERSION.to_bytes();
    (text[34], text[35]) = (major[0], major[1]);
    text
};

// For cargo-pgrx, which builds the script of the extension itself; `make install` copies this file.
extension_sql_file!("../sql/snowflake_pg.sql", name = "snowflake_pg");

/// Called by PostgreSQL when it loads the library: in the postmaster when it is preloaded, else in one session.
///
/// Without preload there is no shared memory and so no generator, but everything else works: CREATE EXTENSION,
/// restoring a dump, and decoding.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    errors::forbid_backtraces();
    if preload::is_under_way() {
        preload::note();
        gucs::define();
        counter::measure();
        shmem::reserve(|| {
            durable::shutdown::prepare();
            trusted_clock::first_anchor()
        });
        durable::keeper::register();
        functions::copy::watch();
        functions::layout_constant::watch();
        startup_log::write();
    }
}
