//! Tools that set sequences, and a worker that changes while statements run.

use super::{install, refusal, server};
use std::path::Path;
use std::process::Command;
use std::thread;
use testbed::postgres::Client;
use testbed::{Cluster, Load, Report, Signal, error, need_postgresql, test, value};

/// A layout in which clients are ahead of the clock all the time.
const AHEAD: &str = "SELECT snowflake_set_layout('js')";

const BATCH: &str = "SELECT snowflake_nextvals(500)";

const SET_BACK: &str = "the position of the last ID may have been set back";

fn run(program: &mut Command) -> String {
    let output = program.output().expect("a program");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn pg_dump(cluster: &Cluster, file: &Path, options: &[&str]) -> String {
    let mut pg_dump = Command::new(cluster.bindir().join("pg_dump"));
    run(pg_dump.args(options).arg("--file").arg(file).arg("postgres").envs(cluster.environment()))
}

fn pg_restore(cluster: &Cluster, file: &Path, options: &[&str]) -> String {
    let mut pg_restore = Command::new(cluster.bindir().join("pg_restore"));
    run(pg_restore.args(options).arg(file).envs(cluster.environment()))
}

/// The text of a dump as a client sends it that is not psql.
fn without_psql(dump: &str) -> String {
    dump.lines().filter(|line| !line.starts_with('\\')).collect::<Vec<_>>().join("\n")
}

/// As an owner does who brings back rows that were deleted: sequences are set to what they were.
#[test]
fn rows_of_a_dump_that_are_restored_into_a_running_database_stop_its_ids_and_none_comes_twice() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute(AHEAD).expect("a layout");
    client
        .batch_execute("CREATE TABLE lost (id bigint DEFAULT snowflake_nextval()); INSERT INTO lost VALUES (DEFAULT)")
        .expect("a table");
    let load = Load::start(&cluster, 4, BATCH);
    load.wait_for_some(20_000);
    let dump = cluster.make_directory("dumps").join("dump");
    assert_eq!(pg_dump(&cluster, &dump, &["--format=custom"]), "");
    load.wait_for_some(60_000);
    client.batch_execute("DELETE FROM lost").expect("a mistake");
    assert_eq!(pg_restore(&cluster, &dump, &["--data-only", "--dbname=postgres"]), "");
    assert_eq!(value(&mut client, "SELECT count(*) FROM lost"), "1");
    assert_eq!(refusal(&mut client, "SELECT snowflake_nextval()"), ("55000".to_owned(), SET_BACK.to_owned()));
    assert_eq!(
        value(
            &mut client,
            "SELECT concat_ws(' ', state, problem_sqlstate, split_part(problem, '.', 1)) FROM snowflake_status"
        ),
        "not started 55000 The position of the last ID may have been set back"
    );
    let mut all = load.finish();
    assert_eq!(all.errors().into_keys().collect::<Vec<_>>(), [format!("55000 {SET_BACK}")]);
    // As the HINT says.
    let hint = error(&mut client, "SELECT snowflake_nextval()").hint().expect("a hint").to_owned();
    assert!(hint.ends_with("snowflake_set_worker_id(7)."), "{hint}");
    assert_goes_on_above(&cluster, &mut all);
}

/// Sequences keep what a transaction has set that is rolled back. A session can also say that it replicates.
#[test]
fn a_dump_that_is_restored_in_one_transaction_or_as_by_replication_sets_nothing_back() {
    for (options, environment, restored) in
        [("--single-transaction", "", false), ("--verbose", "-c session_replication_role=replica", true)]
    {
        let cluster = server(7);
        let mut client = cluster.connect();
        client.batch_execute(AHEAD).expect("a layout");
        value(&mut client, "SELECT snowflake_nextval()");
        let dump = cluster.make_directory("dumps").join("dump");
        assert_eq!(pg_dump(&cluster, &dump, &["--format=custom"]), "");
        let mut last = 0;
        for _ in 0..100 {
            last = value(&mut client, "SELECT max(id) FROM snowflake_nextvals(100) id").parse::<i64>().expect("an ID");
        }
        let mut pg_restore = Command::new(cluster.bindir().join("pg_restore"));
        pg_restore.args(["--data-only", "--dbname=postgres", options]).arg(&dump).envs(cluster.environment());
        let said = run(pg_restore.env("PGOPTIONS", environment));
        if restored {
            assert_eq!(refusal(&mut client, "SELECT snowflake_nextval()").1, SET_BACK, "{said}");
            // A snapshot from before shows the old row.
            client.batch_execute("SELECT snowflake_set_worker_id(7)").expect("the worker");
        } else {
            assert!(said.contains("rows of a dump cannot be restored into this table in a transaction"), "{said}");
        }
        let next: i64 = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
        assert!(next > last, "{next} after {last}");
    }
}

