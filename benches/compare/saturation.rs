//! How close a saturated server comes to the layout's own rate, and what it costs to wait for it.
//!
//! The layout `twitter` allows 4,096 IDs a millisecond, so 4,096,000 a second. First one backend and then two ask for
//! as many as they can get. Then 64 do, each statement for a little more than a tick holds, so that nearly all of them
//! wait nearly always: for the same tick. It is then asked, too, whether each gets its share, and whether those that
//! wait keep the processors from others.

use crate::contenders::OURS;
use crate::effort::Effort;
use crate::measure::{Backend, cpu_time, progress, rounds};
use crate::servers::Servers;
use crate::settings::Setting;
use bench_report::{Better, Question, Report};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use testbed::postgres::Statement;
use testbed::value;

pub const SHARE: Question = Question {
    part: "saturation",
    case: "Share of the layout's 4,096,000 IDs a second, by the number of backends",
    unit: "%",
    better: Better::Higher,
    reference: OURS.name,
};
pub const FULLEST: Question = Question { case: "Most IDs in one tick", unit: "IDs", ..SHARE };
pub const QUEUE: Question = Question { case: "Share of the layout's rate, 64 backends", ..SHARE };
pub const FAIRNESS: Question = Question { case: "Fewest IDs of one of 64 backends, as a share of the most", ..SHARE };
pub const CPU: Question =
    Question { case: "CPU time of 64 backends in a second", unit: "ms", better: Better::Lower, ..SHARE };

/// How many IDs a second the default layout has.
pub const RATE: f64 = 4_096_000.0;

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    let time = effort.pick(Duration::from_secs(2), Duration::from_millis(500));
    let repeat = effort.pick(5, 1);

    // A series in FROM would be made first, as a whole, and nothing be asked for meanwhile.
    let statement = "SELECT count(snowflake_nextval()) FROM (SELECT generate_series(1, 400000)) series";
    let counts = [1, 2];
    let mut askers = counts.map(|count| connect(servers, count, statement));
    let shares = rounds(repeat, &mut askers, |askers| together(askers, 400_000, time).share());
    for (count, shares) in counts.into_iter().zip(shares) {
        report.add_at(&SHARE, OURS.name, count, shares);
    }

    let fullest = value(
        &mut servers.connect(Setting::Default),
        "SELECT max(ids) FROM (SELECT count(*) AS ids
             FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, 2000000)) ids
             GROUP BY snowflake_timestamp(id)) ticks",
    );
    report.add(&FULLEST, OURS.name, vec![fullest.parse().expect("a number")]);

    let mut askers = connect(servers, 64, "SELECT count(*) FROM snowflake_nextvals(5000)");
    let mut queued = Vec::new();
    for round in 0..=repeat {
        progress(round, repeat);
        queued.push(together(&mut askers, 5000, time));
    }
    // The first round was to warm up.
    let values = |value: fn(&Shares) -> f64| queued[1..].iter().map(value).collect();
    report.add(&QUEUE, OURS.name, values(Shares::share));
    report.add(&FAIRNESS, OURS.name, values(Shares::fairness));
    report.add(&CPU, OURS.name, values(|shares| shares.cpu_time / shares.time * 1e3));
}

/// A session with the statement that it repeats.
type Asker = (Backend, Statement);

fn connect(servers: &Servers, count: u64, statement: &str) -> Vec<Asker> {
    let asker = |_| {
        let mut backend = Backend::of(servers, &OURS);
        let statement = backend.client.prepare(statement).expect("a statement");
        (backend, statement)
    };
    (0..count).map(asker).collect()
}

/// What backends got while they repeated a statement together.
struct Shares {
    /// How many IDs each of them got.
    ids: Vec<u32>,
    /// How long it took all of them, in seconds.
    time: f64,
    /// The CPU time of all of them, in seconds.
    cpu_time: f64,
}

impl Shares {
    /// All IDs a second, as a share of the layout's rate in percent.
    fn share(&self) -> f64 {
        self.ids.iter().copied().map(f64::from).sum::<f64>() / self.time / RATE * 100.0
    }

    fn fairness(&self) -> f64 {
        let (last, first) = (self.ids.iter().min().expect("a backend"), self.ids.iter().max().expect("a backend"));
        f64::from(*last) / f64::from(*first) * 100.0
    }
}

/// Lets backends repeat their statement, for so many IDs, for a while, all at the same time.
fn together(askers: &mut [Asker], ids: u32, time: Duration) -> Shares {
    let spent = |askers: &[Asker]| -> Duration { askers.iter().map(|(backend, _)| cpu_time(backend.process())).sum() };
    let before = spent(askers);
    let start = Barrier::new(askers.len() + 1);
    let ask = |(backend, statement): &mut Asker| {
        start.wait();
        let (since, mut received) = (Instant::now(), 0);
        while since.elapsed() < time {
            backend.client.execute(&*statement, &[]).expect("IDs");
            received += ids;
        }
        received
    };
    let (ids, time) = thread::scope(|scope| {
        let threads: Vec<_> = askers.iter_mut().map(|asker| scope.spawn(|| ask(asker))).collect();
        start.wait();
        let since = Instant::now();
        let ids = threads.into_iter().map(|thread| thread.join().expect("a client")).collect();
        (ids, since.elapsed().as_secs_f64())
    });
    Shares { ids, time, cpu_time: (spent(askers) - before).as_secs_f64() }
}
