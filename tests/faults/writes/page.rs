//! The page of marks, torn in its file. Each of its writes to WAL is a whole page, so recovery does not read what is in
//! the file, whatever `full_page_writes` is.

use super::super::fixture::{assert_kept_without_errors, new_server};
use super::super::suite::Evidence;
use snowflake_core::mark::wal_page::WalPage;
use snowflake_core::server::identity::Worker;
use std::fs;
use std::time::Instant;
use testbed::{Cluster, PATIENCE, Report, Signal, Witness, default_layout, value};

const SECTOR: usize = 512;
const HEADER: usize = 24;
const PAGE: usize = 8192;

/// As many workers as fill the page.
const WORKERS: std::ops::Range<Worker> = 2..490;
const MARK: u64 = 1_600_000_000_000;

/// In each round, other sectors of the file are from a page that was never in WAL.
pub fn torn(rounds: usize) -> Evidence {
    let mut report = Report::default();
    let kinds = [(false, "on"), (false, "off"), (true, "on"), (true, "off")];
    let clusters = kinds.map(|(checksums, full_page_writes)| {
        let builder = Cluster::builder().worker(1).set("full_page_writes", full_page_writes);
        let builder = builder.set("snowflake_pg.reserve_ahead", "100ms");
        new_server(if checksums { builder.checksums() } else { builder })
    });
    // The others have done so meanwhile.
    clusters[kinds.len() - 1].settle();
    for (kind, (mut cluster, (checksums, full_page_writes))) in clusters.into_iter().zip(kinds).enumerate() {
        let mut witness = Witness::of(&cluster);
        witness.next_id().expect("an ID");
        cluster.stop(Signal::INT);
        cluster.write_wal_page(&full(MARK));
        for round in (kind..rounds).step_by(kinds.len()) {
            cluster.start();
            witness.connect(&cluster);
            issue(&cluster, &mut witness);
            let in_wal = cluster.mark_in_wal().expect("a mark, in the file, too");
            issue(&cluster, &mut witness);
            cluster.kill_all();
            tear(&cluster, round);
            cluster.start();
            witness.connect(&cluster);
            issue(&cluster, &mut witness);
            let told = format!("round {round}, checksums {checksums}, full_page_writes {full_page_writes}");
            assert!(cluster.mark_in_wal() > Some(in_wal), "{told}");
            let page = fs::read(cluster.wal_page_file()).expect("a page");
            let page = WalPage::decode(&page[HEADER..]).expect("of this library").expect("a whole page");
            assert!(WORKERS.into_iter().all(|worker| page.look_up(worker).mark == Some(MARK)), "{told}");
            assert_eq!(value(&mut cluster.connect(), "SELECT problem FROM snowflake_status"), "NULL", "{told}");
            cluster.stop(Signal::INT);
        }
        report.merge(witness.report());
    }
    assert_kept_without_errors(rounds, &report, 0).crashes(rounds)
}

/// A client receives IDs until the mark was written.
fn issue(cluster: &Cluster, witness: &mut Witness) {
    witness.next_id().expect("an ID");
    let (mark, deadline) = (cluster.mark(), Instant::now() + PATIENCE);
    while cluster.mark() == mark {
        assert!(Instant::now() < deadline, "the mark stays where it is");
        witness.next_id().expect("an ID");
    }
}

/// Writes sectors of another page into the file of a stopped server: some, all, or as if they had never been written.
fn tear(cluster: &Cluster, round: usize) {
    let mut page = fs::read(cluster.wal_page_file()).expect("a page");
    let other = [&page[..HEADER], &full(MARK + 1000)].concat();
    let written: u32 = [0xAAAA, 0x0001, 0xFFFE, 0x00FF, 0xFF00, 0x8000, 0x7FFF, 0xFFFF][round / 4 % 8];
    for (sector, bytes) in page.chunks_mut(SECTOR).enumerate() {
        match other.get(sector * SECTOR..).map(|rest| &rest[..rest.len().min(SECTOR)]) {
            _ if written >> sector & 1 == 0 => {}
            Some(other) if round % 8 < 4 => bytes[..other.len()].copy_from_slice(other),
            _ => bytes.fill(0),
        }
    }
    assert_eq!(page.len(), PAGE);
    fs::write(cluster.wal_page_file(), page).expect("a page");
}

fn full(mark: u64) -> Vec<u8> {
    let mut page = WalPage::default();
    for worker in WORKERS {
        page.raise(worker, mark, default_layout(), PAGE - HEADER);
    }
    page.encode()
}
