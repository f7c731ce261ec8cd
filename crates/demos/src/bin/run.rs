//! The main job, shown: three shards filled at the same time, unique IDs, and SQL that reads them.
//!
//! Run with `make run`.

use snowflake_core::id::layout::Layout;
use std::collections::HashSet;
use std::error::Error;
use std::io::{IsTerminal, Write, stdin, stdout};
use std::thread;
use std::time::Instant;
use testbed::postgres::Client;
use testbed::{Cluster, shield, value};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

type Load = fn(&mut Client) -> Result<()>;

const SHARDS: i32 = 3;
const TABLE: &str = "CREATE TABLE orders (
    id         bigint PRIMARY KEY DEFAULT snowflake_nextval(),
    item       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp())";

/// Ways of inserting, each on a connection of its own: what it is called, and what to do on a shard.
const LOADS: [(&str, Load); 4] = [
    ("single-row INSERTs", |client| {
        let insert = client.prepare("INSERT INTO orders (item) VALUES ('single')")?;
        for _ in 0..2_000 {
            client.execute(&insert, &[])?;
        }
        Ok(())
    }),
    ("multi-row INSERTs", |client| {
        let insert = format!("INSERT INTO orders (item) VALUES {}", vec!["('multi')"; 1000].join(", "));
        for _ in 0..50 {
            client.batch_execute(&insert)?;
        }
        Ok(())
    }),
    ("COPY", |client| {
        let mut copy = client.copy_in("COPY orders (item) FROM STDIN")?;
        for _ in 0..150_000 {
            copy.write_all(b"copy\n")?;
        }
        copy.finish()?;
        Ok(())
    }),
    ("INSERT ... SELECT", |client| {
        let insert = "INSERT INTO orders (item) SELECT 'select' FROM generate_series(1, 50000)";
        for _ in 0..3 {
            client.batch_execute(insert)?;
        }
        Ok(())
    }),
];

fn main() -> Result<()> {
    println!("\n==> Starting {SHARDS} throwaway servers in a temporary directory, workers 0 to {}", SHARDS - 1);
    let mut shards = Vec::new();
    for worker in 0..SHARDS {
        let shard = Cluster::builder().worker(worker).set("timezone", "UTC").start();
        println!(
            "    shard {worker}: snowflake_pg.worker_id = {worker}, psql -h {} -U postgres",
            shard.host().display()
        );
        shards.push(shard);
    }

    println!("\n==> Creating the same table on each\n\n{TABLE};");
    for shard in &shards {
        shard.connect().batch_execute(&format!("CREATE EXTENSION snowflake_pg; {TABLE}"))?;
    }

    println!("\n==> Drawing a first ID from each: a new server waits five seconds, once");
    thread::scope(|scope| {
        for shard in &shards {
            scope.spawn(|| value(&mut shard.connect(), "SELECT snowflake_nextval()"));
        }
    });

    println!("\n==> Filling all shards at once, with {} connections each", LOADS.len());
    for (name, _) in LOADS {
        println!("    {name}");
    }
    let began = Instant::now();
    thread::scope(|scope| {
        let loads: Vec<_> = shards
            .iter()
            .flat_map(|shard| LOADS.map(|(_, load)| scope.spawn(move || load(&mut shard.connect()))))
            .collect();
        loads.into_iter().try_for_each(|load| load.join().expect("a connection"))
    })?;
    let took = began.elapsed();

    println!("\n==> Comparing the IDs of all shards\n");
    let mut distinct = HashSet::new();
    let mut rows = 0;
    for (worker, shard) in shards.iter().enumerate() {
        let ids = shard.connect().query("SELECT id FROM orders", &[])?;
        println!("    shard {worker}: {:>9} rows", ids.len());
        rows += ids.len();
        distinct.extend(ids.iter().map(|row| row.get::<_, i64>(0)));
    }
    println!("    all shards: {rows:>6} rows, {} distinct IDs", distinct.len());
    println!("    {:.0} rows a second over all shards", f64::from(u32::try_from(rows)?) / took.as_secs_f64());

    println!("\n==> Reading an ID");
    let last = &shards[shards.len() - 1];
    let sample: i64 = last.connect().query_one("SELECT max(id) FROM orders", &[])?.get(0);
    println!("\n{sample}");
    println!("{}\n", "flat".parse::<Layout>()?.explain(sample.cast_unsigned()));
    show(last, &format!("SELECT * FROM snowflake_decode({sample})"))?;

    println!("==> Selecting rows by the time in their ID, by the primary key's index\n");
    let time = |ms_before: i32| {
        let time = format!("SELECT snowflake_timestamp({sample}) - {ms_before} * interval '1 ms'");
        value(&mut last.connect(), &time)
    };
    let query = format!(
        "SELECT count(*), min(created_at), max(created_at) FROM orders\nWHERE snowflake_within(id, '{}', '{}')",
        time(1),
        time(-1)
    );
    last.connect().batch_execute("VACUUM ANALYZE orders")?;
    show(last, &query)?;
    show(last, &format!("EXPLAIN (COSTS OFF) {query}"))?;

    println!("==> Looking after a server\n");
    show(last, r"SELECT * FROM snowflake_status \gx")?;

    if rows != distinct.len() {
        return Err(format!("{} IDs came twice", rows - distinct.len()).into());
    }
    if stdin().is_terminal() && stdout().is_terminal() {
        offer_psql(&shards)?;
    }
    println!("==> Stopping the servers and removing their files");
    Ok(())
}

/// Shows a query and its result as psql does.
fn show(shard: &Cluster, query: &str) -> Result<()> {
    let typed = if query.ends_with(r"\gx") { query.to_owned() } else { format!("{query};") };
    println!("{typed}");
    let mut child = shard.psql().arg("--pset=pager=off").stdin(std::process::Stdio::piped()).spawn()?;
    child.stdin.take().expect("a pipe").write_all(format!("{typed}\n").as_bytes())?;
    if child.wait()?.success() { Ok(()) } else { Err("psql failed".into()) }
}

fn offer_psql(shards: &[Cluster]) -> Result<()> {
    loop {
        print!("==> psql on a shard? Type its number (0 to {}), or Enter to stop: ", shards.len() - 1);
        stdout().flush()?;
        let mut answer = String::new();
        stdin().read_line(&mut answer)?;
        match answer.trim().parse::<usize>().ok().and_then(|number| shards.get(number)) {
            Some(shard) => {
                shield(|| shard.psql().status())?;
            }
            None if answer.trim().is_empty() => return Ok(()),
            None => println!("    There is no shard {}.", answer.trim()),
        }
    }
}