/// `psql -c`, a migration and many drivers send a text of several commands as one transaction. `setval()` is not rolled
/// back.
#[test]
fn a_dump_that_is_one_query_and_fails_at_its_end_sets_nothing_back() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute(AHEAD).expect("a layout");
    client.batch_execute("CREATE SEQUENCE zz").expect("a sequence");
    let load = Load::start(&cluster, 4, BATCH);
    load.wait_for_some(20_000);
    let file = cluster.make_directory("dumps").join("dump");
    assert_eq!(pg_dump(&cluster, &file, &["--inserts", "--data-only"]), "");
    let dump = without_psql(&std::fs::read_to_string(&file).expect("a dump"));
    load.wait_for_some(60_000);
    client.batch_execute("DROP SEQUENCE zz").expect("no sequence");
    client
        .batch_execute(
            "CREATE FUNCTION restore(dump text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE dump; END';
             CREATE PROCEDURE restore_by_call(dump text) LANGUAGE plpgsql AS 'BEGIN EXECUTE dump; END'",
        )
        .expect("functions");
    let literal = format!("$dump${dump}$dump$");
    let in_a_transaction = "rows of a dump cannot be restored into this table in a transaction";
    for text in [
        dump.clone(),
        format!("DO $do$ BEGIN EXECUTE {literal}; END $do$"),
        format!("SELECT restore({literal})"),
        format!("CALL restore_by_call({literal})"),
    ] {
        let mut owner = cluster.connect();
        assert_eq!(refusal(&mut owner, &text), ("55000".to_owned(), in_a_transaction.to_owned()), "{}", &text[..20]);
        value(&mut cluster.connect(), "SELECT snowflake_nextval()");
    }
    let mut psql = cluster.psql();
    let said = run(psql.args(["--command", &dump]));
    assert!(said.contains(in_a_transaction), "{said}");
    load.wait_for_some(60_000);
    assert_unharmed(&load.finish());
}

