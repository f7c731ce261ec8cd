//! What follows when a statement has run, or has failed: messages, defaults, and what PostgreSQL's error lacks.

use super::defaults::Defaults;
use super::family::advice;
use super::message::Message;
use pgrx::PgMemoryContexts::CurrentMemoryContext;
use pgrx::pg_sys::{self, Oid};
use pgrx::prelude::*;
use std::ffi::{CStr, CString, c_char, c_int, c_void};

unsafe extern "C-unwind" {
    // pgrx has no bindings for these two.
    fn errdetail(format: *const c_char, ...) -> c_int;
    fn errhint(format: *const c_char, ...) -> c_int;
}

/// What follows a statement. It has nothing to drop, since an ERROR jumps over it: what it points to is in PostgreSQL's
/// memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Followup {
    /// Messages for when PostgreSQL has accepted the statement; null if there are none.
    messages: *const Vec<Message>,
    /// Defaults that are set then; null if no column needs one.
    defaults: *const Defaults,
    /// DETAIL and HINT of PostgreSQL's error on types that differ; null without one.
    detail: *const c_char,
    hint: *const c_char,
}

impl Followup {
    /// Nothing.
    pub const NONE: Self = Self {
        messages: std::ptr::null(),
        defaults: std::ptr::null(),
        detail: std::ptr::null(),
        hint: std::ptr::null(),
    };

    /// Sends these messages afterwards.
    pub fn report(&mut self, messages: Vec<Message>) {
        if !messages.is_empty() {
            self.messages = CurrentMemoryContext.leak_and_drop_on_delete(messages);
        }
    }

    /// Sets these defaults afterwards.
    pub fn set_defaults(&mut self, defaults: Defaults) {
        self.defaults = CurrentMemoryContext.leak_and_drop_on_delete(defaults);
    }

    /// Says in PostgreSQL's error why these columns of a child are narrower than those of its parent, and what to do.
    pub fn explain(&mut self, child: Oid, columns: &[CString], reason: &CStr) {
        if let Some((detail, hint)) = advice(child, columns, reason.to_bytes()) {
            // SAFETY: copies of C strings.
            (self.detail, self.hint) = unsafe { (pg_sys::pstrdup(detail.as_ptr()), pg_sys::pstrdup(hint.as_ptr())) };
        }
    }

    /// Whether there is something to say in an error.
    pub fn explains(&self) -> bool {
        !self.hint.is_null()
    }
}

/// Does what follows when the statement has run.
#[pg_guard]
pub unsafe extern "C-unwind" fn finish(followup: &Followup) {
    // SAFETY: null, or in the memory of the statement, which is still there.
    let (messages, defaults) = unsafe { (followup.messages.as_ref(), followup.defaults.as_ref()) };
    messages.into_iter().flatten().for_each(Message::send);
    if let Some(defaults) = defaults {
        defaults.set();
    }
}

/// Adds DETAIL and HINT to PostgreSQL's error on types that differ, as `parser_errposition()` adds a position:
/// PostgreSQL calls this while it makes an error.
///
/// # Safety
///
/// A [`Followup`] that explains.
pub unsafe extern "C-unwind" fn explain(followup: *mut c_void) {
    // SAFETY: as the caller's. Takes formats and C strings; an error is being made.
    unsafe {
        let followup = &*followup.cast::<Followup>();
        if pg_sys::geterrcode() == PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH as c_int {
            errdetail(c"%s".as_ptr(), followup.detail);
            errhint(c"%s".as_ptr(), followup.hint);
        }
    }
}
