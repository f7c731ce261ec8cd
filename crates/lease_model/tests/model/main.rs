//! Explores the model: what it promises, what each rule is for, and what no rule helps against.
//!
//! `make test` explores small worlds, and `make suite NAME=model` larger ones, too. Each test prints what it has found.

mod forgetting;
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
    /// As `make suite NAME=model` does.
    Full,
}

fn bounds() -> Bounds {
    if std::env::var("SNOWFLAKE_PG_TESTS").is_ok_and(|tests| tests == "full") { Bounds::Full } else { Bounds::Short }
}

fn main() -> ExitCode {
    let trials = [promise::trials(), rules::trials(), limits::trials(), forgetting::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
