//! Readers that follow a table by ID.

use super::{install, refusal, server, server_with_clock};
use std::thread::sleep;
use std::time::Duration;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Reader, Signal, Traffic, error, test, value};

const ORDERS: &str = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text)";

const HORIZON: &str = "SELECT snowflake_horizon()";

fn horizon(client: &mut Client) -> Option<i64> {
    client.query_one(HORIZON, &[]).expect("a horizon").get(0)
}

fn insert(client: &mut Client) -> i64 {
    value(client, "INSERT INTO orders DEFAULT VALUES RETURNING id").parse().expect("an ID")
}

fn polled(client: &mut Client, after: i64) -> Vec<i64> {
    let rows = client.query("SELECT id FROM snowflake_poll(NULL::orders, $1)", &[&after]).expect("rows");
    rows.iter().map(|row| row.get(0)).collect()
}

#[test]
fn readers_by_id_miss_no_row_whatever_transactions_do_and_whenever_the_server_crashes() {
    let mut cluster = Cluster::builder().set("max_prepared_transactions", 50).start();
    install(&mut cluster.connect(), 7);
    let traffic = Traffic::start(&cluster, 16);
    sleep(Duration::from_secs(3));
    cluster.stop(Signal::KILL);
    cluster.start();
    sleep(Duration::from_secs(3));
    judge(traffic);
}

/// Its sequences for readers are empty then, and transactions that were prepared before go on.
#[test]
fn readers_by_id_miss_no_row_when_a_standby_takes_over() {
    let builder = || Cluster::builder().set("max_prepared_transactions", 50);
    let mut primary = builder().start();
    install(&mut primary.connect(), 7);
    let standby = builder().standby_of(&primary);
    let traffic = Traffic::start(&primary, 16);
    sleep(Duration::from_secs(3));
    // It has sent all that readers can have seen.
    primary.stop(Signal::INT);
    standby.promote();
    traffic.move_to(&standby);
    sleep(Duration::from_secs(3));
    judge(traffic);
}

fn judge(traffic: Traffic) {
    let (rows, seen) = traffic.finish();
    assert!(rows > 100, "{rows} rows");
    for seen in seen {
        println!("{rows} rows: {seen:?}");
        let counts = (seen.missed, seen.repeated, seen.out_of_order, seen.vanished);
        if seen.reader == Reader::Naive {
            assert!(seen.missed > 0, "the traffic would not show a mistake: {seen:?}");
        } else {
            assert_eq!(counts, (0, 0, 0, 0), "{seen:?}");
        }
    }
}

#[test]
fn a_transaction_that_has_drawn_an_id_holds_the_horizon_below_it_until_it_has_ended() {
    let cluster = Cluster::builder().set("max_prepared_transactions", 2).start();
    install(&mut cluster.connect(), 7);
    let [mut reader, mut writer, mut other] = [(); 3].map(|()| cluster.connect());
    reader.batch_execute(ORDERS).expect("a table");
    let first = insert(&mut reader);
    assert_eq!(polled(&mut reader, 0), [first]);
    for end in ["COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'"] {
        let last = polled(&mut reader, 0).into_iter().max();
        // An ID that is drawn in a subtransaction that is rolled back can be inserted later.
        writer.batch_execute("BEGIN; SAVEPOINT s").expect("a transaction");
        let open: i64 = value(&mut writer, "SELECT snowflake_nextval()").parse().expect("an ID");
        writer.batch_execute("ROLLBACK TO s").expect("a rollback");
        let later = insert(&mut other);
        assert!(later > open);
        for _ in 0..3 {
            assert_eq!(polled(&mut reader, first).into_iter().max(), last.filter(|&last| last > first));
            assert!(horizon(&mut reader) <= Some(open));
        }
        writer.batch_execute(&format!("INSERT INTO orders VALUES ({open})")).expect("a row");
        let (prepare, end) = end.split_once("; ").map_or(("", end), |(prepare, end)| (prepare, end));
        writer.batch_execute(prepare).expect("a prepared transaction");
        assert!(horizon(&mut reader) <= Some(open));
        let holder = "SELECT concat(gid, state) FROM snowflake_writers";
        let expected = if prepare.is_empty() { "idle in transaction" } else { "p" };
        cluster.wait_until(&format!("SELECT array_agg(holder) = '{{{expected}}}' FROM ({holder}) AS w (holder)"));
        writer.batch_execute(end).expect("its end");
        cluster.wait_until(&format!("SELECT snowflake_horizon() > {later}"));
        let rows = polled(&mut reader, last.unwrap_or(0));
        assert_eq!(rows, if end == "ROLLBACK" { vec![later] } else { vec![open, later] });
    }
}

