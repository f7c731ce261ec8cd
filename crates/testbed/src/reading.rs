//! Transactions that insert rows and commit in any order, and readers that follow the table by ID.

use crate::cluster::{Cluster, PATIENCE};
use postgres::{Client, Config, NoTls};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

/// The table `written`, with IDs, which they write and read.
const TABLE: &str = "CREATE TABLE written (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text)";

/// How a reader finds new rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// `id > $last`, as readers do that know nothing of other transactions.
    Naive,
    /// `id > $last AND id < $horizon`, with the horizon from the previous statement.
    Horizon,
    /// `snowflake_poll()`.
    Poll,
    /// One that waits for rows.
    Wait,
}

/// Writers and readers at work.
pub struct Traffic {
    /// Where the writers and the readers of the primary are.
    primary: Arc<Mutex<Config>>,
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<()>>,
    finished: Arc<AtomicBool>,
    readers: Vec<(Reader, String, JoinHandle<Vec<i64>>)>,
    standbys: Vec<Config>,
    /// What readers of copies have read, and up to which horizon.
    copies: Vec<(Reader, String, i64, Vec<i64>)>,
}

/// What a reader has seen of the rows in the final table.
#[derive(Debug)]
pub struct Seen {
    pub reader: Reader,
    /// Where it has read.
    pub at: String,
    /// Rows of the table that it should have read: those below the horizon of a copy, or all.
    pub due: usize,
    /// Rows that it has read.
    pub read: usize,
    /// Rows that it should have read and has not.
    pub missed: usize,
    /// Rows that it has read more than once.
    pub repeated: usize,
    /// Rows that it has read before a row with a smaller ID.
    pub out_of_order: usize,
    /// Rows that it has read, and that are not among those that it should have.
    pub vanished: usize,
}

impl Traffic {
    /// Creates the table, and starts writers and one reader of each kind.
    pub fn start(cluster: &Cluster, writers: usize) -> Self {
        let mut traffic = Self::write(cluster, writers);
        for reader in [Reader::Naive, Reader::Horizon, Reader::Poll, Reader::Wait] {
            traffic.read(reader, "the primary", Arc::clone(&traffic.primary));
        }
        traffic
    }

    /// Creates the table, and starts writers.
    pub fn write(cluster: &Cluster, writers: usize) -> Self {
        cluster.connect().batch_execute(TABLE).expect("a table");
        let primary = Arc::new(Mutex::new(cluster.config()));
        let [stop, finished] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let spawn_writer = |_| {
            let (primary, stop) = (Arc::clone(&primary), Arc::clone(&stop));
            thread::spawn(move || sessions(&primary, &stop, write))
        };
        let mut threads: Vec<_> = (0..writers).map(spawn_writer).collect();
        threads.extend((0..writers.div_ceil(16)).map(|_| {
            let (primary, stop) = (Arc::clone(&primary), Arc::clone(&stop));
            thread::spawn(move || sessions(&primary, &stop, end_prepared))
        }));
        let (readers, standbys, copies) = (Vec::new(), Vec::new(), Vec::new());
        Self { primary, stop, writers: threads, finished, readers, standbys, copies }
    }

    /// Starts readers of a standby, which stay there.
    pub fn read_from(&mut self, standby: &Cluster, name: &str) {
        for reader in [Reader::Horizon, Reader::Poll, Reader::Wait] {
            self.read(reader, name, Arc::new(Mutex::new(standby.config())));
        }
        self.standbys.push(standby.config());
    }

    /// Reads a copy, which stays as it is, up to its horizon. Returns that.
    pub fn read_copy(&mut self, copy: &Cluster, name: &str) -> i64 {
        let mut client = copy.connect();
        let horizon = client.query_one("SELECT snowflake_horizon()", &[]).expect("a horizon").get(0);
        for reader in [Reader::Horizon, Reader::Poll] {
            let mut seen = Vec::new();
            reader.follow(&mut client, &AtomicBool::new(true), 10_000, &mut seen).expect("rows");
            self.copies.push((reader, name.to_owned(), horizon, seen));
        }
        horizon
    }

    fn read(&mut self, reader: Reader, name: &str, at: Arc<Mutex<Config>>) {
        let finished = Arc::clone(&self.finished);
        let read = move || {
            let mut seen = Vec::new();
            sessions(&at, &finished, |client, finished| reader.follow(client, finished, 100, &mut seen));
            seen
        };
        self.readers.push((reader, name.to_owned(), thread::spawn(read)));
    }

    /// The writers and the readers of the primary connect to this server from now on.
    pub fn move_to(&self, promoted: &Cluster) {
        *self.primary.lock().expect("a server") = promoted.config();
    }

