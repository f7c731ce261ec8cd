//! One feed of four servers whose clocks are up to two seconds apart, which are killed and promoted, and one consumer
//! that counts.
//!
//! Run with `make demo NAME=feed`.

use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::postgres::{Client, Config, NoTls};
use testbed::{Builder, Cluster, Signal, Traffic, value};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// What each clock shows, in seconds from the time.
const CLOCKS: [f64; 4] = [0.0, -0.7, -1.3, -2.0];
const READ: &str = "INSERT INTO applied (id) SELECT id FROM snowflake_feed.read(NULL::written, 'all')";

fn server(worker: usize) -> Builder {
    let builder = Cluster::builder().worker(worker).own_clock();
    builder.set("max_prepared_transactions", 100).set("max_connections", 100)
}

fn main() -> Result<()> {
    println!("\n==> Starting four servers, whose clocks are up to two seconds apart, and two standbys");
    let mut servers = Vec::new();
    for (nth, clock) in CLOCKS.into_iter().enumerate() {
        let mut server = server(nth + 1).create();
        server.set_clock(clock);
        server.start();
        server.connect().batch_execute("CREATE EXTENSION snowflake_pg")?;
        println!("    server {nth}: worker {}, clock {clock:+.1} s", nth + 1);
        servers.push(server);
    }
    let mut standbys = Vec::new();
    for (nth, worker) in [(1, 2), (2, 13)] {
        let standby = server(worker).standby_of(&servers[nth]);
        standby.set_clock(CLOCKS[nth]);
        servers[nth].configure("synchronous_standby_names", "*");
        servers[nth].reload();
        servers[nth].wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
        println!("    a standby of server {nth}: worker {worker}");
        standbys.push(standby);
    }

    println!("\n==> Adding all to one feed, on a server without the library");
    let reader = Cluster::builder().set("shared_preload_libraries", "").start();
    let mut dba = reader.connect();
    dba.batch_execute(
        "CREATE EXTENSION snowflake_feed CASCADE; CREATE TABLE written (id bigint);
         CREATE TABLE applied (nth serial, id bigint, applied_at timestamptz DEFAULT clock_timestamp());
         SELECT snowflake_feed.create('all', 'public.written')",
    )?;
    let traffics: Vec<_> = servers.iter().map(|server| Traffic::write(server, 4)).collect();
    for (nth, server) in servers.iter().enumerate() {
        let mut hosts = server.host().display().to_string();
        if let Some(standby) = nth.checked_sub(1).and_then(|nth| standbys.get(nth)) {
            hosts = format!("{hosts},{}", standby.host().display());
        }
        dba.batch_execute(&format!(
            "CREATE SERVER s{nth} FOREIGN DATA WRAPPER dblink_fdw OPTIONS
                 (host '{hosts}', dbname 'postgres', target_session_attrs 'read-write', connect_timeout '3',
                     tcp_user_timeout '3000');
             CREATE USER MAPPING FOR postgres SERVER s{nth} OPTIONS (user 'postgres');
             SELECT snowflake_feed.add_server('all', 's{nth}', '-infinity')"
        ))?;
    }

    let finished = AtomicBool::new(false);
    let config = reader.config();
    let tables = thread::scope(|scope| -> Result<Vec<i64>> {
        let consumer = scope.spawn(|| consume(&config, &finished));
        let wait = |client: &mut Client| -> Result<()> {
            sleep(Duration::from_secs(4));
            show(client)
        };
        wait(&mut dba)?;
        println!("\n==> kill -9 of server 0");
        servers[0].stop(Signal::KILL);
        wait(&mut dba)?;
        servers[0].start();
        println!("\n==> It is back");
        wait(&mut dba)?;
        for (nth, standby) in standbys.iter().enumerate() {
            println!("\n==> kill -9 of server {}, whose standby is promoted", nth + 1);
            servers[nth + 1].stop(Signal::KILL);
            standby.promote();
            traffics[nth + 1].move_to(standby);
            wait(&mut dba)?;
        }
        println!("\n==> The writers stop, and the consumer reads to the end");
        traffics.into_iter().for_each(|traffic| drop(traffic.finish()));
        let mut tables = Vec::new();
        for server in [&servers[0], &standbys[0], &standbys[1], &servers[3]] {
            tables.extend(ids(&mut server.connect(), "SELECT id FROM written")?);
        }
        finished.store(true, Ordering::Relaxed);
        consumer.join().expect("a consumer");
        Ok(tables)
    })?;

    let applied = ids(&mut dba, "SELECT id FROM applied ORDER BY nth")?;
    let distinct: HashSet<i64> = applied.iter().copied().collect();
    let missed = tables.iter().filter(|id| !distinct.contains(id)).count();
    let repeated = applied.len() - distinct.len();
    let out_of_order = applied.windows(2).filter(|pair| pair[0] > pair[1]).count();
    println!(
        "\n    {} rows on four servers, {} applied: {missed} missed, {repeated} repeated, {out_of_order} out of order\n",
        tables.len(),
        applied.len()
    );
    if [missed, repeated, out_of_order] != [0; 3] {
        return Err("the feed is wrong".into());
    }
    Ok(())
}

/// Applies rows until all are there and the writers have stopped.
fn consume(config: &Config, finished: &AtomicBool) {
    let mut client = config.connect(NoTls).expect("a session");
    let mut empty = 0;
    while empty < 5 {
        let is_last = finished.load(Ordering::Relaxed);
        let rows = client.execute(READ, &[]).expect("a read");
        let has_problem = value(&mut client, "SELECT bool_or(problem IS NOT NULL) FROM snowflake_feed.servers") == "t";
        empty = if rows == 0 && is_last && !has_problem { empty + 1 } else { 0 };
        // The horizon of the clock that is most behind has to come first.
        sleep(Duration::from_millis(if is_last { 1000 } else { 5 }));
    }
}

fn show(client: &mut Client) -> Result<()> {
    let query = "SELECT format('    %s: behind %s  %s', server, date_trunc('milliseconds', behind),
            coalesce(left(split_part(problem, E'\\n', 1), 70), 'no problem')) FROM snowflake_feed.servers ORDER BY server";
    for row in client.query(query, &[])? {
        println!("{}", row.get::<_, String>(0));
    }
    println!("    {} rows applied", value(client, "SELECT count(*) FROM applied"));
    Ok(())
}

fn ids(client: &mut Client, query: &str) -> Result<Vec<i64>> {
    Ok(client.query(query, &[])?.iter().map(|row| row.get(0)).collect())
}
