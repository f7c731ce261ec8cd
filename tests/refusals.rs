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
                random (0 to 127), max_borrow = 7000 ms, max_wait = 500 ms, reserve_ahead = 2000 ms, failover_guard = 1000 ms, max_forward_jump = 3600000 ms, time_stamp_counter = auto, wal_mark = off, state_directory = 'snowflake_pg'";
    assert!(cluster.log().contains(line), "{}", cluster.log());
}

#[test]
fn a_layout_by_which_nothing_can_be_issued_is_refused_by_alter_system() {
    let cluster = Cluster::builder().worker(0).start();
    let mut client = cluster.connect();
    for (layout, detail) in [
        (
            "twitter epoch=soon",
            "\"epoch=soon\" is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and 9999, \
             such as epoch=2024-01-01T00:00:00Z.",
        ),
        // A published layout that can't be.
        ("t37 w20 s16", "\"t37 w20 s16\" has 73 bits, and an ID has 64; its 37 bits of 1ms last 4.4 years."),
        (
            "discord",
            "\"t42 d5 w5 s12\" has 64 bits, and an ID that is issued has at most 63; its timestamps last 139.4 years.",
        ),
        (
            "w10 t41 s12",
            "The timestamp is not the highest field of \"w10 t41 s12\", so that IDs would not sort by time.",
        ),
        (
            "uid",
            "Its timestamps last 8.5 years, from 2016-05-19T16:00:00Z to 2024-11-20T13:24:15Z, and the clock says 20",
        ),
        ("flat epoch=9000-01-01T00:00:00Z", "Its timestamps last 69.7 years, from 9000-01-01T00:00:00Z to 9069-09-"),
    ] {
        let refused = error(&mut client, &format!("ALTER SYSTEM SET snowflake_pg.layout = '{layout}'"));
        assert_eq!(refused.code().code(), "22023");
        assert!(refused.detail().is_some_and(|given| given.starts_with(detail)), "{refused:?}");
    }
    for layout in ["k8s", "uid epoch=2024-01-01T00:00:00Z", "t41 w2 s20", "sonyflake"] {
        client.batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.layout = '{layout}'")).expect(layout);
    }
}

/// It may have been written into the configuration file, or its time may have come.
#[test]
fn a_layout_by_which_nothing_can_be_issued_is_warned_of_at_start() {
    for (layout, warning, code) in [
        ("discord", "IDs of this layout can be decoded, but not issued", "F0000"),
        ("uid", "the timestamps of the layout are used up", "54000"),
        ("flat epoch=9000-01-01T00:00:00Z", "the server's clock is before the epoch of the layout", "55000"),
    ] {
        let cluster = Cluster::builder().worker(0).set("snowflake_pg.layout", layout).start();
        assert!(cluster.log().contains(&format!("WARNING:  {warning}")), "{}", cluster.log());
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let refused = error(&mut client, NEXTVAL);
        assert_eq!((refused.code().code(), refused.message()), (code, warning));
    }
    // 2^40 ms after this epoch is about a month from now.
    let epoch = testbed::real_time() + 30 * 86_400_000 - (1 << 40);
    let cluster = Cluster::builder().worker(0).set("snowflake_pg.layout", format!("t40 w10 s12 epoch={epoch}")).start();
    let warning = "WARNING:  the timestamps of the layout will be used up within a year";
    assert!(cluster.log().contains(warning), "{}", cluster.log());
}

/// PostgreSQL puts the default in the place of a value that it rejects at start. IDs of another layout or data center
/// than the one that was meant could be those of another server, and another guard could be none.
#[test]
fn a_configuration_that_cannot_be_read_is_never_replaced_by_the_default() {
    for (variable, text, detail) in [
        (
            "snowflake_pg.layout",
            "round",
            Some(
                "\"round\" is neither the name of a layout (twitter, flat, leaf, uid, k8s, game, js, pgedge, sonyflake, \
                 instagram, discord, mastodon) nor a field such as t41, d5, w5 or s12, nor unit= or epoch=.",
            ),
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
