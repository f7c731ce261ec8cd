//! The lives of workers that this server knows.

use super::row::{Row, column};
use super::time::timestamptz;
use crate::config::{gucs, preload};
use crate::durable::trace;
use crate::errors::IssueError;
use crate::postgres::report::{error_report, raise};
use crate::shared::{Shared, shared};
use pgrx::JsonB;
use pgrx::prelude::*;
use serde_json::{Value, json};
use snowflake_core::display_time;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::lives::LifeSpan;
use std::cell::RefCell;
use std::sync::atomic::Ordering;

/// A life, and what this server knows of it now.
pub struct Known {
    /// What is in the file. Of a life that still runs, all IDs up to now are below its mark.
    pub life: LifeSpan,
    /// Whether it is a life of this server.
    pub is_own: bool,
    is_running: bool,
}

/// The lives that this server knows, in their order; `None` if the present one, or one between others, cannot be read.
pub fn known() -> Option<Vec<Known>> {
    if !preload::is_done() {
        IssueError::NotPreloaded.raise();
    }
    read()
}

fn read() -> Option<Vec<Known>> {
    // Before the file: a life that begins meanwhile counts as one that does not run yet.
    let running = running();
    let (server, lives) = read_file(running)?;
    Some(lives.into_iter().map(|life| now(life, server, running)).collect())
}

/// The place of the life that runs; 0 if none does.
fn running() -> u64 {
    let Shared { generator, last_life, .. } = shared();
    if generator.is_started() { last_life.load(Ordering::Relaxed) } else { 0 }
}

/// The number of the file of this server, and the lives in it, up to the one that runs.
fn read_file(running: u64) -> Option<(u64, Vec<LifeSpan>)> {
    // A life that is being written can be read half.
    (0..READS).find_map(|_| trace::lives().filter(|(_, lives)| is_whole(lives, running)))
}

/// What is known now of a life in the file of a server.
fn now(life: LifeSpan, server: u64, running: u64) -> Known {
    let (is_own, is_running) = (life.server == server, life.nth == running);
    if !is_running {
        return Known { life, is_own, is_running };
    }
    let until = shared().last_timestamp(&life.layout).saturating_add(life.layout.tick_ms());
    Known { life: life.until(until.max(life.first)), is_own, is_running }
}

thread_local! {
    /// What the statement that began then has read, while this life ran.
    static OF_STATEMENT: RefCell<(pg_sys::TimestampTz, u64, u64, Vec<LifeSpan>)> = const { RefCell::new((0, 0, 0, Vec::new())) };
}

/// Does something with the number of the file of this server, and the lives in it, which a statement reads once.
fn with_lives<T>(running: u64, act: impl FnOnce(u64, &[LifeSpan]) -> T) -> T {
    // SAFETY: reads when the statement began.
    let statement = unsafe { pg_sys::GetCurrentStatementStartTimestamp() };
    OF_STATEMENT.with_borrow_mut(|(of, while_running, server, lives)| {
        if (*of, *while_running) != (statement, running) {
            (*server, *lives) = read_file(running).unwrap_or_default();
            (*of, *while_running) = (statement, running);
        }
        act(*server, lives)
    })
}

/// How often the file is read, if a life is missing.
const READS: usize = 3;

/// Whether none is missing between the first and the last, and the present one is there.
fn is_whole(lives: &[LifeSpan], running: u64) -> bool {
    let is_next = |pair: &[LifeSpan]| pair[1].nth == pair[0].nth + 1;
    lives.windows(2).all(is_next) && (running == 0 || lives.last().is_some_and(|last| last.nth >= running))
}

/// A line for each life that can have issued this ID: one, unless it was issued twice.
pub fn of_id(id: i64, layout: &Layout) -> String {
    let (Ok(id), true) = (u64::try_from(id), preload::is_done()) else { return String::new() };
    let (at, of, running) = (layout.issued_at(id), (layout.server_of(id), layout.flat()), running());
    with_lives(running, |server, lives| {
        let of_worker = lives.iter().filter(|life| (life.worker, life.layout) == of);
        let known = of_worker.map(|&life| now(life, server, running));
        known.filter(|Known { life, .. }| (life.first..life.mark).contains(&at)).map(|known| line(&known)).collect()
    })
}