#[test]
fn an_open_transaction_does_not_hold_up_what_was_drawn_before_it() {
    let cluster = server(7);
    let [mut reader, mut first, mut second] = [(); 3].map(|()| cluster.connect());
    reader.batch_execute(ORDERS).expect("a table");
    first.batch_execute("BEGIN").expect("a transaction");
    let row = insert(&mut first);
    let pid = value(&mut reader, "SELECT pg_backend_pid()");
    // As one message: a session is idle once it has prepared a statement, too.
    let looking = std::thread::spawn(move || (value(&mut reader, HORIZON).parse::<i64>().ok(), reader));
    // After the look, also if that takes longer with a mutant.
    let has_looked = "query LIKE '%horizon%' AND (state = 'idle' OR wait_event = 'PgSleep')";
    cluster.wait_until(&format!("SELECT {has_looked} FROM pg_stat_activity WHERE pid = {pid}"));
    second.batch_execute("BEGIN").expect("a transaction");
    let open = insert(&mut second);
    let (seen, mut reader) = looking.join().expect("a horizon");
    assert!(seen <= Some(row));
    first.batch_execute("COMMIT").expect("its end");
    // One transaction is open at any time.
    cluster.wait_until(&format!("SELECT snowflake_horizon() > {row}"));
    assert!(horizon(&mut reader) <= Some(open));
    assert_eq!(polled(&mut reader, 0), [row]);
}

/// A reader is complete up to about now where nobody inserts anything.
#[test]
fn an_idle_database_has_a_horizon_that_follows_the_clock_and_its_readers_have_issued_no_id() {
    let mut cluster = server(7);
    value(&mut cluster.connect(), "SELECT snowflake_nextval()");
    // A reader begins at the start of a server, too.
    for signal in [Signal::INT, Signal::KILL, Signal::INT] {
        cluster.wait_until("SELECT snowflake_timestamp(snowflake_horizon()) > clock_timestamp() - interval '1 s'");
        let mut reader = cluster.connect();
        assert!(horizon(&mut reader).is_some());
        sleep(Duration::from_millis(2));
        horizon(&mut reader);
        assert_eq!(refusal(&mut reader, "SELECT snowflake_lastval()").0, "55000");
        let own: i64 = value(&mut reader, "SELECT snowflake_nextval()").parse().expect("an ID");
        sleep(Duration::from_millis(2));
        cluster.wait_until(&format!("SELECT snowflake_horizon() > {own}"));
        horizon(&mut reader);
        assert_eq!(value(&mut reader, "SELECT snowflake_lastval()"), own.to_string());
        cluster.restart(signal);
    }
}

/// Readers have no transaction ID, so none waits for another.
#[test]
fn polls_that_wait_get_a_row_at_the_same_time() {
    let cluster = server(7);
    let [mut owner, mut writer] = [(); 2].map(|()| cluster.connect());
    owner.batch_execute(ORDERS).expect("a table");
    insert(&mut writer);
    cluster.wait_until("SELECT last_issued_at < clock_timestamp() FROM snowflake_status");
    let waiting = [(); 3].map(|()| {
        let mut reader = cluster.connect();
        let last = "SELECT coalesce(max(id), 0) FROM orders";
        let last = value(&mut reader, last);
        std::thread::spawn(move || {
            value(&mut reader, &format!("SELECT count(*) FROM snowflake_poll(NULL::orders, {last}, wait => '20 s')"))
        })
    });
    let wait = "SELECT count(*) = 3 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%20 s%'";
    cluster.wait_until(wait);
    insert(&mut writer);
    assert_eq!(waiting.map(|reader| reader.join().expect("rows")), ["1", "1", "1"]);
}

