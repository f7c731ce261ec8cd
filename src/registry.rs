//! The registry, which leases worker IDs: what is asked of it, and the background worker that asks.

pub mod client;
mod protocol;
