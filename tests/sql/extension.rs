//! What the extensions own, and what a library does under the script of another version.

mod columns;
mod ids;
mod next;
mod released;
mod surface;

use std::fs;
use testbed::postgres::Client;
use testbed::{Cluster, error, test, value};

/// A line for each object of the extensions and each column, and whether it has a comment: a function with its
/// declaration, grants and symbol, a cast with its context.
fn objects(client: &mut Client) -> Vec<(String, bool)> {
    let grants = |acl: &str, owner: &str, kind: char| {
        format!(
            "(SELECT coalesce(string_agg(DISTINCT CASE grantee WHEN 0 THEN 'everybody' ELSE grantee::regrole::text END, ' '), 'superusers')
              FROM aclexplode(coalesce({acl}, acldefault('{kind}', {owner}))) WHERE grantee <> {owner})"
        )
    };
    let query = format!(
        r"
        WITH objects AS (
            SELECT d.*, pg_describe_object(classid, objid, objsubid) AS object FROM pg_depend d
            WHERE deptype = 'e' AND refclassid = 'pg_extension'::regclass
              AND refobjid IN (SELECT oid FROM pg_extension WHERE extname LIKE 'snowflake%')
              -- From PostgreSQL 17 on, the row type of a view counts, too.
              AND NOT EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
                  WHERE t.oid = objid AND (c.relkind <> 'c' OR t.typelem <> 0)))
        SELECT object || coalesce(' ' || function, '') || coalesce(' ' || relation, '') || coalesce(' ' || kind_of_cast, '') || coalesce(' ' || kind_of_type, ''),
            EXISTS (SELECT FROM pg_description e WHERE e.classoid = d.classid AND e.objoid = objid AND e.objsubid = 0)
        FROM objects d
        LEFT JOIN LATERAL (
            SELECT format('(%s) returns %s, %s%s%s%s, parallel %s, rows %s, support %s, %s %s, for %s',
                pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
                CASE provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
                CASE WHEN proisstrict THEN ', strict' ELSE '' END,
                CASE WHEN proleakproof THEN ', leakproof' ELSE '' END,
                CASE WHEN prosecdef THEN ', security definer' ELSE '' END,
                CASE proparallel WHEN 's' THEN 'safe' WHEN 'r' THEN 'restricted' ELSE 'unsafe' END,
                prorows, prosupport, lanname, CASE WHEN lanname IN ('sql', 'plpgsql') THEN 'body' ELSE prosrc END, {function})
            FROM pg_proc p JOIN pg_language l ON l.oid = prolang
            WHERE p.oid = objid AND classid = 'pg_proc'::regclass) f(function) ON true
        LEFT JOIN LATERAL (
            SELECT format('of kind %s, for %s', relkind, {relation})
            FROM pg_class c WHERE c.oid = objid AND classid = 'pg_class'::regclass) r(relation) ON true
        LEFT JOIN LATERAL (
            SELECT format('context %s, method %s', castcontext, castmethod)
            FROM pg_cast c WHERE c.oid = objid AND classid = 'pg_cast'::regclass) c(kind_of_cast) ON true
        LEFT JOIN LATERAL (
            SELECT format('of %s bytes, by value %s, alignment %s, category %s', typlen, typbyval, typalign, typcategory)
            FROM pg_type t WHERE t.oid = objid AND classid = 'pg_type'::regclass AND typtype = 'b') t(kind_of_type) ON true
        UNION ALL
        SELECT format('column %s of %s %s, number %s', attname, object, format_type(atttypid, atttypmod),
            row_number() OVER (PARTITION BY attrelid ORDER BY attnum)), true
        FROM objects d JOIN pg_attribute ON attnum > 0 AND NOT attisdropped AND attrelid = CASE
            WHEN classid = 'pg_class'::regclass THEN objid
            WHEN classid = 'pg_type'::regclass THEN (SELECT typrelid FROM pg_type t WHERE t.oid = objid) END
        ORDER BY 1",
        function = grants("proacl", "proowner", 'f'),
        relation = grants("relacl", "relowner", 'r'),
    );
    client.query(&query, &[]).expect("the catalogs").iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// A script without the statement that begins like this.
