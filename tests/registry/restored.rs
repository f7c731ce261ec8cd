//! A registry that was restored to an older state, or has failed over.

use super::fixture::{
    ONE_WORKER, REFUSED, answer_of, assert_refused, cut_off, member, send_to, start, take_a_thousand, wait_for_renewal,
    worker_of,
};
use testbed::{Cluster, Registry, Signal, Witness, error, test};

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
    for (worker, server) in ["1023", "1022"].iter().zip(&servers) {
        send_to(server, &promoted);
        wait_for_renewal(&promoted, worker);
        take_a_thousand(&mut witness, &[server]);
    }
    assert_refused(&promoted);
    // A rule that is made meanwhile makes no lease.
    answer_of(&promoted, "SELECT snowflake_registry.reserve_workers(9)");
    let numbered = start(member(&promoted).set("snowflake_pg.worker_id", 9));
    let refused = error(&mut numbered.connect(), "SELECT snowflake_nextval()");
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(REFUSED)), "{refused:?}");
    promoted.wait_for_log("LOG:  snowflake_registry was restored or has failed over");
    let recovering =
        "SELECT recovering_until BETWEEN now() + '55 min' AND now() + '65 min' FROM snowflake_registry.status";
    assert_eq!(answer_of(&promoted, recovering), "t");
    answer_of(&promoted, "SELECT snowflake_registry.end_recovery()");
    assert_eq!(answer_of(&promoted, "SELECT concat(restored_at, recovering_until) FROM snowflake_registry.status"), "");
    let third = start(member(&promoted));
    assert_eq!(worker_of(&third), "1021");
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
    cut_off(&standby, &registry);
    let mut new = start(member(&registry));
    assert_eq!(worker_of(&new), "1022");
    old.configure("snowflake_pg.registry_lease", "50min");
    old.reload();
    registry.wait_until("SELECT count(*) = 1 FROM snowflake_registry.workers WHERE renewed_at > leased_at");
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&old, &new]);
    registry.kill_all();
    standby.promote();
    let promoted = Registry::on(standby);
    assert_eq!(answer_of(&promoted, "SELECT count(*) FROM snowflake_registry.workers"), "1");
    assert_refused(&promoted);
    for (worker, server) in ["1023", "1022"].iter().zip([&old, &new]) {
        send_to(server, &promoted);
        wait_for_renewal(&promoted, worker);
    }
    take_a_thousand(&mut witness, &[&old, &new]);
    new.restart(Signal::KILL);
    assert_eq!(worker_of(&new), "1022", "{}", new.log());
    take_a_thousand(&mut witness, &[&old, &new]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// Nothing shows the loss before the first server asks, and the registry has given its worker away by then.
#[test]
fn a_server_whose_worker_a_registry_has_lost_and_given_away_stops_when_it_asks_and_both_are_told() {
    // With the first renewals, it has seen a later state than the registry has by then.
    [0, 2].into_iter().for_each(lost_and_given_away);
}

fn lost_and_given_away(renewals: u32) {
    let mut registry = Registry::start();
    registry.stop(Signal::INT);
    let mut older = Registry::on(Cluster::builder().copy_of(&registry));
    registry.start();
    let mut first = start(member(&registry).set("cluster_name", "one"));
    assert_eq!(worker_of(&first), "1023");
    first.connect().batch_execute("SELECT snowflake_nextvals(1000)").expect("IDs");
    for _ in 0..renewals {
        let until = answer_of(&first, "SELECT lease_until FROM snowflake_status");
        first.reload();
        first.wait_until(&format!("SELECT lease_until > '{until}' FROM snowflake_status"));
    }
    registry.stop(Signal::INT);
    older.start();
    let second = start(member(&older).set("cluster_name", "two"));
    assert_eq!(worker_of(&second), "1023", "it cannot know");

    send_to(&first, &older);
    first.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    let refused = error(&mut first.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "55000");
    first.wait_for_log("worker 1023 is leased to another server for the same time");
    older.wait_until("SELECT recovering_until IS NOT NULL FROM snowflake_registry.status");
    let seen = "Worker 1023 was leased to server \"one\" on host ";
    older.wait_for_log("a worker was leased to two servers for the same time");
    older.wait_for_log(seen);
    second.reload();
    second.wait_until("SELECT lease_until > now() + '59 min' FROM snowflake_status");
    older.wait_until("SELECT bool_and(conflict IS NULL) FROM snowflake_registry.lease");
    second.wait_for_log("the worker of this server was leased to another server");
    second.wait_for_log(seen);
    // It gets another worker, above all that it may have issued.
    first.restart(Signal::INT);
    answer_of(&older, "SELECT snowflake_registry.end_recovery()");
    assert_eq!(worker_of(&first), "1022", "{}", first.log());
    first.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    second.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
}

/// The registry's clock was ahead, so that the worker was given away early, and the failover has lost that.
#[test]
fn a_server_that_has_lost_its_worker_to_another_one_never_gets_its_lease_back() {
    let mut registry = Registry::start_as(Cluster::builder().own_clock());
    let standby = Cluster::builder().own_clock().standby_of(&registry);
    let hosts = format!("host={},{}", registry.host().display(), standby.host().display());
    let both = format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write");
    let member =
        || member(&registry).set("snowflake_pg.registry_conninfo", &both).set("snowflake_pg.layout", ONE_WORKER);
    let mut first = start(member());
    worker_of(&first);
    standby.wait_for_commits_of(&registry);
    cut_off(&standby, &registry);
    registry.set_clock(3720.0);
    let second = start(member());
    assert_eq!(worker_of(&second), "0");
    let refused = "SELECT registry_error LIKE '%The last server to lease it was a server with%' FROM snowflake_status";
    first.reload();
    first.wait_until(refused);
    registry.kill_all();
    standby.promote();
    let promoted = Registry::on(standby);
    first.reload();
    second.reload();
    wait_for_renewal(&promoted, "0");
    first.wait_until(refused);
    let until = |server: &Cluster| answer_of(server, "SELECT lease_until FROM snowflake_status");
    assert!(until(&first) < until(&second), "{}", first.log());
    // After a restart, neither.
    first.restart(Signal::KILL);
    first.wait_until("SELECT state = 'no lease' AND registry_error IS NOT NULL FROM snowflake_status");
}

/// Another server may have had the worker meanwhile, and the restore has lost that.
#[test]
fn a_lease_that_had_ended_before_the_restore_is_not_renewed() {
    let mut registry = Registry::start();
    let mut server =
        start(member(&registry).set("snowflake_pg.registry_lease", "5s").set("snowflake_pg.max_borrow", "1s"));
    worker_of(&server);
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    let standby = Cluster::builder().standby_of(&registry);
    // No renewal that was answered is lost: the row would be of an earlier time of the lease.
    registry.configure("synchronous_standby_names", "*");
    registry.reload();
    registry.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
    standby.wait_for_commits_of(&registry);
    registry.kill_all();
    server.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    standby.promote();
    let promoted = Registry::on(standby);
    send_to(&server, &promoted);
    server.wait_until("SELECT registry_error LIKE 'The registry does not renew the lease%' FROM snowflake_status");
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    let hint = "If the registry has lost no transaction, call snowflake_registry.end_recovery() in it. Otherwise, \
                restart this server after ";
    assert!(refused.hint().is_some_and(|given| given.starts_with(hint)), "{refused:?}");
    // An hour and a minute later.
    promoted
        .connect()
        .batch_execute("UPDATE snowflake_registry.registry SET not_before = 1; SELECT snowflake_registry.note_origin()")
        .expect("the end of the recovery");
    server.restart(Signal::INT);
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// The lease that was lost ends before workers are given away.
#[test]
fn a_lease_that_the_registry_has_lost_is_never_longer_than_it_keeps_workers_back() {
    let mut registry = Registry::start_as(Cluster::builder().own_clock());
    let standby = Cluster::builder().own_clock().standby_of(&registry);
    standby.wait_for_commits_of(&registry);
    cut_off(&standby, &registry);
    let hosts = format!("host={},{}", registry.host().display(), standby.host().display());
    let both = format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write");
    let fleet = || {
        member(&registry)
            .set("snowflake_pg.registry_conninfo", &both)
            .set("snowflake_pg.registry_lease", "1d")
            .own_clock()
    };
    let old = start(fleet());
    assert_eq!(worker_of(&old), "1023");
    assert_eq!(answer_of(&old, "SELECT lease_until < now() + interval '61 minutes' FROM snowflake_status"), "t");
    let new = fleet().create();
    registry.kill_all();
    // It asks the new primary only after a while.
    let frozen = old.freeze();
    standby.promote();
    let mut new = new;
    new.start();
    new.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert!(
        error(&mut new.connect(), "SELECT snowflake_nextval()")
            .detail()
            .is_some_and(|detail| detail.starts_with(REFUSED))
    );
    for server in [&standby, &old, &new] {
        server.set_clock(3720.0);
    }
    assert_eq!(worker_of(&new), "1023", "the lease is over");
    answer_of(&new, "SELECT snowflake_accept_clock()");
    drop(frozen);
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&new]);
    answer_of(&old, "SELECT snowflake_accept_clock()");
    witness.connect(&old);
    assert!(witness.refusal().message().starts_with("the lease of this server's worker ID ends at "));
    assert_eq!(witness.report().duplicates(), 0);
}

