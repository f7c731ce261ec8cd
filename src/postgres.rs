//! What PostgreSQL and the system offer: clocks, host names, connections, catalogs, commands, error reports.

pub mod background_worker;
pub mod catalog;
pub mod clock;
pub mod command;
pub mod exit_hook;
pub mod expression;
pub mod extension_catalog;
pub mod failure;
pub mod foreign_server;
pub mod host_number;
pub mod libpq;
pub mod memory;
pub mod os_error;
pub mod remote;
pub mod report;
pub mod server_encoding;
pub mod sleep;
pub mod subtransaction;
pub mod tsc;
pub mod unnoticed;
pub mod user;
