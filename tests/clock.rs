//! What happens when a server's clock is set.

use snowflake_core::layout::Layout;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, Report, Signal, error, value};

const MAX_BORROW_MS: i64 = 5000;

fn server() -> Cluster {
    let cluster = Cluster::builder().worker(1).own_clock().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
    cluster
}

fn load(cluster: &Cluster) -> Load {
    Load::start(cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 100)")
}

/// Waits until a server whose clock is too far behind issues IDs again, and says how long that took.
fn recovery(cluster: &Cluster) -> Duration {
    let mut client = cluster.connect();
    let since = Instant::now();
    while client.batch_execute("SELECT snowflake_nextval()").is_err() {
        assert!(since.elapsed() < Duration::from_secs(30), "no ID for 30 s");
    }
    since.elapsed()
}

fn assert_honest(report: &Report, offset_ms: i64) {
    let layout: Layout = "twitter".parse().expect("a preset");
    let lead = report.largest_lead_ms(&layout, offset_ms);
    assert!(lead <= MAX_BORROW_MS, "{lead} ms ahead of the clock");
}

#[test]
fn a_clock_set_back_by_less_than_max_borrow_goes_unnoticed() {
    let cluster = server();
    let load = load(&cluster);
    sleep(Duration::from_millis(300));
    cluster.set_clock(-3.0);
    sleep(Duration::from_millis(1500));
    let report = load.finish();
    report.assert_unique_and_ordered();
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    assert_honest(&report, -3000);
}

/// A saturated server uses up ticks while it is ahead, so its mark has to be extended by a clock that is behind.
#[test]
fn a_clock_set_back_goes_unnoticed_by_a_saturated_server_that_has_just_started() {
    let cluster = server();
    cluster.set_clock(-3.0);
    let load = Load::start(&cluster, 2, "SELECT max(id) FROM snowflake_nextvals(50000) id");
    sleep(Duration::from_millis(2800));
    let report = load.finish();
    report.assert_unique_and_ordered();
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    assert_honest(&report, -3000);
}

#[test]
fn a_clock_set_back_by_more_than_max_borrow_is_refused_until_it_has_caught_up() {
    let cluster = server();
    let before = load(&cluster);
    sleep(Duration::from_millis(300));
    let mut report = before.finish();
    cluster.set_clock(-10.0);
    let after = load(&cluster);
    let outage = recovery(&cluster);
    sleep(Duration::from_millis(300));
    let after = after.finish();
    assert_honest(&after, -10_000);
    assert!(outage > Duration::from_secs(3), "refused for {outage:?}");
    let errors = after.errors();
    let only = "53400 the server's clock is too far behind the last ID issued";
    assert!(errors.len() == 1 && errors.contains_key(only), "{errors:?}");
    report.merge(after);
    report.assert_unique_and_ordered();
}

#[test]
fn a_clock_set_back_across_a_restart_is_refused_until_it_has_caught_up() {
    let mut cluster = server();
    let before = load(&cluster);
    sleep(Duration::from_millis(300));
    let mut report = before.finish();
    cluster.stop(Signal::INT);
    cluster.set_clock(-10.0);
    cluster.start();
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "53400");
    assert!(refused.detail().is_some_and(|detail| detail.ends_with("snowflake_pg.max_borrow is 5000 ms.")));
    assert!(refused.hint().is_some_and(|hint| hint.starts_with("Check the clock.")), "{refused:?}");
    let after = load(&cluster);
    recovery(&cluster);
    sleep(Duration::from_millis(300));
    let after = after.finish();
    assert_honest(&after, -10_000);
    report.merge(after);
    report.assert_unique_and_ordered();
}

#[test]
fn a_server_that_may_not_borrow_waits_out_its_own_restart() {
    let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.max_borrow", 0).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the first ID of all");
    drop(client);
    cluster.restart(Signal::QUIT);
    assert_eq!(
        value(&mut cluster.connect(), "SELECT snowflake_timestamp(snowflake_nextval()) <= clock_timestamp()"),
        "t"
    );
}

#[test]
fn a_call_that_waits_for_the_clock_can_be_cancelled() {
    let cluster = Cluster::builder().worker(1).own_clock().set("snowflake_pg.max_wait", "1min").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
    cluster.set_clock(-30.0);
    client.batch_execute("SET statement_timeout = '200ms'").expect("a setting");
    let since = Instant::now();
    assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "57014");
    assert!(since.elapsed() < Duration::from_secs(10), "cancelled, and not waited out: {:?}", since.elapsed());
}

#[test]
fn a_saturated_server_never_issues_more_than_the_layout_allows() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    // No timestamp is ever ahead of the clock, not even the first: a full tick waits for the next one.
    let query = "WITH id AS MATERIALIZED (SELECT snowflake_nextval() AS id FROM generate_series(1, 1000000))
        SELECT max(snowflake_timestamp(id)) <= clock_timestamp() FROM id";
    assert_eq!(value(&mut client, query), "t");
    assert_eq!(
        value(
            &mut client,
            "SELECT max(snowflake_timestamp(id)) <= clock_timestamp() FROM snowflake_nextvals(1000000) id"
        ),
        "t"
    );
}

#[test]
fn a_full_millisecond_is_waited_for_even_by_a_server_that_never_waits_for_its_clock() {
    let cluster = Cluster::builder().worker(1).set("snowflake_pg.max_wait", 0).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(value(&mut client, "SELECT count(DISTINCT id) FROM snowflake_nextvals(50000) id"), "50000");
}
