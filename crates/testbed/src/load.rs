//! Clients that ask for IDs and keep every one they receive, and the oracle that judges them.
//!
//! What counts is what a client has received, whether or not its transaction was ever committed. Rows in a table would
//! not do: a crash takes the evidence with it.

use crate::cluster::{Cluster, PATIENCE};
use postgres::error::DbError;
use postgres::{Client, Config, NoTls, Row};
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant, SystemTime};

/// Clients at work.
pub struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<Received>>,
}

/// What all clients have received up to now.
#[derive(Default)]
struct Counts {
    ids: AtomicUsize,
    errors: AtomicUsize,
}

/// A client that a test drives call by call, and that keeps what it has received, over all its sessions.
#[derive(Default)]
pub struct Witness {
    session: Option<Client>,
    seen: Received,
}

/// What one client has seen, over all the sessions it has had one after the other.
#[derive(Debug, Default)]
struct Received {
    /// Every ID, in the order in which they arrived.
    ids: Vec<i64>,
    /// Every answer that brought IDs.
    arrivals: Vec<Arrival>,
    /// How long the server took for one answer, at most.
    longest: Duration,
    /// How often the server was not there.
    outages: usize,
    /// Errors of the server, by SQLSTATE and message.
    errors: BTreeMap<String, usize>,
}

/// An answer, by the real clock.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Its last ID.
    last: i64,
    asked: UnixMs,
    arrived: UnixMs,
}

/// What all clients have seen.
#[derive(Debug, Default)]
pub struct Report {
    clients: Vec<Received>,
}

impl Load {
    /// Starts clients that repeat a query, which returns IDs in its only column. They connect again when they lose the
    /// server.
    pub fn start(cluster: &Cluster, clients: usize, query: &str) -> Self {
        Self::start_at(&cluster.config(), clients, query)
    }

    /// Starts clients that connect in this way.
    pub fn start_at(config: &Config, clients: usize, query: &str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new(Counts::default());
        let clients = (0..clients)
            .map(|_| {
                let (config, query, stop) = (config.clone(), query.to_owned(), Arc::clone(&stop));
                let counts = Arc::clone(&counts);
                thread::spawn(move || {
                    let mut received = Received::default();
                    while !stop.load(Ordering::Relaxed) {
                        received.session(&config, &query, &stop, &counts);
                    }
                    received
                })
            })
            .collect();
        Self { stop, counts, clients }
    }

    /// Waits until the clients have received some thousand IDs more, which were not all on their way already.
    pub fn wait_for_ids(&self) {
        self.wait_for_some(5000);
    }

    /// Waits until the clients have received so many IDs more.
    pub fn wait_for_some(&self, count: usize) {
        let before = self.counts.ids.load(Ordering::Relaxed);
        wait_until(&self.counts.ids, before + count, "IDs");
    }

    /// Waits until a client has seen an error of the server.
    pub fn wait_for_an_error(&self) {
        wait_until(&self.counts.errors, 1, "errors");
    }

    /// Stops the clients, and says what they have seen.
    pub fn finish(mut self) -> Report {
        self.stop.store(true, Ordering::Relaxed);
        Report { clients: self.clients.drain(..).map(|client| client.join().expect("a client")).collect() }
    }
}

fn wait_until(count: &AtomicUsize, least: usize, of: &str) {
    let (received, deadline) = (|| count.load(Ordering::Relaxed), Instant::now() + PATIENCE);
    while received() < least {
        assert!(Instant::now() < deadline, "{} {of}, not {least}", received());
        sleep(Duration::from_millis(5));
    }
}

