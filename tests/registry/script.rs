//! The script of the registry: what it makes, and who may do what.

use super::fixture::{ONE_WORKER, about, known, member, shown, start, worker_of};
use testbed::postgres::Client;
use testbed::{Registry, Signal, error, test, value};

/// Everything that the registry keeps, and who may use it.
const ALL: &str = "SELECT md5(string_agg(t, chr(10) ORDER BY t)) FROM (
    SELECT r::text FROM snowflake_registry.registry r UNION ALL SELECT l::text FROM snowflake_registry.lease l
    UNION ALL SELECT format('%s %s %s', oid, prosrc, proacl) FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
    UNION ALL SELECT format('%s %s', oid, relacl) FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace) x(t)";

#[test]
fn the_script_changes_and_loses_nothing_when_it_is_run_again() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    worker_of(&server);
    server.stop(Signal::INT);
    let before = shown(&registry, ALL);
    registry.install();
    assert_eq!(shown(&registry, ALL), before);
    assert_eq!(shown(&registry, "SELECT snowflake_registry.version()"), "1");
}

#[test]
fn a_role_that_is_no_superuser_and_has_an_odd_name_installs_the_registry_again_and_again() {
    let registry = Registry::start();
    // The roles of a registry belong to who has made them.
    let anew =
        "DROP SCHEMA snowflake_registry CASCADE; DROP OWNED BY snowflake_registry_server, snowflake_registry_admin";
    let mut dba = registry.connect();
    for statement in [anew, "CREATE ROLE \"the DBA\" LOGIN CREATEROLE", "CREATE DATABASE theirs OWNER \"the DBA\""] {
        dba.batch_execute(statement).expect("a statement");
    }
    let script = testbed::sources().join("sql/snowflake_registry.sql");
    for _ in 0..2 {
        let mut psql = registry.psql();
        psql.args(["--dbname=theirs", "--username=the DBA", "--set=ON_ERROR_STOP=1", "--file"]).arg(&script);
        let output = psql.output().expect("psql");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let conninfo = format!("{} dbname=theirs", registry.conninfo());
    let server = start(member(&registry).set("snowflake_pg.registry", conninfo));
    assert_eq!(worker_of(&server), "0");
}

#[test]
fn the_script_refuses_a_registry_of_a_newer_version_and_objects_of_another_role() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    let script = testbed::sources().join("sql/snowflake_registry.sql");
    let run = || {
        let output = registry.psql().arg("--file").arg(&script).output().expect("psql");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    dba.batch_execute("UPDATE snowflake_registry.registry SET version = 2").expect("a newer one");
    assert!(run().contains("ERROR:  registry has version 2, which is newer than this script"), "{}", run());
    dba.batch_execute(
        "DROP SCHEMA snowflake_registry CASCADE; CREATE ROLE mallory; CREATE SCHEMA snowflake_registry AUTHORIZATION mallory",
    )
    .expect("a hostile schema");
    assert!(run().contains("ERROR:  schema snowflake_registry has objects of another role"), "{}", run());
}

/// Anybody can create functions and operators in a database like this.
#[test]
fn a_hostile_database_gets_no_code_run_by_the_registry() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    dba.batch_execute(
        "DROP SCHEMA snowflake_registry CASCADE;
         CREATE TABLE public.trap (what text);
         GRANT ALL ON SCHEMA public TO PUBLIC; GRANT ALL ON public.trap TO PUBLIC;
         CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql SECURITY DEFINER
             AS 'INSERT INTO public.trap VALUES (current_user); SELECT pg_catalog.clock_timestamp()';
         CREATE FUNCTION public.eq(bigint, bigint) RETURNS boolean LANGUAGE sql
             AS 'INSERT INTO public.trap VALUES (current_user); SELECT true';
         CREATE FUNCTION public.coalesce_text(text, text) RETURNS text LANGUAGE sql AS 'SELECT $1';
         CREATE OPERATOR public.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = public.eq);
         CREATE FUNCTION public.format(text, VARIADIC \"any\") RETURNS text LANGUAGE internal AS 'text_format';
         ALTER DATABASE postgres SET search_path = public, pg_catalog;",
    )
    .expect("traps");
    registry.install();
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "0");
    let mut dba = registry.connect();
    dba.batch_execute("SELECT snowflake_registry.reserve_worker(0, 9); SELECT snowflake_registry.release_worker(0, 0); SELECT FROM snowflake_registry.workers")
        .expect("functions");
    assert_eq!(shown(&registry, "SELECT pg_catalog.count(*) FROM public.trap"), "0");
    let open = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc WHERE pronamespace = 'snowflake_registry'::pg_catalog.regnamespace
        AND proconfig IS NULL AND prosqlbody IS NULL";
    assert_eq!(shown(&registry, open), "0", "functions without a search_path");
}

