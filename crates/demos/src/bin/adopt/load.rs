//! Clients that read, insert, update and delete, and know which rows there must be.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::Cluster;
use testbed::postgres::{Client, Error, SimpleQueryMessage};

/// How long a client rests between two operations.
pub const PAUSE: Duration = Duration::from_millis(5);

/// The tables that reference `orders`.
pub const REFERRING: [&str; 3] = ["items", "notes", "payments"];

/// One client, which has every order whose number it owns, and those that it has inserted.
struct Worker {
    number: i64,
    clients: i64,
    rows: i64,
    seen: Seen,
}

/// What clients have done.
#[derive(Default)]
pub struct Seen {
    /// Orders that are not as they were at the beginning, and the values that they must have; `None` if they were
    /// deleted.
    pub changed: HashMap<i64, Option<i64>>,
    /// The IDs of all orders that were inserted.
    pub inserted: Vec<i64>,
    /// How long each operation took, in microseconds.
    pub took: Vec<u32>,
    /// When the longest one began, and how long it took.
    pub longest: Option<(Instant, Duration)>,
    pub errors: Vec<String>,
    /// Reads that did not return what they must.
    pub misread: usize,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.changed.extend(other.changed);
        self.inserted.extend(other.inserted);
        self.took.extend(other.took);
        self.errors.extend(other.errors);
        self.misread += other.misread;
        self.longest = self.longest.into_iter().chain(other.longest).max_by_key(|(_, took)| *took);
    }

    /// In milliseconds, so many of a thousand operations took no longer than this.
    pub fn quantile(&mut self, of_thousand: usize) -> f64 {
        self.took.sort_unstable();
        let last = self.took.len().saturating_sub(1);
        f64::from(self.took.get(last * of_thousand / 1000).copied().unwrap_or(0)) / 1000.0
    }
}

pub struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
}

impl Load {
    /// So many clients, of tables that have so many rows at the beginning, or as other clients have left them.
    pub fn start(cluster: &Cluster, clients: i64, rows: i64, before: &HashMap<i64, Option<i64>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut seen: Vec<_> = (0..clients).map(|_| Seen::default()).collect();
        for (&id, &value) in before {
            let owner = usize::try_from(id % clients).expect("a number");
            seen[owner].changed.insert(id, value);
        }
        let threads = seen.into_iter().zip(0..).map(|(seen, number)| {
            let (mut session, stop) = (cluster.connect(), Arc::clone(&stop));
            let mut worker = Worker { number, clients, rows, seen };
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    worker.operate(&mut session);
                    sleep(PAUSE);
                }
                worker.seen
            })
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    pub fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Seen::default();
        self.threads.into_iter().for_each(|thread| all.add(thread.join().expect("a client")));
        all
    }
}

impl Worker {
    /// An order of its own that was there at the beginning, or one of those that it has inserted, and its value.
    fn order(&self) -> Option<(i64, i64)> {
        let mine = self.rows / self.clients;
        let id = match self.seen.inserted.len() {
            inserted if inserted > 0 && fastrand::bool() => self.seen.inserted[fastrand::usize(0..inserted)],
            _ => fastrand::i64(0..mine) * self.clients + self.number,
        };
        let value = self.seen.changed.get(&id).copied().unwrap_or(Some(id));
        value.filter(|_| id > 0).map(|value| (id, value))
    }

    fn operate(&mut self, session: &mut Client) {
        let began = Instant::now();
        let outcome = match (fastrand::u8(0..8), self.order()) {
            (0..2, _) | (_, None) => self.insert(session),
            (2..4, Some((id, _))) => self.update(session, id),
            (4, Some((id, _))) => session.batch_execute(&format!("DELETE FROM orders WHERE id = {id}")).map(|()| {
                self.seen.changed.insert(id, None);
            }),
            (_, Some((id, value))) => self.read(session, id, value),
        };
        let took = began.elapsed();
        self.seen.took.push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
        self.seen.longest = self.seen.longest.into_iter().chain([(began, took)]).max_by_key(|(_, took)| *took);
        if let Err(error) = outcome {
            self.seen.errors.push(format!("{error:?}"));
        }
    }

    /// As an application does: columns have names, since they will be in another order.
    fn insert(&mut self, session: &mut Client) -> Result<(), Error> {
        let value = fastrand::i64(0..1 << 30);
        let insert = format!(
            "WITH o AS (INSERT INTO orders (value, note) VALUES ({value}, 'new') RETURNING id),
                i AS (INSERT INTO items (order_id, value) SELECT id, {value} FROM o),
                n AS (INSERT INTO notes (order_id, value) SELECT id, {value} FROM o),
                p AS (INSERT INTO payments (order_id, value) SELECT id, {value} FROM o)
             SELECT id FROM o"
        );
        let id: i64 = first(&session.simple_query(&insert)?, 0).expect("an ID");
        self.seen.inserted.push(id);
        self.seen.changed.insert(id, Some(value));
        Ok(())
    }

    /// Four statements in one transaction.
    fn update(&mut self, session: &mut Client, id: i64) -> Result<(), Error> {
        let value = fastrand::i64(0..1 << 30);
        let referring = REFERRING.map(|table| format!("UPDATE {table} SET value = {value} WHERE order_id = {id}"));
        session
            .batch_execute(&format!("UPDATE orders SET value = {value} WHERE id = {id}; {}", referring.join("; ")))?;
        self.seen.changed.insert(id, Some(value));
        Ok(())
    }

    fn read(&mut self, session: &mut Client, id: i64, value: i64) -> Result<(), Error> {
        let read = format!(
            "SELECT o.value, i.value, n.value, p.value FROM orders o JOIN items i ON i.order_id = id
                JOIN notes n ON n.order_id = id JOIN payments p ON p.order_id = id WHERE id = {id}"
        );
        let found = session.simple_query(&read)?;
        self.seen.misread += usize::from((0..4).any(|column| first(&found, column) != Some(value)));
        Ok(())
    }
}

/// A number in the first row.
fn first(messages: &[SimpleQueryMessage], column: usize) -> Option<i64> {
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    row?.get(column)?.parse().ok()
}
