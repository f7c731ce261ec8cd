//! Which IDs fall into a partition, or into a shard of Citus.
//!
//! Read from the catalogs without a lock on the table: a role that may insert into it may not lock it. Each process
//! keeps what it has read until PostgreSQL says that the table has changed.

use super::citus::{Distribution, Shards, distribution};
use super::field::Field;
use crate::postgres::catalog::{CachedRow, PartitionKey, name_of_table, partition_key};
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, displayable};
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use snowflake_core::id::shard::partition_hash;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// `HASHEXTENDED_PROC` of src/include/access/hash.h.
const EXTENDED: i16 = 2;

/// `PARTITION_STRATEGY_HASH`. A char of C's is signed on some machines only.
const HASH: i32 = b'h' as i32;

/// How a number becomes the one of which a partition has a remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hasher {
    /// By PostgreSQL's own operator class, as PgDog.
    Postgres,
    /// By one of a field.
    Field(Field),
}

impl Hasher {
    /// The number of an ID.
    pub fn hash(self, id: i64) -> u64 {
        match self {
            Self::Postgres => partition_hash(id),
            Self::Field(field) => field.of(id),
        }
    }
}

/// Where rows of a table are.
#[derive(Debug)]
pub enum Target {
    /// In this partition, if their IDs have this remainder.
    Partition {
        /// How IDs become numbers.
        hasher: Hasher,
        /// By which number they are divided.
        modulus: u64,
        /// What must be left.
        remainder: u64,
    },
    /// In the partition of each remainder.
    Partitioned {
        /// How IDs become numbers.
        hasher: Hasher,
        /// The greatest modulus, of which each other one is a factor.
        modulus: u64,
    },
    /// In these shards of Citus.
    Distributed(Shards),
}

thread_local! {
    static KNOWN: RefCell<HashMap<Oid, Rc<Target>>> = RefCell::new(HashMap::new());
    static WATCHES: Cell<bool> = const { Cell::new(false) };
    /// How often a relation has changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// Where the rows of this table are.
pub fn target(table: Oid) -> Rc<Target> {
    // Without a lock, PostgreSQL would say it only to the next statement or transaction.
    // SAFETY: within a transaction, as whenever a relation is locked.
    // mutant: place-bound-unheard
    unsafe { pg_sys::AcceptInvalidationMessages() };
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&table).cloned()) {
        return known;
    }
    if !WATCHES.replace(true) {
        // SAFETY: the callback takes any relation, and no argument.
        unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(forget), 0.into()) };
    }
    let changes = CHANGES.get();
    let found = Rc::new(read(table));
    // PostgreSQL can say that a relation has changed while the catalogs are read.
    if CHANGES.get() == changes {
        KNOWN.with_borrow_mut(|known| known.insert(table, Rc::clone(&found)));
    }
    found
}

/// Called by PostgreSQL when a relation, or any of them, may have changed.
unsafe extern "C-unwind" fn forget(_argument: pg_sys::Datum, _relation: Oid) {
    CHANGES.set(CHANGES.get().wrapping_add(1));
    // All: a table has changed if a partition of it has.
    KNOWN.with(|known| {
        if let Ok(mut known) = known.try_borrow_mut() {
            // mutant: place-bound-kept
            known.clear();
        }
    });
}

fn read(table: Oid) -> Target {
    // SAFETY: takes any relation, and gives a list of OIDs: none if it was detached since its bound was read, where
    // get_partition_parent() has an internal error.
    let parents = unsafe { pgrx::PgList::<Oid>::from_pg(pg_sys::get_partition_ancestors(table)) };
    let must_be_free = |partitioned, above: usize| {
        // mutant: place-above
        if parents.iter_oid().skip(above).any(|above| shares_a_key(above, partitioned)) {
            refuse(table, "A table above is partitioned by the same column.");
        }
    };
    if let (Some((modulus, remainder)), Some(parent)) = (bound(table), parents.get_oid(0)) {
        let hasher = hasher(parent, table);
        must_be_free(parent, 1);
        return Target::Partition { hasher, modulus, remainder };
    }
    match distribution(table) {
        Some(Distribution::ById(shards)) => return Target::Distributed(shards),
        Some(Distribution::ByOther) => {
            refuse(table, "Citus distributes it by a column that is not a bigint or snowflake.")
        }
        None => {}
    }
    let hasher = hasher(table, table);
    must_be_free(table, 0);
    // SAFETY: takes any relation, and no lock.
    let partitions = unsafe { pgrx::PgList::<Oid>::from_pg(pg_sys::find_inheritance_children(table, 0)) };
    let modulus = partitions.iter_oid().filter_map(bound).map(|(modulus, _)| modulus).max();
    Target::Partitioned { hasher, modulus: modulus.unwrap_or(1) }
}

