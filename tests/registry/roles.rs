//! What the role of a server can do in the registry, also if it was stolen.

use super::fixture::{ONE_WORKER, about, answer_of, member, row_of, start, worker_of};
use testbed::postgres::Client;
use testbed::{Registry, error, test, value};

#[test]
fn the_role_of_a_server_can_do_nothing_with_the_worker_of_another_one() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = "11111111-1111-1111-1111-111111111111";
    let about = about(60_000);
    let before = row_of(&registry, "(workers.*)::text", 1023);
    for forbidden in [
        "SELECT * FROM snowflake_registry.lease",
        "SELECT * FROM snowflake_registry.registry",
        "UPDATE snowflake_registry.lease SET token = NULL",
        "DELETE FROM snowflake_registry.lease",
        "SELECT nextval('snowflake_registry.revision')",
        "SELECT snowflake_registry.release_worker(1023)",
        "SELECT snowflake_registry.reserve_workers(1023)",
        "SELECT snowflake_registry.forbid_workers(1023)",
        "SELECT snowflake_registry.allow_workers(1023)",
        "SELECT snowflake_registry.set_rule(1023, 1023, 'forbidden', NULL)",
        "SELECT snowflake_registry.end_recovery()",
        "SELECT snowflake_registry.set_longest_lease('1d')",
        "SELECT snowflake_registry.claim_any(0, 31, NULL, 9e12::bigint)",
        "SELECT snowflake_registry.receipt_for(1023, gen_random_uuid(), 0, 0)",
        "SELECT snowflake_registry.check_restored(0, 0)",
        "SELECT snowflake_registry.note_origin()",
        "CREATE TABLE snowflake_registry.mine ()",
    ] {
        assert_eq!(error(&mut thief, forbidden).code().code(), "42501", "{forbidden}");
    }
    for presented in ["{}", &format!("{{{token}}}"), "{NULL}"] {
        let renewal = format!(
            "SELECT granted_until FROM snowflake_registry.server_renew('{presented}', '{token}', 9e12::bigint, '', 1023, 0, {about})"
        );
        assert_eq!(testbed::value(&mut thief, &renewal), "NULL");
        let release = format!(
            "SELECT receipt FROM snowflake_registry.server_release('{presented}', '{token}', 9e12::bigint, '', 1023, 0, 1, {about})"
        );
        assert_eq!(testbed::value(&mut thief, &release), "NULL");
    }
    let claim =
        format!("SELECT snowflake_registry.server_claim('{{{token}}}', '{token}', 1023, 0, 1023, NULL, {about})");
    assert_eq!(error(&mut thief, &claim).code().code(), "55000");
    // No answer proves a lease that the registry has not granted.
    let numbers = ["0", "1023", "9223372036854775806", "NULL"];
    for (worker, revision) in numbers.iter().flat_map(|worker| numbers.map(|revision| (*worker, revision))) {
        let release = format!(
            "SELECT receipt FROM snowflake_registry.server_release(NULL, '{token}', NULL, NULL, {worker}, {revision}, 0, {about})"
        );
        assert_eq!(testbed::value(&mut thief, &release), "NULL");
        let hello = format!(
            "SELECT registry_version FROM snowflake_registry.server_hello(NULL, 5, NULL, {worker}, {revision})"
        );
        assert_eq!(testbed::value(&mut thief, &hello), "1");
    }
    assert_eq!(answer_of(&registry, "SELECT concat(restored_at, recovering_until) FROM snowflake_registry.status"), "");
    assert_eq!(row_of(&registry, "(workers.*)::text", 1023), before);
}

