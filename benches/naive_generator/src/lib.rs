//! The obvious way to write a Snowflake generator with pgrx: the last timestamp and sequence in shared memory, under a
//! lock.
//!
//! For benchmarks only. It forgets everything when the server is restarted, and gives IDs again when the clock has gone
//! back meanwhile. While the clock is behind and a millisecond is full, callers spin under the lock.

#![allow(unsafe_code, reason = "shared memory is PostgreSQL's")]

use pgrx::prelude::*;
use pgrx::{PGRXSharedMemory, PgLwLock, pg_shmem_init};
use std::time::{Duration, SystemTime};

pg_module_magic!();

const EPOCH_MS: u64 = 1_288_834_974_657;
const WORKER: u64 = 1;

#[derive(Clone, Copy, Default)]
struct Last {
    ms: u64,
    sequence: u64,
}

// SAFETY: two numbers.
unsafe impl PGRXSharedMemory for Last {}

// SAFETY: no other library uses the name.
static LAST: PgLwLock<Last> = unsafe { PgLwLock::new(c"naive_generator") };

#[pg_guard]
extern "C-unwind" fn _PG_init() {
    pg_shmem_init!(LAST);
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[pg_extern(sql = false)]
fn naive_nextval() -> i64 {
    let mut last = LAST.exclusive();
    let mut now = now_ms().max(last.ms);
    if now == last.ms {
        last.sequence = (last.sequence + 1) & 4095;
        if last.sequence == 0 {
            while now <= last.ms {
                now = now_ms();
            }
        }
    } else {
        last.sequence = 0;
    }
    last.ms = now;
    ((now - EPOCH_MS) << 22 | WORKER << 12 | last.sequence).cast_signed()
}
