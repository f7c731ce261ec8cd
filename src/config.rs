//! The parameters, layouts by their text, and whether the library was preloaded.

pub mod gucs;
pub mod layout_cache;
pub mod preload;
