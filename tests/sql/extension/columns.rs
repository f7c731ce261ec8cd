//! The columns of rows have names, by which the library fills them: all that its script declares, and those that the
//! script of another version does, as between the installation of a package and ALTER EXTENSION UPDATE.

use testbed::postgres::Client;
use testbed::{Cluster, Database, error, has_extension, test, value};

const STATUS: &str = "snowflake_get_status";
const DECODE: &str = "snowflake_decode";
const LAYOUTS: &str = "snowflake_get_layouts";
const PARTITIONS: &str = "snowflake_create_partitions";

/// A database with an ID.
fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).set("timezone", "UTC").database();
    let mut client = database.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval();
             CREATE TABLE events (id bigint) PARTITION BY RANGE (id)",
        )
        .expect("the extension");
    (database, client)
}

/// Declares a function of the library as the script of another version would, by the name `other`.
fn declare(client: &mut Client, function: &str, declaration: &str) {
    let declare = format!(
        "DROP ROUTINE IF EXISTS other;
         CREATE FUNCTION other{declaration} LANGUAGE c STRICT AS '$libdir/snowflake_pg', '{function}_wrapper'"
    );
    client.batch_execute(&declare).expect("a function");
}

/// Each function of the library that returns rows, with the types of its arguments, whether it returns a set, and its
/// columns: from its OUT parameters, its type, or the view that declares them, as pg_upgrade writes it.
const FUNCTIONS: &str = r"
    SELECT prosrc, oidvectortypes(proargtypes), proretset, CASE
        WHEN proargmodes IS NOT NULL THEN (SELECT string_agg(format('%I %s', name, format_type(type, NULL)), ', ')
            FROM unnest(proargnames, proallargtypes, proargmodes) AS a(name, type, mode) WHERE mode = 'o')
        WHEN typtype = 'c' THEN (SELECT string_agg(format('%I %s', attname, format_type(atttypid, NULL)), ', ')
            FROM pg_attribute WHERE attrelid = typrelid AND attnum > 0)
        ELSE (SELECT substring(definition FROM proname || '\(\) \w+\(([^)]*)\)') FROM pg_views
            WHERE definition LIKE '%' || proname || '()%') END
    FROM pg_proc p JOIN pg_type r ON r.oid = prorettype JOIN pg_language l ON l.oid = prolang
    WHERE proname LIKE 'snowflake%' AND lanname = 'c' AND (typname = 'record' OR typtype = 'c')";

/// An argument of a type, by which each function returns a row.
fn argument(of: &str) -> &'static str {
    match of {
        "bigint" | "integer" => "1",
        "text" => "'twitter'",
        "text[]" => "'{host=/nowhere}'",
        "boolean" => "true",
        "regclass" => "'events'",
        "interval" => "'1 day'",
        "timestamp with time zone" => "now()",
        _ => panic!("no argument of type {of}"),
    }
}

/// A column that the library does not fill has no type there, and is NULL without an error.
#[test]
fn the_library_fills_each_column_that_its_script_declares() {
    let (database, mut client) = database();
    client.batch_execute("CREATE TABLE old PARTITION OF events FOR VALUES FROM (0) TO (1)").expect("an old partition");
    let mut writer = database.connect();
    writer.batch_execute("BEGIN; SELECT snowflake_nextval()").expect("a transaction with an ID");
    let functions = client.query(FUNCTIONS, &[]).expect("the catalogs");
    assert!(functions.len() > 10, "{}", functions.len());
    for function in functions {
        let (symbol, types): (String, String) = (function.get(0), function.get(1));
        let set = if function.get(2) { "SETOF " } else { "" };
        let columns: String = function.get::<_, Option<_>>(3).unwrap_or_else(|| panic!("{symbol} has no columns"));
        let name = symbol.strip_suffix("_wrapper").expect("a name of pgrx");
        declare(&mut client, name, &format!("({types}) RETURNS {set}record"));
        let arguments: Vec<_> = types.split(", ").filter(|of| !of.is_empty()).map(argument).collect();
        let call = |columns: &str| format!("SELECT count(*) FROM other({}) AS t({columns})", arguments.join(", "));
        for column in columns.split(", ") {
            let label = column.split(' ').next().expect("a name");
            let refused = client.simple_query(&call(&format!("{label} point"))).err();
            let refused = refused.unwrap_or_else(|| panic!("{name} does not fill {label}"));
            let detail = refused.as_db_error().and_then(|error| error.detail()).unwrap_or_default();
            let expected = format!("for column \"{}\", but query expects point.", label.trim_matches('"'));
            assert!(detail.ends_with(&expected), "{name}: {refused:?}");
        }
        client.batch_execute("BEGIN").expect("a transaction");
        assert_ne!(value(&mut client, &call(&columns)), "0", "{name} returns no row");
        client.batch_execute("ROLLBACK").expect("the end");
    }
}

