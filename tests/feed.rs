//! One feed of the rows of several servers: in order, each once, none missed.

mod document;
mod fixture;
mod hostile;
mod killed;
mod liar;
mod reading;
mod rights;
mod servers;

pub use fixture::{Fleet, insert, read_all, start, wait_for_rows};
