//! Who claims a worker, and which one it gets.

use super::fixture::{
    OF_NEXT_ID, ONE_WORKER, TWO_WORKERS, WORKER, answer_of, member, numbered, row_of, start, take_a_thousand, worker_of,
};
use testbed::{Cluster, Registry, Signal, Witness, error, need_hosts, test};

#[test]
fn servers_with_one_configuration_lease_workers_of_their_own() {
    let registry = Registry::start();
    let servers = [0, 1, 2].map(|_| start(member(&registry)));
    for (worker, server) in [1023, 1022, 1021].iter().zip(&servers) {
        assert_eq!(answer_of(server, OF_NEXT_ID), worker.to_string(), "{}", server.log());
        assert_eq!(answer_of(server, WORKER), format!("{worker} from registry"));
        let line = format!("LOG:  snowflake_pg: leased worker {worker}, until ");
        server.wait_for_log(&line);
    }
}

#[test]
fn a_server_that_is_restarted_or_crashes_keeps_its_worker_and_goes_on_at_its_mark() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    let _other = start(member(&registry));
    for how in [Signal::INT, Signal::KILL, Signal::QUIT] {
        let before = answer_of(&server, "SELECT snowflake_nextval()");
        server.restart(how);
        assert_eq!(answer_of(&server, &format!("SELECT snowflake_nextval() > {before}")), "t");
        assert_eq!(answer_of(&server, OF_NEXT_ID), "1023", "{how:?}: {}", server.log());
    }
    let before = answer_of(&server, "SELECT snowflake_nextval()");
    server.kill_backend();
    assert_eq!(answer_of(&server, &format!("SELECT snowflake_nextval() > {before}")), "t");
    assert_eq!(answer_of(&server, OF_NEXT_ID), "1023", "{}", server.log());
}

/// Nobody else can have its lease file then, so it keeps its worker if that was released, and else gets another one.
#[test]
fn a_machine_that_is_booted_gets_the_worker_back_that_its_server_has_released() {
    need_hosts();
    let registry = Registry::start();
    let mut server = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    server.stop(Signal::INT);
    server.boot(1);
    server.start();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
    take_a_thousand(&mut witness, &[&server]);
    // A volume that is mounted elsewhere while its server runs looks like this, too.
    server.kill_all();
    server.boot(2);
    server.start();
    assert_eq!(worker_of(&server), "1022", "{}", server.log());
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// Before its first mark is on disk, it has issued nothing.
#[test]
fn a_server_that_is_killed_again_and_again_while_it_starts_uses_up_no_workers() {
    let registry = Registry::start();
    let mut server =
        start(numbered(&registry, 5).set("snowflake_pg.max_borrow", "1min").set("snowflake_pg.max_first_wait", "1min"));
    for _ in 0..3 {
        assert_eq!(worker_of(&server), "5", "{}", server.log());
        server.restart(Signal::KILL);
    }
    server.stop(Signal::INT);
    server.configure("snowflake_pg.max_first_wait", 0);
    server.start();
    assert_eq!(answer_of(&server, OF_NEXT_ID), "5", "{}", server.log());
}

/// A server that has issued IDs of worker 5 up to this time, and was started again. It has its lease, and cannot begin:
/// no standby acknowledges its mark.
fn that_cannot_begin_again(registry: &Registry) -> (Cluster, String) {
    let mut server = start(numbered(registry, 5));
    assert_eq!(answer_of(&server, OF_NEXT_ID), "5");
    let issued =
        answer_of(&server, "SELECT round(1000 * extract(epoch FROM snowflake_timestamp(snowflake_nextval())))");
    server.stop(Signal::INT);
    server.configure("snowflake_pg.wal_mark", "require");
    server.configure("synchronous_standby_names", "nobody");
    server.start();
    worker_of(&server);
    (server, issued)
}

/// It was started again, and so has not seen where the server began.
#[test]
fn a_registry_client_releases_nothing_below_the_mark_of_a_server_that_could_not_begin() {
    let registry = Registry::start();
    let (mut server, issued) = that_cannot_begin_again(&registry);
    let client = "SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake_pg registry client'";
    let before = answer_of(&server, client);
    registry.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'fleet')");
    let renewed = row_of(&registry, "renewed_at", 5);
    answer_of(&server, &format!("SELECT pg_terminate_backend({before})"));
    server.wait_until(&format!("SELECT ({client}) <> {before}"));
    // It renews at once; and has the answer when its session is over.
    registry.wait_until(&format!("SELECT renewed_at > '{renewed}' FROM snowflake_registry.workers"));
    registry.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'fleet')");
    server.stop(Signal::INT);
    let granted = "granted_until < 1000 * extract(epoch FROM now() + '10 s')";
    let query = format!("SELECT granted_until > {issued} AND {granted} FROM snowflake_registry.lease");
    assert_eq!(answer_of(&registry, &query), "t", "{}", server.log());
}

