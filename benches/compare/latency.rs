//! How long single calls take under load.
//!
//! 16 clients of pgbench ask for one ID at a time, and every statement counts: the slow ones are what users notice.
//! They ask 10,000 times a second, whoever answers. At full speed a contender that answers faster would be asked more
//! often, and all would mostly wait for the cores. What remains of that is seen beside `clock_timestamp()`, which waits
//! for nothing else.
//!
//! This is done three times: as it is; while the durable mark is extended more than ten times a second instead of once,
//! since that is what calls might wait for; and while one checkpoint follows the other, since then the disk is busy,
//! and sequences write more.
//!
//! The first fifth of a second is left out, for all. The first call after a pause writes the mark and takes as long as
//! the disk does; that is documented, and not what is asked here.

use crate::contenders::{CLOCK, Contender, OURS, SEQUENCE};
use crate::effort::Effort;
use crate::measure;
use crate::pgbench::{Clients, Until};
use crate::servers::Servers;
use crate::settings::Setting;
use bench_report::{Better, Question, Report};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::postgres::Client;
use testbed::value;

pub const PLAIN: Question = Question {
    part: "latency",
    case: "Single calls of 16 clients",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
const MARK: Question = Question { case: "Single calls of 16 clients while the mark is extended all the time", ..PLAIN };
const CHECKPOINT: Question = Question { case: "Single calls of 16 clients while checkpoints run", ..PLAIN };

/// Calls of all clients a second: less than what two cores can do.
const RATE: u32 = 10_000;

/// What of all latencies of a round counts: p50, p99, p99.9 and the longest of all, in thousandths.
const SHARES: [u64; 4] = [500, 990, 999, 1000];

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    // More rounds where something must be reached: rare events are to be compared.
    compare(servers, effort.pick(25, 1), report, &PLAIN);

    let mut client = servers.connect(Setting::Default);
    let before = begin_to_extend(servers, &mut client);
    // It is only extended while IDs are asked for, and that must not depend on the contender.
    let ask = |client: &mut Client| {
        client.execute("SELECT snowflake_nextval()", &[]).expect("an ID");
        sleep(Duration::from_millis(10));
    };
    beside(servers, ask, || compare(servers, effort.pick(5, 1), report, &MARK));
    println!("    the mark was extended {} times", extensions(&mut client) - before);
    configure(servers, &mut client, "RESET snowflake_pg.reserve_ahead");

    client
        .batch_execute("CREATE TABLE busy AS SELECT i AS n, repeat('x', 1000) AS text FROM generate_series(1, 1000) i")
        .expect("a table");
    let checkpoint = |client: &mut Client| {
        client.batch_execute("UPDATE busy SET n = n + 1").expect("an update");
        client.batch_execute("CHECKPOINT").expect("a checkpoint");
    };
    let checkpoints = beside(servers, checkpoint, || compare(servers, effort.pick(5, 1), report, &CHECKPOINT));
    println!("    {checkpoints} checkpoints ran");
    client.batch_execute("DROP TABLE busy").expect("the table");
}

/// Lets contenders take turns on the server that has them all.
fn compare(servers: &Servers, rounds: usize, report: &mut Report, question: &Question) {
    let (contenders, seconds): (&[Contender], _) =
        if rounds > 1 { (&[OURS, SEQUENCE, CLOCK], 2) } else { (&[OURS, SEQUENCE], 1) };
    let mut values = vec![<[Vec<f64>; 4]>::default(); contenders.len()];
    for round in 1..=rounds {
        measure::progress(round, rounds);
        for (contender, values) in contenders.iter().zip(&mut values) {
            for (values, latency) in values.iter_mut().zip(latencies(servers, contender, seconds)) {
                values.push(latency);
            }
        }
    }
    for (contender, values) in contenders.iter().zip(values) {
        for (share, values) in SHARES.into_iter().zip(values) {
            report.add_at(question, contender.name, share, values);
        }
    }
}

fn latencies(servers: &Servers, contender: &Contender, seconds: u32) -> [f64; 4] {
    let statement = format!("SELECT {}", contender.expression);
    let cluster = servers.cluster(contender.setting);
    let latencies =
        Clients { cluster, count: 16, statement: &statement, until: Until::Seconds(seconds) }.latencies(RATE);
    SHARES.map(|share| percentile(&latencies, share))
}

/// The least value that at least so many thousandths of all values do not exceed.
#[expect(clippy::cast_precision_loss, reason = "microseconds: below 2^52")]
fn percentile(sorted: &[u64], share: u64) -> f64 {
    let rank = (sorted.len() * usize::try_from(share).unwrap_or(1000)).div_ceil(1000);
    sorted[rank.max(1) - 1] as f64
}

fn configure(servers: &Servers, client: &mut Client, change: &str) {
    client.batch_execute(&format!("ALTER SYSTEM {change}")).expect("a setting");
    servers.cluster(Setting::Default).reload();
}

fn extensions(client: &mut Client) -> u64 {
    value(client, "SELECT mark_extensions FROM snowflake_status").parse().expect("a number")
}

/// Lets the mark run ahead as little as it may, waits until what it ran ahead before is used up, and returns how often
/// it was extended up to then.
fn begin_to_extend(servers: &Servers, client: &mut Client) -> u64 {
    configure(servers, client, "SET snowflake_pg.reserve_ahead = '100ms'");
    let before = extensions(client);
    loop {
        // It is only extended while IDs are asked for.
        client.execute("SELECT snowflake_nextval()", &[]).expect("an ID");
        let now = extensions(client);
        if now > before {
            return now;
        }
        sleep(Duration::from_millis(10));
    }
}

/// Does something while a session of its own repeats a step; returns how often it did.
fn beside(servers: &Servers, step: impl Fn(&mut Client) + Send, work: impl FnOnce()) -> u32 {
    let mut client = servers.connect(Setting::Default);
    thread::scope(|scope| {
        // Closed when work panics, too; the scope would wait for the thread for ever.
        let (stop, stopped) = mpsc::channel::<()>();
        let steps = scope.spawn(move || {
            let mut steps = 0;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                step(&mut client);
                steps += 1;
            }
            steps
        });
        work();
        drop(stop);
        steps.join().expect("steps")
    })
}
