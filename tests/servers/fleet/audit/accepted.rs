//! Marks that a DBA has accepted.

use super::super::fixture::member;
use super::{audit, column, ids};
use testbed::{Cluster, Signal, Vmclock, error, test, value};

fn accept(server: &Cluster) {
    value(&mut server.connect(), "SELECT snowflake_accept_mark()");
    ids(server);
}

/// Before it has begun, and while it runs.
#[test]
fn a_server_that_has_accepted_its_machine_has_seen_all_that_was_before() {
    let mut server = member(7).create();
    let page = Vmclock::new(server.host().join("vmclock"), 5);
    server.configure("snowflake_pg.vmclock", page.path().display());
    server.start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    ids(&server);
    page.tell(6);
    error(&mut server.connect(), "SELECT snowflake_nextval()");
    accept(&server);
    for (generation, how) in [(7, Signal::INT), (8, Signal::KILL)] {
        server.stop(how);
        page.tell(generation);
        server.start();
        error(&mut server.connect(), "SELECT snowflake_nextval()");
        accept(&server);
        let (results, details) = audit(&server, &[&server]);
        assert_eq!(results, ["no overlap"; 2], "{details}");
        server.restart(Signal::INT);
        ids(&server);
    }
    let reasons = column(&mut server.connect(), "SELECT reason FROM snowflake_lives() ORDER BY number");
    let accepted = ["accepted mark", "restart", "restart"];
    assert_eq!(reasons, [&["no mark"][..], &accepted, &accepted].concat());
}

/// A copy that was accepted has seen its original only if that was asked.
#[test]
fn an_accepted_copy_has_not_seen_its_original_until_that_is_asked() {
    let mut original = super::start(member(7));
    ids(&original);
    original.stop(Signal::INT);
    let mut copy = Cluster::builder().copy_of(&original);
    copy.start();
    accept(&copy);
    let (results, details) = audit(&copy, &[&copy]);
    assert_eq!(results[0], "not seen", "{details}");
    original.configure("snowflake_pg.worker_id", 8);
    original.start();
    ids(&original);
    let (results, details) = audit(&copy, &[&original]);
    assert_eq!(results[0], "no overlap", "{details}");
}
