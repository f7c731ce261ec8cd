//! When no ID can be issued: the error says why, and what to do.

use testbed::postgres::error::DbError;
use testbed::{Cluster, Signal, error, value};

const NEXTVAL: &str = "SELECT snowflake_nextval()";

fn assert_refused(error: &DbError, code: &str, message: &str, detail: Option<&str>, hint: &str) {
    assert_eq!(
        (error.code().code(), error.message(), error.detail(), error.hint()),
        (code, message, detail, Some(hint))
    );
}

#[test]
fn without_preload_everything_works_but_issuing_and_the_session_survives() {
    let cluster = Cluster::builder().set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())",
        )
        .expect("what a restored dump needs");
    for query in [NEXTVAL, "SELECT snowflake_nextvals(5)", "INSERT INTO orders DEFAULT VALUES"] {
        assert_refused(
            &error(&mut client, query),
            "55000",
            "snowflake_pg must be loaded by shared_preload_libraries to issue IDs",
            None,
            "Add snowflake_pg to shared_preload_libraries in postgresql.conf, set snowflake_pg.worker_id there, and \
             restart the server.",
        );
    }
    let decoded = "(\"2022-06-28 16:07:40.105+00\",11,26,0)";
    assert_eq!(value(&mut client, "SELECT snowflake_decode(1541815603606036480)"), decoded);
    assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "not preloaded");

    // The layout that is configured counts, as it does on a server that issues; nonsense is refused.
    client.batch_execute("SET snowflake_pg.layout = 'flat'").expect("a variable nobody knows");
    assert_eq!(value(&mut client, "SELECT worker_id FROM snowflake_decode(1541815603606036480)"), "378");
    client.batch_execute("SET snowflake_pg.layout = 'round'").expect("a variable nobody knows");
    let refused = error(&mut client, "SELECT snowflake_timestamp(1)");
    let message = "invalid value for parameter \"snowflake_pg.layout\": \"round\"";
    assert_eq!((refused.code().code(), refused.message()), ("F0000", message));
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
                epoch=2010-11-04T01:42:54.657Z), max_borrow = 7000 ms, max_wait = 500 ms, reserve_ahead = 2000 ms, \
                failover_guard = 1000 ms, max_forward_jump = 3600000 ms, wal_mark = off, state_directory = 'snowflake_pg'";
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
/// than the one that was meant could be those of another server.
#[test]
fn a_configuration_that_cannot_be_read_is_never_replaced_by_the_default() {
    for (variable, text, detail) in [
        (
            "snowflake_pg.layout",
            "round",
            Some("\"round\" is not the name of a layout; known layouts are: twitter, flat."),
        ),
        ("snowflake_pg.datacenter_id", "two", None),
    ] {
        let cluster = Cluster::builder().worker(0).set(variable, text).start();
        let message = format!("invalid value for parameter \"{variable}\": \"{text}\"");
        assert!(cluster.log().contains(&format!("WARNING:  {message}")), "{}", cluster.log());
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let refused = error(&mut client, NEXTVAL);
        assert_eq!((refused.code().code(), refused.message(), refused.detail()), ("F0000", &*message, detail));
        assert!(refused.hint().is_some_and(|hint| hint.contains(variable)), "{refused:?}");
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "misconfigured");
    }
    // What PostgreSQL takes for a number is one.
    let cluster = Cluster::builder().worker(0).set("snowflake_pg.datacenter_id", "0x1F").start();
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