/// `pg_restore -j` sets them in one session while another has not yet brought the row that gives the dump away. A text
/// that fails, and a transaction that is rolled back, leave them set, too.
#[test]
fn sequences_that_are_set_back_without_a_row_of_a_dump_stop_ids_and_none_comes_twice() {
    for set_by in ["pg_restore", "a query that fails", "a rollback", "pg_restore -j", "setval()"] {
        let cluster = server(7);
        let mut client = cluster.connect();
        client.batch_execute(AHEAD).expect("a layout");
        let load = Load::start(&cluster, 4, BATCH);
        load.wait_for_some(20_000);
        let [mut knowing, mut resting] = [cluster.connect(), cluster.connect()];
        let last = value(&mut resting, "SELECT snowflake_nextval()");
        let dump = cluster.make_directory("dumps").join("dump");
        assert_eq!(pg_dump(&cluster, &dump, &["--format=custom"]), "");
        let position = value(&mut client, "SELECT last_value FROM snowflake_position");
        load.wait_for_some(60_000);
        cluster.wait_until(&format!("SELECT clock_timestamp() > snowflake_timestamp({last}) + interval '2 s'"));
        value(&mut knowing, "SELECT snowflake_nextval()");
        // One that says that it was checked.
        let mut claiming = cluster.connect();
        let checked = value(&mut knowing, "SELECT current_setting('hosted_snowflake.session')");
        claiming.batch_execute(&format!("SET hosted_snowflake.session = '{checked}'")).expect("a setting");
        let restore = |options: &[&str]| pg_restore(&cluster, &dump, &[&["--data-only"], options].concat());
        let use_list = only_sequences(&cluster, &dump);
        let text = without_psql(&restore(&["--file=-", &use_list]));
        let by_hand =
            ["position", "high_water_mark"].map(|name| format!("SELECT setval('snowflake_{name}', {position})"));
        let [mut owner, mut pause] = [cluster.connect(), cluster.connect()];
        // While no call runs, which would set it again. With its row, pg_restore itself sees to that.
        if set_by != "pg_restore -j" {
            pause.batch_execute("BEGIN; LOCK TABLE snowflake_lock").expect("a lock");
        }
        match set_by {
            "pg_restore" => assert_eq!(restore(&["--dbname=postgres", &use_list]), ""),
            "a query that fails" => assert_eq!(refusal(&mut owner, &format!("{text}; SELECT 1/0")).0, "22012"),
            "a rollback" => owner.batch_execute(&format!("BEGIN; {text}; ROLLBACK")).expect("a rollback"),
            "pg_restore -j" => assert_eq!(restore(&["--dbname=postgres", "--jobs=4"]), ""),
            _ => owner.batch_execute(&by_hand.join(";")).expect("positions"),
        }
        pause.batch_execute("ROLLBACK").expect("no lock");
        let refused = ("55000".to_owned(), SET_BACK.to_owned());
        for session in [&mut knowing, &mut resting, &mut claiming, &mut cluster.connect()] {
            assert_eq!(refusal(session, "SELECT snowflake_nextval()"), refused, "{set_by}");
        }
        let state = "SELECT state || ' ' || split_part(problem, '.', 1) FROM snowflake_status";
        assert_eq!(value(&mut client, state), "not started The position of the last ID may have been set back");
        let mut report = load.finish();
        assert_eq!(report.errors().into_keys().collect::<Vec<_>>(), [format!("55000 {SET_BACK}")], "{set_by}");
        assert_goes_on_above(&cluster, &mut report);
    }
}

/// As `pg_restore -j` does for a moment. A dump of a database in use has the positions of two times.
#[test]
fn until_a_dump_has_set_all_sequences_sessions_that_begin_and_that_rested_go_on_above_all_ids() {
    let cluster = server(7);
    let mut owner = cluster.connect();
    owner.batch_execute(AHEAD).expect("a layout");
    let mut resting = [0; 3].map(|_| cluster.connect());
    for session in &mut resting {
        value(session, "SELECT snowflake_nextval()");
    }
    let [first, second] = [0, 1].map(|_| {
        value(&mut owner, "SELECT snowflake_nextval()");
        value(&mut owner, "SELECT last_value FROM snowflake_position")
    });
    let high_water_mark = format!("SELECT setval('snowflake_high_water_mark', {first})");
    let position = format!("SELECT setval('snowflake_position', {second})");
    cluster.wait_until("SELECT clock_timestamp() > last_issued_at + interval '2 s' FROM snowflake_status");
    for (resting, set) in
        resting.iter_mut().zip([high_water_mark.clone(), position.clone(), format!("{high_water_mark}; {position}")])
    {
        for session in [resting, &mut cluster.connect()] {
            let ahead = "SELECT max(id) FROM snowflake_nextvals(50000) id";
            let last: i64 = value(&mut owner, ahead).parse().expect("an ID");
            owner.batch_execute(&set).expect("positions");
            let next: i64 = value(session, "SELECT snowflake_nextval()").parse().expect("an ID");
            assert!(next > last, "{next} after {last}: {set}");
            cluster.wait_until("SELECT lead = interval '0' FROM snowflake_status");
        }
    }
}

