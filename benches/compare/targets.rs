//! What must be reached, and whether it was.
//!
//! It fails no run: a machine that does other things at the same time is no error.

use crate::contenders::{CLOCK, NAIVE, OURS, PLPGSQL, SEQUENCE, UNTRACKED, WIDE};
use crate::{batches, clients, cost, insert, latency, low_load, saturation, standby};
use bench_report::numbers::{number, ratio, value};
use bench_report::table::aligned;
use bench_report::{Question, Report};
use serde::Serialize;

/// A ratio of two medians that must be reached. With clients, statements of 1,000 IDs.
#[derive(Clone, Copy)]
struct Target {
    what: &'static str,
    question: Question,
    /// How many clients or IDs, where that was varied.
    at: Option<u64>,
    ours: &'static str,
    other: Other,
    wanted: Wanted,
}

/// What ours is divided by.
#[derive(Clone, Copy)]
enum Other {
    /// The median of a contender.
    Median(&'static str),
    /// A number that is known, and what it is called.
    Known(&'static str, f64),
}
use Other::{Known, Median};

#[derive(Clone, Copy)]
enum Wanted {
    AtLeast(f64),
    AtMost(f64),
    /// So many times less.
    Less(f64),
}
use Wanted::{AtLeast, AtMost, Less};

/// Of the default configuration beside a sequence's and what one ID costs; all others say what differs.
const COST: Target = Target {
    what: "CPU time of one ID, beside nextval()",
    question: cost::CPU,
    at: None,
    ours: OURS.name,
    other: Median(SEQUENCE.name),
    wanted: Less(10.0),
};
const CLIENTS: Target = Target {
    what: "16 clients, t41 w2 s20, beside nextval()",
    question: clients::THOUSAND,
    at: Some(16),
    ours: WIDE.name,
    wanted: AtLeast(7.0),
    ..COST
};
/// In the default layout, which a sequence comes close to on a fast machine.
const LIMITED: Target = Target {
    what: "16 clients, of the layout's rate",
    ours: OURS.name,
    other: Known("4,096,000 IDs a second", saturation::RATE),
    wanted: AtLeast(0.96),
    ..CLIENTS
};
/// Both are near the limit of the layout, so that a machine that is busy for a moment counts.
const SATURATED: Target = Target {
    what: "16 clients, beside the same under a lock",
    other: Median(NAIVE.name),
    wanted: AtLeast(0.98),
    ..LIMITED
};
/// The slowest calls of all wait for a core, whatever they call: those are compared with calls that wait for nothing
/// else.
const LATENCY: Target = Target {
    what: "p99, 16 clients, beside nextval()",
    question: latency::PLAIN,
    at: Some(990),
    wanted: AtMost(0.9),
    ..COST
};
/// The first call pays for one flush, and so does a commit.
const AFTER_A_PAUSE: Target = Target {
    what: "First ID after 3 s, keep_warm 0, beside a commit",
    question: low_load::MEDIAN,
    at: Some(3000),
    ours: low_load::COLD,
    other: Median(low_load::COMMITTED),
    wanted: AtMost(1.3),
};
/// The primary writes its horizon about once a second.
const ON_A_STANDBY: Target = Target {
    what: "p99, from a commit until a poll on a standby, a row every 10 ms",
    question: standby::P99,
    at: Some(10),
    ours: standby::POLL,
    other: Known("1.2 s", 1200.0),
    wanted: AtMost(1.0),
};
const INSERT: Target = Target {
    what: "INSERT ... SELECT, beside identity",
    question: insert::SELECT,
    other: Median(insert::IDENTITY),
    wanted: AtLeast(1.05),
    ..COST
};

const TARGETS: [Target; 27] = [
    Target {
        what: "CPU time of one ID, beside clock_timestamp()",
        other: Median(CLOCK.name),
        wanted: AtMost(1.0),
        ..COST
    },
    COST,
    Target { what: "CPU time of one ID, beside PL/pgSQL", other: Median(PLPGSQL.name), wanted: Less(60.0), ..COST },
    Target { what: "CPU time of one ID, beside uuidv7()", other: Median("uuidv7()"), ..COST },
    Target { what: "CPU time of one ID, beside pg_uuidv7", other: Median("pg_uuidv7"), ..COST },
    Target { what: "CPU time of one ID, beside pgEdge", other: Median("pgEdge snowflake.nextval()"), ..COST },
    Target { what: "CPU time of one ID, writers tracked", other: Median(UNTRACKED.name), wanted: AtMost(1.15), ..COST },
    Target {
        what: "CPU time of a transaction, writers tracked",
        question: cost::TRANSACTION,
        other: Median(UNTRACKED.name),
        wanted: AtMost(1.1),
        ..COST
    },
    CLIENTS,
    Target { what: "64 clients, t41 w2 s20, beside nextval()", at: Some(64), ..CLIENTS },
    LIMITED,
    Target { what: "64 clients, of the layout's rate", at: Some(64), wanted: AtLeast(0.92), ..LIMITED },
    SATURATED,
    Target { what: "64 clients, beside the same under a lock", at: Some(64), ..SATURATED },
    Target {
        what: "Saturated, of the layout's rate",
        question: saturation::SHARE,
        at: Some(1),
        other: Known("100 %", 100.0),
        wanted: AtLeast(0.99),
        ..COST
    },
    INSERT,
    Target { what: "COPY, beside identity", question: insert::COPY, ..INSERT },
    Target { what: "WAL of one row, INSERT ... SELECT", question: insert::WAL, wanted: AtMost(1.0), ..INSERT },
    Target { what: "WAL of one row, COPY", question: insert::COPY_WAL, wanted: AtMost(1.0), ..INSERT },
    Target { what: "Index size, beside identity", question: insert::INDEX, wanted: AtMost(1.0), ..INSERT },
    LATENCY,
    Target {
        what: "p99.9, 16 clients, beside clock_timestamp()",
        at: Some(999),
        other: Median(CLOCK.name),
        wanted: AtMost(1.25),
        ..LATENCY
    },
    AFTER_A_PAUSE,
    Target { what: "First ID after 10 s, keep_warm 0, beside a commit", at: Some(10_000), ..AFTER_A_PAUSE },
    ON_A_STANDBY,
    Target { what: "p99, from a commit until a poll on a standby, a row every 3 s", at: Some(3000), ..ON_A_STANDBY },
    Target {
        what: "FROM snowflake_nextvals(1000), beside 1,000 calls",
        question: batches::CPU,
        at: Some(1000),
        ours: batches::BATCH,
        other: Median(batches::SERIES),
        // PostgreSQL keeps the rows of both series before it reads the first.
        wanted: AtMost(1.1),
    },
];

/// A target, and what came of it.
#[derive(Debug, Serialize)]
pub struct Verdict {
    what: &'static str,
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
        let (other, other_median) = match self.other {
            Median(other) => (other, median(other)),
            Known(name, value) => (name, Some(value)),
        };
        let ratio = our_median.zip(other_median).and_then(|(ours, other)| ratio(ours, other));
        let verdict = match ratio.map(|ratio| self.wanted.met(ratio)) {
            Some(true) => "reached",
            Some(false) => "missed",
            None => "not measured",
        };
        Verdict {
            what: self.what,
            question: self.question,
            at: self.at,
            ours: self.ours,
            other,
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

pub fn table(verdicts: &[Verdict]) -> String {
    let head = ["", "ours", "other", "ours ÷ other", "must be", ""].map(str::to_owned).to_vec();
    let row = |verdict: &Verdict| {
        let unit = verdict.question.unit;
        let figure = |median: Option<f64>| median.map_or_else(String::new, |median| value(median, unit) + " " + unit);
        // Less than a half is easier to read as one of so many.
        let ratio = verdict.ratio.map_or_else(String::new, |ratio| match ratio {
            0.5.. => format!("{ratio:.3}"),
            _ if ratio > 0.0 => format!("1/{}", number(1.0 / ratio)),
            _ => number(ratio),
        });
        let medians = [verdict.our_median, verdict.other_median].map(figure);
        let rest = [ratio, verdict.wanted.clone(), verdict.verdict.to_owned()];
        [vec![verdict.what.to_owned()], medians.to_vec(), rest.to_vec()].concat()
    };
    aligned(&[vec![head], verdicts.iter().map(row).collect()].concat())
}
