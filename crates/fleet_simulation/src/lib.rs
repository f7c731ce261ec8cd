//! A simulation of 1,024 workers in 32 data centers: real generators, with simulated clocks, disks, replication,
//! network and registry. A month takes two minutes.
//!
//! Clients keep every ID that they receive. At the end all of them are sorted, and an ID that came twice is counted.
//! While time goes by, each server is held to its promises. Its IDs ascend, are below its durable mark and its grant,
//! and are at most `max_borrow` ahead of its clock.
//!
//! # What is real
//!
//! `snowflake_core`: the generator, the guard against jumps of the clock, the layout, and all that decides about the
//! mark: where a server begins, when it extends the mark, and what it writes in which order. [`server`] has the disk on
//! which that happens. So is the registry client, with a network of [`registry_client`]. [`registry`] has the rules of
//! the SQL.
//!
//! # What goes wrong
//!
//! [`faults`] has the list. Servers crash at any point of an extension, also again and again. Machines boot, lose their
//! power or stand still. Standbys take over, also beside a primary that continues, cut off or not. Standbys are lost,
//! and made anew. State directories are lost. Clocks drift, stop, and are set up to an hour back or four hours ahead.
//! The registry goes away for hours, its clock is set wrong, and answers are lost. Up to eight machines fail at once.
//!
//! # What does not
//!
//! - What docs/guarantees.md does not promise. With a worker of its own, a server loses its state directory only while
//!   its clock is right, and has been for two hours. No two nodes are configured with one worker. No snapshot of a
//!   volume is put back.
//! - A standby with the mark in WAL is promoted only if it had received what was acknowledged: replication is
//!   synchronous, and never falls back to asynchronous.
//! - Restores and failovers of the registry, copies of servers, and requests that arrive late: `lease_model` explores
//!   them.
//! - Several callers at once: the core's own tests have their interleavings.
//! - Time that a disk or the network takes. Only whether a crash comes before or after a write is simulated.
//! - What people do, apart from one thing: a server that has lost its worker is restarted after five minutes.
//!
//! # Clients
//!
//! A quiet server gets a burst of calls once a minute. From two seconds before something goes wrong until some seconds
//! after it, and after every start, calls come every few milliseconds: there duplicates would arise.

#![forbid(unsafe_code)]

pub mod chance;
pub mod clock;
pub mod events;
pub mod faults;
pub mod fleet;
pub mod histogram;
pub mod ledger;
pub mod machine;
pub mod registry;
pub mod registry_client;
pub mod replication;
pub mod report;
pub mod server;
pub mod settings;
pub mod simulation;
pub mod tally;
pub mod time;