/// It could not begin, and so does not know what it had issued.
#[test]
fn a_server_whose_mark_was_lost_or_damaged_since_its_start_releases_nothing() {
    for is_damaged in [false, true] {
        let registry = Registry::start();
        let (mut server, issued) = that_cannot_begin_again(&registry);
        registry.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'fleet')");
        if is_damaged {
            std::fs::write(server.mark_file(), b"rubbish").expect("a file");
        } else {
            std::fs::remove_file(server.mark_file()).expect("a file");
        }
        server.stop(Signal::INT);
        let query = format!("SELECT granted_until > {issued} FROM snowflake_registry.lease");
        assert_eq!(answer_of(&registry, &query), "t", "{}", server.log());
    }
}

/// It cannot go on at its mark.
#[test]
fn a_server_whose_mark_is_damaged_gets_another_worker_and_can_be_repaired() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    server.kill_all();
    std::fs::write(server.mark_file(), b"rubbish").expect("a file");
    server.start();
    assert_eq!(worker_of(&server), "1022", "{}", server.log());
    assert_eq!(error(&mut server.connect(), "SELECT snowflake_nextval()").code().code(), "XX001");
    answer_of(&server, "SELECT snowflake_reset_mark(now())");
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn a_numbered_server_is_told_that_its_worker_is_leased_to_itself_in_another_boot() {
    need_hosts();
    let registry = Registry::start();
    let mut server = start(numbered(&registry, 5));
    assert_eq!(answer_of(&server, OF_NEXT_ID), "5");
    server.kill_all();
    server.boot(1);
    server.start();
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    let expected = "Registry: Worker 5 is still leased to this server, or to a copy of it. The lease ends at ";
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(expected)), "{refused:?}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("release_worker(5)")), "{refused:?}");
    answer_of(&registry, "SELECT snowflake_registry.release_worker(5, now() + interval '3 seconds')");
    server.wait_until("SELECT lease_until > now() FROM snowflake_status");
    assert_eq!(answer_of(&server, OF_NEXT_ID), "5");
}

#[test]
fn a_worker_that_is_forbidden_and_allowed_again_is_renewed_without_a_restart() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    answer_of(&registry, "SELECT snowflake_registry.forbid_workers(1023, comment => 'of the old system')");
    server.reload();
    server.wait_until("SELECT registry_error IS NOT NULL FROM snowflake_status");
    let detail = "It is forbidden. Its comment is \"of the old system\". IDs can be issued until ";
    server.wait_for_log(detail);
    answer_of(&registry, "SELECT snowflake_registry.allow_workers(1023)");
    server.reload();
    server.wait_until("SELECT registry_error IS NULL FROM snowflake_status");
}

#[test]
fn a_keeper_of_the_lease_that_is_terminated_comes_back_with_the_same_worker() {
    let registry = Registry::start();
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "1023");
    let before = row_of(&registry, "renewed_at", 1023);
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake_pg registry client'";
    assert_eq!(answer_of(&server, end), "t");
    registry.wait_until(&format!("SELECT renewed_at > '{before}' FROM snowflake_registry.workers"));
    assert_eq!(answer_of(&server, OF_NEXT_ID), "1023");
    // It did not stop, so it has released nothing.
    assert_eq!(row_of(&registry, "granted_until > now() + interval '30 minutes'", 1023), "t");
}

