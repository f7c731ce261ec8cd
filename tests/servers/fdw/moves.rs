//! A map of shards that changes while clients insert: no ID is issued twice, and each row is found by its ID.

use super::by_hash::{ByHash, partition};
use super::example::Shop;
use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::{Client, Config, NoTls};
use testbed::{Cluster, PATIENCE, Signal, StopOnDrop, test, value};

/// What a client has been told: the IDs of its rows, and how often each error.
#[derive(Default)]
struct Told {
    ids: Vec<i64>,
    errors: BTreeMap<String, usize>,
}

/// Clients that insert until they are stopped, each with one prepared statement, whose plan is kept.
struct Clients<'scope, 'env> {
    scope: &'scope thread::Scope<'scope, 'env>,
    stop: &'scope AtomicBool,
    told: &'scope AtomicUsize,
    handles: Vec<ScopedJoinHandle<'scope, Told>>,
}

impl<'scope> Clients<'scope, '_> {
    fn start(&mut self, server: Config, insert: &'static str) {
        let (stop, count) = (self.stop, self.told);
        self.handles.push(self.scope.spawn(move || {
            let mut told = Told::default();
            while let Err(failed) = session(&server, insert, stop, count, &mut told.ids) {
                let text = failed.as_db_error().map_or_else(|| failed.to_string(), |error| error.message().to_owned());
                *told.errors.entry(text).or_default() += 1;
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                sleep(Duration::from_millis(5));
            }
            told
        }));
    }

    /// Waits until the clients have been told of some hundred rows more.
    fn wait(&self) {
        let (first, deadline) = (self.told.load(Ordering::Relaxed), Instant::now() + PATIENCE);
        while self.told.load(Ordering::Relaxed) < first + 300 {
            assert!(Instant::now() < deadline, "no more rows");
            sleep(Duration::from_millis(5));
        }
    }

    /// All IDs, and the errors of each client.
    fn finish(self) -> (Vec<i64>, Vec<BTreeMap<String, usize>>) {
        self.stop.store(true, Ordering::Relaxed);
        let told: Vec<_> = self.handles.into_iter().map(|client| client.join().expect("a client")).collect();
        for client in &told {
            assert!(!client.ids.is_empty(), "{:?}", client.errors);
        }
        (
            told.iter().flat_map(|client| client.ids.clone()).collect(),
            told.into_iter().map(|told| told.errors).collect(),
        )
    }
}

fn session(
    server: &Config,
    insert: &str,
    stop: &AtomicBool,
    count: &AtomicUsize,
    ids: &mut Vec<i64>,
) -> Result<(), testbed::postgres::Error> {
    let mut client = server.connect(NoTls)?;
    client.batch_execute("SET plan_cache_mode = force_generic_plan")?;
    let insert = client.prepare(insert)?;
    // At least once: others can have been told of all rows that the test waited for.
    loop {
        let rows = client.query(&insert, &[])?;
        count.fetch_add(rows.len(), Ordering::Relaxed);
        ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}

/// Runs clients beside a test, and returns all IDs and the errors of each client.
fn beside(test: impl FnOnce(&mut Clients)) -> (Vec<i64>, Vec<BTreeMap<String, usize>>) {
    let (stop, told) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        let mut clients = Clients { scope, stop: &stop, told: &told, handles: Vec::new() };
        test(&mut clients);
        clients.finish()
    })
}

/// No ID twice, and each row is found by its ID.
fn assert_found(client: &mut Client, table: &str, ids: &[i64]) {
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len(), "an ID twice");
    let find = client.prepare(&format!("SELECT FROM {table} WHERE id = $1")).expect("a query");
    let lost = ids.iter().filter(|id| client.query(&find, &[id]).expect("a row").len() != 1).count();
    assert_eq!(lost, 0, "of {}", ids.len());
    assert_eq!(value(client, &format!("SELECT count(*) FROM {table}")), ids.len().to_string());
}

/// PostgreSQL locks a partition before its table to insert into it, and the table before its partition to detach it.
const DEADLOCK: &str = "deadlock detected";

