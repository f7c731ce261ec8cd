//! ALTER EXTENSION UPDATE makes what CREATE EXTENSION does, and a library works under the script of another version.
//!
//! `objects` is the public surface: every object that the extension owns, and what users and the planner may assume of
//! it. `snowflake_pg--*.sql` are the scripts of earlier versions.

mod columns;

use std::fs;
use testbed::postgres::Client;
use testbed::{Cluster, error, project, test, value};

/// Earlier versions, with their scripts.
const EARLIER: [&str; 1] = ["0.1.0"];

/// A server whose extension can be created in an earlier version, too.
fn server() -> (Cluster, Client) {
    let cluster = Cluster::builder().worker(7).start();
    for version in EARLIER {
        let name = format!("snowflake_pg--{version}.sql");
        fs::copy(project().join("tests/upgrades").join(&name), cluster.extension_scripts().join(&name))
            .expect("a script");
    }
    let client = cluster.connect();
    (cluster, client)
}

/// A line for each object of the extension: a function with its declaration, grants and symbol, a view and a type with
/// their columns, a cast with its context. With `all`, also the comments and the definitions of views, whose text
/// differs between versions of PostgreSQL.
fn objects(client: &mut Client, all: bool) -> Vec<String> {
    let query = r"
        SELECT object || coalesce(' ' || function, '') || coalesce(' ' || relation, '') || coalesce(' ' || columns, '')
               || coalesce(' ' || kind_of_cast, '')
               || CASE WHEN $1 THEN format(' -- %s -- %s', definition, comments) ELSE '' END
        FROM pg_depend d,
        LATERAL (SELECT pg_describe_object(classid, objid, objsubid) AS object) o
        LEFT JOIN LATERAL (
            SELECT format('(%s) returns %s, %s%s%s%s, parallel %s, rows %s, support %s, %s %s, for %s',
                pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
                CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
                CASE WHEN proisstrict THEN ', strict' ELSE '' END,
                CASE WHEN proleakproof THEN ', leakproof' ELSE '' END,
                CASE WHEN prosecdef THEN ', security definer' ELSE '' END,
                CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END,
                prorows, prosupport, lanname, CASE WHEN lanname IN ('sql', 'plpgsql') THEN 'body' ELSE prosrc END,
                CASE WHEN has_function_privilege('nobody', p.oid, 'EXECUTE') THEN 'everybody' ELSE 'superusers' END)
            FROM pg_proc p JOIN pg_language l ON l.oid = prolang
            WHERE p.oid = objid AND classid = 'pg_proc'::regclass) f(function) ON true
        LEFT JOIN LATERAL (
            SELECT format('of kind %s, for %s', relkind,
                CASE WHEN has_table_privilege('nobody', c.oid, 'SELECT') THEN 'everybody' ELSE 'superusers' END)
            FROM pg_class c WHERE c.oid = objid AND classid = 'pg_class'::regclass) r(relation) ON true
        LEFT JOIN LATERAL (
            SELECT format('(%s)', string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum))
            FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped AND attrelid = CASE
                WHEN classid = 'pg_class'::regclass THEN objid
                WHEN classid = 'pg_type'::regclass THEN (SELECT typrelid FROM pg_type t WHERE t.oid = objid) END
            HAVING count(*) > 0) a(columns) ON true
        LEFT JOIN LATERAL (
            SELECT format('context %s, method %s', castcontext, castmethod)
            FROM pg_cast c WHERE c.oid = objid AND classid = 'pg_cast'::regclass) c(kind_of_cast) ON true,
        LATERAL (SELECT CASE classid WHEN 'pg_class'::regclass THEN pg_get_viewdef(objid) WHEN 'pg_proc'::regclass
            THEN (SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.oid = objid AND prokind = 'f') END AS definition) v,
        LATERAL (
            SELECT string_agg(description, ' | ' ORDER BY e.objsubid) AS comments
            FROM pg_description e WHERE e.classoid = d.classid AND e.objoid = d.objid) e
        WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
          AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_pg')
          -- From PostgreSQL 17 on, the row type of a view counts, too.
          AND NOT EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
              WHERE t.oid = objid AND (c.relkind <> 'c' OR t.typelem <> 0))
        ORDER BY 1";
    // A role without any privilege of its own.
    client.batch_execute("DROP ROLE IF EXISTS nobody; CREATE ROLE nobody").expect("a role");
    client.query(query, &[&all]).expect("the catalogs").iter().map(|row| row.get(0)).collect()
}