fn without_statement(script: &str, begin: &str) -> String {
    let (before, statement) = script.split_once(&format!("\n{begin}")).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = statement.split_once(";\n").expect("an end");
    format!("{before}\n{after}")
}

/// Between the installation of a package and ALTER EXTENSION UPDATE.
#[test]
fn a_library_works_under_an_older_script_that_lacks_a_function_and_a_column() {
    let cluster = Cluster::builder().worker(7).set("timezone", "UTC").start();
    let scripts = cluster.extension_scripts();
    let present = format!("snowflake_pg--{}.sql", env!("CARGO_PKG_VERSION"));
    let mut older = fs::read_to_string(scripts.join(present)).expect("the script");
    for begin in [
        "CREATE FUNCTION snowflake_explain(id bigint, layout text)",
        "COMMENT ON FUNCTION snowflake_explain(bigint, text)",
        "COMMENT ON COLUMN snowflake_status.registry_error",
    ] {
        older = without_statement(&older, begin);
    }
    assert_eq!(older.matches("registry_error text,").count(), 1, "in the declaration of the view");
    older = older.replace("registry_error text,", "");
    fs::write(scripts.join("snowflake_pg--0.0.1.sql"), older).expect("own file");

    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg VERSION '0.0.1'").expect("every symbol");
    client
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), exact snowflake, n integer);
             INSERT INTO orders (exact, n) SELECT snowflake_id(), n FROM generate_series(1, 1000) n",
        )
        .expect("an application");
    for (missing, sqlstate) in [
        ("SELECT snowflake_explain(id, 'twitter') FROM orders", "42883"),
        ("SELECT registry_error FROM snowflake_status", "42703"),
    ] {
        assert_eq!(error(&mut client, missing).code().code(), sqlstate, "{missing}");
    }
    for (query, expected) in [
        ("SELECT count(*) FROM orders WHERE snowflake_within(id, now() - interval '1 hour', 'infinity')", "1000"),
        ("SELECT count(*) FROM orders WHERE snowflake_explain(id) IS NOT NULL", "1000"),
        ("SELECT count(DISTINCT id) FROM snowflake_nextvals(1000) id", "1000"),
        ("SELECT snowflake_nextval() < snowflake_nextval()", "t"),
        ("SELECT snowflake_issued_elsewhere(snowflake_nextval())", "f"),
        ("SELECT snowflake_decode(1541815603606036480)", "(\"2022-06-28 16:07:40.105+00\",,378,0,)"),
        ("SELECT worker_id FROM snowflake_identity()", "7"),
        ("SELECT count(*) FROM snowflake_layouts", "17"),
        ("SELECT (state, worker_id, clock_offset, ids_issued, refusals) FROM snowflake_status", "(ready,7,,3003,0)"),
        ("SELECT stats_reset_at < now() AND problem IS NULL AND mark_left > '0' FROM snowflake_status", "t"),
        ("SELECT extension_version FROM snowflake_status", "0.0.1"),
        ("SELECT (can_issue, worker_id, ids_issued_total, versions_differ) FROM snowflake_metrics", "(1,7,3003,1)"),
    ] {
        assert_eq!(value(&mut client, query), expected, "{query}");
    }
}

/// So that nobody has to update each database for a correction of the library.
#[test]
fn the_versions_of_the_library_and_the_script_differ_by_their_first_two_numbers() {
    let cluster = Cluster::builder().worker(7).start();
    let scripts = cluster.extension_scripts();
    let version = env!("CARGO_PKG_VERSION");
    let corrected = format!("{}.99", version.rsplit_once('.').expect("three numbers").0);
    let mut client = cluster.connect();
    for (other, differs) in [(corrected.as_str(), "0"), ("0.0.2", "1"), (version, "0")] {
        if other != version {
            let [present, other] = [version, other].map(|of| scripts.join(format!("snowflake_pg--{of}.sql")));
            fs::copy(present, other).expect("own file");
        }
        client.batch_execute(&format!("CREATE EXTENSION snowflake_pg VERSION '{other}'")).expect("the extension");
        assert_eq!(value(&mut client, "SELECT versions_differ FROM snowflake_metrics"), differs, "{other}");
        client.batch_execute("DROP EXTENSION snowflake_pg").expect("no extension");
    }
}
