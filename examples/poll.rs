//! Readers that follow a table by ID: how many rows each misses and repeats, with the horizon and without, how far the
//! horizon is behind, and what a transaction does that is left open.
//!
//! 64 writers insert rows, and commit up to 20 ms later, roll back, or prepare. The server is killed twice meanwhile.
//!
//! Run with `make demo NAME=poll`; `SECONDS=10` is how long the writers write, and how long the transaction is open.

use std::error::Error;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Cluster, Reader, Signal, Traffic};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const WRITERS: usize = 64;

/// How far the time in the horizon is behind the clock, in milliseconds.
const LAG: &str =
    "SELECT extract(epoch FROM clock_timestamp() - snowflake_timestamp(snowflake_horizon()))::float8 * 1000";

fn main() -> Result<()> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(60), |seconds| seconds.parse())?;
    let time = Duration::from_secs(seconds);
    let mut cluster = Cluster::builder()
        .worker(7)
        .set("max_connections", WRITERS + 30)
        .set("max_prepared_transactions", 2 * WRITERS)
        .start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg")?;

    println!("==> {WRITERS} writers for {time:?}, with two crashes of the server");
    let traffic = Traffic::start(&cluster, WRITERS);
    let mut lags = Vec::new();
    for _ in 0..2 {
        lags.extend(watch(&mut cluster.connect(), time / 3)?);
        cluster.stop(Signal::KILL);
        cluster.start();
    }
    lags.extend(watch(&mut cluster.connect(), time / 3)?);
    let (written, seen) = traffic.finish();
    println!("{:<46} {:>8} {:>8} {:>8} {:>9}", "reader", "rows", "read", "missed", "repeated");
    for seen in seen {
        let how = match seen.reader {
            Reader::Naive => "id > $last",
            Reader::Horizon => "id > $last AND id < $horizon",
            Reader::Poll => "snowflake_poll(NULL::written, $last, 100)",
        };
        println!("{how:<46} {written:>8} {:>8} {:>8} {:>9}", seen.read, seen.missed, seen.repeated);
    }
    lags.sort_by(f64::total_cmp);
    let quantile = |share: usize| lags[lags.len() * share / 100];
    println!(
        "The horizon was {:.1} ms behind the clock (p50), {:.1} ms (p99), in {} samples.\n",
        quantile(50),
        quantile(99),
        lags.len()
    );

    println!("==> A transaction that is open for {time:?}, while another session inserts a row every 10 ms");
    let [mut forgotten, mut busy, mut reader] = [(); 3].map(|()| cluster.connect());
    forgotten.batch_execute("SET application_name = 'forgotten'; BEGIN; INSERT INTO written VALUES (DEFAULT, '')")?;
    let last: i64 = reader.query_one("SELECT max(id) FROM written", &[])?.get(0);
    let begin = Instant::now();
    let mut inserted = 0;
    for quarter in 1..=4 {
        while begin.elapsed() < time * quarter / 4 {
            inserted += busy.execute("INSERT INTO written (note) VALUES ('new')", &[])?;
            sleep(Duration::from_millis(10));
        }
        show(&mut reader, begin, last, inserted)?;
    }
    forgotten.batch_execute("COMMIT")?;
    show(&mut reader, begin, last, inserted)
}

/// Reads the horizon every 5 ms, and returns how far it was behind.
fn watch(client: &mut Client, time: Duration) -> Result<Vec<f64>> {
    let begin = Instant::now();
    let mut lags = Vec::new();
    while begin.elapsed() < time {
        lags.extend(client.query_one(LAG, &[])?.get::<_, Option<f64>>(0));
        sleep(Duration::from_millis(5));
    }
    Ok(lags)
}

/// Prints what a reader gets, and who holds it back.
fn show(client: &mut Client, begin: Instant, last: i64, inserted: u64) -> Result<()> {
    let polled: i64 =
        client.query_one("SELECT count(*) FROM snowflake_poll(NULL::written, $1, 1000000)", &[&last])?.get(0);
    let lag: f64 = client.query_one(LAG, &[])?.get(0);
    println!(
        "after {:>4.1} s: {inserted} rows inserted, {polled} can be read, the horizon is {:.1} s behind",
        begin.elapsed().as_secs_f64(),
        lag / 1000.0
    );
    let writers = "SELECT concat_ws(' ', 'pid', pid, application_name, state, 'first_id', first_id, 'first_id_at', first_id_at) \
                   FROM snowflake_writers";
    for row in client.query(writers, &[])? {
        println!("              {}", row.get::<_, &str>(0));
    }
    Ok(())
}
