//! A fleet without a registry: which servers could issue the same IDs, and which IDs another server has issued.

mod access;
mod answers;
mod audit;
mod dblink;
mod fixture;
mod foreign;
mod hostile;
mod identity;
mod issued_elsewhere;
mod open_files;
mod problems;
mod reach;
