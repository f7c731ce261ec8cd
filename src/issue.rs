//! Gives IDs to a backend.

pub mod horizon;
pub mod issuer;
pub mod last_id;
mod wait;
pub mod writer;
