//! What one ID costs in one backend, beside PostgreSQL's own clock and sequence in the same run.
//!
//! `SELECT count(f()) FROM generate_series(…)`, less the same without the function: the cost of a call in a tight loop.
//! The layout allows 4,096 IDs a millisecond, and a backend that does nothing else would soon only wait for the clock.
//! So each statement makes fewer calls than any millisecond has left, and the next one begins a millisecond later; and
//! what counts is the CPU time of the backend, as the operating system accounts for it.
//!
//! Contenders take turns, and the median over all rounds counts, so that a machine whose speed drifts drifts for all.

use std::fs;
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::{Client, Statement};
use testbed::{Cluster, value};

const ROUNDS: usize = 25;
const STATEMENTS: u32 = 100;
const CALLS: u32 = 3_500;

/// What is measured: a name, and an expression over a row `i`.
const CONTENDERS: [(&str, &str); 4] = [
    ("nothing", "i"),
    ("clock_timestamp()", "clock_timestamp()"),
    ("snowflake_nextval()", "snowflake_nextval()"),
    ("nextval()", "nextval('plain')"),
];

/// Nanoseconds of CPU time that a process has had.
fn cpu_time(process: &str) -> u64 {
    let statistics = fs::read_to_string(format!("/proc/{process}/schedstat")).expect("schedstat of a backend");
    statistics.split_whitespace().next().and_then(|field| field.parse().ok()).expect("a number")
}

/// Nanoseconds of CPU time for one row of a statement.
fn measure(client: &mut Client, process: &str, statement: &Statement) -> f64 {
    let before = cpu_time(process);
    for _ in 0..STATEMENTS {
        client.execute(statement, &[]).expect("a measurement");
        sleep(Duration::from_millis(1));
    }
    let spent = u32::try_from(cpu_time(process) - before).expect("less than four seconds");
    f64::from(spent) / f64::from(STATEMENTS * CALLS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let cluster = Cluster::builder().worker(0).start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE SEQUENCE plain; SET jit = off;
             SET max_parallel_workers_per_gather = 0; SET work_mem = '256MB'",
        )
        .expect("the extension");
    let process = value(&mut client, "SELECT pg_backend_pid()");
    let server = value(&mut client, "SHOW server_version");
    println!("PostgreSQL {server}, {ROUNDS} rounds of {STATEMENTS} statements of {CALLS} calls");
    let statements = CONTENDERS.map(|(_, expression)| {
        let query = format!("SELECT count({expression}) FROM generate_series(1, {CALLS}) i");
        client.prepare(&query).expect("a statement")
    });

    let mut rounds = vec![Vec::new(); CONTENDERS.len()];
    for round in 0..=ROUNDS {
        let spent: Vec<f64> = statements.iter().map(|statement| measure(&mut client, &process, statement)).collect();
        // The first round warms up. The loop itself is taken off within a round.
        if round > 0 {
            for (own, total) in rounds.iter_mut().zip(&spent) {
                own.push(total - spent[0]);
            }
        }
    }

    let costs: Vec<f64> = rounds.into_iter().map(median).collect();
    let ours = costs[2];
    println!("\n{:<22} {:>8} {:>24}", "one call", "ns", "snowflake_nextval() is");
    for ((name, _), cost) in CONTENDERS.iter().zip(&costs).skip(1) {
        println!("{name:<22} {cost:>8.1} {:>21.2} x", ours / cost);
    }
}
