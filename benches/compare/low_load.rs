//! What a call costs after a pause.
//!
//! A table with a row every few seconds is what most servers have. The durable mark may have passed by then, so that
//! the call has to write it. The keeper prevents that for `keep_warm`; with `keep_warm = 0` each call after a pause of
//! more than `reserve_ahead` pays for its own write. Beside that is a sequence whose transaction commits, since that
//! flushes WAL, as every INSERT does.
//!
//! Each pause has servers of its own, so that all can be measured at the same time. What else is to be known: how often
//! the server flushes its mark in an hour, and when it is idle.

use crate::effort::Effort;
use crate::measure;
use bench_report::{Better, Question, Report};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Builder, Cluster, value};

pub const OURS: &str = "snowflake_nextval()";
/// Without a mark that is kept ahead.
pub const COLD: &str = "snowflake_nextval(), keep_warm 0";
/// Of a transaction that has written WAL, as each INSERT has. A sequence itself writes WAL for one of 32 numbers alone.
pub const COMMITTED: &str = "nextval() that commits";

pub const MEDIAN: Question = Question {
    part: "low_load",
    case: "A call after a pause",
    unit: "us",
    better: Better::Lower,
    reference: COMMITTED,
};
const P99: Question = Question { case: "A call after a pause, p99", ..MEDIAN };
const FLUSHES: Question =
    Question { case: "Flushes of the mark in an hour", unit: "flushes", reference: OURS, ..MEDIAN };
const IDLE: Question =
    Question { case: "Flushes of the mark in an hour, idle server", unit: "flushes", reference: OURS, ..MEDIAN };

const WAL: Question =
    Question { case: "WAL in a second, a call every 0.1 s, by wal_mark", unit: "bytes", reference: WAL_OFF, ..MEDIAN };
/// Of a server that issues no IDs, while somebody reads from it.
const POLLED: Question = Question { case: "WAL in a second, a horizon every 0.1 s, by wal_mark", ..WAL };
const COMMITS: Question =
    Question { case: "Transactions in a second, a call every 0.1 s, by wal_mark", unit: "commits", ..WAL };
const WAL_OFF: &str = "wal_mark off";
const WAL_PREFER: &str = "wal_mark prefer";

/// A way to ask for one ID.
struct Asker {
    name: &'static str,
    statement: &'static str,
    keep_warm: &'static str,
}

const ASKERS: [Asker; 3] = [
    Asker { name: OURS, statement: "SELECT snowflake_nextval()", keep_warm: "1min" },
    Asker { name: COLD, statement: "SELECT snowflake_nextval()", keep_warm: "0" },
    Asker {
        name: COMMITTED,
        statement: "SELECT nextval('plain'), pg_logical_emit_message(true, '', '')",
        keep_warm: "0",
    },
];

/// What was seen of one asker with one pause.
struct Seen {
    /// How long each call took, in microseconds, in ascending order.
    latencies: Vec<f64>,
    /// Flushes of the mark in an hour.
    flushes: f64,
}

pub fn run(effort: Effort, report: &mut Report) {
    let time = effort.pick(Duration::from_secs(240), Duration::from_secs(12));
    let pauses: &[u64] = effort.pick(&[100, 1000, 3000, 10_000, 60_000], &[100, 3000]);
    let began = Instant::now();
    let (seen, idle, logged) = thread::scope(|scope| {
        let idle = scope.spawn(|| idle(time));
        let logged = [WAL_OFF, WAL_PREFER].map(|setting| {
            let calls = ["SELECT count(snowflake_nextval())", "SELECT count(snowflake_horizon())"];
            (setting, calls.map(|call| scope.spawn(move || logged(setting, call, time))))
        });
        let pauses: Vec<_> = pauses.iter().map(|&pause| scope.spawn(move || (pause, after(pause, time)))).collect();
        while began.elapsed() < time {
            measure::progress(usize::try_from(began.elapsed().as_secs()).unwrap_or(0), effort.pick(240, 12));
            sleep(Duration::from_secs(1));
        }
        let seen: Vec<_> = pauses.into_iter().map(|pause| pause.join().expect("a pause")).collect();
        let logged = logged.map(|(setting, logged)| (setting, logged.map(|logged| logged.join().expect("a setting"))));
        (seen, idle.join().expect("an idle server"), logged)
    });
    for (pause, askers) in seen {
        for (asker, Seen { latencies, flushes }) in ASKERS.iter().zip(askers) {
            let p99 = latencies[(latencies.len() * 99).div_ceil(100) - 1];
            report.add_at(&P99, asker.name, pause, vec![p99]);
            report.add_at(&MEDIAN, asker.name, pause, latencies);
            if asker.name != COMMITTED {
                report.add_at(&FLUSHES, asker.name, pause, vec![flushes]);
            }
        }
    }
    report.add(&IDLE, OURS, vec![idle]);
    for (setting, [(bytes, commits), (polled, _)]) in logged {
        report.add(&POLLED, setting, vec![polled]);
        report.add(&WAL, setting, vec![bytes]);
        report.add(&COMMITS, setting, vec![commits]);
    }
}