#[test]
fn the_role_of_a_server_can_do_nothing_with_the_worker_of_another_one() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = "11111111-1111-1111-1111-111111111111";
    let about = about(60_000);
    let before = known(&registry, "(workers.*)::text", 0);
    for forbidden in [
        "SELECT * FROM snowflake_registry.lease",
        "SELECT * FROM snowflake_registry.registry",
        "UPDATE snowflake_registry.lease SET token = NULL",
        "DELETE FROM snowflake_registry.lease",
        "SELECT nextval('snowflake_registry.revision')",
        "SELECT snowflake_registry.release_worker(0, 0)",
        "SELECT snowflake_registry.reserve_worker(0, 0)",
        "SELECT snowflake_registry.forbid_worker(0, 0)",
        "SELECT snowflake_registry.allow_worker(0, 0)",
        "SELECT snowflake_registry.set_rule(0, 0, 'forbidden', NULL)",
        "SELECT snowflake_registry.end_recovery()",
        "SELECT snowflake_registry.set_longest_lease('1d')",
        "SELECT snowflake_registry.claim_any(0, 31, NULL, 9e12::bigint)",
        "SELECT snowflake_registry.receipt_for(0, 0, gen_random_uuid(), 0, 0)",
        "SELECT snowflake_registry.check_restored(0, 0)",
        "SELECT snowflake_registry.note_origin()",
        "CREATE TABLE snowflake_registry.mine ()",
    ] {
        assert_eq!(error(&mut thief, forbidden).code().code(), "42501", "{forbidden}");
    }
    for presented in ["{}", &format!("{{{token}}}"), "{NULL}"] {
        let renewal = format!(
            "SELECT granted FROM snowflake_registry.server_renew('{presented}', '{token}', 9e12::bigint, '', 0, 0, 0, {about})"
        );
        assert_eq!(testbed::value(&mut thief, &renewal), "NULL");
        let release = format!(
            "SELECT receipt FROM snowflake_registry.server_release('{presented}', '{token}', 9e12::bigint, '', 0, 0, 0, 1, {about})"
        );
        assert_eq!(testbed::value(&mut thief, &release), "NULL");
    }
    let claim = format!("SELECT snowflake_registry.server_claim('{{{token}}}', '{token}', 0, 0, 31, NULL, {about})");
    assert_eq!(error(&mut thief, &claim).code().code(), "55000");
    // No answer proves a lease that the registry has not granted.
    let numbers = ["0", "5", "9223372036854775806", "NULL"];
    for (worker, revision) in numbers.iter().flat_map(|worker| numbers.map(|revision| (*worker, revision))) {
        let release = format!(
            "SELECT receipt FROM snowflake_registry.server_release(NULL, '{token}', NULL, NULL, {worker}, {revision}, NULL, 0, {about})"
        );
        assert_eq!(testbed::value(&mut thief, &release), "NULL");
        let hello =
            format!("SELECT version FROM snowflake_registry.server_hello(NULL, 5, NULL, {worker}, NULL, {revision})");
        assert_eq!(testbed::value(&mut thief, &hello), "1");
    }
    assert_eq!(shown(&registry, "SELECT concat(restored, recovering_until) FROM snowflake_registry.status"), "");
    assert_eq!(known(&registry, "(workers.*)::text", 0), before);
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
        &format!("SELECT worker FROM snowflake_registry.server_claim('{{}}', '{one}', 0, 7, 31, NULL, {about})"),
    );
    registry
        .connect()
        .batch_execute("UPDATE snowflake_registry.registry SET timeline = timeline - 1")
        .expect("a failover");
    for held in ["9223372036854775807", "2e12::bigint"] {
        let lease = format!("'{{{one}}}', '{two}', {held}, '', 0, 7, 0");
        let renew = format!("SELECT granted FROM snowflake_registry.server_renew({lease}, {about})");
        assert_eq!(value(&mut thief, &renew), "NULL");
        let release = format!("SELECT granted FROM snowflake_registry.server_release({lease}, {held}, {about})");
        assert_eq!(value(&mut thief, &release), "NULL");
    }
    assert_eq!(shown(&registry, "SELECT until < now() + '2 min' FROM snowflake_registry.workers"), "t");
}

