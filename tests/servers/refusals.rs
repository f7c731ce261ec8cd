//! When no ID can be issued: the error says why, and what to do.

use testbed::{Cluster, Signal, assert_refused, error, test, value};

const NEXTVAL: &str = "SELECT snowflake_nextval()";
#[test]
fn a_server_without_a_worker_id_issues_nothing() {
    let cluster = Cluster::builder().set("shared_preload_libraries", "snowflake_pg").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let words = ["snowflake_pg.worker_id is not set", "from 0 to 1023", "ALTER SYSTEM", "standby may keep"];
    assert_refused(&error(&mut client, NEXTVAL), "55000", &words);
    assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "worker unset");
    assert!(!cluster.mark_file().exists());
}

#[test]
fn a_worker_or_data_center_outside_the_layout_is_warned_of_at_start_and_issues_nothing() {
    let later = "flat epoch=2024-01-01T00:00:00Z";
    for (layout, variable, number, allows, hint) in [
        ("twitter", "worker_id", 32, "allows 0 to 31", "Layout \"flat\" has the same bits, and workers 0 to 1023."),
        ("twitter", "datacenter_id", 99, "allows 0 to 31", "from 0 to 31, and restart the server"),
        (later, "worker_id", 1024, "allows 0 to 1023", "from 0 to 1023, and restart the server"),
        (later, "datacenter_id", 1, "allows 0 to 0", "32 times the data center plus the worker"),
    ] {
        let variable = &format!("snowflake_pg.{variable}");
        let builder = Cluster::builder().worker(0).set("snowflake_pg.layout", layout);
        let cluster = builder.set(variable, number).start();
        let log = cluster.log();
        let warning = format!("WARNING:  {variable} does not fit the layout");
        assert!(log.contains(&warning) && log.contains(allows), "{log}");

        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let refused = error(&mut client, NEXTVAL);
        assert_refused(&refused, "F0000", &[variable, "does not fit the layout", allows, hint]);
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "misconfigured");
    }
}

#[test]
fn a_layout_by_which_nothing_can_be_issued_is_refused_by_alter_system() {
    let cluster = Cluster::builder().worker(0).start();
    let mut client = cluster.connect();
    for (layout, word) in [
        ("twitter epoch=soon", "is not an epoch"),
        // A published layout that can't be.
        ("t37 w20 s16", "has 73 bits, and an ID has 64"),
        ("discord", "has 64 bits, and an ID that is issued has at most 63"),
        ("w10 t41 s12", "would not sort by time"),
        ("uid", "from 2016-05-19T16:00:00Z to 2024-11-20T13:24:15Z, and the clock shows 20"),
        ("flat epoch=9000-01-01T00:00:00Z", "from 9000-01-01T00:00:00Z to 9069-09-"),
    ] {
        assert_refused(
            &error(&mut client, &format!("ALTER SYSTEM SET snowflake_pg.layout = '{layout}'")),
            "22023",
            &[word],
        );
    }
    // What the HINT names is accepted, and decodes IDs to the same fields.
    for (layout, setting, remark) in [
        ("discord", "t41 d5 w5 s12 epoch=2015-01-01T00:00:00Z", "until 2084-09-06T15:47:35.551Z"),
        ("t42 w10 s12", "flat", "until 2080-07-10T17:30:30.208Z"),
        ("w10 t41 s12", "flat", "Its timestamp is the highest field"),
    ] {
        let refused = error(&mut client, &format!("ALTER SYSTEM SET snowflake_pg.layout = '{layout}'"));
        assert_refused(&refused, "22023", &[&format!("\"{setting}\" instead"), remark]);
        client.batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.layout = '{setting}'")).expect(setting);
    }
    let refused = error(&mut client, "ALTER SYSTEM SET snowflake_pg.layout = 'uid'");
    let setting =
        refused.hint().and_then(|hint| hint.split('"').nth(1)).expect("a layout with a later epoch").to_owned();
    assert!(setting.starts_with("t28 w22 s13 unit=1s epoch=20") && setting.ends_with("-01-01T00:00:00Z"), "{setting}");
    client.batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.layout = '{setting}'")).expect("a layout");
    for layout in ["k8s", "uid epoch=2024-01-01T00:00:00Z", "t41 w2 s20", "sonyflake"] {
        client.batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.layout = '{layout}'")).expect(layout);
    }
}

/// It may have been written into the configuration file, or its time may have come.
#[test]
fn a_layout_by_which_nothing_can_be_issued_is_warned_of_at_start() {
    let not_issued = "IDs of this layout can be decoded but not issued";
    for (layout, warning, code, word) in [
        ("tsid", not_issued, "F0000", "to \"t41 w10 s12 epoch=2020-01-01T00:00:00Z\", and restart"),
        ("mastodon", not_issued, "F0000", "It has no worker, so only one server can issue IDs"),
        ("uid", "reached the last timestamp of the layout", "2200H", "\"t28 w22 s13 unit=1s epoch="),
        (
            "flat epoch=9000-01-01T00:00:00Z",
            "the server's clock is before the epoch of the layout",
            "55000",
            "choose an earlier epoch",
        ),
    ] {
        let cluster = Cluster::builder().worker(0).set("snowflake_pg.layout", layout).start();
        cluster.wait_for_log(&format!("WARNING:  {warning}"));
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        assert_refused(&error(&mut client, NEXTVAL), code, &[warning, word]);
    }
    // 2^40 ms after this epoch is about a month from now.
    let epoch = testbed::real_time() + 30 * 86_400_000 - (1 << 40);
    let cluster = Cluster::builder().worker(0).set("snowflake_pg.layout", format!("t40 w10 s12 epoch={epoch}")).start();
    let warning = "WARNING:  snowflake_pg: the layout reaches its last timestamp within a year";
    cluster.wait_for_log(warning);
}