fn line(known: &Known) -> String {
    let LifeSpan { number, began_at, first, .. } = known.life;
    let (whose, reason, state) = (if known.is_own { "this" } else { "another" }, known.life.reason(), known.state());
    // The time of its first ID is later after a crash.
    let [started, begins] = [began_at, first].map(display_time);
    format!(
        "\n  life         {number:016x} of {whose} server ({reason}), started {started}, IDs from {begins}, {state}"
    )
}

/// What an error says of lives that cannot be read.
pub const UNREADABLE: &str = "could not read the lives in file \"snowflake_pg.trace\"";

impl Known {
    /// How it ended, in words.
    pub fn state(&self) -> &'static str {
        self.life.state(self.is_own, self.is_running)
    }
}

/// A row for each life.
#[pg_extern(sql = false)]
fn snowflake_lives() -> SetOfIterator<'static, Row> {
    SetOfIterator::new(readable().into_iter().map(row))
}

fn readable() -> Vec<Known> {
    known().unwrap_or_else(|| raise(error_report(PgSqlErrorCode::ERRCODE_IO_ERROR, UNREADABLE)))
}

fn row(known: Known) -> Row {
    let state = known.state();
    let Known { life, is_own, .. } = known;
    let (datacenter, worker, layout) = numbers(&life.layout, life.worker);
    let number = |number: u64| i32::try_from(number).ok();
    Row::new([
        ("number", column(i64::try_from(life.nth).ok())),
        ("life", column(hex(life.number))),
        ("is_own", column(is_own)),
        ("datacenter_id", column(datacenter.and_then(number))),
        ("worker_id", column(number(worker))),
        ("layout", column(layout.to_string())),
        ("started_at", column(timestamptz(life.began_at))),
        ("reason", column(life.reason())),
        ("begins_at", column(timestamptz(life.first))),
        ("reserved_until", column(timestamptz(life.mark))),
        ("state", column(state)),
        ("ended_at", column(Some(timestamptz(life.ended_at)).filter(|_| life.ended_at > 0))),
    ])
}

fn hex(number: u64) -> String {
    format!("{number:016x}")
}

/// The version of what servers are told. Whoever asks ignores fields that it does not know, so only a field with
/// another meaning needs a higher one.
pub const VERSION: i32 = 1;

/// An object for each life, for a server that knows no newer version than this. There is only one version yet.
#[pg_extern(sql = false)]
fn snowflake_lives_for_servers(_version: i32) -> SetOfIterator<'static, JsonB> {
    SetOfIterator::new(readable().into_iter().map(|known| JsonB(told(&known))))
}

/// Times are in milliseconds since 1970, and 0 if there is none; random numbers are hexadecimal.
fn told(known: &Known) -> Value {
    let LifeSpan { number, server, nth, system_identifier, timeline, worker, layout, .. } = known.life;
    let LifeSpan { first, issued, mark, ended_at, found, logged, follows, .. } = known.life;
    json!({
        "version": VERSION,
        "life": hex(number),
        "server": hex(server),
        "is_own": known.is_own,
        "number": nth,
        "system_identifier": system_identifier.cast_signed(),
        "timeline": timeline,
        "worker_id": worker,
        "layout": layout.to_string(),
        "reason": known.life.reason(),
        "state": known.state(),
        "begins_at": first,
        "issued_until": issued,
        "reserved_until": mark,
        "ended_at": ended_at,
        "found": found,
        "logged": logged,
        "follows": hex(follows),
        "jumped_at": known.life.jumped_at,
    })
}

/// The data center and the worker in a layout without data centers, as the layout of this server has them, and that
/// layout.
pub fn numbers(layout: &Layout, worker: u64) -> (Option<u64>, u64, Layout) {
    match gucs::layout() {
        Ok(configured) if configured != *layout && configured.flat() == *layout => {
            let (datacenter, worker) = configured.unflatten(worker);
            (Some(datacenter), worker, configured)
        }
        _ => (None, worker, *layout),
    }
}
