//! The extension is moved to another schema while everything uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};
use testbed::postgres::error::SqlState;
use testbed::postgres::{Client, Error};
use testbed::{Cluster, Load, PATIENCE, test, value};

/// What uses the extension by OIDs, and tables to adopt.
const TABLES: &str = "CREATE SCHEMA one; CREATE SCHEMA two; CREATE EXTENSION snowflake_pg SCHEMA one; CREATE EXTENSION snowflake_adopt;
    SET search_path = one, two, public;
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), at timestamptz GENERATED ALWAYS AS (snowflake_timestamp(id, 'flat')) STORED);
    CREATE TABLE filled (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
    CREATE TRIGGER fill BEFORE INSERT ON filled FOR EACH ROW EXECUTE FUNCTION snowflake_fill('id');
    CREATE TABLE old (id serial PRIMARY KEY, n integer); INSERT INTO old (n) SELECT generate_series(1, 2000);
    CREATE TABLE used (id serial PRIMARY KEY, n integer); INSERT INTO used (n) SELECT generate_series(1, 20000)";

/// Repeats something in a session of its own, until it is told to stop; how often it was done.
struct Repeated {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

impl Repeated {
    fn start(cluster: &Cluster, mut act: impl FnMut(&mut Client, usize) + Send + 'static) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut client = cluster.connect();
        let thread = spawn({
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    act(&mut client, done.load(Ordering::Relaxed));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { stop, done, thread }
    }

    fn wait_for_one_more(&self) {
        let before = self.done.load(Ordering::Relaxed);
        let deadline = Instant::now() + PATIENCE;
        while self.done.load(Ordering::Relaxed) == before && !self.thread.is_finished() {
            assert!(Instant::now() < deadline, "never again after {before}");
            sleep(Duration::from_millis(5));
        }
    }

    fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no error");
    }
}

fn run(client: &mut Client, commands: &str) {
    client.batch_execute(commands).unwrap_or_else(|error| panic!("{commands}: {error:?}"));
}

/// A statement that has named the schema before the move fails, changes nothing, and can be repeated.
fn assert_is_named_before(error: &Error) {
    let code = error.code().unwrap_or_else(|| panic!("{error:?}"));
    assert!([&SqlState::UNDEFINED_FUNCTION, &SqlState::UNDEFINED_TABLE].contains(&code), "{error:?}");
}

/// Whether a plan could be made and run.
fn adopt(client: &mut Client) -> bool {
    let plan = "SELECT command FROM snowflake_adopt.plan('old') WHERE command IS NOT NULL";
    let run_all = |client: &mut Client| {
        let steps = client.query(plan, &[])?;
        steps.iter().try_for_each(|step| client.batch_execute(step.get(0)))
    };
    let outcome = run_all(client);
    if let Err(error) = &outcome {
        assert_is_named_before(error);
        run(client, "ROLLBACK");
    }
    outcome.is_ok()
}

#[test]
fn the_extension_moves_to_another_schema_while_clients_insert_and_none_of_them_sees_an_error() {
    let cluster =
        Cluster::builder().worker(7).set("search_path", "one, two, public").set("max_worker_processes", 16).start();
    let mut client = cluster.connect();
    run(&mut client, TABLES);
    let loads = [
        "INSERT INTO orders DEFAULT VALUES RETURNING id",
        "INSERT INTO filled VALUES (NULL) RETURNING id",
        "INSERT INTO orders SELECT snowflake_nextvals(3) RETURNING id",
        "INSERT INTO orders VALUES (snowflake_id()) RETURNING id",
    ]
    .map(|query| Load::start(&cluster, 2, query));
    let planned = Repeated::start(&cluster, |client, _| {
        let differ = "WITH late AS MATERIALIZED (SELECT now() - interval '1 h' AS at)
            SELECT (SELECT count(*) FROM orders WHERE snowflake_timestamp(id) > now() - interval '1 h')
                 - (SELECT count(*) FROM orders, late WHERE orders.at > late.at)";
        assert_eq!(value(client, differ), "0");
    });
    let created = Repeated::start(&cluster, |client, nth| {
        let table = format!("public.made_{nth}");
        run(client, "SET snowflake_pg.serial_schemas = '*'");
        while let Err(error) = client.batch_execute(&format!("CREATE TABLE {table} (id bigserial PRIMARY KEY)")) {
            assert_is_named_before(&error);
        }
        let insert = format!("INSERT INTO {table} DEFAULT VALUES RETURNING id > 1::bigint << 60");
        assert_eq!(value(client, &insert), "t", "a sequence");
        run(client, &format!("DROP TABLE {table}"));
    });
    run(&mut client, "CALL snowflake_adopt.start('used')");
    let mut adopting = None;
    for round in 0..30 {
        run(&mut client, &format!("ALTER EXTENSION snowflake_pg SET SCHEMA {}", ["two", "one"][round % 2]));
        loads.iter().for_each(|load| load.wait_for_some(20));
        planned.wait_for_one_more();
        created.wait_for_one_more();
        if round == 10 {
            let mut other = cluster.connect();
            spawn(move || other.batch_execute("CALL snowflake_adopt.run('used')"));
        }
        if round == 20 {
            let mut other = cluster.connect();
            adopting = Some(spawn(move || {
                let plans = (1..).take_while(|_| !adopt(&mut other)).count();
                plans + 1
            }));
        }
    }
    planned.finish();
    created.finish();
    for load in loads {
        let report = load.finish();
        assert!(report.errors().is_empty(), "{:?}", report.errors());
        assert_eq!(report.duplicates(), 0);
    }
    println!("{} plans until one was run", adopting.expect("a thread").join().expect("a plan that was run"));
    run(&mut client, "CALL snowflake_adopt.finish('used')");
    for table in ["old", "used"] {
        assert_eq!(
            value(&mut client, &format!("INSERT INTO {table} (n) VALUES (0) RETURNING id > 1::bigint << 60")),
            "t"
        );
        assert_eq!(
            value(&mut client, &format!("SELECT count(*) FROM {table} WHERE id < 1000000")),
            ["2000", "20000"][usize::from(table == "used")]
        );
    }
}