/// With a worker of its own, while the registry recovers.
#[test]
fn the_role_of_a_server_gets_no_lease_that_the_registry_did_not_grant() {
    let registry = Registry::start();
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let (one, two) = ("11111111-1111-1111-1111-111111111111", "21111111-1111-1111-1111-111111111111");
    let about = about(60_000);
    value(
        &mut thief,
        &format!("SELECT worker_id FROM snowflake_registry.server_claim('{{}}', '{one}', 7, 0, 31, NULL, {about})"),
    );
    registry
        .connect()
        .batch_execute("UPDATE snowflake_registry.registry SET timeline = timeline - 1")
        .expect("a failover");
    for held in ["9223372036854775807", "2e12::bigint"] {
        let lease = format!("'{{{one}}}', '{two}', {held}, '', 7, 0");
        let renew = format!("SELECT granted_until FROM snowflake_registry.server_renew({lease}, {about})");
        assert_eq!(value(&mut thief, &renew), "NULL");
        let release = format!("SELECT granted_until FROM snowflake_registry.server_release({lease}, {held}, {about})");
        assert_eq!(value(&mut thief, &release), "NULL");
    }
    assert_eq!(answer_of(&registry, "SELECT granted_until < now() + '2 min' FROM snowflake_registry.workers"), "t");
}

/// A transaction that has a worker stays open.
#[test]
fn the_role_of_a_server_holds_up_no_other_server() {
    let registry = Registry::start();
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let claim = |token: &str, configured: &str| {
        let about = about(60_000);
        format!(
            "SELECT worker_id FROM snowflake_registry.server_claim('{{}}', '{token}', {configured}, 0, 1023, NULL, {about})"
        )
    };
    let pid = value(&mut thief, "SELECT pg_backend_pid()");
    let mut open = thief.transaction().expect("a transaction");
    open.batch_execute(&claim("11111111-1111-1111-1111-111111111111", "1023")).expect("a worker");
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "1022");
    let mut other = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let refused = error(&mut other, &claim("21111111-1111-1111-1111-111111111111", "1023"));
    assert_eq!(refused.message(), "worker 1023 is being leased to another server");
    // A DBA sees who it is.
    registry.wait_until(&format!("SELECT held_up_by = '{{{pid}}}' FROM snowflake_registry.status"));
    answer_of(&registry, &format!("SELECT pg_terminate_backend({pid}, 10000)"));
    registry.wait_until("SELECT held_up_by IS NULL FROM snowflake_registry.status");
}

/// A session with a role that was stolen can stay in its transaction.
#[test]
fn a_call_without_the_token_of_a_worker_holds_nobody_up() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = "11111111-1111-1111-1111-111111111111";
    let calls = [
        format!(
            "SELECT granted_until FROM snowflake_registry.server_renew('{{{token}}}', '{token}', 0, '', 1023, 0, {})",
            about(60_000)
        ),
        format!(
            "SELECT receipt FROM snowflake_registry.server_release('{{{token}}}', '{token}', 0, '', 1023, 0, 0, {})",
            about(60_000)
        ),
    ];
    thief.batch_execute("BEGIN").expect("a transaction");
    for call in &calls {
        value(&mut thief, call);
    }
    let before = row_of(&registry, "renewed_at", 1023);
    server.reload();
    registry.wait_until(&format!("SELECT renewed_at > '{before}' FROM snowflake_registry.workers"));
}

#[test]
fn a_role_that_was_stolen_cannot_add_workers_without_end_and_servers_keep_theirs() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    let fill = "INSERT INTO snowflake_registry.lease (worker_id) SELECT n FROM generate_series(2000, 101998) n";
    registry.connect().batch_execute(fill).expect("workers");
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let claim = format!(
        "SELECT worker_id FROM snowflake_registry.server_claim('{{}}', '11111111-1111-1111-1111-111111111111', NULL, 5, 6, NULL, {})",
        about(60_000)
    );
    let refused = error(&mut thief, &claim);
    assert_eq!((refused.code().code(), refused.message()), ("54000", "registry has no room for another worker"));
    let before = row_of(&registry, "renewed_at", 1023);
    server.reload();
    registry
        .wait_until(&format!("SELECT renewed_at > '{before}' FROM snowflake_registry.workers WHERE worker_id = 1023"));
    server.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
}