/// A server and a session, after the first call.
fn server(asker: &Asker) -> (Cluster, Client) {
    let (cluster, mut client) = set_up(Cluster::builder().set("snowflake_pg.keep_warm", asker.keep_warm));
    client.execute(asker.statement, &[]).expect("an ID");
    (cluster, client)
}

fn set_up(builder: Builder) -> (Cluster, Client) {
    let cluster = builder.worker(0).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE SEQUENCE plain").expect("the extension");
    (cluster, client)
}

fn extensions(client: &mut Client) -> f64 {
    value(client, "SELECT mark_extensions FROM snowflake_status").parse().expect("a number")
}

/// Lets each asker call again and again after this pause; their calls take turns.
fn after(pause: u64, time: Duration) -> Vec<Seen> {
    let mut askers: Vec<_> = ASKERS.iter().map(|asker| (asker, server(asker), Vec::new())).collect();
    let before: Vec<_> = askers.iter_mut().map(|(_, (_, client), _)| extensions(client)).collect();
    let began = Instant::now();
    // A pause at least for each, however short the time is.
    while began.elapsed() + Duration::from_millis(pause) <= time || askers[0].2.is_empty() {
        for (asker, (_, client), latencies) in &mut askers {
            // Each after a pause of its own: the first to run on a processor that sleeps would wake it for the others.
            sleep(Duration::from_millis(pause) / u32::try_from(ASKERS.len()).expect("few"));
            let asked = Instant::now();
            client.execute(asker.statement, &[]).expect("an ID");
            latencies.push(measure::nanoseconds(asked.elapsed()) / 1e3);
        }
    }
    let hours = began.elapsed().as_secs_f64() / 3600.0;
    let seen = askers.into_iter().zip(before).map(|((_, (_cluster, mut client), mut latencies), before)| {
        let flushes = (extensions(&mut client) - before) / hours;
        latencies.sort_by(f64::total_cmp);
        Seen { latencies, flushes }
    });
    seen.collect()
}

/// Flushes in an hour of a server that nobody has asked for longer than it stays warm.
fn idle(time: Duration) -> f64 {
    let (_cluster, mut client) = server(&Asker { keep_warm: "5s", ..ASKERS[0] });
    sleep(Duration::from_secs(7));
    let (began, before) = (Instant::now(), extensions(&mut client));
    sleep(time.saturating_sub(Duration::from_secs(7)));
    (extensions(&mut client) - before) / (began.elapsed().as_secs_f64() / 3600.0)
}

/// Bytes of WAL and transactions in a second of a server that does nothing but these calls, with this `wal_mark`.
fn logged(setting: &str, call: &str, time: Duration) -> (f64, f64) {
    let wal_mark = setting.trim_start_matches("wal_mark ");
    let (_cluster, mut client) = set_up(Cluster::builder().set("snowflake_pg.wal_mark", wal_mark));
    let mut number = |query: &str| -> f64 { value(&mut client, query).parse().expect("a number") };
    let written = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')";
    let transactions = "SELECT pg_snapshot_xmax(pg_current_snapshot())";
    number(call);
    // The sequence is created, and what the setup has left to do is done.
    sleep(Duration::from_secs(3));
    let (began, before) = (Instant::now(), [number(written), number(transactions)]);
    while began.elapsed() + Duration::from_secs(3) < time {
        number(call);
        sleep(Duration::from_millis(100));
    }
    let seconds = began.elapsed().as_secs_f64();
    ((number(written) - before[0]) / seconds, (number(transactions) - before[1]) / seconds)
}
