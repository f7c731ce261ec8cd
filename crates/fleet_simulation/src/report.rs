//! What a simulation has shown, as a table.

use crate::chance::as_f64;
use crate::histogram::Histogram;
use crate::server::Cause;
use crate::simulation::Findings;
use crate::tally::{Count, Tally, Times};
use crate::time::{DAY, HOUR, MINUTE, Micros, SECOND};
use std::fmt::Write;

/// How wide the first column is.
const NAME: usize = 48;

/// How wide each other one is.
const COLUMN: usize = 27;

/// The table, a column for each way to give workers, and one for all.
pub fn text(findings: &Findings) -> String {
    let settings = &findings.settings;
    let datacenters: u32 = settings.datacenters.iter().sum();
    let mut text = format!(
        "{} days, seed {}: {datacenters} data centers, and {} faults a day in each cluster\n",
        settings.days, settings.seed, settings.faults_per_day
    );
    let all = findings.all();
    let [fixed, shared, leased] = &findings.tallies;
    let table = Table { columns: [fixed, shared, leased, &all], text: &mut text };
    table.fill();
    let (outages, away) = findings.registry_outages;
    let share = percent(away, Micros::from(settings.days) * DAY);
    let _ =
        writeln!(text, "\nThe registry was away {outages} times, for {} together: {share} of the time.", time(away));
    text
}

struct Table<'a> {
    columns: [&'a Tally; 4],
    text: &'a mut String,
}

impl Table<'_> {
    fn fill(mut self) {
        let names = ["a worker for each node", "one, mark in WAL", "leased", "all"];
        self.line("", names.map(str::to_owned));
        self.ids();
        self.events();
        self.leads();
        self.refusals();
        self.leases();
    }

    fn line(&mut self, name: &str, cells: [String; 4]) {
        let _ = write!(self.text, "{name:NAME$}");
        cells.iter().for_each(|cell| {
            let _ = write!(self.text, "{cell:>COLUMN$}");
        });
        self.text.push('\n');
    }

    fn row(&mut self, name: &str, cell: impl Fn(&Tally) -> String) {
        self.line(name, self.columns.map(cell));
    }

    fn counts(&mut self, rows: &[(&str, Count)]) {
        rows.iter().for_each(|&(name, what)| self.row(name, |tally| grouped(tally.get(what))));
    }

    fn ids(&mut self) {
        self.counts(&[("servers that issue IDs", Count::Servers)]);
        self.row("workers that have issued IDs", |tally| grouped(tally.audit.workers));
        self.counts(&[("calls", Count::Calls)]);
        self.row("IDs", |tally| grouped(tally.audit.received));
        self.row("duplicates", |tally| grouped(tally.audit.duplicates));
    }

    fn events(&mut self) {
        self.counts(&[
            ("crashes", Count::Crashes),
            ("planned stops", Count::Stops),
            ("failovers and switchovers", Count::Failovers),
            ("state directories lost", Count::LostStates),
            ("clocks set wrong, stopped or not corrected", Count::ClockFaults),
            ("faults that could not be", Count::Skipped),
        ]);
        self.row("former primaries that went on", |tally| {
            grouped(tally.split_brains.clock_right.count + tally.split_brains.clock_wrong.count)
        });
        self.row("  of these, refused before they were stopped", |tally| grouped(tally.split_brains.refused));
        self.row("  went on, with a right clock (mean, max)", |tally| times(&tally.split_brains.clock_right));
        self.row("  went on, with a wrong clock (mean, max)", |tally| times(&tally.split_brains.clock_wrong));
    }

    fn leads(&mut self) {
        self.line("lead of IDs, in seconds (p50, p99, max)", [const { String::new() }; 4]);
        self.row("  over true time, quiet", |tally| spread(&tally.quiet.over_truth));
        self.row("  over true time, after faults", |tally| spread(&tally.troubled.over_truth));
        self.row("  over the node's clock, quiet", |tally| spread(&tally.quiet.over_clock));
        self.row("  over the node's clock, after faults", |tally| spread(&tally.troubled.over_clock));
    }

    fn refusals(&mut self) {
        self.counts(&[("calls that waited for a tick or half a second", Count::Waited)]);
        self.row("calls refused", |tally| grouped(tally.outages.iter().map(|outages| outages.calls).sum()));
        self.line("times without an ID (mean, max), since", [const { String::new() }; 4]);
        for cause in Cause::ALL {
            self.row(&format!("  {}", name(cause)), |tally| times(&tally.outages[cause as usize].times));
        }
        self.row("share of the time without an ID", |tally| {
            percent(tally.outages.iter().map(|outages| outages.times.total).sum(), tally.server_time)
        });
    }

    fn leases(&mut self) {
        self.counts(&[
            ("requests to the registry", Count::Requests),
            ("  not answered", Count::Unanswered),
            ("  workers claimed", Count::Claims),
            ("  leases renewed", Count::Renewals),
            ("servers restarted, their worker was given away", Count::Superseded),
        ]);
        let a_day = |count, tally: &Tally| format!("{:.1}", ratio(count, tally.server_time) * as_f64(DAY));
        self.row("requests of a server in a day", |tally| a_day(tally.get(Count::Requests), tally));
        self.row("  answered", |tally| a_day(tally.get(Count::Requests) - tally.get(Count::Unanswered), tally));
        self.row("  with a lease as answer", |tally| {
            a_day(tally.get(Count::Claims) + tally.get(Count::Renewals), tally)
        });
        self.row("claims that waited for a worker (mean, max)", |tally| times(&tally.worker_waits));
        self.row("leases that ended without its answer", |tally| {
            grouped(tally.outages[Cause::LeaseEnded as usize].times.count)
        });
        self.row("share of the time without a lease, and IDs", |tally| {
            let of_lease = Cause::ALL.into_iter().filter(|cause| cause.is_of_lease());
            percent(of_lease.map(|cause| tally.outages[cause as usize].times.total).sum(), tally.server_time)
        });
    }
}

fn name(cause: Cause) -> &'static str {
    match cause {
        Cause::ClockBehind => "the clock is behind the last ID",
        Cause::StartMargin => "the start margin passes",
        Cause::NoStandby => "no standby has the mark",
        Cause::RegistryAway => "no answer of the registry at a start",
        Cause::LeaseEnded => "no answer of the registry, the lease has ended",
        Cause::NoWorkerFree => "no worker is free",
        Cause::Superseded => "another server has the worker",
        Cause::ClockAhead => "the clock is ahead of the registry's",
    }
}

fn times(times: &Times) -> String {
    if times.count == 0 {
        return "-".to_owned();
    }
    format!("{} ({}, {})", grouped(times.count), time(times.total / times.count), time(times.longest))
}

fn spread(histogram: &Histogram) -> String {
    let seconds = |ms| format!("{:.3}", as_f64(ms) / 1000.0);
    let [p50, p99] = [500, 990].map(|per_mille| seconds(histogram.per_mille(per_mille)));
    format!("{p50} {p99} {}", seconds(histogram.max()))
}

/// A length of time, as people say it.
fn time(time: Micros) -> String {
    let in_units = |unit, name| format!("{:.1} {name}", ratio(time, unit));
    match time {
        0..SECOND => format!("{} ms", time / 1000),
        SECOND..MINUTE => format!("{:.2} s", ratio(time, SECOND)),
        MINUTE..HOUR => in_units(MINUTE, "min"),
        _ => in_units(HOUR, "h"),
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { as_f64(part) / as_f64(whole) }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.3} %", 100.0 * ratio(part, whole))
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