/// Runs a transaction, again if PostgreSQL has ended it rather than a client's.
fn at_last(client: &mut Client, transaction: &str) {
    while let Err(failed) = client.batch_execute(transaction) {
        assert_eq!(
            failed.as_db_error().map(testbed::postgres::error::DbError::message),
            Some(DEADLOCK),
            "{transaction}"
        );
        client.batch_execute("ROLLBACK").expect("another try");
    }
}

#[test]
fn partitions_that_are_split_and_joined_under_load_lose_no_row() {
    let server = Cluster::builder().worker(7).start();
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE TABLE t (id bigint PRIMARY KEY, n integer) PARTITION BY HASH (id);
             CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE t_1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1);
             ALTER TABLE t_1 ALTER id SET DEFAULT snowflake_nextval_for('t_1')",
        )
        .expect("a table");
    let (ids, errors) = beside(|clients| {
        for insert in [
            "INSERT INTO t_1 (n) VALUES (1) RETURNING id",
            "INSERT INTO t_1 (n) SELECT generate_series(1, 10) RETURNING id",
            "INSERT INTO t (id) VALUES (snowflake_nextval_for('t_1')) RETURNING id",
            "INSERT INTO t VALUES (snowflake_nextval_for('t', 1541815603606036480), 2) RETURNING id",
        ] {
            clients.start(server.config(), insert);
        }
        for _ in 0..5 {
            clients.wait();
            at_last(&mut client,
                    "BEGIN; ALTER TABLE t DETACH PARTITION t_1; CREATE TABLE t_3 (LIKE t_1);
                     WITH moved AS (DELETE FROM t_1 WHERE snowflake_shard_of(id, 4) = 3 RETURNING *) INSERT INTO t_3 SELECT * FROM moved;
                     ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 4, REMAINDER 1);
                     ALTER TABLE t ATTACH PARTITION t_3 FOR VALUES WITH (MODULUS 4, REMAINDER 3); COMMIT",
                );
            clients.wait();
            at_last(
                &mut client,
                "BEGIN; ALTER TABLE t DETACH PARTITION t_1; ALTER TABLE t DETACH PARTITION t_3;
                     INSERT INTO t_1 SELECT * FROM t_3; DROP TABLE t_3;
                     ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 2, REMAINDER 1); COMMIT",
            );
        }
        clients.wait();
    });
    assert_found(&mut client, "t", &ids);
    assert!(errors.iter().flat_map(BTreeMap::keys).all(|text| text == DEADLOCK), "{errors:?}");
}

/// Shard `from` gives the rows with this remainder of 4 to another one, while nobody else writes to it. Its own IDs
/// have the other remainder from then on.
fn give(from: &Cluster, kept: u32, given: u32, to: &Cluster) {
    let (mut from, mut to) = (from.connect(), to.connect());
    from.batch_execute(&format!(
        "BEGIN; LOCK TABLE t; CREATE TABLE moved AS SELECT * FROM t WHERE snowflake_shard_of(id, 4) = {given};
         DELETE FROM t WHERE snowflake_shard_of(id, 4) = {given};
         ALTER TABLE t DROP CONSTRAINT here, ADD CONSTRAINT here CHECK (snowflake_shard_of(id, 4) = {kept}),
             ALTER id SET DEFAULT snowflake_nextval_for_shard(4, {kept})"
    ))
    .expect("rows to be moved");
    copy(&mut from, "moved", &mut to);
    from.batch_execute("DROP TABLE moved; COMMIT").expect("a shard with half of the rows");
}

fn copy(from: &mut Client, table: &str, to: &mut Client) {
    let mut out = from.copy_out(&format!("COPY {table} TO STDOUT")).expect("rows");
    let mut into = to.copy_in("COPY t FROM STDIN").expect("a table");
    std::io::copy(&mut out, &mut into).expect("a copy");
    into.finish().expect("a commit");
}

