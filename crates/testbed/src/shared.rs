//! Servers that tests share. They outlive the test that has started them, and end with the run.

use crate::builder::Builder;
use crate::cluster::{Cluster, PATIENCE};
use crate::query::is_true;
use postgres::{Client, Config, NoTls};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// A database of its own, on a server that others may use at the same time. What belongs to the whole server, such as
/// roles, settings and counters, is shared.
pub struct Database {
    server: Arc<Cluster>,
    name: String,
}

/// A shared server, started by the first test that asks for it.
type Shared = Arc<OnceLock<Arc<Cluster>>>;

/// The shared servers, by their settings.
static SERVERS: Mutex<BTreeMap<String, Shared>> = Mutex::new(BTreeMap::new());

fn servers() -> MutexGuard<'static, BTreeMap<String, Shared>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Builder {
    /// A new database on the server that tests share which ask for one like this.
    pub fn database(self) -> Database {
        self.database_after("", |_| ())
    }

    /// A new database on such a server that was prepared in this way: its database template1, which others are made
    /// from.
    pub fn database_after(self, name: &str, prepare: impl FnOnce(&Cluster)) -> Database {
        static DATABASES: AtomicUsize = AtomicUsize::new(0);
        let shared = Arc::clone(servers().entry(format!("{name} {self:?}")).or_default());
        let start = || {
            let server = lasting(|| self.start());
            prepare(&server);
            Arc::new(server)
        };
        let server = Arc::clone(shared.get_or_init(start));
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        server.connect().batch_execute(&format!("CREATE DATABASE {name}")).expect("a database");
        Database { server, name }
    }
}

impl Database {
    pub fn server(&self) -> &Cluster {
        &self.server
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn config(&self) -> Config {
        let mut config = self.server.config();
        config.dbname(&self.name);
        config
    }

    pub fn connect(&self) -> Client {
        self.config().connect(NoTls).unwrap_or_else(|error| panic!("{error:?}\n{}", self.server.log()))
    }

    /// Waits until a query returns one row, and true.
    pub fn wait_until(&self, query: &str) {
        let (mut client, deadline) = (self.connect(), Instant::now() + PATIENCE);
        while !is_true(&mut client, query) {
            assert!(Instant::now() < deadline, "never true: {query}\n{}", self.server.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// A command for psql, silent except for results and errors.
    pub fn psql(&self) -> Command {
        let mut psql = self.server.psql();
        psql.arg("--dbname").arg(&self.name);
        psql
    }
}

/// Stops the servers that were shared, at the end of a run.
pub(crate) fn end() {
    servers().clear();
}

type Work = Box<dyn FnOnce() + Send>;

/// Makes something whose servers outlive the thread of this test: a server ends with the thread that has started it.
pub fn lasting<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> T {
    static LASTING: LazyLock<Mutex<Sender<Work>>> = LazyLock::new(|| {
        let (sender, work) = channel::<Work>();
        // A panic has been reported, and must not end what others have started.
        thread::spawn(move || work.into_iter().for_each(|work| drop(catch_unwind(AssertUnwindSafe(work)))));
        Mutex::new(sender)
    });
    let (give, made) = channel();
    let work = move || drop(give.send(make()));
    LASTING.lock().unwrap_or_else(PoisonError::into_inner).send(Box::new(work)).expect("a thread that lasts");
    made.recv().expect("what was to be made")
}
