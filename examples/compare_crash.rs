//! What a client has received before a crash comes again after it, or does not: PostgreSQL's own sequences beside
//! snowflake_nextval(), on a server with stock settings.
//!
//! A sequence logs 32 values at a time, and the log is flushed when the transaction that took the first of them
//! commits. Who takes one of the others has received it before.
//!
//! Run with `make demo NAME=compare-crash`; `ROUNDS=20` for another number of rounds.

use std::collections::HashSet;
use std::error::Error;
use std::process::ExitCode;
use testbed::Cluster;
use testbed::postgres::Client;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Sessions that take a value each before the crash, and as many after it.
const SESSIONS: usize = 10;

/// What is asked for: its name, how it is made, and how a value is taken.
const GENERATORS: [(&str, &str, &str); 2] = [
    ("nextval()", "CREATE SEQUENCE numbers", "SELECT nextval('numbers')"),
    ("snowflake_nextval()", "CREATE EXTENSION snowflake_pg", "SELECT snowflake_nextval()"),
];

/// What was seen of one generator.
#[derive(Default)]
struct Seen {
    received: HashSet<i64>,
    received_again: usize,
    crashes_with_repetition: usize,
}

fn main() -> Result<ExitCode> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(8), |rounds| rounds.parse())?;
    println!("==> Killing a server (-9) {rounds} times for each generator, between values that clients receive\n");
    println!(
        "{:<20} {:>7} {:>16} {:>15} {:>23}",
        "generator", "crashes", "values received", "received again", "crashes with repetition"
    );
    let [theirs, ours] = GENERATORS.map(|(name, create, take)| -> Result<Seen> {
        let seen = compare(create, take, rounds)?;
        let received = seen.received.len() + seen.received_again;
        println!(
            "{name:<20} {rounds:>7} {received:>16} {:>15} {:>23}",
            seen.received_again, seen.crashes_with_repetition
        );
        Ok(seen)
    });
    theirs?;
    Ok(if ours?.received_again == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Takes values from a new server, and again after each time that it was killed.
fn compare(create: &str, take: &str, rounds: usize) -> Result<Seen> {
    let mut server = Cluster::builder().worker(1).start();
    server.connect().batch_execute(create)?;
    let mut seen = Seen::default();
    let mut open = take_values(&server, take, &mut seen)?;
    for _ in 0..rounds {
        server.kill_all();
        drop(open);
        server.start();
        let before = seen.received_again;
        open = take_values(&server, take, &mut seen)?;
        seen.crashes_with_repetition += usize::from(seen.received_again > before);
    }
    Ok(seen)
}

/// Takes the first value in a transaction that is still open when the server is killed, and others in sessions that do
/// nothing else. Returns the session of the first.
fn take_values(server: &Cluster, take: &str, seen: &mut Seen) -> Result<Client> {
    let mut open = server.connect();
    open.batch_execute("BEGIN")?;
    seen.take(&mut open, take)?;
    (0..SESSIONS).try_for_each(|_| seen.take(&mut server.connect(), take))?;
    Ok(open)
}

impl Seen {
    fn take(&mut self, session: &mut Client, take: &str) -> Result<()> {
        let value: i64 = session.query_one(take, &[])?.get(0);
        if !self.received.insert(value) {
            self.received_again += 1;
        }
        Ok(())
    }
}
