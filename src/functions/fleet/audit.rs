//! Asks all servers of a fleet for the lives that they know, and says whether two of them overlap.

use super::super::lives::{self, numbers};
use super::super::row::{Column, Row, column};
use super::super::time::timestamptz;
use super::ask::ask_lives;
use super::same_server;
use super::target::Target;
use super::{asked, server_name, without_statement};
use crate::postgres::remote::Remote;
use pgrx::datum::Array;
use pgrx::prelude::*;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::audit::{Finding, Grant, Known, Life, Told, audit, seen_since};
use snowflake_core::{UnixMs, display_time};
use std::collections::{BTreeMap, BTreeSet};

/// A row for the fleet, one for each worker and each overlap, and one for everything that could not be seen.
#[pg_extern(sql = false)]
fn snowflake_audit_fleet(servers: Option<Array<'_, &[u8]>>) -> SetOfIterator<'static, Row> {
    let (names, told) = without_statement(|| {
        let targets = asked("snowflake_audit_fleet", servers);
        let mut names = vec!["this server".to_owned()];
        let mut told: Vec<Told> = vec![this_server()];
        for (at, target) in (1..).zip(&targets) {
            names.push(server_name(at, target.address().as_deref()));
            told.push(target.ask_lives());
        }
        find_clones(&mut told, &targets);
        (names, told)
    });
    let findings = audit(&told);
    let rows = std::iter::once(summary(&findings, &told)).chain(findings.iter().map(|finding| row(finding, &names)));
    SetOfIterator::new(rows.collect::<Vec<_>>())
}

fn this_server() -> Told {
    let lives = lives::known().ok_or(lives::UNREADABLE)?;
    let lives = lives.iter().map(|known| Life::new(&known.life, known.is_own, known.state())).collect();
    Ok(Known { lives, ..Known::default() })
}

/// Finds servers that run one life beside each other.
fn find_clones(told: &mut [Told], targets: &[Target]) {
    for at in 1..told.len() {
        let running = |at: usize| told[at].as_ref().ok().and_then(Known::running);
        let Some(life) = running(at) else { continue };
        let runs_it = |remote: &mut Remote| ask_lives(remote).is_ok_and(|known| known.running() == Some(life));
        let other = |earlier: usize| {
            let is_same = same_server::is_same(earlier, at, targets, &runs_it);
            // mutant: audit-clone
            (is_same != Some(true)).then_some((earlier, is_same.is_some()))
        };
        let clone_of = (0..at).filter(|&earlier| running(earlier) == Some(life)).find_map(other);
        if let Ok(known) = &mut told[at] {
            known.clone_of = clone_of;
        }
    }
}

/// The answer in a row. Never "no overlap" if something could not be seen.
fn summary(findings: &[Finding], told: &[Told]) -> Row {
    let count = |is: fn(&Finding) -> bool| findings.iter().filter(|finding| is(finding)).count();
    let certain = count(|finding| result(finding) == OVERLAP);
    let possible = count(|finding| result(finding) == POSSIBLE_OVERLAP);
    let unseen = count(Finding::is_unseen);
    let lives = || told.iter().flatten().flat_map(|known| &known.lives);
    // mutant: audit-silent-yes
    let answer = match (certain, possible, unseen) {
        (0, 0, 0) if lives().next().is_some() => NO_OVERLAP,
        (0, 0, _) => NOT_SEEN,
        (0, ..) => POSSIBLE_OVERLAP,
        _ => OVERLAP,
    };
    let compared: BTreeSet<_> = lives().map(|life| (life.server, life.number)).collect();
    let servers: BTreeSet<_> = lives().filter(|life| life.is_own).map(|life| life.server).collect();
    let first = lives().map(|life| life.begins).min();
    // Who had a worker before the first life that is known, nobody can tell.
    let mut first_of = BTreeMap::new();
    for life in lives() {
        let first = first_of.entry((life.layout.to_string(), life.worker)).or_insert(life.begins);
        *first = life.begins.min(*first);
    }
    let since = first_of.into_values().max().and_then(|first| seen_since(findings, first));
    let mut detail = vec![
        workers(lives()),
        format!("{} of {}", number(compared.len(), "life", "lives"), number(servers.len(), "server", "servers")),
    ];
    if certain > 0 {
        detail.push(number(certain, "overlap", "overlaps"));
    }
    if possible > 0 {
        detail.push(number(possible, "possible overlap", "possible overlaps"));
    }
    if certain + possible == 0 {
        detail.push("no two overlap".to_owned());
    }
    let since_when = since.map_or_else(String::new, |since| format!("since {}: ", display_time(since)));
    let rest = match (unseen, since) {
        (0, _) => String::new(),
        (_, Some(_)) => format!("; {} what is not known before that", number(unseen, "row says", "rows say")),
        (_, None) => format!("; {} what was not seen", number(unseen, "row says", "rows say")),
    };
    Row::new([
        ("result", column(answer)),
        ("lives", column(i64::try_from(compared.len()).ok())),
        ("begins_at", column(first.map(timestamptz))),
        ("ends_at", column(lives().map(|life| life.reserved).max().map(timestamptz))),
        ("detail", column(format!("{since_when}{}{rest}", detail.join(", ")))),
    ])
}

fn number(number: usize, one: &str, many: &str) -> String {
    match number {
        0 => format!("no {many}"),
        1 => format!("1 {one}"),
        _ => format!("{number} {many}"),
    }
}

/// The workers of lives, in words: their numbers, if they are in no data center and a few ranges.
fn workers<'a>(lives: impl Iterator<Item = &'a Life>) -> String {
    let workers: BTreeSet<_> = lives.map(|life| numbers(&life.layout, life.worker)).map(|(d, w, _)| (d, w)).collect();
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for &(_, worker) in &workers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == worker => *last = worker,
            _ => ranges.push((worker, worker)),
        }
    }
    let has_datacenters = workers.iter().any(|(datacenter, _)| datacenter.is_some());
    if workers.is_empty() || has_datacenters || ranges.len() > MOST_RANGES {
        return number(workers.len(), "worker", "workers");
    }
    let mut parts: Vec<_> = ranges
        .iter()
        .flat_map(|&(first, last)| match last - first {
            0 => vec![first.to_string()],
            1 => vec![first.to_string(), last.to_string()],
            _ => vec![format!("{first} to {last}")],
        })
        .collect();
    let last = parts.pop().unwrap_or_default();
    match (workers.len(), parts.len()) {
        (1, _) => format!("worker {last}"),
        (_, 0) => format!("workers {last}"),
        _ => format!("workers {} and {last}", parts.join(", ")),
    }
}