/// A transaction that has a worker stays open.
#[test]
fn the_role_of_a_server_holds_up_no_other_server() {
    let registry = Registry::start();
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let claim = |token: &str, configured: &str| {
        let about = about(60_000);
        format!(
            "SELECT worker FROM snowflake_registry.server_claim('{{}}', '{token}', 0, {configured}, 31, NULL, {about})"
        )
    };
    let pid = value(&mut thief, "SELECT pg_backend_pid()");
    let mut open = thief.transaction().expect("a transaction");
    open.batch_execute(&claim("11111111-1111-1111-1111-111111111111", "0")).expect("a worker");
    let server = start(member(&registry));
    assert_eq!(worker_of(&server), "1");
    let mut other = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let refused = error(&mut other, &claim("21111111-1111-1111-1111-111111111111", "0"));
    assert_eq!(refused.message(), "worker 0 of data center 0 is being leased to another server");
    // A DBA sees who it is.
    registry.wait_until(&format!("SELECT held_up_by = '{{{pid}}}' FROM snowflake_registry.status"));
    shown(&registry, &format!("SELECT pg_terminate_backend({pid}, 10000)"));
    registry.wait_until("SELECT held_up_by IS NULL FROM snowflake_registry.status");
}

#[test]
fn default_privileges_open_no_registry() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    dba.batch_execute(
        "DROP SCHEMA snowflake_registry CASCADE; CREATE ROLE mallory LOGIN;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO mallory, PUBLIC;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO mallory WITH GRANT OPTION;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO mallory, fleet;
         ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO mallory",
    )
    .expect("privileges");
    registry.install();
    let mut mallory = registry.config().user("mallory").connect(testbed::postgres::NoTls).expect("a session");
    for forbidden in ["SELECT * FROM snowflake_registry.workers", "SELECT snowflake_registry.end_recovery()"] {
        assert_eq!(error(&mut mallory, forbidden).message(), "permission denied for schema snowflake_registry");
    }
    let granted = "SELECT string_agg(DISTINCT grantee::regrole::text, ' ' ORDER BY grantee::regrole::text) FROM (
        SELECT relacl FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace
        UNION ALL SELECT proacl FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace) AS objects (acl), aclexplode(acl)";
    assert_eq!(shown(&registry, granted), "pg_monitor postgres snowflake_registry_admin snowflake_registry_server");
    // What a DBA grants afterwards is kept.
    dba.batch_execute(
        "GRANT USAGE ON SCHEMA snowflake_registry TO mallory; GRANT SELECT ON snowflake_registry.workers TO mallory;
         GRANT EXECUTE ON FUNCTION snowflake_registry.time_of TO mallory",
    )
    .expect("privileges");
    registry.install();
    mallory.batch_execute("SELECT * FROM snowflake_registry.workers").expect("the view");
}

#[test]
fn a_dba_reads_in_one_view_who_has_which_worker_since_when_and_until_when() {
    let registry = Registry::start();
    let server = start(member(&registry).set("cluster_name", "shop-1"));
    worker_of(&server);
    let mut client = server.connect();
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    let host = known(&registry, "host", 0);
    assert!(!host.is_empty());
    assert_eq!(known(&registry, "concat_ws(' ', state, server, port, role)", 0), "leased shop-1 5432 fleet");
    assert_eq!(known(&registry, "layout", 0), "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z");
    assert_eq!(known(&registry, "until - renewed BETWEEN '59min' AND '61min' AND renewed - since < '1s'", 0), "t");
    assert_eq!(known(&registry, "clock_offset BETWEEN '-1s' AND '1s'", 0), "t");
    let identifier = shown(&server, "SELECT system_identifier FROM pg_control_system()");
    assert_eq!(known(&registry, "system_identifier", 0), identifier);
    let mut dba = registry.connect();
    dba.batch_execute("CREATE ROLE watcher IN ROLE pg_monitor; SET ROLE watcher").expect("a role");
    assert_eq!(testbed::value(&mut dba, "SELECT count(*) FROM snowflake_registry.workers"), "1");
    assert_eq!(error(&mut dba, "SELECT * FROM snowflake_registry.lease").code().code(), "42501");
}

