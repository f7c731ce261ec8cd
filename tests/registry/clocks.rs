//! Clocks that differ from the registry's.

use super::fixture::{answer_of, member, start, take_a_thousand, worker_of};
use testbed::{Builder, Cluster, Registry, Witness, error, test};

/// A registry for clocks that are hours ahead.
fn with_long_leases() -> Registry {
    let registry = Registry::start();
    answer_of(&registry, "SELECT snowflake_registry.set_longest_lease('5 hours')");
    registry
}

fn with_clock(builder: Builder, offset: f64) -> Cluster {
    let mut cluster = builder.own_clock().create();
    cluster.set_clock(offset);
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

#[test]
fn a_clock_that_is_off_is_shown_and_warned_of() {
    let registry = with_long_leases();
    let right = start(member(&registry));
    worker_of(&right);
    assert_eq!(answer_of(&right, "SELECT clock_offset BETWEEN '-500ms' AND '500ms' FROM snowflake_status"), "t");
    assert!(!right.log().contains("WARNING"), "{}", right.log());
    for (offset, which) in [(3600.0, "ahead of"), (-3600.0, "behind")] {
        let server = with_clock(member(&registry), offset);
        worker_of(&server);
        let about = format!("SELECT abs(extract(epoch FROM clock_offset) - {offset}) < 1 FROM snowflake_status");
        assert_eq!(answer_of(&server, &about), "t");
        let log = server.log();
        assert!(log.contains("WARNING:  snowflake_pg: the clock is 3") && log.contains(which), "{log}");
    }
}

#[test]
fn with_clock_offset_action_error_a_server_whose_clock_is_off_leases_nothing_until_it_is_right() {
    let registry = Registry::start();
    let server = with_clock(member(&registry).set("snowflake_pg.clock_offset_action", "error"), 5.0);
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    let detail = refused.detail().expect("a detail");
    assert!(detail.starts_with("The clock is ") && detail.contains(" ms ahead of the registry's."), "{detail}");
    assert!(detail.ends_with("snowflake_pg.max_clock_offset is 1000 ms."), "{detail}");
    assert_eq!(answer_of(&registry, "SELECT count(*) FROM snowflake_registry.workers"), "0");
    server.set_clock(0.0);
    assert_eq!(worker_of(&server), "1023");
}

#[test]
fn servers_whose_clocks_are_hours_apart_issue_different_ids_also_when_clocks_are_stepped() {
    let registry = with_long_leases();
    let servers = [0.0, 10_800.0, -10_800.0].map(|offset| with_clock(member(&registry), offset));
    let mut witness = Witness::default();
    let all = [&servers[0], &servers[1], &servers[2]];
    take_a_thousand(&mut witness, &all);
    // Beyond the end of the lease, by this clock.
    servers[0].set_clock(7200.0);
    let mut client = servers[0].connect();
    client.batch_execute("SELECT snowflake_accept_clock()").expect("the clock");
    take_a_thousand(&mut witness, &all);
    assert_eq!(
        answer_of(&registry, "SELECT max(granted_until) > now() + interval '3 hours' FROM snowflake_registry.workers"),
        "t"
    );
    assert_eq!(witness.report().duplicates(), 0);
}

/// What a registry loses in a failover, it keeps back for the longest lease. So no lease may be longer.
#[test]
fn a_server_whose_clock_is_further_ahead_than_leases_reach_gets_none_until_a_dba_allows_it() {
    let registry = Registry::start();
    let server = with_clock(member(&registry), 7200.0);
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    let expected = "Registry: Clock or durable mark of the server is too far ahead of the registry's clock. It is at ";
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(expected)), "{refused:?}");
    assert!(
        refused.detail().is_some_and(|detail| detail.ends_with("A lease reaches at most 01:00:00 ahead.")),
        "{refused:?}"
    );
    assert!(refused.hint().is_some_and(|hint| hint.contains("snowflake_registry.set_longest_lease()")), "{refused:?}");
    answer_of(&registry, "SELECT snowflake_registry.set_longest_lease('3 hours')");
    server.reload();
    assert_eq!(worker_of(&server), "1023");
    for wrong in ["1s", "8 days"] {
        let refused =
            error(&mut registry.connect(), &format!("SELECT snowflake_registry.set_longest_lease('{wrong}')"));
        assert_eq!(refused.message(), "longest lease must be between 5 seconds and 7 days");
    }
}

/// The server goes on to the end of its lease, and the registry renews that as soon as the clock is right.
#[test]
fn a_clock_of_the_registry_that_is_wrong_for_a_while_takes_no_lease_away() {
    let registry = Registry::start_as(Cluster::builder().own_clock());
    let server = start(member(&registry).set("snowflake_pg.registry_lease", "8s"));
    worker_of(&server);
    registry.set_clock(-90_000.0);
    server.wait_until("SELECT registry_error LIKE 'Clock or durable mark%' FROM snowflake_status");
    registry.set_clock(0.0);
    server.wait_until("SELECT registry_error IS NULL FROM snowflake_status");
    assert_eq!(worker_of(&server), "1023");
    answer_of(&server, "SELECT snowflake_nextval()");
}

/// The mark is an hour ahead of the clock that is right again.
#[test]
fn a_server_whose_clock_was_ahead_gets_a_lease_that_reaches_beyond_its_mark() {
    let registry = with_long_leases();
    let mut server = with_clock(member(&registry), 7200.0);
    worker_of(&server);
    answer_of(&server, "SELECT snowflake_nextval()");
    server.kill_all();
    answer_of(&registry, "UPDATE snowflake_registry.lease SET token = gen_random_uuid() RETURNING 1");
    server.set_clock(0.0);
    server.start();
    assert_eq!(worker_of(&server), "1022");
    assert_eq!(answer_of(&server, "SELECT lease_until > now() + interval '2 hours' FROM snowflake_status"), "t");
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "the server's clock is behind the time at which IDs begin");
}