    /// Stops the writers, lets the readers reach the end of the table, and compares what they have read with it.
    pub fn finish(self) -> (usize, Vec<Seen>) {
        self.stop.store(true, Ordering::Relaxed);
        self.writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        let primary = self.primary.lock().expect("a server").clone();
        let mut client = primary.connect(NoTls).expect("a session");
        let gids = client.query("SELECT gid FROM pg_prepared_xacts", &[]).expect("prepared transactions");
        for gid in gids {
            client.batch_execute(&format!("COMMIT PREPARED '{}'", gid.get::<_, &str>(0))).expect("the end of it");
        }
        let rows = client.query("SELECT id FROM written", &[]).expect("the rows");
        let table: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        let last = table.iter().max().copied().unwrap_or(0);
        [&primary].into_iter().chain(&self.standbys).for_each(|server| wait_until_complete(server, last));
        self.finished.store(true, Ordering::Relaxed);
        let read_all = self.readers.into_iter().map(|(reader, at, thread)| {
            let ids = thread.join().expect("a reader");
            (reader, at, i64::MAX, ids)
        });
        let judge = |(reader, at, horizon, ids): (Reader, String, i64, Vec<i64>)| {
            let distinct: HashSet<_> = ids.iter().copied().collect();
            let due: HashSet<_> = table.iter().copied().filter(|&id| id < horizon).collect();
            Seen {
                reader,
                at,
                due: due.len(),
                read: ids.len(),
                missed: due.difference(&distinct).count(),
                repeated: ids.len() - distinct.len(),
                out_of_order: ids.windows(2).filter(|pair| pair[0] > pair[1]).count(),
                vanished: distinct.difference(&due).count(),
            }
        };
        (table.len(), read_all.chain(self.copies).map(judge).collect())
    }
}

/// Waits until a server says that it has all rows, of which this one is the last.
fn wait_until_complete(server: &Config, last: i64) {
    let deadline = Instant::now() + PATIENCE;
    let mut client = server.connect(NoTls).expect("a session");
    let mut horizon =
        || client.query_one("SELECT snowflake_horizon()", &[]).expect("a horizon").get::<_, Option<i64>>(0);
    while horizon().is_none_or(|horizon| horizon <= last) {
        assert!(Instant::now() < deadline, "a server is complete up to {:?}, not {last}", horizon());
        sleep(Duration::from_millis(10));
    }
}

/// Works in one session after the other until all is done, whatever crashes of the server.
fn sessions(
    at: &Mutex<Config>,
    stop: &AtomicBool,
    mut work: impl FnMut(&mut Client, &AtomicBool) -> Result<(), postgres::Error>,
) {
    loop {
        let config = at.lock().expect("a server").clone();
        match config.connect(NoTls).and_then(|mut client| work(&mut client, stop)) {
            Ok(()) => return,
            Err(_) => sleep(Duration::from_millis(20)),
        }
    }
}

/// Transactions of a few rows, which end in every way, some time after they have drawn their IDs.
fn write(client: &mut Client, stop: &AtomicBool) -> Result<(), postgres::Error> {
    let pause = |at_most| sleep(Duration::from_micros(fastrand::u64(0..at_most)));
    while !stop.load(Ordering::Relaxed) {
        client.batch_execute("BEGIN; INSERT INTO written (note) VALUES ('first')")?;
        pause(20_000);
        match fastrand::u8(0..10) {
            0 => client.batch_execute("ROLLBACK")?,
            1 => client.batch_execute(
                "SAVEPOINT s; INSERT INTO written (note) VALUES ('gone'); ROLLBACK TO s; \
                 INSERT INTO written (note) SELECT 'more' FROM generate_series(1, 5); COMMIT",
            )?,
            // Ended by another session.
            2 => client.batch_execute(&format!("PREPARE TRANSACTION '{:x}'", fastrand::u64(..)))?,
            3 => client.batch_execute("COMMIT AND CHAIN; INSERT INTO written (note) VALUES ('next'); COMMIT")?,
            _ => client.batch_execute("COMMIT")?,
        }
        pause(2_000);
    }
    Ok(())
}

/// Ends prepared transactions, one in four by a rollback.
fn end_prepared(client: &mut Client, stop: &AtomicBool) -> Result<(), postgres::Error> {
    while !stop.load(Ordering::Relaxed) {
        let old = "SELECT gid FROM pg_prepared_xacts WHERE prepared < clock_timestamp() - interval '20 ms'
                   ORDER BY random() LIMIT 5";
        for row in client.query(old, &[])? {
            let end = if fastrand::u8(0..4) == 0 { "ROLLBACK" } else { "COMMIT" };
            match client.batch_execute(&format!("{end} PREPARED '{}'", row.get::<_, &str>(0))) {
                Err(error) if error.is_closed() => return Err(error),
                // Another session may have ended it, or is doing so.
                _ => {}
            }
        }
        sleep(Duration::from_millis(2));
    }
    Ok(())
}

impl Reader {
    /// Reads new rows, so many at once, until there are none after the end.
    fn follow(
        self,
        client: &mut Client,
        finished: &AtomicBool,
        rows: i32,
        seen: &mut Vec<i64>,
    ) -> Result<(), postgres::Error> {
        loop {
            let is_last = finished.load(Ordering::Relaxed);
            let after = seen.last().copied().unwrap_or(0);
            let rows = match self {
                Self::Naive => {
                    let query = "SELECT id FROM written WHERE id > $1 ORDER BY id LIMIT $2::integer";
                    client.query(query, &[&after, &rows])?
                }
                Self::Horizon => {
                    let horizon: Option<i64> = client.query_one("SELECT snowflake_horizon()", &[])?.get(0);
                    let query = "SELECT id FROM written WHERE id > $1 AND id < $2 ORDER BY id LIMIT $3::integer";
                    client.query(query, &[&after, &horizon, &rows])?
                }
                Self::Poll => client.query("SELECT id FROM snowflake_poll(NULL::written, $1, $2)", &[&after, &rows])?,
                Self::Wait => {
                    let query = "SELECT id FROM snowflake_poll(NULL::written, $1, $2, wait => '500 ms')";
                    client.query(query, &[&after, &rows])?
                }
            };
            seen.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
            if rows.is_empty() {
                if is_last {
                    return Ok(());
                }
                sleep(Duration::from_millis(1));
            }
        }
    }
}
