//! Calls that come from the wrong place or role, or come in floods; and settings that are tried.

use super::fixture::{MAX_BORROW_MS, assert_kept, assert_kept_without_errors, at_once, new_server, signed};
use super::suite::{Evidence, Fault};
use snowflake_core::UnixMs;
use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};
use testbed::postgres::NoTls;
use testbed::postgres::error::DbError;
use testbed::{Cluster, Report, Signal, Witness, error, issued_at, real_time, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 16,
        promise: "a_standby_refuses_every_call_and_leaves_the_state_file_alone",
        short: 1,
        full: 5,
        run: standby,
    },
    Fault {
        row: 26,
        promise: "without_preload_everything_works_but_issuing_and_the_session_survives",
        short: 1,
        full: 5,
        run: not_preloaded,
    },
    Fault {
        row: 29,
        promise: "the_worker_id_cannot_be_changed_without_a_restart",
        short: 1,
        full: 5,
        run: another_worker,
    },
    Fault {
        row: 31,
        promise: "many_clients_batches_and_parallel_plans_never_get_more_than_the_layout_allows",
        short: 50,
        full: 320,
        run: everything_at_once,
    },
    Fault {
        row: 32,
        promise: "an_ordinary_role_that_takes_all_it_can_get_stays_near_the_clock",
        short: 2,
        full: 30,
        run: flood,
    },
    Fault { row: 32, promise: "a_role_without_execute_gets_no_id", short: 1, full: 5, run: without_execute },
];

fn assert_refused(refused: &DbError, code: &str, message: &str, detail: Option<&str>, hint: &str) {
    assert_eq!(
        (refused.code().code(), refused.message(), refused.detail(), refused.hint()),
        (code, message, detail, Some(hint))
    );
}

fn standby(rounds: usize) -> Evidence {
    let mut cluster = new_server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    for _ in 0..rounds {
        let before = witness.next_id().expect("an ID");
        cluster.stop(Signal::INT);
        let mark = fs::read(cluster.mark_file()).expect("a mark");
        fs::write(cluster.data().join("standby.signal"), "").expect("a standby");
        cluster.start();

        witness.connect(&cluster);
        for query in ["SELECT snowflake_nextval()", "SELECT snowflake_nextvals(5)", "SELECT snowflake_nextval()"] {
            assert_refused(
                &witness.ask(query).expect_err("a refusal"),
                "25006",
                "cannot issue IDs during recovery",
                Some("This server is a standby, or has not finished its recovery."),
                "Connect to the primary. IDs can be decoded on this server.",
            );
        }
        let client = witness.session();
        assert_eq!(value(client, "SELECT state FROM snowflake_status"), "standby");
        assert_eq!(value(client, &format!("SELECT worker_id FROM snowflake_decode({before})")), "1");
        assert_eq!(fs::read(cluster.mark_file()).expect("a mark"), mark);

        client.batch_execute("SELECT pg_promote()").expect("a promotion");
        let after = witness.next_id().expect("an ID");
        assert!(after > before, "{after} after {before}");
    }
    assert_kept(rounds, &witness.report(), 0)
}

fn not_preloaded(rounds: usize) -> Evidence {
    let cluster = new_server(Cluster::builder().set("timezone", "UTC"));
    let mut witness = Witness::of(&cluster);
    let table = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())";
    witness.session().batch_execute(table).expect("what a restored dump needs");
    for _ in 0..rounds {
        let insert = "INSERT INTO orders DEFAULT VALUES RETURNING id";
        for query in ["SELECT snowflake_nextval()", "SELECT snowflake_nextvals(5)", insert] {
            assert_refused(
                &witness.ask(query).expect_err("a refusal"),
                "55000",
                "snowflake_pg must be loaded via shared_preload_libraries to issue IDs",
                None,
                "Add snowflake_pg to shared_preload_libraries, set snowflake_pg.worker_id in this server's own \
                 configuration, and restart the server.",
            );
        }
        let client = witness.session();
        let decoded = "(\"2022-06-28 16:07:40.105+00\",,378,0,)";
        assert_eq!(value(client, "SELECT snowflake_decode(1541815603606036480)"), decoded);
        assert_eq!(value(client, "SELECT state FROM snowflake_status"), "not preloaded");

        // The layout that is configured counts, as it does on a server that issues; nonsense is refused.
        client.batch_execute("SET snowflake_pg.layout = 'twitter'").expect("a variable nobody knows");
        assert_eq!(value(client, "SELECT worker_id FROM snowflake_decode(1541815603606036480)"), "26");
        client.batch_execute("SET snowflake_pg.layout = 'round'").expect("a variable nobody knows");
        let refused = error(client, "SELECT snowflake_timestamp(1)");
        let message = "invalid value for parameter \"snowflake_pg.layout\": \"round\"";
        assert_eq!((refused.code().code(), refused.message()), ("F0000", message));
        client.batch_execute("RESET snowflake_pg.layout").expect("a variable nobody knows");
    }
    Evidence::new(rounds, &witness.report())
}

