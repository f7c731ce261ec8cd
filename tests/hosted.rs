//! The functions in plain SQL, `sql/hosted`, on servers without the extension.

mod ahead;
mod copies;
mod issuing;
mod lock;
mod moving;
mod parts;
mod place;
mod reading;
mod restarts;
mod rights;
mod same;
mod set_back;
mod states;

use testbed::postgres::Client;
use testbed::{Builder, Cluster, error, hosted_script};

/// How many sessions hold the lock of a call.
const LOCKED: &str = "SELECT count(*) FROM pg_locks WHERE granted
    AND (locktype = 'advisory' OR relation = (SELECT oid FROM pg_class WHERE relname = 'snowflake_lock'))";

/// A server without the extension, whose first database has the functions and this worker.
pub fn server(worker: u32) -> Cluster {
    with_worker(Cluster::builder(), worker)
}

/// One whose clock can be set. Such servers wait for each other in libfaketime.
pub fn server_with_clock(worker: u32) -> Cluster {
    with_worker(Cluster::builder().own_clock(), worker)
}

fn with_worker(builder: Builder, worker: u32) -> Cluster {
    let cluster = builder.start();
    install(&mut cluster.connect(), worker);
    cluster
}

/// Runs the script, and sets the worker.
pub fn install(client: &mut Client, worker: u32) {
    client.batch_execute(&hosted_script()).expect("the script");
    client.execute(&format!("SELECT snowflake_set_worker_id({worker})"), &[]).expect("a worker");
}

/// The SQLSTATE and the message with which a query must end.
pub fn refusal(client: &mut Client, query: &str) -> (String, String) {
    let refused = error(client, query);
    (refused.code().code().to_owned(), refused.message().to_owned())
}
