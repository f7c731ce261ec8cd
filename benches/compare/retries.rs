//! How often backends that want an ID at the same time lose the race for a position, and try again.
//!
//! Not on a server: a counter there would be one more word for which the losers race. These are threads with a loop
//! like the core's `claim_while`. A compare-and-swap costs them what it costs processes with shared memory.

use crate::effort::Effort;
use crate::measure::rounds;
use bench_report::{Better, Question, Report};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const RETRIES: Question = Question {
    part: "last_page",
    case: "Failed compare-and-swaps of 1,000 IDs, with threads as clients",
    unit: "retries",
    better: Better::Lower,
    reference: BETWEEN[0].0,
};

/// What threads do between two IDs. A statement that does nothing but ask for IDs takes less than a microsecond for
/// each, and an INSERT takes more for a row.
const BETWEEN: [(&str, Duration); 2] =
    [("nothing between two IDs", Duration::ZERO), ("1 us between two IDs", Duration::from_micros(1))];

pub fn run(effort: Effort, report: &mut Report) {
    for threads in effort.pick(vec![2, 4, 16, 64], vec![4, 64]) {
        let time = effort.pick(Duration::from_millis(250), Duration::from_millis(100));
        let retries = rounds(effort.pick(5, 1), &mut BETWEEN.clone(), |&mut (_, between)| race(threads, between, time));
        for ((name, _), retries) in BETWEEN.into_iter().zip(retries) {
            report.add_at(&RETRIES, name, threads, retries);
        }
    }
}

/// The last position issued, on a cache line of its own.
#[repr(align(128))]
struct State(AtomicU64);

/// Lets threads ask for IDs for a while, and returns how many attempts failed for 1,000 IDs.
#[expect(clippy::cast_precision_loss, reason = "of a ratio")]
fn race(threads: u64, between: Duration, time: Duration) -> f64 {
    let state = State(AtomicU64::new(0));
    let (is_over, start) = (AtomicBool::new(false), Barrier::new(usize::try_from(threads).expect("few") + 1));
    let ask = || {
        let mut failed = 0_u64;
        start.wait();
        while !is_over.load(Ordering::Relaxed) {
            let mut seen = state.0.load(Ordering::Relaxed);
            while let Err(now) = state.0.compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed) {
                seen = now;
                failed += 1;
            }
            if !between.is_zero() {
                let since = Instant::now();
                while since.elapsed() < between {}
            }
        }
        failed
    };
    let failed: u64 = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(ask)).collect();
        start.wait();
        sleep(time);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a thread")).sum()
    });
    failed as f64 / state.0.into_inner() as f64 * 1000.0
}