/// By that clock, the lease has not ended before the failover.
#[test]
fn a_registry_that_fails_over_to_a_clock_that_is_behind_renews_no_lease_that_had_ended() {
    let mut registry = Registry::start_as(Cluster::builder().own_clock());
    let standby = Cluster::builder().own_clock().standby_of(&registry);
    let hosts = format!("host={},{}", registry.host().display(), standby.host().display());
    let both = format!("{hosts} user=fleet dbname=postgres target_session_attrs=read-write");
    let fleet = |lease: &str| {
        let member =
            member(&registry).set("snowflake_pg.registry_conninfo", &both).set("snowflake_pg.layout", ONE_WORKER);
        start(member.set("snowflake_pg.registry_lease", lease))
    };
    let first = fleet("10s");
    assert_eq!(worker_of(&first), "0");
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&first]);
    let second = fleet("60s");
    standby.wait_for_commits_of(&registry);
    cut_off(&standby, &registry);
    let frozen = first.freeze();
    assert_eq!(worker_of(&second), "0");
    registry.kill_all();
    standby.set_clock(-120.0);
    standby.promote();
    drop(frozen);
    first.wait_until("SELECT registry_error LIKE 'The registry does not renew the lease%' FROM snowflake_status");
    take_a_thousand(&mut witness, &[&second]);
    witness.connect(&first);
    assert!(witness.refusal().message().starts_with("the lease of this server's worker ID ends at "));
    assert_eq!(witness.report().duplicates(), 0);
}

