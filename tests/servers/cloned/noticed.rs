//! What a server knows of a clone stays until somebody accepts it, also after a reboot.

use super::{DETECTION, accept, assert_above, assert_refused, ids, server, worker};
use snowflake_core::mark::state_file;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, PATIENCE, Signal, Vmclock, error, record_in, test, value};

/// Starts the server as after a boot of its machine, which begins to count generations anew.
fn boot(cluster: &mut Cluster, page: &Vmclock) {
    let mut record = record_in(&cluster.mark_file());
    let machine = record.machine.as_mut().expect("a machine");
    // The kernel's number of its boot is another one.
    if !machine.is_cloned() {
        machine.boot ^= 2;
        fs::write(cluster.mark_file(), state_file::encode(&record)).expect("own file");
    }
    page.tell(5);
    cluster.start();
}

/// Waits until the keeper has written down that the machine was cloned.
fn wait_until_noted(cluster: &Cluster) {
    let deadline = Instant::now() + PATIENCE;
    while !record_in(&cluster.mark_file()).machine.expect("a machine").is_cloned() {
        assert!(Instant::now() < deadline, "nothing is written down");
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_that_has_noticed_a_clone_is_refused_after_a_reboot() {
    let crashed = |cluster: &mut Cluster, page: &Vmclock| {
        page.tell(6);
        wait_until_noted(cluster);
        cluster.stop(Signal::KILL);
    };
    // It may be stopped before the keeper looks.
    let stopped = |cluster: &mut Cluster, page: &Vmclock| {
        page.tell(6);
        cluster.stop(Signal::INT);
    };
    let refused_at_its_start = |cluster: &mut Cluster, page: &Vmclock| {
        cluster.stop(Signal::INT);
        page.tell(6);
        cluster.start();
        assert_refused(&mut cluster.connect());
        cluster.stop(Signal::INT);
    };
    for wal_mark in ["prefer", "require", "off"] {
        let (mut cluster, page) = server(worker().set("snowflake_pg.wal_mark", wal_mark), 5);
        for clone in [&crashed as &dyn Fn(&mut Cluster, &Vmclock), &stopped, &refused_at_its_start] {
            let before = ids(&cluster);
            clone(&mut cluster, &page);
            boot(&mut cluster, &page);
            assert_refused(&mut cluster.connect());
            cluster.restart(Signal::KILL);
            assert_refused(&mut cluster.connect());
            accept(&mut cluster.connect());
            let after = ids(&cluster);
            assert_above(&after, &before);
            cluster.restart(Signal::INT);
            assert_above(&ids(&cluster), &after);
        }
        cluster.stop(Signal::INT);
    }
}

#[test]
fn a_crash_while_the_hypervisor_writes_is_no_clone() {
    let (cluster, page) = server(worker(), 5);
    let before = ids(&cluster);
    page.begin_to_write();
    cluster.kill_backend();
    let refusal = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refusal.message(), "cannot tell whether this machine was restored or cloned");
    page.end_to_write();
    let after = ids(&cluster);
    assert_above(&after, &before);
    // And if it was one, that is noticed.
    page.begin_to_write();
    cluster.kill_backend();
    error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    page.end_to_write();
    page.tell(6);
    assert_refused(&mut cluster.connect());
}

#[test]
fn a_server_warns_when_its_device_has_disappeared_and_notices_the_clone_when_it_is_back() {
    const GONE: &str = "clones of this machine can no longer be detected";
    let (mut cluster, page) = server(worker(), 5);
    let before = ids(&cluster);
    assert!(!cluster.log().contains(GONE));
    let away = page.path().with_extension("away");
    fs::rename(page.path(), &away).expect("own file");
    for how in [Signal::INT, Signal::KILL] {
        cluster.restart(how);
        assert_above(&ids(&cluster), &before);
        cluster.wait_for_log(GONE);
    }
    fs::rename(&away, page.path()).expect("own file");
    page.tell(6);
    cluster.restart(Signal::INT);
    assert_refused(&mut cluster.connect());
}

#[test]
fn only_who_may_read_all_settings_sees_why_a_clone_would_not_be_noticed() {
    let (mut cluster, page) = server(worker(), 5);
    let seen_by = |cluster: &Cluster, role: &str| {
        let mut client = cluster.connect();
        client.batch_execute(&format!("SET ROLE {role}")).expect("a role");
        value(&mut client, DETECTION)
    };
    cluster.connect().batch_execute("CREATE ROLE app; CREATE ROLE monitor IN ROLE pg_monitor").expect("roles");
    assert_eq!(["app", "monitor"].map(|role| seen_by(&cluster, role)), ["vmclock", "vmclock"]);
    fs::remove_file(page.path()).expect("own file");
    cluster.restart(Signal::INT);
    assert_eq!(seen_by(&cluster, "app"), "none");
    let why = seen_by(&cluster, "monitor");
    assert!(why.starts_with(&format!("none: {} cannot be opened", page.path().display())), "{why}");
}
