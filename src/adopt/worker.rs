//! The background worker that advances a migration: it asks `snowflake_adopt.next()` what is to be done, and does it.
//!
//! A process of its own, so the session that called `run` or `finish` can end, and since CREATE INDEX CONCURRENTLY
//! runs in no function. It connects as the role that called `start`, and what it does to a table, it does as the
//! table's owner.

use super::bound::{self, Bound};
use super::database::{definer, in_transaction, migrations};
use super::launch::{launch, look_for_migrations_after};
use super::turns::{self, Workers};
use super::{caller, top_level};
use crate::postgres::sleep::{self, WaitEvent};
use crate::postgres::user::User;
use crate::postgres::{background_worker, command};
use pgrx::bgworkers::{BackgroundWorker, SignalWakeFlags};
use pgrx::pg_sys::panic::CaughtError;
use pgrx::prelude::*;
use std::ffi::{CStr, CString};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

/// So long, a worker goes on although others wait in its database, or may wait elsewhere.
const TURN: Duration = Duration::from_secs(10);
const LONG_TURN: Duration = Duration::from_secs(60);

/// The main function of a worker.
#[pg_guard]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn snowflake_adopt_worker(relation: pg_sys::Datum) {
    background_worker::end_when_told();
    BackgroundWorker::attach_signal_handlers(SignalWakeFlags::SIGHUP);
    bound::handle_cancels();
    let oids =
        BackgroundWorker::get_extra().split(' ').filter_map(|oid| oid.parse::<u32>().ok()).map(pg_sys::Oid::from);
    let &[database, role] = oids.collect::<Vec<_>>().as_slice() else { return };
    BackgroundWorker::connect_worker_to_spi_by_oid(Some(database), Some(role));
    settle();
    let migration = Migration(u32::try_from(relation.value()).expect("an OID"));
    turns::give_back_at_exit();
    if !migration.take_turn(role) {
        return;
    }
    if migration.is_of_this_role() {
        migration.carry_on(database, role);
    }
    migration.give_way(database, role);
}

/// By the table whose IDs are to become Snowflake IDs.
struct Migration(u32);

impl Migration {
    fn is_of_this_role(&self) -> bool {
        inside(|| command::run(&[format!("SELECT snowflake_adopt.carry({}::oid)", self.0).as_bytes()])) == Some(1)
    }

    /// Until there is nothing left to do, or another worker has begun in place of this one.
    fn carry_on(&self, database: pg_sys::Oid, role: pg_sys::Oid) {
        let mut begun = Instant::now();
        let mut has_succeeded = true;
        loop {
            let outcome = attempt(|| self.step(has_succeeded));
            has_succeeded = outcome.is_ok();
            if !has_succeeded && !self.take_turn(role) {
                return;
            }
            let Some(pause) = outcome.unwrap_or_else(|error| self.note(&error)) else { return };
            sleep::on_latch(Some(pause), WaitEvent::AdoptMain);
            pgrx::check_for_interrupts!();
            if BackgroundWorker::sighup_received() {
                // SAFETY: called by the main loop of a background worker, as PostgreSQL's own do.
                unsafe { pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP) };
            }
            if begun.elapsed() > TURN && (begun.elapsed() > LONG_TURN || self.next(role).is_some()) {
                begun = Instant::now();
                inside(|| {
                    command::run(&[format!("SELECT snowflake_adopt.rest_from_work({}::oid)", self.0).as_bytes()])
                });
                if self.give_way(database, role) || !self.take_turn(role) {
                    return;
                }
            }
        }
    }

    fn take_turn(&self, role: pg_sys::Oid) -> bool {
        in_transaction(|| turns::take(pg_sys::Oid::from(self.0), role))
    }

    /// The migration of this database that waits longest for this worker to end.
    fn next(&self, role: pg_sys::Oid) -> Option<[pg_sys::Oid; 2]> {
        let (now, waiting) = inside(|| (Workers::now(), migrations()));
        let then = now.clone().without(role);
        waiting.into_iter().find(|&[relation, of]| {
            relation.to_u32() != self.0 && now.waited_for_by(of).is_some() && then.waited_for_by(of).is_none()
        })
    }

    /// Lets another migration have a worker in place of this one, if there must not be more: one of this database, or
    /// whichever a look into all databases finds. Whether there is one, or will be a look.
    fn give_way(&self, database: pg_sys::Oid, role: pg_sys::Oid) -> bool {
        let (next, is_full) = (self.next(role), in_transaction(|| Workers::now().waited_for_by(role).is_some()));
        if !is_full {
            return false;
        }
        turns::give_back();
        match next {
            Some([relation, role]) => launch(relation, database, role).is_some(),
            None => look_for_migrations_after(database),
        }
    }

    /// Does what is next. Returns how long to wait then, or `None` if nothing is left to do.
    fn step(&self, has_succeeded: bool) -> Option<Duration> {
        let query = format!(
            "SELECT command, role, wait_ms, max_ms FROM snowflake_adopt.next({}::oid, {has_succeeded})",
            self.0
        );
        let query = CString::new(query).expect("no zero byte");
        let [command, role, wait, most] = inside(|| command::rows::<4>(&query)).pop()?;
        let number = |text: CString| text.to_str().ok()?.parse::<u64>().ok();
        if let Some(command) = command {
            let _bound = most.and_then(number).map(Duration::from_millis).map(Bound::begin);
            match role.and_then(number).and_then(|role| u32::try_from(role).ok()) {
                Some(role) => top_level::run(&command, pg_sys::Oid::from(role)),
                None => {
                    inside(|| command::run(&[command.as_bytes()]));
                }
            }
        }
        Some(Duration::from_millis(wait.and_then(number).unwrap_or(0)))
    }

    /// Notes that the last step has failed, and returns how long to wait before it is tried again.
    fn note(&self, (state, message): &(String, String)) -> Option<Duration> {
        let wait = inside(|| {
            // As pg_cancel_backend() has it, but for the time.
            let is_too_long = state == "57014" && bound::has_passed();
            let [state, message] = [state, message].map(pgrx::spi::quote_literal);
            let note = format!("SELECT snowflake_adopt.failed({}::oid, {state}, {message}, {is_too_long})", self.0);
            command::run(&[note.as_bytes()])
        });
        Some(Duration::from_millis(u64::try_from(wait?).unwrap_or(0)))
    }
}

