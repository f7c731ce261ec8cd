//! The script of the registry: what it makes, and what people read and change there.

use super::fixture::{answer_of, member, row_of, start, worker_of};
use testbed::{Cluster, Installation, Registry, Signal, error, test, value};

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
    let before = answer_of(&registry, ALL);
    registry.install();
    assert_eq!(answer_of(&registry, ALL), before);
    assert_eq!(answer_of(&registry, "SELECT snowflake_registry.version()"), "1");
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
    let script = Installation::shared().script("snowflake_registry.sql");
    for _ in 0..2 {
        let mut psql = registry.psql();
        psql.args(["--dbname=theirs", "--username=the DBA", "--set=ON_ERROR_STOP=1", "--file"]).arg(&script);
        let output = psql.output().expect("psql");
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let conninfo = format!("{} dbname=theirs", registry.conninfo());
    let server = start(member(&registry).set("snowflake_pg.registry_conninfo", conninfo));
    assert_eq!(worker_of(&server), "1023");
}

#[test]
fn the_script_refuses_a_registry_of_a_newer_version_and_objects_of_another_role() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    let script = Installation::shared().script("snowflake_registry.sql");
    let run = || {
        let output = registry.psql().arg("--file").arg(&script).output().expect("psql");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    dba.batch_execute("UPDATE snowflake_registry.registry SET registry_version = 2").expect("a newer one");
    assert!(run().contains("ERROR:  registry has version 2, which is newer than this script"), "{}", run());
    dba.batch_execute(
        "DROP SCHEMA snowflake_registry CASCADE; CREATE ROLE mallory; CREATE SCHEMA snowflake_registry AUTHORIZATION mallory",
    )
    .expect("a hostile schema");
    assert!(run().contains("ERROR:  schema snowflake_registry has objects of another role"), "{}", run());
}

/// The owner of a schema may drop what is in it, and put other functions there.
#[test]
fn the_script_never_fills_a_schema_that_another_role_makes_while_it_runs() {
    let registry = Registry::on(Cluster::builder().start());
    let grant = "CREATE ROLE mallory LOGIN CREATEROLE; GRANT CREATE ON DATABASE postgres TO mallory";
    registry.connect().batch_execute(grant).expect("a role");
    let of_mallory = || registry.config().user("mallory").connect(testbed::postgres::NoTls).expect("a session");
    // The script waits for this role, which does not come.
    let mut holding = of_mallory();
    holding.batch_execute("BEGIN; CREATE ROLE snowflake_registry_server").expect("a role");
    let mut script = registry.psql();
    script.arg("--file").arg(Installation::shared().script("snowflake_registry.sql"));
    let mut script = script.spawn().expect("psql");
    let waiting = |user: &str| {
        format!(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE usename = '{user}' AND wait_event = 'transactionid')"
        )
    };
    registry.wait_until(&waiting("postgres"));
    let mut other = of_mallory();
    let other = std::thread::spawn(move || other.batch_execute("CREATE SCHEMA snowflake_registry").is_ok());
    registry.wait_until(&format!("{} OR to_regnamespace('snowflake_registry') IS NOT NULL", waiting("mallory")));
    holding.batch_execute("ROLLBACK").expect("no role");
    script.wait().expect("psql");
    other.join().expect("a thread");
    let owners = "SELECT count(DISTINCT owner) FROM (
        SELECT nspowner FROM pg_namespace WHERE nspname = 'snowflake_registry'
        UNION SELECT relowner FROM pg_class WHERE relnamespace = 'snowflake_registry'::regnamespace) AS objects (owner)";
    assert_eq!(answer_of(&registry, owners), "1");
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
    assert_eq!(worker_of(&server), "1023");
    let mut dba = registry.connect();
    dba.batch_execute("SELECT snowflake_registry.reserve_workers(9); SELECT snowflake_registry.release_worker(1023); SELECT FROM snowflake_registry.workers")
        .expect("functions");
    assert_eq!(answer_of(&registry, "SELECT pg_catalog.count(*) FROM public.trap"), "0");
    let open = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_proc WHERE pronamespace = 'snowflake_registry'::pg_catalog.regnamespace
        AND proconfig IS NULL AND prosqlbody IS NULL";
    assert_eq!(answer_of(&registry, open), "0", "functions without a search_path");
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
    assert_eq!(answer_of(&registry, granted), "pg_monitor postgres snowflake_registry_admin snowflake_registry_server");
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
    let host = row_of(&registry, "host", 1023);
    assert!(!host.is_empty());
    assert_eq!(row_of(&registry, "concat_ws(' ', state, server, port, role)", 1023), "leased shop-1 5432 fleet");
    assert_eq!(row_of(&registry, "layout", 1023), "t41 w10 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z");
    assert_eq!(
        row_of(
            &registry,
            "granted_until - renewed_at BETWEEN '59min' AND '61min' AND renewed_at - leased_at < '1s'",
            1023
        ),
        "t"
    );
    assert_eq!(row_of(&registry, "clock_offset BETWEEN '-1s' AND '1s'", 1023), "t");
    let identifier = answer_of(&server, "SELECT system_identifier FROM pg_control_system()");
    assert_eq!(row_of(&registry, "system_identifier", 1023), identifier);
    let mut dba = registry.connect();
    dba.batch_execute("CREATE ROLE watcher IN ROLE pg_monitor; SET ROLE watcher").expect("a role");
    assert_eq!(testbed::value(&mut dba, "SELECT count(*) FROM snowflake_registry.workers"), "1");
    assert_eq!(error(&mut dba, "SELECT * FROM snowflake_registry.lease").code().code(), "42501");
}

