//! Asks all servers of a fleet which they are, and says which of them could issue the same IDs.

mod ask;
mod audit;
mod same_server;
mod target;

use super::argument::too_long;
use super::identity::system_identifier;
use super::row::{Row, column};
use super::state::{Condition, is_in_recovery};
use super::time::unix_us;
use crate::config::gucs;
use crate::config::preload;
use crate::postgres::host_number::Resolved;
use crate::postgres::report::{error_report, raise};
use crate::worker;
use ask::Account;
use pgrx::datum::Array;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_core::id::layout::Layout;
use snowflake_core::server::fleet::{Clock, Member, Problem, compare};
use target::Target;

/// The state of a server that does not preload the library.
const NOT_PRELOADED: &str = "not preloaded";

/// How many bytes all connection strings may have together.
const LONGEST: usize = 1_000_000;

/// How many servers with the same worker are named.
const NAMED: usize = 3;

/// A server of the fleet: where it is, and its answer, or what has gone wrong.
struct Server {
    address: Option<String>,
    account: Result<Account, String>,
}

/// A row for this server, and one for each other one.
#[pg_extern(sql = false)]
fn snowflake_check_fleet(servers: Option<Array<'_, &[u8]>>) -> SetOfIterator<'static, Row> {
    let (fleet, problems) = without_statement(|| check(&asked("snowflake_check_fleet", servers)));
    let rows = problems.into_iter().enumerate();
    SetOfIterator::new(rows.map(move |(at, problems)| row(at, &problems, &fleet)))
}

/// Does something whose errors do not log the statement: that has connection strings, and these can have passwords.
fn without_statement<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: PostgreSQL logs no statement if this is null. After an ERROR it sets the next one.
    let statement = unsafe {
        let statement = pg_sys::debug_query_string;
        // mutant: fleet-log
        pg_sys::debug_query_string = std::ptr::null();
        statement
    };
    let outcome = act();
    // SAFETY: the statement, which still runs, owns its text.
    unsafe { pg_sys::debug_query_string = statement };
    outcome
}

/// The servers that a function is told to ask. An ERROR before anything is connected, as of dblink.
fn asked(function: &str, servers: Option<Array<'_, &[u8]>>) -> Vec<Target> {
    // A fleet that nobody has asked would look sound.
    let servers = servers.filter(|servers| !servers.is_empty()).unwrap_or_else(|| raise(nobody(function)));
    let length = servers.iter().flatten().map(<[u8]>::len).sum::<usize>();
    if length > LONGEST {
        // They can have passwords.
        raise(too_long("servers", format!("It has {length} bytes, and at most {LONGEST} are allowed.")));
    }
    (1..).zip(servers.iter()).map(|(nth, server)| Target::new(nth, server.unwrap_or_else(|| raise(null())))).collect()
}

fn check(targets: &[Target]) -> (Vec<Server>, Vec<Vec<Problem>>) {
    let mut fleet = vec![Server { address: Some("this server".to_owned()), account: Ok(this_server()) }];
    for target in targets {
        fleet.push(Server { address: target.address(), account: target.ask() });
    }
    same_server::find(&mut fleet, targets);
    let members: Vec<_> =
        fleet.iter().map(|server| server.account.as_ref().ok().map(|account| account.member.clone())).collect();
    let problems = compare(&members, gucs::registry::max_clock_offset_ms());
    (fleet, problems)
}

fn nobody(function: &str) -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE, "servers must name the servers to ask").set_hint(
        format!(
            "Give foreign servers or connection strings, as in SELECT * FROM {function}('{{pg-2, host=pg-3 dbname=postgres}}')."
        ),
    )
}

fn null() -> ErrorReport {
    error_report(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED, "servers must not contain nulls")
}

