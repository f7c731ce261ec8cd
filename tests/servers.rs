//! The extension's promises on real servers, with PostgreSQL alone.

mod admin;
mod adopt;
mod bench_report;
mod clock;
mod copy;
mod docs;
mod extension;
mod faults;
mod fdw;
mod fleet;
mod health;
mod hosted;
mod hostile;
mod install;
mod instructions;
mod issuing;
mod itself;
mod keeper;
mod layouts;
mod licenses;
mod logical;
mod memory;
mod migration;
mod one_writer;
mod outsiders;
mod partitions;
mod planner;
mod reading;
mod reference;
mod refusals;
mod registry;
mod rooms;
mod serial;
mod setup;
mod shards;
mod simulation;
mod snowflake_type;
mod sql_surface;
mod startup_log;
mod state_directory;
mod status;
mod tags;
mod text;
mod verbs;
mod versions;
mod wait_events;
mod worker_sources;

use std::process::ExitCode;

fn main() -> ExitCode {
    testbed::runner::run(faults::cases(), faults::report)
}
