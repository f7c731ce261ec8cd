//! When no ID can be issued: the error says why, and what to do.

use testbed::postgres::error::DbError;
use testbed::{Cluster, error, value};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

fn assert_refused(error: &DbError, code: &str, message: &str, detail: Option<&str>, hint: &str) {
    assert_eq!(
        (error.code().code(), error.message(), error.detail(), error.hint()),
        (code, message, detail, Some(hint))
    );
}

#[test]
fn a_server_without_a_worker_id_issues_nothing() {
    let cluster = Cluster::builder().set("shared_preload_libraries", "snowflake_pg").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_refused(
        &error(&mut client, NEXTVAL),
        "55000",
        "this server has no worker ID",
        Some("snowflake_pg.worker_id is not set."),
        "Type ALTER SYSTEM SET snowflake_pg.worker_id = N, where N is a number from 0 to 31 that no other server has, \
         and restart the server.",
    );
    assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "worker unset");
    assert!(!cluster.mark_file().exists());
}

#[test]
fn a_worker_or_data_center_outside_the_layout_is_warned_of_at_start_and_issues_nothing() {
    let range =
        |variable, value, layout, last| format!("{variable} is {value}, and layout {layout} allows 0 to {last}.");
    let twitter = "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z";
    let flat = "t41 w10 s12 unit=1ms epoch=2024-01-01T00:00:00Z";
    for (layout, variable, number, detail) in [
        ("twitter", "snowflake_pg.worker_id", 32, range("snowflake_pg.worker_id", 32, twitter, 31)),
        ("twitter", "snowflake_pg.datacenter_id", 99, range("snowflake_pg.datacenter_id", 99, twitter, 31)),
        (
            "flat epoch=2024-01-01T00:00:00Z",
            "snowflake_pg.datacenter_id",
            1,
            range("snowflake_pg.datacenter_id", 1, flat, 0),
        ),
    ] {
        let builder = Cluster::builder().worker(0).set("snowflake_pg.layout", layout);
        let cluster = builder.set(variable, number).start();
        let log = cluster.log();
        let warning = format!("WARNING:  {variable} does not fit the layout");
        assert!(log.contains(&warning) && log.contains(&detail), "{log}");

        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        assert_refused(
            &error(&mut client, NEXTVAL),
            "F0000",
            &format!("{variable} does not fit the layout"),
            Some(&detail),
            &format!("Type ALTER SYSTEM SET {variable} = N with a number in this range, and restart the server."),
        );
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "misconfigured");
    }
}

#[test]
fn the_whole_start_up_configuration_stands_in_one_line_of_the_log() {
    let cluster = Cluster::builder().worker(5).set("snowflake_pg.max_borrow", "7s").start();
    let line = "LOG:  snowflake_pg 0.1.0: worker_id = 5, datacenter_id = 0, layout = 'twitter' (t41 d5 w5 s12 unit=1ms \
                epoch=2010-11-04T01:42:54.657Z), clock_regression = borrow, sequence_exhaustion = wait, sequence_start = \
                random (0 to 127), max_borrow = 7000 ms, max_wait = 500 ms, reserve_ahead = 2000 ms, failover_guard = 1000 ms, max_forward_jump = 3600000 ms, wal_mark = off, state_directory = 'snowflake_pg'";
    assert!(cluster.log().contains(line), "{}", cluster.log());
}

#[test]
fn a_layout_that_is_none_is_refused_by_alter_system() {
    let cluster = Cluster::builder().worker(0).start();
    let refused = error(&mut cluster.connect(), "ALTER SYSTEM SET snowflake_pg.layout = 'twitter epoch=soon'");
    assert_eq!(refused.code().code(), "22023");
    assert_eq!(
        refused.detail(),
        Some(
            "\"epoch=soon\" is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and \
             9999, such as epoch=2024-01-01T00:00:00Z."
        )
    );
}

/// PostgreSQL puts the default in the place of a value that it rejects at start. IDs of another layout or data center
/// than the one that was meant could be those of another server, and another guard could be none.
#[test]
fn a_configuration_that_cannot_be_read_is_never_replaced_by_the_default() {
    for (variable, text, detail) in [
        (
            "snowflake_pg.layout",
            "round",
            Some("\"round\" is not the name of a layout; known layouts are: twitter, flat."),
        ),
        ("snowflake_pg.datacenter_id", "two", None),
        ("snowflake_pg.wal_mark", "required", None),
        ("snowflake_pg.clock_regression", "eror", None),
        ("snowflake_pg.failover_guard", "30 secs", None),
        ("snowflake_pg.reserve_ahead", "2h", None),
        ("snowflake_pg.worker_id", "-2", None),
    ] {
        let cluster = Cluster::builder().worker(0).set(variable, text).start();
        let message = format!("invalid value for parameter \"{variable}\": \"{text}\"");
        // A number that is out of its range is called so by PostgreSQL; this is ours.
        assert!(cluster.log().contains(&format!("WARNING:  {message}")), "{}", cluster.log());
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let refused = error(&mut client, NEXTVAL);
        assert_eq!((refused.code().code(), refused.message(), refused.detail()), ("F0000", &*message, detail));
        assert!(refused.hint().is_some_and(|hint| hint.contains(variable)), "{refused:?}");
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "misconfigured");
    }
    // What PostgreSQL takes for a number is one, and for the name of a mode.
    let builder = Cluster::builder().worker(0).set("snowflake_pg.datacenter_id", "0x1F");
    let builder = builder.set("snowflake_pg.wal_mark", "Prefer").set("snowflake_pg.failover_guard", "0.5 s");
    let cluster = builder.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(value(&mut client, "SELECT datacenter_id FROM snowflake_decode(snowflake_nextval())"), "31");
}

#[test]
fn a_misspelt_variable_is_refused() {
    let cluster = Cluster::builder().worker(0).start();
    let refused = error(&mut cluster.connect(), "SET snowflake_pg.worker = 1");
    assert_eq!(refused.message(), "invalid configuration parameter name \"snowflake_pg.worker\"");
}