/// Does this in a transaction, with the rights of our functions. Ends the process if they are there no more.
fn inside<T>(work: impl FnOnce() -> T) -> T {
    in_transaction(|| match definer() {
        Some(definer) => caller::inside(definer, work),
        // SAFETY: in the main loop of a background worker.
        #[allow(unreachable_code, reason = "its type says so only on some versions")]
        None => unsafe {
            pg_sys::proc_exit(0);
            unreachable!()
        },
    })
}

/// Settings of the role or the database could end a command, or let it do nothing.
fn settle() {
    in_transaction(|| {
        for (name, value) in [
            (c"search_path", c""),
            (c"lock_timeout", c"0"),
            #[cfg(not(any(feature = "pg15", feature = "pg16")))]
            (c"transaction_timeout", c"0"),
            (c"row_security", c"on"),
            // Else regular expressions in functions of ours are others.
            (c"standard_conforming_strings", c"on"),
            // Values in expressions, which are written as texts and read again.
            (c"datestyle", c"ISO, YMD"),
            (c"intervalstyle", c"postgres"),
            (c"extra_float_digits", c"1"),
            (c"array_nulls", c"on"),
            (c"xmloption", c"content"),
            (c"lc_monetary", c"C"),
            (c"default_transaction_isolation", c"read committed"),
            (c"default_transaction_read_only", c"off"),
            // An index without TABLESPACE is in that of the database.
            (c"default_tablespace", c""),
            // A default, which would let the commands be those of another role.
            (c"role", c"none"),
        ] {
            let (context, source) = (pg_sys::GucContext::PGC_USERSET, pg_sys::GucSource::PGC_S_SESSION);
            // SAFETY: in a transaction. The settings copy their values.
            unsafe { pg_sys::SetConfigOption(name.as_ptr(), value.as_ptr(), context, source) };
        }
    });
}

/// Does this. After an ERROR, ends the transaction as PostgreSQL's own backends do, and returns SQLSTATE and message.
fn attempt<T>(work: impl FnOnce() -> T) -> Result<T, (String, String)> {
    PgTryBuilder::new(AssertUnwindSafe(|| Ok(work())))
        .catch_others(|error| {
            let (CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)) = &error else {
                error.rethrow()
            };
            let detail = report.detail().map_or_else(String::new, |detail| format!(" ({detail})"));
            let error = (sqlstate(report.sql_error_code()), format!("{}{detail}", report.message()));
            // SAFETY: the process is in its main loop.
            unsafe {
                pg_sys::EmitErrorReport();
                pg_sys::AbortCurrentTransaction();
            }
            // A command at the top level was another role.
            std::mem::forget(User::of_session().begin());
            Err(error)
        })
        .execute()
}

/// As psql shows it.
fn sqlstate(code: PgSqlErrorCode) -> String {
    // SAFETY: returns a static C string for any number.
    unsafe { CStr::from_ptr(pg_sys::unpack_sql_state(code as i32)) }.to_string_lossy().into_owned()
}
