//! Work that a process does before it ends, also if it is terminated. Nothing is dropped then.

use pgrx::prelude::*;
use std::ffi::c_int;
use std::ptr::with_exposed_provenance;

/// Calls a function with the exit code before the process detaches from shared memory. To be called once for a function
/// in a process.
pub fn before_exit(function: fn(c_int)) {
    // SAFETY: the hook takes any exit code, and the address of such a function.
    unsafe { pg_sys::before_shmem_exit(Some(hook), pg_sys::Datum::from((function as *const ()).expose_provenance())) };
}

#[pg_guard]
unsafe extern "C-unwind" fn hook(code: c_int, function: pg_sys::Datum) {
    // SAFETY: `before_exit` has passed the address of such a function.
    let function: fn(c_int) = unsafe { std::mem::transmute(with_exposed_provenance::<()>(function.value())) };
    function(code);
}
