//! What must be reached, and whether it was.
//!
//! It fails no run: a machine that does other things at the same time is no error.

use crate::contenders::{CLOCK, OURS, PLPGSQL, SEQUENCE, WIDE};
use crate::numbers::{number, ratio, value};
use crate::report::{Question, Report};
use crate::table::aligned;
use crate::{batches, clients, cost, insert, latency, saturation};
use serde::Serialize;

/// The name in the part `insert` of a key that is `GENERATED ALWAYS AS IDENTITY`.
const IDENTITY: &str = "identity";

/// A ratio of two medians that must be reached.
#[derive(Clone, Copy)]
struct Target {
    question: Question,
    /// How many clients or IDs, where that was varied.
    at: Option<u64>,
    ours: &'static str,
    /// What ours is divided by. `None`: by 100 %.
    other: Option<&'static str>,
    wanted: Wanted,
}

#[derive(Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    AtMost(f64),
    /// So many times less.
    Less(f64),
}
use Wanted::{AtLeast, AtMost, Less};

/// Of the default configuration and what one ID costs; all others say what differs.
const COST: Target =
    Target { question: cost::CPU, at: None, ours: OURS.name, other: Some(SEQUENCE.name), wanted: Less(6.0) };
const CLIENTS: Target = Target { question: clients::THOUSAND, wanted: AtLeast(1.3), ..COST };
const INSERT: Target = Target { other: Some(IDENTITY), wanted: AtLeast(1.05), ..COST };

const TARGETS: [Target; 14] = [
    Target { other: Some(CLOCK.name), wanted: AtMost(1.3), ..COST },
    COST,
    Target { other: Some(PLPGSQL.name), wanted: Less(60.0), ..COST },
    Target { at: Some(16), ours: WIDE.name, wanted: AtLeast(4.0), ..CLIENTS },
    Target { at: Some(64), ours: WIDE.name, wanted: AtLeast(4.0), ..CLIENTS },
    Target { at: Some(16), ..CLIENTS },
    Target { at: Some(64), ..CLIENTS },
    Target { question: saturation::SHARE, at: Some(1), other: None, wanted: AtLeast(0.99), ..COST },
    Target { question: insert::SELECT, ..INSERT },
    Target { question: insert::COPY, ..INSERT },
    Target { question: insert::WAL, wanted: AtMost(1.0), ..INSERT },
    Target { question: insert::INDEX, wanted: AtMost(1.0), ..INSERT },
    Target { question: latency::P999, wanted: AtMost(1.0), ..COST },
    Target {
        question: batches::CPU,
        at: Some(1000),
        ours: batches::SET,
        other: Some(batches::CALLS),
        wanted: AtMost(1.0),
    },
];

/// A target, and what came of it.
#[derive(Debug, Serialize)]
pub struct Verdict {
    #[serde(flatten)]
    question: Question,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    ours: &'static str,
    /// What ours is divided by.
    other: &'static str,
    our_median: Option<f64>,
    other_median: Option<f64>,
    ratio: Option<f64>,
    /// "at least" or "at most", and a number.
    wanted: String,
    verdict: &'static str,
}

/// All targets, in order.
pub fn judge(report: &Report) -> Vec<Verdict> {
    TARGETS.iter().map(|target| target.judge(report)).collect()
}

impl Target {
    fn judge(&self, report: &Report) -> Verdict {
        let median = |contender| report.median(&self.question, contender, self.at);
        let our_median = median(self.ours);
        let other_median = self.other.map_or(Some(100.0), median);
        let ratio = our_median.zip(other_median).and_then(|(ours, other)| ratio(ours, other));
        let verdict = match ratio.map(|ratio| self.wanted.met(ratio)) {
            Some(true) => "reached",
            Some(false) => "missed",
            None => "not measured",
        };
        Verdict {
            question: self.question,
            at: self.at,
            ours: self.ours,
            other: self.other.unwrap_or("all"),
            our_median,
            other_median,
            ratio,
            wanted: self.wanted.in_words(),
            verdict,
        }
    }
}

impl Wanted {
    fn met(self, ratio: f64) -> bool {
        match self {
            AtLeast(least) => ratio >= least,
            AtMost(most) => ratio <= most,
            Less(times) => ratio * times <= 1.0,
        }
    }

    fn in_words(self) -> String {
        match self {
            AtLeast(least) => format!("at least {least}"),
            AtMost(most) => format!("at most {most}"),
            Less(times) => format!("at most 1/{times}"),
        }
    }
}

/// A row for each.
pub fn table(verdicts: &[Verdict]) -> String {
    let head = ["what", "ours", "", "divided by", "", "is", "must be", ""].map(str::to_owned).to_vec();
    let row = |verdict: &Verdict| {
        let Question { part, case, unit, .. } = verdict.question;
        let at = verdict.at.map_or_else(String::new, |at| format!(", at {}", crate::numbers::grouped(at)));
        let figure = |median: Option<f64>| median.map_or_else(String::new, |median| value(median, unit) + " " + unit);
        // A half and less is easier to read as one of so many.
        let ratio = verdict.ratio.map_or_else(String::new, |ratio| match ratio {
            0.5.. => format!("{ratio:.3}"),
            _ if ratio > 0.0 => format!("1/{}", number(1.0 / ratio)),
            _ => number(ratio),
        });
        vec![
            format!("{part}: {case}{at}"),
            verdict.ours.to_owned(),
            figure(verdict.our_median),
            verdict.other.to_owned(),
            figure(verdict.other_median),
            ratio,
            verdict.wanted.clone(),
            verdict.verdict.to_owned(),
        ]
    };
    aligned(&[vec![head], verdicts.iter().map(row).collect()].concat())
}
