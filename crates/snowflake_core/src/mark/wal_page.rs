//! The marks that WAL takes to standbys and backups, for all workers of a database cluster, on one page of its own.
//!
//! [`formats`](crate::formats) has the places of its bytes, behind PostgreSQL's page header.
//!
//! A mark of 0 says that the worker has issued IDs without a mark here. The worker whose bits are all 1 stands for
//! every worker that is not listed.
//!
//! The page also has the [horizon](PageHorizon) of the primary, for readers on standbys.

use crate::UnixMs;
use crate::formats::{CHECKSUM, Format, Newer, Release, u32_at, u64_at};
use crate::id::layout::Layout;
use crate::server::identity::Worker;
use std::collections::BTreeMap;

/// The number of the file of this page, in the directory `global`. It is below the numbers that PostgreSQL gives to
/// files when a cluster runs, and above its shared catalogs' (access/transam.h: FirstNormalObjectId,
/// FirstUnpinnedObjectId), so no other file gets it.
pub const FILE: u32 = 16111;

const FORMAT: Format = Format { magic: *b"SNOWMARK", version: 1, readable_by: Release::FIRST };
/// Instead of a mark: how far the worker has come is not known here.
const UNKNOWN: UnixMs = 0;
/// Instead of a worker: every worker that is not listed.
const OTHERS: Worker = Worker::MAX;
const COMMON: usize = 24;
const LAYOUT: std::ops::Range<usize> = 32..132;
const COUNT: usize = LAYOUT.end;
const HORIZON: usize = 136;
const ENTRIES: usize = 144;
const ENTRY: usize = 16;
/// How many bytes are free for the fields of a later version.
const FREE: usize = 64;

/// What is on the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WalPage {
    /// Every timestamp that a worker has issued is below its mark, as far as WAL was received; or [`UNKNOWN`].
    marks: BTreeMap<Worker, UnixMs>,
    /// A mark that counts for every worker; 0 if there is none.
    common: UnixMs,
    /// The layout of the server that wrote last.
    layout: Option<Layout>,
    /// How complete a server is that has replayed the page.
    pub horizon: PageHorizon,
    /// What a later library has written behind that.
    later: Vec<u8>,
}

/// How complete a server is that has replayed the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageHorizon {
    /// Nobody has said so, or IDs are issued without marks here.
    #[default]
    Unknown,
    /// IDs are issued below one that readers may have passed.
    Withheld,
    /// Every transaction with an ID below this one has ended, and its end is in WAL before the page. Of the page's
    /// layout.
    Below(u64),
}

impl PageHorizon {
    /// 0 and 1 are no horizon: IDs begin above them.
    const WITHHELD: u64 = 1;

    fn encode(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Withheld => Self::WITHHELD,
            Self::Below(id) => id,
        }
    }

    fn decode(number: u64) -> Self {
        match number {
            0 => Self::Unknown,
            Self::WITHHELD => Self::Withheld,
            id => Self::Below(id),
        }
    }
}

/// What the page says of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InWal {
    /// The worker's mark; `None` if WAL has none.
    pub mark: Option<UnixMs>,
    /// Whether the worker issued IDs without a mark in WAL, which does not know how far it has come.
    pub is_unknown: bool,
    /// A mark that counts for every worker; 0 if there is none.
    pub common: UnixMs,
    /// The highest mark of another worker, or of all; 0 if there is none.
    pub others: UnixMs,
    /// The layout of the server that wrote last; `None` if nobody has.
    pub layout: Option<Layout>,
    /// How complete a server is that has replayed the page.
    pub horizon: PageHorizon,
}

impl InWal {
    /// What an unreadable page says.
    pub fn unreadable() -> Self {
        Self { is_unknown: true, ..Self::default() }
    }

    /// Whether nobody has written the page.
    pub fn is_unwritten(&self) -> bool {
        *self == Self::default()
    }

    /// The mark that counts for the worker; 0 if there is none.
    pub fn highest(&self) -> UnixMs {
        // mutant: all-workers-mark
        self.mark.unwrap_or(0).max(self.common)
    }
}