/// With receipts of its own, also where the registry was restored.
#[test]
fn a_receipt_proves_nothing_of_another_worker_and_nothing_that_was_given_back() {
    let registry = Registry::start();
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let about = about(3_600_000);
    let token = |nth: u32| format!("{nth:08}-0000-4000-8000-000000000000");
    let claim = |nth: u32, worker: u32| {
        format!("snowflake_registry.server_claim('{{}}', '{}', NULL, {worker}, {worker}, NULL, {about})", token(nth))
    };
    // It has worker 0 for an hour, and gives it back.
    let held = |thief: &mut Client, columns: &str| value(thief, &format!("SELECT {columns} FROM {}", claim(1, 0)));
    let [granted, receipt, revision] = ["granted_until", "receipt", "revision"].map(|column| held(&mut thief, column));
    let foreign = format!("SELECT receipt FROM {}", claim(1, 3));
    assert_eq!(error(&mut thief, &foreign).code().code(), "23505", "the token is of another worker");
    let release = format!(
        "SELECT granted_until FROM snowflake_registry.server_release('{{{}}}', '{}', {granted}, '{receipt}', 0, {revision}, 0, {about})",
        token(1),
        token(2)
    );
    assert_eq!(value(&mut thief, &release), "0");
    let server = start(member(&registry).set("snowflake_pg.layout", ONE_WORKER));
    assert_eq!(worker_of(&server), "0");
    // Nobody can make the registry believe that it was restored.
    let hello = format!(
        "SELECT registry_version FROM snowflake_registry.server_hello('{}', {granted}, '{receipt}', 0, 100000)",
        token(1)
    );
    assert_eq!(value(&mut thief, &hello), "1");
    assert_eq!(answer_of(&registry, "SELECT restored_at FROM snowflake_registry.registry"), "0");
    registry.connect().batch_execute("UPDATE snowflake_registry.registry SET timeline = 0").expect("a restore");
    for revision in [revision, "100000".to_owned()] {
        let renew = format!(
            "SELECT granted_until FROM snowflake_registry.server_renew('{{{}}}', '{}', {granted}, '{receipt}', 0,
             {revision}, {about})",
            token(1),
            token(3)
        );
        assert_eq!(value(&mut thief, &renew), "NULL", "{revision}");
    }
}

/// A claim within a minute of the end is early. After a restore, so much is allowed for.
#[test]
fn a_lease_is_not_claimed_earlier_than_a_restored_registry_reckons_with() {
    let registry = Registry::start();
    answer_of(&registry, "SELECT snowflake_registry.set_longest_lease('30s')");
    let mut client = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = |nth: u32| format!("{nth:08}-0000-4000-8000-000000000000");
    let mut claim = |presented: &str, nth: u32| {
        let about = about(3_600_000);
        let claim = format!("server_claim('{{{presented}}}', '{}', NULL, 0, 31, NULL, {about})", token(nth));
        value(&mut client, &format!("SELECT worker_id FROM snowflake_registry.{claim}"))
    };
    assert_eq!(claim("", 1), "31");
    assert_eq!(claim(&token(1), 2), "30", "it has the lease of worker 31 for thirty seconds");
}

/// The IDs of the holder before it are below that.
#[test]
fn a_release_does_not_lower_a_grant_below_where_the_lease_began() {
    let registry = Registry::start();
    let mut client = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = "11111111-0000-4000-8000-000000000000";
    answer_of(&registry, "SELECT snowflake_registry.reserve_workers(0)");
    registry
        .connect()
        .batch_execute("UPDATE snowflake_registry.lease SET granted_until = 5000, rule = 'free'")
        .expect("a lease");
    let claim = format!(
        "SELECT worker_id || ' ' || begins_at FROM snowflake_registry.server_claim('{{}}', '{token}', NULL, 0, 0, NULL, {})",
        about(60_000)
    );
    assert_eq!(value(&mut client, &claim), "0 5000");
    let release = |lowered: &str, about: &str| {
        let lease = format!("'{{{token}}}', '{token}', 6000, '', 0, 0, {lowered}, {about}");
        format!("SELECT granted_until FROM snowflake_registry.server_release({lease})")
    };
    let about = about(60_000);
    assert_eq!(value(&mut client, &release("0", &about)), "5000");
    assert_eq!(value(&mut client, &release("9e18::bigint", &about)), "5000", "nor does it raise one");
    let huge = about.replace("'issued_until', 0", "'issued_until', 9e18::bigint");
    assert_eq!(error(&mut client, &release("0", &huge)).message(), "invalid request");
    assert_eq!(answer_of(&registry, "SELECT granted_until FROM snowflake_registry.lease"), "5000");
}
