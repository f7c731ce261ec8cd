//! A registry leases worker IDs: each row of the table of claims, on real servers.

mod away;
mod claims;
mod clocks;
mod copies;
mod extension;
mod fixture;
mod hostile;
mod in_place;
mod misconfigured;
mod names;
mod own_worker;
mod restarted;
mod restored;
mod roles;
mod script;
mod versions;