/// More ranges of workers than these are only counted.
const MOST_RANGES: usize = 5;

const NO_OVERLAP: &str = "no overlap";
const POSSIBLE_OVERLAP: &str = "possible overlap";
const OVERLAP: &str = "overlap";
const NOT_SEEN: &str = "not seen";

fn result(finding: &Finding) -> &'static str {
    match finding {
        Finding::Apart { .. } => NO_OVERLAP,
        Finding::Overlap { is_certain: true, .. } | Finding::Cloned { is_certain: true, .. } => OVERLAP,
        Finding::Overlap { .. } | Finding::Cloned { .. } | Finding::More => POSSIBLE_OVERLAP,
        _ => NOT_SEEN,
    }
}

fn row(finding: &Finding, names: &[String]) -> Row {
    match finding {
        &Finding::Apart { worker, layout, lives, begins, until } => {
            let mut columns = of_worker(NO_OVERLAP, &layout, worker);
            columns.push(("lives", column(i64::try_from(lives).ok())));
            columns.extend(span(begins, until));
            Row::new(columns)
        }
        Finding::Overlap { one, other, begins, until, .. } => {
            let [first, second] = [one, other].map(|life| describe(&life.1, &names[life.0]));
            overlap(result(finding), &one.1, [*begins, *until], &format!("{first} and {second}"))
        }
        Finding::Cloned { one, other, begins, until, is_certain } => {
            let text =
                if *is_certain { "runs the same life as" } else { "runs the same life as, or is the same server as," };
            let text = format!("{} {text} {}: one is a clone of the other", names[other.0], names[one.0]);
            overlap(result(finding), &one.1, [*begins, *until], &text)
        }
        Finding::More => {
            let text = "there are more overlaps than are shown";
            Row::new([("result", column(result(finding))), ("detail", column(text))])
        }
        Finding::Missing { at, lives, before } => {
            let text = format!("{} lacks {} before {}", names[*at], some(*lives), display_time(*before));
            unseen(&text, None)
        }
        Finding::Silent { at, why } => unseen(&format!("{} has not told: {why}", names[*at]), None),
        Finding::Forgotten { at, lives, before } => {
            let text = format!("{} no longer keeps {} before {}", names[*at], some(*lives), display_time(*before));
            unseen(&text, None)
        }
        Finding::NotAsked { at, life, is_promoted } => {
            let Life { number, server, system_identifier, reserved, .. } = &**life;
            let who = if *is_promoted { ", most likely the old primary," } else { "" };
            let text = format!(
                "server {server:016x} (system identifier {system_identifier}){who} was not asked: {} is a copy of it, or \
                 was moved, and knows its life {number:016x} until {}",
                names[*at],
                display_time(*reserved)
            );
            unseen(&text, Some(life))
        }
        Finding::MarkLost { at, life } => {
            let text = format!("{} crashed, and its mark was not found afterwards", describe(life, &names[*at]));
            unseen(&text, Some(life))
        }
        Finding::Predecessor { at, life } => unseen(&predecessor(life, &names[*at]), Some(life)),
        Finding::Removed { at, life } => {
            let text = format!(
                "{} has a copy of life {:016x} until {}, and its server no longer has it: its lives were put back, or lost",
                names[*at],
                life.number,
                display_time(life.reserved)
            );
            unseen(&text, Some(life))
        }
        Finding::Leased { at, grant } => {
            let Grant { worker, system_identifier, server, until, issued } = &**grant;
            let issued =
                if *issued > 0 { format!("; IDs were issued until {}", display_time(*issued)) } else { String::new() };
            let text = format!(
                "{} has leased worker {worker} to a server that has told of no life with it, until {}: \"{server}\", \
                 system identifier {system_identifier}{issued}",
                names[*at],
                display_time(*until)
            );
            unseen(&text, None)
        }
        Finding::OtherLayout { layout, lives } => {
            let were = number(*lives, "life", "lives") + if *lives == 1 { " was" } else { " were" };
            let text = format!("{were} not compared with those in other layouts: layout \"{layout}\"");
            unseen(&text, None)
        }
    }
}