#[test]
fn shards_behind_a_router_that_are_split_and_moved_under_load_lose_no_row() {
    let mut fleet = ByHash::start();
    fleet.add_shard(4, 3);
    let new = Cluster::builder().worker(4).start();
    let mut router = fleet.router.connect();
    let (ids, errors) = beside(|clients| {
        let [first, second, third] = [0, 1, 2].map(|shard: usize| fleet.shards[shard].config());
        let of_shard = "INSERT INTO t (n) VALUES (1) RETURNING id";
        clients.start(second, of_shard);
        for insert in [
            "INSERT INTO t (n) VALUES (2) RETURNING id",
            "INSERT INTO t VALUES (snowflake_nextval_for('t_1'), 3) RETURNING id",
            "INSERT INTO t_1 VALUES (snowflake_nextval_for('t_1'), 4) RETURNING id",
        ] {
            clients.start(fleet.router.config(), insert);
        }
        clients.wait();
        // The second shard is split.
        router.batch_execute("BEGIN; ALTER TABLE t DETACH PARTITION t_1").expect("nobody reads or writes");
        give(&fleet.shards[1], 1, 3, &fleet.shards[2]);
        let attach = "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES WITH (MODULUS 4, REMAINDER 1)";
        router.batch_execute(&format!("{attach}; {}; COMMIT", partition(4, 3))).expect("a new map");
        clients.start(third, of_shard);
        clients.start(first, of_shard);
        clients.wait();
        // The first shard is moved to another server.
        let mut source = fleet.shards[0].connect();
        source.batch_execute("BEGIN; ALTER TABLE t RENAME TO moved").expect("nobody writes");
        let mut target = new.connect();
        target
            .batch_execute(
                "CREATE EXTENSION snowflake_pg;
                 CREATE TABLE t (id bigint PRIMARY KEY DEFAULT snowflake_nextval_for_shard(2, 0), n integer)",
            )
            .expect("a table");
        copy(&mut source, "moved", &mut target);
        let host = new.host().display();
        router.batch_execute(&format!("ALTER SERVER s0 OPTIONS (SET host '{host}')")).expect("a new address");
        source.batch_execute("COMMIT").expect("the old shard has no table any more");
        clients.wait();
        clients.start(new.config(), of_shard);
        clients.wait();
    });
    assert_found(&mut router, "t", &ids);
    for (shard, here) in [(&new, "2) = 0"), (&fleet.shards[1], "4) = 1"), (&fleet.shards[2], "4) = 3")] {
        let elsewhere = format!("SELECT count(*) FROM t WHERE NOT snowflake_shard_of(id, {here}");
        assert_eq!(value(&mut shard.connect(), &elsewhere), "0", "{here}");
    }
    // Of statements that meet the move, alone.
    let texts: HashSet<_> = errors.iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
    let moved = ["relation \"t\" does not exist", "relation \"public.t\" does not exist"];
    assert!(texts.iter().all(|text| moved.contains(text)), "{errors:?}");
}

/// The new worker has the remainder of the shard.
#[test]
fn a_shard_that_is_moved_to_a_standby_with_another_worker_keeps_its_rows_and_gets_new_ones() {
    let mut shop = Shop::open();
    let mut new = None;
    let (ids, _) = beside(|clients| {
        clients.start(shop.as_application(), "INSERT INTO customers_1 (name) VALUES ('Ada') RETURNING id");
        clients.wait();
        let standby = Cluster::builder().worker(64 + 1).standby_of(&shop.shards[0]);
        clients.wait();
        shop.shards[0].stop(Signal::INT);
        standby.wait_for_replay_of(&shop.shards[0]);
        standby.promote();
        let mut router = shop.router.config().dbname("shop").connect(NoTls).expect("a session");
        let host = standby.host().display();
        router.batch_execute(&format!("ALTER SERVER shard_1 OPTIONS (SET host '{host}')")).expect("a new address");
        new = Some(standby);
        clients.wait();
    });
    let mut client = shop.as_application().connect(NoTls).expect("a session");
    assert_found(&mut client, "customers", &ids);
    let worker = |id: i64| id >> 12 & 1023;
    let workers: HashSet<_> = ids.iter().copied().map(worker).collect();
    assert_eq!(workers, HashSet::from([1, 64 + 1]));
}
