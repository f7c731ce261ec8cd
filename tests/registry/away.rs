//! A registry that cannot be reached.

use super::fixture::{OF_NEXT_ID, ONE_WORKER, answer_of, member, numbered, start, take_a_thousand, worker_of};
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};
use testbed::{Registry, Signal, Witness, error, test, value};

const IS_LEASED: &str = "SELECT worker_id IS NOT NULL FROM snowflake_status";

#[test]
fn a_new_server_issues_nothing_until_the_registry_is_there_and_says_why() {
    let mut registry = Registry::start();
    registry.stop(Signal::INT);
    let server = start(member(&registry));
    let mut client = server.connect();
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(
        (refused.code().code(), refused.message()),
        ("53400", "the registry has not leased a worker ID to this server")
    );
    let reason = format!("Connection to server on socket \"{}", registry.host().display());
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(&reason)), "{refused:?}");
    let status = "SELECT concat_ws(' ', state, worker_id, worker_id_source, lease_until) FROM snowflake_status";
    assert_eq!(answer_of(&server, status), "no lease");
    let error_shown = answer_of(&server, "SELECT registry_error FROM snowflake_status");
    assert!(error_shown.starts_with("Connection to server on socket"), "{error_shown}");
    registry.start();
    assert_eq!(worker_of(&server), "1023");
    assert_eq!(answer_of(&server, OF_NEXT_ID), "1023");
    assert_eq!(answer_of(&server, "SELECT registry_error IS NULL FROM snowflake_status"), "t");
}

