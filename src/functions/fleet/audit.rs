//! Asks all servers of a fleet for the lives that they know, and says whether two of them overlap.

use super::super::lives::{self, numbers};
use super::super::row::{Column, Row, column};
use super::super::time::timestamptz;
use super::ask::Target;
use super::same_server;
use super::{Fleet, nobody, read_conninfo, server_name, without_statement};
use crate::postgres::report::raise;
use pgrx::datum::Array;
use pgrx::prelude::*;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::audit::{Finding, Grant, Known, Life, Told, audit};
use snowflake_core::{UnixMs, display_time};

/// Overlaps that are shown: if a server was cloned and has run for long, each start adds one.
const MOST_OVERLAPS: usize = 100;

/// A row for the fleet, one for each worker and each overlap, and one for everything that could not be seen.
#[pg_extern(sql = false)]
fn snowflake_audit(conninfo: Option<Array<'_, &[u8]>>) -> SetOfIterator<'static, Row> {
    let conninfo = conninfo.filter(|conninfo| !conninfo.is_empty()).unwrap_or_else(|| raise(nobody("snowflake_audit")));
    let (names, told) = without_statement(|| {
        let Fleet { targets, needs_password } = read_conninfo(&conninfo);
        let mut names = vec!["this server".to_owned()];
        let lives = lives::known().iter().map(of_this_server).collect();
        let mut told: Vec<Told> = vec![Ok(Known { lives, ..Known::default() })];
        for (at, target) in (1..).zip(&targets) {
            names.push(server_name(at, target.address().as_deref()));
            told.push(target.ask_lives(needs_password));
        }
        find_clones(&mut told, &targets, needs_password);
        (names, told)
    });
    let findings = audit(&told);
    let rows: Vec<_> = std::iter::once(summary(&findings, &told))
        .chain(
            findings
                .iter()
                .filter(|finding| is_overlap(finding))
                .take(MOST_OVERLAPS)
                .map(|finding| row(finding, &names)),
        )
        .chain(findings.iter().filter(|finding| !is_overlap(finding)).map(|finding| row(finding, &names)))
        .collect();
    SetOfIterator::new(rows)
}

fn of_this_server(known: &lives::Known) -> Life {
    Life::new(&known.life, known.is_own, known.state())
}

/// Finds servers that run beside each other and take themselves for the same one.
fn find_clones(told: &mut [Told], targets: &[Target], needs_password: bool) {
    for at in 1..told.len() {
        let number = |at: usize| told[at].as_ref().ok().and_then(Known::server);
        let is_clone = |earlier: &usize| {
            number(at).is_some() && number(*earlier) == number(at)
                // mutant: audit-clone
                && !same_server::is_same(*earlier, at, targets, needs_password)
        };
        let clone_of = (0..at).find(is_clone);
        if let Ok(known) = &mut told[at] {
            known.clone_of = clone_of;
        }
    }
}

fn is_overlap(finding: &Finding) -> bool {
    matches!(finding, Finding::Overlap { .. } | Finding::Cloned { .. })
}

/// The answer in a row. Never "no overlap" if something could not be seen.
fn summary(findings: &[Finding], told: &[Told]) -> Row {
    let count = |is: fn(&Finding) -> bool| findings.iter().filter(|finding| is(finding)).count();
    let certain =
        count(|finding| matches!(finding, Finding::Overlap { is_certain: true, .. } | Finding::Cloned { .. }));
    let possible = count(is_overlap) - certain;
    let workers = count(|finding| matches!(finding, Finding::Apart { .. }));
    let unseen = findings.len() - certain - possible - workers;
    let result = match (certain, possible, unseen) {
        (0, 0, 0) => "no overlap",
        (0, 0, _) => "not seen",
        (0, ..) => "possible overlap",
        _ => "overlap",
    };
    let lives = told.iter().flatten().flat_map(|known| &known.lives).filter(|life| life.is_own);
    let begins = lives.clone().map(|life| life.begins).min();
    let asked = told.iter().filter(|told| told.is_ok()).count();
    let mut detail = format!("{} lives of {asked} servers", lives.count());
    for (number, what) in [(certain, "overlaps"), (possible, "possible overlaps"), (unseen, "things could not be seen")]
    {
        if number > 0 || what == "overlaps" {
            detail.push_str(&format!(", {} {what}", if number == 0 { "no".to_owned() } else { number.to_string() }));
        }
    }
    Row::new([("result", column(result)), ("begins_at", column(begins.map(timestamptz))), ("detail", column(detail))])
}

fn row(finding: &Finding, names: &[String]) -> Row {
    match finding {
        &Finding::Apart { worker, layout, lives, begins, until } => {
            let mut columns = of_worker("no overlap", &layout, worker);
            columns.push(("lives", column(i64::try_from(lives).ok())));
            columns.extend(span(begins, until));
            Row::new(columns)
        }
        Finding::Overlap { one, other, begins, until, is_certain } => {
            let Life { layout, worker, .. } = one.1;
            let mut columns = of_worker(if *is_certain { "overlap" } else { "possible overlap" }, &layout, worker);
            columns.extend(span(*begins, *until));
            let [first, last] = [layout.first_tick_from(*begins), layout.first_tick_from(*until)];
            let [lowest, highest] = [layout.min_id(first), layout.min_id(last) - 1];
            let [one, other] = [one, other].map(|life| describe(&life.1, &names[life.0]));
            columns.push(("lives", column(2_i64)));
            columns
                .push(("detail", column(format!("{one} and {other}: IDs of this worker from {lowest} to {highest}"))));
            Row::new(columns)
        }
        &Finding::Cloned { one, other } => Row::new([
            ("result", column("overlap")),
            (
                "detail",
                column(format!(
                    "{} runs beside {}, and takes itself for the same server: one is a clone of the other",
                    names[other], names[one]
                )),
            ),
        ]),
        Finding::Silent { at, why } => unseen(&format!("{} has not told: {why}", names[*at]), None),
        Finding::Forgotten { at, before } => {
            unseen(&format!("{} keeps no lives before {}", names[*at], display_time(*before)), None)
        }
        Finding::NotAsked { at, life } => {
            let Life { number, server, reserved, .. } = &**life;
            let until = display_time(*reserved);
            let text = format!(
                "server {server:016x} was not asked: {} has a copy of what it had told, and knows life {number:016x} until {until}",
                names[*at]
            );
            unseen(&text, Some(life))
        }
        Finding::MarkLost { at, life } => {
            let text = format!("{} crashed, and its mark was not found afterwards", describe(life, &names[*at]));
            unseen(&text, Some(life))
        }
        Finding::Predecessor { at, life } => {
            let until = display_time(life.found);
            let text = format!(
                "a life that none of these servers has told of may have issued IDs until {until}: {} found its mark",
                describe(life, &names[*at])
            );
            unseen(&text, Some(life))
        }
        Finding::Leased { at, grant } => {
            let Grant { worker, system_identifier, server, until } = &**grant;
            let text = format!(
                "{} has leased worker {worker} to a server that has told of no life with it, until {}: \"{server}\", \
                 system identifier {system_identifier}",
                names[*at],
                display_time(*until)
            );
            unseen(&text, None)
        }
        Finding::OtherLayout { layout, lives } => {
            unseen(&format!("{lives} lives in layout \"{layout}\" were not compared with those in other layouts"), None)
        }
    }
}

fn describe(life: &Life, name: &str) -> String {
    format!("life {:016x} of {name} ({}, from {})", life.number, life.reason, display_time(life.begins))
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
    [("begins_at", column(timestamptz(begins))), ("until", column(timestamptz(until)))]
}