/// Modulus and remainder of a hash partition; `None` for other relations.
fn bound(table: Oid) -> Option<(u64, u64)> {
    // SAFETY: the cache has this key, and its rows this column, which is NULL or the text of a node of this type.
    unsafe {
        let row = CachedRow::find(pg_sys::SysCacheIdentifier::RELOID, table)?;
        let text = row.column(pg_sys::Anum_pg_class_relpartbound)?;
        let node = pg_sys::stringToNode(pg_sys::text_to_cstring(text.cast_mut_ptr()));
        let bound = &*node.cast::<pg_sys::PartitionBoundSpec>();
        let is_hash = i32::from(bound.strategy) == HASH && !bound.is_default;
        is_hash.then(|| (bound.modulus.unsigned_abs().into(), bound.remainder.unsigned_abs().into()))
    }
}

/// By which column a table is partitioned by hash, and by which operator class.
struct HashKey {
    column: i16,
    class: Oid,
}

/// `None` for other tables, and for keys that are not a single column.
fn hash_key(table: Oid) -> Option<HashKey> {
    // SAFETY: the cache has this key, and its rows these columns, of these types, none of which is NULL.
    unsafe {
        let row = CachedRow::find(pg_sys::SysCacheIdentifier::PARTRELID, table)?;
        let strategy = i8::from_datum(row.column(pg_sys::Anum_pg_partitioned_table_partstrat)?, false)?;
        let columns = i16::from_datum(row.column(pg_sys::Anum_pg_partitioned_table_partnatts)?, false)?;
        let numbers = row.column(pg_sys::Anum_pg_partitioned_table_partattrs)?.cast_mut_ptr::<pg_sys::int2vector>();
        let classes = row.column(pg_sys::Anum_pg_partitioned_table_partclass)?.cast_mut_ptr::<pg_sys::oidvector>();
        let (column, class) = (*(*numbers).values.as_ptr(), *(*classes).values.as_ptr());
        // 0 is an expression.
        (i32::from(strategy) == HASH && columns == 1 && column != 0).then_some(HashKey { column, class })
    }
}

/// Whether a table above is partitioned, in any way, by the column by whose hash this one is: IDs must fall there, too.
fn shares_a_key(above: Oid, partitioned: Oid) -> bool {
    // SAFETY: the table has this column. The number of one that does not exist is 0, as that of an expression.
    let column = hash_key(partitioned)
        .map_or(0, |key| unsafe { pg_sys::get_attnum(above, pg_sys::get_attname(partitioned, key.column, false)) });
    column != 0 && columns_of_key(above).contains(&column)
}

/// The columns in a table's partition key, also those in its expressions.
fn columns_of_key(table: Oid) -> Vec<i16> {
    let Some(PartitionKey { mut columns, expressions }) = partition_key(table) else { return Vec::new() };
    if let Some(expressions) = expressions {
        let mut named = std::ptr::null_mut();
        // SAFETY: expressions, in which the table is number 1. The set is made by this, and has no member below 0.
        let members = unsafe {
            pg_sys::pull_varattnos(expressions, 1, &raw mut named);
            let next = |&last: &i32| Some(pg_sys::bms_next_member(named, last)).filter(|&member| member >= 0);
            std::iter::successors(Some(-1), next).skip(1)
        };
        columns.extend(
            members.filter_map(|member| i16::try_from(member + pg_sys::FirstLowInvalidHeapAttributeNumber).ok()),
        );
    }
    columns
}

/// How a table is partitioned by hash; an ERROR if it is not, or not by a single `bigint`.
fn hasher(parent: Oid, asked: Oid) -> Hasher {
    let Some(HashKey { class, .. }) = hash_key(parent) else {
        refuse(asked, "It is not partitioned by hash of a single column.");
    };
    // SAFETY: takes an operator class.
    let function = unsafe {
        let (family, of_type) = (pg_sys::get_opclass_family(class), pg_sys::get_opclass_input_type(class));
        pg_sys::get_opfamily_proc(family, of_type, of_type, EXTENDED)
    };
    if function == Oid::from(pg_sys::F_HASHINT8EXTENDED) {
        return Hasher::Postgres;
    }
    if is_of_field(function)
        && let Some(field) = Field::of_function(function)
    {
        return Hasher::Field(field);
    }
    refuse(asked, "Its partition key is not a bigint or snowflake.")
}

/// Whether this is one of our hash functions, by the name in the library.
fn is_of_field(function: Oid) -> bool {
    // SAFETY: the cache has this key, and its rows this column, a text.
    unsafe {
        let row = CachedRow::find(pg_sys::SysCacheIdentifier::PROCOID, function);
        let source = row.as_ref().and_then(|row| row.column(pg_sys::Anum_pg_proc_prosrc));
        source.and_then(|source| <&[u8]>::from_datum(source, false)) == Some(b"snowflake_field_hash_extended")
    }
}

/// The name of a table, for messages.
pub fn display_name(table: Oid) -> String {
    name_of_table(table).map_or_else(|| table.to_u32().to_string(), |name| displayable(&characters(&name)).to_string())
}

fn refuse(table: Oid, why: &str) -> ! {
    raise(
        error_report(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("which IDs fall into {} is not known", display_name(table)),
        )
        .set_detail(why.to_owned())
        .set_hint("Name a partition of a table that is partitioned by hash of its ID, or a table that Citus distributes by it."),
    )
}
