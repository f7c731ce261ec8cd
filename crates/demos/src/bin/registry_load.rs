//! A registry with 1,024 servers, simulated by what their registry clients ask: all start at once, a third dies, as
//! many new ones come, and all renew their leases. Their clocks are hours apart.
//!
//! Run with `make demo NAME=registry-load`. Each exchange is a connection of its own, as a registry client makes it.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::{Client, NoTls, Row};
use testbed::{Cluster, Registry, real_time, value};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SERVERS: usize = 1024;
const GREATEST: usize = SERVERS - 1;
const LEASE_MS: i64 = 20_000;
const HOURS: [i64; 4] = [0, -3, 2, -1];

/// A server, as its registry client knows it.
#[derive(Clone)]
struct Server {
    token: String,
    worker: i64,
    begins: i64,
    granted: i64,
    receipt: String,
    clock_offset_ms: i64,
}

fn main() -> Result<()> {
    let registry = Registry::start_as(Cluster::builder().set("max_connections", 100));
    value(&mut registry.connect(), "SELECT snowflake_registry.set_longest_lease('3 hours')");
    println!(
        "==> {SERVERS} servers start at once, with clocks up to five hours apart; leases of {} s",
        LEASE_MS / 1000
    );
    let (servers, failures) = timed(&registry, "all have a worker", || {
        at_once(0..SERVERS, |nth| claim(&registry, nth, HOURS[nth % HOURS.len()] * 3_600_000))
    })?;
    println!("    {failures} exchanges had to be repeated: the registry allows 100 connections");
    check(&servers)?;

    // Those whose clocks are ahead keep their workers for hours.
    let dies = |server: &Server| server.clock_offset_ms <= 0;
    let dead: Vec<usize> = (0..SERVERS).filter(|&nth| dies(&servers[nth])).take(SERVERS / 3).collect();
    println!("==> {} of them die, and as many new ones come; all others renew their leases", dead.len());
    let mut all = servers.clone();
    let (renewed, _) = timed(&registry, "all others have renewed", || {
        let alive = (0..SERVERS).filter(|nth| !dead.contains(nth));
        at_once(alive, |nth| renew(&registry, &servers[nth]))
    })?;
    let (new, _) = timed(&registry, "all new ones have a worker, of leases that had to end first", || {
        at_once(SERVERS..SERVERS + dead.len(), |nth| claim(&registry, nth, 0))
    })?;
    all.extend(new.iter().cloned());
    check(&[renewed, new].concat())?;
    disjoint(&all)?;
    Ok(())
}

/// Says how long something took, and what it cost the registry.
fn timed<T>(
    registry: &Registry,
    what: &str,
    work: impl FnOnce() -> Result<(Vec<T>, usize)>,
) -> Result<(Vec<T>, usize)> {
    let wal = |client: &mut Client| value(client, "SELECT pg_current_wal_lsn()");
    let (mut client, began) = (registry.connect(), Instant::now());
    let before = wal(&mut client);
    let (done, failures) = work()?;
    let seconds = began.elapsed().as_secs_f64();
    let bytes: f64 = value(&mut client, &format!("SELECT pg_current_wal_lsn() - '{before}'::pg_lsn")).parse()?;
    let count = f64::from(u32::try_from(done.len())?);
    println!(
        "    {what}: {seconds:.1} s for {count}, {:.0} a second, {:.0} bytes of WAL each",
        count / seconds,
        bytes / count
    );
    Ok((done, failures))
}