/// If the test has failed, its clients would look for its server for ever.
impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Ends the threads of a scope even if their test fails, which would wait for them for ever.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Witness {
    /// A client of this server.
    pub fn of(cluster: &Cluster) -> Self {
        let mut witness = Self::default();
        witness.connect(cluster);
        witness
    }

    /// Opens a new session for the next calls.
    pub fn connect(&mut self, cluster: &Cluster) {
        self.session = Some(cluster.connect());
    }

    /// Uses this session for the next calls.
    pub fn take_over(&mut self, session: Client) {
        self.session = Some(session);
    }

    /// Its session, for statements that return no IDs.
    pub fn session(&mut self) -> &mut Client {
        self.session.as_mut().expect("a session")
    }

    /// Asks for IDs, in the only column of a query. The session must last.
    pub fn ask(&mut self, query: &str) -> Result<Vec<i64>, Box<DbError>> {
        let session = self.session.as_mut().expect("a session");
        let asked = (real_time(), Instant::now());
        let answer = session.query(query, &[]);
        let failure = answer.as_ref().err().and_then(|error| error.as_db_error()).cloned().map(Box::new);
        let seen = self.seen.ids.len();
        self.seen.receive(asked, answer);
        failure.map_or_else(|| Ok(self.seen.ids[seen..].to_vec()), Err)
    }

    pub fn next_id(&mut self) -> Result<i64, Box<DbError>> {
        self.ask("SELECT snowflake_nextval()").map(|ids| ids[0])
    }

    /// The error that the next ID must end with.
    pub fn refusal(&mut self) -> Box<DbError> {
        self.next_id().expect_err("a refusal")
    }

    /// Adds IDs that were received in another way.
    pub fn add(&mut self, ids: impl IntoIterator<Item = i64>) {
        self.seen.ids.extend(ids);
    }

    /// Ends the session, and says what was seen.
    pub fn report(self) -> Report {
        Report { clients: vec![self.seen] }
    }
}

impl Received {
    /// Asks until the session is lost or it is time to stop.
    fn session(&mut self, config: &Config, query: &str, stop: &AtomicBool, counts: &Counts) {
        let Ok(mut client) = config.connect(NoTls) else {
            self.outages += 1;
            sleep(Duration::from_millis(5));
            return;
        };
        while !stop.load(Ordering::Relaxed) && !client.is_closed() {
            let seen = self.ids.len();
            let asked = (real_time(), Instant::now());
            let answer = client.query(query, &[]);
            let has_failed = answer.as_ref().is_err_and(|error| error.as_db_error().is_some());
            self.receive(asked, answer);
            counts.ids.fetch_add(self.ids.len() - seen, Ordering::Relaxed);
            counts.errors.fetch_add(usize::from(has_failed), Ordering::Relaxed);
            // Other tests need the processor, and so does a server that recovers.
            sleep(Duration::from_millis(1));
        }
    }

    /// Keeps what an answer brought, and how long it took since it was asked for.
    fn receive(&mut self, (asked, since): (UnixMs, Instant), answer: Result<Vec<Row>, postgres::Error>) {
        let took = since.elapsed();
        if answer.as_ref().map_or_else(|error| error.as_db_error().is_some(), |_| true) {
            self.longest = self.longest.max(took);
        }
        match answer {
            Ok(rows) => {
                self.ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
                if let Some(&last) = self.ids.last() {
                    self.arrivals.push(Arrival { last, asked, arrived: real_time() });
                }
            }
            Err(error) => match error.as_db_error() {
                // 57P means that the server goes down; a session that ends otherwise has no code at all.
                Some(error) if !error.code().code().starts_with("57P") => {
                    *self.errors.entry(format!("{} {}", error.code().code(), error.message())).or_default() += 1;
                }
                _ => self.outages += 1,
            },
        }
    }
}

/// The real time, which a stepped clock is measured against.
pub fn real_time() -> UnixMs {
    let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    UnixMs::try_from(since_1970.as_millis()).unwrap_or_default()
}

/// Sleeps until the real time is after this one.
pub fn sleep_past(time: UnixMs) {
    sleep(Duration::from_millis((time + 1).saturating_sub(real_time())));
}