/// Alternately worker 1 and 2.
fn another_worker(rounds: usize) -> Evidence {
    let mut cluster = new_server(Cluster::builder().worker(1));
    cluster.connect().batch_execute("CREATE ROLE app LOGIN").expect("a role");
    let mut witness = Witness::of(&cluster);
    for round in 0..rounds {
        let (now, other) = if round % 2 == 0 { ("1", "2") } else { ("2", "1") };
        for query in [
            "SET snowflake_pg.worker_id = 3",
            "SET LOCAL snowflake_pg.worker_id = 3",
            "SELECT set_config('snowflake_pg.worker_id', '3', false)",
            "SET snowflake_pg.layout = 'flat'",
            "SET snowflake_pg.state_directory = 'elsewhere'",
            "ALTER ROLE app SET snowflake_pg.worker_id = 3",
            "ALTER DATABASE postgres SET snowflake_pg.worker_id = 3",
            "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SET snowflake_pg.worker_id = 3 RETURN 1",
            "SET snowflake_pg.max_borrow = '1h'",
        ] {
            let refused = error(witness.session(), query);
            assert_eq!(refused.code().code(), "55P02", "{query}");
        }
        let refused = cluster.config().options("-c snowflake_pg.worker_id=3").connect(NoTls);
        let refused = refused.err().expect("no session with a worker ID of its own");
        assert_eq!(refused.as_db_error().expect("the server's error").code().code(), "55P02");

        let later = format!("ALTER SYSTEM SET snowflake_pg.worker_id = {other}");
        witness.session().batch_execute(&later).expect("a setting for later");
        cluster.reload();
        witness.connect(&cluster);
        let pending = "SELECT pending_restart FROM pg_settings WHERE name = 'snowflake_pg.worker_id'";
        assert_eq!(value(witness.session(), pending), "t");
        assert_eq!(worker_of_the_next_id(&mut witness), now);
        cluster.restart(Signal::INT);
        witness.connect(&cluster);
        assert_eq!(worker_of_the_next_id(&mut witness), other);
    }
    assert_kept_without_errors(rounds, &witness.report(), 0)
}

fn worker_of_the_next_id(witness: &mut Witness) -> String {
    let id = witness.next_id().expect("an ID");
    value(witness.session(), &format!("SELECT worker_id FROM snowflake_decode({id})"))
}

/// In each round 64 clients take 500 IDs each, half of them one by one and half as a batch.
fn everything_at_once(rounds: usize) -> Evidence {
    let cluster = new_server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    let (began, began_at) = (Instant::now(), real_time());
    let client = |number: usize| {
        let mut witness = Witness::of(&cluster);
        let one_by_one = "SELECT snowflake_nextval() FROM generate_series(1, 500)";
        let query = if number.is_multiple_of(2) { one_by_one } else { "SELECT snowflake_nextvals(500)" };
        for _ in 0..rounds {
            witness.ask(query).expect("IDs");
        }
        witness.report()
    };
    let mut report = at_once(64, client);
    draw_in_parallel(&mut witness);
    report.merge(witness.report());

    let evidence = assert_kept_without_errors(rounds, &report, 0);
    assert_rate(&report, began_at, began.elapsed());
    evidence
}

