//! Which transactions hold the horizon back, and how long.

use super::{horizon, insert, polled, server};
use testbed::postgres::Client;
use testbed::{Cluster, Signal, error, test, value};

/// The first IDs in `snowflake_writers`.
fn first_ids(client: &mut Client) -> Vec<Option<i64>> {
    let rows = client.query("SELECT first_id FROM snowflake_writers", &[]).expect("the writers");
    rows.iter().map(|row| row.get(0)).collect()
}

/// Also when the mark must be extended. The keeper does that if standbys must acknowledge the mark.
#[test]
fn an_idle_server_has_a_horizon_that_follows_the_clock() {
    for wal_mark in ["prefer", "require"] {
        let cluster = Cluster::builder().worker(7).set("snowflake_pg.wal_mark", wal_mark);
        let cluster = cluster.set("snowflake_pg.keep_warm", 0).start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        // Until then, it may extend the mark once more.
        cluster.wait_until_keeper_rests();
        cluster.wait_until_mark_has_passed();
        let now = value(&mut client, "SELECT snowflake_min_id(clock_timestamp() - interval '10 ms')");
        let follows = format!("SELECT snowflake_horizon() >= {now}");
        if wal_mark == "prefer" {
            assert_eq!(value(&mut client, &follows), "t");
        } else {
            let keeper = value(&mut client, "SELECT keeper_pid FROM snowflake_status").parse().expect("a process ID");
            testbed::send(keeper, Signal::STOP);
            assert!(horizon(&mut client).is_some(), "as far as the mark allows");
            testbed::send(keeper, Signal::CONT);
        }
        cluster.wait_until(&follows);
    }
}

#[test]
fn the_horizon_is_above_all_rows_when_no_transaction_has_drawn_an_id() {
    let (_cluster, mut client) = server();
    let last: i64 = value(&mut client, "SELECT max(id) FROM orders").parse().expect("an ID");
    assert!(horizon(&mut client) > Some(last));
    assert_eq!(first_ids(&mut client), []);
    assert_eq!(polled(&mut client), 3);
}

#[test]
fn the_horizon_waits_for_a_transaction_until_it_commits_or_rolls_back() {
    for end in ["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN"] {
        let (cluster, mut client) = server();
        let mut other = cluster.connect();
        other.batch_execute("BEGIN").expect("a transaction");
        assert_eq!(first_ids(&mut client), [], "a transaction without an ID");
        let first = insert(&mut other);
        let later = insert(&mut client);
        insert(&mut other);
        assert_eq!(horizon(&mut client), Some(first), "{end}");
        assert_eq!(first_ids(&mut client), [Some(first)]);
        assert_eq!(polled(&mut client), 3, "{end}");
        other.batch_execute(end).expect("its end");
        assert!(horizon(&mut client).is_some_and(|horizon| horizon > later), "{end}");
        assert_eq!(polled(&mut client), if end.starts_with("COMMIT") { 6 } else { 4 }, "{end}");
    }
}

#[test]
fn status_shows_up_to_when_readers_get_all_rows_and_moves_no_idle_server() {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; SELECT snowflake_nextval()").expect("an ID");
    value(&mut client, "SELECT snowflake_nextval()");
    let held = "SELECT horizon_at = snowflake_timestamp(first_id) FROM snowflake_status, snowflake_writers";
    assert_eq!(value(&mut client, held), "t");
    other.batch_execute("COMMIT").expect("its end");
    let idle = "SELECT horizon_at - last_issued_at BETWEEN '0' AND '1 ms' FROM snowflake_status";
    assert_eq!(value(&mut client, idle), "t");
    cluster.wait_until("SELECT last_issued_at < clock_timestamp() - interval '100 ms' FROM snowflake_status");
    assert_eq!(value(&mut client, idle), "t");
    let metric = "SELECT horizon_timestamp_seconds BETWEEN 1.6e9 AND 1e10 FROM snowflake_metrics";
    assert_eq!(value(&mut client, metric), "t");
}

#[test]
fn an_error_ends_what_holds_the_horizon_back_and_a_savepoint_does_not() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; SAVEPOINT s").expect("a transaction");
    let first = insert(&mut other);
    other.batch_execute("SELECT 1 / 0").expect_err("an error");
    assert_eq!(first_ids(&mut client), [Some(first)], "only a part of the transaction has failed");
    other.batch_execute("ROLLBACK TO s").expect("a part of the transaction");
    assert_eq!(horizon(&mut client), Some(first));
    other.batch_execute("RELEASE s; SELECT 1 / 0").expect_err("an error");
    // A server sends an error before it ends the transaction: its next answer is after the end.
    other.batch_execute("").expect("an answer");
    assert_eq!(first_ids(&mut client), []);
    // The client has not even said ROLLBACK.
    assert!(horizon(&mut client) > Some(first));
}