impl Report {
    /// Adds what others have seen, on this server or another one.
    pub fn merge(&mut self, other: Self) {
        self.clients.extend(other.clients);
    }

    pub fn received(&self) -> impl Iterator<Item = i64> {
        self.clients.iter().flat_map(|client| client.ids.iter().copied())
    }

    pub fn ids(&self) -> usize {
        self.clients.iter().map(|client| client.ids.len()).sum()
    }

    /// The lowest and the highest ID.
    pub fn range(&self) -> Option<(i64, i64)> {
        let all = || self.clients.iter().flat_map(|client| client.ids.iter().copied());
        all().min().zip(all().max())
    }

    /// How many IDs were received more than once.
    pub fn duplicates(&self) -> usize {
        let mut all: Vec<_> = self.received().collect();
        // Not sort_unstable(): each client's IDs are sorted already, which sort() makes use of.
        all.sort();
        all.windows(2).filter(|pair| pair[0] == pair[1]).count()
    }

    /// How many IDs were not greater than the previous ID of their client.
    pub fn inversions(&self) -> usize {
        let inverted = |client: &Received| client.ids.windows(2).filter(|pair| pair[0] >= pair[1]).count();
        self.clients.iter().map(inverted).sum()
    }

    /// How often a client found no server.
    pub fn outages(&self) -> usize {
        self.clients.iter().map(|client| client.outages).sum()
    }

    /// Errors of the server, by SQLSTATE and message.
    pub fn errors(&self) -> BTreeMap<&str, usize> {
        let mut errors = BTreeMap::new();
        for (error, count) in self.clients.iter().flat_map(|client| &client.errors) {
            *errors.entry(error.as_str()).or_default() += count;
        }
        errors
    }

    /// How long the server took for one answer, at most.
    pub fn longest_call(&self) -> Duration {
        self.clients.iter().map(|client| client.longest).max().unwrap_or_default()
    }

    /// The longest time between two answers with IDs, for one client.
    pub fn longest_gap(&self) -> Duration {
        let gaps = |client: &Received| {
            client.arrivals.windows(2).map(|pair| pair[1].arrived.saturating_sub(pair[0].arrived)).max()
        };
        Duration::from_millis(self.clients.iter().filter_map(gaps).max().unwrap_or_default())
    }

    /// When the last answer with IDs arrived.
    pub fn last_arrival(&self) -> Option<UnixMs> {
        self.clients.iter().filter_map(|client| client.arrivals.last()).map(|arrival| arrival.arrived).max()
    }

    /// How far a timestamp was ahead of the server's clock when it arrived, at most. The clock was `offset_ms` from the
    /// real one, or further ahead.
    pub fn largest_lead_ms(&self, layout: &Layout, offset_ms: i64) -> i64 {
        self.largest_lead_ms_by(layout, |_, _| offset_ms)
    }

    /// How far a timestamp was ahead if the clock was set meanwhile: `offset_ms` says how far it was from the real one,
    /// at most, between two real times.
    pub fn largest_lead_ms_by(&self, layout: &Layout, offset_ms: impl Fn(UnixMs, UnixMs) -> i64) -> i64 {
        let signed = |ms: UnixMs| i64::try_from(ms).expect("this age");
        let lead = |&Arrival { last, asked, arrived }: &Arrival| {
            signed(layout.issued_at(last.cast_unsigned())) - signed(arrived) - offset_ms(asked, arrived)
        };
        self.clients.iter().flat_map(|client| &client.arrivals).map(lead).max().unwrap_or(0)
    }

    /// The promises that every row of every test keeps: IDs were received, none twice, and each client's in order.
    pub fn assert_unique_and_ordered(&self) {
        assert!(self.ids() > 0, "no ID was received: {:?}", self.errors());
        assert_eq!((self.duplicates(), self.inversions()), (0, 0), "duplicates and inversions of {} IDs", self.ids());
    }
}
