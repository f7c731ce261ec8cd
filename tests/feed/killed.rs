//! Whatever is killed, promoted, held or added, the rows that are applied are those of the servers, each once.

use super::fixture::{Fleet, start};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;
use testbed::postgres::{self, Config, NoTls};
use testbed::runner::in_full;
use testbed::{Builder, Cluster, Signal, Traffic, test, value};

/// How often the sessions of both consumers are ended; five times, their server is killed, too.
fn kills() -> usize {
    if in_full() { 100 } else { 40 }
}

fn member(worker: u16) -> Builder {
    Cluster::builder().worker(worker).set("max_prepared_transactions", 100).set("max_connections", 100)
}

/// Applies what it reads, in one transaction, until it has reached the end.
fn consume(config: &Config, arguments: &str, finished: &AtomicBool) {
    let query = format!(
        "INSERT INTO applied (id, is_late, server) SELECT (content).id, is_late, server
         FROM snowflake_feed.read_marked(NULL::outbox, 'all', {arguments})"
    );
    let session = || -> Result<(), postgres::Error> {
        let mut client = config.connect(NoTls)?;
        let mut empty = 0;
        loop {
            let is_last = finished.load(Ordering::Relaxed);
            client.batch_execute("BEGIN")?;
            let rows = client.execute(&query, &[])?;
            client.batch_execute(if fastrand::u8(0..10) == 0 { "ROLLBACK" } else { "COMMIT" })?;
            empty = if rows == 0 && is_last { empty + 1 } else { 0 };
            // A server that was away is asked again after a while.
            let behind = "SELECT count(*) FROM snowflake_feed.member WHERE problem IS NOT NULL";
            if empty > 3 && client.query_one(behind, &[])?.get::<_, i64>(0) == 0 {
                return Ok(());
            }
        }
    };
    while session().is_err() {
        sleep(Duration::from_millis(20));
    }
}

/// Lets a standby take the place of its primary, which has sent it all that it has acknowledged.
fn promote(primary: &mut Cluster, standby: &Cluster, traffic: &Traffic) {
    primary.stop(Signal::KILL);
    standby.promote();
    traffic.move_to(standby);
}

/// What was missed, repeated, and returned after a greater ID, though not marked late.
fn killed(arguments: &str) -> [usize; 3] {
    let mut fleet = Fleet::of((1..=3).map(member));
    // One with the worker of its primary, and one with its own.
    let standbys = [(0, 1), (1, 11)].map(|(nth, worker): (usize, u16)| {
        let standby = member(worker).standby_of(&fleet.members[nth]);
        fleet.members[nth].configure("synchronous_standby_names", "*");
        fleet.members[nth].reload();
        fleet.members[nth].wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')");
        let hosts = format!("{},{}", fleet.members[nth].host().display(), standby.host().display());
        let alter = format!("ALTER SERVER s{nth} OPTIONS (SET host '{hosts}', ADD target_session_attrs 'read-write')");
        fleet.reader.connect().batch_execute(&alter).expect("two hosts");
        standby
    });
    let added = start(member(4));
    fleet.name(3, &added);
    fleet.members.push(added);
    let traffics: Vec<_> = fleet.members.iter().map(|member| Traffic::write(member, 3)).collect();
    let mut dba = fleet.reader.connect();
    let add = |dba: &mut postgres::Client, nth: usize, since: &str| {
        let add = format!("SELECT snowflake_feed.add_server('all', 's{nth}', '{since}')");
        dba.batch_execute(&add).unwrap_or_else(|error| panic!("{error:?}"));
    };
    dba.batch_execute(
        "SELECT snowflake_feed.drop('all'); SELECT snowflake_feed.create('all', 'public.written');
         ALTER TABLE outbox RENAME note TO other; ALTER TABLE outbox DROP other;
         ALTER TABLE applied ADD is_late boolean; ALTER TABLE applied ADD server name",
    )
    .expect("a feed");
    (0..3).for_each(|nth| add(&mut dba, nth, "-infinity"));
    drop(dba);
    let finished = AtomicBool::new(false);
    let config = fleet.reader.config();
    let tables = thread::scope(|scope| {
        let consumers = [(); 2].map(|()| scope.spawn(|| consume(&config, arguments, &finished)));
        for kill in 0..kills() {
            sleep(Duration::from_millis(fastrand::u64(10..200)));
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO applied%'";
            fleet.reader.connect().batch_execute(end).expect("the end of a session");
            match kill * 100 / kills() {
                10 | 75 => fleet.members[2].restart(Signal::KILL),
                25 => promote(&mut fleet.members[0], &standbys[0], &traffics[0]),
                45 => promote(&mut fleet.members[1], &standbys[1], &traffics[1]),
                60 => add(&mut fleet.reader.connect(), 3, "-infinity"),
                85 => {
                    let _split = fleet.members[2].freeze();
                    sleep(Duration::from_secs(1));
                }
                _ if kill % (kills() / 5) == kills() / 5 - 1 => fleet.reader.restart(Signal::KILL),
                _ => {}
            }
        }
        let early = "SELECT count(*) FROM applied";
        println!("{} rows were applied meanwhile", value(&mut fleet.reader.connect(), early));
        traffics.into_iter().for_each(|traffic| drop(traffic.finish()));
        let mut tables = Vec::new();
        for member in standbys.iter().chain(&fleet.members[2..]) {
            let rows = member.connect().query("SELECT id FROM written", &[]).expect("rows");
            tables.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
        finished.store(true, Ordering::Relaxed);
        consumers.into_iter().for_each(|consumer| consumer.join().expect("a consumer"));
        tables
    });
    let query = "SELECT id, is_late, server::text FROM applied ORDER BY nth";
    let rows = fleet.reader.connect().query(query, &[]).expect("rows");
    let applied: Vec<(i64, bool, String)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    let distinct: HashSet<i64> = applied.iter().map(|row| row.0).collect();
    let all: HashSet<i64> = tables.iter().copied().collect();
    assert_eq!(distinct.difference(&all).count(), 0, "rows that are nowhere");
    let in_time: Vec<i64> = applied.iter().filter(|(_, is_late, _)| !is_late).map(|row| row.0).collect();
    let late = |added: bool| applied.iter().filter(|(_, is_late, name)| *is_late && (name == "s3") == added).count();
    println!(
        "{} rows of 4 servers, {} applied; late: {}, and {} of a server that was added",
        tables.len(),
        applied.len(),
        late(false),
        late(true)
    );
    // Late or not.
    let of = |server: &str| applied.iter().filter(|row| row.2 == server).map(|row| row.0).collect::<Vec<_>>();
    for server in ["s0", "s1", "s2", "s3"].map(of) {
        assert!(server.is_sorted(), "rows of one server, in another order than theirs");
    }
    assert!(tables.len() > 1000, "{} rows", tables.len());
    assert!(arguments.contains("patience") || late(false) == 0, "late rows of servers that were waited for");
    [
        all.difference(&distinct).count(),
        applied.len() - distinct.len(),
        in_time.windows(2).filter(|pair| pair[0] > pair[1]).count(),
    ]
}

#[test]
fn no_row_is_missed_repeated_or_out_of_order_while_servers_and_the_reader_are_killed() {
    assert_eq!(killed("100"), [0, 0, 0], "missed, repeated, out of order");
}

#[test]
fn a_reader_without_patience_loses_the_order_of_rows_alone_that_are_marked_late() {
    assert_eq!(killed("100, patience => '10 ms'"), [0, 0, 0], "missed, repeated, out of order");
}