#[test]
fn a_configured_worker_is_refused_while_another_server_has_it_and_the_other_one_is_named() {
    let registry = Registry::start();
    let first = start(numbered(&registry, 5).set("cluster_name", "first"));
    assert_eq!(answer_of(&first, OF_NEXT_ID), "5");
    assert_eq!(answer_of(&first, WORKER), "5 from configuration");
    assert!(!first.log().contains("WARNING"), "{}", first.log());
    let mut second = start(numbered(&registry, 5));
    let refused = error(&mut second.connect(), "SELECT snowflake_nextval()");
    assert_eq!(
        (refused.code().code(), refused.message()),
        ("55000", "the registry has not leased a worker ID to this server")
    );
    let detail = refused.detail().expect("a detail");
    assert!(
        detail.starts_with("Registry: Worker 5 is leased to another server. It is server \"first\" on host \""),
        "{detail}"
    );
    assert!(refused.hint().is_some_and(|hint| hint.contains("release_worker(5)")), "{refused:?}");
    assert_eq!(answer_of(&second, "SELECT state FROM snowflake_status"), "no lease");
    // A leased one beside it.
    let third = start(member(&registry));
    assert_eq!(answer_of(&third, OF_NEXT_ID), "1023");
    drop(first);
    second.stop(Signal::INT);
    // The first one was ended without a farewell. A DBA knows that it will never come back.
    answer_of(&registry, "SELECT snowflake_registry.release_worker(5, now())");
    second.start();
    second.wait_until("SELECT state <> 'no lease' FROM snowflake_status");
    assert_eq!(answer_of(&second, OF_NEXT_ID), "5", "{}", second.log());
}

#[test]
fn a_server_without_a_registry_says_that_one_counts_from_the_next_start_on() {
    let registry = Registry::start();
    let mut server = start(Cluster::builder().worker(5));
    server.configure("snowflake_pg.registry_conninfo", registry.conninfo());
    server.reload();
    let warning = "WARNING:  snowflake_pg: snowflake_pg.registry_conninfo takes effect when the server is restarted";
    server.wait_for_log(warning);
    server.restart(Signal::INT);
    assert_eq!(worker_of(&server), "5");
}

#[test]
fn a_server_that_is_numbered_anew_gets_its_new_worker_alone() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    let mut witness = Witness::default();
    for (text, worker) in [("registry", "1023"), ("7", "7"), ("env:NONE", ""), ("registry", "7")] {
        server.configure("snowflake_pg.worker_id", text);
        server.restart(Signal::INT);
        if worker.is_empty() {
            let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
            assert_eq!(refused.message(), "could not determine snowflake_pg.worker_id");
            continue;
        }
        assert_eq!(worker_of(&server), worker, "{}", server.log());
        take_a_thousand(&mut witness, &[&server]);
    }
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn where_all_workers_are_leased_the_error_says_how_many_and_when_the_next_lease_ends() {
    let registry = Registry::start();
    let servers = [0, 1].map(|_| start(member(&registry).set("snowflake_pg.layout", TWO_WORKERS)));
    servers.iter().for_each(|server| drop(worker_of(server)));
    let third = start(member(&registry).set("snowflake_pg.layout", TWO_WORKERS));
    let refused = error(&mut third.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "53400");
    let detail = refused.detail().expect("a detail");
    let expected = "Registry: No worker is free. Of the workers 0 to 1, 2 are leased, and 0 are reserved or forbidden. \
                    The next lease to end is that of worker 1, a server with system identifier ";
    assert!(detail.starts_with(expected), "{detail}");
    // Without what is in the detail, too.
    let mut application = third.connect();
    application.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    let refused = error(&mut application, "SELECT snowflake_nextval()");
    assert_eq!((refused.code().code(), refused.detail()), ("53400", None));
    // It comes by itself when one is free.
    let [mut first, _second] = servers;
    first.stop(Signal::INT);
    assert_eq!(worker_of(&third), "1", "{}", third.log());
}

#[test]
fn two_fleets_in_one_registry_never_have_the_same_worker() {
    let registry = Registry::start();
    let fleets = [0, 1, 0, 1].map(|fleet| {
        start(member(&registry).set("cluster_name", format!("fleet{fleet}")).set("snowflake_pg.max_wait", 100 + fleet))
    });
    let mut workers: Vec<_> = fleets.iter().map(worker_of).collect();
    workers.sort();
    assert_eq!(workers, ["1020", "1021", "1022", "1023"]);
    let names = "SELECT string_agg(server, ' ' ORDER BY server) FROM snowflake_registry.workers";
    assert_eq!(answer_of(&registry, names), "fleet0 fleet0 fleet1 fleet1");
}

