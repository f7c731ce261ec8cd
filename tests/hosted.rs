//! The functions in plain SQL, `sql/snowflake_hosted.sql`, on servers without the extension.

mod ahead;
mod copies;
mod faults;
mod issuing;
mod moving;
mod rights;
mod same;

use testbed::postgres::Client;
use testbed::{Cluster, error, sources};

/// The script.
pub fn script() -> String {
    std::fs::read_to_string(sources().join("sql/snowflake_hosted.sql")).expect("the script")
}

/// A server without the extension, whose first database has the functions and this worker.
pub fn server(worker: u32) -> Cluster {
    let cluster = Cluster::builder().own_clock().start();
    install(&mut cluster.connect(), worker);
    cluster
}

/// Runs the script, and sets the worker.
pub fn install(client: &mut Client, worker: u32) {
    client.batch_execute(&script()).expect("the script");
    client.execute(&format!("SELECT snowflake_set_worker_id({worker})"), &[]).expect("a worker");
}

/// The SQLSTATE and the message with which a query must end.
pub fn refusal(client: &mut Client, query: &str) -> (String, String) {
    let refused = error(client, query);
    (refused.code().code().to_owned(), refused.message().to_owned())
}
