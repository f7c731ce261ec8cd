//! Transactions, and readers of the horizon.

use super::{BORROW, HISTORY, Server, explore, positions};
use loom::sync::{Arc, Mutex};
use loom::thread;
use snowflake_core::issue::horizon::{Entry, Horizon};
use snowflake_core::issue::policy::Policy;
use snowflake_core::issue::waiting::Waiting;
use snowflake_core::{Position, Tick};

/// Transactions, and the rows of those that have committed.
struct Table {
    server: Arc<Server>,
    horizon: Horizon,
    entries: [Entry; 2],
    /// In the order of their records in WAL.
    committed: Mutex<Vec<Position>>,
}

impl Table {
    fn new() -> Arc<Self> {
        Self::with(BORROW)
    }

    fn with(policy: Policy) -> Arc<Self> {
        let server = Server::new(policy, 9);
        server.generator.start(1, 1);
        server.generator.cover(9, 9);
        let (horizon, entries) = Default::default();
        Arc::new(Self { server, horizon, entries, committed: Mutex::new(Vec::new()) })
    }

    /// A transaction takes a position.
    fn begin(&self, entry: usize, now: Tick) -> Vec<Position> {
        let entry = &self.entries[entry];
        assert!(entry.enter(&self.server.generator));
        let taken = positions([self.server.take(now, 1)]);
        taken.iter().for_each(|&first| entry.settle(first));
        taken
    }

    /// A transaction takes a position after the clock has gone back: it can be one of the history.
    fn begin_behind(&self, entry: usize, now: Tick) -> Vec<Position> {
        let (entry, generator) = (&self.entries[entry], &self.server.generator);
        entry.enter(generator);
        let snapshot = generator.snapshot();
        if let Some(least) = generator.least_of_history(snapshot, now, &self.server.policy) {
            entry.lower(least);
        }
        positions([self.server.take(now, 1)])
    }

    /// It commits a row with the position.
    fn commit(&self, entry: usize, taken: Vec<Position>) -> Vec<Position> {
        self.committed.lock().unwrap().extend(&taken);
        self.entries[entry].clear();
        taken
    }

    fn insert(&self, entry: usize, now: Tick) -> Vec<Position> {
        let taken = self.begin(entry, now);
        self.commit(entry, taken)
    }

    /// The horizon, and then the rows that are visible.
    fn read(&self) -> (Position, Vec<Position>) {
        let least = || Ok::<_, ()>(self.entries.iter().filter_map(Entry::get).min());
        let horizon = self.horizon.read(&self.server.generator, least).unwrap();
        (horizon, self.committed.lock().unwrap().clone())
    }
}

/// What a reader reads beside the writers. In a thread of its own: what the first thread does is not interleaved with
/// all that others do.
fn reads<T: 'static>(table: &Arc<Table>, read: impl FnOnce(&Table) -> T + 'static) -> T {
    let table = Arc::clone(table);
    thread::spawn(move || read(&table)).join().unwrap()
}

fn assert_complete(horizon: Position, seen: &[Position], taken: &[Position]) {
    let missed: Vec<_> = taken.iter().filter(|&row| *row < horizon && !seen.contains(row)).collect();
    assert!(missed.is_empty(), "below the horizon {horizon}, and not visible: {missed:?}");
}

#[test]
fn every_row_below_the_horizon_is_visible_to_whoever_has_read_it_before() {
    explore(|| {
        let table = Table::new();
        // One has begun before, and the other begins.
        let first = table.begin(0, 2);
        let other = Arc::clone(&table);
        let ends = thread::spawn(move || other.commit(0, first));
        let other = Arc::clone(&table);
        let begins = thread::spawn(move || other.insert(1, 3));
        let (horizon, seen) = reads(&table, Table::read);
        let taken = [ends.join().unwrap(), begins.join().unwrap()].concat();
        assert_complete(horizon, &seen, &taken);
        let (last, all) = table.read();
        assert!(taken.iter().all(|&row| row < last && all.contains(&row)), "the horizon stays behind");
    });
}

/// The keeper reads the horizon, and then logs the page, while others read the horizon, too. What is in WAL before the
/// page is what a standby shows with it.
#[test]
fn every_row_below_the_horizon_of_a_page_is_in_wal_before_the_page() {
    explore(|| {
        let table = Table::new();
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || other.insert(0, 2));
        let other = Arc::clone(&table);
        let reader = thread::spawn(move || other.read());
        let (horizon, in_wal) = reads(&table, Table::read);
        let taken = writer.join().unwrap();
        assert_complete(horizon, &in_wal, &taken);
        let (read, seen) = reader.join().unwrap();
        assert_complete(read, &seen, &taken);
    });
}