#[test]
fn every_way_to_draw_an_id_holds_the_horizon_back() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    client
        .batch_execute(
            "CREATE TABLE filled (id bigint);
             CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id')",
        )
        .expect("a trigger");
    for draw in [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_id()",
        "SELECT * FROM snowflake_nextvals(3)",
        "SELECT * FROM snowflake_nextblock(3)",
        "INSERT INTO filled VALUES (NULL)",
        "DO 'BEGIN PERFORM snowflake_nextval(); END'",
    ] {
        let before = horizon(&mut client).expect("a horizon");
        other.batch_execute(&format!("BEGIN; {draw}")).expect(draw);
        insert(&mut client);
        assert!(matches!(first_ids(&mut client)[..], [Some(first)] if first >= before), "{draw}");
        assert!(horizon(&mut client).is_some_and(|horizon| horizon < before + (10_000 << 22)), "{draw}");
        assert_eq!(value(&mut client, "SELECT snowflake_horizon() = min(first_id) FROM snowflake_writers"), "t");
        other.batch_execute("COMMIT").expect("its end");
        assert_eq!(first_ids(&mut client), [], "{draw}");
    }
}

#[test]
fn ids_of_parallel_workers_hold_the_horizon_back_until_the_leader_commits() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    other
        .batch_execute(
            "INSERT INTO orders (note) SELECT 'more' FROM generate_series(1, 20000); ANALYZE orders;
             SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
             SET parallel_leader_participation = off",
        )
        .expect("settings");
    let before = horizon(&mut client);
    let create = "CREATE TABLE copied AS SELECT snowflake_nextval() AS id FROM orders WHERE note LIKE 'm%'";
    other.batch_execute(&format!("BEGIN; {create}")).expect("a parallel query");
    let plan = testbed::plan(&mut other, &format!("EXPLAIN {}", create.replace("copied", "again")));
    assert!(plan.contains("Workers Planned: "), "{plan}");
    let least: i64 = value(&mut other, "SELECT min(id) FROM copied").parse().expect("an ID");
    let pid: i32 = value(&mut other, "SELECT pg_backend_pid()").parse().expect("a process ID");
    assert_eq!(value(&mut client, "SELECT pid FROM snowflake_writers"), pid.to_string(), "the leader");
    assert!(horizon(&mut client) >= before && horizon(&mut client) <= Some(least));
    other.batch_execute("COMMIT").expect("its end");
    assert_eq!(first_ids(&mut client), []);
    assert!(horizon(&mut client) > Some(least));
}

#[test]
fn a_prepared_transaction_holds_the_horizon_back_until_another_session_ends_it() {
    for (end, rows) in [("COMMIT PREPARED 'p'", 4), ("ROLLBACK PREPARED 'p'", 3)] {
        let (cluster, mut client) = server();
        let mut other = cluster.connect();
        other.batch_execute("BEGIN; SELECT 1; PREPARE TRANSACTION 'without IDs'").expect("a prepared transaction");
        assert_eq!(first_ids(&mut client), []);
        other.batch_execute("BEGIN").expect("a transaction");
        let first = insert(&mut other);
        other.batch_execute("PREPARE TRANSACTION 'p'").expect("a prepared transaction");
        drop(other);
        assert_eq!(horizon(&mut client), Some(first));
        let who = "SELECT concat_ws(' ', pid, gid, first_id, datname, usename) FROM snowflake_writers";
        assert_eq!(value(&mut client, who), format!("p {first} postgres postgres"));
        assert_eq!(polled(&mut client), 3);
        client.batch_execute(end).expect("its end");
        assert_eq!((first_ids(&mut client), polled(&mut client)), (vec![], rows), "{end}");
    }
}

#[test]
fn the_last_horizon_in_wal_stays_while_a_transaction_is_prepared_that_is_older_than_the_server() {
    for how in [Signal::INT, Signal::QUIT] {
        let (mut cluster, mut client) = server();
        client.batch_execute("BEGIN").expect("a transaction");
        let held = insert(&mut client);
        client.batch_execute("PREPARE TRANSACTION 'old'").expect("a prepared transaction");
        client.batch_execute("BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'without IDs'").expect("another one");
        cluster.wait_until_horizon_in_wal(held);
        cluster.restart(how);
        let mut client = cluster.connect();
        insert(&mut client);
        assert_eq!((horizon(&mut client), polled(&mut client)), (Some(held), 3));
        let who = "SELECT concat_ws(' ', pid, gid, first_id) FROM snowflake_writers WHERE first_id_at < now()";
        assert_eq!(value(&mut client, who), "old");
        // A new one is known.
        client.batch_execute("BEGIN; SELECT snowflake_nextval(); PREPARE TRANSACTION 'new'").expect("another one");
        assert_eq!(first_ids(&mut client).len(), 2);
        for gid in ["old", "new"] {
            client.batch_execute(&format!("COMMIT PREPARED '{gid}'")).expect("its end");
        }
        assert_eq!((first_ids(&mut client), polled(&mut client)), (vec![], 5), "one without IDs holds nothing back");
        // Also after another restart.
        cluster.restart(how);
        let mut client = cluster.connect();
        insert(&mut client);
        assert_eq!(polled(&mut client), 6);
        client.batch_execute("ROLLBACK PREPARED 'without IDs'").expect("its end");
    }
}