#[test]
fn a_poll_that_waits_makes_way_for_whoever_waits_for_a_lock_of_its_table() {
    let cluster = server(7);
    let [mut reader, mut owner] = [(); 2].map(|()| cluster.connect());
    owner.batch_execute(ORDERS).expect("a table");
    let waiting = std::thread::spawn(move || {
        value(&mut reader, "SELECT count(*) FROM snowflake_poll(NULL::orders, 0, wait => '1 minute')")
    });
    cluster.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep')");
    owner.batch_execute("SET lock_timeout = '20 s'; ALTER TABLE orders ADD n integer").expect("a column");
    assert_eq!(waiting.join().expect("no rows"), "0");
}

#[test]
fn a_poll_finds_what_a_policy_names_without_a_schema() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(&format!(
            "{ORDERS}; INSERT INTO orders DEFAULT VALUES; CREATE TABLE members (name name); CREATE ROLE reader;
             GRANT SELECT ON orders, members TO reader; INSERT INTO members VALUES ('reader');
             CREATE FUNCTION is_member() RETURNS boolean LANGUAGE plpgsql STABLE
                 AS 'BEGIN RETURN EXISTS (SELECT FROM members WHERE name = current_user); END';
             CREATE POLICY own ON orders USING (is_member()); ALTER TABLE orders ENABLE ROW LEVEL SECURITY;
             SET ROLE reader"
        ))
        .expect("a policy");
    cluster.wait_until("SELECT snowflake_horizon() > max(id) FROM orders");
    assert_eq!(polled(&mut client, 0).len(), 1);
}

#[test]
fn a_reader_leaves_the_layout_open_and_a_new_worker_begins_above_the_horizon() {
    let cluster = server_with_clock(7);
    let mut client = cluster.connect();
    assert_eq!(horizon(&mut client), None);
    client.batch_execute("SELECT snowflake_set_layout('js')").expect("a layout, before the first ID");
    value(&mut client, "SELECT snowflake_nextval()");
    let read = horizon(&mut client);
    cluster.set_clock(-3.0);
    client.batch_execute("SELECT snowflake_set_worker_id(3)").expect("a worker");
    let next: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
    assert!(Some(next) >= read, "{next} is below {read:?}");
}

#[test]
fn a_poll_waits_for_rows_as_long_as_it_is_asked_to() {
    let cluster = server(7);
    let [mut reader, mut writer] = [(); 2].map(|()| cluster.connect());
    reader.batch_execute(ORDERS).expect("a table");
    let waiting = std::thread::spawn(move || {
        value(&mut reader, "SELECT count(*) FROM snowflake_poll(NULL::orders, 0, wait => '1 minute')")
    });
    cluster.wait_until(
        "SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE query LIKE '%1 minute%' AND pid <> pg_backend_pid()",
    );
    insert(&mut writer);
    assert_eq!(waiting.join().expect("rows"), "1");
}

#[test]
fn every_way_to_draw_an_id_holds_back_rows_that_were_committed_after_it() {
    let cluster = server(7);
    let [mut client, mut other] = [(); 2].map(|()| cluster.connect());
    client
        .batch_execute(&format!(
            "{ORDERS}; CREATE TABLE filled (id bigint);
             CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             CREATE FUNCTION draw() RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM snowflake_nextval(); RAISE division_by_zero;
                 EXCEPTION WHEN division_by_zero THEN NULL; END'"
        ))
        .expect("tables");
    for draw in [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_id()",
        "SELECT * FROM snowflake_nextvals(3)",
        "SELECT * FROM snowflake_nextblock(3)",
        "SELECT snowflake_nextval_for_shard(8, 3)",
        "INSERT INTO filled VALUES (NULL)",
        "INSERT INTO orders (note) SELECT 'many' FROM generate_series(1, 100)",
        "DO 'BEGIN PERFORM snowflake_nextval(); END'",
        "SELECT draw()",
        "SAVEPOINT s; SELECT snowflake_nextval(); ROLLBACK TO s",
        "CREATE TABLE made AS SELECT snowflake_nextval() AS id",
        "DECLARE c CURSOR FOR SELECT snowflake_nextval() FROM generate_series(1, 9); FETCH 2 FROM c",
    ] {
        other.batch_execute(&format!("BEGIN; {draw}")).expect(draw);
        let later = insert(&mut client);
        assert!(!polled(&mut client, 0).contains(&later), "{draw}");
        other.batch_execute("COMMIT").expect("its end");
        assert!(polled(&mut client, 0).contains(&later), "{draw}");
    }
}

