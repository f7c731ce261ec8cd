//! A server is held between two steps, where chance rarely meets it, while something happens to it: it or its
//! postmaster is killed, its clock is set back, its standby is promoted, or it is copied. No ID comes twice, and where
//! one server follows another with the same worker, each of its IDs is greater.
//!
//! In a library with the feature `stops`: see src/stops.rs. One pair is left out: a second standby that is promoted
//! before the first one has issued an ID has the same worker, and nothing can keep two primaries apart.

use std::collections::BTreeMap;
use testbed::runner::{Case, Kind};
use testbed::{Builder, Cluster, Load, Registry, Report, Signal, Stop, error, issued_at, sleep_past};

/// Where a server is held: the name of the place, and its words in the name of a test.
const PLACES: [(Place, &str); 6] = [
    (Place("claim-return"), "a_claim_and_its_return"),
    (Place("flush-publish"), "a_flushed_mark_and_its_use"),
    (STANDBYS, "the_mark_in_wal_and_on_standbys"),
    (Place("wal-file"), "the_mark_in_wal_and_on_disk"),
    (GRANT, "a_grant_and_its_use"),
    (PROMOTION, "a_promotion_and_the_first_id"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(&'static str);

const GRANT: Place = Place("grant-use");
const STANDBYS: Place = Place("wal-standbys");
const PROMOTION: Place = Place("promotion-first-id");

type Event = fn(Place);

/// What happens to it.
const EVENTS: [(Event, &str); 5] = [
    (killed, "killed"),
    (orphaned, "orphaned"),
    (clock_set_back, "set_back"),
    (promoted, "replaced_by_its_standby"),
    (copied, "copied"),
];

/// Each pair, as a test.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (place, between) in PLACES {
        for (happens, what) in EVENTS {
            if (place, what) != (PROMOTION, "replaced_by_its_standby") {
                let name = format!("stops::a_server_{what}_between_{between}_repeats_no_id");
                cases.push(Case::new(name, Kind::By("make suite NAME=stops"), move || happens(place)));
            }
        }
    }
    cases
}

const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 100)";

/// A server that is held, with clients.
struct Held {
    server: Cluster,
    load: Load,
    stop: Stop,
    standby: Option<Cluster>,
    /// What its primary has issued, if it has been promoted.
    before: Report,
    registry: Option<Registry>,
}

/// A server like this, held at a place; with a standby if there is to be one.
fn held(place: Place, wal_mark: &str, with_standby: bool) -> Held {
    let registry = (place == GRANT).then(Registry::start);
    let builder = Cluster::builder().with_defaults().own_clock().set("snowflake_pg.wal_mark", wal_mark);
    let server = server(match &registry {
        None => builder.worker(1),
        Some(registry) => leased(builder, registry),
    });
    let standby = (with_standby || place == PROMOTION).then(|| {
        let standby = Cluster::builder().own_clock().standby_of(&server);
        // The standby has its own worker if it has a lease.
        if place != GRANT {
            server.configure("synchronous_standby_names", "*");
            server.reload();
            server.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
        }
        standby
    });
    let load = Load::start(&server, 3, IDS);
    load.wait_for_ids();
    let hold = |server: &Cluster| server.hold_at(place.0);
    if place != PROMOTION {
        let stop = hold(&server);
        stop.wait();
        return Held { server, load, stop, standby, before: Report::default(), registry };
    }
    let (mut primary, server) = (server, standby.expect("a standby"));
    primary.kill_all();
    let before = load.finish();
    let stop = hold(&server);
    server.promote();
    let load = Load::start(&server, 3, IDS);
    stop.wait();
    Held { server, load, stop, standby: None, before, registry }
}

fn server(builder: Builder) -> Cluster {
    let server = builder.start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    server
}

fn leased(builder: Builder, registry: &Registry) -> Builder {
    let builder = builder.worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    builder.set("snowflake_pg.registry_lease", "10s")
}

/// Every process ends where it is, as by a loss of power.
fn killed(place: Place) {
    for wal_mark in modes(place) {
        let mut held = held(place, wal_mark, false);
        held.let_the_mark_pass(place);
        held.server.kill_all();
        held.restart();
    }
}

