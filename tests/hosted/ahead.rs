//! IDs that are as far ahead of the clock as can be, and what forgets them.

use super::{LOCKED, install, server};
use std::fs;
use std::time::{Duration, Instant};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Signal, need_postgresql, test, value};

/// Takes IDs of the times to come. The last one that the client has received.
fn run_ahead(client: &mut Client) -> i64 {
    let take = "DO $$ BEGIN FOR i IN 1..3 LOOP PERFORM snowflake_take(7000000); END LOOP; END $$";
    let is_ahead = "SELECT extract(epoch FROM lead) > 1.5 FROM snowflake_status";
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        client.batch_execute(take).expect("positions");
        // The clock can have caught up before it is asked.
        if value(client, is_ahead) == "t" {
            break;
        }
        assert!(Instant::now() < deadline, "not ahead");
    }
    value(client, "SELECT max(id) FROM snowflake_nextvals(4000) id").parse().expect("an ID")
}

fn assert_continues(client: &mut Client, last: i64) {
    let next: i64 = value(client, "SELECT snowflake_nextval()").parse().expect("an ID");
    assert!(next > last, "{next} after {last}");
}

/// Its WAL was never flushed, and its client has the IDs.
#[test]
fn ids_of_a_transaction_that_a_crash_ends_do_not_come_again() {
    let mut cluster = server(7);
    for _ in 0..3 {
        let mut client = cluster.connect();
        client.batch_execute("BEGIN").expect("a transaction");
        let last = run_ahead(&mut client);
        cluster.kill_all();
        cluster.start();
        assert_continues(&mut cluster.connect(), last);
    }
}

#[test]
fn committed_ids_that_a_failover_loses_do_not_come_again() {
    let mut primary = server(7);
    let standby = Cluster::builder().standby_of(&primary);
    standby.wait_for_commits_of(&primary);
    standby.configure("primary_conninfo", "host=/nowhere");
    standby.reload();
    primary.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_replication)");
    let last = run_ahead(&mut primary.connect());
    primary.kill_all();
    standby.promote();
    assert_continues(&mut standby.connect(), last);
}

/// The page says that it may have it once the sessions of the other one have ended.
#[test]
fn a_database_that_gets_the_worker_of_another_one_continues_above_it() {
    let cluster = server(7);
    let mut client = cluster.connect();
    value(&mut client, "SELECT snowflake_nextval()");
    drop(client);
    let connect = |name: &str| cluster.config().dbname(name).connect(NoTls).expect("a session");
    let mut admin = connect("template1");
    admin.batch_execute("CREATE DATABASE copy TEMPLATE postgres").expect("a copy");
    admin.batch_execute("CREATE DATABASE anew").expect("a database");
    for name in ["copy", "anew"] {
        let last = run_ahead(&mut cluster.connect());
        let mut next = connect(name);
        if name == "anew" {
            install(&mut next, 7);
        } else {
            next.batch_execute("SELECT snowflake_set_worker_id(7)").expect("a worker");
        }
        assert_continues(&mut next, last);
    }
    // A schema of its own that is dropped, and made again.
    let last = run_ahead(&mut cluster.connect());
    let mut client = cluster.connect();
    client.batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").expect("a new schema");
    install(&mut client, 7);
    assert_continues(&mut client, last);
}

/// A layout whose positions reach the end of a bigint.
#[test]
fn an_advance_to_the_last_position_leaves_no_lock_behind() {
    let cluster = server(0);
    let mut client = cluster.connect();
    let layout = "SELECT snowflake_set_layout('t32 s31 unit=1s epoch=2020-01-01T00:00:00Z')";
    client.batch_execute(layout).expect("a layout");
    let past_the_end = "SELECT snowflake_advance(((1::bigint << 32) - 1) << 31, true)";
    assert_eq!(super::refusal(&mut client, past_the_end).1, "no ID of the layout is greater");
    client.batch_execute("SELECT snowflake_advance((((1::bigint << 32) - 1) << 31) - 1, true)").expect("the end");
    for call in ["snowflake_nextval()", "snowflake_nextvals(1000)", "snowflake_nextblock(1000)"] {
        assert_eq!(super::refusal(&mut client, &format!("SELECT {call}")).0, "53400", "{call}");
        assert_eq!(value(&mut client, LOCKED), "0");
    }
}

/// It gets a system identifier of its own, as by pg_upgrade, which must keep the worker.
#[test]
fn a_standby_that_becomes_a_logical_replica_is_a_copy() {
    need_postgresql(17);
    let primary = Cluster::builder().set("wal_level", "logical").start();
    install(&mut primary.connect(), 7);
    value(&mut primary.connect(), "SELECT snowflake_nextval()");
    let mut standby = Cluster::builder().set("wal_level", "logical").standby_of(&primary);
    standby.wait_for_commits_of(&primary);
    standby.stop(Signal::INT);
    // The server's user has to write it.
    let signal = standby.data().join("standby.signal");
    fs::remove_file(&signal).expect("the signal");
    let mut touch = standby.foreign_command();
    assert!(touch.arg("touch").arg(&signal).status().expect("touch").success());
    let mut create = standby.foreign_command();
    create.arg(standby.bindir().join("pg_createsubscriber")).arg("--pgdata").arg(standby.data());
    create.args(["--database=postgres", "--subscriber-username=postgres", "--socketdir"]).arg(standby.host());
    create.arg(format!("--publisher-server=host={} user=postgres dbname=postgres", primary.host().display()));
    let output = create.output().expect("pg_createsubscriber");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&[output.stdout, output.stderr].concat()));
    standby.start();
    let (code, message) = super::refusal(&mut standby.connect(), "SELECT snowflake_nextval()");
    assert_eq!((&*code, &*message), ("55000", "this database is a copy of another one with the same worker ID"));
    value(&mut primary.connect(), "SELECT snowflake_nextval()");
}