/// PostgreSQL puts the default in the place of a value that it rejects at start. IDs of another layout or data center
/// than the one that was meant could be those of another server, and another margin could be none.
#[test]
fn a_configuration_that_cannot_be_read_is_never_replaced_by_the_default() {
    // One of each kind.
    for (variable, text, word) in [
        ("snowflake_pg.layout", "round", "neither the name of a layout (flat, "),
        ("snowflake_pg.datacenter_id", "two", "\"env:VARIABLE\""),
        ("snowflake_pg.datacenter_id", "", "It is not set."),
        ("snowflake_pg.datacenter_id", "-1", "must not be negative"),
        ("snowflake_pg.wal_mark", "required", ": off, prefer, require."),
        ("snowflake_pg.max_borrow", "30 secs", "from 0 to 86400000, in milliseconds or with a unit"),
        ("snowflake_pg.worker_id", "-1", "must not be negative"),
        ("snowflake_pg.worker_id", "-x", "\"registry\""),
        ("snowflake_pg.worker_id", "010", "must not begin with 0"),
    ] {
        let cluster = Cluster::builder().worker(0).set(variable, text).start();
        let message = format!("invalid value for parameter \"{variable}\": \"{text}\"");
        // A number that is out of its range is called so by PostgreSQL; this is ours.
        cluster.wait_for_log(&format!("WARNING:  {message}"));
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let refused = error(&mut client, NEXTVAL);
        assert_refused(&refused, "F0000", &[&message, word]);
        assert!(refused.hint().is_some_and(|hint| hint.contains(variable)), "{refused:?}");
        assert_eq!(value(&mut client, "SELECT state FROM snowflake_status"), "misconfigured");
    }
    // What PostgreSQL takes for a number is one, and for the name of a mode.
    let builder =
        Cluster::builder().worker(0).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", "0x1F");
    let builder = builder.set("snowflake_pg.wal_mark", "Prefer").set("snowflake_pg.max_borrow", "0.5 s");
    let cluster = builder.start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(value(&mut client, "SELECT datacenter_id FROM snowflake_decode(snowflake_nextval())"), "31");
}

/// Tools that write YAML make `False` of `off`.
#[test]
fn what_yaml_makes_of_off_is_off() {
    for off in ["False", "no", "0"] {
        let builder = Cluster::builder().worker(0).set("snowflake_pg.wal_mark", off);
        let cluster = builder.set("snowflake_pg.time_stamp_counter", off).start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        assert_eq!(value(&mut client, "SHOW snowflake_pg.wal_mark"), "off");
        assert_eq!(value(&mut client, "SHOW snowflake_pg.time_stamp_counter"), "off");
        cluster.wait_for_log("time_stamp_counter = off, wal_mark = off");
    }
}

#[test]
fn a_worker_or_data_center_outside_the_layout_is_refused_by_alter_system_and_logged_at_reload() {
    let cluster = Cluster::builder().worker(0).set("snowflake_pg.layout", "twitter").start();
    let mut client = cluster.connect();
    for variable in ["snowflake_pg.worker_id", "snowflake_pg.datacenter_id"] {
        let refused = error(&mut client, &format!("ALTER SYSTEM SET {variable} = 32"));
        assert_refused(&refused, "22023", &[variable, "\"32\"", "allows 0 to 31"]);
        client.batch_execute(&format!("ALTER SYSTEM SET {variable} = 31")).expect("a number that fits");
        cluster.configure(variable, 33);
        client.batch_execute(&format!("ALTER SYSTEM RESET {variable}")).expect("the file counts");
        cluster.reload();
        let message = format!("LOG:  invalid value for parameter \"{variable}\": \"33\"");
        cluster.wait_for_log(&message);
    }
    client.batch_execute("ALTER SYSTEM SET snowflake_pg.worker_id = ''").expect("unset");
    let refused = error(&mut client, "ALTER SYSTEM SET snowflake_pg.worker_id = -1");
    assert_refused(&refused, "22023", &["allows 0 to 31", "to have no worker ID, set it to ''"]);

    // Where the next start has another layout, its numbers may be given, and those of the layout in force.
    client.batch_execute("ALTER SYSTEM SET snowflake_pg.layout = 'flat'").expect("a layout");
    for worker in [1023, 31] {
        client
            .batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.worker_id = {worker}"))
            .expect("a number that fits");
    }
    assert_eq!(error(&mut client, "ALTER SYSTEM SET snowflake_pg.worker_id = 1024").code().code(), "22023");
}