/// Lets all of them ask at the same time, each in a thread, until they have an answer. Returns how many had to ask
/// again, too.
fn at_once<T: Send>(
    servers: impl IntoIterator<Item = usize>,
    ask: impl Fn(usize) -> Result<T> + Sync,
) -> Result<(Vec<T>, usize)> {
    let failures = Mutex::new(0);
    let answers = thread::scope(|scope| {
        let ask = |nth| {
            let deadline = Instant::now() + Duration::from_secs(120);
            // As a registry client: from a second on, up to a tenth of the lease.
            let mut pause = Duration::from_secs(1);
            loop {
                match ask(nth) {
                    Ok(answer) => return Ok(answer),
                    Err(error) if Instant::now() > deadline => return Err(error),
                    Err(_) => *failures.lock().expect("a number") += 1,
                }
                sleep(pause);
                pause = (pause * 2).min(Duration::from_secs(2));
            }
        };
        let threads: Vec<_> = servers.into_iter().map(|nth| scope.spawn(move || ask(nth))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect::<Result<Vec<_>>>()
    })?;
    let failures = *failures.lock().expect("a number");
    Ok((answers, failures))
}

fn session(registry: &Registry) -> Result<Client> {
    let mut client = registry.config().user("fleet").connect(NoTls)?;
    let hello = "SELECT registry_version, clock FROM snowflake_registry.server_hello(
        held_token => NULL, held_until => NULL, held_receipt => NULL, worker_id => NULL, seen_revision => NULL)";
    client.query(hello, &[])?;
    Ok(client)
}

/// What a server says of itself.
fn about(lease_ms: i64, clock_offset_ms: i64) -> String {
    let clock = i64::try_from(real_time()).expect("this age") + clock_offset_ms;
    format!(
        "'{{\"lease_ms\": {lease_ms}, \"clock\": {clock}, \"clock_offset_ms\": {clock_offset_ms}, \"issued_until\": 0,
            \"layout\": \"t41 w15 s7\", \"system_identifier\": 1, \"host\": \"simulated\", \"port\": 5432}}'"
    )
}

fn one(rows: Vec<Row>) -> Result<Row> {
    rows.into_iter().next().ok_or_else(|| "no row".into())
}

fn claim(registry: &Registry, nth: usize, clock_offset_ms: i64) -> Result<Server> {
    let token = format!("00000000-0000-4000-8000-{nth:012}");
    let query = format!(
        "SELECT worker_id, begins_at, granted_until, receipt FROM snowflake_registry.server_claim(
            held_tokens => '{{}}', new_token => '{token}', configured_worker_id => NULL, least_worker_id => 0,
            greatest_worker_id => {GREATEST}, avoided_worker_id => NULL, about => {})",
        about(LEASE_MS, clock_offset_ms)
    );
    let row = one(session(registry)?.query(&query, &[])?)?;
    let (worker, begins, granted, receipt) = (row.get(0), row.get(1), row.get(2), row.get(3));
    Ok(Server { token, worker, begins, granted, receipt, clock_offset_ms })
}

fn renew(registry: &Registry, server: &Server) -> Result<Server> {
    let Server { token, worker, granted, receipt, clock_offset_ms, .. } = server;
    let next = token.replacen("0000-4", "0001-4", 1);
    let query = format!(
        "SELECT granted_until, receipt FROM snowflake_registry.server_renew(
            held_tokens => '{{{token}}}', new_token => '{next}', held_until => {granted}, held_receipt => '{receipt}',
            worker_id => {worker}, seen_revision => 0, about => {})",
        about(3_600_000, *clock_offset_ms)
    );
    let row = one(session(registry)?.query(&query, &[])?)?;
    let granted: Option<i64> = row.get(0);
    let granted = granted.ok_or("a renewal was refused")?;
    Ok(Server { token: next, granted, receipt: row.get(1), ..server.clone() })
}

/// Servers that run have different workers.
fn check(servers: &[Server]) -> Result<()> {
    let workers: HashSet<_> = servers.iter().map(|server| server.worker).collect();
    println!("    {} servers have {} different workers", servers.len(), workers.len());
    if workers.len() == servers.len() { Ok(()) } else { Err("two servers have one worker".into()) }
}

/// What was granted of one worker to one server is never granted to another one.
fn disjoint(servers: &[Server]) -> Result<()> {
    let mut grants: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
    for server in servers {
        grants.entry(server.worker).or_default().push((server.begins, server.granted));
    }
    let shared = grants.values().filter(|grants| grants.len() > 1).count();
    for grants in grants.values_mut() {
        grants.sort_unstable();
        if grants.windows(2).any(|pair| pair[0].1 > pair[1].0) {
            return Err("two grants overlap".into());
        }
    }
    println!("    {shared} workers had two servers one after the other; no grants overlap");
    Ok(())
}
