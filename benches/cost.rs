//! What one call costs in one backend, beside what PostgreSQL has itself, in the same run: issuing an ID, and decoding one.
//!
//! `SELECT count(f(i)) FROM generate_series(…) i`, less the same without the function: the cost of a call in a tight loop.
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
const CALLS: i32 = 3_500;

/// What is measured beside each other.
struct Contest {
    /// The first `i`. A bigint where it is to be an ID.
    first: i64,
    /// Expressions over `i`. All others are compared with the first.
    contenders: &'static [&'static str],
}

const CONTESTS: [Contest; 2] = [
    Contest { first: 1, contenders: &["snowflake_nextval()", "clock_timestamp()", "nextval('plain')"] },
    Contest {
        first: 1_541_815_603_606_036_480,
        contenders: &[
            "snowflake_timestamp(i)",
            "(i >> 22) + 1288834974657",
            "to_timestamp(((i >> 22) + 1288834974657) / 1000.0)",
            "snowflake_timestamp(i, 'twitter')",
            "snowflake_decode(i)",
            "snowflake_to_text(i, 'base62')",
            "snowflake_within(i, '2022-06-28Z', '2022-06-29Z')",
        ],
    },
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
    f64::from(spent) / f64::from(STATEMENTS) / f64::from(CALLS)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Nanoseconds of CPU time for a call of each contender.
fn costs(client: &mut Client, process: &str, contest: &Contest) -> Vec<f64> {
    let (first, last) = (contest.first, contest.first + i64::from(CALLS) - 1);
    let mut prepare = |expression: &str| {
        let query = format!("SELECT count({expression}) FROM generate_series({first}, {last}) i");
        client.prepare(&query).expect("a statement")
    };
    let nothing = prepare("i");
    let statements: Vec<_> = contest.contenders.iter().map(|expression| prepare(expression)).collect();

    let mut rounds = vec![Vec::new(); statements.len()];
    // The first round warms up. The loop itself is taken off within a round.
    for round in 0..=ROUNDS {
        let the_loop = measure(client, process, &nothing);
        for (own, statement) in rounds.iter_mut().zip(&statements) {
            let spent = measure(client, process, statement);
            if round > 0 {
                own.push(spent - the_loop);
            }
        }
    }
    rounds.into_iter().map(median).collect()
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
    for contest in CONTESTS {
        let costs = costs(&mut client, &process, &contest);
        println!("\n{:<52} {:>8} {:>26}", "one call", "ns", format!("{} is", contest.contenders[0]));
        for (name, cost) in contest.contenders.iter().zip(&costs) {
            println!("{name:<52} {cost:>8.1} {:>24.2} x", costs[0] / cost);
        }
    }
}