#[test]
fn the_horizon_never_goes_back_while_one_transaction_follows_the_other() {
    explore(|| {
        let table = Table::new();
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || [other.insert(0, 2), other.insert(0, 3)].concat());
        let ((horizon, seen), (later, seen_later)) = reads(&table, |table| (table.read(), table.read()));
        assert!(later >= horizon, "the horizon went back from {horizon} to {later}");
        let taken = writer.join().unwrap();
        assert_complete(horizon, &seen, &taken);
        assert_complete(later, &seen_later, &taken);
    });
}

/// Two processes of one transaction, such as a parallel query.
#[test]
fn the_horizon_waits_for_a_transaction_of_which_two_processes_take_positions() {
    explore(|| {
        let table = Table::new();
        // Tick 2 is open, and has one position left.
        table.committed.lock().unwrap().extend(positions([table.server.take(2, 1)]));
        let other = Arc::clone(&table);
        let leader = thread::spawn(move || {
            let [entry, _] = &other.entries;
            let shared = Arc::clone(&other);
            let worker = thread::spawn(move || {
                shared.entries[0].enter(&shared.server.generator);
                positions([shared.server.generator.join(2, 1)])
            });
            entry.enter(&other.server.generator);
            let mut taken = positions([other.server.take(3, 1)]);
            taken.extend(worker.join().unwrap());
            other.committed.lock().unwrap().extend(&taken);
            entry.clear();
            taken
        });
        let (horizon, seen) = reads(&table, Table::read);
        assert_complete(horizon, &seen, &leader.join().unwrap());
    });
}

/// The entry moves to the prepared transaction before the process's entry is cleared.
#[test]
fn the_horizon_waits_for_a_transaction_that_is_being_prepared() {
    explore(|| {
        let table = Table::new();
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || {
            let [entry, prepared] = &other.entries;
            entry.enter(&other.server.generator);
            let taken = positions([other.server.take(2, 1)]);
            prepared.copy(entry);
            entry.clear();
            other.committed.lock().unwrap().extend(&taken);
            prepared.clear();
            taken
        });
        let (horizon, seen) = reads(&table, Table::read);
        assert_complete(horizon, &seen, &writer.join().unwrap());
    });
}

/// A transaction with the policy `history`, after the clock has gone back. The reader has another policy already.
#[test]
fn no_row_of_the_history_is_missed_by_a_reader_after_the_policy_was_changed() {
    explore(|| {
        let table = Table::with(HISTORY);
        // Tick 3 is closed with a position left over.
        table.committed.lock().unwrap().extend(positions([3, 4].map(|now| table.server.take(now, 1))));
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || {
            let taken = other.begin_behind(0, 3);
            other.commit(0, taken)
        });
        let (horizon, seen) = reads(&table, Table::read);
        let taken = writer.join().unwrap();
        assert_complete(horizon, &seen, &taken);
        let (last, all) = table.read();
        assert!(taken.iter().all(|&row| row < last && all.contains(&row)), "the horizon stays behind");
    });
}

/// A reader that waits announces itself, looks, and sleeps.
#[test]
fn a_reader_that_sees_no_row_is_woken_when_the_transaction_has_ended() {
    explore(|| {
        let table = Table::new();
        let taken = table.begin(0, 2);
        let waiting = Arc::new(Waiting::default());
        let (other, asked) = (Arc::clone(&table), Arc::clone(&waiting));
        let writer = thread::spawn(move || {
            let taken = other.commit(0, taken);
            (taken, asked.take())
        });
        let (horizon, seen) = reads(&table, move |table| {
            waiting.announce();
            table.read()
        });
        let (taken, is_woken) = writer.join().unwrap();
        let is_read = taken.iter().all(|row| *row < horizon && seen.contains(row));
        assert!(is_read || is_woken, "a reader sleeps");
    });
}

/// The model notices a bound that is entered too late.
#[test]
#[should_panic(expected = "below the horizon")]
fn the_model_catches_a_transaction_that_enters_after_it_has_taken_a_position() {
    explore(|| {
        let table = Table::new();
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || {
            let taken = positions([other.server.take(2, 1)]);
            taken.iter().for_each(|&first| other.entries[0].settle(first));
            other.committed.lock().unwrap().extend(&taken);
            other.entries[0].clear();
            taken
        });
        let (horizon, seen) = reads(&table, Table::read);
        assert_complete(horizon, &seen, &writer.join().unwrap());
    });
}

/// And entries that are read before the state.
#[test]
#[should_panic(expected = "below the horizon")]
fn the_model_catches_a_reader_that_looks_at_the_entries_first() {
    explore(|| {
        let table = Table::new();
        let other = Arc::clone(&table);
        let writer = thread::spawn(move || other.insert(0, 2));
        let (horizon, seen) = reads(&table, |table| {
            let least = table.entries.iter().filter_map(Entry::get).min();
            let horizon = table.horizon.read(&table.server.generator, || Ok::<_, ()>(least)).unwrap();
            (horizon, table.committed.lock().unwrap().clone())
        });
        assert_complete(horizon, &seen, &writer.join().unwrap());
    });
}
