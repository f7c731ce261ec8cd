//! The page of `/dev/vmclock0`, in which a hypervisor tells a machine that it was restored from a snapshot or cloned.
//!
//! `struct vmclock_abi` of Linux, in include/uapi/linux/vmclock-abi.h. Of its 112 bytes, these matter here:
//!
//! ```text
//!   0               4               8       10      12              16
//!   ┌───────────────┬───────────────┬───────┬───────┬───────────────┐
//!   │ "VCLK"        │ size          │version│       │ sequence count│   integers are little-endian
//!   ├───────────────┴───────────────┼───────┴───────┴───────────────┤
//!   │ disruption marker             │ flags                         │   16 to 32
//!   └───────────────────────────────┴───────────────────────────────┘
//!                                   │ generation of the machine     │   104 to 112
//!                                   └───────────────────────────────┘
//! ```
//!
//! The sequence count is odd while the hypervisor writes, and another one afterwards. The generation is another one
//! whenever the machine was loaded from a saved state. The disruption marker also changes in a live migration, after
//! which there is still one machine, so it does not count here.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Length of the page that is read, in words of eight bytes.
pub const WORDS: usize = 14;

/// The same in bytes.
pub const LENGTH: usize = 8 * WORDS;

/// The words of a page. Others write them.
pub type Page = [AtomicU64; WORDS];

const MAGIC: u32 = u32::from_le_bytes(*b"VCLK");
const VERSION: u16 = 1;
const FLAGS: usize = 3;
const VM_GEN_COUNTER_PRESENT: u64 = 1 << 8;
const GENERATION: usize = 13;

/// Instead of the boot of a machine that was cloned.
const CLONED: u64 = 1;

/// Why a page does not tell the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is something else, or of a version that is not known.
    #[error("is not a page of vmclock")]
    OtherPage,
    /// The hypervisor does not count generations.
    #[error("has no generation counter, which the hypervisor would have to provide")]
    NoCounter,
    /// It is being written.
    #[error("was being written when the server started")]
    BeingWritten,
}

/// The first look at a page: its generation, if it has one.
pub fn first_generation(page: &Page) -> Result<u64, Unusable> {
    let [head, next] = [0, 1].map(|word| word_at(page, word));
    let (magic, size, version) = (low(head), head >> 32, next & 0xFFFF);
    if magic != MAGIC || size < LENGTH as u64 || version != u64::from(VERSION) {
        return Err(Unusable::OtherPage);
    }
    let (flags, generation) =
        between_writes(page, || (word_at(page, FLAGS), word_at(page, GENERATION))).ok_or(Unusable::BeingWritten)?;
    if flags & VM_GEN_COUNTER_PRESENT == 0 { Err(Unusable::NoCounter) } else { Ok(generation) }
}

/// The generation; `None` while the page is being written. Of a page that [had one](first_generation).
#[inline]
pub fn generation(page: &Page) -> Option<u64> {
    between_writes(page, || word_at(page, GENERATION))
}

/// What is read while nobody writes.
#[inline]
fn between_writes<T>(page: &Page, read: impl FnOnce() -> T) -> Option<T> {
    let count = || word_at(page, 1) >> 32;
    let before = count();
    // Relaxed loads and fences: others are not defined for memory that can only be read.
    fence(Ordering::Acquire);
    let read = read();
    fence(Ordering::Acquire);
    (before.is_multiple_of(2) && count() == before).then_some(read)
}

#[inline]
fn word_at(page: &Page, word: usize) -> u64 {
    u64::from_le(page[word].load(Ordering::Relaxed))
}

fn low(word: u64) -> u32 {
    u32::try_from(word & 0xFFFF_FFFF).expect("32 bits")
}

/// The machine on which a server runs, as far as it can tell: which of those that have resumed from one saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// A number for this boot of its kernel, greater than 1; or 1 if it [was cloned](Self::cloned).
    pub boot: u64,
    /// How often it was loaded from a saved state, or another number that changes then.
    pub generation: u64,
}

impl Machine {
    /// The kernel's random number for its boot, made shorter.
    pub fn new(boot_id: u128, generation: u64) -> Self {
        let (high, low) = (boot_id >> 64, boot_id & u128::from(u64::MAX));
        Self { boot: u64::try_from(high ^ low).expect("64 bits").max(CLONED + 1), generation }
    }

    /// What a record names from when its server has noticed that this machine was cloned until somebody accepts that:
    /// no boot, so that a boot does not end it.
    pub fn cloned(self) -> Self {
        Self { boot: CLONED, ..self }
    }

    /// Whether a server has noticed that this machine [was cloned](Self::cloned).
    pub fn is_cloned(&self) -> bool {
        self.boot == CLONED
    }

