//! What a call gives, and whom it refuses.

use super::{LOCKED, install, refusal, server};
use std::thread;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, Load, Signal, error, hosted_script, test, value};

/// IDs of all sessions ascend in the order in which they were taken, and a rollback takes none back.
#[test]
fn ids_ascend_over_sessions_rollbacks_and_prepared_transactions() {
    let cluster = Cluster::builder().set("max_prepared_transactions", 5).start();
    let mut sessions = [cluster.connect(), cluster.connect()];
    install(&mut sessions[0], 7);
    let mut last = 0;
    for round in 0..20 {
        for (nth, client) in sessions.iter_mut().enumerate() {
            let end = match round % 4 {
                0 => "ROLLBACK".to_owned(),
                1 => format!("PREPARE TRANSACTION 'of {nth} in {round}'"),
                2 => "ROLLBACK TO s; COMMIT".to_owned(),
                _ => "COMMIT; DISCARD ALL".to_owned(),
            };
            client.batch_execute("BEGIN; CREATE TABLE IF NOT EXISTS t (); SAVEPOINT s").expect("a transaction");
            for query in ["SELECT snowflake_nextval()", "SELECT max(id) FROM snowflake_nextvals(5000) id"] {
                let id: i64 = value(client, query).parse().expect("an ID");
                assert!(id > last, "{id} after {last}");
                last = id;
            }
            for command in end.split("; ") {
                client.batch_execute(command).expect("the end of a transaction");
            }
            let prepared = format!("ROLLBACK PREPARED 'of {nth} in {round}'");
            if round % 4 == 1 {
                client.batch_execute(&prepared).expect("the end of a transaction");
            }
        }
    }
}

#[test]
fn two_hundred_sessions_wait_for_each_other_and_none_is_refused() {
    let cluster = Cluster::builder().set("max_connections", 230).start();
    install(&mut cluster.connect(), 7);
    let load = Load::start(&cluster, 200, "SELECT snowflake_nextval()");
    load.wait_for_some(20_000);
    let report = load.finish();
    assert_eq!((report.duplicates(), report.inversions(), report.errors().len()), (0, 0, 0), "{:?}", report.errors());
}

#[test]
fn sessions_that_have_issued_ids_go_on_with_the_new_worker() {
    let cluster = server(7);
    let [mut owner, mut client] = [cluster.connect(), cluster.connect()];
    let worker = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";
    // The first five calls are planned one by one.
    assert_eq!(value(&mut client, "SELECT count(snowflake_nextval()) FROM generate_series(1, 100)"), "100");
    assert_eq!(value(&mut client, worker), "7");
    for new in ["8", "1023", "0"] {
        owner.execute(&format!("SELECT snowflake_set_worker_id({new})"), &[]).expect("a worker");
        assert_eq!(value(&mut client, worker), new);
    }
}

#[test]
fn a_layout_that_cannot_issue_now_is_refused_and_another_one_is_taken_before_the_first_id() {
    let cluster = server(7);
    let mut client = cluster.connect();
    for (layout, code) in [
        ("flat epoch=2090-01-01T00:00:00Z", "22008"),
        ("t32 s31 epoch=1970-01-01T00:00:00Z", "22008"),
        ("t20 w10 s12 unit=1s epoch=2020-01-01T00:00:00Z", "22008"),
        ("t41 w10 s13", "22023"),
        ("t41 w2 s20", "22003"),
        ("tsid", "22023"),
    ] {
        assert_eq!(
            error(&mut client, &format!("SELECT snowflake_set_layout('{layout}')")).code().code(),
            code,
            "{layout}"
        );
    }
    client.batch_execute("SELECT snowflake_set_layout('game')").expect("a layout");
    let late = "SELECT abs(extract(epoch FROM clock_timestamp() - snowflake_timestamp(snowflake_nextval()))) < 6";
    assert_eq!(value(&mut client, late), "t");
    assert_eq!(refusal(&mut client, "SELECT snowflake_set_layout('flat')").0, "55000");
}

