//! What `make bench` makes of its figures: tables, pictures and a page of results. Neither it nor its test,
//! `tests/repository/bench_report.rs`, needs a server.

pub mod chart;
mod figures;
mod machine;
pub mod numbers;
mod report;
pub mod table;

pub use figures::{Answer, Better, Figure, Question};
pub use machine::Machine;
pub use report::Report;
