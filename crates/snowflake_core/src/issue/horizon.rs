//! The position below which no row can appear any more.
//!
//! The rows of a transaction appear when it commits, in whatever order transactions commit. So a reader that has seen
//! an ID can miss a smaller one, of a transaction that commits later. The *horizon* is the position below which every
//! transaction that has taken a position has ended.
//!
//! Each transaction has an [`Entry`]. It enters a lower bound of its positions there before it takes the first one, and
//! clears it when its rows have become visible. A reader reads the state of the generator first, and the entries next.
//! If the state shows a position as taken, its entry was made before, and is seen: the compare-and-swap that takes a
//! position is a Release, and the reader's look at the state is an Acquire. All other positions are above the state,
//! except those from the [history](crate::issue::policy::ClockRegression::History). The reader closes the history up to
//! the state before it reads the entries, and a transaction that has taken a position before has entered it.

use crate::Position;
use crate::issue::generator::Generator;
use crate::issue::sync::{AtomicU64, Ordering};

/// The bound of no transaction.
const NONE: Position = Position::MAX;

/// The first position of a transaction that has not ended, or a bound below it.
#[derive(Debug)]
pub struct Entry(AtomicU64);

impl Default for Entry {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl Entry {
    /// To be called before a transaction takes its first position. Processes that take positions for one transaction
    /// share its entry, and each calls this. True for the first of them.
    pub fn enter(&self, generator: &Generator) -> bool {
        // Relaxed: the compare-and-swap that takes the position publishes it. A position taken later is above the
        // state.
        self.0.fetch_min(generator.last_position() + 1, Ordering::Relaxed) == NONE
    }

    /// Raises the bound to the first position. Only if no other process shares the entry.
    pub fn settle(&self, first: Position) {
        // Release: a reader that sees this sees the rows of the previous transaction.
        self.0.store(first, Ordering::Release);
    }

    /// Lowers the bound. To be called before a position of the history may be taken:
    /// [`least_of_history`](Generator::least_of_history).
    pub fn lower(&self, least: Position) {
        // Relaxed: the history publishes it before a position is taken from it.
        self.0.fetch_min(least, Ordering::Relaxed);
    }

    /// To be called when the rows of the transaction have become visible, or never will.
    pub fn clear(&self) {
        // Release: a reader that sees this sees the rows.
        // mutant: entry-release
        self.0.store(NONE, Ordering::Release);
    }

    /// The bound; `None` without a transaction that has taken a position.
    pub fn get(&self) -> Option<Position> {
        Some(self.0.load(Ordering::Acquire)).filter(|&bound| bound != NONE)
    }