/// The value that it sets says that another server has issued the last ID, as after a restart.
#[test]
fn sequences_of_a_dump_of_before_a_restart_stop_ids_over_another_restart() {
    let mut cluster = server(7);
    cluster.connect().batch_execute(AHEAD).expect("a layout");
    value(&mut cluster.connect(), "SELECT snowflake_nextval()");
    let dump = cluster.make_directory("dumps").join("dump");
    assert_eq!(pg_dump(&cluster, &dump, &["--format=custom"]), "");
    cluster.stop(Signal::INT);
    cluster.start();
    let load = Load::start(&cluster, 4, BATCH);
    load.wait_for_some(60_000);
    let options = ["--data-only", "--dbname=postgres", &only_sequences(&cluster, &dump)];
    assert_eq!(pg_restore(&cluster, &dump, &options), "");
    let refused = ("55000".to_owned(), SET_BACK.to_owned());
    assert_eq!(refusal(&mut cluster.connect(), "SELECT snowflake_nextval()"), refused);
    let mut report = load.finish();
    cluster.stop(Signal::INT);
    cluster.start();
    assert_eq!(refusal(&mut cluster.connect(), "SELECT snowflake_nextval()"), refused);
    assert_goes_on_above(&cluster, &mut report);
}

/// The option with which `pg_restore` sets sequences and brings no rows.
fn only_sequences(cluster: &Cluster, dump: &Path) -> String {
    let all = pg_restore(cluster, dump, &["--list"]);
    let sequences: Vec<_> = all.lines().filter(|line| line.contains(" SEQUENCE SET ")).collect();
    assert_eq!(sequences.len(), 6, "{all}");
    let list = dump.with_file_name("list");
    std::fs::write(&list, sequences.join("\n")).expect("a list");
    format!("--use-list={}", list.display())
}

/// Does what the HINT says, and compares all IDs.
fn assert_goes_on_above(cluster: &Cluster, before: &mut Report) {
    cluster.connect().batch_execute("SELECT snowflake_set_worker_id(7)").expect("the worker");
    let load = Load::start(cluster, 4, BATCH);
    load.wait_for_some(60_000);
    let after = load.finish();
    assert!(after.range().expect("IDs").0 > before.range().expect("IDs").1, "not above");
    before.merge(after);
    println!("{} IDs, {} twice", before.ids(), before.duplicates());
    assert_eq!(before.duplicates(), 0);
}

#[test]
fn a_transaction_with_a_snapshot_from_before_a_restore_is_refused_too() {
    let cluster = server(7);
    let [mut owner, mut client] = [cluster.connect(), cluster.connect()];
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM snowflake_database")
        .expect("a snapshot");
    let row =
        "INSERT INTO snowflake_database (system_identifier, database, relation, inserted_by, catalog_xmin, version)
        SELECT system_identifier, database, relation, inserted_by, catalog_xmin, version FROM snowflake_database";
    owner.batch_execute(row).expect("an old row");
    client.batch_execute("SET LOCAL statement_timeout = '20s'").expect("a setting");
    assert_eq!(refusal(&mut client, "SELECT snowflake_nextval()"), ("55000".to_owned(), SET_BACK.to_owned()));
}

/// By `GRANT ALL ON ALL SEQUENCES`, or by a script that sets every sequence.
#[test]
fn a_position_that_others_set_changes_no_id_while_the_server_runs() {
    let cluster = server(7);
    let mut client = cluster.connect();
    client.batch_execute(AHEAD).expect("a layout");
    let load = Load::start(&cluster, 4, BATCH);
    load.wait_for_some(20_000);
    for _ in 0..100 {
        for position in ["0", "9000000000000000000"] {
            value(&mut client, &format!("SELECT setval('snowflake_position', {position})"));
        }
        value(&mut client, "SELECT snowflake_nextval()");
    }
    load.wait_for_some(60_000);
    assert_unharmed(&load.finish());
}

fn assert_unharmed(report: &Report) {
    println!("{} IDs, {} twice", report.ids(), report.duplicates());
    assert_eq!((report.duplicates(), report.inversions(), report.errors().len()), (0, 0, 0), "{:?}", report.errors());
}