#[test]
fn functions_for_people_refuse_what_is_no_worker_no_time_and_no_length() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    let numbers = "data center and worker must be between 0 and 2147483647";
    for (call, message) in [
        ("reserve_worker(0, NULL)", numbers),
        ("forbid_worker(-1, 0)", numbers),
        ("allow_worker(0, 99999999999)", numbers),
        ("release_worker(NULL, 0)", numbers),
        ("release_worker(0, 0, NULL)", "ids_end must be a time"),
        ("release_worker(0, 0, 'infinity')", "ids_end must be a time"),
        ("set_longest_lease(NULL)", "longest lease must be between 5 seconds and 7 days"),
    ] {
        let refused = error(&mut dba, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!((refused.code().code(), refused.message()), ("22023", message), "{call}");
    }
    dba.batch_execute("SELECT snowflake_registry.allow_worker(0, 7)").expect("nothing to do");
    assert_eq!(value(&mut dba, "SELECT count(*) FROM snowflake_registry.workers"), "0");
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
            "SELECT granted FROM snowflake_registry.server_renew('{{{token}}}', '{token}', 0, '', 0, 0, 0, {})",
            about(60_000)
        ),
        format!(
            "SELECT receipt FROM snowflake_registry.server_release('{{{token}}}', '{token}', 0, '', 0, 0, 0, 0, {})",
            about(60_000)
        ),
    ];
    thief.batch_execute("BEGIN").expect("a transaction");
    for call in &calls {
        value(&mut thief, call);
    }
    let before = known(&registry, "renewed", 0);
    server.reload();
    registry.wait_until(&format!("SELECT renewed > '{before}' FROM snowflake_registry.workers"));
}

#[test]
fn a_role_that_was_stolen_cannot_add_workers_without_end_and_servers_keep_theirs() {
    let registry = Registry::start();
    let server = start(member(&registry));
    worker_of(&server);
    let fill =
        "INSERT INTO snowflake_registry.lease (datacenter_id, worker_id) SELECT 9, n FROM generate_series(2, 100000) n";
    registry.connect().batch_execute(fill).expect("workers");
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let claim = |nth: u32, datacenter: u32| {
        let token = format!("{nth:08}-0000-4000-8000-000000000000");
        format!(
            "SELECT worker FROM snowflake_registry.server_claim('{{}}', '{token}', {datacenter}, NULL, 1, NULL, {})",
            about(60_000)
        )
    };
    let refused = error(&mut thief, &claim(1, 5));
    assert_eq!((refused.code().code(), refused.message()), ("54000", "registry has no room for another worker"));
    let before = known(&registry, "renewed", 0);
    server.reload();
    registry
        .wait_until(&format!("SELECT renewed > '{before}' FROM snowflake_registry.workers WHERE datacenter_id = 0"));
    server.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
}

#[test]
fn a_server_with_another_layout_than_the_others_warns_that_ids_can_be_equal() {
    let registry = Registry::start();
    let one = start(member(&registry).set("cluster_name", "one"));
    assert_eq!(worker_of(&one), "0");
    assert!(!one.log().contains("WARNING"), "{}", one.log());
    let other = start(member(&registry).set("snowflake_pg.layout", "t41 w10 s12"));
    assert_eq!(worker_of(&other), "1");
    let log = other.log();
    assert!(log.contains("WARNING:  snowflake_pg: another server of the registry has another layout"), "{log}");
    assert!(log.contains("DETAIL:  Worker 0 of data center 0, server \"one\" on host \""), "{log}");
}

