//! Two libraries on one data directory, and as primary and standby. In the next version, each format has more fields,
//! and says that this version can read it, unless the server's environment has its letters: see `tools/next_version`.

use super::Version::{self, Next, This};
use super::{install, next};
use snowflake_core::mark::{lives, state_file};
use std::fs;
use testbed::{Builder, Cluster, Registry, Signal, Witness, error, record_in, test, value};

/// The formats that only the next version can read.
pub const ONLY_NEXT: &str = "SNOWFLAKE_PG_ONLY_NEXT";

/// A field of the next version, wherever it has one.
const FIELD: [u8; 8] = [2; 8];

fn node(wal_mark: &str, only_next: &str) -> Builder {
    let node = Cluster::builder().worker(7).own_installation().environment(ONLY_NEXT, only_next);
    node.set("snowflake_pg.wal_mark", wal_mark)
}

/// A stopped server of this library that has issued IDs.
fn stopped(builder: Builder, witness: &mut Witness) -> Cluster {
    let mut cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    issue(&cluster, witness);
    cluster.stop(Signal::INT);
    cluster
}

fn issue(cluster: &Cluster, witness: &mut Witness) {
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    witness.connect(cluster);
    witness.ask("SELECT snowflake_nextvals(1000)").unwrap_or_else(|error| panic!("{error:?}: {}", cluster.log()));
    let said = "SELECT problem FROM snowflake_status";
    assert_eq!(value(&mut cluster.connect(), said), "NULL", "{}", cluster.log());
}

fn go_on(cluster: &mut Cluster, which: Version, witness: &mut Witness) {
    install(cluster, which);
    cluster.start();
    issue(cluster, witness);
    cluster.stop(Signal::INT);
}

/// The refusal of the format in this file, by this version.
fn refusal_of(file: &str) -> String {
    let (_, next) = next();
    let (next, _) = next.rsplit_once('.').expect("three numbers");
    format!("{file}\" was written by snowflake_pg {next}, which only {next} and later can read")
}

fn assert_unique(witness: Witness) {
    let report = witness.report();
    assert_eq!((report.duplicates(), report.inversions()), (0, 0), "of {} IDs", report.ids());
}

#[test(By("make suite NAME=next"))]
fn two_libraries_take_turns_on_one_data_directory_and_the_older_one_keeps_the_newer_ones_fields() {
    for wal_mark in ["prefer", "off"] {
        let mut witness = Witness::default();
        let mut cluster = stopped(node(wal_mark, ""), &mut witness);
        for which in [Next, This, This, Next, This] {
            go_on(&mut cluster, which, &mut witness);
            let version = u8::from(matches!(which, Next)) + 1;
            let slot = state_file::offset(record_in(&cluster.mark_file()).revision);
            let slot = &fs::read(cluster.mark_file()).expect("a mark")[slot..];
            assert_eq!((slot[8], &slot[360..368]), (version, &FIELD[..]));
            // With "off", the page already says that marks are not there.
            if wal_mark == "prefer" {
                let page = fs::read(cluster.wal_page_file()).expect("a page");
                let end = usize::from(u16::from_le_bytes([page[12], page[13]]));
                assert_eq!((page[24 + 8], &page[end - 12..end - 4]), (version, &FIELD[..]));
            }
            let life = fs::read(cluster.data().join("snowflake_pg.life")).expect("a life");
            assert_eq!((life[8], life.len()), (version, if version == 2 { 100 } else { 92 }));
        }
        assert_unique(witness);
    }
}

#[test(By("make suite NAME=next"))]
fn an_older_library_refuses_in_words_each_format_that_only_a_newer_one_can_read() {
    for (format, file, wal_mark) in [
        ("SNOWFLAK", "snowflake_pg/mark", "off"),
        ("SNOWLIFE", "snowflake_pg.life", "prefer"),
        ("SNOWMARK", "global/16111", "prefer"),
        ("SNOWMARK", "global/16111", "require"),
        ("SNOWMARK", "global/16111", "off"),
    ] {
        let mut witness = Witness::default();
        let mut cluster = stopped(node(wal_mark, format), &mut witness);
        if (format, wal_mark) == ("SNOWMARK", "off") {
            // It is written where there is none that says that marks are not there.
            fs::remove_file(cluster.wal_page_file()).expect("a page");
        }
        go_on(&mut cluster, Next, &mut witness);
        install(&cluster, This);
        cluster.start();
        for _ in 0..2 {
            let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
            assert!(refused.message().ends_with(&refusal_of(file)), "{refused:?}");
            assert_eq!((refused.code().code(), refused.hint().is_some()), ("55000", true));
        }
        cluster.stop(Signal::INT);
        assert!(!cluster.log().contains("damaged"), "{}", cluster.log());
        go_on(&mut cluster, Next, &mut witness);
        assert_unique(witness);
    }
}

