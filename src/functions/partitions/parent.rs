//! A table partitioned by range of its ID: its partitions, and how to add one.
//!
//! Read from PostgreSQL's caches and not by queries. They show the present also to a transaction with an older snapshot
//! (REPEATABLE READ), and in any encoding.

use crate::postgres::catalog::{c_string, identifier, qualified, relation_kind, type_name};
use crate::postgres::command::{As, run};
use crate::postgres::report::{error_report, raise};
use crate::postgres::server_encoding::{characters, displayable, quoted};
use pgrx::prelude::*;
use pgrx::{IntoDatum, PgRelation, direct_function_call};
use snowflake_core::id::periods::NEGATIVE as END;
use std::ffi::{CStr, CString, c_int};
use std::ops::Range;
use std::slice::from_raw_parts;

/// A table to which partitions are added. Locked against other schema changes until the end of the transaction; readers
/// and writers continue.
pub struct Parent {
    schema: pg_sys::Oid,
    name: CString,
    owner: pg_sys::Oid,
    access_method: pg_sys::Oid,
    tablespace: pg_sys::Oid,
    /// Its partitions, in ascending order, except a default partition.
    pub partitions: Vec<Partition>,
    /// Its default partition.
    pub default: Option<pg_sys::Oid>,
}

/// A partition of a range of IDs.
pub struct Partition {
    pub table: pg_sys::Oid,
    /// The IDs, up to [`END`].
    pub ids: Range<u64>,
}

impl Parent {
    /// Locks a table, and reads its partitions. An ERROR if it is not partitioned by range of an ID, or if the user
    /// lacks the privileges.
    pub fn lock(table: pg_sys::Oid) -> Self {
        // Before the lock: a user must not lock tables of others.
        // mutant: partitions-owner
        must_be_owner(&open(table, pg_sys::AccessShareLock));
        // mutant: one-makes-partitions
        Self::of_relation(&open(table, pg_sys::ShareUpdateExclusiveLock))
    }

    /// Reads the partitions of a table. An ERROR if it is not partitioned by range of an ID, or if the user may not
    /// read it.
    pub fn read(table: pg_sys::Oid) -> Self {
        // Before the lock, which remains until the end of the transaction.
        // mutant: partitions-readable
        must_be_readable(table);
        Self::of_relation(&open(table, pg_sys::AccessShareLock))
    }

    fn of_relation(relation: &PgRelation) -> Self {
        must_be_partitioned_by_id(relation);
        let class = class(relation);
        let (partitions, default) = partitions(relation);
        Self {
            schema: class.relnamespace,
            name: name(relation),
            owner: class.relowner,
            access_method: class.relam,
            tablespace: class.reltablespace,
            partitions,
            default,
        }
    }

    /// The IDs that have a partition, in ascending order.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.partitions.iter().map(|partition| partition.ids.clone()).collect()
    }

    /// Its name, for messages.
    pub fn display_name(&self) -> String {
        quoted(&characters(self.name.to_bytes()))
    }

    /// The name of a partition: the table's, shortened if it is long, and the suffix.
    pub fn partition_name(&self, suffix: &str) -> CString {
        let suffix = CString::new(suffix).expect("a suffix of ours, which has no zero byte");
        // SAFETY: takes two C strings, and no label.
        c_string(unsafe { pg_sys::makeObjectName(self.name.as_ptr(), suffix.as_ptr(), std::ptr::null()) })
    }

    /// The relation with this name in the schema of the table, if there is one.
    pub fn find(&self, name: &CStr) -> Option<pg_sys::Oid> {
        // SAFETY: looks for a C string in the catalog.
        Some(unsafe { pg_sys::get_relname_relid(name.as_ptr(), self.schema) }).filter(|&oid| oid != pg_sys::InvalidOid)
    }

    /// Creates a partition for a range of IDs, like CREATE TABLE … PARTITION OF, which would lock out readers and
    /// writers.
    ///
    /// ATTACH creates the indexes, foreign keys, triggers and (from PostgreSQL 17 on) identity columns. Comments and
    /// extended statistics of the table are not for partitions.
    pub fn create_partition(&self, name: &CStr, ids: &Range<u64>) -> pg_sys::Oid {
        // mutant: partitions-as-owner
        let _owner = As::begin(self.owner);
        let schema = schema_name(self.schema);
        let (parent, partition) = (qualified(&schema, &self.name), qualified(&schema, name));
        let mut options = Vec::new();
        if self.access_method != pg_sys::InvalidOid {
            // SAFETY: the access method of a table exists.
            let access_method = c_string(unsafe { pg_sys::get_am_name(self.access_method) });
            options.extend([b" USING ".to_vec(), identifier(&access_method)]);
        }
        if self.tablespace != pg_sys::InvalidOid {
            // SAFETY: the tablespace of a table exists.
            let tablespace = c_string(unsafe { pg_sys::get_tablespace_name(self.tablespace) });
            options.extend([b" TABLESPACE ".to_vec(), identifier(&tablespace)]);
        }
        let including = "INCLUDING COMPRESSION INCLUDING CONSTRAINTS INCLUDING DEFAULTS INCLUDING GENERATED \
                         INCLUDING STORAGE";
        run(&[b"CREATE TABLE ", &partition, b" (LIKE ", &parent, b" ", including.as_bytes(), b")", &options.concat()]);
        let until = if ids.end < END { format!("'{}'", ids.end) } else { "MAXVALUE".to_owned() };
        let bounds = format!(" FOR VALUES FROM ('{}') TO ({until})", ids.start);
        run(&[b"ALTER TABLE ", &parent, b" ATTACH PARTITION ", &partition, bounds.as_bytes()]);
        self.find(name).expect("a table that was just made")
    }
}

