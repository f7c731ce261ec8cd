//! What the backends of a server share to issue IDs: atomic words, without a lock.
//!
//! - [`generator`]: the last position issued, and how far the mark covers the next ones; [`policy`]: what happens when
//!   the clock goes back or a tick is full; [`history`]: positions that past ticks have left over.
//! - [`horizon`]: the position below which no row can appear any more.
//! - [`waiting`]: whether readers sleep until a transaction ends.
//! - [`forward_jump`]: whether to trust a clock that has jumped ahead.

pub mod forward_jump;
pub mod generator;
pub mod history;
pub mod horizon;
pub mod policy;
mod sync;
pub mod waiting;
