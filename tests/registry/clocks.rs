//! Clocks that differ from the registry's.

use crate::fixture::{member, shown, start, take_a_thousand, worker_of};
use testbed::{Builder, Cluster, Registry, Witness, error};

fn with_clock(builder: Builder, offset: f64) -> Cluster {
    let mut cluster = builder.own_clock().create();
    cluster.set_clock(offset);
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

#[test]
fn a_clock_that_is_off_is_shown_and_warned_of() {
    let registry = Registry::start();
    let right = start(member(&registry));
    worker_of(&right);
    assert_eq!(shown(&right, "SELECT clock_offset BETWEEN '-500ms' AND '500ms' FROM snowflake_status"), "t");
    assert!(!right.log().contains("WARNING"), "{}", right.log());
    for (offset, which) in [(3600.0, "ahead of"), (-3600.0, "behind")] {
        let server = with_clock(member(&registry), offset);
        worker_of(&server);
        let about = format!("SELECT abs(extract(epoch FROM clock_offset) - {offset}) < 1 FROM snowflake_status");
        assert_eq!(shown(&server, &about), "t");
        let log = server.log();
        assert!(log.contains("WARNING:  snowflake_pg: the clock is 3") && log.contains(which), "{log}");
    }
}

#[test]
fn with_clock_offset_error_a_server_whose_clock_is_off_leases_nothing_until_it_is_right() {
    let registry = Registry::start();
    let server = with_clock(member(&registry).set("snowflake_pg.clock_offset", "error"), 5.0);
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    let detail = refused.detail().expect("a detail");
    assert!(
        detail.starts_with("Registry: the clock is ") && detail.contains(" ms ahead of the registry's."),
        "{detail}"
    );
    assert!(detail.ends_with("snowflake_pg.max_clock_offset is 1000 ms."), "{detail}");
    assert_eq!(shown(&registry, "SELECT count(*) FROM snowflake_registry.workers"), "0");
    server.set_clock(0.0);
    assert_eq!(worker_of(&server), "0");
}

#[test]
fn servers_whose_clocks_are_hours_apart_issue_different_ids_also_when_clocks_are_stepped() {
    let registry = Registry::start();
    let servers = [0.0, 10_800.0, -10_800.0].map(|offset| with_clock(member(&registry), offset));
    let mut witness = Witness::default();
    let all = [&servers[0], &servers[1], &servers[2]];
    take_a_thousand(&mut witness, &all);
    // Beyond the end of the lease, by this clock.
    servers[0].set_clock(7200.0);
    let mut client = servers[0].connect();
    client.batch_execute("SELECT snowflake_accept_clock()").expect("the clock");
    take_a_thousand(&mut witness, &all);
    assert_eq!(shown(&registry, "SELECT max(until) > now() + interval '3 hours' FROM snowflake_registry.workers"), "t");
    assert_eq!(witness.report().duplicates(), 0);
}

#[test]
fn a_clock_that_is_more_than_a_day_ahead_gets_no_lease() {
    let registry = Registry::start();
    let server = with_clock(member(&registry), 90_000.0);
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    let expected = "Registry: clock of the server is more than a day ahead of the registry's.";
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(expected)), "{refused:?}");
}
