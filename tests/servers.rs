//! Servers of their own: those that are restarted or killed, have a clock of their own, or stand beside others.

mod admin;
mod checkout;
mod clock;
mod copy;
mod fdw;
mod fleet;
mod health;
mod hostile;
mod install;
mod instructions;
mod issuing;
mod keeper;
mod logical;
mod memory;
mod migration;
mod one_writer;
mod outsiders;
mod partitions;
mod reading;
mod refusals;
mod shards;
mod startup_log;
mod state_directory;
mod status;
mod wait_events;
mod worker_sources;
