//! The durable mark of a worker, as a model that a model checker explores.
//!
//! - **I1**: every timestamp issued is below the durable mark, which was flushed before.
//! - **I2**: after every start, the first timestamp is at or above the mark that was found, and not below the clock.
//!
//! A server keeps its mark in two places: a *record* in its state directory and a *page* in WAL. A *life* in its data
//! directory names the record that it wrote last. Each write is a separate step, so a server can crash between any two.
//! The model calls the core's start table to find where a server begins; it has no copy of that table.
//!
//! - [`state`]: who knows what. Times are small numbers; a tick is one.
//! - [`step`]: what can happen: crashes, planned stops, failed writes, base backups, restored backups, lost WAL,
//!   promotions, pg_rewind, another worker, layout, `wal_mark` or `state_directory`.
//! - [`model`], [`server`]: what the steps do.
//! - [`found`]: what a start finds.
//! - [`rules`]: each rule can be switched off, to see what goes wrong without it.
//! - [`world`]: the bounds of an exploration.
//! - [`promises`]: what must hold in every state, and what must happen in some.
//! - [`names`]: merges states that differ only in arbitrary numbers.
//! - [`coverage`]: which rows of the start table were visited.
//! - [`replay`]: checks the traces of real servers against the model.
//! - [`story`]: tells a sequence of steps in sentences.
//!
//! Explorations leave out damaged files, the ends of leases, other clusters, marks that a DBA accepts by hand, and
//! state directories without locks. They have at most three servers and two workers. Replays cover the first four, as
//! far as starts find them.
//!
//! A server always issues every timestamp that its clock and its mark allow: one that issues fewer has fewer to repeat.

#![forbid(unsafe_code)]

pub mod coverage;
pub mod found;
pub mod model;
pub mod names;
pub mod promises;
pub mod replay;
pub mod rules;
pub mod server;
pub mod state;
pub mod step;
pub mod story;
pub mod world;
