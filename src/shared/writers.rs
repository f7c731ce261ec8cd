//! The transactions that have drawn IDs and have not ended, in shared memory: an entry for each process that can have
//! one, and for each transaction that can be prepared. How many there are depends on the configuration of the server.

use pgrx::prelude::*;
use pgrx::{PgSharedMemoryInitialization, pg_shmem_init};
use snowflake_core::issue::horizon::Entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// The transaction of a process. On a cache line of its own, since the process writes it in each transaction.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Writer {
    /// Its first position.
    pub first: Entry,
    /// The process.
    pub pid: AtomicI32,
    /// The ID of the transaction from PRE PREPARE on until its entry is among the prepared ones; else 0.
    pub preparing: AtomicU32,
}

/// A prepared transaction. It has ended when PostgreSQL says so: nobody clears the entry.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Prepared {
    /// Its first position. Written before `transaction`.
    pub first: Entry,
    /// The ID of the transaction.
    pub transaction: AtomicU32,
}

/// All entries, in one piece of shared memory.
struct Writers {
    writers: AtomicPtr<Writer>,
    prepared: AtomicPtr<Prepared>,
}

static WRITERS: Writers =
    Writers { writers: AtomicPtr::new(std::ptr::null_mut()), prepared: AtomicPtr::new(std::ptr::null_mut()) };

unsafe extern "C" {
    // Not among pgrx's bindings; in access/twophase.h of each version.
    static max_prepared_xacts: c_int;
}

/// Asks PostgreSQL for the memory. Only while preloading.
pub fn reserve() {
    pg_shmem_init!(WRITERS);
}

impl PgSharedMemoryInitialization for Writers {
    type Value = ();

    unsafe fn on_shmem_request(&'static self) {
        // SAFETY: in the hook for such requests.
        unsafe { pg_sys::RequestAddinShmemSpace(size()) };
    }

    unsafe fn on_shmem_startup(&'static self, (): ()) {
        let mut is_initialized = false;
        // No lock: the postmaster makes the memory, and others only inherit it.
        // SAFETY: the size that was requested, and no other library uses the name of this extension.
        let memory = unsafe { pg_sys::ShmemInitStruct(c"snowflake_pg writers".as_ptr(), size(), &mut is_initialized) };
        // PostgreSQL aligns it to a cache line of 128 bytes.
        let writers = memory.cast::<Writer>();
        // SAFETY: the prepared ones are after the writers, within `size()`.
        let prepared = unsafe { writers.add(processes()) }.cast::<Prepared>();
        if !is_initialized {
            // SAFETY: memory for so many, which nobody uses yet.
            unsafe { fill(writers, processes()) };
            // SAFETY: the same.
            unsafe { fill(prepared, prepared_slots()) };
        }
        self.writers.store(writers, Ordering::Relaxed);
        self.prepared.store(prepared, Ordering::Relaxed);
    }
}

/// Writes so many empty entries.
///
/// # Safety
///
/// The memory must have room for them, and nobody may use it yet.
unsafe fn fill<T: Default>(entries: *mut T, count: usize) {
    for nth in 0..count {
        // SAFETY: within the memory.
        let entry = unsafe { entries.add(nth) };
        // SAFETY: the same.
        unsafe { entry.write(T::default()) };
    }
}

fn size() -> usize {
    processes() * size_of::<Writer>() + prepared_slots() * size_of::<Prepared>()
}

/// How many processes can run transactions at once.
fn processes() -> usize {
    // SAFETY: set before PostgreSQL asks for requests of memory.
    usize::try_from(unsafe { pg_sys::MaxBackends }).expect("a number of processes")
}

/// How many transactions can be prepared at once.
fn prepared_slots() -> usize {
    // SAFETY: set when the server starts.
    usize::try_from(unsafe { max_prepared_xacts }).expect("a number of transactions")
}

/// The entries of all processes.
pub fn writers() -> &'static [Writer] {
    // SAFETY: made when the server started; as many as there are processes, which only atomics change.
    unsafe { std::slice::from_raw_parts(WRITERS.writers.load(Ordering::Relaxed), processes()) }
}

/// PostgreSQL's prepared transactions, by their IDs, each with its entry. Of some that have ended, too; 0 of none. The
/// entry can be of a transaction before.
pub fn prepared() -> impl Iterator<Item = (u32, &'static Prepared)> {
    // SAFETY: made when the server started, for as many as can be prepared; only atomics change.
    let entries = unsafe { std::slice::from_raw_parts(WRITERS.prepared.load(Ordering::Relaxed), prepared_slots()) };
    // SAFETY: set when the server started.
    let processes = unsafe { pg_sys::PreparedXactProcs };
    entries.iter().enumerate().map(move |(nth, entry)| {
        // SAFETY: PostgreSQL has an array of so many.
        let process = unsafe { processes.add(nth) };
        // SAFETY: within the array.
        let transaction = unsafe { &raw const (*process).xid };
        // SAFETY: a number in shared memory, which is written before the transaction can be seen as prepared.
        (unsafe { transaction.read_volatile() }.into_inner(), entry)
    })
}
