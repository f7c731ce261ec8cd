//! The SQL function that runs a command with the rights of another role, for plans that are made for a superuser.

use crate::command::{As, run};
use pgrx::prelude::*;

/// Runs a command as a role that the user can become by SET ROLE. Its first value if that is a bigint, else NULL.
#[pg_extern(sql = false)]
fn snowflake_run_as(role: pg_sys::Oid, command: &[u8]) -> Option<i64> {
    // SAFETY: every call has a user. The checks take any role, and raise an ERROR if the user cannot become it, or if
    // there is none.
    unsafe {
        let user = pg_sys::GetUserId();
        #[cfg(feature = "pg15")]
        pg_sys::check_is_member_of_role(user, role);
        #[cfg(not(feature = "pg15"))]
        pg_sys::check_can_set_role(user, role);
        pg_sys::GetUserNameFromId(role, false);
    }
    let _role = As::begin(role);
    run(&[command])
}
