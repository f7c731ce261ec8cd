//! What the server log says of the configuration when a server starts.

use std::fs;
use testbed::{Builder, Cluster, Signal, test, value};

#[test]
fn the_log_begins_with_the_version_the_worker_and_the_layout() {
    let cluster = Cluster::builder().worker(5).with_all_defaults().start();
    assert_eq!(
        line(&cluster),
        "worker_id = 5, datacenter_id = 0, layout = 'flat' (t41 w10 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z)"
    );
}

/// What the log says of the configuration, behind the version.
fn line(cluster: &Cluster) -> String {
    let log = cluster.log();
    let begin = concat!("LOG:  snowflake_pg ", env!("CARGO_PKG_VERSION"), ": ");
    let line = log.lines().find_map(|line| Some(line.split_once(begin)?.1));
    line.unwrap_or_else(|| panic!("{log}")).to_owned()
}

#[test]
fn each_parameter_that_is_set_to_another_value_than_its_default_is_in_the_log() {
    let defaults = Cluster::builder().worker(3).with_all_defaults().start();
    let parameters = "SELECT name, vartype, unit,
            CASE vartype WHEN 'bool' THEN CASE boot_val WHEN 'on' THEN 'off' ELSE 'on' END
                WHEN 'enum' THEN (SELECT word FROM unnest(enumvals) word WHERE word <> boot_val LIMIT 1)
                WHEN 'integer' THEN CASE min_val WHEN boot_val THEN max_val ELSE min_val END END
        FROM pg_settings WHERE name LIKE 'snowflake_pg.%' ORDER BY name";
    let mut builder = Cluster::builder().worker(3).with_all_defaults();
    let mut expected = Vec::new();
    for row in defaults.connect().query(parameters, &[]).expect("parameters") {
        let (name, vartype): (String, String) = (row.get(0), row.get(1));
        let short = name.strip_prefix("snowflake_pg.").expect("a prefix");
        let text = match short {
            "worker_id" => "3",
            "datacenter_id" => "2",
            "layout" => "t41 d5 w5 s12 epoch=0",
            "state_directory" => "marks",
            "registry_conninfo" => "host=/nowhere dbname=registry",
            _ => "another",
        };
        let value = row.get::<_, Option<String>>(3).unwrap_or_else(|| text.to_owned());
        builder = builder.set(&name, &value);
        expected.push(match (short, row.get::<_, Option<String>>(2)) {
            ("worker_id" | "datacenter_id", _) => format!("{short} = {value}"),
            (_, Some(unit)) => format!("{short} = {value} {unit}"),
            _ if vartype == "string" => format!("{short} = '{value}'"),
            _ => format!("{short} = {value}"),
        });
    }
    assert!(expected.len() >= 20, "{expected:?}");
    let cluster = builder.start();
    let line = format!(", {},", line(&cluster));
    for parameter in expected {
        let ends = [",", " ("].map(|end| format!(", {parameter}{end}"));
        assert!(ends.iter().any(|part| line.contains(part)), "{parameter} is not in {line}");
    }
}

/// PostgreSQL replaces what has a password. What is no connection string can have one, too.
#[test]
fn a_registry_that_is_refused_is_not_quoted_in_the_log() {
    for conninfo in ["host=/nowhere password=mellon", "host=/nowhere password mellon"] {
        let cluster =
            Cluster::builder().worker(3).with_all_defaults().set("snowflake_pg.registry_conninfo", conninfo).start();
        assert!(line(&cluster).ends_with("registry_conninfo = (refused)"), "{}", cluster.log());
        assert!(!cluster.log().contains("mellon"), "{}", cluster.log());
    }
}

/// The collector starts after the library is loaded, and its files are what people read.
#[test]
fn the_configuration_is_in_the_files_of_the_logging_collector_on_a_primary_and_on_a_standby() {
    let primary = collected(Cluster::builder().worker(1)).start();
    let standby = collected(Cluster::builder()).standby_of(&primary);
    let line = "LOG:  snowflake_pg 1.0.0: worker_id = 1, datacenter_id = 0";
    for server in [&primary, &standby] {
        wait_for_collected(server, line);
    }
    // A keeper that comes back does not log it again.
    let keeper = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper'";
    primary.wait_until(&format!("SELECT count(*) = 1 FROM ({keeper}) keeper"));
    let before = value(&mut primary.connect(), keeper);
    primary.connect().batch_execute(&format!("SELECT pg_terminate_backend({before})")).expect("a keeper");
    primary.wait_until(&format!("SELECT count(*) = 1 FROM ({keeper}) keeper WHERE pid <> {before}"));
    let files = fs::read_dir(primary.data().join("../collected")).expect("the collector's files");
    let logged = files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("a log"));
    assert_eq!(logged.map(|log| log.matches(line).count()).sum::<usize>(), 1);
}