#[test]
fn a_session_that_is_terminated_holds_nothing_back() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    other.batch_execute("BEGIN").expect("a transaction");
    let first = insert(&mut other);
    assert_eq!(first_ids(&mut client), [Some(first)]);
    let terminate = "SELECT pg_terminate_backend(pid, 60000) FROM snowflake_writers";
    assert_eq!(value(&mut client, terminate), "t");
    assert_eq!(first_ids(&mut client), []);
    assert_eq!((horizon(&mut client) > Some(first), polled(&mut client)), (true, 3));
}

/// All processes lose their transactions, and the memory is made anew.
#[test]
fn nothing_holds_the_horizon_back_after_a_crash_and_all_rows_are_below_it() {
    let (cluster, mut client) = server();
    let mut other = cluster.connect();
    other.batch_execute("BEGIN").expect("a transaction");
    let open = insert(&mut other);
    let pid: u32 = value(&mut other, "SELECT pg_backend_pid()").parse().expect("a process ID");
    let last = insert(&mut client);
    assert_eq!(horizon(&mut client), Some(open));
    testbed::send(pid, Signal::KILL);
    while client.batch_execute("").is_ok() {}
    let mut client = reconnected(&cluster);
    assert_eq!(first_ids(&mut client), []);
    assert!(horizon(&mut client).is_some_and(|horizon| horizon > last), "no ID was drawn since the crash");
    assert_eq!(polled(&mut client), 4);
}

/// A transaction whose call for an ID has failed before the start, and which goes on.
#[test]
fn a_transaction_from_before_the_start_of_the_generator_does_not_take_the_horizon_back() {
    let (mut cluster, mut client) = server();
    let before = horizon(&mut client);
    cluster.stop(Signal::INT);
    std::fs::write(cluster.mark_file(), "not a mark").expect("own file");
    cluster.start();
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    other.batch_execute("BEGIN; SAVEPOINT s").expect("a transaction");
    error(&mut other, "SELECT snowflake_nextval()");
    other.batch_execute("ROLLBACK TO s").expect("a transaction");
    client.batch_execute("SELECT snowflake_reset_mark(clock_timestamp() + interval '1 s')").expect("a mark");
    insert(&mut client);
    assert!(horizon(&mut client) > before, "{:?}", first_ids(&mut client));
    assert_eq!(polled(&mut client), 4);
}

#[test]
fn the_metrics_have_how_long_the_oldest_transaction_holds_the_horizon_back() {
    let (cluster, mut client) = server();
    let oldest = "SELECT oldest_writer_seconds FROM snowflake_metrics";
    assert_eq!(value(&mut client, oldest), "0");
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; SELECT snowflake_nextval()").expect("a transaction");
    cluster.wait_until(&format!("SELECT ({oldest}) BETWEEN 0.3 AND 300"));
    client.batch_execute("CREATE ROLE reader; SET ROLE reader").expect("a role");
    assert_eq!(value(&mut client, &format!("SELECT ({oldest}) BETWEEN 0.3 AND 300")), "t");
    other.batch_execute("PREPARE TRANSACTION 'p'").expect("a prepared transaction");
    assert_eq!(value(&mut client, &format!("SELECT ({oldest}) BETWEEN 0.3 AND 300")), "t");
    for (setting, shown) in [("on", "0"), ("off", "NULL")] {
        let cluster = Cluster::builder().worker(7).set("snowflake_pg.track_writers", setting).start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        assert_eq!(value(&mut client, oldest), shown);
    }
    let cluster = Cluster::builder().set("snowflake_pg.track_writers", "on").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(value(&mut client, oldest), "NULL", "not preloaded");
}

/// A session after the recovery.
fn reconnected(cluster: &Cluster) -> Client {
    loop {
        if let Ok(mut client) = cluster.try_connect()
            && client.query("SELECT 1", &[]).is_ok()
        {
            return client;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn the_view_of_writers_shows_who_holds_the_horizon_back_and_since_when() {
    let (cluster, mut client) = server();
    cluster.settle();
    let mut others = [(); 3].map(|()| cluster.connect());
    let ids: Vec<_> = others
        .iter_mut()
        .enumerate()
        .map(|(nth, other)| {
            other.batch_execute(&format!("SET application_name = 'client {nth}'; BEGIN")).expect("a transaction");
            insert(other)
        })
        .collect();
    let query = "SELECT concat_ws(', ', application_name, first_id, state, usename, datname, \
                 first_id_at BETWEEN xact_start AND now(), query LIKE 'INSERT%', xact_start <= now()) \
                 FROM snowflake_writers LIMIT 1";
    let seen = value(&mut client, query);
    assert_eq!(seen, format!("client 0, {}, idle in transaction, postgres, postgres, t, t, t", ids[0]));
    others[0].batch_execute("COMMIT").expect("its end");
    assert_eq!(first_ids(&mut client), [Some(ids[1]), Some(ids[2])]);
    // Others see no more than they do in pg_stat_activity.
    client.batch_execute("CREATE ROLE reader; SET ROLE reader").expect("a role");
    let query = "SELECT concat_ws(', ', count(*), count(first_id), max(query)) FROM snowflake_writers";
    assert_eq!(value(&mut client, query), "2, 2, <insufficient privilege>");
}
