//! Files as a later library could have written them. `make suite NAME=next` has two libraries instead.

use snowflake_core::formats::{Release, sign};
use snowflake_core::mark::record::{LaterFields, Record};
use snowflake_core::mark::state_file;
use std::fs;
use std::path::Path;
use testbed::postgres::error::DbError;
use testbed::{Cluster, Registry, Signal, error, test, value};

const LATER: Release = Release { major: 9, minor: 3 };
const BEFORE_IT: Release = Release { major: 9, minor: 2 };

/// The length of PostgreSQL's page header.
const HEADER: usize = 24;

/// Has a later library have written the formats at these places of a file, which this one cannot read. Returns what the
/// file had.
fn refuse(file: &Path, headers: &[usize]) -> Vec<u8> {
    let good = fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut bytes = good.clone();
    headers.iter().for_each(|&header| sign(&mut bytes[header..], LATER, BEFORE_IT));
    fs::write(file, bytes).expect("own file");
    good
}

fn assert_in_words(refused: &DbError, file: &str) {
    let message = "was written by snowflake_pg 9.3, which only 9.2 and later can read";
    assert_eq!(refused.message(), format!("file \"{file}\" {message}"));
    let this = format!("This server has snowflake_pg {}.", Release::THIS);
    let hint = "Install snowflake_pg 9.2 or later, and restart the server.";
    let (detail, code) = (refused.detail().unwrap_or_default(), refused.code().code());
    assert_eq!((code, detail, refused.hint()), ("55000", this.as_str(), Some(hint)));
}

/// A stopped server that has issued IDs.
fn stopped(wal_mark: &str) -> Cluster {
    let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", wal_mark).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    cluster
}

#[test]
fn a_server_refuses_in_words_what_only_a_later_library_can_read() {
    let places: [(&str, &[usize], &str); 4] = [
        ("snowflake_pg/mark", &[0], "prefer"),
        ("snowflake_pg/mark", &[4096], "prefer"),
        ("snowflake_pg/mark", &[0, 4096], "off"),
        ("snowflake_pg.life", &[0], "prefer"),
    ];
    for (file, headers, wal_mark) in places {
        let mut cluster = stopped(wal_mark);
        let file = cluster.data().join(file);
        let good = refuse(&file, headers);
        let later = fs::read(&file).expect("own file");
        cluster.start();
        for call in ["snowflake_nextval()", "snowflake_reset_mark(now())", "snowflake_accept_mark()"] {
            assert_in_words(&error(&mut cluster.connect(), &format!("SELECT {call}")), &file.display().to_string());
        }
        cluster.wait_until(
            "SELECT problem LIKE 'File %was written by snowflake_pg 9.3, which only 9.2%' FROM snowflake_status",
        );
        cluster.stop(Signal::INT);
        assert_eq!(fs::read(&file).expect("own file"), later, "left as it was");
        fs::write(&file, good).expect("own file");
        cluster.start();
        cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    }
}

/// If it only left out its mark, a standby with the later library would not know of it.
#[test]
fn a_page_of_marks_that_only_a_later_library_can_read_is_refused_whatever_wal_mark_is() {
    for wal_mark in ["prefer", "require", "off"] {
        let mut cluster = stopped("prefer");
        cluster.configure("snowflake_pg.wal_mark", wal_mark);
        let good = fs::read(cluster.wal_page_file()).expect("a page")[HEADER..].to_vec();
        let mut content = good.clone();
        sign(&mut content, LATER, BEFORE_IT);
        cluster.write_wal_page(&content);
        let later = fs::read(cluster.wal_page_file()).expect("a page");
        cluster.start();
        assert_in_words(&error(&mut cluster.connect(), "SELECT snowflake_nextval()"), "global/16111");
        cluster.stop(Signal::INT);
        assert_eq!(fs::read(cluster.wal_page_file()).expect("a page"), later, "left as it was");
        cluster.write_wal_page(&good);
        cluster.start();
        cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    }
}

#[test]
fn a_lease_that_only_a_later_library_can_read_is_no_lease_and_the_server_says_so() {
    let registry = Registry::start();
    let member = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let mut cluster = member.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    let file = cluster.data().join("snowflake_pg/lease");
    let good = refuse(&file, &[0]);
    let later = fs::read(&file).expect("own file");
    cluster.start();
    let told = "SELECT problem LIKE '%lease\" was written by snowflake_pg 9.3, which only 9.2%' FROM snowflake_status";
    cluster.wait_until(told);
    assert_eq!(value(&mut cluster.connect(), "SELECT state FROM snowflake_status"), "no lease");
    assert_eq!(fs::read(&file).expect("own file"), later, "left as it was");
    cluster.stop(Signal::INT);
    fs::write(&file, good).expect("own file");
    cluster.start();
    cluster.wait_until("SELECT snowflake_nextval() > 0");
}

#[test]
fn a_server_leaves_a_trace_alone_that_only_a_later_library_can_read_and_issues_ids() {
    let mut cluster = stopped("prefer");
    let file = cluster.data().join("snowflake_pg.trace");
    refuse(&file, &[0]);
    let later = fs::read(&file).expect("own file");
    cluster.start();
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    assert_eq!(fs::read(&file).expect("own file"), later);
    let log = cluster.log();
    assert!(log.contains("WARNING:  snowflake_pg: what this server issues is not recorded in its trace"), "{log}");
    assert!(log.contains("trace\" was written by snowflake_pg 9.3, which only 9.2 and later can read. This"), "{log}");
}

/// They are not the last ones: the server starts, extends its mark, and stops.
#[test]
fn fields_of_a_later_library_stay_in_the_state_file_and_in_wal_whatever_an_older_one_writes() {
    let mut cluster = stopped("prefer");
    let mut later = LaterFields::default();
    later.0[7] = 7;
    let record = state_file::decode(&fs::read(cluster.mark_file()).expect("a mark")).expect("a record");
    fs::write(cluster.mark_file(), state_file::encode(&Record { later, ..record })).expect("a mark");
    let kept = |cluster: &Cluster| {
        let mark = fs::read(cluster.mark_file()).expect("a mark");
        let page = fs::read(cluster.wal_page_file()).expect("a page");
        let length = usize::from(u16::from_le_bytes([page[12], page[13]]));
        assert_eq!(state_file::decode(&mark).map(|record| record.later), Ok(later));
        assert!(page[..length - 4].ends_with(b"of a later library"), "{page:x?}");
    };
    let page = fs::read(cluster.wal_page_file()).expect("a page");
    let end = usize::from(u16::from_le_bytes([page[12], page[13]]));
    let mut content = [&page[HEADER..end - 4], b"of a later library", &[0; 4]].concat();
    let length = u32::try_from(content.len() - 4).expect("a page");
    content[20..24].copy_from_slice(&length.to_le_bytes());
    sign(&mut content, LATER, Release::FIRST);
    cluster.write_wal_page(&content);
    kept(&cluster);
    for how in [Signal::INT, Signal::QUIT, Signal::KILL] {
        cluster.start();
        let revision = || testbed::record_in(&cluster.mark_file()).revision;
        cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
        let begun = revision();
        cluster.wait_until("SELECT snowflake_nextval() > 0");
        let mut client = cluster.connect();
        while revision() <= begun + 1 {
            client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
        }
        client.batch_execute("CHECKPOINT").expect("a checkpoint");
        kept(&cluster);
        drop(client);
        cluster.stop(how);
    }
}