/// A process that outlives its postmaster still returns an ID, or writes a mark.
fn orphaned(place: Place) {
    for wal_mark in modes(place) {
        let held = held(place, wal_mark, false);
        held.let_the_mark_pass(place);
        held.server.kill_postmaster();
        held.restart();
    }
}

/// Without WAL, the file alone has the mark, which a standby and the place before its answer need in WAL.
fn modes(place: Place) -> &'static [&'static str] {
    if [STANDBYS, PROMOTION].contains(&place) { &["require"] } else { &["require", "off"] }
}

fn clock_set_back(place: Place) {
    let Held { server, load, stop, mut before, .. } = held(place, "require", false);
    server.set_clock(-2.0);
    drop(stop);
    load.wait_for_ids();
    let ids = load.finish();
    show("clock set back", &ids);
    ids.assert_unique_and_ordered();
    if before.ids() > 0 {
        assert_above(&ids, &before);
    }
    before.merge(ids);
    before.assert_unique_and_ordered();
}

/// The old primary continues after the promotion, and finds no standby for another mark.
fn promoted(place: Place) {
    let Held { mut server, load, stop, standby, registry, .. } = held(place, "require", true);
    let standby = standby.expect("a standby");
    standby.promote();
    let new = some_ids(&standby);
    drop(stop);
    let mut old = load.finish();
    show("old", &old);
    show("new", &new);
    if registry.is_none() {
        assert_above(&new, &old);
    }
    old.merge(new);
    old.assert_unique_and_ordered();
    server.stop(Signal::INT);
}

/// A base backup. With a lease, both servers continue. Without one, they have one worker: the copy is told so, and
/// begins when the original has ended.
fn copied(place: Place) {
    let Held { mut server, load, stop, mut before, registry, .. } = held(place, "require", false);
    let mut copy = Cluster::builder().own_clock().set("synchronous_standby_names", "").backup_of(&server);
    if place == PROMOTION {
        server.configure("synchronous_standby_names", "");
        server.reload();
    }
    drop(stop);
    load.wait_for_ids();
    if registry.is_some() {
        copy.start();
        let new = some_ids(&copy);
        before.merge(load.finish());
        before.merge(new);
        return before.assert_unique_and_ordered();
    }
    server.kill_all();
    before.merge(load.finish());
    copy.start();
    if place != PROMOTION {
        let refused = error(&mut copy.connect(), "SELECT snowflake_nextval()");
        assert!(refused.message().contains("is a copy of another one"), "{refused:?}");
        copy.connect().batch_execute("SELECT snowflake_accept_mark()").expect("a mark");
    }
    let after = some_ids(&copy);
    show("before", &before);
    show("after", &after);
    assert_above(&after, &before);
    before.merge(after);
    before.assert_unique_and_ordered();
}

impl Held {
    /// Waits for the time from which on a further mark is needed. A server that has none yet needs it at once.
    fn let_the_mark_pass(&self, place: Place) {
        if place != PROMOTION {
            sleep_past(self.server.mark());
        }
    }

    /// Lets the process that is held continue if it still lives, and starts the server again with a clock that is
    /// behind: then the mark alone keeps IDs from coming twice.
    fn restart(self) {
        let Self { mut server, load, stop, mut before, registry, .. } = self;
        drop(stop);
        before.merge(load.finish());
        server.stop(Signal::KILL);
        server.set_clock(-3.0);
        server.start();
        let after = some_ids(&server);
        show("before", &before);
        show("after", &after);
        assert_above(&after, &before);
        before.merge(after);
        before.assert_unique_and_ordered();
        drop(registry);
    }
}

fn some_ids(server: &Cluster) -> Report {
    let load = Load::start(server, 2, IDS);
    load.wait_for_ids();
    load.finish()
}

fn show(what: &str, report: &Report) {
    let errors: BTreeMap<_, _> = report.errors();
    println!("{what}: {} IDs, {errors:?}", report.ids());
}

fn assert_above(new: &Report, old: &Report) {
    let (lowest, _) = new.range().expect("new IDs");
    let (_, highest) = old.range().expect("old IDs");
    assert!(lowest > highest, "{lowest} of {} is not above {highest} of {}", issued_at(lowest), issued_at(highest));
}