#[test]
fn a_script_gets_the_columns_that_it_declares_in_its_order() {
    let (_database, mut client) = database();
    declare(&mut client, STATUS, "(OUT state text, OUT worker_id integer)");
    assert_eq!(value(&mut client, "SELECT other()"), "(ready,7)");
    assert_eq!(value(&mut client, "SELECT other FROM other()"), "(ready,7)");
    declare(&mut client, STATUS, "(OUT worker_id_source text, OUT state text)");
    assert_eq!(value(&mut client, "SELECT other FROM other()"), "(configuration,ready)");
    declare(&mut client, DECODE, "(id bigint, OUT worker_id integer, OUT issued_at timestamptz)");
    assert_eq!(value(&mut client, "SELECT other(1541815603606036480)"), "(378,\"2022-06-28 16:07:40.105+00\")");
    declare(&mut client, LAYOUTS, "(OUT name text, OUT fields text) RETURNS SETOF record");
    assert_eq!(value(&mut client, "SELECT other FROM other() WHERE name = 'flat'"), "(flat,\"t41 w10 s12\")");
    assert_eq!(value(&mut client, "SELECT max((row).fields) FROM (SELECT other() AS row) s"), "t48 s16");
    declare(
        &mut client,
        PARTITIONS,
        "(regclass, interval, integer, text, OUT partition regclass, OUT begins_at timestamptz) RETURNS SETOF record",
    );
    let made = "SELECT other FROM other('events', '1000 years', 0, 'twitter')";
    assert_eq!(value(&mut client, made), "(events_20101104_014254,\"2010-11-04 01:42:54.657+00\")");
}

#[test]
fn columns_that_the_library_does_not_know_are_null() {
    let (_database, mut client) = database();
    let decode =
        "(id bigint, OUT more text, OUT issued_at timestamptz, OUT datacenter_id integer, OUT \"Worker_id\" integer,
        OUT worker_id integer, OUT sequence integer, OUT yet_more integer)";
    declare(&mut client, DECODE, decode);
    let decoded = "(,\"2022-06-28 16:07:40.105+00\",,,378,0,)";
    assert_eq!(value(&mut client, "SELECT other(1541815603606036480)"), decoded);
    let layouts = "(OUT name text, OUT fields text, OUT unit interval, OUT epoch timestamptz, OUT usable_until timestamptz,
        OUT years double precision, OUT workers bigint, OUT max_ids_per_second bigint, OUT can_issue boolean, OUT source text,
        OUT more text, OUT yet_more integer) RETURNS SETOF record";
    declare(&mut client, LAYOUTS, layouts);
    let null = "SELECT count(*) FILTER (WHERE source <> '' AND more IS NULL AND yet_more IS NULL) FROM other()";
    assert_eq!(value(&mut client, null), "17");
    let partitions =
        "(regclass, interval, integer, text, OUT partition regclass, OUT begins_at timestamptz, OUT ends_at timestamptz,
        OUT more text, OUT yet_more integer) RETURNS SETOF record";
    declare(&mut client, PARTITIONS, partitions);
    let made = "SELECT format('%s %s', ends_at, more IS NULL AND yet_more IS NULL) FROM other('events', '1000 years', 0, 'twitter')";
    assert_eq!(value(&mut client, made), "2080-07-10 17:30:30.209+00 t");
}