/// With receipts of its own, also where the registry was restored.
#[test]
fn a_receipt_proves_nothing_of_another_worker_and_nothing_that_was_given_back() {
    let registry = Registry::start();
    let mut thief = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let about = about(3_600_000);
    let token = |nth: u32| format!("{nth:08}-0000-4000-8000-000000000000");
    let claim = |nth: u32, datacenter: u32| {
        format!("snowflake_registry.server_claim('{{}}', '{}', {datacenter}, NULL, 0, NULL, {about})", token(nth))
    };
    // It has worker 0 of data center 0 for an hour, and gives it back.
    let held = |thief: &mut Client, columns: &str| value(thief, &format!("SELECT {columns} FROM {}", claim(1, 0)));
    let [granted, receipt, revision] = ["granted", "receipt", "at_revision"].map(|column| held(&mut thief, column));
    let foreign = format!("SELECT receipt FROM {}", claim(1, 3));
    assert_eq!(error(&mut thief, &foreign).code().code(), "23505", "the token is of another data center");
    let release = format!(
        "SELECT granted FROM snowflake_registry.server_release('{{{}}}', '{}', {granted}, '{receipt}', 0, 0, {revision}, 0, {about})",
        token(1),
        token(2)
    );
    assert_eq!(value(&mut thief, &release), "0");
    let server = start(member(&registry).set("snowflake_pg.layout", ONE_WORKER));
    assert_eq!(worker_of(&server), "0");
    // Nobody can make the registry believe that it was restored.
    let hello = format!(
        "SELECT version FROM snowflake_registry.server_hello('{}', {granted}, '{receipt}', 0, 0, 100000)",
        token(1)
    );
    assert_eq!(value(&mut thief, &hello), "1");
    assert_eq!(shown(&registry, "SELECT restored_at FROM snowflake_registry.registry"), "0");
    registry.connect().batch_execute("UPDATE snowflake_registry.registry SET timeline = 0").expect("a restore");
    for revision in [revision, "100000".to_owned()] {
        let renew = format!(
            "SELECT granted FROM snowflake_registry.server_renew('{{{}}}', '{}', {granted}, '{receipt}', 0, 0,
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
    shown(&registry, "SELECT snowflake_registry.set_longest_lease('30s')");
    let mut client = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = |nth: u32| format!("{nth:08}-0000-4000-8000-000000000000");
    let mut claim = |presented: &str, nth: u32| {
        let about = about(3_600_000);
        let claim = format!("server_claim('{{{presented}}}', '{}', 0, NULL, 31, NULL, {about})", token(nth));
        value(&mut client, &format!("SELECT worker FROM snowflake_registry.{claim}"))
    };
    assert_eq!(claim("", 1), "0");
    assert_eq!(claim(&token(1), 2), "1", "it has the lease of worker 0 for thirty seconds");
}

/// The IDs of the holder before it are below that.
#[test]
fn a_release_does_not_lower_a_grant_below_where_the_lease_began() {
    let registry = Registry::start();
    let mut client = registry.config().user("fleet").connect(testbed::postgres::NoTls).expect("a session");
    let token = "11111111-0000-4000-8000-000000000000";
    shown(&registry, "SELECT snowflake_registry.reserve_worker(0, 0)");
    registry
        .connect()
        .batch_execute("UPDATE snowflake_registry.lease SET granted_until = 5000, rule = 'free'")
        .expect("a lease");
    let claim = format!(
        "SELECT worker || ' ' || begins FROM snowflake_registry.server_claim('{{}}', '{token}', 0, NULL, 0, NULL, {})",
        about(60_000)
    );
    assert_eq!(value(&mut client, &claim), "0 5000");
    let release = |lowered: &str, about: &str| {
        let lease = format!("'{{{token}}}', '{token}', 6000, '', 0, 0, 0, {lowered}, {about}");
        format!("SELECT granted FROM snowflake_registry.server_release({lease})")
    };
    let about = about(60_000);
    assert_eq!(value(&mut client, &release("0", &about)), "5000");
    assert_eq!(value(&mut client, &release("9e18::bigint", &about)), "5000", "nor does it raise one");
    let huge = about.replace("'issued', 0", "'issued', 9e18::bigint");
    assert_eq!(error(&mut client, &release("0", &huge)).message(), "invalid request");
    assert_eq!(shown(&registry, "SELECT granted_until FROM snowflake_registry.lease"), "5000");
}
