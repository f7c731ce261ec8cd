//! The durable mark of a worker, as a model that a model checker explores.
//!
//! - **I1**: every timestamp issued is below the durable mark, which was flushed before.
//! - **I2**: after every start, the first timestamp is at or above the mark that was found.
//!
//! A server keeps its mark in three places: a *record* in its state directory, a *page* in WAL, and, of the record that it
//! wrote last, a *life* in its data directory. Each write is a step of its own, so that servers crash between any two.
//! Where a server begins is decided by the start table of the core, which is called here, and not told again.
//!
//! - [`state`]: who knows what. Times are small numbers; a tick is one.
//! - [`step`]: what can happen: crashes, planned stops, base backups, lost WAL, promotions, pg_rewind, another worker,
//!   layout, `wal_mark` or `state_directory`.
//! - [`model`], [`server`]: what the steps do.
//! - [`found`]: what a start finds.
//! - [`rules`]: each rule can be switched off, to see what goes wrong without it.
//! - [`world`]: how much there is of everything.
//! - [`promises`]: what must hold in every state, and what must be seen in some.
//! - [`names`]: makes one state of many.
//! - [`coverage`]: which rows of the start table were visited.
//! - [`replay`]: holds servers to the model by what they have told.
//! - [`story`]: tells a sequence of steps in sentences.
//!
//! No exploration has damaged files, leases, other clusters, what a DBA accepts by hand, state directories without locks, or
//! more than three servers or two workers. Replays have the first four, as far as starts find them.
//!
//! A server issues all timestamps that its clock and its mark allow: who issues less has less to repeat.

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
