//! What was measured: printed, and written to target/bench.

use crate::machine::Machine;
use crate::{chart, measure};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What is measured, and in what unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The part of the benchmark.
    pub part: &'static str,
    /// What of it, as the heading of a table.
    pub case: &'static str,
    pub unit: &'static str,
    pub better: Better,
    /// The contender with which the others are compared.
    pub reference: &'static str,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

/// One contender's answer.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    #[serde(flatten)]
    pub question: Question,
    pub contender: &'static str,
    /// How many clients there were, or IDs; where that was varied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// One value a round.
    pub values: Vec<f64>,
    pub median: f64,
}

/// Everything that was measured in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    figures: Vec<Figure>,
}

impl Report {
    pub fn new(machine: Machine) -> Self {
        Self { machine, figures: Vec::new() }
    }

    /// A contender's values, one a round.
    pub fn add(&mut self, question: &Question, contender: &'static str, values: Vec<f64>) {
        self.insert(question, contender, None, values);
    }

    /// The same where something was varied: `at` says what it was.
    pub fn add_at(&mut self, question: &Question, contender: &'static str, at: u64, values: Vec<f64>) {
        self.insert(question, contender, Some(at), values);
    }

    fn insert(&mut self, question: &Question, contender: &'static str, at: Option<u64>, values: Vec<f64>) {
        let median = measure::median(&values);
        self.figures.push(Figure { question: *question, contender, at, values, median });
    }

    /// A contender's median, if it was measured.
    pub fn median(&self, question: &Question, contender: &str, at: Option<u64>) -> Option<f64> {
        let same = |figure: &&Figure| figure.question == *question && figure.contender == contender && figure.at == at;
        self.figures.iter().find(same).map(|figure| figure.median)
    }

    /// The questions of a part that were answered, each with its figures.
    fn answers(&self, part: Option<&str>) -> Vec<(Question, Vec<&Figure>)> {
        let mut answers: Vec<(Question, Vec<&Figure>)> = Vec::new();
        for figure in self.figures.iter().filter(|figure| part.is_none_or(|part| figure.question.part == part)) {
            match answers.iter_mut().find(|(question, _)| *question == figure.question) {
                Some((_, figures)) => figures.push(figure),
                None => answers.push((figure.question, vec![figure])),
            }
        }
        answers
    }
}

impl Report {
    /// Prints the tables of a part.
    pub fn print(&self, part: &str) {
        for (question, figures) in self.answers(Some(part)) {
            println!("\n{}", table(&question, &figures));
        }
    }

    /// Writes everything to target/bench, and says where that is.
    pub fn write(&self) -> io::Result<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
        fs::create_dir_all(&directory)?;
        let directory = directory.canonicalize()?;
        fs::write(directory.join("results.json"), serde_json::to_string_pretty(self)?)?;
        let mut page = format!("{}\n", self.machine);
        for (number, (question, figures)) in self.answers(None).iter().enumerate() {
            let picture = format!("{}-{number}.svg", question.part);
            fs::write(directory.join(&picture), chart::draw(question, figures))?;
            let _ = write!(page, "\n## {}\n\n![]({picture})\n\n{}", question.case, table(question, figures));
        }
        fs::write(directory.join("results.md"), page)?;
        Ok(directory)
    }
}

/// A table in Markdown, with its columns aligned so that it can be read in a terminal, too.
fn table(question: &Question, figures: &[&Figure]) -> String {
    let varied: Vec<u64> = {
        let mut at: Vec<_> = figures.iter().filter_map(|figure| figure.at).collect();
        at.sort_unstable();
        at.dedup();
        at
    };
    let reference = |at| figures.iter().find(|f| f.contender == question.reference && f.at == at).map(|f| f.median);
    let ratio = |figure: &Figure| {
        reference(figure.at).map_or_else(String::new, |reference| format!("{:.2}", reference / figure.median))
    };
    let mut rows = Vec::new();
    if varied.is_empty() {
        let heading = format!("{}, {}", question.case, question.unit);
        rows.push(vec![
            heading,
            "median".into(),
            "least".into(),
            "most".into(),
            format!("{} is, times", question.reference),
        ]);
        for figure in figures {
            let least = figure.values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = figure.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let numbers = [figure.median, least, most].map(number);
            rows.push([vec![figure.contender.to_owned()], numbers.to_vec(), vec![ratio(figure)]].concat());
        }
    } else {
        let heading = format!("{}, {}", question.case, question.unit);
        rows.push([vec![heading], varied.iter().map(|&at| grouped(at)).collect()].concat());
        let mut contenders: Vec<&str> = Vec::new();
        for figure in figures {
            if !contenders.contains(&figure.contender) {
                contenders.push(figure.contender);
            }
        }
        for contender in contenders {
            let cell = |&at: &u64| {
                let figure = figures.iter().find(|f| f.contender == contender && f.at == Some(at));
                figure.map_or_else(String::new, |figure| number(figure.median))
            };
            rows.push([vec![contender.to_owned()], varied.iter().map(cell).collect()].concat());
        }
    }
    aligned(&rows)
}

/// Rows of one table, the first its heading.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (line, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if column == 0 { write!(text, "| {cell:<width$} ") } else { write!(text, "| {cell:>width$} ") };
        }
        text.push_str("|\n");
        if line == 0 {
            for (column, width) in widths.iter().enumerate() {
                let _ = write!(text, "|{}{}", "-".repeat(width + 1), if column == 0 { "-" } else { ":" });
            }
            text.push_str("|\n");
        }
    }
    text
}

/// A number with as many digits as matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounded, and to be read by people"
        )]
        1000.0.. if value > 0.0 => grouped(value.round() as u64),
        _ => format!("{value:.0}"),
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