    /// Makes this a copy of another entry, before that one is cleared.
    pub fn copy(&self, from: &Self) {
        self.0.store(from.0.load(Ordering::Relaxed), Ordering::Release);
    }
}

/// The greatest horizon that was read. What was final once remains final, so the horizon never goes back.
#[derive(Debug)]
pub struct Horizon(AtomicU64);

impl Default for Horizon {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Horizon {
    /// The position below which no row can appear any more, for a reader that looks at the rows afterwards.
    /// `least_entered` reads all entries, and returns the least bound.
    pub fn read<E>(
        &self,
        generator: &Generator,
        least_entered: impl FnOnce() -> Result<Option<Position>, E>,
    ) -> Result<Position, E> {
        // The state first, and the entries next.
        // mutant: state-before-entries
        let last = generator.last_position();
        // mutant: history-closed
        generator.close_history(last);
        let horizon = least_entered()?.map_or(last + 1, |least| least.min(last + 1));
        // A transaction that has entered a bound, and not taken a position yet, can make this lower than it was.
        Ok(self.0.fetch_max(horizon, Ordering::AcqRel).max(horizon))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::issue::policy::{ClockRegression, Policy, SequenceExhaustion, SequenceStart};

    const POLICY: Policy = Policy {
        clock_regression: ClockRegression::Borrow,
        sequence_exhaustion: SequenceExhaustion::Wait,
        sequence_start: SequenceStart::Zero,
        max_borrow: 10,
    };

    fn generator() -> Generator {
        let generator = Generator::new(4);
        generator.start(1, 1);
        generator.cover(100, 100);
        generator
    }

    fn take(generator: &Generator, now: u64) -> Position {
        match generator.take(generator.snapshot(), now, 1, &POLICY) {
            crate::issue::generator::Outcome::Taken(span) => span.first,
            other => panic!("{other:?}"),
        }
    }

    fn read(horizon: &Horizon, generator: &Generator, entries: &[Entry]) -> Position {
        let least = || Ok::<_, ()>(entries.iter().filter_map(Entry::get).min());
        horizon.read(generator, least).expect("a horizon")
    }

    #[test]
    fn the_horizon_is_the_first_position_of_the_oldest_transaction_or_the_next_to_be_taken() {
        let (generator, horizon) = (generator(), Horizon::default());
        let entries: [Entry; 3] = Default::default();
        assert_eq!(read(&horizon, &generator, &entries), 1 << 4, "nothing was taken: the floor");
        let firsts: Vec<_> = entries
            .iter()
            .zip([3, 3, 5])
            .map(|(entry, now)| {
                assert!(entry.enter(&generator));
                let first = take(&generator, now);
                entry.settle(first);
                take(&generator, now);
                first
            })
            .collect();
        assert_eq!(read(&horizon, &generator, &entries), firsts[0]);
        entries[1].clear();
        assert_eq!(read(&horizon, &generator, &entries), firsts[0], "a later transaction has ended");
        entries[0].clear();
        assert_eq!(read(&horizon, &generator, &entries), firsts[2]);
        entries[2].clear();
        assert_eq!(read(&horizon, &generator, &entries), generator.last_position() + 1);
    }

    #[test]
    fn the_horizon_does_not_go_back_when_a_transaction_enters_an_old_bound() {
        let (generator, horizon) = (generator(), Horizon::default());
        let entries: [Entry; 1] = Default::default();
        take(&generator, 2);
        entries[0].enter(&generator);
        entries[0].clear();
        let old = generator.last_position() + 1;
        take(&generator, 3);
        let earlier = read(&horizon, &generator, &entries);
        // What a process leaves that was interrupted between its look at the state and its entry.
        entries[0].lower(old);
        assert_eq!(read(&horizon, &generator, &entries), earlier);
    }

    #[test]
    fn the_least_bound_counts_when_processes_share_an_entry_and_a_copy_keeps_it() {
        let (generator, entry, copy) = (generator(), Entry::default(), Entry::default());
        assert!(entry.enter(&generator));
        let first = entry.get();
        take(&generator, 3);
        assert!(!entry.enter(&generator));
        assert_eq!(entry.get(), first);
        copy.copy(&entry);
        entry.clear();
        assert_eq!((entry.get(), copy.get()), (None, first));
    }

    #[test]
    fn a_transaction_with_a_position_of_the_history_holds_the_horizon_back_and_gets_none_below_it() {
        let (generator, horizon) = (generator(), Horizon::default());
        let entries: [Entry; 1] = Default::default();
        let history = Policy { clock_regression: ClockRegression::History, ..POLICY };
        let take_history = |now| {
            let snapshot = generator.snapshot();
            generator.observe_clock(snapshot, now);
            if let Some(least) = generator.least_of_history(snapshot, now, &history) {
                entries[0].lower(least);
            }
            match generator.take(snapshot, now, 1, &history) {
                crate::issue::generator::Outcome::Taken(span) => span.first,
                other => panic!("{other:?}"),
            }
        };
        take_history(5);
        take_history(9);
        entries[0].enter(&generator);
        let old = take_history(7);
        assert_eq!(old >> 4, 7, "the clock has gone back");
        assert_eq!(read(&horizon, &generator, &entries), 7 << 4);
        entries[0].clear();
        let end = read(&horizon, &generator, &entries);
        assert!(take_history(7) >= end);
        assert_eq!(read(&horizon, &generator, &entries), end);
    }

    #[test]
    fn a_horizon_that_cannot_be_read_leaves_what_was_read_before() {
        let (generator, horizon) = (generator(), Horizon::default());
        let earlier = read(&horizon, &generator, &[]);
        take(&generator, 9);
        assert_eq!(horizon.read(&generator, || Err("unknown")), Err("unknown"));
        assert!(read(&horizon, &generator, &[]) > earlier);
    }
}
