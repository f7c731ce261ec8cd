//! What the rows with more than one server have in common.

use snowflake_core::UnixMs;
use snowflake_core::layout::Layout;
use testbed::{Builder, Cluster, Load, Report, error, issued_at, twitter};

/// What clients ask for.
pub const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 100)";

/// snowflake_pg.max_borrow: how far the timestamp of an ID may be ahead of the clock.
const MAX_BORROW_MS: i64 = 5000;

/// How far beyond the clock a server starts that may be another one's successor: the largest of start_margin, 1 s, and
/// reserve_ahead, 2 s.
pub const START_MARGIN_MS: UnixMs = 2000;

/// Starts a server, and creates the extension.
pub fn start(server: Builder) -> Cluster {
    let cluster = server.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// Ends every process of a server without a word to any, and starts it again: then it is ahead of its clock.
pub fn crash(cluster: &mut Cluster) {
    cluster.kill_all();
    cluster.start();
}

/// IDs as two clients receive them at the same time.
pub fn some_ids(cluster: &Cluster) -> Report {
    let load = Load::start(cluster, 2, IDS);
    load.wait_for_ids();
    load.finish()
}

/// The same from a server that has no reason to refuse.
pub fn some_ids_without_errors(cluster: &Cluster) -> Report {
    let report = some_ids(cluster);
    assert_only_errors(&report, &[]);
    report
}

/// Every way to ask for an ID is refused with 55000, for a reason that contains a word.
pub fn assert_refused(cluster: &Cluster, word: &str) {
    let mut client = cluster.connect();
    let insert = "CREATE TEMPORARY TABLE refused (id bigint DEFAULT snowflake_nextval())";
    client.batch_execute(insert).expect("a table");
    for query in ["SELECT snowflake_nextval()", "SELECT snowflake_nextvals(5)", "INSERT INTO refused DEFAULT VALUES"] {
        let refused = error(&mut client, query);
        assert_eq!(refused.code().code(), "55000", "{query}: {refused:?}");
        assert!(refused.message().contains(word), "{query}: {refused:?}");
        assert!(refused.hint().is_some(), "{query}: {refused:?}");
    }
}

/// Clients have seen errors of these kinds alone, by SQLSTATE.
pub fn assert_only_errors(report: &Report, codes: &[&str]) {
    let errors = report.errors();
    let expected = |error: &&str| codes.iter().any(|code| error.starts_with(code));
    assert!(errors.keys().all(expected), "{errors:?}");
}

/// Every ID of one report is greater than every ID of another.
pub fn assert_above(new: &Report, old: &Report) {
    let (lowest, _) = new.range().expect("new IDs");
    let (_, highest) = old.range().expect("old IDs");
    let [below, above] = [highest, lowest].map(issued_at);
    assert!(lowest > highest, "{lowest} of {above} is not above {highest} of {below}");
}

/// How far an ID was ahead of its server's clock, at most. Never more than the configuration allows.
pub fn lead_ms(report: &Report, clock_offset_ms: i64) -> i64 {
    lead_ms_in(&twitter(), report, clock_offset_ms)
}

/// The same in a layout of its own.
pub fn lead_ms_in(layout: &Layout, report: &Report, clock_offset_ms: i64) -> i64 {
    let lead = report.largest_lead_ms(layout, clock_offset_ms);
    assert!(lead <= MAX_BORROW_MS, "{lead} ms ahead of the clock");
    lead
}
