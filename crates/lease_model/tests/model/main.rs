//! Explores the model: what it promises, what each rule is for, and what no rule helps against.
//!
//! A short form runs in `make test-core`; `make test-model` explores larger worlds, too. Each test prints what it has
//! found.

mod forgetting;
mod limits;
mod promise;
mod rules;

use libtest_mimic::{Arguments, Trial};
use std::process::ExitCode;

/// Whether larger worlds are explored, too.
fn is_full() -> bool {
    std::env::var_os("SNOWFLAKE_PG_MODEL").is_some_and(|counts| counts == "full")
}

/// A test, which prints what its work returns.
fn trial(name: impl Into<String>, work: impl FnOnce() -> String + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let found = work();
        println!("\n{}: {found}", name.replace('_', " "));
        Ok(())
    })
}

fn main() -> ExitCode {
    let trials = [promise::trials(), rules::trials(), limits::trials(), forgetting::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit_code()
}