/// In the registry they are one number, so that a layout with data centers and one without never issue the same IDs.
#[test]
fn servers_of_a_data_center_lease_its_workers_and_no_server_without_one_gets_them() {
    let registry = Registry::start();
    let twitter = |datacenter| {
        member(&registry).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", datacenter)
    };
    let servers = [0, 31, 31].map(|datacenter| start(twitter(datacenter)));
    assert_eq!(servers.each_ref().map(worker_of), ["31", "31", "30"]);
    let flat = start(numbered(&registry, 1023));
    let refused = error(&mut flat.connect(), "SELECT snowflake_nextval()");
    assert_eq!(
        refused.detail().map(|detail| detail.starts_with("Registry: Worker 1023 is leased to another server.")),
        Some(true)
    );
    assert_eq!(worker_of(&start(member(&registry))), "1021", "the first that nobody has");
    assert_eq!(
        answer_of(&registry, "SELECT string_agg(worker_id::text, ' ') FROM snowflake_registry.workers"),
        "31 1021 1022 1023"
    );
    let layouts = "SELECT count(DISTINCT layout) FROM snowflake_registry.workers";
    assert_eq!(answer_of(&registry, layouts), "1", "they are one");
}

#[test]
fn reserved_and_forbidden_workers_are_leased_to_no_server_that_does_not_ask_for_them() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    dba.batch_execute("SELECT snowflake_registry.reserve_workers(1023, comment => 'the archive'); SELECT snowflake_registry.forbid_workers(1022, comment => 'of the old system')")
        .expect("rules");
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "1021");
    assert_eq!(row_of(&registry, "state || ': ' || comment", 1023), "reserved: the archive");
    assert_eq!(row_of(&registry, "state || ': ' || comment", 1022), "forbidden: of the old system");
    assert_eq!(worker_of(&start(numbered(&registry, 1023))), "1023");
    let forbidden = start(numbered(&registry, 1022));
    let refused = error(&mut forbidden.connect(), "SELECT snowflake_nextval()");
    let detail = "Registry: Worker 1022 is forbidden. Its comment is \"of the old system\".";
    assert_eq!(refused.detail(), Some(detail));
    dba.batch_execute("SELECT snowflake_registry.allow_workers(1022)").expect("a rule");
    assert_eq!(worker_of(&forbidden), "1022");
}

/// By the registry's clock the lease is over. The second server's clock is an hour behind, and so below what was
/// granted.
#[test]
fn the_next_holder_of_a_worker_begins_above_everything_that_was_granted_before() {
    let registry = Registry::start_as(Cluster::builder().own_clock());
    let fleet = || member(&registry).set("snowflake_pg.layout", ONE_WORKER).own_clock();
    let mut first = start(fleet());
    let mut witness = Witness::default();
    worker_of(&first);
    take_a_thousand(&mut witness, &[&first]);
    let granted = row_of(&registry, "granted_until", 0);
    first.kill_all();
    let second = start(fleet());
    witness.connect(&second);
    assert_eq!(witness.refusal().code().code(), "53400");
    registry.set_clock(3700.0);
    second.wait_until("SELECT worker_id = 0 FROM snowflake_status");
    let refused = witness.refusal();
    assert_eq!(refused.message(), "the server's clock is too far behind the last ID issued", "{refused:?}");
    second.set_clock(3700.0);
    second.wait_until("SELECT snowflake_nextval() > 0");
    let issued = answer_of(&second, "SELECT issued_at FROM snowflake_decode(snowflake_nextval())");
    assert_eq!(answer_of(&second, &format!("SELECT '{issued}'::timestamptz >= '{granted}'::timestamptz")), "t");
    take_a_thousand(&mut witness, &[&second]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// Sessions that have begun would issue IDs of the old one.
#[test]
fn a_server_that_has_lost_its_lease_never_changes_its_worker_while_it_runs() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    assert_eq!(answer_of(&server, OF_NEXT_ID), "1023");
    answer_of(&registry, "SELECT snowflake_registry.release_worker(1023)");
    let end =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake_pg registry client'";
    answer_of(&server, end);
    server.wait_until("SELECT registry_error IS NOT NULL FROM snowflake_status");
    assert_eq!(answer_of(&server, OF_NEXT_ID), "1023", "to the end of its lease");
    server.restart(Signal::INT);
    assert_eq!(worker_of(&server), "1022", "{}", server.log());
}
