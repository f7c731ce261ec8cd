//! The parts of the script, `sql/hosted`, as those see them who work on them.

use testbed::postgres::Client;
use testbed::{Cluster, hosted_script, sources, test, value};

/// What was made in the schema ids: each function by its text without markers of mutants, which the script lacks, and
/// each relation by its columns or its text.
fn objects(client: &mut Client) -> String {
    let objects = "SELECT string_agg(object, E'\\n' ORDER BY object) FROM (
        SELECT concat(regexp_replace(pg_get_functiondef(oid), '\\n *-- mutant: [a-z-]+', '', 'g'), proacl) FROM pg_proc WHERE pronamespace = 'ids'::regnamespace
        UNION ALL SELECT format('%s %s %s %s', oid::regclass, relkind, relacl, pg_get_viewdef(oid)) FROM pg_class WHERE relnamespace = 'ids'::regnamespace
        UNION ALL SELECT format('%s %s %s', attrelid::regclass, attname, atttypid::regtype) FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
            WHERE relnamespace = 'ids'::regnamespace
        UNION ALL SELECT format('%s %s', oid::regtype, typtype) FROM pg_type WHERE typnamespace = 'ids'::regnamespace) objects(object)";
    value(client, objects)
}

/// An editor and a linter see what users run.
#[test]
fn the_parts_run_by_themselves_and_make_what_the_script_makes() {
    let [parts, script] = [Cluster::builder().database(), Cluster::builder().database()];
    let mut psql = parts.psql();
    psql.args(["--quiet", "--single-transaction", "--file"]).arg(sources().join("sql/hosted/parts.sql"));
    let output = psql.output().expect("psql");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut client = script.connect();
    client.batch_execute("CREATE SCHEMA ids; SET search_path = ids").expect("a schema");
    client.batch_execute(&hosted_script()).expect("the script");
    client.batch_execute("RESET search_path").expect("a setting");
    let made = objects(&mut client);
    assert!(made.len() > 50_000, "{}", made.len());
    assert_eq!(objects(&mut parts.connect()), made);
}

/// A name without it would be found by `search_path`, and so might another one.
#[test]
fn nothing_of_the_parts_is_left_in_another_schema() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE SCHEMA \"Other one\"; SET search_path = \"Other one\"").expect("a schema");
    client.batch_execute(&hosted_script()).expect("the script");
    let left = "SELECT string_agg(oid::regprocedure::text, ', ') FROM pg_proc
        WHERE pronamespace = '\"Other one\"'::regnamespace AND pg_get_functiondef(oid) ~ 'ids[.]'";
    assert_eq!(value(&mut client, left), "NULL");
}
