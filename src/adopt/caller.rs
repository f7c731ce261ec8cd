//! The functions of `sql/adopt` have the rights of their owner. What concerns a table they do as its owner, and only if
//! their caller can become that role.
//!
//! Only the functions in `sql/adopt/17_rights.sql` may be called by everybody. Some of them are
//! declared as `snowflake_adopt_enter`, which notes the caller and calls the function `..._for_caller`: PostgreSQL
//! tells a function with SECURITY DEFINER not who has called it.

use crate::postgres::catalog::{c_string, sibling_function};
use crate::postgres::command::{self, Settings};
use crate::postgres::report::{error_report, raise};
use crate::postgres::user::User;
use pgrx::pg_sys::ffi::pg_guard_ffi_boundary;
use pgrx::prelude::*;
use std::cell::Cell;
use std::ffi::CString;
use std::ptr::null_mut;

thread_local! {
    /// While functions of ours run. Not while these run something in the name of the caller.
    static CALLER: Cell<Option<User>> = const { Cell::new(None) };
}

/// Restores the caller before when it is dropped, also by an ERROR.
struct FormerCaller(Option<User>);

impl FormerCaller {
    fn replace_by(caller: Option<User>) -> Self {
        Self(CALLER.replace(caller))
    }
}

impl Drop for FormerCaller {
    fn drop(&mut self) {
        CALLER.set(self.0);
    }
}

/// The current user calls functions of ours. Code of an owner can do so while others of them run, for whom it must not
/// speak, so these call each other by the names that are not for everybody.
fn enter() -> FormerCaller {
    FormerCaller::replace_by(Some(User::now()))
}

/// The role that calls functions of ours, or the current user.
pub fn role() -> pg_sys::Oid {
    CALLER.get().unwrap_or_else(nobody_else).role
}

/// The current user, who calls a function by itself that others call. Not if that has the rights of its owner: somebody
/// may have granted it, and this would be the owner.
fn nobody_else() -> User {
    let user = User::now();
    // mutant: caller-unknown
    if user.is_definer() {
        let refused = "function is not to be called";
        raise(error_report(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, refused));
    }
    user
}

/// Does this without a caller, since it runs code of others.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    // mutant: caller-stays
    let _caller = FormerCaller::replace_by(None);
    work()
}

/// Does this with the rights of the role that owns our functions, in the name of the current user, whose code can have
/// set search_path.
pub fn inside<T>(definer: pg_sys::Oid, work: impl FnOnce() -> T) -> T {
    let _caller = enter();
    let _user = User::now().definer(definer).begin();
    // mutant: worker-settings
    let _names = Settings::catalog_names();
    work()
}

#[pg_extern(sql = false)]
fn snowflake_adopt_caller() -> pg_sys::Oid {
    role()
}

/// Whether the session has connected as this role: RESET ROLE and RESET SESSION AUTHORIZATION lead to no other one.
#[pg_extern(sql = false)]
fn snowflake_adopt_has_connected(role: pg_sys::Oid) -> bool {
    // SAFETY: every session has such a user.
    role == unsafe { pg_sys::GetAuthenticatedUserId() }
}

/// Runs a command as a role that the caller must be able to become by SET ROLE. Returns its first value if that is a
/// bigint.
#[pg_extern(sql = false)]
fn snowflake_adopt_do_as(role: pg_sys::Oid, command: &[u8]) -> Option<i64> {
    let user = CALLER.get().unwrap_or_else(nobody_else);
    aside(|| {
        // mutant: column-of-others
        let _user = user.begin();
        // What code of others sets would hold for ours, too.
        // mutant: caller-settings
        let _settings = Settings::begin();
        // mutant: table-as-owner
        command::run_as(role, command)
    })
}

/// A plain C function, since it stands for functions with any arguments and results.
#[unsafe(no_mangle)]
#[pg_guard]
extern "C-unwind" fn snowflake_adopt_enter(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: PostgreSQL calls a function with a valid fcinfo.
    let outer = unsafe { &mut *(*call).flinfo };
    let mut inner = pg_sys::FmgrInfo::default();
    // SAFETY: the function exists, or this raises an ERROR.
    unsafe { pg_sys::fmgr_info_cxt(for_caller(outer.fn_oid), &raw mut inner, outer.fn_mcxt) };
    inner.fn_expr = outer.fn_expr;
    let _caller = enter();
    // SAFETY: the other function has the same arguments, and the same result. An ERROR passes only frames of C.
    unsafe {
        let _outer = Called::replace_by(call, &raw mut inner);
        // All rows at once: the next call would not know of this one.
        if let Some(rows) = (*call).resultinfo.cast::<pg_sys::ReturnSetInfo>().as_mut().filter(|_| inner.fn_retset) {
            rows.allowedModes |= i32::try_from(pg_sys::SetFunctionReturnMode::SFRM_Materialize_Preferred).unwrap_or(0);
        }
        pg_guard_ffi_boundary(|| inner.fn_addr.expect("a function that was just looked up")(call))
    }
}

/// What PG_FUNCTION_INFO_V1() defines in C.
#[unsafe(no_mangle)]
extern "C" fn pg_finfo_snowflake_adopt_enter() -> &'static pg_sys::Pg_finfo_record {
    &pg_sys::Pg_finfo_record { api_version: 1 }
}

/// The function that was called, which is so again when this is dropped, also by an ERROR.
struct Called {
    call: pg_sys::FunctionCallInfo,
    function: *mut pg_sys::FmgrInfo,
}

impl Called {
    /// # Safety
    ///
    /// The call and the function are valid as long as this exists.
    unsafe fn replace_by(call: pg_sys::FunctionCallInfo, function: *mut pg_sys::FmgrInfo) -> Self {
        // SAFETY: as the caller's.
        Self { call, function: unsafe { std::mem::replace(&mut (*call).flinfo, function) } }
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        // SAFETY: the call is under way.
        unsafe { (*self.call).flinfo = self.function };
    }
}

/// The function that does what this one is for.
fn for_caller(function: pg_sys::Oid) -> pg_sys::Oid {
    let (mut types, mut count) = (null_mut(), 0);
    // SAFETY: the function exists, since it is being called. Its types are as many as the count says.
    let (name, types) = unsafe {
        pg_sys::get_func_signature(function, &raw mut types, &raw mut count);
        let count = usize::try_from(count).unwrap_or(0);
        let types = if count == 0 { &[] } else { std::slice::from_raw_parts(types, count) };
        (c_string(pg_sys::get_func_name(function)), types)
    };
    let name = CString::new([name.to_bytes(), b"_for_caller"].concat()).expect("no zero byte");
    sibling_function(function, &name, types)
}
