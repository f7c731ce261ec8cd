//! What a process does before it ends, however it ends: also one that is terminated, and has no time to drop anything.

use pgrx::prelude::*;
use std::ffi::c_int;

/// Has a function called with the exit code, before the process detaches from shared memory. To be asked for once in a process.
pub fn before_exit(function: fn(c_int)) {
    // SAFETY: the hook takes any code, and the address of a function as its argument.
    unsafe { pg_sys::before_shmem_exit(Some(hook), pg_sys::Datum::from(function as usize)) };
}

#[pg_guard]
unsafe extern "C-unwind" fn hook(code: c_int, function: pg_sys::Datum) {
    // SAFETY: `before_exit` has passed the address of such a function.
    let function: fn(c_int) = unsafe { std::mem::transmute(function.value()) };
    function(code);
}
