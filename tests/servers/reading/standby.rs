//! Readers on a standby, and after its promotion.

use super::{horizon, insert, polled, server};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Builder, Cluster, PATIENCE, Signal, error, sleep_past, test, value};

fn standby() -> Builder {
    Cluster::builder().worker(8).set("max_prepared_transactions", 10)
}

/// Waits until the server of a reader has this row below its horizon. A new standby has none before it has replayed the
/// first one.
pub fn wait_for(reader: &Cluster, id: i64) {
    let (mut client, deadline) = (reader.connect(), Instant::now() + PATIENCE);
    loop {
        let read = client.query_one("SELECT snowflake_horizon()", &[]).map(|row| row.get::<_, Option<i64>>(0));
        if matches!(read, Ok(Some(horizon)) if horizon > id) {
            return;
        }
        assert!(Instant::now() < deadline, "never above {id}: {read:?}");
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_standby_knows_how_complete_it_is_and_shows_all_rows_below_also_when_the_primary_is_idle() {
    let primary = Cluster::builder().worker(7).set("max_prepared_transactions", 10).set("snowflake_pg.keep_warm", 0);
    let primary = primary.start();
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = standby().standby_of(&primary);
    let cascade = Cluster::builder().worker(9).set("max_prepared_transactions", 10).standby_of(&standby);
    let mut readers = [standby.connect(), cascade.connect()];
    let mut other = primary.connect();
    other.batch_execute("BEGIN").expect("a transaction");
    let open = insert(&mut other);
    let later = insert(&mut client);
    for server in [&standby, &cascade] {
        wait_for(server, open - 1);
        server.wait_until(&format!("SELECT EXISTS (SELECT FROM orders WHERE id = {later})"));
    }
    for reader in &mut readers {
        assert_eq!((horizon(reader), polled(reader)), (Some(open), 3), "the open transaction holds it back");
    }
    // The keeper has no other reason to look.
    primary.wait_until_mark_has_passed();
    other.batch_execute("COMMIT").expect("its end");
    // Nothing else happens on the primary.
    for server in [&standby, &cascade] {
        wait_for(server, later);
    }
    let same = readers.each_mut().map(|reader| (horizon(reader), polled(reader)));
    assert_eq!(same[0], same[1]);
    assert_eq!(same[0].1, 5);
    assert!(same[0].0 <= horizon(&mut client));
    for reader in &mut readers {
        let shown = "SELECT horizon_at = snowflake_timestamp(snowflake_horizon()) FROM snowflake_status";
        assert_eq!(value(reader, shown), "t");
    }
    primary.wait_until_keeper_rests();
}

#[test]
fn a_row_of_an_idle_primary_comes_to_standbys_soon_although_nobody_tells_the_keeper_of_its_id() {
    let primary = Cluster::builder().worker(7).set("snowflake_pg.keep_warm", 0);
    let primary = primary.set("snowflake_pg.reserve_ahead", "3s").start();
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = Cluster::builder().worker(8).standby_of(&primary);
    let first = insert(&mut client);
    wait_for(&standby, first);
    // Meanwhile there is nothing to do for the keeper. Then the next ID is below the mark.
    sleep_past(primary.mark() - 1000);
    let second = insert(&mut client);
    wait_for(&standby, second);
}

/// Then its mark is ahead of the clock again, so that it needs no other one, and does not ask the keeper.
#[test]
fn a_row_of_an_idle_primary_whose_clock_was_set_back_comes_to_standbys() {
    let primary = Cluster::builder().worker(7).own_clock().set("snowflake_pg.keep_warm", 0);
    let primary = primary.set("snowflake_pg.reserve_ahead", "1min").start();
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = Cluster::builder().worker(8).standby_of(&primary);
    let first = insert(&mut client);
    wait_for(&standby, first);
    primary.set_clock(120.0);
    primary.wait_until_keeper_rests();
    primary.set_clock(0.0);
    let second = insert(&mut client);
    wait_for(&standby, second);
}

#[test]
fn a_horizon_that_an_idle_primary_has_moved_to_the_clock_reaches_its_standbys() {
    let primary = Cluster::builder().worker(7).set("snowflake_pg.keep_warm", 0).start();
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = standby().standby_of(&primary);
    primary.wait_until_keeper_rests();
    primary.wait_until_mark_has_passed();
    let moved = horizon(&mut client).expect("a horizon");
    wait_for(&standby, moved - 1);
}

#[test]
fn a_standby_has_the_last_row_whatever_its_tag_is() {
    let layout = "t41 w5 h8 s9";
    // For as long, the keeper looks only whether the mark is to be extended.
    let primary = Cluster::builder().worker(7).set("snowflake_pg.layout", layout).set("snowflake_pg.keep_warm", "1d");
    let primary = primary.start();
    let table = "CREATE EXTENSION snowflake_pg; CREATE TABLE orders (id bigint PRIMARY KEY)";
    primary.connect().batch_execute(table).expect("a table");
    let standby = Cluster::builder().worker(8).set("snowflake_pg.layout", layout).standby_of(&primary);
    let insert = "INSERT INTO orders SELECT snowflake_nextval_tagged(255) RETURNING id";
    let last = value(&mut primary.connect(), insert).parse().expect("an ID");
    wait_for(&standby, last);
}

/// The ID is ahead of the clock, which passes the mark before the keeper can look again.
#[test]
fn a_standby_has_the_last_row_whatever_its_tag_is_if_its_primary_was_paused() {
    let layout = "t41 w5 h8 s9";
    let primary = Cluster::builder().worker(7).set("snowflake_pg.layout", layout).set("snowflake_pg.keep_warm", 0);
    let primary = primary.start();
    let table = "CREATE EXTENSION snowflake_pg; CREATE TABLE orders (id bigint PRIMARY KEY)";
    primary.connect().batch_execute(table).expect("a table");
    let standby = Cluster::builder().worker(8).set("snowflake_pg.layout", layout).standby_of(&primary);
    let insert = "INSERT INTO orders SELECT snowflake_nextval_tagged(255) RETURNING id";
    let mut client = primary.connect();
    let ahead = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '4 s'))";
    client.batch_execute(ahead).expect("an advance");
    let last = value(&mut client, insert).parse().expect("an ID");
    wait_for(&standby, last - (255 << 9));
    let paused = primary.freeze();
    primary.wait_until_mark_has_passed();
    drop(paused);
    wait_for(&standby, last);
}