    /// Whether this machine was restored from a snapshot or cloned since it was `before`, without a boot. After a boot
    /// the counter tells nothing: a hypervisor that starts a machine may begin it anew.
    pub fn was_cloned_since(&self, before: &Self) -> bool {
        self.boot == before.boot && self.generation != before.generation
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The bytes of a page, written out as the header of Linux has them.
    fn bytes(magic: &[u8; 4], size: u32, version: u16, count: u32, flags: u64, generation: u64) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, magic);
        put(4, &size.to_le_bytes());
        put(8, &version.to_le_bytes());
        put(10, &[1, 1]);
        put(12, &count.to_le_bytes());
        put(16, &[7; 8]);
        put(24, &flags.to_le_bytes());
        put(32, &[9; 72]);
        put(104, &generation.to_le_bytes());
        bytes
    }

    fn page(bytes: [u8; LENGTH]) -> Page {
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|word| AtomicU64::new(u64::from_ne_bytes(words[word])))
    }

    #[test]
    fn a_page_tells_its_generation() {
        for generation in [0, 1, u64::MAX] {
            let page = page(bytes(b"VCLK", 4096, 1, 2, 0x1FF, generation));
            assert_eq!((first_generation(&page), super::generation(&page)), (Ok(generation), Some(generation)));
        }
        assert_eq!(first_generation(&page(bytes(b"VCLK", 112, 1, 0, 0x100, 5))), Ok(5), "the least that has it");
    }

    #[test]
    fn what_is_no_page_or_has_no_counter_tells_nothing() {
        let look = |bytes| first_generation(&page(bytes));
        assert_eq!(look([0; LENGTH]), Err(Unusable::OtherPage));
        assert_eq!(look(bytes(b"VCLX", 4096, 1, 2, 0x100, 5)), Err(Unusable::OtherPage));
        assert_eq!(look(bytes(b"VCLK", 111, 1, 2, 0x100, 5)), Err(Unusable::OtherPage));
        for version in [0, 2, 257] {
            assert_eq!(look(bytes(b"VCLK", 4096, version, 2, 0x100, 5)), Err(Unusable::OtherPage));
        }
        assert_eq!(look(bytes(b"VCLK", 4096, 1, 2, 0x2FF & !0x100, 5)), Err(Unusable::NoCounter));
    }

    #[test]
    fn a_page_that_is_being_written_tells_nothing_yet() {
        let page = page(bytes(b"VCLK", 4096, 1, 3, 0x100, 5));
        assert_eq!((first_generation(&page), super::generation(&page)), (Err(Unusable::BeingWritten), None));
    }

    #[test]
    fn a_write_in_the_middle_of_a_read_is_noticed() {
        let page = page(bytes(b"VCLK", 4096, 1, 2, 0x100, 5));
        let read = || {
            page[1].fetch_add(2 << 32, Ordering::Relaxed);
            5
        };
        assert_eq!(between_writes(&page, read), None);
        assert_eq!(between_writes(&page, || 5), Some(5));
    }

    #[test]
    fn a_reader_beside_a_writer_sees_what_was_there_before_or_after() {
        let put = |page: &Page, step| match step {
            0 | 3 => page[1].fetch_add(1 << 32, Ordering::Relaxed),
            1 => page[FLAGS].swap(1 << 9 | 0x100, Ordering::Relaxed),
            _ => page[GENERATION].swap(1, Ordering::Relaxed),
        };
        let mut seen = Vec::new();
        for begin in 0..=4 {
            for end in begin..=4 {
                let page = page(bytes(b"VCLK", 4096, 1, 0, 0x100, 0));
                (0..begin).for_each(|step| _ = put(&page, step));
                let read = || {
                    let flags = word_at(&page, FLAGS) >> 9;
                    (begin..end).for_each(|step| _ = put(&page, step));
                    (flags, word_at(&page, GENERATION))
                };
                seen.extend(between_writes(&page, read));
            }
        }
        assert_eq!(seen, [(0, 0), (1, 1)], "before and after, and never in between");
    }

    #[test]
    fn a_machine_was_cloned_if_its_generation_is_another_one_since_the_same_boot() {
        let machine = Machine::new(1 << 64 | 5, 7);
        assert_eq!(machine, Machine { boot: 4, generation: 7 });
        assert_eq!([0, 1, 2].map(|boot| Machine::new(boot, 7).boot), [2; 3], "0 and 1 are not boots");
        let since = |boot, generation| machine.was_cloned_since(&Machine { boot, generation });
        assert_eq!(
            [since(4, 7), since(4, 6), since(4, 8), since(5, 7), since(5, 6)],
            [false, true, true, false, false]
        );
        assert_eq!(machine.cloned(), Machine { boot: 1, generation: 7 });
        assert_eq!([machine, machine.cloned()].map(|machine| machine.is_cloned()), [false, true]);
    }
}
