//! A migration is disturbed at a random moment, by whatever ends processes, sessions and servers, or by people.

mod clients;

use super::{differences_when_adopted, dump, server};
use clients::{Clients, Rows, Server, connect, is_lost};
use fastrand::Rng;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::{Client, Error};
use testbed::runner::in_full;
use testbed::{Cluster, PATIENCE, Signal, test, value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturbance {
    /// kill -9 of the postmaster; the server starts again.
    Kill,
    /// kill -9 of all processes; the standby takes over.
    Failover,
    /// kill -9 of the worker, so PostgreSQL ends all sessions and starts anew.
    KillWorker,
    Cancel,
    TerminateWorker,
    TerminateCaller,
    Pause,
    Undo,
}

use Disturbance::{Cancel, Failover, Kill, KillWorker, Pause, TerminateCaller, TerminateWorker, Undo};

/// The first ones of rounds, one after the other.
const FIRST: [Disturbance; 8] = [Failover, Kill, Cancel, KillWorker, Undo, TerminateWorker, Pause, TerminateCaller];

const PHASES: [&str; 7] = ["none", "columns", "rows", "indexes", "statistics", "constraints", "swap"];

/// A number that a variable in the environment has.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

/// `SNOWFLAKE_PG_SEED=7` repeats the decisions of a round; the moments depend on the machine, too.
/// `SNOWFLAKE_PG_ROUNDS=20` is another number of rounds.
#[test]
fn a_disturbed_migration_ends_adopted_or_as_before_with_each_row_that_was_committed() {
    let seed = number("SNOWFLAKE_PG_SEED").unwrap_or_else(|| fastrand::u64(0..1_000_000));
    let rounds = number("SNOWFLAKE_PG_ROUNDS").unwrap_or(if in_full() { 24 } else { 2 });
    for seed in seed..seed + rounds {
        // Before it, since it may fail.
        println!("SNOWFLAKE_PG_SEED={seed}:");
        println!("    {}", round(&mut Rng::with_seed(seed), seed));
    }
}

/// Two servers, the second of which replaces the first.
struct Pair {
    primary: Cluster,
    standby: Option<Cluster>,
    server: Server,
}

impl Pair {
    fn start() -> (Self, String) {
        let (primary, mut session) = server();
        // Some more batches than one, so there are moments between them.
        session
            .batch_execute(
                "ALTER TABLE orders SET (fillfactor = 10); ALTER TABLE items SET (fillfactor = 10);
                 CREATE TABLE clients (number integer PRIMARY KEY, done bigint DEFAULT 0, looked integer DEFAULT 0);
                 INSERT INTO clients (number) SELECT generate_series(0, 3)",
            )
            .expect("tables");
        session.batch_execute("VACUUM FULL orders, items").expect("blocks with few rows");
        let standby = super::builder().standby_of(&primary);
        primary.configure("synchronous_standby_names", "*");
        primary.reload();
        primary.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
        let before = dump(&primary);
        let server = Arc::new(Mutex::new(primary.config()));
        (Self { primary, standby: Some(standby), server }, before)
    }

    fn disturb(&mut self, how: Disturbance) {
        let signal = |function: &str, pid: &str| format!("SELECT {function}({pid})");
        let worker = "snowflake_adopt.carrier('orders'::regclass)";
        let caller = "pid) FROM pg_stat_activity WHERE (query LIKE 'CALL %') = (pid <> pg_backend_pid()";
        match how {
            Kill => self.primary.restart(Signal::KILL),
            Failover => {
                let Some(standby) = self.standby.take() else { return };
                self.primary.kill_all();
                standby.promote();
                *self.server.lock().expect("a server") = standby.config();
                self.primary = standby;
            }
            KillWorker => {
                let pid = value(&mut connect(&self.server), &format!("SELECT {worker}"));
                if let Ok(pid) = pid.parse() {
                    testbed::send(pid, Signal::KILL);
                }
            }
            Cancel => self.say(&signal("pg_cancel_backend", worker)),
            TerminateWorker => self.say(&signal("pg_terminate_backend", worker)),
            TerminateCaller => self.say(&signal("pg_terminate_backend", caller)),
            Pause => self.say("CALL snowflake_adopt.pause('orders')"),
            Undo => self.say("CALL snowflake_adopt.undo('orders')"),
        }
    }

    /// Says this to the server. What it answers is of no interest, unless it is an error that nobody may see.
    fn say(&self, command: &str) {
        if let Err(error) = connect(&self.server).batch_execute(command) {
            assert!(is_lost(&error) || is_expected(&error), "{command}: {error:?}");
        }
    }
}

/// What a caller may be told after somebody else has disturbed it, or if a slow step keeps a row for ten seconds.
fn is_expected(error: &Error) -> bool {
    let expected = ["is paused", "was undone", "is not being adopted", "due to lock timeout"];
    error.as_db_error().is_some_and(|error| expected.iter().any(|text| error.message().ends_with(text)))
}

/// Somebody who calls procedures one after the other, until one fails.
fn caller(server: &Server, steps: Vec<String>) -> JoinHandle<Result<(), Error>> {
    let mut session = connect(server);
    thread::spawn(move || {
        steps.iter().try_for_each(|step| session.batch_execute(&format!("CALL snowflake_adopt.{step}")))
    })
}

/// Waits until the migration is in this phase or behind it, or has ended, and a little longer.
fn wait_for_moment(server: &Server, phase: usize, caller: &JoinHandle<Result<(), Error>>, more: Duration) -> String {
    let mut session = connect(server);
    let look = "SELECT coalesce((SELECT phase FROM snowflake_adopt.migration), 'none')";
    let mut now = value(&mut session, look);
    while !caller.is_finished() && PHASES.iter().position(|name| *name == now).is_some_and(|place| place < phase) {
        sleep(Duration::from_millis(1));
        now = value(&mut session, look);
    }
    sleep(more);
    match (now.as_str(), caller.is_finished()) {
        ("none", true) => "the end".to_owned(),
        ("none", false) => "the beginning".to_owned(),
        _ => now,
    }
}

fn round(random: &mut Rng, seed: u64) -> String {
    let (mut pair, before) = Pair::start();
    let clients = Clients::start(&pair.server);
    let mut told = String::new();
    let share = random.choice([5, 50, 100]).expect("a share");
    let mut steps =
        vec!["start('orders')".to_owned(), format!("run('orders', share => {share})"), "finish('orders')".to_owned()];
    for nth in 0..random.usize(1..=3) {
        let first = FIRST[usize::try_from(seed).expect("a number") % FIRST.len()];
        let how = if nth == 0 { first } else { random.choice(FIRST).expect("one") };
        let caller = caller(&pair.server, steps);
        let phase = random.usize(0..PHASES.len());
        let now = wait_for_moment(&pair.server, phase, &caller, Duration::from_millis(random.u64(0..60)));
        pair.disturb(how);
        told += &format!("{how:?} in {now}; ");
        match caller.join().expect("a caller") {
            Err(error) => assert!(is_lost(&error) || is_expected(&error), "{how:?}: {error:?}"),
            Ok(()) => break,
        }
        steps = vec!["finish('orders')".to_owned()];
    }
    let wish = random.choice(["finish", "finish", "undo"]).expect("a wish");
    let was_begun = insist(&pair.server, wish);
    sleep(Duration::from_millis(100));
    let seen = clients.finish();
    let mut session = connect(&pair.server);
    let is_adopted = check(&pair.primary, &mut session, &before);
    assert!(!was_begun || is_adopted == (wish == "finish"), "{told}{wish}: adopted is {is_adopted}");
    let rows = Rows::of(&mut session);
    let differences = [rows.without(&seen.rows), seen.rows.without(&rows)];
    assert_eq!(differences, [const { Vec::<String>::new() }; 2], "{told}{wish}: too many, and too few");
    format!("{told}{wish}: adopted is {is_adopted}, {} transactions, {} lost", seen.transactions, seen.lost)
}

/// Calls a procedure until it succeeds. Whether there was a migration.
fn insist(server: &Server, procedure: &str) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let Err(error) = connect(server).batch_execute(&format!("CALL snowflake_adopt.{procedure}('orders')")) else {
            return true;
        };
        assert!(is_lost(&error) || is_expected(&error), "{procedure}: {error:?}");
        if error.as_db_error().is_some_and(|error| error.message().ends_with("is not being adopted")) {
            return false;
        }
        assert!(Instant::now() < deadline, "{procedure} never succeeds: {error:?}");
    }
}

