//! What the repository says of itself: documents, the rooms of the house, commands, versions, and these tests.

mod bench_report;
mod docs;
mod itself;
mod licenses;
mod reference;
mod rooms;
mod setup;
mod simulation;
mod verbs;
mod versions;
