//! A server that is replaced on purpose: by the next version, by a restored dump, by another layout.

use super::nodes::{assert_above, assert_refused, crash, lead_ms, lead_ms_in, some_ids_without_errors, start};
use super::suite::{Evidence, Fault};
use testbed::{Cluster, Report, Signal, error, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 24,
        promise: "ids_after_pg_upgrade_are_above_those_before",
        short: 1,
        full: 3,
        run: |rounds| in_rounds(rounds, || upgraded("off")),
    },
    Fault {
        row: 24,
        promise: "the_same_holds_when_the_mark_has_to_go_through_wal",
        short: 1,
        full: 3,
        run: |rounds| in_rounds(rounds, || upgraded("require")),
    },
    Fault {
        row: 24,
        promise: "an_upgraded_server_with_its_old_state_directory_waits_to_be_accepted",
        short: 1,
        full: 3,
        run: |rounds| in_rounds(rounds, upgraded_beside_its_state_directory),
    },
    Fault {
        row: 24,
        promise: "ids_after_a_restored_dump_are_above_those_before",
        short: 1,
        full: 3,
        run: |rounds| in_rounds(rounds, restored_with_preload),
    },
    Fault {
        row: 24,
        promise: "a_dump_can_be_restored_without_preload",
        short: 1,
        full: 2,
        run: |rounds| in_rounds(rounds, restored_without_preload),
    },
    Fault {
        row: 30,
        promise: "another_layout_is_refused_until_it_is_accepted_and_the_old_one_works_at_once",
        short: 1,
        full: 5,
        run: |rounds| in_rounds(rounds, layout_changed),
    },
    Fault {
        row: 30,
        promise: "an_epoch_that_makes_ids_smaller_is_only_accepted_by_force",
        short: 1,
        full: 5,
        run: |rounds| in_rounds(rounds, epoch_changed),
    },
];

const ACCEPT: &str = "SELECT snowflake_accept_mark()";

/// What clients have received in a round, and how far it was ahead of the clock, at most.
type Seen = (Report, i64);

/// The evidence of rounds.
fn in_rounds(rounds: usize, round: fn() -> Seen) -> Evidence {
    let (mut all, mut highest) = (Report::default(), 0);
    for _ in 0..rounds {
        let (ids, lead) = round();
        all.merge(ids);
        highest = highest.max(lead);
    }
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all).lead_ms(highest)
}

/// Starts a server with a table whose IDs are its own. What its clients have received; it has crashed meanwhile, and so
/// is ahead of its clock.
fn fill_orders(cluster: &mut Cluster) -> Report {
    cluster.start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)",
        )
        .expect("a table");
    drop(client);
    let mut ids = some_ids_without_errors(cluster);
    crash(cluster);
    cluster.connect().batch_execute("INSERT INTO orders (item) VALUES ('tea'), ('cake')").expect("rows");
    ids.merge(some_ids_without_errors(cluster));
    ids
}

/// The table of a server is there on its successor, whose IDs are above those before.
fn goes_on(successor: &Cluster, before: Report) -> Seen {
    let mut client = successor.connect();
    let last: i64 = value(&mut client, "SELECT max(id) FROM orders").parse().expect("an ID");
    let insert = "INSERT INTO orders (item) VALUES ('bread') RETURNING id";
    let next: i64 = client.query_one(insert, &[]).expect("a row").get(0);
    assert!(next > last, "{next} after {last}");
    let mut all = before;
    issues_above(successor, &mut all);
    let lead = lead_ms(&all, 0);
    (all, lead)
}

/// A server issues IDs above all before. How far they are ahead of the clock.
fn issues_above(server: &Cluster, all: &mut Report) -> i64 {
    let new = some_ids_without_errors(server);
    assert_above(&new, all);
    let layout = value(&mut server.connect(), "SHOW snowflake_pg.layout").parse().expect("a layout");
    let lead = lead_ms_in(&layout, &new, 0);
    all.merge(new);
    lead
}

fn upgraded(wal_mark: &str) -> Seen {
    let builder = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", wal_mark);
    let mut old = builder.clone().old().create();
    let ids = fill_orders(&mut old);
    old.stop(Signal::INT);
    let mut new = builder.upgrade_of(&old);
    new.start();
    goes_on(&new, ids)
}

