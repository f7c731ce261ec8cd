//! Whether what is counted is counted right.

use fleet_simulation::histogram::Histogram;
use fleet_simulation::ledger::{Audit, Ledger};
use fleet_simulation::settings::layout;

/// A time of these IDs, in Unix milliseconds.
const NOW: u64 = 1_800_000_000_000;

fn id(worker: i64, sequence: i64) -> u64 {
    layout().pack(NOW, 0, 3 * 32 + worker, sequence).expect("an ID")
}

#[test]
fn an_id_counts_as_a_duplicate_each_time_it_comes_again() {
    let mut ledger = Ledger::new(layout(), NOW);
    ledger.receive(id(5, 0), 10);
    ledger.receive(id(6, 0), 10);
    ledger.receive(id(5, 10), 10);
    assert_eq!(ledger.audit(3), Audit { received: 30, duplicates: 0, workers: 2 });
    ledger.receive(id(5, 8), 4);
    ledger.receive(id(5, 8), 1);
    ledger.receive(id(5, 19), 2);
    assert_eq!(ledger.audit(3), Audit { received: 37, duplicates: 6, workers: 2 });
    assert_eq!(ledger.audit(4), Audit::default());
}

#[test]
fn a_histogram_is_exact_for_short_times_and_to_two_percent_for_long_ones() {
    for ms in (0..200).chain([5000, 86_400_000]) {
        let mut histogram = Histogram::default();
        histogram.add(ms, 99);
        histogram.add(u64::MAX / 2, 1);
        let median = histogram.per_mille(500);
        assert!(median <= ms && (ms - median) * 50 <= ms, "{median} for {ms}");
        assert!(ms >= 64 || median == ms, "{median} for {ms}");
        assert_eq!(histogram.max(), u64::MAX / 2);
    }
}
