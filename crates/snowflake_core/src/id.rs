//! What an ID is.
//!
//! - [`layout`]: where the bits are; composing, decoding and explaining an ID.
//! - [`text`], [`uuid`]: other forms of an ID, which hold the same number; [`encrypt`]: IDs that tell outsiders
//!   nothing.
//! - [`shard`]: the hashes of an ID by which others distribute rows.
//! - [`periods`]: the periods of time that partitions of a table hold.

pub mod encrypt;
pub mod layout;
pub mod periods;
pub mod shard;
pub mod text;
pub mod uuid;