#[test]
fn functions_for_people_refuse_what_is_no_worker_no_time_and_no_length() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    let numbers = "worker must be between 0 and 2147483647";
    for (call, message) in [
        ("reserve_workers(NULL)", numbers),
        ("forbid_workers(-1)", numbers),
        ("allow_workers(99999999999)", numbers),
        ("release_worker(NULL)", numbers),
        ("release_worker(1023, NULL)", "issued_until must be a finite time"),
        ("release_worker(1023, 'infinity')", "issued_until must be a finite time"),
        ("set_longest_lease(NULL)", "longest lease must be between 5 seconds and 7 days"),
        ("set_longest_lease('7 days 1 s')", "longest lease must be between 5 seconds and 7 days"),
        ("set_longest_lease('4 s')", "longest lease must be between 5 seconds and 7 days"),
    ] {
        let refused = error(&mut dba, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!((refused.code().code(), refused.message()), ("22023", message), "{call}");
    }
    dba.batch_execute("SELECT snowflake_registry.allow_workers(7)").expect("nothing to do");
    assert_eq!(value(&mut dba, "SELECT count(*) FROM snowflake_registry.workers"), "0");
    for call in ["forbid_workers(2147483647)", "set_longest_lease('7 days')", "set_longest_lease('5 s')"] {
        dba.batch_execute(&format!("SELECT snowflake_registry.{call}")).expect("at the limit");
    }
}

#[test]
fn a_lease_cannot_end_before_the_last_ids_that_its_server_may_have_issued() {
    let registry = Registry::start();
    let mut server = start(member(&registry));
    assert_eq!(worker_of(&server), "1023");
    let mut dba = registry.connect();
    let mut detail = || {
        let refused = error(&mut dba, "SELECT snowflake_registry.release_worker(1023, now() - interval '1 day')");
        assert_eq!(refused.message(), "issued_until is before the last IDs that the server may have issued");
        refused.detail().expect("a detail").to_owned()
    };
    assert!(detail().starts_with("It has reported no IDs, and was last heard from at 2"), "{}", detail());
    answer_of(&server, "SELECT snowflake_nextval()");
    server.stop(Signal::INT);
    assert!(detail().starts_with("It has reported IDs up to 2"), "{}", detail());
}

#[test]
fn a_server_with_another_layout_than_the_others_warns_that_ids_can_be_equal() {
    let registry = Registry::start();
    let one = start(member(&registry).set("cluster_name", "one"));
    assert_eq!(worker_of(&one), "1023");
    assert!(!one.log().contains("WARNING"), "{}", one.log());
    let other = start(member(&registry).set("snowflake_pg.layout", "t41 w9 s13"));
    assert_eq!(worker_of(&other), "511");
    let log = other.log();
    assert!(log.contains("WARNING:  snowflake_pg: another server of the registry has a different layout"), "{log}");
    assert!(log.contains("DETAIL:  Worker 1023, server \"one\" on host \""), "{log}");
}