/// A change of this list is a change of the public surface, and goes into an upgrade script.
#[test]
fn the_extension_owns_what_the_list_of_its_objects_says() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let owned = objects(&mut client, false);
    let listed: Vec<_> = include_str!("upgrades/objects").lines().collect();
    let new: Vec<_> = owned.iter().filter(|object| !listed.contains(&object.as_str())).collect();
    let gone: Vec<_> = listed.iter().filter(|object| !owned.iter().any(|owned| owned == *object)).collect();
    fs::write(project().join("target/objects"), owned.join("\n") + "\n").expect("own file");
    assert!(
        new.is_empty() && gone.is_empty(),
        "not in tests/upgrades/objects: {new:#?}\nonly there: {gone:#?}\nif that is meant: cp target/objects tests/upgrades/"
    );
    // psql's \d+ and \df+ describe everything.
    let without = objects(&mut client, true).into_iter().filter(|object| object.ends_with("-- ")).collect::<Vec<_>>();
    assert!(without.is_empty(), "without a comment: {without:#?}");
}

#[test]
fn an_upgraded_extension_owns_what_a_fresh_one_does() {
    let (_cluster, mut client) = server();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let fresh = objects(&mut client, true);
    for version in EARLIER {
        let upgrade = format!(
            "DROP EXTENSION snowflake_pg; CREATE EXTENSION snowflake_pg VERSION '{version}'; ALTER EXTENSION snowflake_pg UPDATE"
        );
        client.batch_execute(&upgrade).expect("an upgrade");
        let upgraded = objects(&mut client, true);
        for (ours, expected) in upgraded.iter().zip(&fresh) {
            assert_eq!(ours, expected, "from {version}");
        }
        assert_eq!(upgraded.len(), fresh.len(), "from {version}");
    }
}

#[test]
fn tables_and_views_survive_an_upgrade() {
    let (_cluster, mut client) = server();
    for version in EARLIER {
        client
            .batch_execute(&format!(
                "CREATE EXTENSION snowflake_pg VERSION '{version}';
                 CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), exact snowflake, n integer);
                 CREATE VIEW recent AS SELECT *, snowflake_timestamp(id) AS at FROM orders
                     WHERE snowflake_within(id, now() - interval '1 hour', 'infinity');
                 CREATE VIEW states AS SELECT state, ids_issued FROM snowflake_status;
                 INSERT INTO orders (exact, n) SELECT snowflake_nextval(), n FROM generate_series(1, 1000) n"
            ))
            .expect("an application");
        client
            .batch_execute(
                "ALTER EXTENSION snowflake_pg UPDATE;
                 INSERT INTO orders (exact, n) SELECT snowflake_id(), n FROM generate_series(1, 1000) n",
            )
            .expect("an upgrade");
        let distinct = "SELECT count(DISTINCT id) FROM (SELECT id FROM orders UNION ALL SELECT exact FROM orders) s";
        assert_eq!(value(&mut client, distinct), "4000");
        assert_eq!(value(&mut client, "SELECT count(*) FROM recent"), "2000");
        assert_eq!(value(&mut client, "SELECT state FROM states"), "ready");
        let current = value(&mut client, "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_pg'");
        assert_eq!(current, env!("CARGO_PKG_VERSION"));
        client
            .batch_execute("DROP TABLE orders CASCADE; DROP VIEW states; DROP EXTENSION snowflake_pg")
            .expect("the end");
    }
}