#[test]
fn a_standby_and_a_transaction_that_only_reads_are_refused_and_decode() {
    let mut primary = server(7);
    let mut client = primary.connect();
    let id: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
    client.batch_execute("SET default_transaction_read_only = on").expect("a setting");
    // In the middle of the expression that holds the lock.
    for _ in 0..2 {
        assert_eq!(refusal(&mut client, "SELECT snowflake_nextval()").0, "25006");
        assert_eq!(value(&mut client, LOCKED), "0");
    }
    let standby = Cluster::builder().standby_of(&primary);
    standby.wait_for_commits_of(&primary);
    let mut reader = standby.connect();
    assert_eq!(refusal(&mut reader, "SELECT snowflake_nextval()").0, "25006");
    assert_eq!(value(&mut reader, &format!("SELECT worker_id FROM snowflake_decode({id})")), "7");
    // The promoted standby goes on above all that was committed.
    primary.stop(Signal::QUIT);
    reader.batch_execute("SELECT pg_promote()").expect("a promotion");
    let next: i64 = value(&mut standby.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
    assert!(next > id, "{next} after {id}");
}

/// A block is a part of what is taken for it, where a tick would end in it.
#[test]
fn the_last_id_of_a_session_is_the_last_of_its_block_or_batch() {
    let cluster = server(7);
    let mut client = cluster.connect();
    assert_eq!(refusal(&mut client, "SELECT snowflake_lastval()").0, "55000");
    let mut ends = 0;
    for _ in 0..50 {
        let blocks = "SELECT bool_and(last = snowflake_lastval()) AND bool_and(last - first = 999),
            count(*) FILTER (WHERE last & 4095 = 4095) FROM generate_series(1, 20), snowflake_nextblock(1000)";
        let row = client.query_one(blocks, &[]).expect("blocks");
        assert!(row.get::<_, bool>(0));
        ends += row.get::<_, i64>(1);
        assert_eq!(value(&mut client, "SELECT snowflake_nextval() = snowflake_lastval()"), "t");
        assert_eq!(value(&mut client, "SELECT max(id) = snowflake_lastval() FROM snowflake_nextvals(10) id"), "t");
    }
    assert!(ends > 50, "{ends}");
}

/// Some of them forget the position that the session has set.
#[test]
fn a_session_goes_on_with_larger_ids_after_each_kind_of_discard() {
    let cluster = server(7);
    let mut client = cluster.connect();
    let mut last: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
    for (what, forgets) in [("PLANS", false), ("TEMP", false), ("SEQUENCES", true), ("ALL", true)] {
        client.batch_execute(&format!("DISCARD {what}")).expect("nothing is left");
        let known = client.simple_query("SELECT snowflake_lastval()").is_ok();
        assert_eq!(known, !forgets, "{what}");
        for _ in 0..2 {
            let next = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
            assert!(next > last, "{what}: {next} after {last}");
            last = next;
        }
    }
}

#[test]
fn the_trigger_fills_rows_of_any_size() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE TABLE pages (id bigint PRIMARY KEY, \"a text\" text);
             CREATE TRIGGER fill BEFORE INSERT ON pages FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id')",
        )
        .expect("a table");
    // JSON of the last one is longer than a value can be.
    for (given, bytes) in [("NULL", 1), ("5", 1), ("6", 200_000), ("NULL", 180_000_000)] {
        let insert =
            format!("INSERT INTO pages VALUES ({given}, repeat(E'\\x01', {bytes})) RETURNING id, length(\"a text\")");
        let row = client.query_one(&insert, &[]).expect("a row");
        assert_eq!((row.get::<_, i64>(0) > 6, row.get(1)), (given == "NULL", bytes));
    }
}

#[test]
fn the_trigger_uses_a_default_that_chooses_the_place_of_an_id_and_no_other() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE TABLE placed (id bigint DEFAULT snowflake_nextval_for_shard(2, current_setting('shop.shard')::int));
             CREATE TRIGGER fill BEFORE INSERT ON placed FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             CREATE TABLE plain (id bigserial);
             CREATE TRIGGER fill BEFORE INSERT ON plain FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             SET shop.shard = 1; SET quote_all_identifiers = on; INSERT INTO placed SELECT NULL FROM generate_series(1, 100);
             INSERT INTO plain VALUES (NULL)",
        )
        .expect("rows");
    let shards = "SELECT string_agg(DISTINCT snowflake_shard_of(id, 2)::text, ' ') FROM placed";
    assert_eq!(value(&mut client, shards), "1");
    assert_eq!(value(&mut client, "SELECT worker_id FROM plain, snowflake_decode(id)"), "7");
}

#[test]
fn the_trigger_uses_a_default_that_chooses_a_tag() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "SELECT snowflake_set_layout('t41 h8 w6 s8');
             CREATE TABLE tagged (id bigint DEFAULT snowflake_nextval_tagged(3));
             CREATE TRIGGER fill BEFORE INSERT ON tagged FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
             SET quote_all_identifiers = on; INSERT INTO tagged VALUES (NULL)",
        )
        .expect("rows");
    assert_eq!(value(&mut client, "SELECT tag FROM tagged, snowflake_decode(id)"), "3");
}

