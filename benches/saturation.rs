//! How close a saturated server comes to the layout's own rate, and what it costs to wait for it.
//!
//! The layout `twitter` allows 4,096 IDs a millisecond, so 4,096,000 a second. First one backend and then two ask for as many
//! as they can get. Then 64 do, each statement for a little more than a tick holds, so that nearly all of them wait nearly
//! always: for the same tick.

use std::fs;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Cluster, value};

const RATE: f64 = 4_096_000.0;
const ROUND: Duration = Duration::from_secs(5);
const ROUNDS: usize = 5;

/// CPU time of all processes of a server, in seconds.
fn cpu_time(processes: &[String]) -> f64 {
    let spent = |process: &String| {
        let statistics = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
        statistics.split_whitespace().next()?.parse::<f64>().ok()
    };
    processes.iter().filter_map(spent).sum::<f64>() / 1e9
}

/// What clients got while they repeated a statement together.
struct Shares {
    /// How many IDs each of them got.
    ids: Vec<u32>,
    /// How long it took all of them.
    time: Duration,
}

impl Shares {
    /// All IDs a second, as a share of the layout's rate in percent.
    fn rate(&self) -> f64 {
        self.ids.iter().copied().map(f64::from).sum::<f64>() / self.time.as_secs_f64() / RATE * 100.0
    }
}

/// Lets clients repeat a statement for so many IDs for a while, all at the same time.
fn together(clients: &mut [Client], statement: &str, ids: u32) -> Shares {
    let start = Barrier::new(clients.len() + 1);
    thread::scope(|scope| {
        let work = |client| {
            let client: &mut Client = client;
            let statement = client.prepare(statement).expect("a statement");
            start.wait();
            let (since, mut received) = (Instant::now(), 0);
            while since.elapsed() < ROUND {
                client.execute(&statement, &[]).expect("IDs");
                received += ids;
            }
            received
        };
        let clients: Vec<_> = clients.iter_mut().map(|client| scope.spawn(move || work(client))).collect();
        start.wait();
        let since = Instant::now();
        let ids = clients.into_iter().map(|client| client.join().expect("a client")).collect();
        Shares { ids, time: since.elapsed() }
    })
}

fn connect(cluster: &Cluster, count: usize) -> Vec<Client> {
    (0..count).map(|_| cluster.connect()).collect()
}

fn main() {
    let cluster = Cluster::builder().worker(0).set("max_connections", 80).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    println!("PostgreSQL {}, {ROUNDS} rounds of {ROUND:?}, best and median", value(&mut client, "SHOW server_version"));

    println!("\n{:<22} {:>14} {:>14}", "asking at full speed", "best", "median");
    for backends in [1, 2] {
        let mut clients = connect(&cluster, backends);
        let mut rates: Vec<_> = (0..ROUNDS)
            .map(|_| {
                // A series in FROM would be made first, as a whole, and nothing be asked for meanwhile.
                let statement = "SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 400000)) series";
                together(&mut clients, statement, 400_000).rate()
            })
            .collect();
        rates.sort_by(f64::total_cmp);
        let (best, median) = (rates[ROUNDS - 1], rates[ROUNDS / 2]);
        println!("{:<22} {best:>12.2} % {median:>12.2} %", format!("{backends} backends"));
    }
    let busiest = value(
        &mut client,
        "SELECT max(ids) FROM (SELECT count(*) AS ids
             FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 2000000)) ids
             GROUP BY snowflake_timestamp(id)) ticks",
    );
    println!("most IDs in one tick   {busiest:>14}");

    let mut clients = connect(&cluster, 64);
    let processes: Vec<_> = clients.iter_mut().map(|client| value(client, "SELECT pg_backend_pid()")).collect();
    let before = cpu_time(&processes);
    let began = Instant::now();
    let shares = together(&mut clients, "SELECT count(*) FROM snowflake_nextvals(5000)", 5000);
    let spent = (cpu_time(&processes) - before) / began.elapsed().as_secs_f64();
    let (least, most) = (shares.ids.iter().min().expect("64"), shares.ids.iter().max().expect("64"));
    println!("\n64 connections wait for one tick, {ROUND:?}");
    println!("rate                   {:>12.2} %", shares.rate());
    println!("IDs of a connection    {least:>14} least {most:>14} most");
    println!("CPU time of all        {spent:>14.2} s a second");
}
