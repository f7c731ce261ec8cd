//! What the arguments of all functions have in common.

use crate::calls::functions;
use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{Cluster, Database, test, value};

/// The functions that people call, each with its name and OID as `f` and `oid`.
const FUNCTIONS: &str = "(SELECT p.*, p.oid::regprocedure::text AS f FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.deptype = 'e'
    AND d.classid = 'pg_proc'::regclass AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'snowflake_pg')
    WHERE p.prokind = 'f' AND p.prorettype <> 'trigger'::regtype AND coalesce(obj_description(p.oid, 'pg_proc'), '') !~ '^(not to be called|I/O)')";

fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).database();
    let mut client = database.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE TABLE days (id bigint PRIMARY KEY) PARTITION BY RANGE (id)",
        )
        .expect("the extension");
    (database, client)
}

/// NULL in an argument that is not NULL by default. Others have values with which a function would do something.
#[test]
fn a_null_argument_gives_null_or_no_rows_unless_null_is_its_default() {
    let (_database, mut client) = database();
    let mut called = 0;
    let mut others = Vec::new();
    for function in functions(&mut client).iter().filter(|function| !function.is_hidden) {
        for (nth, (argument, kind)) in function.arguments.iter().enumerate() {
            // The table of a poll is its type.
            if function.defaults[nth].starts_with("NULL") || kind == "anyelement" {
                continue;
            }
            let call = function.call(Some(nth), "NULL");
            let rows = client.simple_query(&format!("SELECT count(*) FROM {call} result WHERE NOT result IS NULL"));
            let given = rows.map(|messages| {
                messages.iter().find_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(ToOwned::to_owned),
                    _ => None,
                })
            });
            if !matches!(&given, Ok(Some(rows)) if rows == "0") {
                others.push(format!("{} {argument}: {call}: {given:?}", function.name));
            }
            called += 1;
        }
    }
    // Those that docs/reference.md names.
    let allowed = |other: &&String| {
        let is_field = other.contains(" datacenter_id: ") || other.contains(" tag: ");
        let refusing = ["snowflake_check_fleet ", "snowflake_audit_fleet ", "snowflake_poll "];
        let is_refused = refusing.iter().any(|name| other.starts_with(name))
            && (other.contains("E22023") || other.contains("E22004"));
        other.starts_with("snowflake_compose ") && is_field || is_refused
    };
    others.retain(|other| !allowed(&other));
    assert_eq!(others, Vec::<String>::new(), "of {called}");
    assert!(called > 80, "{called}");
}

#[test]
fn the_number_of_an_object_that_is_not_there_is_no_internal_error() {
    let (_database, mut client) = database();
    let mut called = 0;
    for function in functions(&mut client) {
        for (nth, _) in function.arguments.iter().enumerate().filter(|(_, (_, kind))| kind.starts_with("reg")) {
            for number in ["0", "4294967295"] {
                let call = function.call(Some(nth), &format!("{number}::oid"));
                let refused = client.simple_query(&format!("SELECT {call}")).err();
                let code = refused.and_then(|error| error.code().cloned());
                assert!(!code.as_ref().is_some_and(|code| code.code().starts_with("XX")), "{call}: {code:?}");
                called += 1;
            }
        }
    }
    assert!(called > 20, "{called}");
}

/// By which `\df` is read, and calls with names are written.
#[test]
fn arguments_for_the_same_have_the_same_name_and_the_layout_is_the_last_one() {
    let (_database, mut client) = database();
    let wrong = |client: &mut Client, what: &str| {
        value(
            client,
            &format!(
                "SELECT coalesce(string_agg(DISTINCT f, ' '), '') FROM {FUNCTIONS} functions, generate_series(1, pronargs) n,
                     LATERAL (SELECT proargnames[n] AS name, proargtypes[n - 1]::regtype AS type) argument
                 WHERE {what}"
            ),
        )
    };
    for what in [
        "type = 'regclass'::regtype AND name <> 'relation'",
        "type = 'name'::regtype AND name NOT IN ('column_name', 'class_name', 'schema')",
        "name = 'tag' AND type <> 'integer'::regtype",
        "name = 'layout' AND (n <> pronargs OR type <> 'text'::regtype OR pg_get_function_arg_default(oid, n) IS NOT NULL)",
        // Not that of an operator class, which has no form without.
        "name = 'layout' AND proname <> 'snowflake_create_operator_class' AND NOT EXISTS (SELECT FROM pg_proc o
            WHERE o.proname = functions.proname AND o.pronargs = n - 1 AND functions.proargtypes::text = concat_ws(' ', o.proargtypes::text, 'text'::regtype::oid))",
        // Nobody keeps what these return: a later version can say it in other words.
        "name = 'layout' AND provolatile = 's' AND proname NOT IN ('snowflake_explain', 'snowflake_time_expression')",
        // The planner adds the layout to a call of the other form.
        "name <> 'layout' AND n = pronargs AND EXISTS (SELECT FROM pg_proc o
            WHERE o.proname = functions.proname AND functions.proargtypes::text = concat_ws(' ', o.proargtypes::text, 'text'::regtype::oid))",
    ] {
        assert_eq!(wrong(&mut client, what), "", "{what}");
    }
    assert_ne!(wrong(&mut client, "name = 'layout'"), "");
}
