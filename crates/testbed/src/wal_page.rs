//! How the tests read and write the page with the marks in WAL.

use crate::cluster::{Cluster, PATIENCE};
use snowflake_core::UnixMs;
use snowflake_core::mark::wal_page::{FILE, PageHorizon, WalPage};
use snowflake_core::server::identity::Worker;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The worker of most tests.
const WORKER: Worker = 1;

/// The length of PostgreSQL's page header, and of a page.
const HEADER: usize = 24;
const PAGE: usize = 8192;

fn decode(page: &[u8]) -> WalPage {
    WalPage::decode(&page[HEADER..]).expect("a page of this version").expect("a page of ours")
}

impl Cluster {
    /// The file of the page.
    pub fn wal_page_file(&self) -> PathBuf {
        self.traces.plant();
        self.data.join("global").join(FILE.to_string())
    }

    /// The mark in WAL of worker 1, of a running primary; `None` if there is none.
    pub fn mark_in_wal(&self) -> Option<UnixMs> {
        self.connect().batch_execute("CHECKPOINT").expect("a checkpoint");
        let page = fs::read(self.wal_page_file()).ok()?;
        decode(&page).look_up(WORKER).mark
    }

    /// Waits until this is the horizon in WAL, on a running primary.
    pub fn wait_until_horizon_in_wal(&self, id: i64) {
        let deadline = Instant::now() + PATIENCE;
        let in_wal = || {
            self.connect().batch_execute("CHECKPOINT").expect("a checkpoint");
            decode(&fs::read(self.wal_page_file()).expect("a page")).horizon
        };
        while in_wal() != PageHorizon::Below(id.cast_unsigned()) {
            assert!(Instant::now() < deadline, "the horizon in WAL is {:?}, not {id}", in_wal());
            sleep(Duration::from_millis(20));
        }
    }

    /// Raises the mark of worker 1 in the file of a stopped server.
    pub fn set_mark_in_wal(&self, mark: UnixMs) {
        let bytes = fs::read(self.wal_page_file()).expect("a page");
        let mut page = decode(&bytes);
        let layout = page.look_up(WORKER).layout.expect("a layout");
        page.disown(WORKER, layout, PAGE - HEADER);
        page.raise(WORKER, mark, layout, PAGE - HEADER);
        self.write_wal_page(&page.encode());
    }

    /// Writes this into the file of a stopped server, with a checksum if the server has these.
    pub fn write_wal_page(&self, content: &[u8]) {
        self.traces.plant();
        let has_checksums = self.pg_checksums("--disable");
        let end = u16::try_from(HEADER + content.len()).expect("within a page");
        let mut page = vec![0; PAGE];
        // As PageInit() of PostgreSQL: where the content ends, where the page ends, and the version of the layout of
        // pages.
        let numbers = [end, 8192, 8192, 8192 + 4].map(u16::to_le_bytes);
        page[12..20].copy_from_slice(numbers.as_flattened());
        page[HEADER..usize::from(end)].copy_from_slice(content);
        fs::write(self.wal_page_file(), page).expect("a page");
        if has_checksums {
            assert!(self.pg_checksums("--enable"));
        }
    }

    /// Whether that was done: not if it was done before.
    fn pg_checksums(&self, action: &str) -> bool {
        let output = self.command("pg_checksums").args([action, "--no-sync", "-D"]).arg(&self.data).output();
        output.expect("pg_checksums").status.success()
    }
}