/// PostgreSQL before 19 has a setting by which a backslash in a string means something.
#[test]
fn the_script_and_its_functions_do_not_depend_on_how_the_session_reads_strings() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    if client.batch_execute("SET standard_conforming_strings = off").is_err() {
        return;
    }
    client.batch_execute("SET escape_string_warning = off").expect("a setting");
    install(&mut client, 7);
    assert_eq!(value(&mut client, "SHOW standard_conforming_strings"), "off");
    let calls =
        "SELECT (snowflake_decode(snowflake_nextval(), E't41\tw10  s12 epoch=2010-11-04T01:42:54.657Z')).worker_id";
    assert_eq!(value(&mut client, calls), "7");
    assert_eq!(client.batch_execute(&hosted_script()).map_err(|error| error.to_string()), Ok(()));
}

/// A call that waits for who sets the layout issues IDs of the new one.
#[test]
fn a_layout_that_is_set_while_a_call_waits_is_the_layout_of_its_ids() {
    for call in [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_nextvals(1000)",
        "SELECT generate_series(first, last) FROM snowflake_nextblock(30)",
        "SELECT snowflake_nextval_for_shard(512, 3)",
    ] {
        let cluster = server(5);
        let mut owner = cluster.connect();
        owner
            .batch_execute("BEGIN; SELECT snowflake_set_layout('t41 w6 s6 epoch=2024-01-01T00:00:00Z')")
            .expect("a layout");
        let mut client = cluster.connect();
        let waiting = thread::spawn(move || {
            client.query(call, &[]).expect("IDs").iter().map(|row| row.get(0)).collect::<Vec<i64>>()
        });
        cluster.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock')");
        owner.batch_execute("COMMIT").expect("the layout");
        let ids = waiting.join().expect("a client");
        let workers = "SELECT array_agg(DISTINCT (snowflake_decode(id)).worker_id)::text FROM unnest($1::bigint[]) id";
        let workers: String = owner.query_one(workers, &[&ids]).expect("workers").get(0);
        assert_eq!(workers, "{5}", "{call}");
    }
}

/// They read in parallel queries, and in these no ID is issued.
#[test]
fn parallel_queries_decode_and_a_function_that_is_wrongly_safe_for_them_leaves_no_lock() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "SELECT snowflake_set_layout('t41 w10 s12 epoch=2020-01-01T00:00:00Z');
             CREATE TABLE line AS SELECT now() - interval '1 s' * n AS at FROM generate_series(1, 20000) n;
             ANALYZE line;
             CREATE FUNCTION wrong() RETURNS bigint LANGUAGE plpgsql PARALLEL SAFE AS 'BEGIN RETURN snowflake_nextval(); END';
             SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0",
        )
        .expect("a table");
    let plan = client.query("EXPLAIN SELECT count(snowflake_min_id(at)) FROM line", &[]).expect("a plan");
    assert!(plan.iter().any(|row| row.get::<_, &str>(0).contains("Workers Planned")));
    assert_eq!(value(&mut client, "SELECT count(snowflake_timestamp(snowflake_min_id(at))) FROM line"), "20000");
    value(&mut client, "SELECT state FROM snowflake_status, line LIMIT 1");
    for (begin, end) in [("", ""), ("BEGIN; SELECT pg_current_xact_id()", "ROLLBACK")] {
        client.batch_execute(begin).expect("a transaction");
        error(&mut client, "SELECT count(wrong()) FROM line");
        client.batch_execute(end).expect("its end");
        assert_eq!(value(&mut client, LOCKED), "0");
    }
}

/// What a call raises is the call's own.
#[test]
fn an_error_of_a_call_for_ids_names_no_function_within() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.batch_execute(&hosted_script()).expect("the script");
    let contexts =
        |client: &mut Client| error(client, "SELECT snowflake_nextval()").where_().expect("a context").to_owned();
    let context = contexts(&mut client);
    assert!(
        context.starts_with("PL/pgSQL function snowflake_take(bigint) line ") && context.lines().count() == 1,
        "{context}"
    );
    let mut reader = cluster.config().options("-c default_transaction_read_only=on").connect(NoTls).expect("a session");
    assert_eq!(contexts(&mut reader).lines().count(), 1);
}

/// As the extension refuses them, so that the schema can move.
#[test]
fn an_index_or_a_generated_column_must_name_the_layout() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())").expect("a table");
    for expression in
        ["snowflake_timestamp(id)", "snowflake_explain(id)", "snowflake_compose(to_timestamp(id), 0, 0, 0)"]
    {
        let refused = error(&mut client, &format!("CREATE INDEX ON orders (({expression}))"));
        assert_eq!(refused.message(), "functions in index expression must be marked IMMUTABLE", "{expression}");
        let column = format!("ALTER TABLE orders ADD g text GENERATED ALWAYS AS (({expression})::text) STORED");
        assert_eq!(error(&mut client, &column).message(), "generation expression is not immutable", "{expression}");
    }
    client
        .batch_execute(
            "CREATE INDEX ON orders (snowflake_timestamp(id, 'flat'));
             ALTER TABLE orders ADD at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'flat')) STORED",
        )
        .expect("with a layout");
}