/// All leases have ended meanwhile, so that only a DBA can know that no other server has had the workers.
#[test]
fn a_dba_who_ends_the_recovery_lets_servers_go_on_whose_leases_had_ended() {
    let mut registry = Registry::start();
    let server = start(member(&registry).set("snowflake_pg.registry_lease", "5s").set("snowflake_pg.max_borrow", "1s"));
    worker_of(&server);
    let standby = Cluster::builder().standby_of(&registry);
    standby.wait_for_commits_of(&registry);
    answer_of(&server, "SELECT snowflake_nextval()");
    registry.kill_all();
    server.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    standby.promote();
    let promoted = Registry::on(standby);
    send_to(&server, &promoted);
    server.wait_until("SELECT registry_error LIKE 'The registry does not renew the lease%' FROM snowflake_status");
    answer_of(&promoted, "SELECT snowflake_registry.end_recovery()");
    server.reload();
    server.wait_until("SELECT state <> 'no lease' FROM snowflake_status");
    answer_of(&server, "SELECT snowflake_nextval()");
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
    let renew = "SELECT granted_until FROM snowflake_registry.server_renew('{11111111-1111-1111-1111-111111111111}',
        '21111111-1111-1111-1111-111111111111', 9e12::bigint, repeat('0', 64), 0, 100000,
        '{\"lease_ms\": 60000, \"clock\": 0, \"clock_offset_ms\": 0}')";
    assert_eq!(testbed::value(&mut thief, renew), "NULL");
    assert_eq!(answer_of(&registry, "SELECT not_before > 0 FROM snowflake_registry.registry"), "t", "noticed");
}
