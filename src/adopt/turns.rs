//! How many workers carry migrations on at a time: two of a role, and half of all that the server may have, so that one
//! role leaves room for the migrations of others, and migrations for parallel queries. The rest wait for their turns.

use crate::postgres::command;
use crate::postgres::exit_hook::before_exit;
use pgrx::prelude::*;

// mutant: turns-of-a-role
const OF_A_ROLE: u16 = 2;

/// Whether this process carries a migration on from now on: no other one does, and there are not too many. An ERROR of
/// a transaction gives it back, since code of the owner could give back an advisory lock.
pub fn take(migration: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: every session has a database.
    let database = unsafe { pg_sys::MyDatabaseId };
    let any = pg_sys::Oid::INVALID;
    take_one(1, |number| lock(database, pg_sys::RelationRelationId, migration, number))
        && take_one(OF_A_ROLE, |number| lock(any, pg_sys::AuthIdRelationId, role, number))
        && take_one(of_all(), |number| lock(any, pg_sys::DatabaseRelationId, any, number))
}

/// Between transactions.
pub fn give_back() {
    let of_the_session_too = true;
    // SAFETY: there are no locks but those of a turn.
    unsafe { pg_sys::LockReleaseAll(METHOD, of_the_session_too) };
}

/// PostgreSQL does so only for advisory locks.
pub fn give_back_at_exit() {
    before_exit(|_| {
        // SAFETY: PostgreSQL does the same after this.
        unsafe { pg_sys::AbortOutOfAnyTransaction() };
        give_back();
    });
}

fn of_all() -> u16 {
    // SAFETY: set when the server starts.
    // mutant: turns-of-all
    u16::try_from(unsafe { pg_sys::max_worker_processes } / 2).unwrap_or(u16::MAX).max(1)
}

const METHOD: u16 = 1;

/// A lock of an object with a number. Commands lock such objects without one, so no role can take it or wait for it.
fn lock(database: pg_sys::Oid, class: pg_sys::Oid, object: pg_sys::Oid, number: u16) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        locktag_field1: database.to_u32(),
        locktag_field2: class.to_u32(),
        locktag_field3: object.to_u32(),
        locktag_field4: number,
        locktag_type: u8::try_from(pg_sys::LockTagType::LOCKTAG_OBJECT).expect("a small number"),
        locktag_lockmethodid: u8::try_from(METHOD).expect("a small number"),
    }
}

/// Takes the first of these locks that no other process has, if there is one.
fn take_one(last: u16, lock: impl Fn(u16) -> pg_sys::LOCKTAG) -> bool {
    let (mode, for_the_session, without_waiting) = (pg_sys::ExclusiveLock.cast_signed(), true, true);
    (1..=last).any(|number| {
        // SAFETY: in a transaction. The tag is copied.
        let taken = unsafe { pg_sys::LockAcquire(&lock(number), mode, for_the_session, without_waiting) };
        taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
    })
}

/// The roles whose workers carry migrations on, in all databases.
#[derive(Clone)]
pub struct Workers(Vec<u32>);

impl Workers {
    pub fn now() -> Self {
        let workers = c"SELECT objid FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'object' AND granted \
            AND database OPERATOR(pg_catalog.=) '0'::pg_catalog.oid AND objsubid OPERATOR(pg_catalog.>) 0::pg_catalog.int2 \
            AND classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_authid'::pg_catalog.regclass::pg_catalog.oid";
        let roles = command::rows::<1>(workers).into_iter();
        Self(roles.filter_map(|[role]| role?.to_str().ok()?.parse().ok()).collect())
    }

    /// Which ones must end before one of this role can begin.
    pub fn waited_for_by(&self, role: pg_sys::Oid) -> Option<&'static str> {
        if self.0.iter().filter(|&&of| of == role.to_u32()).count() >= usize::from(OF_A_ROLE) {
            Some("other migrations of the role")
        } else if self.0.len() >= usize::from(of_all()) {
            Some("other migrations")
        } else {
            None
        }
    }

    /// One more.
    pub fn add(&mut self, role: pg_sys::Oid) {
        self.0.push(role.to_u32());
    }

    /// One less.
    pub fn without(mut self, role: pg_sys::Oid) -> Self {
        if let Some(place) = self.0.iter().position(|&of| of == role.to_u32()) {
            self.0.swap_remove(place);
        }
        self
    }
}

#[pg_extern(sql = false)]
fn snowflake_adopt_waits_for_turn(role: pg_sys::Oid) -> Option<&'static str> {
    Workers::now().waited_for_by(role)
}