fn publisher_and_subscriber(publication: &str) -> (Cluster, Cluster, Client) {
    let [publisher, subscriber] = [0, 1].map(|_| Cluster::builder().set("wal_level", "logical").start());
    for (cluster, worker) in [(&publisher, 3), (&subscriber, 4)] {
        let mut client = cluster.connect();
        install(&mut client, worker);
        client
            .batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())")
            .expect("a table");
        value(&mut client, "SELECT snowflake_nextval()");
    }
    publisher
        .connect()
        .batch_execute(&format!("CREATE PUBLICATION everything FOR {publication}"))
        .expect("a publication");
    let mut client = subscriber.connect();
    let host = publisher.host().display();
    client
        .batch_execute(&format!(
            "CREATE SUBSCRIPTION everything CONNECTION 'host={host} user=postgres dbname=postgres' PUBLICATION everything"
        ))
        .expect("a subscription");
    (publisher, subscriber, client)
}

#[test]
fn a_subscription_to_all_tables_brings_rows_and_not_the_worker_of_its_publisher() {
    let (publisher, subscriber, mut client) = publisher_and_subscriber("ALL TABLES");
    subscriber.wait_until("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
    let worker = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";
    assert_eq!(value(&mut client, worker), "4");
    // Which deletes a row, and inserts another.
    let mut owner = publisher.connect();
    owner.batch_execute("SELECT snowflake_set_worker_id(5); INSERT INTO orders DEFAULT VALUES").expect("a worker");
    subscriber.wait_until("SELECT EXISTS (SELECT FROM orders)");
    assert_eq!(value(&mut client, worker), "4");
    assert_eq!(value(&mut subscriber.connect(), worker), "4");
}

#[test]
fn refreshed_sequences_of_a_publisher_do_not_set_the_position_back() {
    need_postgresql(19);
    let (_publisher, subscriber, mut client) = publisher_and_subscriber("ALL TABLES, ALL SEQUENCES");
    subscriber.wait_until("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
    let load = Load::start(&subscriber, 4, "SELECT snowflake_nextvals(5000)");
    for _ in 0..20 {
        load.wait_for_some(20_000);
        client.batch_execute("ALTER SUBSCRIPTION everything REFRESH SEQUENCES").expect("a refresh");
        value(&mut subscriber.connect(), "SELECT snowflake_nextval()");
    }
    assert_unharmed(&load.finish());
}

/// Also those of one statement that goes on.
#[test]
fn once_a_worker_has_been_set_no_running_statement_issues_ids_of_the_old_one() {
    let cluster = server(7);
    let [mut owner, mut client] = [cluster.connect(), cluster.connect()];
    for statement in [
        "INSERT INTO ids SELECT clock_timestamp(), snowflake_nextval() FROM generate_series(1, 300000)",
        "DO $$ BEGIN FOR i IN 1..300000 LOOP INSERT INTO ids VALUES (clock_timestamp(), snowflake_nextval()); END LOOP; END $$",
    ] {
        // When the call began, which may end when the worker is set.
        client.batch_execute("CREATE TEMP TABLE ids (at timestamptz, id bigint)").expect("a table");
        let running = thread::spawn(move || {
            client.batch_execute(statement).expect("IDs");
            client
        });
        let began = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE '%300000%' AND pid <> pg_backend_pid() AND state = 'active')";
        cluster.wait_until(began);
        let worker = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";
        let new = (value(&mut owner, worker).parse::<u32>().expect("a worker") + 1).to_string();
        owner.batch_execute(&format!("SELECT snowflake_set_worker_id({new})")).expect("a worker");
        let set = value(&mut owner, "SELECT clock_timestamp()");
        client = running.join().expect("a client");
        let late = format!(
            "SELECT count(*) || ' of ' || (SELECT count(*) > 100 FROM ids WHERE at > '{set}') FROM ids
            WHERE at > '{set}' AND (snowflake_decode(id)).worker_id <> {new}"
        );
        assert_eq!(value(&mut client, &late), "0 of true");
        client.batch_execute("DROP TABLE ids").expect("no table");
    }
}
