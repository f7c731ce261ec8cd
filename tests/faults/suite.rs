//! What a row of the fault suite is, and what it has to show.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use testbed::Report;
use testbed::runner::{Case, Kind, in_full, reason};

/// Something that goes wrong, and the promise that holds all the same.
#[derive(Clone, Copy)]
pub struct Fault {
    /// Its number in docs/guarantees.md.
    pub row: u8,
    /// The promise, as the name of its test: a sentence in snake_case.
    pub promise: &'static str,
    /// Rounds in `make test`; 0 for what takes too long there.
    pub short: usize,
    /// Rounds in `make suite NAME=faults`.
    pub full: usize,
    /// Lets it go wrong that many times. Panics if the promise breaks.
    pub run: fn(rounds: usize) -> Evidence,
}

/// What was seen while the promise held.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence {
    /// How many times it went wrong.
    pub rounds: usize,
    /// How many times a server, or all of its backends, came to an end that the next start had to recover from.
    pub crashes: usize,
    /// IDs that clients received.
    pub ids: usize,
    /// How many of them had been received before.
    pub duplicates: usize,
    /// How many of them were not greater than the one before, as one client received them.
    pub inversions: usize,
    /// Calls that ended with an error of the server.
    pub errors: usize,
    /// How far a timestamp was ahead of the server's clock, at most, in milliseconds; `None` where that was not looked
    /// at.
    pub lead_ms: Option<i64>,
    /// How long the server took for one answer, at most.
    pub longest: Duration,
}

impl Evidence {
    /// Of so many rounds, with what clients have received in them.
    pub fn new(rounds: usize, report: &Report) -> Self {
        Self {
            rounds,
            crashes: 0,
            ids: report.ids(),
            duplicates: report.duplicates(),
            inversions: report.inversions(),
            errors: report.errors().values().sum(),
            lead_ms: None,
            longest: report.longest_call(),
        }
    }

    /// With so many crashes.
    pub fn crashes(self, crashes: usize) -> Self {
        Self { crashes, ..self }
    }

    /// With this lead over the clock, at most.
    pub fn lead_ms(self, lead_ms: i64) -> Self {
        Self { lead_ms: Some(lead_ms), ..self }
    }
}

/// What rows have shown: evidence, or how the promise was broken, and how long it took.
type Seen = Vec<(Fault, Result<Evidence, String>, Duration)>;

static SEEN: Mutex<Seen> = Mutex::new(Vec::new());

/// The rows, as tests.
pub fn cases(faults: &[&[Fault]]) -> Vec<Case> {
    let rounds = |fault: &Fault| if in_full() { fault.full } else { fault.short };
    let run = move |fault: Fault| {
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| (fault.run)(rounds(&fault))));
        let evidence = outcome.as_ref().copied().map_err(|panic| reason(panic.as_ref()));
        seen().push((fault, evidence, began.elapsed()));
        outcome.map(|_| ()).unwrap_or_else(|panic| resume_unwind(panic));
    };
    let faults = faults.iter().flat_map(|faults| faults.iter()).filter(|fault| rounds(fault) > 0);
    faults
        .map(|&fault| {
            Case::new(format!("faults::row_{:02}_{}", fault.row, fault.promise), Kind::Plain, move || run(fault))
        })
        .collect()
}

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows a table of what was seen.
pub fn report() {
    let mut seen = seen();
    if !seen.is_empty() {
        seen.sort_by_key(|(fault, ..)| (fault.row, fault.promise));
        println!(
            "{:>3}  {:<86} {:>6} {:>7} {:>10} {:>5} {:>7} {:>7} {:>7} {:>10} {:>6}",
            "row", "promise", "rounds", "crashes", "IDs", "dups", "inv", "errors", "lead ms", "longest ms", "s"
        );
        let mut total = Evidence::default();
        for (fault, evidence, took) in seen.iter() {
            let promise = fault.promise.replace('_', " ");
            let took = took.as_secs_f64();
            let Ok(seen) = evidence else {
                println!("{:>3}  {promise:<86} BROKEN {:>67.1}", fault.row, took);
                continue;
            };
            let lead = seen.lead_ms.map_or_else(|| "-".to_owned(), |ms| ms.to_string());
            println!(
                "{:>3}  {promise:<86} {:>6} {:>7} {:>10} {:>5} {:>7} {:>7} {lead:>7} {:>10} {took:>6.1}",
                fault.row,
                seen.rounds,
                seen.crashes,
                seen.ids,
                seen.duplicates,
                seen.inversions,
                seen.errors,
                seen.longest.as_millis()
            );
            total.rounds += seen.rounds;
            total.crashes += seen.crashes;
            total.ids += seen.ids;
            total.duplicates += seen.duplicates;
            total.inversions += seen.inversions;
            total.errors += seen.errors;
        }
        println!(
            "     {:<86} {:>6} {:>7} {:>10} {:>5} {:>7} {:>7}",
            "in all", total.rounds, total.crashes, total.ids, total.duplicates, total.inversions, total.errors
        );
        for (fault, evidence, _) in seen.iter() {
            if let Err(reason) = evidence {
                println!("row {} is BROKEN: {reason}", fault.row);
            }
        }
    }
}