fn upgraded_beside_its_state_directory() -> Seen {
    let mut old = Cluster::builder().worker(1).old().create();
    let state = old.make_directory("state");
    old.configure("snowflake_pg.state_directory", state.display());
    let ids = fill_orders(&mut old);
    old.stop(Signal::INT);
    let new = Cluster::builder().worker(1).with_defaults().set("snowflake_pg.state_directory", state.display());
    let mut new = new.upgrade_of(&old);
    new.start();
    assert_refused(&new, "another database cluster");
    crash(&mut new);
    assert_refused(&new, "another database cluster");
    new.connect().batch_execute(ACCEPT).expect("an acceptance");
    goes_on(&new, ids)
}

fn restored_with_preload() -> Seen {
    let mut old = Cluster::builder().worker(1).old().create();
    let ids = fill_orders(&mut old);
    let new = Cluster::builder().worker(1).start();
    new.restore_dump_of(&old);
    goes_on(&new, ids)
}

fn restored_without_preload() -> Seen {
    let mut old = Cluster::builder().worker(1).create();
    let ids = fill_orders(&mut old);
    let mut new = Cluster::builder().start();
    new.restore_dump_of(&old);
    old.stop(Signal::INT);
    let mut client = new.connect();
    assert_eq!(value(&mut client, "SELECT count(*) FROM orders"), "2");
    assert_eq!(value(&mut client, "SELECT DISTINCT (snowflake_decode(id)).worker_id FROM orders"), "1");
    let refused = error(&mut client, "INSERT INTO orders (item) VALUES ('bread')");
    assert_eq!(refused.code().code(), "55000");
    assert_eq!(refused.message(), "snowflake_pg must be loaded via shared_preload_libraries to issue IDs");
    assert_eq!(value(&mut client, "SELECT count(*) FROM orders"), "2", "the session is alive");
    drop(client);
    new.configure("shared_preload_libraries", "snowflake_pg");
    new.configure("snowflake_pg.worker_id", 1);
    new.restart(Signal::INT);
    goes_on(&new, ids)
}

/// Restarts a server with another layout.
fn change_layout(server: &mut Cluster, layout: &str) {
    server.configure("snowflake_pg.layout", layout);
    server.restart(Signal::INT);
}

fn layout_changed() -> Seen {
    let mut server = start(Cluster::builder().worker(378).with_defaults());
    let mut all = some_ids_without_errors(&server);
    let mut lead = 0;
    // The same IDs by other names, with nobody's help.
    for (layout, datacenter, worker) in [("twitter", 11, 26), ("flat", 0, 378)].repeat(2) {
        server.configure("snowflake_pg.datacenter_id", datacenter);
        server.configure("snowflake_pg.worker_id", worker);
        change_layout(&mut server, layout);
        lead = lead.max(issues_above(&server, &mut all));
        crash(&mut server);
        lead = lead.max(issues_above(&server, &mut all));
    }
    for layout in ["t41 w11 s11", "flat epoch=2010-11-04T00:00:00Z"] {
        change_layout(&mut server, layout);
        assert_refused(&server, "layout");
        crash(&mut server);
        assert_refused(&server, "layout");
        change_layout(&mut server, "flat");
        lead = lead.max(issues_above(&server, &mut all));
    }
    // Both make IDs that are greater than all before: another division of the same bits, and an earlier epoch.
    for layout in ["t41 w11 s11", "t41 w11 s11 epoch=2010-11-04T00:00:00Z"] {
        change_layout(&mut server, layout);
        assert_refused(&server, "layout");
        server.connect().batch_execute(ACCEPT).expect("an acceptance");
        lead = lead.max(issues_above(&server, &mut all));
        server.restart(Signal::INT);
        lead = lead.max(issues_above(&server, &mut all));
    }
    (all, lead)
}

fn epoch_changed() -> Seen {
    let mut server = start(Cluster::builder().worker(1));
    let mut old = some_ids_without_errors(&server);
    let later = "flat epoch=2024-01-01T00:00:00Z";
    change_layout(&mut server, later);
    assert_refused(&server, "layout");
    let refused = error(&mut server.connect(), ACCEPT);
    assert!(refused.hint().is_some(), "{refused:?}");
    assert_refused(&server, "layout");
    server.connect().batch_execute("SELECT snowflake_accept_mark(force := true)").expect("an acceptance by force");
    let forced = some_ids_without_errors(&server);
    assert_above(&old, &forced);
    let lead = lead_ms(&old, 0).max(lead_ms_in(&later.parse().expect("a layout"), &forced, 0));
    old.merge(forced);

    // Back again, IDs are greater than all before.
    change_layout(&mut server, "flat");
    assert_refused(&server, "layout");
    server.connect().batch_execute(ACCEPT).expect("an acceptance");
    let lead = lead.max(issues_above(&server, &mut old));
    (old, lead)
}