#[test]
fn a_poll_on_a_standby_reads_the_horizon_first_and_then_the_rows() {
    let (primary, mut client) = server();
    let standby = standby().standby_of(&primary);
    let first = insert(&mut client);
    wait_for(&standby, first);
    // The statement has a snapshot when it waits.
    let mut reader = standby.connect();
    let waits = "SELECT count(*) FROM (SELECT pg_sleep(5) OFFSET 0) AS pause, snowflake_poll(NULL::orders, 0)";
    let read = std::thread::spawn(move || value(&mut reader, waits));
    standby.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')");
    let second = insert(&mut client);
    wait_for(&standby, second);
    assert_eq!(read.join().expect("a reader"), "5");
}

/// The record of the commit comes last of what a transaction does that others can make wait.
#[test]
fn a_transaction_holds_the_horizon_back_until_its_commit_is_in_wal() {
    let primary = Cluster::builder().worker(7).set("snowflake_pg.keep_warm", 0).start();
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = Cluster::builder().worker(8).standby_of(&primary);
    let [mut first, mut second] = [(); 2].map(|()| primary.connect());
    wait_for_synchronous(&primary, "away");
    // A commit that notifies waits for another one that does.
    let waits = std::thread::spawn(move || first.batch_execute("BEGIN; CREATE TABLE t (); NOTIFY channel; COMMIT"));
    primary.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')");
    second.batch_execute("BEGIN; NOTIFY channel").expect("a transaction");
    let open = insert(&mut second);
    let also_waits = std::thread::spawn(move || second.batch_execute("COMMIT"));
    primary.wait_until("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'object' AND NOT granted)");
    // The next ID needs another mark, which is logged with the horizon.
    primary.wait_until_mark_has_passed();
    client.batch_execute("SET synchronous_commit = local").expect("a setting");
    let later = insert(&mut client);
    standby.wait_until(&format!("SELECT EXISTS (SELECT FROM orders WHERE id = {later})"));
    let mut reader = standby.connect();
    for client in [&mut reader, &mut client] {
        assert_eq!((horizon(client), polled(client)), (Some(open), 3));
    }
    wait_for_synchronous(&primary, "");
    for waits in [waits, also_waits] {
        waits.join().expect("a session").expect("a commit");
    }
    wait_for(&standby, later);
    assert_eq!(polled(&mut reader), 5);
}

