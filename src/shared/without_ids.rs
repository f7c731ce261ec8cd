//! Prepared transactions that have drawn no ID, also after a restart, which forgets the [writers](super::writers).
//!
//! PostgreSQL keeps the locks of a prepared transaction with it, over crashes and promotions. So a transaction that has
//! drawn no ID takes a lock, for which nobody waits and which SQL can't take. One without it has drawn IDs, or was
//! prepared by a server that did not track transactions.

use pgrx::prelude::*;

/// Records that this transaction, which is about to be prepared, has drawn no ID.
pub fn note() {
    // SAFETY: in a transaction; the lock ends with it.
    unsafe { pg_sys::LockAcquire(&raw const TAG, pg_sys::ShareLock.cast_signed(), false, false) };
}

/// The transaction IDs of such transactions that were prepared before the server started.
pub fn prepared_before() -> Vec<u32> {
    let mut count = 0;
    // SAFETY: gives an array of so many holders of the lock, in the memory of the call.
    let holders = unsafe {
        let holders = pg_sys::GetLockConflicts(&raw const TAG, pg_sys::ExclusiveLock.cast_signed(), &raw mut count);
        std::slice::from_raw_parts(holders, usize::try_from(count).unwrap_or(0))
    };
    // PostgreSQL has their transaction IDs there, and no process.
    holders.iter().filter(|holder| process(holder) == -1).map(|holder| holder.localTransactionId).collect()
}

#[cfg(any(feature = "pg15", feature = "pg16"))]
fn process(holder: &pg_sys::VirtualTransactionId) -> i32 {
    holder.backendId
}

#[cfg(not(any(feature = "pg15", feature = "pg16")))]
fn process(holder: &pg_sys::VirtualTransactionId) -> i32 {
    holder.procNumber
}

/// A user lock, which only libraries can take; the number is "snow" in ASCII.
#[expect(clippy::cast_possible_truncation, reason = "small constants")]
static TAG: pg_sys::LOCKTAG = pg_sys::LOCKTAG {
    locktag_field1: 0,
    locktag_field2: 0x736e_6f77,
    locktag_field3: 0,
    locktag_field4: 0,
    locktag_type: pg_sys::LockTagType::LOCKTAG_USERLOCK as u8,
    locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
};