/// All is as after a migration, or as before. Whether it is adopted.
fn check(cluster: &Cluster, session: &mut Client, before: &str) -> bool {
    let is_adopted = value(
        session,
        "SELECT atttypid = 'bigint'::regtype FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'id'",
    ) == "t";
    let now = dump(cluster);
    if is_adopted {
        assert_eq!(differences_when_adopted(before, &now), [const { Vec::<String>::new() }; 2]);
        let id = value(session, "BEGIN; INSERT INTO orders (note) VALUES ('last') RETURNING id");
        session.batch_execute("ROLLBACK").expect("no row");
        assert_eq!(value(session, &format!("SELECT snowflake_timestamp({id}) > now() - interval '1 min'")), "t");
    } else {
        assert_eq!(now, before);
    }
    let left = "SELECT concat_ws(', ', (SELECT string_agg(relname, ', ') FROM pg_class WHERE relname LIKE '%snowflake_adopt%' AND relkind <> 'v'),
        (SELECT string_agg(attname, ', ') FROM pg_attribute WHERE attname LIKE '%snowflake_adopt%'),
        (SELECT string_agg(conname, ', ') FROM pg_constraint WHERE conname LIKE '%snowflake_adopt%' OR NOT convalidated),
        (SELECT string_agg(tgname, ', ') FROM pg_trigger WHERE tgname LIKE '%snowflake_adopt%'),
        (SELECT string_agg(indexrelid::regclass::text, ', ') FROM pg_index WHERE NOT (indisvalid AND indisready AND indislive)),
        (SELECT string_agg(relation::text, ', ') FROM snowflake_adopt.migration), (SELECT string_agg(relation::text, ', ') FROM snowflake_adopt.beside),
        (SELECT string_agg(relation::text, ', ') FROM snowflake_adopt.copying))";
    assert_eq!(value(session, left), "");
    is_adopted
}