/// Opens a relation. The lock remains when it is closed.
fn open(table: pg_sys::Oid, lock: u32) -> PgRelation {
    try_open(table, lock).unwrap_or_else(|| {
        raise(error_report(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("relation with OID {} does not exist", table.to_u32()),
        ))
    })
}

/// Opens a relation, if there is one. The lock remains when it is closed.
pub(super) fn try_open(table: pg_sys::Oid, lock: u32) -> Option<PgRelation> {
    // SAFETY: looks up the relation under the lock, and gives null if there is none. It is closed nowhere else.
    unsafe {
        let relation = pg_sys::try_relation_open(table, lock.cast_signed());
        (!relation.is_null()).then(|| PgRelation::from_pg_owned(relation))
    }
}

/// The row of pg_class.
pub(super) fn class(relation: &PgRelation) -> &pg_sys::FormData_pg_class {
    // SAFETY: an open relation has its row of pg_class.
    unsafe { &*relation.rd_rel }
}

fn name(relation: &PgRelation) -> CString {
    c_string(class(relation).relname.data.as_ptr())
}

fn must_be_owner(relation: &PgRelation) {
    let class = class(relation);
    // SAFETY: every call has a user, and every table an owner and a kind. The ERROR has the name, a C string.
    unsafe {
        // A superuser has the privileges of all roles.
        if !pg_sys::has_privs_of_role(pg_sys::GetUserId(), class.relowner) {
            let (why, kind) = (pg_sys::AclResult::ACLCHECK_NOT_OWNER, pg_sys::get_relkind_objtype(class.relkind));
            pg_sys::aclcheck_error(why, kind, class.relname.data.as_ptr());
        }
    }
}

/// An ERROR unless the user may LOCK TABLE ... IN ACCESS SHARE MODE, or has a role that PostgreSQL lets hold such locks
/// for monitoring.
fn must_be_readable(table: pg_sys::Oid) {
    let mut is_missing = false;
    // Wider from PostgreSQL 16 on.
    #[cfg_attr(feature = "pg15", expect(clippy::useless_conversion, reason = "the same type"))]
    let read: pg_sys::AclMode = pg_sys::ACL_SELECT.into();
    // SAFETY: every call has a user. The rest looks for any OID in the catalog. The ERROR has the name, a C string.
    unsafe {
        let user = pg_sys::GetUserId();
        let outcome = pg_sys::pg_class_aclcheck_ext(table, user, read, &raw mut is_missing);
        let scans = || pg_sys::has_privs_of_role(user, pg_sys::Oid::from(pg_sys::ROLE_PG_STAT_SCAN_TABLES));
        if is_missing || outcome == pg_sys::AclResult::ACLCHECK_OK || scans() {
            return;
        }
        let name = pg_sys::get_rel_name(table);
        // Null if it has just been dropped.
        if !name.is_null() {
            pg_sys::aclcheck_error(outcome, pg_sys::ObjectType::OBJECT_TABLE, name);
        }
    }
}

