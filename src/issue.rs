//! Gives IDs to a backend.

pub mod horizon;
pub mod issuer;
mod wait;
mod without_ids;
pub mod writer;
