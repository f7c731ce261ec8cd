//! The fault suite: what goes wrong in the life of a server, and the promise that still holds. Each row is
//! in docs/guarantees.md.
//!
//! A short form runs in `make test`; `make suite NAME=faults` runs every row as often as its promise deserves. Both end
//! with a table of what was seen.

mod acknowledged;
mod calls;
mod clock;
mod copies;
mod defaults;
mod disk;
mod exchanged_directory;
mod failover;
mod fixture;
mod hosted;
mod interrupts;
mod leases;
mod lost_mark;
mod nodes;
mod old_record;
mod older_wal;
mod policies;
mod processes;
mod readers;
mod shared_directory;
mod state_file;
mod suite;
mod turns;
mod unlogged;
mod upgrades;
mod writes;

pub use suite::report;

/// The rows, as tests.
pub fn cases() -> Vec<testbed::runner::Case> {
    suite::cases(&[
        processes::FAULTS,
        disk::FAULTS,
        writes::FAULTS,
        state_file::FAULTS,
        clock::FAULTS,
        policies::FAULTS,
        turns::FAULTS,
        interrupts::FAULTS,
        calls::FAULTS,
        failover::FAULTS,
        acknowledged::FAULTS,
        defaults::FAULTS,
        copies::FAULTS,
        unlogged::FAULTS,
        upgrades::FAULTS,
        lost_mark::FAULTS,
        shared_directory::FAULTS,
        exchanged_directory::FAULTS,
        old_record::FAULTS,
        older_wal::FAULTS,
        leases::FAULTS,
        readers::FAULTS,
        hosted::FAULTS,
    ])
}
