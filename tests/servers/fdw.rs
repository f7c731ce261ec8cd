//! Tables that reach over servers by postgres_fdw, and the trigger that gives rows their IDs where a client sends NULL.

mod by_hash;
mod example;
mod fill;
mod import;
mod moves;
mod shards;