#[test]
fn a_standby_refuses_every_call_and_leaves_the_state_file_alone() {
    let mut cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let before: i64 = value(&mut client, NEXTVAL).parse().expect("an ID");
    drop(client);
    cluster.stop(Signal::INT);
    let mark = std::fs::read(cluster.mark_file()).expect("a mark");
    std::fs::write(cluster.data().join("standby.signal"), "").expect("a standby");
    cluster.start();

    let mut client = cluster.connect();
    for query in [NEXTVAL, "SELECT snowflake_nextvals(5)", NEXTVAL] {
        assert_refused(
            &error(&mut client, query),
            "25006",
            "cannot issue IDs during recovery",
            Some("This server is a standby, or has not finished its recovery."),
            "Connect to the primary server. Decoding works here.",
        );
    }
    assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "standby");
    assert_eq!(value(&mut client, &format!("SELECT worker_id FROM snowflake_decode({before})")), "1");
    assert_eq!(std::fs::read(cluster.mark_file()).expect("a mark"), mark);

    client.batch_execute("SELECT pg_promote()").expect("a promotion");
    let after: i64 = value(&mut client, NEXTVAL).parse().expect("an ID");
    assert!(after > before, "{after} after {before}");
}

#[test]
fn the_worker_id_cannot_be_changed_without_a_restart() {
    let mut cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE ROLE app LOGIN").expect("the extension");
    for query in [
        "SET snowflake_pg.worker_id = 2",
        "SET LOCAL snowflake_pg.worker_id = 2",
        "SELECT set_config('snowflake_pg.worker_id', '2', false)",
        "SET snowflake_pg.layout = 'flat'",
        "SET snowflake_pg.state_directory = 'elsewhere'",
        "ALTER ROLE app SET snowflake_pg.worker_id = 2",
        "ALTER DATABASE postgres SET snowflake_pg.worker_id = 2",
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SET snowflake_pg.worker_id = 2 RETURN 1",
        "SET snowflake_pg.max_borrow = '1h'",
    ] {
        let refused = error(&mut client, query);
        assert_eq!(refused.code().code(), "55P02", "{query}");
    }
    let refused = cluster.config().options("-c snowflake_pg.worker_id=2").connect(testbed::postgres::NoTls);
    let refused = refused.err().expect("no session with a worker ID of its own");
    assert_eq!(refused.as_db_error().expect("the server's error").code().code(), "55P02");

    client.batch_execute("ALTER SYSTEM SET snowflake_pg.worker_id = 2").expect("a setting for later");
    cluster.reload();
    let mut client = cluster.connect();
    let pending = "SELECT pending_restart FROM pg_settings WHERE name = 'snowflake_pg.worker_id'";
    assert_eq!(value(&mut client, pending), "t");
    let worker = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";
    assert_eq!(value(&mut client, worker), "1");
    drop(client);
    cluster.restart(Signal::INT);
    assert_eq!(value(&mut cluster.connect(), worker), "2");
}

#[test]
fn a_clock_outside_the_layout_is_refused_and_never_wraps() {
    let cluster = Cluster::builder().worker(0).own_clock().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let before: i64 = value(&mut client, NEXTVAL).parse().expect("an ID");
    let years = 365.25 * 86400.0;

    for offset in [-20.0 * years, -60.0 * years] {
        cluster.set_clock(offset);
        let refused = error(&mut client, NEXTVAL);
        assert_eq!(
            (refused.code().code(), refused.message()),
            ("55000", "the server's clock is before the epoch of the layout")
        );
        assert!(refused.hint().is_some_and(|hint| hint.starts_with("Set the clock")), "{refused:?}");
    }
    // So far ahead it is believed only when somebody says so.
    cluster.set_clock(60.0 * years);
    client.batch_execute("SELECT snowflake_accept_clock()").expect("a clock");
    let refused = error(&mut client, NEXTVAL);
    assert_eq!((refused.code().code(), refused.message()), ("54000", "the timestamps of the layout are used up"));
    assert!(refused.detail().is_some_and(|detail| detail.contains("2080-07-10T17:30:30.208Z")), "{refused:?}");
    assert!(refused.hint().is_some_and(|hint| hint.starts_with("Check the clock.")), "{refused:?}");

    cluster.set_clock(0.0);
    let after: i64 = value(&mut client, NEXTVAL).parse().expect("an ID");
    assert!(after > before && after - before < 1 << 40, "{after} after {before}");
}
