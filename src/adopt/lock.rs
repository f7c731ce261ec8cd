//! Locks of tables, whatever their names are when nobody else has one.

use super::caller;
use crate::postgres::catalog::CachedRow;
use crate::postgres::command::must_become;
use pgrx::prelude::*;

/// Locks a table until the end of the transaction, if it is still there: against everybody, or only against changes of
/// it. The caller must be able to become its owner, who may do this.
#[pg_extern(sql = false)]
fn snowflake_adopt_lock(relation: pg_sys::Oid, is_exclusive: bool) {
    let Some(owner) = owner_of_relation(relation) else { return };
    // Before, since others wait behind who waits for a lock.
    // mutant: lock-of-others
    must_become(caller::role(), owner);
    let mode = if is_exclusive { pg_sys::AccessExclusiveLock } else { pg_sys::ShareUpdateExclusiveLock };
    // SAFETY: takes any OID. The lock remains when the relation is closed.
    unsafe {
        let table = pg_sys::try_relation_open(relation, mode.cast_signed());
        if !table.is_null() {
            pg_sys::relation_close(table, pg_sys::NoLock.cast_signed());
        }
    }
}

fn owner_of_relation(relation: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the cache has this key, and its rows this column.
    let owner = unsafe {
        CachedRow::find(pg_sys::SysCacheIdentifier::RELOID, relation)?.column(pg_sys::Anum_pg_class_relowner)?
    };
    u32::try_from(owner.value()).ok().map(pg_sys::Oid::from)
}
