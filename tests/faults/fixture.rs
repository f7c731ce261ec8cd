//! What the rows have in common.

use super::suite::Evidence;
use snowflake_core::UnixMs;
use std::panic::resume_unwind;
use std::thread;
use testbed::{Builder, Cluster, Report, Witness, default_layout};

/// How far a server may be ahead of its clock, whatever happens.
pub const MAX_BORROW_MS: i64 = 5000;

/// A running server with the extension.
pub fn new_server(builder: Builder) -> Cluster {
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// A running server with the extension, whose IDs are not ahead of its clock.
pub fn server(builder: Builder) -> Cluster {
    let cluster = new_server(builder);
    cluster.settle();
    cluster
}

/// A server that has issued an ID.
pub fn started(builder: Builder) -> Cluster {
    let cluster = server(builder);
    Witness::of(&cluster).next_id().expect("an ID");
    cluster
}

/// A time as a signed number, to be subtracted from.
pub fn signed(ms: UnixMs) -> i64 {
    i64::try_from(ms).expect("this age")
}

/// The promises of a server whose clock was `offset_ms` from the real one, or further ahead.
pub fn assert_kept(rounds: usize, report: &Report, offset_ms: i64) -> Evidence {
    report.assert_unique_and_ordered();
    let lead = report.largest_lead_ms(&default_layout(), offset_ms);
    assert!(lead <= MAX_BORROW_MS, "{lead} ms ahead of the clock");
    Evidence::new(rounds, report).lead_ms(lead)
}

/// The promises of a server that did not refuse a single call.
pub fn assert_kept_without_errors(rounds: usize, report: &Report, offset_ms: i64) -> Evidence {
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    assert_kept(rounds, report, offset_ms)
}

/// Lets so many clients work at the same time, and says what all of them have seen. Each is given its number.
pub fn at_once(clients: usize, client: impl Fn(usize) -> Report + Sync) -> Report {
    let client = &client;
    thread::scope(|scope| {
        let clients: Vec<_> = (0..clients).map(|number| scope.spawn(move || client(number))).collect();
        let mut report = Report::default();
        for client in clients {
            report.merge(client.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        report
    })
}
