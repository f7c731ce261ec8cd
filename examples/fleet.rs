//! Five servers with one configuration file, word for word: each finds its worker ID in its environment, in its host's
//! name, or leases it from a registry. Then all are asked for a million IDs at once.
//!
//! Run with `make demo NAME=fleet`. Only root can give the servers hosts with names.

use std::error::Error;
use std::panic::resume_unwind;
use std::thread;
use testbed::{Builder, Cluster, Registry, can_name_hosts, value};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SERVERS: usize = 5;
const IDS: usize = 1_000_000;

fn main() -> Result<()> {
    let environment =
        |nth: usize| Cluster::builder().worker("env:POD_NAME").environment("POD_NAME", &format!("pg-{nth}"));
    show("snowflake_pg.worker_id = 'env:POD_NAME'", environment)?;
    if can_name_hosts() {
        let host = |nth: usize| Cluster::builder().worker("hostname").host_name(&format!("pg-{nth}"));
        show("snowflake_pg.worker_id = 'hostname'", host)?;
    } else {
        println!("==> Left out: only root can give servers hosts with names\n");
    }
    let registry = Registry::start();
    let leased = |nth: usize| {
        let member = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
        if can_name_hosts() { member.host_name(&format!("pg-{nth}")) } else { member }
    };
    show("snowflake_pg.worker_id = 'registry'", leased)?;
    println!("What the registry knows of them:\n");
    let view = "SELECT worker_id, state, host, date_trunc('second', renewed_at) AS renewed_at,
        date_trunc('second', granted_until) AS granted_until, clock_offset FROM snowflake_registry.workers";
    let output = registry.psql().args(["--command", view]).output()?;
    println!("{}", String::from_utf8(output.stdout)?);
    Ok(())
}

/// Starts servers that differ in nothing but their host, and takes IDs from all of them.
fn show(setting: &str, server: impl Fn(usize) -> Builder) -> Result<()> {
    println!("==> Five servers with {setting}");
    let servers: Vec<Cluster> = (0..SERVERS)
        .map(|nth| {
            let server = server(nth).start();
            server.connect().batch_execute("CREATE EXTENSION snowflake_pg")?;
            server.wait_until("SELECT snowflake_nextval() > 0");
            Ok(server)
        })
        .collect::<Result<_>>()?;
    for (nth, server) in servers.iter().enumerate() {
        let of = "SELECT format('worker_id = %s, from %s', worker_id, worker_id_source) FROM snowflake_status";
        println!("    server {nth}: {}", value(&mut server.connect(), of));
    }
    let mut ids: Vec<i64> = thread::scope(|scope| {
        let taken: Vec<_> = servers.iter().map(|server| scope.spawn(move || take(server))).collect();
        let taken = taken.into_iter().map(|ids| ids.join().unwrap_or_else(|panic| resume_unwind(panic)));
        taken.collect::<Result<Vec<_>>>()
    })?
    .concat();
    let received = ids.len();
    ids.sort_unstable();
    ids.dedup();
    println!("    {received} IDs received, {} of them different\n", ids.len());
    if ids.len() == received && received == SERVERS * IDS { Ok(()) } else { Err("duplicates".into()) }
}

fn take(server: &Cluster) -> Result<Vec<i64>> {
    let query = format!("SELECT snowflake_nextval() FROM generate_series(1, {IDS})");
    Ok(server.connect().query(&query, &[])?.iter().map(|row| row.get(0)).collect())
}