#[test]
fn a_column_of_another_type_is_refused() {
    let (_database, mut client) = database();
    for (function, declaration, call, detail) in [
        (
            STATUS,
            "(OUT state text, OUT worker_id text)",
            "other()",
            "Returned type integer for column \"worker_id\", but query expects text.",
        ),
        (
            LAYOUTS,
            "(OUT name text, OUT fields bigint) RETURNS SETOF record",
            "other()",
            "Returned type text for column \"fields\", but query expects bigint.",
        ),
    ] {
        declare(&mut client, function, declaration);
        for query in [format!("SELECT {call}"), format!("SELECT * FROM {call}")] {
            let refused = error(&mut client, &query);
            let message = "function return row and query-specified return row do not match";
            assert_eq!((refused.code().code(), refused.message()), ("42804", message), "{query}");
            assert_eq!(refused.detail(), Some(detail));
        }
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

/// Where nothing says what the columns are, as with a function that returns `record`, and is not called in FROM.
#[test]
fn a_row_of_unknown_columns_is_refused() {
    let (_database, mut client) = database();
    for (function, declaration) in [
        (STATUS, "() RETURNS record"),
        (STATUS, "(OUT state text)"),
        (LAYOUTS, "() RETURNS SETOF record"),
        (LAYOUTS, "() RETURNS SETOF text"),
    ] {
        declare(&mut client, function, declaration);
        let refused = error(&mut client, "SELECT other()");
        let message = "function returning record called in context that cannot accept type record";
        assert_eq!((refused.code().code(), refused.message()), ("0A000", message), "{function}{declaration}");
    }
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

/// `_at` is when something happens, and `_until` a bound. What is a time itself has its own name, and PostgreSQL's
/// columns have theirs. A system identifier is what pg_control_system() says. Of the registry's functions, those that
/// servers and administrators call, by these names.
const MISNAMED: &str = "
    WITH columns(of, name, type, is_argument, class, object) AS (
        SELECT c.oid::regclass::text, attname::text, atttypid, false, 'pg_class'::regclass, c.oid
        FROM pg_class c JOIN pg_attribute ON attrelid = c.oid WHERE relkind IN ('v', 'c') AND attnum > 0
        UNION ALL
        SELECT p.oid::regprocedure::text, a.name, a.type, a.mode IS NULL OR a.mode = 'i', 'pg_proc'::regclass, p.oid
        FROM pg_proc p, unnest(coalesce(proallargtypes, proargtypes::oid[]), proargnames, proargmodes) AS a (type, name, mode)
        WHERE pronamespace <> 'snowflake_registry'::regnamespace
            OR has_function_privilege('snowflake_registry_server', p.oid, 'EXECUTE')
            OR has_function_privilege('snowflake_registry_admin', p.oid, 'EXECUTE'))
    SELECT format('%s.%s', of, name) FROM columns
    WHERE (type = 'timestamptz'::regtype AND name !~ '_(at|until)$' AND name NOT IN ('epoch', 'clock', 'durable_mark', 'xact_start')
                AND NOT (is_argument AND name IN ('at', 'since', 'until', 'floor'))
            OR name IN ('version', 'begins', 'granted', 'issued') OR name ~ '(^|_)(worker|datacenter)$'
            OR name = 'system_identifier' AND type <> 'bigint'::regtype)
        AND (EXISTS (SELECT FROM pg_depend WHERE classid = class AND objid = object AND deptype = 'e')
            OR EXISTS (SELECT FROM pg_type t JOIN pg_depend ON classid = 'pg_type'::regclass AND objid = t.oid AND deptype = 'e'
                       WHERE typrelid = object AND class = 'pg_class'::regclass))
    ORDER BY 1";

#[test]
fn names_of_times_workers_and_versions_say_what_they_are_and_a_system_identifier_is_a_bigint() {
    let (_database, mut client) = database();
    client.batch_execute("CREATE EXTENSION snowflake_adopt; CREATE EXTENSION snowflake_registry").expect("the others");
    let misnamed: Vec<String> = client.query(MISNAMED, &[]).expect("columns").iter().map(|row| row.get(0)).collect();
    assert!(misnamed.is_empty(), "{misnamed:#?}");
}

/// An expression that PostgreSQL keeps with the row type of a table would forbid it.
#[test]
fn a_later_version_can_add_a_column_to_each_table_and_row_type_of_the_extensions() {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    let create = "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; CREATE EXTENSION snowflake_registry";
    client.batch_execute(create).expect("the extensions");
    if has_extension("dblink") {
        client.batch_execute("CREATE EXTENSION snowflake_feed CASCADE").expect("the extensions");
    }
    let query = "SELECT DISTINCT format(CASE c.relkind WHEN 'c' THEN 'ALTER TYPE %s ADD ATTRIBUTE later integer'
                ELSE 'ALTER TABLE %s ADD COLUMN later integer NOT NULL DEFAULT 1' END, c.oid::regclass)
        FROM pg_class c JOIN pg_depend d ON d.deptype = 'e' AND (d.classid, d.objid) IN
            (('pg_class'::regclass, c.oid), ('pg_type'::regclass, c.reltype))
        JOIN pg_extension e ON e.oid = d.refobjid AND extname LIKE 'snowflake%' WHERE c.relkind IN ('r', 'c') ORDER BY 1";
    let commands: Vec<String> = client.query(query, &[]).expect("the catalogs").iter().map(|row| row.get(0)).collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in &commands {
        client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
}