#[test]
fn a_server_that_restarts_while_the_registry_is_away_goes_on_with_the_lease_that_it_has() {
    let mut registry = Registry::start();
    let mut server = start(member(&registry));
    worker_of(&server);
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    registry.stop(Signal::INT);
    for how in [Signal::KILL, Signal::QUIT, Signal::INT] {
        server.restart(how);
        server.wait_until(IS_LEASED);
        take_a_thousand(&mut witness, &[&server]);
    }
    server.wait_for_log("IDs can be issued with the lease of worker 1023 until ");
    // A planned stop gives the rest of the lease back, if the registry hears of it.
    registry.start();
    server.wait_until("SELECT registry_error IS NULL FROM snowflake_status");
    server.stop(Signal::INT);
    server.wait_for_log("LOG:  snowflake_pg: released worker 1023");
    registry.stop(Signal::INT);
    server.start();
    server.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    assert_eq!(error(&mut server.connect(), "SELECT snowflake_nextval()").code().code(), "53400");
    registry.start();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// It has had no reason to ask since.
#[test]
fn a_server_that_is_restarted_before_it_has_noticed_that_the_registry_is_away_goes_on_with_its_lease() {
    for is_frozen in [false, true] {
        let mut registry = Registry::start();
        let mut server = start(member(&registry));
        assert_eq!(worker_of(&server), "1023");
        let mut witness = Witness::default();
        take_a_thousand(&mut witness, &[&server]);
        if is_frozen {
            let frozen = registry.freeze();
            server.restart(Signal::INT);
            server.wait_until(IS_LEASED);
            take_a_thousand(&mut witness, &[&server]);
            drop(frozen);
        } else {
            registry.stop(Signal::INT);
            server.restart(Signal::INT);
            server.wait_until(IS_LEASED);
            take_a_thousand(&mut witness, &[&server]);
            registry.start();
        }
        server.wait_for_log("could not tell the registry that worker 1023");
        server.wait_until("SELECT registry_error IS NULL FROM snowflake_status");
        take_a_thousand(&mut witness, &[&server]);
        assert_eq!(witness.report().duplicates(), 0);
    }
}

/// The registry may have heard of it, and given the worker to another server.
#[test]
fn a_server_that_does_not_hear_whether_it_has_released_its_worker_does_without_the_rest_of_its_lease() {
    let mut registry = Registry::start();
    let mut server = start(member(&registry));
    assert_eq!(worker_of(&server), "1023");
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    let mut locker = registry.connect();
    locker.batch_execute("BEGIN; SELECT FROM snowflake_registry.lease FOR UPDATE").expect("a lock");
    server.stop(Signal::INT);
    server.wait_for_log("this server gives up its lease");
    drop(locker);
    registry.stop(Signal::INT);
    server.start();
    server.wait_until("SELECT state = 'no lease' AND registry_error IS NOT NULL FROM snowflake_status");
    assert_eq!(error(&mut server.connect(), "SELECT snowflake_nextval()").code().code(), "53400");
    registry.start();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
    take_a_thousand(&mut witness, &[&server]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// The registry has the next token then, and the server the one before.
#[test]
fn a_server_that_stops_before_it_has_the_answer_of_the_registry_keeps_its_number() {
    for how in [Signal::KILL, Signal::INT] {
        let registry = Registry::start();
        let mut server = start(numbered(&registry, 5));
        assert_eq!(answer_of(&server, OF_NEXT_ID), "5");
        let mut dba = registry.connect();
        dba.batch_execute("BEGIN; SELECT FROM snowflake_registry.lease WHERE worker_id = 5 FOR UPDATE")
            .expect("a lock");
        server.reload();
        registry.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
        server.stop(how);
        dba.batch_execute("COMMIT").expect("a commit");
        registry.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE usename = 'fleet')");
        server.start();
        assert_eq!(answer_of(&server, OF_NEXT_ID), "5", "{how:?}: {}", server.log());
    }
}

/// Else nobody has the worker until the lease ends.
#[test]
fn a_server_that_stops_while_it_claims_a_worker_waits_for_the_answer_and_releases_the_worker() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    dba.batch_execute("BEGIN; LOCK TABLE snowflake_registry.lease").expect("a lock");
    let mut server = start(numbered(&registry, 5));
    registry.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
    let status = server.data().join("postmaster.pid");
    let unlock = thread::spawn(move || {
        // The postmaster writes that before it tells its processes, and removes the file at its end.
        while fs::read_to_string(&status).is_ok_and(|status| !status.contains("stopping")) {
            thread::sleep(Duration::from_millis(1));
        }
        dba.batch_execute("COMMIT").expect("a commit");
    });
    server.stop(Signal::INT);
    unlock.join().expect("the end of the lock");
    server.wait_for_log("released worker 5");
    assert_eq!(answer_of(&registry, "SELECT state FROM snowflake_registry.workers"), "free");
}

#[test]
fn a_server_issues_to_the_end_of_its_lease_without_the_registry_and_comes_back_with_it() {
    let mut registry = Registry::start();
    let server = start(member(&registry).set("snowflake_pg.registry_lease", "5s").set("snowflake_pg.max_borrow", "1s"));
    worker_of(&server);
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&server]);
    registry.stop(Signal::INT);
    take_a_thousand(&mut witness, &[&server]);
    server.wait_until("SELECT state = 'no lease' FROM snowflake_status");
    witness.connect(&server);
    let refused = witness.refusal();
    assert_eq!(refused.code().code(), "53400");
    assert!(refused.message().starts_with("the lease of this server's worker ID ends at "), "{refused:?}");
    assert!(refused.detail().is_some_and(|detail| detail.contains("Connection to server on socket")), "{refused:?}");
    assert_eq!(refused.hint(), Some("This server tries again by itself; no restart is needed."));
    server.wait_for_log("WARNING:  snowflake_pg: could not renew the lease of worker 1023");
    registry.start();
    server.wait_until("SELECT state <> 'no lease' FROM snowflake_status");
    take_a_thousand(&mut witness, &[&server]);
    server.wait_for_log("the registry answers again");
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn a_server_that_slept_beyond_its_lease_issues_nothing_of_a_worker_that_another_one_has() {
    let registry = Registry::start();
    let fleet = || {
        member(&registry)
            .set("snowflake_pg.registry_lease", "5s")
            .set("snowflake_pg.max_borrow", "1s")
            .set("snowflake_pg.layout", ONE_WORKER)
    };
    let first = start(fleet());
    worker_of(&first);
    let mut witness = Witness::default();
    take_a_thousand(&mut witness, &[&first]);
    witness.connect(&registry);
    let frozen = first.freeze();
    let second = start(fleet());
    assert_eq!(worker_of(&second), "0");
    take_a_thousand(&mut witness, &[&second]);
    drop(frozen);
    first.wait_until("SELECT registry_error IS NOT NULL FROM snowflake_status");
    witness.connect(&first);
    let refused = witness.refusal();
    assert_eq!(refused.code().code(), "55000");
    assert!(refused.message().starts_with("the lease of this server's worker ID ends at "), "{refused:?}");
    assert_eq!(refused.hint(), Some("Restart this server, so that it leases another worker."));
    take_a_thousand(&mut witness, &[&second]);
    assert_eq!(witness.report().duplicates(), 0);
}

/// A connection is accepted, and then nothing comes.
#[test]
fn a_server_stops_and_other_hosts_are_tried_while_a_registry_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let registry = Registry::start();
    let mut server = start(
        member(&registry).set("snowflake_pg.registry_conninfo", format!("host=127.0.0.1 port={port} user=fleet")),
    );
    assert_eq!(error(&mut server.connect(), "SELECT snowflake_nextval()").code().code(), "53400");
    server.stop(Signal::INT);
    let both = format!(
        "host=127.0.0.1,{} port={port},5432 connect_timeout=2 user=fleet dbname=postgres",
        registry.host().display()
    );
    server.configure("snowflake_pg.registry_conninfo", both);
    server.start();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
}

/// A DBA has mistaken the host, and mends that.
#[test]
fn a_server_that_was_sent_to_another_registry_for_a_while_goes_on_with_its_lease() {
    let [registry, other] = [Registry::start(), Registry::start()];
    let server = start(member(&registry));
    worker_of(&server);
    let stranger = start(member(&other));
    worker_of(&stranger);
    server.configure("snowflake_pg.registry_conninfo", other.conninfo());
    server.reload();
    server.wait_until(
        "SELECT registry_error LIKE '%The last server to lease it was a server with%' FROM snowflake_status",
    );
    server.configure("snowflake_pg.registry_conninfo", registry.conninfo());
    server.reload();
    server.wait_until("SELECT registry_error IS NULL FROM snowflake_status");
    assert_eq!(answer_of(&other, "SELECT recovering_until IS NULL FROM snowflake_registry.status"), "t");
}