#[test]
fn a_worker_that_alter_system_has_set_is_warned_of_and_the_one_that_it_overrides() {
    let mut cluster = Cluster::builder().worker(3).start();
    let warned = "WARNING:  snowflake_pg.worker_id is set by ALTER SYSTEM";
    assert!(!cluster.log().contains(warned), "{}", cluster.log());
    cluster.connect().batch_execute("ALTER SYSTEM SET snowflake_pg.worker_id = 9").expect("a worker");
    cluster.restart(Signal::INT);
    let log = cluster.log();
    assert!(log.contains(warned), "{log}");
    let configuration = cluster.data().join("postgresql.conf");
    let line = fs::read_to_string(&configuration).expect("postgresql.conf");
    let line = 1 + line.lines().position(|line| line == "snowflake_pg.worker_id = '3'").expect("the worker");
    let detail = format!("It overrides 3, from file \"{}\" line {line}.", configuration.display());
    assert!(log.contains(&detail), "{log}");

    // One that the main file does not have, too; none where ALTER SYSTEM says nothing any more.
    cluster.configure("snowflake_pg.worker_id", 9);
    cluster.restart(Signal::INT);
    assert_eq!(cluster.log().matches(warned).count(), 2);
    assert_eq!(cluster.log().matches("It overrides").count(), 1);
    cluster.connect().batch_execute("ALTER SYSTEM RESET snowflake_pg.worker_id").expect("no worker");
    cluster.restart(Signal::INT);
    assert_eq!(cluster.log().matches(warned).count(), 2);
}

#[test]
fn a_server_without_a_worker_warns_of_it_when_it_starts_also_as_a_standby() {
    let primary = Cluster::builder().set("shared_preload_libraries", "snowflake_pg").start();
    let standby = Cluster::builder().standby_of(&primary);
    for server in [&primary, &standby] {
        let log = server.log();
        let warned =
            log.lines().position(|line| line.contains("WARNING:") && line.contains("this server has no worker ID"));
        let after: Vec<_> = log.lines().skip(warned.unwrap_or_else(|| panic!("{log}"))).take(3).collect();
        assert!(after[1].contains("DETAIL:  snowflake_pg.worker_id is not set."), "{log}");
        assert!(after[2].contains("HINT:  Set snowflake_pg.worker_id to a number from 0 to"), "{log}");
    }
}

#[test]
fn a_standby_that_has_its_primarys_worker_says_so_before_it_is_promoted() {
    const WARNED: &str = "WARNING:  snowflake_pg: this standby has the worker ID of the server that it was copied from";
    let state = |server: &Cluster| value(&mut server.connect(), "SELECT state FROM snowflake_status");
    let started = |wal_mark: &str| {
        let primary = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", wal_mark).start();
        primary.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        primary.wait_until("SELECT state = 'idle' FROM snowflake_status");
        assert!(!primary.log().contains(WARNED), "{}", primary.log());
        primary
    };
    let (primary, with_mark) = (started("off"), started("prefer"));

    let standby = Cluster::builder().standby_of(&primary);
    standby.wait_for_log(WARNED);
    assert_eq!(state(&standby), "shared worker");
    drop(standby);
    let standby = collected(Cluster::builder()).standby_of(&primary);
    wait_for_collected(&standby, WARNED);
    drop(standby);

    for (right, primary) in [(Builder::worker(Cluster::builder(), 2), &primary), (Cluster::builder(), &with_mark)] {
        let standby = right.standby_of(primary);
        assert!(!standby.log().contains(WARNED), "{}", standby.log());
        assert_eq!(state(&standby), "standby");
    }

    // A primary that becomes a standby has its own mark, and has had its worker all the time.
    let mut former = Cluster::builder().worker(1).start();
    former.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    former.wait_until("SELECT state = 'idle' FROM snowflake_status");
    former.stop(Signal::INT);
    fs::write(former.data().join("standby.signal"), "").expect("a standby");
    former.start();
    assert_eq!(state(&former), "standby");
    assert!(!former.log().contains(WARNED), "{}", former.log());
}

fn collected(server: Builder) -> Builder {
    server.set("logging_collector", "on").set("log_directory", "../collected")
}

/// Waits until a file of the logging collector has this.
fn wait_for_collected(server: &Cluster, text: &str) {
    let text = text.replace('\'', "''");
    server.wait_until(&format!(
        "SELECT coalesce(bool_or(strpos(pg_read_file('../collected/' || name), '{text}') > 0), false)
         FROM pg_ls_dir('../collected') name"
    ));
}
