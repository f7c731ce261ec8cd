//! Who may issue IDs.
//!
//! - [`identity`]: the worker, the directory and the layout of a server, by which it recognizes its own mark.
//! - [`number_source`]: where its worker ID comes from, so that a fleet can share one configuration.
//! - [`lease`]: a worker that a registry has granted for a time.
//! - [`fleet`]: which servers could issue the same IDs.
//! - [`vmclock`]: by what a machine notices that it was cloned.

pub mod fleet;
pub mod identity;
pub mod lease;
pub mod number_source;
pub mod vmclock;