/// Several processes draw for one query.
fn draw_in_parallel(witness: &mut Witness) {
    let session = witness.session();
    session
        .batch_execute(
            "CREATE TABLE line AS SELECT generate_series(1, 200000) AS number;
             ANALYZE line;
             SET parallel_setup_cost = 0;
             SET parallel_tuple_cost = 0;
             SET min_parallel_table_scan_size = 0;
             SET max_parallel_workers_per_gather = 4",
        )
        .expect("a table");
    let query = "SELECT snowflake_nextval() FROM line";
    let plan = testbed::plan(session, &format!("EXPLAIN (ANALYZE, VERBOSE, COSTS OFF) {query}"));
    let (_, below_gather) = plan.split_once("Gather").unwrap_or_else(|| panic!("not in parallel:\n{plan}"));
    assert!(!below_gather.contains("Workers Launched: 0"), "{plan}");
    let (_, scan) = below_gather.split_once("Parallel Seq Scan").unwrap_or_else(|| panic!("not in parallel:\n{plan}"));
    assert!(scan.contains("Output: snowflake_nextval()"), "not drawn by the workers:\n{plan}");
    // Those of several processes arrive in any order, but all of them are above what was received before.
    let rows = session.query(query, &[]).expect("IDs");
    let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    ids.sort_unstable();
    witness.add(ids);
}

/// No tick has more IDs than the layout allows, and all together no more than fit in the time that has passed.
fn assert_rate(report: &Report, began_at: UnixMs, elapsed: Duration) {
    const ALLOWED: usize = 4096;
    let mut ticks: HashMap<UnixMs, usize> = HashMap::new();
    let within = report.received().map(issued_at).filter(|&issued_at| issued_at >= began_at);
    within.for_each(|issued_at| *ticks.entry(issued_at).or_default() += 1);
    let busiest = ticks.values().max().expect("ticks");
    assert!(*busiest <= ALLOWED, "{busiest} IDs in one tick");
    let first = ticks.keys().min().expect("ticks");
    let last = ticks.keys().max().expect("ticks");
    let (span, elapsed) = (last - first, signed(elapsed.as_millis().try_into().expect("a short time")));
    assert!(signed(span) <= elapsed + MAX_BORROW_MS, "{span} ms of timestamps in {elapsed} ms");
}

/// Sessions of an ordinary role.
fn ordinary(cluster: &Cluster) -> Witness {
    let mut witness = Witness::default();
    witness.take_over(cluster.config().user("app").connect(NoTls).expect("a session"));
    witness
}

fn flood(seconds: usize) -> Evidence {
    let cluster = new_server(Cluster::builder().worker(1));
    cluster.connect().batch_execute("CREATE ROLE app LOGIN; SELECT snowflake_nextval()").expect("a role");
    let until = Instant::now() + Duration::from_secs(u64::try_from(seconds).expect("a few seconds"));
    let flood = |_| {
        let mut witness = ordinary(&cluster);
        while Instant::now() < until {
            witness.ask("SELECT max(id) FROM snowflake_nextvals(1000000) id").expect("IDs");
            witness.ask("SELECT snowflake_nextval() FROM generate_series(1, 1000)").expect("IDs");
        }
        witness.report()
    };
    assert_kept_without_errors(seconds, &at_once(4, flood), 0)
}

fn without_execute(rounds: usize) -> Evidence {
    let cluster = new_server(Cluster::builder().worker(1));
    let mut owner = Witness::of(&cluster);
    owner.session().batch_execute("CREATE ROLE app LOGIN").expect("a role");
    let mut app = ordinary(&cluster);
    for _ in 0..rounds {
        app.next_id().expect("an ID");
        let revoke = "REVOKE EXECUTE ON FUNCTION snowflake_nextval(), snowflake_nextvals(integer) FROM PUBLIC";
        owner.session().batch_execute(revoke).expect("a privilege");
        for query in ["SELECT snowflake_nextval()", "SELECT snowflake_nextvals(5)"] {
            assert_eq!(app.ask(query).expect_err("a refusal").code().code(), "42501", "{query}");
        }
        owner.next_id().expect("an ID for who may");
        let grant = "GRANT EXECUTE ON FUNCTION snowflake_nextval(), snowflake_nextvals(integer) TO PUBLIC";
        owner.session().batch_execute(grant).expect("a privilege");
    }
    app.next_id().expect("an ID");
    let mut report = app.report();
    report.merge(owner.report());
    assert_kept(rounds, &report, 0)
}
