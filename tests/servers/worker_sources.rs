//! A server finds its worker ID by itself, so that all servers of a fleet can have the same configuration.

use std::fs;
use testbed::{Builder, Cluster, Signal, assert_refused, can_name_hosts, error, need_hosts, test, value};

const WORKER: &str = "SELECT worker_id || ' from ' || worker_id_source FROM snowflake_status";
const OF_NEXT_ID: &str = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";

/// What all servers of a fleet have in common.
fn fleet(worker: &str) -> Builder {
    Cluster::builder().worker(worker)
}

/// Starts a server, and creates the extension.
fn start(builder: Builder) -> Cluster {
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// What the server answers.
fn answer_of(cluster: &Cluster, query: &str) -> String {
    value(&mut cluster.connect(), query)
}

#[test]
fn servers_with_one_configuration_get_their_workers_from_the_environment() {
    let servers = [0, 1, 2].map(|pod| start(fleet("env:POD_NAME").environment("POD_NAME", &format!("pg-{pod}"))));
    for (pod, server) in servers.iter().enumerate() {
        assert_eq!(answer_of(server, WORKER), format!("{pod} from env POD_NAME"));
        assert_eq!(answer_of(server, OF_NEXT_ID), pod.to_string());
        let line = format!(": worker_id = {pod} (env POD_NAME), datacenter_id = 0, layout");
        server.wait_for_log(&line);
    }
    let moved = start(fleet("env:POD_NAME+8").environment("POD_NAME", "2"));
    assert_eq!(answer_of(&moved, WORKER), "10 from env POD_NAME + 8");
}

#[test]
fn servers_with_one_configuration_get_their_workers_from_their_host_names() {
    need_hosts();
    let servers = ["pg-3", "node07", "db12.example.com"].map(|host| start(fleet("hostname").host_name(host)));
    for (server, (worker, host)) in servers.iter().zip([(3, "pg-3"), (7, "node07"), (12, "db12.example.com")]) {
        assert_eq!(answer_of(server, WORKER), format!("{worker} from hostname {host}"));
        assert_eq!(answer_of(server, OF_NEXT_ID), worker.to_string());
    }
    let in_datacenter = fleet("hostname+16").set("snowflake_pg.layout", "twitter");
    let second = start(in_datacenter.host_name("pg-3").set("snowflake_pg.datacenter_id", "HOSTNAME+1"));
    assert_eq!(answer_of(&second, WORKER), "19 from hostname pg-3 + 16");
    assert_eq!(answer_of(&second, "SELECT datacenter_id FROM snowflake_identity()"), "4");
    second.wait_for_log("datacenter_id = 4 (hostname pg-3 + 1)");
}

/// The host says who a server is, and nothing in the data directory does.
#[test]
fn a_standby_of_a_server_with_the_same_configuration_has_its_own_worker() {
    let primary = start(fleet("env:POD").environment("POD", "1"));
    primary.connect().batch_execute("ALTER SYSTEM SET snowflake_pg.worker_id = 'env:POD'").expect("a setting");
    let standby = Cluster::builder().environment("POD", "2").standby_of(&primary);
    assert_eq!(answer_of(&standby, WORKER), "2 from env POD");
    assert_eq!(answer_of(&standby, "SELECT state FROM snowflake_status"), "standby");
    // What a base backup copies gives each server its own number.
    assert!(!standby.log().contains("WARNING:  snowflake_pg"), "{}", standby.log());
}

#[test]
fn a_file_has_the_worker_of_the_next_start() {
    let scratch = Cluster::builder().create();
    let file = scratch.make_directory("outside").join("worker");
    fs::write(&file, "5\n").expect("the file");
    let mut cluster = start(fleet(&format!("file:{}", file.display())));
    assert_eq!(answer_of(&cluster, WORKER), format!("5 from file {}", file.display()));
    assert_eq!(answer_of(&cluster, OF_NEXT_ID), "5");

    // It is read once: neither a reload nor a crash of a backend changes the worker.
    fs::write(&file, "6").expect("the file");
    cluster.reload();
    assert_eq!(answer_of(&cluster, OF_NEXT_ID), "5");
    cluster.kill_backend();
    assert_eq!(answer_of(&cluster, OF_NEXT_ID), "5");
    cluster.restart(Signal::INT);
    assert_eq!(answer_of(&cluster, OF_NEXT_ID), "6");
}

#[test]
fn a_server_has_the_number_of_its_address_in_a_network() {
    let cluster = start(fleet("ipv4:127.0.0.0/28"));
    assert_eq!(answer_of(&cluster, WORKER), "1 from ipv4 127.0.0.1 in 127.0.0.0/28");
    assert_eq!(answer_of(&cluster, OF_NEXT_ID), "1");
}

/// The error of the first ID, which says what was looked at, and is in the server log.
fn assert_not_determined(builder: Builder, worker: &str, reason: &str) {
    let cluster = start(builder);
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    let detail = format!("It is \"{worker}\". {reason}");
    assert_refused(&refused, "F0000", &["snowflake_pg.worker_id", &detail, "Correct that"]);
    let log = cluster.log();
    assert!(log.contains("WARNING:  could not determine snowflake_pg.worker_id") && log.contains(&detail), "{log}");
    let state = "SELECT state || coalesce(worker_id::text, '') || coalesce(worker_id_source, '') FROM snowflake_status";
    assert_eq!(answer_of(&cluster, state), "misconfigured");
    assert!(!cluster.mark_file().exists());
}

#[test]
fn a_worker_that_cannot_be_determined_issues_nothing_and_says_what_was_looked_at() {
    let none = "Environment variable \"POD\" is not set for the server";
    assert_not_determined(fleet("env:POD"), "env:POD", none);
    let secret = "Environment variable \"POD\" does not end with a number after \"-\", \".\" or a word of letters";
    assert_not_determined(fleet("env:POD").environment("POD", "secret"), "env:POD", secret);
    let missing = "Could not read file \"/nonexistent/worker\": No such file or directory";
    assert_not_determined(fleet("file:/nonexistent/worker"), "file:/nonexistent/worker", missing);
    let device = "Could not read file \"/dev/zero\": it is not a regular file";
    assert_not_determined(fleet("file:/dev/zero"), "file:/dev/zero", device);
    let long = "Could not read file \"/etc/passwd\": it is longer than a number";
    assert_not_determined(fleet("file:/etc/passwd"), "file:/etc/passwd", long);
    let no_number = "The content of file \"/proc/sys/kernel/ostype\" is not a number";
    assert_not_determined(fleet("file:/proc/sys/kernel/ostype"), "file:/proc/sys/kernel/ostype", no_number);
    let nowhere = "No IPv4 address of this host is in network 203.0.113.0/24";
    assert_not_determined(fleet("ipv4:203.0.113.0/24"), "ipv4:203.0.113.0/24", nowhere);
    if can_name_hosts() {
        let name = "Host name \"db-7a\" does not end with a number after \"-\", \".\" or a word of letters";
        assert_not_determined(fleet("hostname").host_name("db-7a"), "hostname", name);
    }
}

/// Base backups copy it, so that two servers would have one worker.
#[test]
fn a_file_in_the_data_directory_is_refused_also_through_a_symbolic_link() {
    let cluster = Cluster::builder().create();
    let file = cluster.data().join("worker");
    fs::write(&file, "5").expect("the file");
    let link = cluster.host().join("link");
    std::os::unix::fs::symlink(&file, &link).expect("a link");
    let mut cluster = cluster;
    cluster.configure("shared_preload_libraries", "snowflake_pg");
    for path in [file, link] {
        cluster.configure("snowflake_pg.worker_id", format!("file:{}", path.display()));
        cluster.start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION IF NOT EXISTS snowflake_pg").expect("the extension");
        let refused = error(&mut client, "SELECT snowflake_nextval()");
        let reason = format!("File \"{}\" is in the data directory, which base backups copy.", path.display());
        assert!(refused.detail().is_some_and(|detail| detail.ends_with(&reason)), "{refused:?}");
        cluster.stop(Signal::INT);
    }
}

#[test]
fn a_number_that_the_layout_has_no_room_for_is_refused_and_does_not_wrap() {
    let cluster = start(fleet("env:POD").environment("POD", "pg-1035"));
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_refused(&refused, "F0000", &["snowflake_pg.worker_id is 1035 (env POD)", "0 to 1023"]);
}

#[test]
fn alter_system_refuses_a_source_that_gives_this_server_no_worker() {
    let cluster = Cluster::builder().worker(0).environment("POD", "7").environment("LARGE", "n-1024").start();
    let mut client = cluster.connect();
    for (text, word) in [
        ("pod", "\"env:VARIABLE\""),
        ("010", "must not begin with 0"),
        ("hostname+x", "must be followed by a number"),
        ("env:NONE", "\"NONE\" is not set"),
        ("env:LARGE", "1024 (env LARGE)"),
        ("file:worker", "not an absolute path"),
        ("ipv4:10.1.2.3/8", "10.0.0.0/8 is the network"),
    ] {
        let refused = error(&mut client, &format!("ALTER SYSTEM SET snowflake_pg.worker_id = '{text}'"));
        assert_refused(&refused, "22023", &[word]);
    }
    assert_eq!(error(&mut client, "ALTER SYSTEM SET snowflake_pg.datacenter_id = -1").code().code(), "22023");
    for text in ["", "5", "0x1F", "env:POD", "env:POD+24"] {
        client.batch_execute(&format!("ALTER SYSTEM SET snowflake_pg.worker_id = '{text}'")).expect(text);
    }
}

/// With Citus: see `tests/programs/citus`.
#[test]
fn a_server_without_citus_has_no_group_for_its_worker() {
    let server = start(fleet("citus"));
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_refused(&refused, "F0000", &["\"citus\"", "has no Citus metadata", "snowflake_pg.citus_database"]);
    let log = server.log();
    assert_eq!(log.matches("WARNING:  snowflake_pg: could not determine snowflake_pg.worker_id").count(), 1, "{log}");
    let standby = Cluster::builder().standby_of(&server);
    assert_eq!(answer_of(&standby, "SELECT state FROM snowflake_status"), "standby");
    let other = start(fleet("0").set("snowflake_pg.datacenter_id", "citus"));
    let refused = error(&mut other.connect(), "SELECT snowflake_nextval()");
    assert_refused(&refused, "F0000", &["Only a worker can be the group of a Citus node"]);
}
