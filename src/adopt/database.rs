//! What a background worker finds in its database.

use crate::postgres::catalog::{CachedRow, relation_kind};
use crate::postgres::command::{self, Settings};
use pgrx::prelude::*;
use std::ffi::{CStr, CString};

/// Table and role of each migration that no worker carries on, the one first that has waited longest. The owner of a
/// database can make a schema of this name, and what is in it must not run with the rights of a superuser: an ordinary
/// table of a superuser's runs nothing.
pub fn migrations() -> Vec<[pg_sys::Oid; 2]> {
    const MIGRATIONS: &CStr = c"SELECT relation::pg_catalog.oid, role::pg_catalog.oid FROM snowflake_adopt.migration \
        WHERE NOT is_paused AND snowflake_adopt.carrier(relation::pg_catalog.oid) IS NULL ORDER BY turn_at NULLS FIRST";
    if definer().is_none() {
        return Vec::new();
    }
    let oid = |text: Option<CString>| text.and_then(|text| text.to_str().ok()?.parse::<u32>().ok());
    command::rows::<2>(MIGRATIONS)
        .into_iter()
        .map(|row| row.map(|text| pg_sys::Oid::from(oid(text).unwrap_or(0))))
        .collect()
}

/// The superuser who owns the extension's objects, which stay there until the end of the transaction; `None` if this
/// database has no such extension.
pub fn definer() -> Option<pg_sys::Oid> {
    let settings = Settings::begin();
    settings.set(c"lock_timeout", c"10s");
    // SAFETY: in a transaction. These take C strings and any OIDs, and the table is open while its row is read.
    let (owner, schema, is_table) = unsafe {
        let schema = pg_sys::get_namespace_oid(c"snowflake_adopt".as_ptr(), true);
        let table = pg_sys::get_relname_relid(c"migration".as_ptr(), schema);
        let table = pg_sys::try_relation_open(table, pg_sys::AccessShareLock.cast_signed()).as_ref()?;
        let row = &*table.rd_rel;
        let found = (row.relowner, row.relnamespace, relation_kind(row.relkind) == pg_sys::RELKIND_RELATION);
        pg_sys::relation_close(std::ptr::from_ref(table).cast_mut(), pg_sys::NoLock.cast_signed());
        found
    };
    // SAFETY: the cache has this key, and its rows this column.
    let of_schema = unsafe {
        let row = CachedRow::find(pg_sys::SysCacheIdentifier::NAMESPACEOID, schema)?;
        pg_sys::Oid::from(u32::try_from(row.column(pg_sys::Anum_pg_namespace_nspowner)?.value()).ok()?)
    };
    // SAFETY: takes any OID.
    (is_table && unsafe { pg_sys::superuser_arg(owner) && pg_sys::superuser_arg(of_schema) }).then_some(owner)
}

/// Does this in a transaction.
pub fn in_transaction<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: outside of a transaction. An ERROR leaves it to `attempt` to end what this began.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
    }
    let done = work();
    // SAFETY: ends what was begun above.
    unsafe {
        pg_sys::PopActiveSnapshot();
        pg_sys::CommitTransactionCommand();
        pg_sys::pgstat_report_stat(false);
    }
    done
}
