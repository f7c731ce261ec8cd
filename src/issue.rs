//! Gives IDs to a backend.

pub mod horizon;
pub mod issuer;
mod wait;
pub mod writer;
