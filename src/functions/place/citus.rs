//! The shards of tables that Citus distributes by hash of an ID.
//!
//! A wrong shard costs locality only, since Citus sends each row where it belongs. So what is not known here is no
//! error.
//!
//! Citus keeps what it knows of a table as long as we do: on every node, it has PostgreSQL invalidate the table
//! whenever its shards change or move.

use crate::postgres::extension_catalog::{Key, rows_of};
use pgrx::is_a;
use pgrx::pg_sys::{Datum, Oid};
use pgrx::prelude::*;
use snowflake_core::id::shard::citus_hash;
use std::ops::RangeInclusive;

/// Citus's DISTRIBUTE_BY_HASH. A char of C's is signed on some machines only.
const HASH: i32 = b'h' as i32;

/// How Citus distributes a table.
pub enum Distribution {
    /// By hash of an ID.
    ById(Shards),
    /// By hash of something else.
    ByOther,
}

/// Shards of a table, in the order of their hashes.
#[derive(Debug)]
pub struct Shards(Vec<Shard>);

/// The IDs with these hashes.
#[derive(Debug)]
struct Shard {
    first: i32,
    last: i32,
    is_here: bool,
}

impl Shards {
    /// Whether this node has one of them.
    pub fn are_here(&self) -> bool {
        self.0.iter().any(|shard| shard.is_here)
    }

    /// Whether this node has an ID's shard.
    pub fn is_here(&self, id: i64) -> bool {
        self.of(citus_hash(id)).is_some_and(|shard| shard.is_here)
    }

    /// The hashes of an ID's shard.
    pub fn hashes_of(&self, id: i64) -> Option<RangeInclusive<i32>> {
        self.of(citus_hash(id)).map(|shard| shard.first..=shard.last)
    }

    fn of(&self, hash: i32) -> Option<&Shard> {
        let next = self.0.partition_point(|shard| shard.last < hash);
        self.0.get(next).filter(|shard| shard.first <= hash)
    }
}

/// How Citus distributes a table; `None` for tables that it does not distribute by hash.
pub fn distribution(table: Oid) -> Option<Distribution> {
    let columns =
        [(c"logicalrelid", pg_sys::REGCLASSOID), (c"partmethod", pg_sys::CHAROID), (c"partkey", pg_sys::TEXTOID)];
    let key = Key { index: c"pg_dist_partition_logical_relid_index", equal: pg_sys::F_OIDEQ, value: table.into() };
    // SAFETY: a regclass is compared as an OID. The columns have these types, and the text is that of a node.
    let by_id = unsafe {
        rows_of(c"pg_dist_partition", columns, Some(key), |[_, method, column]| {
            let is_hash = method.and_then(|method| i8::from_datum(method, false)).map(i32::from) == Some(HASH);
            column.filter(|_| is_hash).map(|column| is_of_ids(column))
        })
    };
    match by_id.first() {
        Some(Some(true)) => Some(Distribution::ById(shards(table))),
        Some(Some(false)) => Some(Distribution::ByOther),
        Some(None) | None => None,
    }
}

/// Whether the values of a column have the hash of a `bigint`.
///
/// # Safety
///
/// The column is the text of a node.
unsafe fn is_of_ids(column: Datum) -> bool {
    // SAFETY: as the caller's; the type of a column exists.
    unsafe {
        let node = pg_sys::stringToNode(pg_sys::text_to_cstring(column.cast_mut_ptr())).cast::<pg_sys::Node>();
        if !is_a(node, pg_sys::NodeTag::T_Var) {
            return false;
        }
        // As Citus does.
        let flags = pg_sys::TYPECACHE_HASH_PROC.cast_signed();
        let function = (*pg_sys::lookup_type_cache((*node.cast::<pg_sys::Var>()).vartype, flags)).hash_proc;
        function == Oid::from(pg_sys::F_HASHINT8)
    }
}

fn shards(table: Oid) -> Shards {
    let columns = [
        (c"logicalrelid", pg_sys::REGCLASSOID),
        (c"shardid", pg_sys::INT8OID),
        (c"shardminvalue", pg_sys::TEXTOID),
        (c"shardmaxvalue", pg_sys::TEXTOID),
    ];
    let key = Key { index: c"pg_dist_shard_logical_relid_index", equal: pg_sys::F_OIDEQ, value: table.into() };
    // SAFETY: as above.
    let ranges = unsafe {
        rows_of(c"pg_dist_shard", columns, Some(key), |[_, shard, first, last]| {
            let shard = i64::from_datum(shard?, false)?;
            let number = |text: Datum| <&str>::from_datum(text, false)?.parse().ok();
            Some((shard, number(first?)?, number(last?)?))
        })
    };
    let here = group_of_this_node();
    let is_here = |shard| here.is_some_and(|here| groups_of(shard).any(|group| group == here));
    let mut shards: Vec<_> = ranges
        .into_iter()
        .flatten()
        .map(|(shard, first, last)| Shard { first, last, is_here: is_here(shard) })
        .collect();
    shards.sort_unstable_by_key(|shard| shard.first);
    Shards(shards)
}

/// The nodes that have a shard.
fn groups_of(shard: i64) -> impl Iterator<Item = i32> {
    let columns = [(c"shardid", pg_sys::INT8OID), (c"groupid", pg_sys::INT4OID)];
    let key = Key { index: c"pg_dist_placement_shardid_index", equal: pg_sys::F_INT8EQ, value: shard.into() };
    // SAFETY: a bigint is compared with one. The column has this type.
    let groups =
        unsafe { rows_of(c"pg_dist_placement", columns, Some(key), |[_, group]| i32::from_datum(group?, false)) };
    groups.into_iter().flatten()
}

fn group_of_this_node() -> Option<i32> {
    // SAFETY: the column has this type.
    let groups = unsafe {
        rows_of(c"pg_dist_local_group", [(c"groupid", pg_sys::INT4OID)], None, |[group]| i32::from_datum(group?, false))
    };
    groups.into_iter().next()?
}
