//! Gives IDs to a backend.

pub mod issuer;
mod wait;