/// As after a failover: the first host accepts a connection, and then nothing comes.
#[test]
fn a_server_that_was_stopped_finds_its_lease_at_the_second_host_if_the_first_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let registry = Registry::start();
    let mut server = start(member(&registry));
    assert_eq!(worker_of(&server), "1023");
    let both = format!("host=127.0.0.1,{} port={port},5432 user=fleet dbname=postgres", registry.host().display());
    server.configure("snowflake_pg.registry_conninfo", both);
    server.restart(Signal::INT);
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
}

/// The registry client is in the middle of an exchange, and would ask again a minute later.
#[test]
fn a_server_that_the_registry_has_refused_stops_while_it_asks_again() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    worker_of(&server);
    answer_of(&registry, "SELECT snowflake_registry.forbid_workers(1023)");
    server.reload();
    server.wait_until("SELECT registry_error IS NOT NULL FROM snowflake_status");
    let mut dba = registry.connect();
    dba.batch_execute("BEGIN; LOCK TABLE snowflake_registry.lease").expect("a lock");
    server.reload();
    registry.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)");
    let stopped = Instant::now();
    server.stop(Signal::INT);
    // It would ask again after a minute.
    assert!(stopped.elapsed() < Duration::from_secs(45), "{:?}", stopped.elapsed());
}

/// PostgreSQL itself logs the new value of a parameter.
#[test]
fn a_password_in_the_connection_string_is_refused_and_never_shown() {
    let registry = Registry::start();
    let secret = "hunter2";
    let with_password = format!("{} password={secret}", registry.conninfo());
    let server = start(member(&registry).set("snowflake_pg.registry_conninfo", &with_password));
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.detail(), Some("snowflake_pg.registry_conninfo must not contain a password."));
    assert_eq!(refused.hint(), Some("Use a password file: see passfile in the manual of libpq."));
    let shown_in_views =
        "SELECT concat(setting, boot_val, reset_val) FROM pg_settings WHERE name = 'snowflake_pg.registry_conninfo'";
    assert_eq!(answer_of(&server, shown_in_views), "password=*password=*");
    for bad in [with_password, format!("{secret} is no connection string")] {
        server.configure("snowflake_pg.registry_conninfo", &bad);
        server.reload();
        let refused =
            error(&mut server.connect(), &format!("ALTER SYSTEM SET snowflake_pg.registry_conninfo = '{bad}'"));
        assert!(!refused.message().contains(secret) && refused.detail().is_none(), "{refused:?}");
    }
    server.configure("snowflake_pg.registry_conninfo", registry.conninfo());
    server.reload();
    assert_eq!(worker_of(&server), "1023");
    let log: String = server.log().lines().filter(|line| !line.contains("STATEMENT:  ALTER SYSTEM")).collect();
    assert!(!log.contains(secret), "{log}");
}

/// It can be in a file that only the server may read, as libpq finds it.
#[test]
fn a_password_file_opens_a_registry_that_asks_for_a_password() {
    let registry = Registry::start();
    registry.connect().batch_execute("ALTER ROLE fleet PASSWORD 'hunter2'").expect("a password");
    fs::write(registry.data().join("pg_hba.conf"), "local all postgres trust\nlocal all all scram-sha-256\n")
        .expect("pg_hba.conf");
    registry.reload();
    let server = start(member(&registry));
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert!(refused.detail().is_some_and(|detail| detail.contains("no password supplied")), "{refused:?}");
    let passfile = server.make_directory("secret").join("pgpass");
    fs::write(&passfile, "*:*:*:fleet:hunter2\n").expect("a file");
    testbed::make_private_file(&passfile);
    server.configure(
        "snowflake_pg.registry_conninfo",
        format!("{} passfile={}", registry.conninfo(), passfile.display()),
    );
    server.reload();
    assert_eq!(worker_of(&server), "1023", "{}", server.log());
    assert!(!server.log().contains("hunter2"), "{}", server.log());
}

/// Only those may know which hosts there are who may read the setting.
#[test]
fn an_ordinary_role_is_not_told_what_the_registry_has_said() {
    let mut registry = Registry::start();
    registry.stop(Signal::INT);
    let server = start(member(&registry));
    let mut client = server.connect();
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    assert_eq!(error(&mut client, "SHOW snowflake_pg.registry_conninfo").code().code(), "42501");
    assert_eq!(value(&mut client, "SELECT registry_error IS NULL FROM snowflake_status"), "t");
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!((refused.code().code(), refused.detail()), ("53400", None));
    assert_eq!(refused.hint(), Some("See the server log for the reason."));
}
