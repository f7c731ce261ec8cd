//! The extension beside other people's programs: clients, extensions, operators' manifests, monitoring and packages.

mod builds;
mod chaos;
mod citus;
mod clients;
mod first_hour;
mod image;
mod integrations;
mod manifests;
mod monitoring;
mod packages;
mod page;
mod patroni;
mod postgresql;
mod site;
#[path = "../traces.rs"]
mod traces;

use std::process::ExitCode;

fn main() -> ExitCode {
    testbed::runner::run(citus::cases().into_iter().chain(patroni::cases()), traces::check, |_| {
        citus::report();
        patroni::report();
        traces::report(false)
    })
}
