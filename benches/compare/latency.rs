//! How long single calls take under load.
//!
//! 16 clients of pgbench ask for one ID at a time, and every statement counts: the slow ones are what users notice. They ask
//! 10,000 times a second, whoever answers. At full speed a contender that answers faster would be asked more often, and all
//! would mostly wait for the cores. What remains of that is seen beside `clock_timestamp()`, which waits for nothing else.
//!
//! This is done three times: as it is; while the durable mark is extended more than ten times a second instead of once, since
//! that is what calls might wait for; and while one checkpoint follows the other, since then the disk is busy, and sequences
//! write more.
//!
//! The first fifth of a second is left out, for all. The first call after a pause writes the mark and takes as long as the disk
//! does; that is documented, and not what is asked here.

use crate::contenders::{CLOCK, Contender, OURS, SEQUENCE};
use crate::pgbench::Clients;
use crate::report::{Better, Question, Report};
use crate::servers::{Servers, Setting};
use crate::{Effort, measure};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::postgres::Client;
use testbed::value;

pub const P50: Question = Question {
    part: "latency",
    case: "p50 of single calls, 16 clients",
    unit: "us",
    better: Better::Lower,
    reference: OURS.name,
};
pub const P99: Question = Question { case: "p99 of single calls, 16 clients", ..P50 };
pub const P999: Question = Question { case: "p99.9 of single calls, 16 clients", ..P50 };
pub const MAX: Question = Question { case: "Maximum of single calls, 16 clients", ..P50 };

pub const P50_MARK: Question =
    Question { case: "p50 of single calls, 16 clients while the mark is extended all the time", ..P50 };
pub const P99_MARK: Question =
    Question { case: "p99 of single calls, 16 clients while the mark is extended all the time", ..P50 };
pub const P999_MARK: Question =
    Question { case: "p99.9 of single calls, 16 clients while the mark is extended all the time", ..P50 };
pub const MAX_MARK: Question =
    Question { case: "Maximum of single calls, 16 clients while the mark is extended all the time", ..P50 };

pub const P50_CHECKPOINT: Question = Question { case: "p50 of single calls, 16 clients while checkpoints run", ..P50 };
pub const P99_CHECKPOINT: Question = Question { case: "p99 of single calls, 16 clients while checkpoints run", ..P50 };
pub const P999_CHECKPOINT: Question =
    Question { case: "p99.9 of single calls, 16 clients while checkpoints run", ..P50 };
pub const MAX_CHECKPOINT: Question =
    Question { case: "Maximum of single calls, 16 clients while checkpoints run", ..P50 };

/// Calls of all clients a second: less than what two cores can do.
const RATE: u32 = 10_000;

/// What of all latencies of a round counts, in the order of the questions.
const SHARES: [f64; 4] = [0.5, 0.99, 0.999, 1.0];

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    compare(servers, effort, report, [&P50, &P99, &P999, &MAX]);

    let mut client = servers.connect(Setting::Default);
    let before = begin_to_extend(servers, &mut client);
    compare(servers, effort, report, [&P50_MARK, &P99_MARK, &P999_MARK, &MAX_MARK]);
    println!("    the mark was extended {} times", extensions(&mut client) - before);
    configure(servers, &mut client, "RESET snowflake_pg.reserve_ahead");

    let checkpoints = during_checkpoints(client, || {
        compare(servers, effort, report, [&P50_CHECKPOINT, &P99_CHECKPOINT, &P999_CHECKPOINT, &MAX_CHECKPOINT]);
    });
    println!("    {checkpoints} checkpoints ran");
}

/// Lets contenders take turns on the server that has them all.
fn compare(servers: &Servers, effort: Effort, report: &mut Report, questions: [&Question; 4]) {
    let contenders: &[Contender] = effort.pick(&[OURS, SEQUENCE, CLOCK], &[OURS, SEQUENCE]);
    let (rounds, seconds) = effort.pick((5, 2), (1, 1));
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
        for (question, values) in questions.iter().zip(values) {
            report.add(question, contender.name, values);
        }
    }
}

fn latencies(servers: &Servers, contender: &Contender, seconds: u32) -> [f64; 4] {
    let statement = format!("SELECT {}", contender.expression);
    let cluster = servers.cluster(contender.setting);
    let latencies = Clients { cluster, count: 16, statement: &statement, seconds }.latencies(RATE);
    SHARES.map(|share| percentile(&latencies, share))
}

/// The least value that at least this share of all values does not exceed.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a number of values, and microseconds: below 2^52"
)]
fn percentile(sorted: &[u64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted[rank.max(1) - 1] as f64
}

fn configure(servers: &Servers, client: &mut Client, change: &str) {
    client.batch_execute(&format!("ALTER SYSTEM {change}")).expect("a setting");
    servers.cluster(Setting::Default).reload();
}

fn extensions(client: &mut Client) -> u64 {
    value(client, "SELECT mark_extensions FROM snowflake_status").parse().expect("a number")
}

/// Lets the mark run ahead as little as it may, waits until what it ran ahead before is used up, and returns how often it
/// was extended up to then.
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

/// Does something while one checkpoint follows the other, each with a table to write; returns how many there were.
fn during_checkpoints(mut client: Client, work: impl FnOnce()) -> u32 {
    client
        .batch_execute("CREATE TABLE busy AS SELECT i AS n, repeat('x', 1000) AS text FROM generate_series(1, 1000) i")
        .expect("a table");
    thread::scope(|scope| {
        // Closed when work panics, too; the scope would wait for the thread for ever.
        let (stop, stopped) = mpsc::channel::<()>();
        let checkpoints = scope.spawn(move || {
            let mut checkpoints = 0;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                client.batch_execute("UPDATE busy SET n = n + 1").expect("an update");
                client.batch_execute("CHECKPOINT").expect("a checkpoint");
                checkpoints += 1;
            }
            client.batch_execute("DROP TABLE busy").expect("the table");
            checkpoints
        });
        work();
        drop(stop);
        checkpoints.join().expect("checkpoints")
    })
}
