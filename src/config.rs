//! What is configured, and whether the library was preloaded, without which nothing is.

pub mod gucs;
pub mod layout_cache;
pub mod preload;