fn wait_for_synchronous(primary: &Cluster, standby: &str) {
    primary.configure("synchronous_standby_names", standby);
    primary.reload();
}

/// Its row would be lost if the synchronous standby took over.
#[test]
fn a_poll_shows_no_row_whose_commit_waits_for_a_synchronous_standby_on_no_server() {
    let (primary, mut client) = server();
    let standby = standby().standby_of(&primary);
    let mut reader = standby.connect();
    let first = insert(&mut client);
    wait_for(&standby, first);
    let mut other = primary.connect();
    wait_for_synchronous(&primary, "away");
    let waits = std::thread::spawn(move || insert(&mut other));
    standby.wait_until("SELECT count(*) = 5 FROM orders");
    let waiting: i64 = value(&mut reader, "SELECT max(id) FROM orders").parse().expect("an ID");
    wait_for(&standby, waiting - 1);
    for client in [&mut reader, &mut client] {
        assert_eq!((horizon(client), polled(client)), (Some(waiting), 4));
    }
    wait_for_synchronous(&primary, "");
    assert_eq!(waits.join().expect("a commit"), waiting);
    wait_for(&standby, waiting);
    assert_eq!((polled(&mut client), polled(&mut reader)), (5, 5));
}

#[test]
fn a_standby_whose_primary_does_not_write_the_horizon_says_so() {
    let primary = Cluster::builder().worker(7).set("snowflake_pg.wal_mark", "off").start();
    primary.connect().batch_execute(super::TABLE).expect("a table");
    let standby = Cluster::builder().worker(8).standby_of(&primary);
    for query in ["SELECT snowflake_horizon()", "SELECT * FROM snowflake_poll(NULL::orders, 0)"] {
        let refused = error(&mut standby.connect(), query);
        assert_eq!(refused.message(), "WAL has no horizon, and recovery is in progress");
    }
}

#[test]
fn a_standby_has_no_horizon_while_its_primary_issues_ids_below_that_of_another_worker() {
    let mut primary = Cluster::builder().worker(7).own_clock().start();
    primary.set_clock(60.0);
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = Cluster::builder().worker(9).standby_of(&primary);
    let first = insert(&mut client);
    wait_for(&standby, first);
    let mut reader = standby.connect();
    let read = horizon(&mut reader).expect("a horizon");
    primary.stop(Signal::INT);
    primary.configure("snowflake_pg.worker_id", 8);
    primary.set_clock(0.0);
    primary.start();
    let mut client = primary.connect();
    let below = insert(&mut client);
    assert!(below < read, "the clock is behind");
    standby.wait_until(&format!("SELECT EXISTS (SELECT FROM orders WHERE id = {below})"));
    assert_eq!((horizon(&mut reader), polled(&mut reader)), (None, 0));
    primary.set_clock(70.0);
    let above = insert(&mut client);
    wait_for(&standby, above);
    assert_eq!(polled(&mut reader), 6);
}

