//! The functions of this extension that the planner hook knows.

use crate::postgres::catalog::{everybody_may_call, function_name, is_ours};
use once_cell::sync::OnceCell;
use pgrx::pg_sys::Oid;
use pgrx::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_int};

thread_local! {
    /// How many times functions have changed.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

/// What was found out about functions, until one changes.
pub struct Known<T>(RefCell<Option<(u64, HashMap<Oid, T>)>>);

impl<T: Copy> Known<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// What is known of a function, or else found out.
    pub fn get(&self, function: Oid, find_out: impl FnOnce(Oid) -> T) -> T {
        static WATCHED: OnceCell<()> = OnceCell::new();
        let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCOID).unwrap_or(-1);
        // SAFETY: the callback takes any argument, cache and hash.
        WATCHED.get_or_init(|| unsafe { pg_sys::CacheRegisterSyscacheCallback(cache, Some(changed), 0.into()) });
        let changes = CHANGES.get();
        let known = match &*self.0.borrow() {
            Some((since, known)) if *since == changes => known.get(&function).copied(),
            _ => None,
        };
        known.unwrap_or_else(|| {
            let found = find_out(function);
            let mut kept = self.0.borrow_mut();
            if kept.as_ref().is_none_or(|(since, _)| *since != changes) {
                *kept = Some((changes, HashMap::new()));
            }
            if let Some((_, known)) = &mut *kept {
                known.insert(function, found);
            }
            found
        })
    }
}

unsafe extern "C-unwind" fn changed(_argument: pg_sys::Datum, _cache: c_int, _hash: u32) {
    // mutant: constant-forgotten
    CHANGES.set(CHANGES.get() + 1);
}

/// The function of this extension with this name and so many arguments, of which there is one, if PUBLIC may execute
/// it: a plan is kept when its session changes its role.
pub fn ours(name: &CStr, arguments: i16) -> Option<Oid> {
    let cache = i32::try_from(pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP).unwrap_or(-1);
    // SAFETY: the cache has this first key. Its rows have the fixed columns of this type, and are released when their
    // OIDs have been copied.
    let named: Vec<Oid> = unsafe {
        let none = pg_sys::Datum::null();
        let list = pg_sys::SearchSysCacheList(cache, 1, name.as_ptr().into(), none, none);
        let members = (*list).members.as_slice(usize::try_from((*list).n_members).unwrap_or(0));
        let rows = members.iter().map(|&member| pg_sys::GETSTRUCT(&raw mut (*member).tuple).cast());
        let rows = rows.map(|row: *mut pg_sys::FormData_pg_proc| &*row).filter(|row| row.pronargs == arguments);
        let oids = rows.map(|row| row.oid).collect();
        pg_sys::ReleaseCatCacheList(list);
        oids
    };
    named.into_iter().find(|&function| is_ours(function)).filter(|&function| everybody_may_call(function))
}

/// What a function has to do with the time of an ID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `snowflake_timestamp`.
    Timestamp,
    /// `snowflake_decode`.
    Decode,
    /// Nothing.
    Other,
}

thread_local! {
    static FUNCTIONS: Known<Function> = const { Known::new() };
}

/// Whether this is `snowflake_timestamp` or `snowflake_decode`.
pub fn which(function: Oid) -> Function {
    FUNCTIONS.with(|functions| {
        functions.get(function, |function| {
            let Some(name) = function_name(function) else { return Function::Other };
            let which = match name.to_bytes() {
                b"snowflake_timestamp" => Function::Timestamp,
                b"snowflake_decode" => Function::Decode,
                _ => return Function::Other,
            };
            // mutant: range-ours
            if is_ours(function) { which } else { Function::Other }
        })
    })
}
