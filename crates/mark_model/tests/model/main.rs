//! Explores the model: what it promises, what each rule is for, and what no rule protects against.
//!
//! `make test` explores small worlds, and `make suite NAME=mark` larger ones, too. Each test prints what it has found,
//! and in the end which rows of the start table were visited.

mod limits;
mod promise;
mod rules;

use libtest_mimic::Arguments;
use std::process::ExitCode;

/// How large the worlds are that are explored.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Bounds {
    /// As `make test` does.
    Short,
    /// As `make suite NAME=mark` does.
    Full,
}

fn bounds() -> Bounds {
    if std::env::var("SNOWFLAKE_PG_TESTS").is_ok_and(|tests| tests == "full") { Bounds::Full } else { Bounds::Short }
}

/// Rows of the start table that a world of one cluster, and of machines that nobody clones, does not have.
const OUTSIDE: [&str; 2] = ["OtherCluster", "OtherGeneration"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = [promise::trials(), rules::trials(), limits::trials()].into_iter().flatten().collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let (visits, rows) = (mark_model::coverage::visits(), mark_model::coverage::rows());
    for (number, row) in rows {
        println!("{:>12} starts found {row}", visits.get(&number).unwrap_or(&0));
    }
    let is_missing = |&(number, row): &(u64, &str)| !visits.contains_key(&number) && !OUTSIDE.contains(&row);
    let missing: Vec<_> = rows.into_iter().filter(is_missing).collect();
    if arguments.filter.is_none() && !arguments.list && !missing.is_empty() {
        println!("no start found {missing:?}");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}