fn overlap(result: &str, life: &Life, [begins, until]: [UnixMs; 2], what: &str) -> Row {
    let Life { layout, worker, .. } = *life;
    let [first, last] = [begins, until].map(|at| layout.min_id(layout.first_tick_from(at)));
    let mut columns = of_worker(result, &layout, worker);
    columns.extend(span(begins, until));
    columns.push(("lives", column(2_i64)));
    let ids = if first < last { format!(": IDs of this worker from {first} to {}", last - 1) } else { String::new() };
    columns.push(("detail", column(format!("{what}{ids}"))));
    Row::new(columns)
}

fn some(lives: u64) -> String {
    number(usize::try_from(lives).unwrap_or(usize::MAX), "life", "lives")
}

/// Whom to ask about the life whose mark this one has found.
fn predecessor(life: &Life, name: &str) -> String {
    let until = display_time(life.found.max(life.begins));
    let who = match life.reason.as_str() {
        // It has found its own record.
        "restart" => format!("IDs of this worker until {until} may be of a life that {name} no longer has"),
        _ if life.is_promoted() => {
            format!("ask the server that had this worker until {until}, most likely the old primary")
        }
        _ => format!("ask the server that had this worker until {until}"),
    };
    format!("{who}: {} found its mark", describe(life, name))
}

fn describe(life: &Life, name: &str) -> String {
    format!("life {:016x} of {name} ({}, IDs from {})", life.number, life.reason, display_time(life.begins))
}

fn unseen(text: &str, life: Option<&Life>) -> Row {
    let mut columns = life
        .map_or_else(|| vec![("result", column("not seen"))], |life| of_worker("not seen", &life.layout, life.worker));
    columns.push(("detail", column(text)));
    Row::new(columns)
}

fn of_worker(result: &str, layout: &Layout, worker: u64) -> Vec<(&'static str, Column)> {
    let (datacenter, worker, layout) = numbers(layout, worker);
    let number = |number: u64| i32::try_from(number).ok();
    vec![
        ("result", column(result)),
        ("datacenter_id", column(datacenter.and_then(number))),
        ("worker_id", column(number(worker))),
        ("layout", column(layout.to_string())),
    ]
}

fn span(begins: UnixMs, until: UnixMs) -> [(&'static str, Column); 2] {
    [("begins_at", column(timestamptz(begins))), ("ends_at", column(timestamptz(until)))]
}