impl WalPage {
    /// What the page says of a worker.
    pub fn look_up(&self, worker: Worker) -> InWal {
        // mutant: mark-of-worker
        let entry = self.marks.get(&worker).or_else(|| self.marks.get(&OTHERS)).copied();
        let others = self.marks.iter().filter(|&(&other, _)| other != worker).map(|(_, &mark)| mark);
        InWal {
            mark: entry.filter(|&mark| mark != UNKNOWN),
            is_unknown: entry == Some(UNKNOWN),
            common: self.common,
            // mutant: marks-of-others-in-wal
            others: others.fold(self.common, UnixMs::max),
            layout: self.layout,
            horizon: self.horizon,
        }
    }

    /// Raises the mark of a worker to this one, or to one above the present mark: a server that knows the present mark
    /// must see that there were more since. If the page outgrows its room, the lowest mark of another worker is left
    /// out, and counts for every worker.
    pub fn raise(&mut self, worker: Worker, mark: UnixMs, layout: Layout, room: usize) {
        // mutant: mark-rises-in-wal
        self.set(worker, mark.max(self.look_up(worker).highest().saturating_add(1)), layout, room);
    }

    /// Removes the mark of a worker that issues IDs without one from now on. The server that takes the worker over must
    /// know that: a worker that is not on the page has never issued any.
    pub fn disown(&mut self, worker: Worker, layout: Layout, room: usize) {
        self.set(worker, UNKNOWN, layout, room);
        // Nobody will say when IDs are issued below it.
        // mutant: disowned-horizon
        self.horizon = PageHorizon::Unknown;
    }

    fn set(&mut self, worker: Worker, mark: UnixMs, layout: Layout, room: usize) {
        if self.layout != Some(layout) {
            // It was an ID of the other one.
            // mutant: horizon-of-layout
            self.horizon = PageHorizon::Unknown;
        }
        // mutant: layout-to-wal
        self.layout = Some(layout);
        self.marks.insert(worker, mark);
        // mutant: page-leaves-room
        while self.length(FREE) > room {
            // Unknown marks cannot be left out one by one, only all together.
            let others = self.marks.iter().filter(|&(&other, _)| other != worker && other != OTHERS);
            let Some((&lowest, &mark)) = others.min_by_key(|&(_, &mark)| (mark == UNKNOWN, mark)) else { break };
            self.marks.remove(&lowest);
            // mutant: left-out-mark
            self.common = self.common.max(mark);
            if mark == UNKNOWN {
                self.marks.insert(OTHERS, UNKNOWN);
            }
        }
    }

    /// The length of the page with so many bytes of later fields, or those that it has.
    fn length(&self, later: usize) -> usize {
        ENTRIES + self.marks.len() * ENTRY + later.max(self.later.len()) + CHECKSUM
    }

    /// The bytes of the page.
    pub fn encode(&self) -> Vec<u8> {
        let layout = self.layout.map(|layout| layout.to_string()).unwrap_or_default();
        assert!(layout.len() <= LAYOUT.len(), "no layout is that long: {layout}");
        let count = u32::try_from(self.marks.len()).expect("few workers");
        let mut bytes = Vec::with_capacity(self.length(0));
        bytes.resize(COMMON, 0);
        bytes.extend(self.common.to_le_bytes());
        bytes.extend(layout.bytes());
        bytes.resize(COUNT, 0);
        bytes.extend(count.to_le_bytes());
        bytes.resize(HORIZON, 0);
        bytes.extend(self.horizon.encode().to_le_bytes());
        for (worker, mark) in &self.marks {
            bytes.extend([*worker, *mark].map(u64::to_le_bytes).as_flattened());
        }
        // mutant: page-keeps-later-fields
        bytes.extend(&self.later);
        bytes.resize(self.length(0), 0);
        FORMAT.seal(&mut bytes);
        bytes
    }