#[test]
fn a_worker_that_only_the_layout_without_data_centers_has_is_told_of_it() {
    let cluster = Cluster::builder().worker(0).set("snowflake_pg.layout", "twitter").start();
    let refused = error(&mut cluster.connect(), "ALTER SYSTEM SET snowflake_pg.worker_id = 32");
    assert_refused(&refused, "22023", &["Layout \"flat\" has the same bits, and workers 0 to 1023."]);
}

#[test]
fn a_layout_that_the_worker_does_not_fit_is_refused_by_alter_system() {
    let cluster = Cluster::builder().worker(900).set("snowflake_pg.layout", "flat").start();
    let mut client = cluster.connect();
    let refused = error(&mut client, "ALTER SYSTEM SET snowflake_pg.layout = 'twitter'");
    assert_refused(&refused, "22023", &["snowflake_pg.worker_id is 900, and the layout allows 0 to 31."]);
    // The number first, then the layout.
    client.batch_execute("ALTER SYSTEM SET snowflake_pg.worker_id = 9").expect("a number that fits both");
    client.batch_execute("ALTER SYSTEM SET snowflake_pg.layout = 'twitter'").expect("a layout that it fits");
}

/// With this setting Rust traces its stack at each error, and versions of pgrx before 0.19.3 added the trace to the
/// DETAIL.
#[test]
fn no_client_gets_a_backtrace_and_each_detail_of_postgresqls_is_kept() {
    let server = Cluster::builder().worker(0).set("snowflake_pg.max_wait", "60s").own_clock();
    let cluster = server.environment("RUST_BACKTRACE", "1").start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval();
             CREATE TABLE events (id bigint) PARTITION BY RANGE (id);
             CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS
                 'BEGIN RAISE ''no tables'' USING DETAIL = ''It is Sunday.''; END';
             CREATE EVENT TRIGGER refuse ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION refuse();
             SET statement_timeout = '300ms'",
        )
        .expect("an ID");
    let refused = error(&mut client, "SELECT snowflake_create_partitions('events', '1 day', 0)");
    assert_eq!((refused.message(), refused.detail()), ("no tables", Some("It is Sunday.")));
    cluster.set_clock(-20.0);
    let cancelled = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!((cancelled.code().code(), cancelled.detail()), ("57014", None));
    assert!(!cluster.log().contains("rust_begin_unwind"), "{}", cluster.log());
}

/// PostgreSQL shows snowflake_pg.state_directory to nobody else either.
#[test]
fn only_roles_that_may_read_all_settings_learn_where_the_state_directory_is() {
    let mut cluster = Cluster::builder().worker(0).start();
    let directory = cluster.make_directory("secret");
    cluster.configure("snowflake_pg.state_directory", directory.display());
    std::fs::write(directory.join("mark"), "damaged").expect("a file");
    cluster.restart(Signal::INT);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE ROLE app; CREATE ROLE monitor; GRANT pg_read_all_settings TO monitor",
        )
        .expect("roles");
    let path = directory.display().to_string();
    let mut refused = |role: &str| {
        client.batch_execute(&format!("SET ROLE {role}")).expect("a role");
        error(&mut client, NEXTVAL)
    };
    for role in ["postgres", "monitor"] {
        assert_eq!(refused(role).message(), format!("state file \"{path}/mark\" is damaged"));
    }
    let logged = || cluster.log().matches(&format!("state file \"{path}/mark\" is damaged")).count();
    let before = logged();
    let hidden = refused("app");
    assert_eq!((hidden.code().code(), hidden.message()), ("XX001", "state file \"mark\" is damaged"));
    assert_eq!(logged(), before + 1, "the log keeps it");

    std::fs::remove_dir_all(&directory).expect("own directory");
    let hidden = refused("app");
    let message = "could not open directory \"snowflake_pg.state_directory\": No such file or directory";
    assert_eq!((hidden.code().code(), hidden.message()), ("58P01", message));
    assert!(!format!("{hidden:?}").contains("secret"), "{hidden:?}");
}

#[test]
fn who_creates_the_extension_without_preload_is_told_what_it_lacks() {
    let cluster = Cluster::builder().start();
    let output = cluster.psql().args(["--command", "CREATE EXTENSION snowflake_pg"]).output().expect("psql");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "WARNING:  snowflake_pg is not loaded via shared_preload_libraries\n\
         DETAIL:  IDs can be decoded but not issued.\n\
         HINT:  To issue IDs, add snowflake_pg to shared_preload_libraries, set snowflake_pg.worker_id, and restart the \
         server.\n"
    );
    let preloaded = Cluster::builder().worker(0).start();
    let output = preloaded.psql().args(["--command", "CREATE EXTENSION snowflake_pg"]).output().expect("psql");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_misspelt_variable_is_refused() {
    let cluster = Cluster::builder().worker(0).start();
    let refused = error(&mut cluster.connect(), "SET snowflake_pg.worker = 1");
    assert_eq!(refused.message(), "invalid configuration parameter name \"snowflake_pg.worker\"");
}
