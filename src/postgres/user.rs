//! Whose rights commands have.

use pgrx::pg_sys;
use std::ffi::c_int;

/// A role, and what it may not do in this operation.
#[derive(Clone, Copy)]
pub struct User {
    pub role: pg_sys::Oid,
    context: c_int,
}

/// The user before, who is restored when this is dropped. After an ERROR, PostgreSQL does the same at the end of the
/// (sub)transaction.
pub struct FormerUser(User);

impl User {
    pub fn now() -> Self {
        let (mut role, mut context) = (pg_sys::InvalidOid, 0);
        // SAFETY: every session has a user, which is written to these two variables.
        unsafe { pg_sys::GetUserIdAndSecContext(&raw mut role, &raw mut context) };
        Self { role, context }
    }

    /// The user of the session, whatever role it has become.
    pub fn of_session() -> Self {
        // SAFETY: every session has a user.
        Self { role: unsafe { pg_sys::GetSessionUserId() }, context: 0 }
    }

    /// Another role, from which SET ROLE leads back.
    pub fn becoming(self, role: pg_sys::Oid) -> Self {
        Self { role, ..self }
    }

    /// Another role in a security-restricted operation: SET ROLE does not lead back.
    pub fn restricted(self, role: pg_sys::Oid) -> Self {
        // mutant: role-restricted
        let context = self.context | pg_sys::SECURITY_RESTRICTED_OPERATION.cast_signed();
        Self { role, context }
    }

    /// Another role, as in a function with SECURITY DEFINER.
    pub fn definer(self, role: pg_sys::Oid) -> Self {
        Self { role, context: self.context | pg_sys::SECURITY_LOCAL_USERID_CHANGE.cast_signed() }
    }

    /// Whether it has its rights by a function with SECURITY DEFINER.
    pub fn is_definer(self) -> bool {
        self.context & pg_sys::SECURITY_LOCAL_USERID_CHANGE.cast_signed() != 0
    }

    /// From now on, this is the current user. The role exists.
    pub fn begin(self) -> FormerUser {
        let former = FormerUser(Self::now());
        // SAFETY: the role exists.
        unsafe { pg_sys::SetUserIdAndSecContext(self.role, self.context) };
        former
    }
}

impl Drop for FormerUser {
    fn drop(&mut self) {
        // SAFETY: the user was the one before.
        unsafe { pg_sys::SetUserIdAndSecContext(self.0.role, self.0.context) };
    }
}