/// The first mark of its start takes the horizon away, and the next ones do not bring it back.
#[test]
fn no_mark_below_the_ids_of_another_worker_brings_a_horizon_to_standbys() {
    let mut primary = Cluster::builder().worker(7).own_clock().start();
    primary.set_clock(60.0);
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    let standby = Cluster::builder().worker(9).standby_of(&primary);
    let read = insert(&mut client);
    wait_for(&standby, read);
    primary.stop(Signal::INT);
    primary.configure("snowflake_pg.worker_id", 8);
    // Without a keeper, only an ID that needs a mark has one written.
    primary.configure("max_worker_processes", 0);
    primary.set_clock(0.0);
    primary.start();
    let (mut client, mut reader) = (primary.connect(), standby.connect());
    for _ in 0..2 {
        let below = insert(&mut client);
        assert!(below < read, "the clock is behind");
        standby.wait_until(&format!("SELECT EXISTS (SELECT FROM orders WHERE id = {below})"));
        assert_eq!((horizon(&mut reader), polled(&mut reader)), (None, 0));
        primary.wait_until_mark_has_passed();
    }
}

/// Its worker was on the page already as one without marks, and nobody says when it is below what standbys have read.
#[test]
fn a_worker_without_marks_in_wal_takes_back_the_horizon_that_another_one_has_brought_to_standbys() {
    let mut primary = Cluster::builder().worker(7).set("snowflake_pg.wal_mark", "off").own_clock().start();
    let mut client = primary.connect();
    client.batch_execute(super::TABLE).expect("a table");
    insert(&mut client);
    let standby = Cluster::builder().worker(9).standby_of(&primary);
    let mut start_as = |worker: u16, wal_mark, clock| {
        primary.stop(Signal::INT);
        primary.configure("snowflake_pg.worker_id", worker);
        primary.configure("snowflake_pg.wal_mark", wal_mark);
        primary.set_clock(clock);
        primary.start();
        insert(&mut primary.connect())
    };
    let read = start_as(8, "prefer", 60.0);
    wait_for(&standby, read);
    let below = start_as(7, "off", 0.0);
    assert!(below < read, "the clock is behind");
    standby.wait_until(&format!("SELECT EXISTS (SELECT FROM orders WHERE id = {below})"));
    let refused = error(&mut standby.connect(), "SELECT snowflake_horizon()");
    assert_eq!(refused.message(), "WAL has no horizon, and recovery is in progress");
}

#[test]
fn after_a_promotion_a_transaction_prepared_on_the_old_primary_is_waited_for() {
    let (primary, mut client) = server();
    let standby = standby().standby_of(&primary);
    client.batch_execute("BEGIN").expect("a transaction");
    let prepared = insert(&mut client);
    client.batch_execute("PREPARE TRANSACTION 'moved'").expect("a prepared transaction");
    wait_for(&standby, prepared - 1);
    standby.wait_for_commits_of(&primary);
    let mut reader = standby.connect();
    assert_eq!((horizon(&mut reader), polled(&mut reader)), (Some(prepared), 3));
    standby.promote();
    let after = insert(&mut reader);
    assert_eq!((horizon(&mut reader), polled(&mut reader)), (Some(prepared), 3));
    reader.batch_execute("COMMIT PREPARED 'moved'").expect("its end");
    assert!(horizon(&mut reader) > Some(after));
    assert_eq!(polled(&mut reader), 5);
}

/// The rows that a reader gets who has read as far as it could.
fn rest(reader: &mut Client, after: i64) -> Vec<i64> {
    let rows = reader.query("SELECT id FROM snowflake_poll(NULL::orders, $1)", &[&after]).expect("rows");
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn readers_of_a_standby_go_on_where_they_were_when_it_is_promoted_with_a_worker_of_its_own() {
    let (mut primary, mut client) = server();
    let standby = standby().standby_of(&primary);
    let cascade = Cluster::builder().worker(9).set("max_prepared_transactions", 10).standby_of(&standby);
    let last = insert(&mut client);
    for server in [&standby, &cascade] {
        wait_for(server, last);
    }
    let read = horizon(&mut standby.connect()).expect("a horizon");
    primary.stop(Signal::KILL);
    standby.promote();
    let new = insert(&mut standby.connect());
    assert!(new >= read);
    for server in [&standby, &cascade] {
        wait_for(server, new);
        assert_eq!(rest(&mut server.connect(), last), [new]);
    }
}
