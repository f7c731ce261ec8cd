//! Code that a command gives to a table is looked at before it runs.
//!
//! ALTER TABLE and CREATE INDEX read expressions again, choose their functions by name, and call these at once. A
//! function of another role that fits better can come at any moment before that, and would have the rights of the
//! table's owner.

use super::caller;
use super::database::definer;
use crate::postgres::catalog::function_owner;
use crate::postgres::command;
use once_cell::sync::OnceCell;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::pg_sys::{ObjectAccessType, Oid};
use pgrx::prelude::*;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};

/// The hooks of libraries loaded before.
static NEXT_HOOKS: OnceCell<(pg_sys::object_access_hook_type, pg_sys::needs_fmgr_hook_type)> = OnceCell::new();

thread_local! {
    static WATCHED: RefCell<Option<Watched>> = const { RefCell::new(None) };
}

struct Watched {
    /// Raises an ERROR if the tables call functions of other roles than these.
    check: String,
    roles: Vec<Oid>,
    /// Whether nothing was created since the tables were looked at.
    is_known: bool,
}

/// While this exists, functions that are about to run are looked at. Also ends by an ERROR.
struct Watch(Option<Watched>);

impl Watch {
    fn begin(watched: Watched) -> Self {
        // SAFETY: a process has one thread.
        NEXT_HOOKS.get_or_init(|| unsafe {
            let next = (pg_sys::object_access_hook, pg_sys::needs_fmgr_hook);
            pg_sys::object_access_hook = Some(on_access);
            pg_sys::needs_fmgr_hook = Some(must_not_be_inlined);
            next
        });
        Self(WATCHED.replace(Some(watched)))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHED.replace(self.0.take());
    }
}

/// Looks at the tables, unless that was done since something was created last.
fn look() {
    let unknown = WATCHED.with_borrow_mut(|watched| {
        let watched = watched.as_mut().filter(|watched| !watched.is_known)?;
        // To look at them calls functions, too.
        watched.is_known = true;
        Some(watched.check.clone())
    });
    if let Some((check, definer)) = unknown.and_then(|check| Some((check, definer()?))) {
        caller::inside(definer, || command::run(&[check.as_bytes()]));
    }
}

/// Before an expression calls a function for the first time, and after something was created.
#[pg_guard]
unsafe extern "C-unwind" fn on_access(
    access: ObjectAccessType::Type,
    class: Oid,
    object: Oid,
    part: c_int,
    argument: *mut c_void,
) {
    if let Some(next) = NEXT_HOOKS.get().and_then(|next| next.0) {
        // SAFETY: PostgreSQL has passed all of this for a hook to pass on.
        unsafe { pg_guard_ffi_boundary(|| next(access, class, object, part, argument)) };
    }
    match access {
        ObjectAccessType::OAT_POST_CREATE => WATCHED.with_borrow_mut(|watched| {
            if let Some(watched) = watched {
                watched.is_known = false;
            }
        }),
        // mutant: code-before-a-look
        ObjectAccessType::OAT_FUNCTION_EXECUTE => look(),
        _ => {}
    }
}

/// The body of an SQL function can take the place of a call. What that calls with constants would run while the
/// expression is in no catalog yet.
#[pg_guard]
unsafe extern "C-unwind" fn must_not_be_inlined(function: Oid) -> bool {
    // mutant: code-in-place-of-a-call
    let is_of_others = || is_of_others(function);
    // SAFETY: PostgreSQL has passed this for a hook to pass on.
    let is_asked_for =
        |next: unsafe extern "C-unwind" fn(Oid) -> bool| unsafe { pg_guard_ffi_boundary(|| next(function)) };
    is_of_others() || NEXT_HOOKS.get().and_then(|next| next.1).is_some_and(is_asked_for)
}

fn is_of_others(function: Oid) -> bool {
    let of = |roles: &[Oid]| {
        // SAFETY: takes any OID.
        function_owner(function)
            .is_some_and(|owner| !roles.contains(&owner) && !unsafe { pg_sys::superuser_arg(owner) })
    };
    // An ERROR ends the watch, so nobody else borrows it then.
    WATCHED.with_borrow(|watched| watched.as_ref().is_some_and(|watched| of(&watched.roles)))
}

/// Runs a command as a role that the user can become by SET ROLE. An ERROR before the command calls a function of a
/// role that is none of these for one of these tables, and also if these would call one later. Returns its first value
/// if that is a bigint.
#[pg_extern(sql = false)]
fn snowflake_run_calling_only(role: Oid, tables: Array<Oid>, roles: Array<Oid>, command: &[u8]) -> Option<i64> {
    let roles: Vec<Oid> = roles.iter_deny_null().collect();
    let list = |oids: &[Oid]| oids.iter().map(|oid| oid.to_u32().to_string()).collect::<Vec<_>>().join(",");
    let tables: Vec<Oid> = tables.iter_deny_null().collect();
    let check = format!("SELECT snowflake_adopt.must_call_only('{{{}}}', '{{{}}}')", list(&tables), list(&roles));
    let _watch = Watch::begin(Watched { check, roles, is_known: false });
    let value = command::run_as(role, command);
    WATCHED.with_borrow_mut(|watched| watched.iter_mut().for_each(|watched| watched.is_known = false));
    // mutant: plan-code-of-others
    look();
    value
}