/// No other transaction runs, so nothing else holds the horizon.
#[test]
fn a_writer_that_polls_holds_the_horizon_of_others_until_it_has_ended() {
    let cluster = server(7);
    let [mut reader, mut writer] = [(); 2].map(|()| cluster.connect());
    reader.batch_execute(ORDERS).expect("a table");
    writer.batch_execute("BEGIN").expect("a transaction");
    let open = insert(&mut writer);
    for _ in 0..2 {
        assert_eq!(polled(&mut writer, 0), [open], "it sees its own row");
        assert!(polled(&mut reader, 0).is_empty());
        assert!(horizon(&mut reader) <= Some(open));
    }
    writer.batch_execute("COMMIT").expect("its end");
    assert_eq!(polled(&mut reader, 0), [open]);
}

#[test]
fn no_poll_waits_in_a_transaction_for_which_other_readers_would_wait() {
    let mut cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute(ORDERS).expect("a table");
    insert(&mut client);
    client.batch_execute("BEGIN; SELECT FROM orders FOR UPDATE").expect("a lock");
    let refused = error(&mut client, "SELECT * FROM snowflake_poll(NULL::orders, 0, wait => '1 s')");
    let message = "snowflake_poll() cannot wait in a transaction that has written";
    assert_eq!((refused.message(), refused.code().code()), (message, "25001"));
    // The first session after a start writes.
    cluster.restart(Signal::INT);
    let mut client = cluster.connect();
    client.batch_execute("SET statement_timeout = '30s'").expect("less than it would wait");
    let none = "SELECT count(*) FROM snowflake_poll(NULL::orders, 9223372036854775806, wait => '1 minute')";
    assert_eq!(value(&mut client, none), "0");
}

#[test]
fn there_is_no_horizon_on_a_standby_in_a_copy_or_where_nothing_may_be_written() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute(ORDERS).expect("a table");
    for (function, call) in
        [("snowflake_horizon()", "snowflake_horizon()"), ("snowflake_poll()", "snowflake_poll(NULL::orders, 0)")]
    {
        let query = format!("SELECT {call}");
        for (level, code, message) in [
            ("READ ONLY", "25006", format!("cannot execute {function} in a read-only transaction")),
            (
                "ISOLATION LEVEL SERIALIZABLE",
                "0A000",
                format!("{function} cannot be used in a REPEATABLE READ or SERIALIZABLE transaction"),
            ),
        ] {
            client.batch_execute(&format!("BEGIN TRANSACTION {level}")).expect("a transaction");
            assert_eq!(refusal(&mut client, &query), (code.to_owned(), message));
            client.batch_execute("ROLLBACK").expect("its end");
        }
    }
    let standby = Cluster::builder().standby_of(&cluster);
    let message = "cannot execute snowflake_horizon() during recovery";
    assert_eq!(refusal(&mut standby.connect(), HORIZON), ("25006".to_owned(), message.to_owned()));
    drop(client);
    let connect_to = |name| cluster.config().dbname(name).connect(NoTls).expect("a session");
    connect_to("template1").batch_execute("CREATE DATABASE copy TEMPLATE postgres").expect("a copy");
    let message = "this database is a copy of another one with the same worker ID";
    assert_eq!(refusal(&mut connect_to("copy"), HORIZON), ("55000".to_owned(), message.to_owned()));
}
