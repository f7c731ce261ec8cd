//! Calls of all functions of the extension, by the exact types of the catalog, so that none needs a list.

use testbed::postgres::Client;

/// A function, by which a test calls it.
pub struct Function {
    pub name: String,
    /// The name and the type of each argument.
    pub arguments: Vec<(String, String)>,
    /// The text of its default, or nothing, for each argument.
    pub defaults: Vec<String>,
    pub is_for_everybody: bool,
    /// Not for people, but for views, operators or other functions.
    pub is_hidden: bool,
}

/// All functions of the extension but those that only PostgreSQL itself can call.
pub fn functions(client: &mut Client) -> Vec<Function> {
    let query = "SELECT proname::text, coalesce(proargnames[:pronargs], '{}'),
            ARRAY(SELECT format_type(type, NULL) FROM unnest(proargtypes) WITH ORDINALITY a (type, n) ORDER BY n),
            ARRAY(SELECT coalesce(pg_get_function_arg_default(p.oid, n), '') FROM generate_series(1, pronargs) n ORDER BY n),
            EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0),
            coalesce(obj_description(p.oid, 'pg_proc'), '') ~ '^(not to be called|I/O)'
        FROM pg_proc p JOIN pg_depend d ON (d.classid, d.objid, deptype) = ('pg_proc'::regclass, p.oid, 'e')
        JOIN pg_extension e ON e.oid = d.refobjid AND extname = 'snowflake_pg'
        WHERE prokind = 'f' AND prorettype <> 'trigger'::regtype
            AND NOT ARRAY['internal', 'cstring']::regtype[]::oid[] && proargtypes::oid[]
        ORDER BY p.oid::regprocedure::text";
    let rows = client.query(query, &[]).expect("functions");
    let functions = rows.iter().map(|row| Function {
        name: row.get(0),
        arguments: row
            .get::<_, Vec<String>>(1)
            .into_iter()
            .chain(std::iter::repeat(String::new()))
            .zip(row.get::<_, Vec<String>>(2))
            .collect(),
        defaults: row.get(3),
        is_for_everybody: row.get(4),
        is_hidden: row.get(5),
    });
    functions.collect()
}

impl Function {
    /// A call with a value for each argument, but for the nth what stands in for it. The table `days` is partitioned by
    /// `id`.
    pub fn call(&self, nth: Option<usize>, in_place: &str) -> String {
        let given = self.arguments.iter().enumerate().map(|(at, (name, kind))| {
            let value = if Some(at) == nth { in_place } else { value(name, kind) };
            format!("{value}::{}", if kind == "anyelement" { "days" } else { kind })
        });
        format!("{}({})", self.name, given.collect::<Vec<_>>().join(", "))
    }
}

fn value(name: &str, kind: &str) -> &'static str {
    match (name, kind) {
        ("layout", _) => "'twitter'",
        ("operator", _) => "'<='",
        ("encoding", _) => "'hex'",
        ("alphabet", _) => "NULL",
        ("field", _) => "'worker'",
        ("schema", _) => "'public'",
        ("until", _) => "'infinity'",
        ("wait", _) => "'10 ms'",
        ("datacenter_id" | "tag" | "shard", _) => "0",
        (_, "bigint") => "2006515713439040712",
        (_, "integer" | "smallint" | "text" | "snowflake") => "'1'",
        (_, "boolean") => "true",
        (_, "name") => "'id'",
        (_, "regclass") => "'days'",
        (_, "regtype") => "'timestamptz'",
        (_, "interval") => "'1 day'",
        (_, "bytea") => "'\\x00112233445566778899aabbccddeeff'",
        (_, "uuid") => "'01234567-89ab-8cde-bc00-000000000000'",
        (_, "text[]") => "'{host=/nowhere}'",
        (_, "anyelement") => "NULL",
        (_, "oid") => "'10'",
        (_, "timestamp with time zone" | "timestamp without time zone" | "date") => "'2026-01-01'",
        _ => panic!("tests/calls.rs has no value of type {kind}, as for {name}"),
    }
}
