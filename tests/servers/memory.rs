//! What callers choose the length of, where the server may not have that much memory.

use crate::calls::functions;
use std::fs;
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::Client;
use testbed::{Cluster, test, value};

/// Calls of each of our functions that takes a text, with a text in one place that is as long as `$1` says.
fn calls(client: &mut Client) -> Vec<String> {
    let mut calls = Vec::new();
    for function in functions(client) {
        for (nth, (_, kind)) in function.arguments.iter().enumerate() {
            let long = match &**kind {
                "text" => "repeat('t', $1)",
                "text[]" => "ARRAY[repeat('t', $1)]",
                "bytea" => "convert_to(repeat('t', $1), 'UTF8')",
                _ => continue,
            };
            calls.push(format!("SELECT * FROM {}", function.call(Some(nth), long)));
        }
    }
    calls
}

/// Where Rust would ask for memory that there is not, the process would end, and with it all sessions.
#[test]
fn no_text_of_any_length_ends_a_process_where_memory_is_limited() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE TABLE days (id bigint PRIMARY KEY) PARTITION BY RANGE (id)",
        )
        .expect("the extension");
    let calls = calls(&mut client);
    for function in ["snowflake_decode(", "snowflake_from_text(", "snowflake_check_fleet(", "snowflake_encrypt("] {
        assert!(calls.iter().any(|call| call.contains(function)), "{function} is not among {calls:?}");
    }
    let parameters = ["layout", "worker_id"].map(|name| format!("ALTER SYSTEM SET snowflake_pg.{name} = "));
    drop(client);
    let postmaster = fs::read_to_string(cluster.data().join("postmaster.pid")).expect("its number");
    let postmaster = postmaster.lines().next().expect("a number");
    let limited = cluster.foreign_command().args(["prlimit", "--pid", postmaster, "--as=335544320"]).status();
    assert!(limited.expect("prlimit").success());
    for length in [40_000_000, 64_000_000, 2_000] {
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

fn connect(cluster: &Cluster) -> Client {
    for _ in 0..600 {
        if let Ok(client) = cluster.try_connect() {
            return client;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("no session:\n{}", cluster.log())
}
