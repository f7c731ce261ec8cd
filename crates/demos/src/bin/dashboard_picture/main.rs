//! Draws docs/dashboard.svg: `contrib/monitoring/dashboard.json`, from what a real Prometheus answers to its queries.
//!
//! Six servers issue IDs. The clock of one is set back for a while, the disk of another is full for a while, and a
//! server with the worker of another one is started. Grafana's own rendering differs: this draws what its panels ask
//! for.
//!
//! Run with `make picture NAME=dashboard`. A number of seconds as an argument makes it shorter.

mod panels;

use serde_json::Value;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, Exporter, Order, Prometheus, Registry, Signal, project, real_time};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Calls for so many IDs, and the pause after each, of each server.
const LOADS: [(u32, u64); 5] = [(400, 20), (250, 20), (150, 20), (60, 20), (30, 20)];

fn main() -> Result<()> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(240.0), |argument| argument.parse())?;
    let registry = Registry::start();
    let leased = |worker: u32| {
        let builder = Cluster::builder().worker(worker).set("snowflake_pg.registry_conninfo", registry.conninfo());
        builder.set("snowflake_pg.registry_lease", "1min")
    };
    let unleased = || Cluster::builder().worker(3);
    let builders: [Builder; 5] = [leased(0), leased(1).own_clock(), leased(2).faulty_disk(), unleased(), unleased()];
    let mut servers = builders.map(Builder::start);
    for server in &servers {
        server.connect().batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE ROLE monitoring LOGIN IN ROLE pg_monitor; SELECT snowflake_nextval()",
        )?;
    }
    let standby = Cluster::builder().worker(4).standby_of(&servers[0]);
    servers[4].stop(Signal::INT);
    let exporters: Vec<_> = servers.iter().chain([&standby]).map(Exporter::start).collect();
    let prometheus = Prometheus::start(&exporters);
    let [first, stepped, full, original, second] = &mut servers;

    println!("==> Issuing IDs for {seconds} s, through a clock step, a full disk and a worker that two servers have");
    let end = AtomicBool::new(false);
    let (began, began_at) = (Instant::now(), real_time());
    let until = |share: f64| sleep(Duration::from_secs_f64(seconds * share).saturating_sub(began.elapsed()));
    thread::scope(|scope| {
        for (server, load) in [&*first, &*stepped, &*full, &*original].into_iter().zip(LOADS) {
            let end = &end;
            scope.spawn(move || issue(server, load, end));
        }
        until(0.2);
        stepped.set_clock(-3.0);
        until(0.4);
        stepped.set_clock(0.0);
        until(0.5);
        full.disk().obey(Order::Full);
        until(0.6);
        full.disk().obey(Order::Work);
        until(0.75);
        second.start();
        let (second, ended) = (&*second, &end);
        scope.spawn(move || issue(second, LOADS[4], ended));
        until(1.0);
        end.store(true, Ordering::Relaxed);
    });
    let [start, end] = [began_at, real_time()].map(|ms| u32::try_from(ms / 1000));
    let times = panels::Times { start: start?, end: end? };
    let dashboard: Value = serde_json::from_slice(&fs::read(project().join("contrib/monitoring/dashboard.json"))?)?;
    let picture = panels::draw(&dashboard, &prometheus, &times)?;
    println!("{} bytes", picture.len());
    fs::write(project().join("docs/dashboard.svg"), picture)?;
    println!("==> Drawn: docs/dashboard.svg");
    Ok(())
}

/// Asks for IDs until the end. Calls may fail.
fn issue(server: &Cluster, (count, pause): (u32, u64), end: &AtomicBool) {
    let query = format!("SELECT count(*) FROM snowflake_nextvals({count})");
    let mut client = server.connect();
    while !end.load(Ordering::Relaxed) {
        let _ = client.batch_execute(&query);
        sleep(Duration::from_millis(pause));
    }
}
