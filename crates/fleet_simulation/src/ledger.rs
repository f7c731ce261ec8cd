//! Every ID that a client has received, and which of them came more than once.

use crate::settings::WORKERS;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;

/// How long before the first true time an ID can be, in milliseconds: clocks are behind by less.
const EARLIEST_MS: u64 = 7 * 86_400_000;

/// Bits of a count less 1, and of a sequence number.
const BITS: u32 = 12;

/// All IDs, as spans of adjacent ones, by what the IDs themselves say: their data center and their worker.
#[derive(Debug)]
pub struct Ledger {
    layout: Layout,
    /// The tick from which on spans are counted.
    first_tick: u64,
    /// `tick << 24 | sequence << 12 | count - 1` of each span, for each data center and worker.
    spans: Vec<Vec<u64>>,
}

/// What a ledger has found in the IDs of one data center.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// IDs received.
    pub received: u64,
    /// How many of them were received before.
    pub duplicates: u64,
    /// Workers with IDs.
    pub workers: u64,
}

impl Ledger {
    /// An empty one, for IDs from about this time on.
    pub fn new(layout: Layout, begin: UnixMs) -> Self {
        let first_tick = layout.first_tick_from(begin - EARLIEST_MS);
        Self { layout, first_tick, spans: vec![Vec::new(); 1024] }
    }

    /// Enters adjacent IDs of one tick.
    pub fn receive(&mut self, first_id: u64, count: u64) {
        let worker = self.layout.server_of(first_id);
        let position = self.layout.position(first_id);
        assert!((1..=1 << BITS).contains(&count), "{count} IDs in a tick");
        let begin = self.first_tick << BITS;
        let from = position.checked_sub(begin).expect("no ID is so old");
        assert!(from < 1 << (64 - BITS), "no ID is so new");
        self.spans[usize::try_from(worker).expect("10 bits")].push(from << BITS | (count - 1));
    }

    /// Sorts all IDs of a data center, and counts them.
    pub fn audit(&mut self, datacenter: u32) -> Audit {
        let from = usize::try_from(u64::from(datacenter) * WORKERS).expect("10 bits");
        let mut audit = Audit::default();
        for spans in &mut self.spans[from..from + 32] {
            spans.sort_unstable();
            audit.workers += u64::from(!spans.is_empty());
            let mut reached = 0;
            for span in spans {
                let (first, count) = (*span >> BITS, (*span & ((1 << BITS) - 1)) + 1);
                let end = first + count;
                audit.received += count;
                audit.duplicates += end.min(reached).saturating_sub(first);
                reached = reached.max(end);
            }
        }
        audit
    }
}
