//! The pages of marks in WAL, by a journal of the writes to it.

use snowflake_core::mark::wal_page::WalPage;
use std::collections::BTreeMap;
use std::path::Path;
use testbed::Event;

const BLOCK: usize = 8192;
/// SizeOfPageHeaderData in storage/bufpage.h.
const PAGE_HEADER: usize = 24;
const BLOCKS_OF_SEGMENT: u64 = 16 * 1024 * 1024 / BLOCK as u64;

/// WAL, as far as it was written while the journal was kept.
#[derive(Default)]
pub struct Wal {
    blocks: BTreeMap<u64, Vec<u8>>,
    /// Where each page begins in WAL.
    found: BTreeMap<(u64, usize), WalPage>,
    /// How many of them were flushed.
    flushed: usize,
}

impl Wal {
    /// Does what was done. False if nothing is different now.
    pub fn apply(&mut self, event: &Event) -> bool {
        let before = (self.found.len(), self.flushed);
        match event {
            Event::Write { path, at, bytes, .. } => {
                let Some(segment) = path.strip_prefix("pg_wal").ok().and_then(|name| segment(name.to_str()?)) else {
                    return false;
                };
                let at = usize::try_from(*at).expect("within a segment");
                let first = segment * BLOCKS_OF_SEGMENT + (at / BLOCK) as u64;
                let mut rest = &bytes[..];
                let mut within = at % BLOCK;
                for block in first.. {
                    let (part, after) = rest.split_at(rest.len().min(BLOCK - within));
                    let bytes = self.blocks.entry(block).or_insert_with(|| vec![0; BLOCK]);
                    bytes[within..within + part.len()].copy_from_slice(part);
                    (rest, within) = (after, 0);
                    if rest.is_empty() {
                        self.look_for_pages(first, block);
                        break;
                    }
                }
            }
            Event::Flush { path, .. } if path.starts_with("pg_wal") => self.flushed = self.found.len(),
            _ => {}
        }
        (self.found.len(), self.flushed) != before
    }

    /// Every page that a start can find: the last one that was flushed, or one after it, since WAL ends where it was
    /// torn.
    pub fn outcomes(&self) -> Vec<WalPage> {
        let flushed = self.flushed.checked_sub(1);
        let none = flushed.is_none().then(WalPage::default);
        none.into_iter().chain(self.found.values().skip(flushed.unwrap_or(0)).cloned()).collect()
    }

    /// PostgreSQL never writes a page of marks into its file before WAL has that page. So replaying WAL makes the file
    /// whole, however it was torn.
    pub fn check_page(&self, event: &Event) {
        let Event::Write { path, bytes, .. } = event else { return };
        if path == Path::new("global/16111") && bytes.iter().any(|&byte| byte != 0) {
            let page = WalPage::decode(&bytes[PAGE_HEADER..]).expect("of this library").expect("a page of ours");
            let is_flushed = self.found.values().take(self.flushed).any(|flushed| *flushed == page);
            assert!(is_flushed, "{page:?} is in its file, and not in WAL");
        }
    }

    /// A page can begin in the block before, and pages of WAL have headers of their own within it.
    fn look_for_pages(&mut self, first: u64, last: u64) {
        let mut stream = Vec::new();
        let mut places = Vec::new();
        for (&block, bytes) in self.blocks.range(first.saturating_sub(1)..=last) {
            // XLP_LONG_HEADER, SizeOfXLogLongPHD and SizeOfXLogShortPHD in access/xlog_internal.h.
            let header = if bytes[2] & 2 > 0 { 40 } else { 24 };
            stream.extend_from_slice(&bytes[header..]);
            places.extend((header..BLOCK).map(|at| (block, at)));
        }
        let magic = b"SNOWMARK";
        for at in (0..stream.len()).filter(|&at| stream[at..].starts_with(magic)) {
            if let Ok(Some(page)) = WalPage::decode(&stream[at..]) {
                self.found.insert(places[at], page);
            }
        }
    }
}

/// The number of the segment that a file has, by its name.
fn segment(name: &str) -> Option<u64> {
    let number = |range| u64::from_str_radix(name.get(range)?, 16).ok();
    (name.len() == 24).then(|| Some(number(8..16)? * 256 + number(16..24)?))?
}
