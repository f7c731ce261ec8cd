//! How IDs that come one by one lie modulo n, for each `snowflake_pg.sequence_start`: what an application gets that
//! shards by `id % n`.
//!
//! Three servers, each asked for one ID every 3 ms. Chi-square is the distance from an even distribution; a fair die
//! stays below the bound in 99 of 100 tries. The greatest and the least share are of what an even one would be.
//!
//! Run with `make demo NAME=modulo`; `IDS=10000` for another number of IDs from each server.

use std::error::Error;
use std::panic::resume_unwind;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const STARTS: [&str; 3] = ["zero", "random", "rotate"];

/// Moduli, and what chi-square with one degree of freedom less stays below with a probability of 99 %.
const MODULI: [(i64, f64); 5] = [(2, 6.635), (3, 9.210), (8, 18.475), (64, 92.010), (100, 134.642)];

const PACE: Duration = Duration::from_millis(3);

fn main() -> Result<()> {
    let ids: u32 = std::env::args().nth(1).map_or(Ok(100_000), |ids| ids.parse())?;
    println!("==> Taking {ids} IDs, one every {PACE:?}, from a server for each sequence_start ({:?})\n", ids * PACE);
    let drawn: Vec<Result<Vec<i64>>> = thread::scope(|scope| {
        let servers = STARTS.map(|start| scope.spawn(move || draw(start, ids)));
        servers.into_iter().map(|server| server.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    println!(
        "{:<8} {:>7} {:>8} {:>14} {:>8} {:>10} {:>9} {:>9}  even",
        "start", "IDs", "modulo", "chi-square", "degrees", "1 % bound", "greatest", "least"
    );
    for (start, drawn) in STARTS.iter().zip(drawn) {
        let drawn = drawn?;
        for (n, bound) in MODULI {
            let seen = classes(&drawn, n)?;
            let even = f64::from(u32::try_from(drawn.len())?) / f64::from(u32::try_from(n)?);
            let chi_square: f64 = seen.iter().map(|&seen| (f64::from(seen) - even).powi(2) / even).sum();
            let share = |seen: Option<&u32>| f64::from(*seen.unwrap_or(&0)) / even;
            println!(
                "{start:<8} {:>7} {n:>8} {chi_square:>14.1} {:>8} {bound:>10.1} {:>9.3} {:>9.3}  {}",
                drawn.len(),
                n - 1,
                share(seen.iter().max()),
                share(seen.iter().min()),
                if chi_square < bound { "yes" } else { "no" }
            );
        }
    }
    Ok(())
}

/// How many IDs there are of each remainder.
fn classes(ids: &[i64], n: i64) -> Result<Vec<u32>> {
    let mut seen = vec![0; usize::try_from(n)?];
    for id in ids {
        seen[usize::try_from(id % n)?] += 1;
    }
    Ok(seen)
}

/// Takes IDs from a new server, one by one.
fn draw(start: &str, count: u32) -> Result<Vec<i64>> {
    let server = Cluster::builder().worker(5).set("snowflake_pg.sequence_start", start).start();
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()")?;
    let take = client.prepare("SELECT snowflake_nextval()")?;
    let mut next = Instant::now();
    let mut ids = Vec::new();
    for _ in 0..count {
        // Who is late does not hurry: that would put several into one tick.
        next = (next + PACE).max(Instant::now());
        sleep(next.saturating_duration_since(Instant::now()));
        ids.push(client.query_one(&take, &[])?.get(0));
    }
    Ok(ids)
}