#[test]
fn an_upgrade_says_which_new_functions_issue_ids_where_not_everybody_may() {
    let (cluster, mut client) = server();
    let upgrade = |client: &mut Client, revoke: &str| {
        let create = "DROP SCHEMA IF EXISTS \"Ext\" CASCADE; CREATE SCHEMA \"Ext\"; \
                      CREATE EXTENSION snowflake_pg VERSION '0.1.0' SCHEMA \"Ext\"";
        client.batch_execute(&format!("{create}; {revoke}")).expect("the extension");
        let output = cluster.psql().args(["-qc", "ALTER EXTENSION snowflake_pg UPDATE"]).output().expect("psql");
        String::from_utf8(output.stderr).expect("text")
    };
    assert_eq!(upgrade(&mut client, ""), "");
    let warned = upgrade(&mut client, "REVOKE EXECUTE ON FUNCTION \"Ext\".snowflake_nextval() FROM PUBLIC");
    assert!(warned.starts_with("WARNING:  new functions that issue IDs can be executed by everybody"), "{warned}");
    let hint = warned.lines().find_map(|line| line.strip_prefix("HINT:  ")).expect("a hint");
    client.batch_execute(hint).expect("the command of the hint");
    client
        .batch_execute(
            "CREATE ROLE guest; GRANT USAGE ON SCHEMA \"Ext\" TO guest; SET search_path = \"Ext\"; SET ROLE guest",
        )
        .expect("a role");
    for call in ["snowflake_nextval(1)", "snowflake_id()", "snowflake_nextblock(2)"] {
        let refused = error(&mut client, &format!("SELECT {call}"));
        assert!(refused.message().starts_with("permission denied for function"), "{call}");
    }
}

/// Between the installation of a package and ALTER EXTENSION UPDATE.
#[test]
fn the_library_works_under_the_script_of_an_earlier_version() {
    let (_cluster, mut client) = server();
    for version in EARLIER {
        client.batch_execute(&format!("CREATE EXTENSION snowflake_pg VERSION '{version}'")).expect("every symbol");
        for (query, expected) in [
            ("SELECT count(DISTINCT id) FROM snowflake_nextvals(1000) id", "1000"),
            ("SELECT snowflake_nextval() < snowflake_nextval()", "t"),
            ("SELECT state FROM snowflake_status", "ready"),
            ("SELECT worker_id FROM snowflake_identity()", "7"),
            ("SELECT count(*) FROM snowflake_layouts", "12"),
            ("SELECT snowflake_decode(1541815603606036480)", "(\"2022-06-28 16:07:40.105+00\",11,26,0)"),
            ("SELECT snowflake_is_foreign(snowflake_nextval())", "f"),
        ] {
            client.batch_execute("SET timezone = 'UTC'").expect("a setting");
            assert_eq!(value(&mut client, query), expected, "{query} of {version}");
        }
        client.batch_execute("DROP EXTENSION snowflake_pg").expect("the end");
    }
}

/// Where the server was not restarted after the installation.
#[test]
fn an_upgrade_under_an_older_library_is_refused_and_says_to_restart() {
    let (cluster, mut client) = server();
    let name = format!("snowflake_pg--0.1.0--{}.sql", env!("CARGO_PKG_VERSION"));
    let script = fs::read_to_string(cluster.extension_scripts().join(&name)).expect("the script");
    let needs_newer = script.replace("'{0,2,0}'", "'{99,0,0}'");
    assert_ne!(script, needs_newer, "the script looks which library is loaded");
    fs::write(cluster.extension_scripts().join("snowflake_pg--0.1.0--99.0.0.sql"), needs_newer).expect("own file");
    client.batch_execute("CREATE EXTENSION snowflake_pg VERSION '0.1.0'").expect("the extension");
    let refused = error(&mut client, "ALTER EXTENSION snowflake_pg UPDATE TO '99.0.0'");
    let message =
        format!("library snowflake_pg {} is too old for version 0.2.0 of the extension", env!("CARGO_PKG_VERSION"));
    assert_eq!((refused.code().code(), refused.message()), ("55000", &*message));
    assert_eq!(refused.hint(), Some("Install the new version and restart the server first."));
    let still = value(&mut client, "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_pg'");
    assert_eq!(still, "0.1.0");
    assert_eq!(value(&mut client, "SELECT snowflake_nextval() > 0"), "t");
}
