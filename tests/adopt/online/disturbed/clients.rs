//! Clients that read, insert, update and delete, and know which rows there must be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::error::SqlState;
use testbed::postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};
use testbed::{PATIENCE, value};

/// How many there are. Each has its own rows, so it knows what they must be.
const CLIENTS: i64 = 4;

/// Where clients find their server: another one after a failover.
pub type Server = Arc<Mutex<Config>>;

/// A session, as soon as there is one. A server may be starting, or ending.
pub fn connect(server: &Server) -> Client {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let config = server.lock().expect("a server").clone();
        match config.connect(NoTls) {
            Ok(session) => return session,
            Err(error) => assert!(Instant::now() < deadline, "no session: {error:?}"),
        }
        sleep(Duration::from_millis(10));
    }
}

/// Whether an error says only that there is no server any more, or no session.
pub fn is_lost(error: &Error) -> bool {
    let codes = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
    error.as_db_error().is_none_or(|error| codes.contains(error.code()))
}

/// The rows of a query.
fn rows<const N: usize>(session: &mut Client, query: &str) -> Result<Vec<[String; N]>, Error> {
    let messages = session.simple_query(query)?;
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(std::array::from_fn(|n| row.get(n).unwrap_or("NULL").to_owned())),
        _ => None,
    });
    Ok(rows.collect())
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Order {
    parent: Option<i64>,
    note: String,
    /// By `touch`, the trigger: what copies rows is no update.
    was_updated: bool,
    notes: usize,
}

/// Rows of the tables of [`TABLES`](super::super::TABLES).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    orders: BTreeMap<i64, Order>,
    /// By their IDs: the order, and n.
    items: BTreeMap<i64, (i64, i64)>,
}

impl Rows {
    pub fn of(session: &mut Client) -> Self {
        let number = |text: &String| text.parse().expect("a number");
        let orders = "SELECT id, parent, note, updated_at <> 'epoch', (SELECT count(*) FROM other.notes WHERE order_id = id) FROM orders";
        let orders = rows(session, orders).expect("orders");
        let orders = orders.into_iter().map(|[id, parent, note, updated, notes]: [String; 5]| {
            let notes = notes.parse().expect("a number");
            (number(&id), Order { parent: parent.parse().ok(), note, was_updated: updated == "t", notes })
        });
        let items = rows(session, "SELECT id, order_id, n FROM items").expect("items");
        let items = items.iter().map(|[id, order, n]: &[String; 3]| (number(id), (number(order), number(n))));
        let rows = Self { orders: orders.collect(), items: items.collect() };
        let found = value(session, "SELECT count(*) FROM other.notes JOIN orders ON order_id = id");
        assert_eq!(value(session, "SELECT count(*) FROM other.notes"), found, "a note without an order");
        assert!(rows.items.values().all(|(order, _)| rows.orders.contains_key(order)), "an item without an order");
        rows
    }

    /// Those of one client.
    fn owned_by(&self, number: i64) -> Self {
        let orders = self.orders.iter().filter(|(id, _)| **id % CLIENTS == number);
        let items = self.items.iter().filter(|(_, (order, _))| order % CLIENTS == number);
        Self {
            orders: orders.map(|(id, order)| (*id, order.clone())).collect(),
            items: items.map(|(&a, &b)| (a, b)).collect(),
        }
    }

    /// What is here and not there.
    pub fn without(&self, other: &Self) -> Vec<String> {
        let orders = self.orders.iter().filter(|(id, order)| other.orders.get(id) != Some(order));
        let items = self.items.iter().filter(|(id, item)| other.items.get(id) != Some(item));
        orders.map(|row| format!("{row:?}")).chain(items.map(|row| format!("{row:?}"))).collect()
    }
}

/// What clients have seen.
#[derive(Default)]
pub struct Seen {
    /// The rows that must be there.
    pub rows: Rows,
    pub transactions: usize,
    /// Transactions that ended with a lost connection.
    pub lost: usize,
}

pub struct Clients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Worker>>,
}

impl Clients {
    /// Begins with the rows that there are. Each client counts its transactions in a row of its own.
    pub fn start(server: &Server) -> Self {
        let mut session = connect(server);
        let all = Rows::of(&mut session);
        let stop = Arc::new(AtomicBool::new(false));
        let threads = (0..CLIENTS).map(|number| {
            let rows = all.owned_by(number);
            let ids = all.orders.keys().filter(|&id| id % CLIENTS == number).copied().collect();
            let mut worker = Worker { server: Arc::clone(server), number, rows, ids, done: 0, lost: 0 };
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                worker.work(&stop);
                worker
            })
        });
        let threads = threads.collect();
        Self { stop, threads }
    }

    /// Stops them. No ID was issued twice, also of rows that are not there any more.
    pub fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let mut seen = Seen::default();
        let mut ids = BTreeSet::new();
        for worker in self.threads.into_iter().map(|thread| thread.join().expect("a client")) {
            seen.transactions += worker.done;
            seen.lost += worker.lost;
            assert!(worker.ids.iter().all(|id| ids.insert(*id)), "two clients have one ID");
            seen.rows.orders.extend(worker.rows.orders);
            seen.rows.items.extend(worker.rows.items);
        }
        seen
    }
}

/// One client.
struct Worker {
    server: Server,
    number: i64,
    /// Its rows, by what it has done.
    rows: Rows,
    /// All IDs of orders that it has received in transactions that were committed.
    ids: BTreeSet<i64>,
    done: usize,
    lost: usize,
}

