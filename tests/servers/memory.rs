//! What callers choose the length of, where the server may not have that much memory.

use std::fs;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, test, value};

/// Each of our functions that takes a text, as a call with a long one in one place, and what is expected elsewhere.
const CALLS: &str = "SELECT format('SELECT * FROM %s(%s)', p.oid::regproc, string_agg(
        CASE WHEN other.n = long.n AND other.kind = 'text[]'::regtype THEN 'ARRAY[repeat(''t'', $1)]'
            WHEN other.n = long.n AND other.kind = 'bytea'::regtype THEN 'convert_to(repeat(''t'', $1), ''UTF8'')'
            WHEN other.n = long.n THEN format('repeat(''t'', $1)::%s', other.kind::regtype)
            WHEN other.kind = 'text'::regtype THEN '''base62'''
            WHEN other.kind = 'oid'::regtype THEN 'current_user::regrole::oid'
            WHEN other.kind = 'regclass'::regtype THEN '''parted''::regclass'
            WHEN other.kind = 'interval'::regtype THEN 'interval ''1 day'''
            WHEN other.kind = 'timestamptz'::regtype THEN 'now()'
            WHEN other.kind = 'boolean'::regtype THEN 'true'
            WHEN other.kind = 'anyelement'::regtype THEN 'NULL::parted'
            ELSE format('1::%s', other.kind::regtype) END, ', ' ORDER BY other.n))
    FROM pg_depend d JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_extension e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'snowflake_pg'
    CROSS JOIN unnest(p.proargtypes::oid[]) WITH ORDINALITY long (kind, n)
    CROSS JOIN unnest(p.proargtypes::oid[]) WITH ORDINALITY other (kind, n)
    WHERE p.prokind = 'f' AND long.kind::regtype IN ('text', 'text[]', 'bytea')
        AND 'internal'::regtype <> ALL (p.proargtypes::oid[])
    GROUP BY p.oid, long.n ORDER BY 1";

/// Where Rust would ask for memory that there is not, the process would end, and with it all sessions.
#[test]
fn no_text_of_any_length_ends_a_process_where_memory_is_limited() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE TABLE parted (id bigint PRIMARY KEY) PARTITION BY RANGE (id)",
        )
        .expect("the extension");
    let calls: Vec<String> = client.query(CALLS, &[]).expect("calls").iter().map(|row| row.get(0)).collect();
    for function in ["snowflake_decode(", "snowflake_from_text(", "snowflake_check_fleet(", "snowflake_encrypt("] {
        assert!(calls.iter().any(|call| call.contains(function)), "{function} is not among {calls:?}");
    }
    let parameters = ["layout", "worker_id"].map(|name| format!("ALTER SYSTEM SET snowflake_pg.{name} = "));
    drop(client);
    let postmaster = fs::read_to_string(cluster.data().join("postmaster.pid")).expect("its number");
    let postmaster = postmaster.lines().next().expect("a number");
    let limited = cluster.foreign_command().args(["prlimit", "--pid", postmaster, "--as=335544320"]).status();
    assert!(limited.expect("prlimit").success());
    for length in [40_000_000, 20_000_000, 64_000_000, 2_000] {
        let in_calls = calls.iter().map(|call| call.replace("$1", &length.to_string()));
        let in_parameters = parameters.iter().map(|set| format!("{set}'{}'", "t".repeat(length)));
        for statement in in_calls.chain(in_parameters) {
            // Each in a session of its own: memory that is free again may be in pieces.
            let mut client = connect(&cluster);
            let Err(refused) = client.batch_execute(&statement) else { continue };
            let statement = &statement[..statement.len().min(100)];
            let Some(refused) = refused.as_db_error() else { panic!("{statement}: {refused:?}\n{}", cluster.log()) };
            let texts = [Some(refused.message()), refused.detail(), refused.hint()];
            let longest = texts.into_iter().flatten().map(str::len).max().unwrap_or(0);
            // PostgreSQL itself shows the whole value of a parameter.
            assert!(longest < 2000 || statement.starts_with("ALTER"), "{statement}: a message of {longest} bytes");
            assert_ne!(refused.code().code(), "57P02", "{statement}: {refused:?}\n{}", cluster.log());
        }
    }
    assert!(!cluster.log().contains("was terminated by signal"), "{}", cluster.log());
    assert_eq!(value(&mut connect(&cluster), "SELECT snowflake_nextval() > 0"), "t");
}

fn connect(cluster: &Cluster) -> testbed::postgres::Client {
    for _ in 0..600 {
        if let Ok(client) = cluster.try_connect() {
            return client;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("no session:\n{}", cluster.log())
}
