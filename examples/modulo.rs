//! How IDs that come one by one lie modulo n, for each `snowflake_pg.sequence_start`: what an application gets that
//! shards by `id % n`. With 4,096 IDs in a tick, and with the 64 of layout `js`.
//!
//! A server for each, asked for one ID every 3 ms. Chi-square is the distance from an even distribution; a fair die
//! stays below the bound in 99 of 100 tries. The greatest and the least share are of what an even one would be. Then each
//! server is asked for the IDs of 200 ticks at once: how full are the ticks that it uses?
//!
//! Run with `make demo NAME=modulo`; `IDS=10000` for another number of IDs from each server.

use std::error::Error;
use std::panic::resume_unwind;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const STARTS: [&str; 3] = ["zero", "random", "rotate"];

/// Layouts, and how many IDs a tick of theirs has.
const LAYOUTS: [(&str, i32); 2] = [("t41 w10 s12", 4096), ("js", 64)];

/// Moduli, and what chi-square with one degree of freedom less stays below with a probability of 99 %.
const MODULI: [(i64, f64); 5] = [(2, 6.635), (3, 9.210), (8, 18.475), (64, 92.010), (100, 134.642)];

const PACE: Duration = Duration::from_millis(3);

fn main() -> Result<()> {
    let ids: u32 = std::env::args().nth(1).map_or(Ok(100_000), |ids| ids.parse())?;
    let all = LAYOUTS.into_iter().flat_map(|(layout, of_tick)| STARTS.map(|start| (layout, of_tick, start)));
    let servers: Vec<_> = all.map(|(layout, of_tick, start)| (layout, of_tick, start, serve(layout, start))).collect();
    println!(
        "==> Taking {ids} IDs, one every {PACE:?}, from a server for each layout and sequence_start ({:?})\n",
        ids * PACE
    );
    let drawn: Vec<Result<Vec<i64>>> = thread::scope(|scope| {
        let threads: Vec<_> = servers.iter().map(|(.., server)| scope.spawn(move || draw(server, ids))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    println!(
        "{:<12} {:<8} {:>7} {:>14} {:>8} {:>10} {:>9} {:>9}  even",
        "layout", "start", "modulo", "chi-square", "degrees", "1 % bound", "greatest", "least"
    );
    let mut fills = Vec::new();
    for ((layout, of_tick, start, server), drawn) in servers.iter().zip(drawn) {
        let ids = drawn?;
        fills.push(format!("{layout:<12} {start:<8} {:>6.1} %", 100.0 * fill(server, *of_tick)?));
        for (n, bound) in MODULI {
            let seen = classes(&ids, n)?;
            let even = f64::from(u32::try_from(ids.len())?) / f64::from(u32::try_from(n)?);
            let chi_square: f64 = seen.iter().map(|&seen| (f64::from(seen) - even).powi(2) / even).sum();
            let share = |seen: Option<&u32>| f64::from(*seen.unwrap_or(&0)) / even;
            println!(
                "{layout:<12} {start:<8} {n:>7} {chi_square:>14.1} {:>8} {bound:>10.1} {:>9.3} {:>9.3}  {}",
                n - 1,
                share(seen.iter().max()),
                share(seen.iter().min()),
                if chi_square < bound { "yes" } else { "no" }
            );
        }
    }
    println!("\n==> The IDs of 200 ticks at once: how full the ticks are\n\n{}", fills.join("\n"));
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

fn serve(layout: &str, start: &str) -> Cluster {
    let server = Cluster::builder().worker(5).set("snowflake_pg.sequence_start", start);
    server.set("snowflake_pg.layout", layout).start()
}

/// Takes IDs from a server, one by one.
fn draw(server: &Cluster, count: u32) -> Result<Vec<i64>> {
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

/// Asks for the IDs of 200 ticks at once. Returns which share they are of all that the ticks have that it has used.
fn fill(server: &Cluster, of_tick: i32) -> Result<f64> {
    let ids = "SELECT (count(*) / count(DISTINCT snowflake_timestamp(id))::numeric / $1::integer)::float8
        FROM snowflake_nextvals(200 * $1::integer) AS id";
    Ok(server.connect().query_one(ids, &[&of_tick])?.get(0))
}
