//! One table of calls, whose results are the same in both editions: values to the last bit, errors by SQLSTATE, message
//! and detail.

mod calls;

use super::server;
use calls::calls;
use std::thread;
use testbed::postgres::Client;
use testbed::{Cluster, hosted_script, test};

/// What a call gives: its value as a text, or the SQLSTATE, the message and the detail of its error.
const OUTCOME: &str = "CREATE FUNCTION pg_temp.outcome(call text) RETURNS text[] LANGUAGE plpgsql AS $$
    DECLARE given text; code text; message text; detail text;
    BEGIN
        EXECUTE 'SELECT ' || call INTO given;
        RETURN ARRAY[given];
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
        RETURN ARRAY[code, message, detail];
    END $$";

/// What each of some calls gives. Many in one query: tests beside this one would delay each answer.
fn outcomes(client: &mut Client, calls: &[String]) -> Vec<Vec<Option<String>>> {
    client.batch_execute(OUTCOME).expect("a function");
    let mut outcomes = Vec::new();
    for some in calls.chunks(200) {
        let rows =
            client.query("SELECT pg_temp.outcome(call) FROM unnest($1::text[]) call", &[&some]).expect("outcomes");
        outcomes.extend(rows.iter().map(|row| row.get::<_, Vec<Option<String>>>(0)));
    }
    for detail in outcomes.iter_mut().filter_map(|outcome| outcome.get_mut(2)?.as_mut()) {
        *detail = alike(detail);
    }
    outcomes
}

/// A detail without what may differ.
fn alike(detail: &str) -> String {
    // The extension lists the layouts with a name; the hosted edition has a HINT that names the view of them.
    let detail =
        match detail.split_once(" (flat, twitter, ").and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)))
        {
            Some((before, after)) => before.to_owned() + after,
            None => detail.to_owned(),
        };
    // One is called after the other.
    detail.split_inclusive("The clock shows ").next().unwrap_or_default().to_owned()
}

#[test]
fn every_call_gives_the_same_in_both_editions() {
    let extension = Cluster::builder().worker(7).database();
    let mut extension = extension.connect();
    extension.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let hosted = server(7);
    let mut hosted = hosted.connect();
    let calls = calls();
    let tables = "CREATE TABLE texts (t text) PARTITION BY HASH (t); CREATE TABLE texts_0 PARTITION OF texts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE years (id bigint) PARTITION BY RANGE ((id >> 3)); CREATE TABLE year PARTITION OF years DEFAULT PARTITION BY HASH (id);
        CREATE TABLE year_0 PARTITION OF year FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE tenants (id bigint, n integer) PARTITION BY LIST (n); CREATE TABLE tenant PARTITION OF tenants DEFAULT PARTITION BY HASH (id);
        CREATE TABLE tenant_0 PARTITION OF tenant FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE expressions (id bigint) PARTITION BY HASH ((id >> 3)); CREATE TABLE expressions_0 PARTITION OF expressions FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE SCHEMA \"a b\"; GRANT USAGE ON SCHEMA \"a b\" TO PUBLIC; SET search_path = \"a b\", public; CREATE TABLE plain (id bigint);
        CREATE TABLE two (a bigint, b bigint) PARTITION BY HASH (a, b); CREATE TABLE two_0 PARTITION OF two FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE \"Ids\" (id bigint) PARTITION BY HASH (id); CREATE TABLE ids_1 PARTITION OF \"Ids\" FOR VALUES WITH (MODULUS 8, REMAINDER 5);
        CREATE TABLE ids_3 PARTITION OF \"Ids\" FOR VALUES WITH (MODULUS 4, REMAINDER 3); RESET search_path;
        CREATE MATERIALIZED VIEW copied AS SELECT 1::bigint AS id; CREATE VIEW seen AS SELECT 1::bigint AS id;
        GRANT SELECT ON copied, seen TO PUBLIC";
    let mut differences = Vec::new();
    for client in [&mut extension, &mut hosted] {
        client.batch_execute(tables).expect("tables");
        // As a role without rights, which may call all that is for everybody.
        let role = "CREATE ROLE anybody; GRANT EXECUTE ON FUNCTION snowflake_advance TO anybody; SET ROLE anybody; \
                    CREATE TEMP TABLE mine (); CREATE TEMP TABLE keyed (id bigint PRIMARY KEY); \
                    CREATE DOMAIN pg_temp.number AS bigint; CREATE DOMAIN pg_temp.key AS pg_temp.number; \
                    CREATE TEMP TABLE domains (id pg_temp.key PRIMARY KEY)";
        client.batch_execute(&format!("{role}; SET timezone = 'Asia/Kolkata'")).expect("a role");
    }
    // At the same time: it is the longest test here.
    let [firsts, seconds] = thread::scope(|scope| {
        [&mut extension, &mut hosted]
            .map(|client| scope.spawn(|| outcomes(client, &calls)))
            .map(|outcomes| outcomes.join().expect("outcomes"))
    });
    assert_eq!((firsts.len(), seconds.len()), (calls.len(), calls.len()));
    for ((call, first), second) in calls.iter().zip(firsts).zip(seconds) {
        if first != second {
            differences.push(format!("{call}: {first:?}, hosted {second:?}"));
        }
    }
    let layouts = "SELECT string_agg((name, fields, unit, epoch, usable_until, years, workers, max_ids_per_second, can_issue, source)::text, '\n') FROM snowflake_layouts";
    assert_eq!(testbed::value(&mut extension, layouts), testbed::value(&mut hosted, layouts));
    println!("{} calls, {} differences", calls.len(), differences.len());
    assert!(calls.len() > 10_000, "{}", calls.len());
    assert_eq!(differences, Vec::<String>::new(), "{} of {}", differences.len(), calls.len());
}