    /// Reads bytes, which other bytes may follow; `None` if they are no such page, or damaged. Then they say nothing.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, Newer> {
        Ok(FORMAT.open_if_whole(bytes, ENTRIES)?.and_then(Self::read))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let count = usize::try_from(u32_at(bytes, COUNT)).ok()?;
        let (entries, later) = bytes[ENTRIES..].split_at_checked(count.checked_mul(ENTRY)?)?;
        let layout = std::str::from_utf8(&bytes[LAYOUT]).ok()?.trim_end_matches('\0');
        let (entries, _) = entries.as_chunks::<ENTRY>();
        Some(Self {
            marks: entries.iter().map(|entry| (u64_at(entry, 0), u64_at(entry, 8))).collect(),
            common: u64_at(bytes, COMMON),
            // One that this library does not know is no page without a layout.
            layout: if layout.is_empty() { None } else { Some(Layout::from_spelled_out(layout)?) },
            horizon: PageHorizon::decode(u64_at(bytes, HORIZON)),
            later: later.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ROOM: usize = 8192 - 24;

    fn layout() -> Layout {
        "flat".parse().expect("a layout")
    }

    fn decoded(bytes: &[u8]) -> Option<WalPage> {
        WalPage::decode(bytes).expect("a format of this library")
    }

    #[test]
    fn a_page_keeps_the_mark_of_each_worker_and_the_layout() {
        let mut page = WalPage::default();
        assert_eq!(page.look_up(1), InWal::default());
        page.raise(1, 100, layout(), ROOM);
        page.raise(4, 50, layout(), ROOM);
        page.raise(1, 90, layout(), ROOM);
        assert_eq!(page.look_up(1).mark, Some(101), "above the one before");
        let read = decoded(&page.encode()).expect("a page");
        assert_eq!(read, page);
        assert_eq!(read.look_up(1), InWal { mark: Some(101), others: 50, layout: Some(layout()), ..InWal::default() });
        assert_eq!((read.look_up(4).mark, read.look_up(5).mark), (Some(50), None));
    }

    #[test]
    fn a_page_keeps_the_horizon_until_the_layout_changes_or_ids_are_issued_without_marks() {
        let mut page = WalPage::default();
        let read = |page: &WalPage| decoded(&page.encode()).expect("a page").horizon;
        page.raise(1, 100, layout(), ROOM);
        assert_eq!(read(&page), PageHorizon::Unknown);
        for horizon in [PageHorizon::Below(u64::MAX >> 1), PageHorizon::Withheld, PageHorizon::Below(77)] {
            page.horizon = horizon;
            page.raise(2, 100, layout(), ROOM);
            assert_eq!((read(&page), page.look_up(3).horizon), (horizon, horizon));
        }
        let mut other = page.clone();
        other.raise(1, 200, "discord".parse().expect("a layout"), ROOM);
        assert_eq!(read(&other), PageHorizon::Unknown);
        page.disown(1, layout(), ROOM);
        assert_eq!(read(&page), PageHorizon::Unknown);
    }

    #[test]
    fn a_page_tells_a_worker_whose_mark_is_not_there_from_one_that_has_never_issued_an_id() {
        let mut page = WalPage::default();
        assert!(page.look_up(1).is_unwritten());
        page.raise(1, 100, layout(), ROOM);
        page.disown(1, layout(), ROOM);
        let read = decoded(&page.encode()).expect("a page");
        assert_eq!(read.look_up(1), InWal { is_unknown: true, layout: Some(layout()), ..InWal::default() });
        assert_eq!(read.look_up(2), InWal { layout: Some(layout()), ..InWal::default() });
        page.raise(1, 50, layout(), ROOM);
        assert_eq!(page.look_up(1), InWal { mark: Some(50), layout: Some(layout()), ..InWal::default() });
    }

    #[test]
    fn a_full_page_leaves_out_the_lowest_mark_before_one_that_is_not_known() {
        let mut page = WalPage::default();
        page.raise(1, 300, layout(), ROOM);
        page.raise(2, 100, layout(), ROOM);
        page.disown(3, layout(), ROOM);
        let room = page.encode().len() + FREE;
        page.raise(2, 200, layout(), room);
        assert_eq!(page.look_up(2).mark, Some(200), "three fit");
        page.raise(4, 400, layout(), room);
        let says = |worker| (page.look_up(worker).mark, page.look_up(worker).is_unknown);
        assert_eq!([1, 2, 3, 4].map(says), [(Some(300), false), (None, false), (None, true), (Some(400), false)]);
        assert_eq!(page.common, 200);
    }

    #[test]
    fn a_page_with_a_layout_that_this_library_does_not_know_is_no_page_without_one() {
        let mut page = WalPage::default();
        page.raise(1, 100, layout(), ROOM);
        let mut bytes = page.encode();
        bytes[LAYOUT.start] = b'?';
        FORMAT.seal(&mut bytes);
        assert_eq!(decoded(&bytes), None);
    }

    #[test]
    fn fields_of_a_later_library_stay_on_the_page_and_there_is_room_for_them() {
        let mut page = WalPage::default();
        (0..600).for_each(|worker| page.raise(worker, 100 + worker, layout(), ROOM));
        let free = ROOM - page.encode().len();
        assert!((FREE..FREE + ENTRY).contains(&free), "{free}");
        page.later = vec![7; FREE];
        let mut read = decoded(&page.encode()).expect("a page");
        assert_eq!(read, page);
        read.raise(600, 1000, layout(), ROOM);
        read.disown(601, layout(), ROOM);
        assert_eq!(read.later, [7; FREE]);
        assert_eq!(read.encode().len(), page.encode().len());
        // More of them than there is room for now.
        page.later = vec![7; 2 * FREE];
        page.raise(600, 1000, layout(), ROOM);
        assert!(page.encode().len() <= ROOM);
    }

    #[test]
    fn a_damaged_page_and_one_that_nobody_has_written_say_nothing() {
        let mut page = WalPage::default();
        page.raise(1, 100, layout(), ROOM);
        let good = page.encode();
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decoded(&bytes), None, "bit {bit}");
        }
        for length in 0..good.len() {
            assert_eq!(decoded(&good[..length]), None, "{length} bytes");
        }
        assert_eq!(decoded(&[0; 100]), None);
        assert_eq!(decoded(&[&good[..], &[7; 100]].concat()), Some(page), "others may follow");
    }