impl Worker {
    fn work(&mut self, stop: &AtomicBool) {
        let mut session = connect(&self.server);
        while !stop.load(Ordering::Relaxed) {
            let mut after = self.rows.clone();
            let is_done = match self.transaction(&mut session, &mut after) {
                Ok(is_done) => is_done,
                Err(error) => {
                    assert!(is_lost(&error), "client {}, transaction {}: {error:?}", self.number, self.done + 1);
                    self.lost += 1;
                    self.was_committed(&mut session)
                }
            };
            if is_done {
                self.done += 1;
                for id in after.orders.keys().filter(|id| !self.rows.orders.contains_key(id)) {
                    assert!(self.ids.insert(*id), "{id} was issued twice");
                }
                self.rows = after;
            }
        }
    }

    /// Looks whether the last transaction was committed. By a change, which is acknowledged when a standby has all that
    /// was written before.
    fn was_committed(&self, session: &mut Client) -> bool {
        loop {
            *session = connect(&self.server);
            let look = format!("UPDATE clients SET looked = looked + 1 WHERE number = {} RETURNING done", self.number);
            match rows(session, &look) {
                Ok(found) => {
                    let [[done]] = found.as_slice() else { panic!("a row of clients: {found:?}") };
                    let done: usize = done.parse().expect("a number");
                    assert!([self.done, self.done + 1].contains(&done), "{done} transactions, and not {}", self.done);
                    return done > self.done;
                }
                Err(error) => assert!(is_lost(&error), "{error:?}"),
            }
        }
    }

    /// False if it was rolled back.
    fn transaction(&self, session: &mut Client, after: &mut Rows) -> Result<bool, Error> {
        session.batch_execute("BEGIN")?;
        for _ in 0..fastrand::usize(1..4) {
            self.change(session, after)?;
        }
        // So that now and then rows are locked which are to be copied, and a lock must be waited for.
        sleep(Duration::from_millis(fastrand::choice([1, 1, 1, 20]).unwrap_or(0)));
        let (number, done) = (self.number, self.done + 1);
        session.batch_execute(&format!("UPDATE clients SET done = {done} WHERE number = {number}"))?;
        let is_kept = fastrand::u8(0..6) > 0;
        session.batch_execute(if is_kept { "COMMIT" } else { "ROLLBACK" })?;
        Ok(is_kept)
    }

    /// A statement or two, and what they do to the rows.
    fn change(&self, session: &mut Client, rows_now: &mut Rows) -> Result<(), Error> {
        // Greater than the first ones, and no other client's.
        let n = 10_000 + fastrand::i64(0..10_000_000) * CLIENTS + self.number;
        let ids: Vec<i64> = rows_now.orders.keys().copied().collect();
        let id = ids[fastrand::usize(0..ids.len())];
        let order = rows_now.orders.get_mut(&id).expect("an order");
        match fastrand::u8(0..6) {
            0 => {
                let insert = format!(
                    "WITH o AS (INSERT INTO orders (note, parent) VALUES ('{n}', {id}) RETURNING id), i AS (INSERT INTO items (order_id, n)
                        SELECT id, {n} FROM o RETURNING id), n AS (INSERT INTO other.notes (order_id) SELECT id FROM o) SELECT o.id, i.id FROM o, i"
                );
                for [new, item] in rows(session, &insert)?
                    .iter()
                    .map(|row: &[String; 2]| row.each_ref().map(|id| id.parse().expect("an ID")))
                {
                    let order = Order { parent: Some(id), note: n.to_string(), was_updated: false, notes: 1 };
                    assert_eq!(rows_now.orders.insert(new, order), None, "{new} was issued twice");
                    assert_eq!(rows_now.items.insert(item, (new, n)), None, "item {item} was issued twice");
                }
            }
            1 => {
                session.batch_execute(&format!("UPDATE orders SET note = '{n}' WHERE id = {id}"))?;
                (order.note, order.was_updated) = (n.to_string(), true);
            }
            2 => {
                session.batch_execute(&format!("INSERT INTO other.notes (order_id) VALUES ({id})"))?;
                order.notes += 1;
            }
            3 => {
                session.batch_execute(&format!("DELETE FROM orders WHERE id = {id}"))?;
                rows_now.orders.remove(&id);
                rows_now.items.retain(|_, (order, _)| *order != id);
                for order in rows_now.orders.values_mut().filter(|order| order.parent == Some(id)) {
                    (order.parent, order.was_updated) = (None, true);
                }
            }
            4 => {
                let Some((&item, _)) = rows_now.items.iter().nth(fastrand::usize(0..=rows_now.items.len())) else {
                    return Ok(());
                };
                session.batch_execute(&format!("UPDATE items SET order_id = {id}, n = {n} WHERE id = {item}"))?;
                rows_now.items.insert(item, (id, n));
            }
            _ => {
                let seen = rows(
                    session,
                    &format!(
                        "SELECT note, (SELECT count(*) FROM items WHERE order_id = {id}) FROM orders WHERE id = {id}"
                    ),
                )?;
                let items = rows_now.items.values().filter(|(order, _)| *order == id).count();
                assert_eq!(seen, [[order.note.clone(), items.to_string()]], "order {id} of client {}", self.number);
            }
        }
        Ok(())
    }
}