/// A stored expression of a dump names functions with their types.
#[test]
fn every_function_of_the_extension_is_there_with_equal_arguments_and_rights_or_for_servers() {
    let extension = Cluster::builder().worker(7).database();
    let mut extension = extension.connect();
    extension.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let server = Cluster::builder().start();
    let mut hosted = server.connect();
    hosted.batch_execute(&hosted_script()).expect("the script");
    let mut signatures = |of: &str| {
        let signatures = format!("SELECT p.oid::regprocedure::text || ' ' || pg_get_function_result(p.oid) FROM pg_proc p
        WHERE proname LIKE 'snowflake%' AND obj_description(p.oid, 'pg_proc') NOT LIKE 'not to be called%' {of} ORDER BY 1");
        [&mut extension, &mut hosted].map(|client| {
            let rows = client.query(&signatures, &[]).expect("functions");
            let names = rows.iter().map(|row| row.get::<_, String>(0));
            // Those of a type, which is a domain here.
            names
                .filter(|name| !["internal", "cstring", "(snowflake", "snowflake("].iter().any(|of| name.contains(of)))
                .collect::<Vec<_>>()
        })
    };
    let [theirs, ours] = signatures("");
    let missing: Vec<_> = theirs.iter().filter(|name| !ours.contains(name)).collect();
    let what = "functions that sql/hosted lacks: add each there, or to FOR_SERVERS in tests/hosted/same.rs \
                if hosted databases cannot have it";
    assert_listed(&missing, FOR_SERVERS, what);
    let more: Vec<_> = ours.iter().filter(|name| !theirs.contains(name)).collect();
    let what = "functions that only sql/hosted has: give each the arguments and the result of the extension's, or \
                add it to FOR_DATABASES";
    assert_listed(&more, FOR_DATABASES, what);
    let closed = signatures("AND NOT has_function_privilege('public', p.oid, 'EXECUTE')");
    let [theirs, ours] = closed.map(|closed| {
        let both = closed.into_iter().filter(|name| theirs.contains(name) && ours.contains(name));
        both.collect::<Vec<_>>()
    });
    assert_eq!(ours, theirs, "functions for the owner of a hosted database, and those for superusers of a server");
}

/// What the extension alone has: for its files, processes and partitions, readers, outsiders, and other servers.
const FOR_SERVERS: &[&str] = &[
    "snowflake_accept_clock() void",
    "snowflake_accept_mark(boolean) timestamp with time zone",
    "snowflake_audit_fleet(text[]) SETOF snowflake_audit_finding",
    "snowflake_check_fleet(text[]) SETOF snowflake_fleet_member",
    "snowflake_create_operator_class(name,text,name,text) void",
    "snowflake_create_partitions(regclass,interval,integer) SETOF snowflake_partition",
    "snowflake_create_partitions(regclass,interval,integer,text) SETOF snowflake_partition",
    "snowflake_decrypt(bigint,bytea) bigint",
    "snowflake_encrypt(bigint,bytea) bigint",
    "snowflake_identity() snowflake_identity",
    "snowflake_issued_elsewhere(bigint) boolean",
    "snowflake_lives() SETOF snowflake_life",
    "snowflake_partitions(regclass) SETOF snowflake_partition",
    "snowflake_partitions(regclass,text) SETOF snowflake_partition",
    "snowflake_reset_mark(timestamp with time zone) timestamp with time zone",
    "snowflake_reset_stats() void",
];

/// What the extension has as parameters.
const FOR_DATABASES: &[&str] = &[
    "snowflake_datacenter_id() integer",
    "snowflake_layout() text",
    "snowflake_set_layout(text) void",
    "snowflake_set_worker_id(integer,integer) void",
    "snowflake_worker_id() integer",
];

fn assert_listed(found: &[&String], listed: &[&str], what: &str) {
    let new: Vec<_> = found.iter().filter(|name| !listed.contains(&name.as_str())).collect();
    let gone: Vec<_> = listed.iter().filter(|name| !found.iter().any(|found| found == *name)).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "{what}: {new:#?}\nno longer one of them, so remove it there: {gone:#?}"
    );
}
