//! A fleet without a registry: which servers could issue the same IDs, and which IDs another server has issued.

mod fixture;
mod foreign;
mod identity;
