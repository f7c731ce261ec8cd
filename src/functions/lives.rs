//! The lives of workers that this server knows.

use super::row::{Row, column};
use super::time::timestamptz;
use crate::config::{gucs, preload};
use crate::durable::trace;
use crate::errors::IssueError;
use crate::postgres::report::{error_report, raise};
use crate::shared::{Shared, shared};
use pgrx::prelude::*;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::lives::LifeSpan;
use snowflake_core::{UnixMs, display_time};
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
    let Shared { generator, last_life, .. } = shared();
    // Before the file: a life that begins meanwhile counts as one that does not run yet.
    let running = if generator.is_started() { last_life.load(Ordering::Relaxed) } else { 0 };
    // A life that is being written can be read half.
    let (server, lives) = (0..READS).find_map(|_| trace::lives().filter(|(_, lives)| is_whole(lives, running)))?;
    let known = |life: LifeSpan| {
        let is_running = life.nth == running;
        let until = shared().last_timestamp(&life.layout).saturating_add(life.layout.tick_ms());
        let life = if is_running { life.until(until.max(life.first)) } else { life };
        Known { is_own: life.server == server, is_running, life }
    };
    Some(lives.into_iter().map(known).collect())
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
    let (at, worker) = (layout.issued_at(id), layout.server_of(id));
    let is_of = |life: &LifeSpan| {
        (life.worker, life.layout) == (worker, layout.flat()) && (life.first..life.mark).contains(&at)
    };
    let lives = read().unwrap_or_default();
    let lines = lives.iter().filter(|known| is_of(&known.life)).map(|known| {
        let LifeSpan { number, began_at, .. } = known.life;
        let (whose, reason, state) =
            (if known.is_own { "this" } else { "another" }, known.life.reason(), known.state());
        format!(
            "\n  life         {number:016x} of {whose} server, began {} ({reason}), {state}",
            display_time(began_at)
        )
    });
    lines.collect()
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
    SetOfIterator::new(
        known()
            .unwrap_or_else(|| raise(error_report(PgSqlErrorCode::ERRCODE_IO_ERROR, UNREADABLE)))
            .into_iter()
            .map(row),
    )
}

fn row(known: Known) -> Row {
    let state = known.state();
    let Known { life, is_own, .. } = known;
    let (datacenter, worker, layout) = numbers(&life.layout, life.worker);
    let number = |number: u64| i32::try_from(number).ok();
    let time = |at: UnixMs| Some(timestamptz(at)).filter(|_| at > 0);
    Row::new([
        ("life", column(format!("{:016x}", life.number))),
        ("server", column(format!("{:016x}", life.server))),
        ("is_own", column(is_own)),
        ("number", column(i64::try_from(life.nth).ok())),
        ("system_identifier", column(life.system_identifier.cast_signed())),
        ("timeline", column(i64::try_from(life.timeline).ok())),
        ("datacenter_id", column(datacenter.and_then(number))),
        ("worker_id", column(number(worker))),
        ("layout", column(layout.to_string())),
        ("started", column(timestamptz(life.began_at))),
        ("reason", column(life.reason())),
        ("begins_at", column(timestamptz(life.first))),
        ("issued_until", column(timestamptz(life.issued))),
        ("reserved_until", column(timestamptz(life.mark))),
        ("state", column(state)),
        ("ended", column(time(life.ended_at))),
        ("found_until", column(time(life.found))),
        ("logged_until", column(time(life.logged))),
        ("follows", column(Some(format!("{:016x}", life.follows)).filter(|_| life.follows > 0))),
        ("jumped", column(time(life.jumped_at))),
    ])
}

/// The data center and the worker in a layout without data centers, as the layout of this server has them, and that layout.
pub fn numbers(layout: &Layout, worker: u64) -> (Option<u64>, u64, Layout) {
    match gucs::layout() {
        Ok(configured) if configured != *layout && configured.flat() == *layout => {
            let (datacenter, worker) = configured.unflatten(worker);
            (Some(datacenter), worker, configured)
        }
        _ => (None, worker, *layout),
    }
}
