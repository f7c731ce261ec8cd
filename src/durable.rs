//! Keeps a durable mark ahead of the IDs. Two invariants make IDs unique on any clock and through any crash:
//!
//! - **I1**: every timestamp issued is below the mark on disk. [`extend`] writes the mark before the generator may use
//!   it.
//! - **I2**: after every start of the generator, the first timestamp is at or above the mark that was read. See
//!   [`start`].
//!
//! One process writes the mark, under a [lock](crate::shared::mark_lock), for all that wait for it: the [`keeper`]
//! while IDs are issued, else the backend that comes near the mark or reaches it. An idle server writes nothing.
//!
//! ```text
//! keeper ──> extend ──> request ──> start ──> mark ──> directory_lock ──> state_file ──> replace
//!                                 shutdown ─────┘├──> life_file ─────────────────────────────┘
//!                                                └──> wal ──> horizon
//! ```
//!
//! [`regular_file`] opens the files, and nothing else. [`lease`] says how far the registry lets the mark go, and
//! [`lease_file`] keeps the lease. [`request`] asks the keeper for a mark that must go through [`wal`]. [`identity`]
//! tells whose a mark is. [`shutdown`] lowers the mark when the server stops as planned.

pub mod directory_lock;
pub mod extend;
pub mod horizon;
pub mod identity;
pub mod keeper;
pub mod lease;
pub mod lease_file;
mod left_over;
pub mod life_file;
pub mod mark;
mod regular_file;
mod replace;
pub mod request;
pub mod shutdown;
pub mod start;
pub mod state_file;
pub mod storage;
pub mod trace;
pub mod wal;