#[test(By("make suite NAME=next"))]
fn an_older_library_goes_on_with_the_trace_of_a_newer_one_or_issues_ids_beside_it() {
    for only_next in ["", "SNOWTRAC"] {
        let mut witness = Witness::default();
        let mut cluster = stopped(node("prefer", only_next), &mut witness);
        let trace = cluster.data().join("snowflake_pg.trace");
        // The file is made where there is none.
        fs::remove_file(&trace).expect("a trace");
        go_on(&mut cluster, Next, &mut witness);
        let by_next = fs::read(&trace).expect("a trace");
        go_on(&mut cluster, This, &mut witness);
        let by_this = fs::read(&trace).expect("a trace");
        assert_eq!((by_next[8], &by_this[..512]), (2, &by_next[..512]));
        let lives = |trace: &[u8]| lives::read(&trace[lives::BEGIN..]).len();
        let recorded = usize::from(only_next.is_empty());
        assert_eq!(lives(&by_this), lives(&by_next) + recorded);
        assert_eq!(by_this == by_next, recorded == 0);
        let refused = cluster.log().contains(&refusal_of("snowflake_pg.trace"));
        assert_eq!(refused, recorded == 0, "{}", cluster.log());
        go_on(&mut cluster, Next, &mut witness);
        assert_eq!(lives(&fs::read(&trace).expect("a trace")), lives(&by_this) + 1);
        assert_unique(witness);
    }
}

#[test(By("make suite NAME=next"))]
fn an_older_library_goes_on_with_the_lease_of_a_newer_one_or_refuses_it_in_words() {
    let registry = Registry::start();
    for only_next in ["", "SNOWLEAS"] {
        let mut witness = Witness::default();
        let node = node("prefer", only_next).set("snowflake_pg.registry_conninfo", registry.conninfo());
        let mut cluster = stopped(node.set("snowflake_pg.worker_id", "registry"), &mut witness);
        go_on(&mut cluster, Next, &mut witness);
        if only_next.is_empty() {
            go_on(&mut cluster, This, &mut witness);
        } else {
            install(&cluster, This);
            cluster.start();
            let told = format!("SELECT problem LIKE '%{}%' FROM snowflake_status", refusal_of("lease"));
            cluster.wait_until(&told);
            cluster.stop(Signal::INT);
        }
        go_on(&mut cluster, Next, &mut witness);
        assert_unique(witness);
    }
}

/// The primary is ahead of its clock when it is lost, as after a step of its clock.
#[test(By("make suite NAME=next"))]
fn a_standby_of_another_version_goes_on_above_its_primary_or_refuses_in_words() {
    for (primary_is, only_next, refused) in [
        (This, "", None),
        (Next, "", None),
        (Next, "SNOWMARK", Some("global/16111")),
        (Next, "SNOWFLAK", Some("snowflake_pg/mark")),
        (Next, "SNOWLIFE", Some("snowflake_pg.life")),
        (Next, "SNOWTRAC", None),
    ] {
        let mut witness = Witness::default();
        let node = || node("prefer", only_next).set("snowflake_pg.max_borrow", "1min");
        let mut primary = stopped(node(), &mut witness);
        if only_next == "SNOWTRAC" {
            fs::remove_file(primary.data().join("snowflake_pg.trace")).expect("a trace");
        }
        install(&primary, primary_is);
        primary.start();
        issue(&primary, &mut witness);
        let mut standby = node().backup_of(&primary);
        install(&standby, if matches!(primary_is, This) { Next } else { This });
        standby.follow(&primary);
        let advance = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '20 s'))";
        primary.connect().batch_execute(advance).expect("an advance");
        issue(&primary, &mut witness);
        standby.wait_for_commits_of(&primary);
        primary.stop(Signal::QUIT);
        standby.promote();
        if let Some(file) = refused {
            let refused = error(&mut standby.connect(), "SELECT snowflake_nextval()");
            assert!(refused.message().ends_with(&refusal_of(file)), "{refused:?}");
            install(&standby, Next);
            standby.restart(Signal::INT);
        }
        issue(&standby, &mut witness);
        assert_unique(witness);
    }
}
