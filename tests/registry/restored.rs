//! A registry that was restored to an older state, or has failed over.

use crate::fixture::{member, shown, start, take_a_thousand, worker_of};
use testbed::{Cluster, Registry, Signal, Witness, error};

const REFUSED: &str = "Registry: registry was restored or has failed over. Leases may have been lost. \
                       It gives no worker to another server before ";

/// Sends a server to another registry.
fn send_to(server: &Cluster, registry: &Registry) {
    server.configure("snowflake_pg.registry", registry.conninfo());
    server.reload();
}

/// A server that must get no worker.
fn assert_refused(registry: &Registry) {
    let server = start(member(registry));
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(REFUSED)), "{refused:?}\n{}", server.log());
}

/// Waits until a server has renewed its lease.
fn wait_for_renewal(registry: &Registry, worker: &str) {
    let renewed = "renewed > to_timestamp(restored_at / 1000.0)";
    registry.wait_until(&format!(
        "SELECT EXISTS (SELECT FROM snowflake_registry.lease, snowflake_registry.registry WHERE worker_id = {worker} AND {renewed})"
    ));
}

#[test]
fn a_registry_that_fails_over_without_a_loss_renews_all_leases_and_a_dba_may_go_on_at_once() {
    let mut registry = Registry::start();
    let servers = [0, 1].map(|_| start(member(&registry)));
    servers.iter().for_each(|server| drop(worker_of(server)));
    let standby = Cluster::builder().standby_of(&registry);
    standby.wait_for_commits_of(&registry);
    registry.stop(Signal::INT);
    standby.promote();
    let promoted = Registry::on(standby);
    let mut witness = Witness::default();
    for (worker, server) in ["0", "1"].iter().zip(&servers) {
        send_to(server, &promoted);
        wait_for_renewal(&promoted, worker);
        take_a_thousand(&mut witness, &[server]);
    }
    assert_refused(&promoted);
    shown(&promoted, "SELECT snowflake_registry.end_recovery()");
    let third = start(member(&promoted));
    assert_eq!(worker_of(&third), "2");
    take_a_thousand(&mut witness, &[&third, &servers[0], &servers[1]]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// The standby has none of the leases, and one that was renewed since.
#[test]
fn a_registry_that_has_lost_leases_takes_them_back_from_their_servers_and_from_nobody_else() {
    let mut registry = Registry::start();
    let old = start(member(&registry));
    worker_of(&old);
    let standby = Cluster::builder().standby_of(&registry);
    standby.wait_for_commits_of(&registry);
    // From here on nothing reaches the standby.
    standby.configure("primary_conninfo", "host=/nowhere");
    standby.reload();
    registry.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_replication)");
    let mut new = start(member(&registry));
    assert_eq!(worker_of(&new), "1");
    old.configure("snowflake_pg.registry_lease", "50min");
    old.reload();
    registry.wait_until("SELECT count(*) = 1 FROM snowflake_registry.workers WHERE renewed > since");
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&old, &new]);
    registry.kill_all();
    standby.promote();
    let promoted = Registry::on(standby);
    assert_eq!(shown(&promoted, "SELECT count(*) FROM snowflake_registry.workers"), "1");
    assert_refused(&promoted);
    for (worker, server) in ["0", "1"].iter().zip([&old, &new]) {
        send_to(server, &promoted);
        wait_for_renewal(&promoted, worker);
    }
    take_a_thousand(&mut witness, &[&old, &new]);
    new.restart(Signal::KILL);
    assert_eq!(worker_of(&new), "1", "{}", new.log());
    take_a_thousand(&mut witness, &[&old, &new]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// Its storage is put back in place, so that neither its system identifier nor its timeline shows it.
#[test]
fn a_registry_whose_volume_is_put_back_is_noticed_by_what_servers_have_seen() {
    let mut registry = Registry::start();
    registry.stop(Signal::INT);
    let mut older = Registry::on(Cluster::builder().copy_of(&registry));
    registry.start();
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "0");
    registry.stop(Signal::INT);
    older.start();
    let mut witness = Witness::default();
    send_to(&server, &older);
    wait_for_renewal(&older, "0");
    take_a_thousand(&mut witness, &[&server]);
    assert_refused(&older);
    assert_eq!(shown(&older, "SELECT not_before > 0 FROM snowflake_registry.registry"), "t");
    assert_eq!(witness.report().duplicates(), 0);
}

/// Another server may have had the worker meanwhile, and the restore has lost that.
#[test]
fn a_lease_that_had_ended_before_the_restore_is_not_renewed() {
    let mut registry = Registry::start();
    let server = start(member(&registry).set("snowflake_pg.registry_lease", "5s"));
    worker_of(&server);
    let standby = Cluster::builder().standby_of(&registry);
    standby.wait_for_commits_of(&registry);
    registry.kill_all();
    server.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    standby.promote();
    let promoted = Registry::on(standby);
    send_to(&server, &promoted);
    server.wait_until("SELECT registry_error LIKE 'the registry does not renew the lease%' FROM snowflake_status");
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.hint(), Some("Restart this server, so that it leases another worker."));
}

/// A server proves its lease by the receipt that it got with it.
#[test]
fn a_restored_registry_believes_no_server_that_has_no_receipt() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    // As another registry would.
    let mut dba = registry.connect();
    dba.batch_execute("UPDATE snowflake_registry.registry SET timeline = timeline - 1").expect("a restore");
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let renew = "SELECT granted FROM snowflake_registry.server_renew('{11111111-1111-1111-1111-111111111111}',
        '21111111-1111-1111-1111-111111111111', 9e12::bigint, repeat('0', 64), 0, 0, 60000, 0, 0, 0, 0, '', '', '', '', 1)";
    assert_eq!(testbed::value(&mut thief, renew), "NULL");
    assert_eq!(shown(&registry, "SELECT not_before > 0 FROM snowflake_registry.registry"), "t", "noticed");
}
