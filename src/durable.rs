//! Keeps a durable mark ahead of the IDs. Two rules make them unique on any clock and through any crash:
//!
//! - **I1**: every timestamp issued is below the mark on disk. So the mark is written first, and the generator is
//!   allowed to use it afterwards. See [`extend`].
//! - **I2**: after every start of the generator, the first timestamp is at or above the mark that was read. See [`start`].
//!
//! The mark is written under a [`lock`], once for everybody who waits for it: by the [`keeper`] while IDs are asked for, by the
//! backend that comes near it first, or by any that comes to it. No demand, no writes.
//!
//! ```text
//! keeper ─┬─> extend ──> request ──┐    request: a backend asks the keeper, where the mark goes through the WAL
//!         │      └──────────────> start ──> mark ──> state_file
//!         └─> wal                         identity: whose mark it is; lock: who may write it
//! shutdown ──────────────────────────────> mark            lowers it when the server ends as planned
//! ```

pub mod extend;
pub mod identity;
pub mod keeper;
pub mod lock;
pub mod mark;
pub mod request;
pub mod shutdown;
pub mod start;
pub mod state_file;
pub mod wal;
