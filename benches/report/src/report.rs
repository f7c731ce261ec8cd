//! What was measured: printed, and written to target/bench.

use crate::figures::{Answer, Figure, Question};
use crate::machine::Machine;
use crate::{chart, numbers, table};
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Everything that was measured in one run.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    figures: Vec<Figure>,
}

impl Report {
    /// A report on this machine, with nothing measured yet.
    pub fn new(machine: Machine) -> Self {
        Self { machine, figures: Vec::new() }
    }

    /// A contender's values, one a round.
    pub fn add(&mut self, question: &Question, contender: &'static str, values: Vec<f64>) {
        self.insert(question, contender, None, values);
    }

    /// A contender's values where something was varied: `at` says what it was.
    pub fn add_at(&mut self, question: &Question, contender: &'static str, at: u64, values: Vec<f64>) {
        self.insert(question, contender, Some(at), values);
    }

    fn insert(&mut self, question: &Question, contender: &'static str, at: Option<u64>, values: Vec<f64>) {
        let median = numbers::median(&values);
        self.figures.push(Figure { question: *question, contender, at, values, median });
    }

    /// A contender's median, if it was measured.
    pub fn median(&self, question: &Question, contender: &str, at: Option<u64>) -> Option<f64> {
        let same = |figure: &&Figure| figure.question == *question && figure.contender == contender && figure.at == at;
        self.figures.iter().find(same).map(|figure| figure.median)
    }

    /// The questions that were answered.
    pub fn answers(&self) -> Vec<Answer<'_>> {
        let mut answers: Vec<Answer> = Vec::new();
        for figure in &self.figures {
            match answers.iter_mut().find(|answer| answer.question == figure.question) {
                Some(answer) => answer.figures.push(figure),
                None => answers.push(Answer { question: figure.question, figures: vec![figure] }),
            }
        }
        answers
    }

    /// Prints the tables of a part.
    pub fn print(&self, part: &str) {
        for answer in self.answers().iter().filter(|answer| answer.question.part == part) {
            println!("\n{}\n\n{}", answer.question.heading(), table::of(answer));
        }
    }

    /// Writes everything to target/bench, in place of the last whole run, or else to target/bench-part, and says where
    /// that is.
    pub fn write(&self, targets: &[impl Serialize], target_table: &str) -> io::Result<PathBuf> {
        #[derive(Serialize)]
        struct Results<'a, T> {
            #[serde(flatten)]
            report: &'a Report,
            targets: &'a [T],
        }
        let directory = if self.machine.is_of_all() { "bench" } else { "bench-part" };
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target").join(directory);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        let directory = directory.canonicalize()?;
        let results = serde_json::to_string_pretty(&Results { report: self, targets })?;
        fs::write(directory.join("results.json"), results + "\n")?;
        let mut page = format!("# Results\n\n{}\n## What must be reached\n\n{target_table}", self.machine);
        let mut part = "";
        for answer in self.answers() {
            let question = answer.question;
            if question.part != part {
                part = question.part;
                let _ = write!(page, "\n## {part}\n");
            }
            let picture = question.picture();
            fs::write(directory.join(&picture), chart::draw(&answer))?;
            let heading = question.heading();
            let _ = write!(page, "\n### {heading}\n\n![]({picture})\n\n{}", table::of(&answer));
        }
        fs::write(directory.join("results.md"), page)?;
        Ok(directory)
    }
}