/// What this server says about itself.
fn this_server() -> Account {
    let number = |resolved: Option<Resolved>| u32::try_from(resolved?.number).ok();
    let is_preloaded = preload::is_done();
    let member = Member {
        server: 0,
        system_identifier: system_identifier().cast_signed(),
        numbers: is_preloaded.then(|| number(worker::datacenter()).zip(number(worker::worker()))).flatten(),
        layout: gucs::layout().ok().filter(|_| is_preloaded).map(|layout| layout.to_string()),
        is_standby: is_in_recovery(),
        has_wal_mark: gucs::wal_mark().is_written(),
        clock: Clock::default(),
    };
    // SAFETY: set when the postmaster starts.
    let started = unsafe { pg_sys::PgStartTime };
    Account { state: Condition::now().state.to_owned(), started_us: unix_us(started), member }
}

fn row(at: usize, problems: &[Problem], fleet: &[Server]) -> Row {
    let server = &fleet[at];
    let mut columns = vec![("server", column(i32::try_from(at).ok())), ("address", column(server.address.as_deref()))];
    match &server.account {
        Err(problem) => columns.push(("problem", column(problem.as_str()))),
        Ok(account) => {
            let Member { system_identifier, numbers, layout, clock, .. } = &account.member;
            let texts: Vec<_> =
                of_state(&account.state, problems).into_iter().chain(problems.iter().map(|p| text(p, fleet))).collect();
            let number = |number: u32| i32::try_from(number).ok();
            let layout_of = layout.as_ref().and_then(|layout| layout.parse::<Layout>().ok());
            let has_datacenter = |_: &_| layout_of.is_none_or(|layout| layout.has_datacenter());
            columns.extend([
                ("state", column(account.state.as_str())),
                ("system_identifier", column(*system_identifier)),
                (
                    "datacenter_id",
                    column(numbers.and_then(|(datacenter, _)| number(datacenter)).filter(has_datacenter)),
                ),
                ("worker_id", column(numbers.and_then(|(_, worker)| number(worker)))),
                ("layout", column(layout.as_deref())),
                ("clock_offset", column(Interval::from_micros(clock.ahead_ms.saturating_mul(1000)))),
                ("problem", column(Some(texts.join("; ")).filter(|texts| !texts.is_empty()))),
            ]);
        }
    }
    Row::new(columns)
}

/// What messages call the server with this number.
fn server_name(at: usize, address: Option<&str>) -> String {
    match (at, address) {
        (0, _) => "this server".to_owned(),
        (_, Some(address)) => format!("server {at} ({address})"),
        (_, None) => format!("server {at}"),
    }
}

/// What is wrong with a server by its state alone.
fn of_state(state: &str, problems: &[Problem]) -> Option<String> {
    let has_primary = problems.iter().any(|problem| matches!(problem, Problem::Standby(_)));
    Some(match state {
        "ready" | "idle" | "waiting" | "standby" => return None,
        "shared worker" if has_primary => return None,
        "shared worker" => {
            "standby with the worker ID of the server it was copied from, and wal_mark is off".to_owned()
        }
        NOT_PRELOADED => "snowflake_pg is not loaded via shared_preload_libraries".to_owned(),
        "worker unset" => "snowflake_pg.worker_id is not set".to_owned(),
        other => format!("state is \"{other}\""),
    })
}

fn text(problem: &Problem, fleet: &[Server]) -> String {
    let name = |at: usize| server_name(at, fleet[at].address.as_deref());
    match problem {
        Problem::SameWorker(others) => {
            let more = others.len().saturating_sub(NAMED);
            let mut names: Vec<_> = others.iter().take(NAMED).map(|&at| name(at)).collect();
            if more > 0 {
                names.push(format!("{more} more"));
            }
            format!("same worker ID as {}", names.join(", "))
        }
        Problem::Standby(at) => format!("standby with the worker ID of {}, and wal_mark is off", name(*at)),
        Problem::OtherLayout(at) => format!("other layout than {}", name(*at)),
        Problem::ClockApart(at, ms) => {
            let which = if *ms > 0 { "ahead of" } else { "behind" };
            let seconds = ms.unsigned_abs() / 1000;
            let thousandths = ms.unsigned_abs() % 1000;
            format!("clock is {seconds}.{thousandths:03} s {which} the clock of {}", name(*at))
        }
    }
}