fn must_be_partitioned_by_id(relation: &PgRelation) {
    let table = || quoted(&characters(name(relation).to_bytes()));
    let hint = "Create it with PARTITION BY RANGE (id), where id is the column of the IDs.";
    if relation_kind(class(relation).relkind) != pg_sys::RELKIND_PARTITIONED_TABLE {
        raise(
            error_report(PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE, format!("{} is not a partitioned table", table()))
                .set_hint(hint),
        );
    }
    // SAFETY: takes the OID of a relation, and returns the text of its key: RANGE (id).
    let key: Option<&[u8]> = unsafe { direct_function_call(pg_sys::pg_get_partkeydef, &[relation.oid().into_datum()]) };
    let key = key.expect("a partitioned table has a key");
    let columns = relation.tuple_desc();
    let column = columns.iter().find(|column| {
        let name = c_string(column.attname.data.as_ptr());
        !column.attisdropped && key == [b"RANGE (".as_slice(), &identifier(&name), b")"].concat()
    });
    // SAFETY: takes any two OIDs.
    if column.is_some_and(|column| unsafe { pg_sys::IsBinaryCoercible(column.atttypid, pg_sys::INT8OID) }) {
        return;
    }
    let of_type = column.map_or_else(String::new, |column| {
        format!(", of type {}", displayable(&characters(type_name(column.atttypid).to_bytes())))
    });
    raise(
        error_report(
            PgSqlErrorCode::ERRCODE_INVALID_OBJECT_DEFINITION,
            format!("{} is not partitioned by range of a single bigint column", table()),
        )
        .set_detail(format!("Its partition key is {}{of_type}.", displayable(&characters(key))))
        .set_hint(hint),
    )
}

/// The partitions of a table and its default partition, with partitions that are being detached: ATTACH counts these,
/// too.
fn partitions(relation: &PgRelation) -> (Vec<Partition>, Option<pg_sys::Oid>) {
    // SAFETY: the table is partitioned and locked. Its description is valid as long as it is open, and has an array of
    // `nparts` tables, unless `boundinfo` is null.
    let (bounds, tables) = unsafe {
        let partitions = &*pg_sys::RelationGetPartitionDesc(relation.as_ptr(), false);
        let Some(bounds) = partitions.boundinfo.as_ref() else { return (Vec::new(), None) };
        (bounds, from_raw_parts(partitions.oids, partitions.nparts.unsigned_abs() as usize))
    };
    // -1 is none.
    let table = |index: c_int| usize::try_from(index).ok().and_then(|index| tables.get(index)).copied();
    let default = table(bounds.default_index);
    let count = bounds.ndatums.unsigned_abs() as usize;
    if count == 0 {
        return (Vec::new(), default);
    }
    // SAFETY: arrays of `ndatums` bounds, of their kinds, and of the numbers of the partitions below them.
    let (values, kinds, below) = unsafe {
        (
            from_raw_parts(bounds.datums, count),
            from_raw_parts(bounds.kind, count),
            from_raw_parts(bounds.indexes, count),
        )
    };
    let ids = values.iter().zip(kinds).map(|(&value, &kind)| {
        // SAFETY: a bound has a kind and a value for each column of the key, which is one, of a type that is
        // binary-coercible to bigint.
        let (value, kind) = unsafe { (*value, *kind) };
        match kind {
            pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_MINVALUE => 0,
            pg_sys::PartitionRangeDatumKind::PARTITION_RANGE_DATUM_MAXVALUE => END,
            _ => u64::try_from(value.value().cast_signed()).unwrap_or(0),
        }
    });
    let ids: Vec<u64> = ids.collect();
    let ranges = ids.windows(2).zip(&below[1..]);
    let partitions =
        ranges.filter_map(|(pair, &below)| Some(Partition { table: table(below)?, ids: pair[0]..pair[1] }));
    (partitions.collect(), default)
}

fn schema_name(schema: pg_sys::Oid) -> CString {
    // SAFETY: every caller passes the schema of a locked table, which exists.
    c_string(unsafe { pg_sys::get_namespace_name(schema) })
}
