//! The registry as an extension, which has the same statements as the script.

use super::fixture::{answer_of, member, start, wait_for_renewal, worker_of};
use std::fs;
use std::process::Command;
use testbed::{Cluster, Installation, Registry, Signal, error, test};

/// What the extension owns.
const OWNED: &str = "SELECT string_agg(o, ' ' ORDER BY o COLLATE \"C\") FROM (
    SELECT pg_describe_object(classid, objid, 0) AS o FROM pg_depend d JOIN pg_extension e ON d.refobjid = e.oid
    WHERE refclassid = 'pg_extension'::regclass AND deptype = 'e' AND extname = 'snowflake_registry') AS owned";

/// What the registry keeps.
const KEPT: &str = "SELECT string_agg(t, ' ' ORDER BY t) FROM (
    SELECT r::text FROM snowflake_registry.registry r UNION ALL SELECT l::text FROM snowflake_registry.lease l) AS kept (t)";

const ROLES: &str = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'snowflake_registry_%'";

/// Has a new server lease this worker, and stop.
fn lease(registry: &Registry, worker: &str) {
    let mut server = start(member(registry));
    assert_eq!(worker_of(&server), worker);
    server.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    server.stop(Signal::INT);
}

#[test]
fn the_extension_leases_workers_keeps_them_in_an_upgrade_and_takes_all_but_its_roles_along() {
    let registry = Registry::as_extension();
    lease(&registry, "1023");
    let scripts = registry.extension_scripts();
    let script = |versions: &str| scripts.join(format!("snowflake_registry--{versions}.sql"));
    let version = env!("CARGO_PKG_VERSION");
    // The statements upgrade whatever is there.
    let next = script(&format!("{version}--next"));
    fs::copy(script(version), &next).expect("a script");
    let before = [OWNED, KEPT].map(|question| answer_of(&registry, question));
    let mut dba = registry.connect();
    dba.batch_execute("ALTER EXTENSION snowflake_registry UPDATE TO 'next'").expect("an upgrade");
    assert_eq!([OWNED, KEPT].map(|question| answer_of(&registry, question)), before);
    fs::remove_file(next).expect("own file");
    lease(&registry, "1022");
    dba.batch_execute("DROP EXTENSION snowflake_registry").expect("no longer");
    assert_eq!(answer_of(&registry, "SELECT to_regnamespace('snowflake_registry') IS NULL"), "t");
    assert_eq!(answer_of(&registry, ROLES), "2");
}

#[test]
fn a_role_that_is_no_superuser_creates_the_registry_as_an_extension_of_its_database() {
    let registry = Registry::on(Cluster::builder().start());
    let mut dba = registry.connect();
    for statement in ["CREATE ROLE dba LOGIN CREATEROLE", "CREATE DATABASE theirs OWNER dba"] {
        dba.batch_execute(statement).expect("a statement");
    }
    let mut theirs =
        registry.config().user("dba").dbname("theirs").connect(testbed::postgres::NoTls).expect("a session");
    theirs.batch_execute("CREATE EXTENSION snowflake_registry").expect("the extension");
    dba.batch_execute("CREATE ROLE fleet LOGIN IN ROLE snowflake_registry_server").expect("a role");
    let conninfo = format!("{} dbname=theirs", registry.conninfo());
    let server = start(member(&registry).set("snowflake_pg.registry_conninfo", conninfo));
    assert_eq!(worker_of(&server), "1023");
}

#[test]
fn the_extension_takes_over_what_the_script_has_made_with_its_leases_and_the_script_then_refuses() {
    let registry = Registry::start();
    lease(&registry, "1023");
    let kept = answer_of(&registry, KEPT);
    // Not the extension's: a dump would leave its rows out.
    registry.connect().batch_execute("CREATE TABLE snowflake_registry.notes ()").expect("a DBA's table");
    registry.connect().batch_execute("CREATE EXTENSION snowflake_registry").expect("the extension");
    assert_eq!(answer_of(&registry, KEPT), kept);
    assert_eq!(answer_of(&registry, OWNED), answer_of(&Registry::as_extension(), OWNED));
    lease(&registry, "1022");
    let script = Installation::shared().script("snowflake_registry.sql");
    let output = registry.psql().arg("--file").arg(script).output().expect("psql");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ERROR:  this database has the registry as an extension"), "{said}");
    assert!(said.contains("HINT:  To upgrade it, run ALTER EXTENSION snowflake_registry UPDATE."), "{said}");
}

/// A server that asks in the middle of a restore would get a worker that the dump has leased to another one.
#[test]
fn a_registry_whose_rows_are_not_restored_yet_leases_no_worker() {
    let registry = Registry::as_extension();
    let mut dump = Command::new(registry.bindir().join("pg_dump"));
    dump.envs(registry.environment());
    let old = start(member(&registry));
    assert_eq!(worker_of(&old), "1023");
    let whole = dump.output().expect("pg_dump").stdout;
    let without_rows = dump.arg("--schema-only").output().expect("pg_dump").stdout;
    let restore = |name: &str, dump: &[u8]| {
        let file = registry.make_directory(name).join("dump.sql");
        fs::write(&file, dump).expect("a dump");
        let mut psql = registry.psql();
        psql.args(["--set=ON_ERROR_STOP=1", "--command=DROP EXTENSION snowflake_registry", "--file"]).arg(&file);
        assert!(psql.output().expect("psql").status.success());
    };
    restore("tables", &without_rows);
    let refused = error(&mut start(member(&registry)).connect(), "SELECT snowflake_nextval()");
    let detail = "Registry: Registry has no rows. A restore has made its tables, and has not brought their rows.";
    assert_eq!(refused.detail(), Some(detail));
    restore("rows", &whole);
    old.reload();
    wait_for_renewal(&registry, "1023");
}
