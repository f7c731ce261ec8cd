//! The extension's promises on real servers, with PostgreSQL alone.

mod adopt;
mod calls;
mod faults;
mod feed;
mod hosted;
mod registry;
mod repository;
mod servers;
mod sql;
mod stops;
mod traces;

use std::process::ExitCode;

fn main() -> ExitCode {
    testbed::runner::run(faults::cases().into_iter().chain(stops::cases()), traces::check, |is_whole| {
        faults::report();
        traces::report(is_whole)
    })
}