    /// Of each sector of a full page, a disk has the old or the new one. The page header is before the content.
    #[test]
    fn a_page_that_is_torn_between_any_sectors_is_the_old_one_or_the_new_one_or_none() {
        let full = |mark| {
            let mut page = WalPage::default();
            (0..500).for_each(|worker| page.raise(worker, mark + worker, layout(), ROOM));
            let mut bytes = vec![0; 8192];
            let content = page.encode();
            bytes[8192 - ROOM..][..content.len()].copy_from_slice(&content);
            (page, bytes)
        };
        let [(old, old_bytes), (new, new_bytes)] = [100, 10_000].map(full);
        let [mut olds, mut news] = [0, 0];
        for sectors in 0..1_u32 << 16 {
            let mut torn = old_bytes.clone();
            for sector in (0..16).filter(|sector| sectors >> sector & 1 > 0) {
                torn[sector * 512..][..512].copy_from_slice(&new_bytes[sector * 512..][..512]);
            }
            match decoded(&torn[8192 - ROOM..]) {
                Some(page) if page == old => olds += 1,
                Some(page) if page == new => news += 1,
                page => assert_eq!(page, None, "{sectors:b}"),
            }
        }
        assert_eq!((olds, news), (1, 1));
    }

    proptest! {
        /// However many workers come, and however little room there is.
        #[test]
        fn no_worker_is_ever_known_by_less_than_its_highest_mark(
            raises in prop::collection::vec((0_u64..60, 0_u64..1000, prop::bool::weighted(0.2)), 1..300),
            room in 204_usize..768,
        ) {
            let (mut page, mut highest) = (WalPage::default(), BTreeMap::new());
            for (worker, mark, is_off) in raises {
                let highest_before = page.look_up(worker).highest();
                if is_off {
                    page.disown(worker, layout(), room);
                    highest.insert(worker, None);
                } else {
                    page.raise(worker, mark, layout(), room);
                    let raised = page.look_up(worker).mark.expect("the one that was raised last");
                    prop_assert!(raised >= mark && raised > highest_before);
                    highest.insert(worker, Some(raised));
                }
                for (&worker, &mark) in &highest {
                    let in_wal = page.look_up(worker);
                    let is_safe = mark.map_or(in_wal.is_unknown, |mark| in_wal.is_unknown || in_wal.highest() >= mark);
                    prop_assert!(is_safe, "{worker}");
                }
                let bytes = page.encode();
                prop_assert!(bytes.len() <= room);
                let read = decoded(&bytes);
                prop_assert_eq!(read.as_ref(), Some(&page));
            }
        }
    }
}
