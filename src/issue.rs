//! Gives IDs to a backend.

pub mod horizon;
pub mod issuer;
pub mod last_id;
pub mod readers;
mod wait;
pub mod writer;
