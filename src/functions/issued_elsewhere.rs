//! IDs with the worker of this server that another one has issued.

use super::identity::system_identifier;
use crate::config::preload;
use crate::shared::shared;
use crate::worker;
use pgrx::prelude::*;
use snowflake_core::UnixMs;

/// How far the clock may have been ahead when initdb made the cluster: a clock in another time zone is less.
const INITDB_CLOCK: UnixMs = 24 * 60 * 60 * 1000;

/// Whether this server cannot have issued an ID that has its data center and its worker; `None` if that cannot be
/// known.
///
/// Two bounds hold whatever other servers do:
///
/// - The generator has issued nothing above its last position. All earlier lives of this server are below its first
///   one. It only rises, and nobody has an ID before it was issued: IDs that are issued meanwhile do no harm. So this
///   bound is as safe as the durable mark, which is about two seconds further.
/// - The cluster issues nothing before initdb has made it. Not with a registry, which gives workers to one server after
///   the other.
#[pg_extern(sql = false)]
fn snowflake_issued_elsewhere(id: i64) -> Option<bool> {
    if !preload::is_done() {
        return None;
    }
    let (this_worker, layout) = (worker::flat_worker().ok()?, worker::layout_in_force().ok()?);
    let Some(id) = u64::try_from(id).ok().filter(|&id| id <= layout.max_id()) else { return Some(false) };
    if layout.server_of(id) != this_worker {
        return Some(false);
    }
    let generator = &shared().generator;
    // mutant: issued-unknown
    generator.is_started().then(|| {
        // mutant: issued-above
        let is_above = layout.position(id) > generator.last_position();
        // mutant: initdb-clock
        // mutant: issued-before-lease
        is_above || !worker::needs_lease() && layout.issued_at(id) < made_at().saturating_sub(INITDB_CLOCK)
    })
}

/// When initdb has made this cluster.
fn made_at() -> UnixMs {
    (system_identifier() >> 32) * 1000
}
