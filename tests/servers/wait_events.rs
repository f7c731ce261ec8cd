//! What `pg_stat_activity` shows of a process that waits: the events of the extension, each by its name from PostgreSQL
//! 17 on.

use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use testbed::{Cluster, Order, Registry, Witness, error, project, test, value, waits_for};

/// A server of its own that issues IDs.
fn start(builder: testbed::Builder) -> Cluster {
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// A port that accepts connections, and never answers.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, format!("host=127.0.0.1 port={port} user=postgres dbname=postgres connect_timeout=3600"))
}

fn wait_for(cluster: &Cluster, event: &str, process: &str) {
    let shows = waits_for(event);
    cluster.wait_until(&format!("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE {shows} AND {process})"));
}

#[test]
fn a_keeper_and_a_registry_client_that_have_nothing_to_do_show_their_main_loops() {
    let registry = Registry::start();
    let server = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let server = start(server.set("snowflake_pg.keep_warm", 0));
    wait_for(&server, "SnowflakeKeeperMain", "backend_type = 'snowflake_pg keeper'");
    wait_for(&server, "SnowflakeRegistryMain", "backend_type = 'snowflake_pg registry client'");
}

#[test]
fn a_process_that_waits_for_another_server_shows_that() {
    let (_listener, conninfo) = silent();
    let server = start(Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", &conninfo));
    wait_for(&server, "SnowflakeRemote", "backend_type = 'snowflake_pg registry client'");
    let mut client = server.connect();
    let backend = value(&mut client, "SELECT pg_backend_pid()");
    let asks = thread::spawn(move || {
        assert_eq!(
            error(&mut client, &format!("SELECT snowflake_check_fleet('{{{conninfo}}}')")).code().code(),
            "57014"
        );
    });
    wait_for(&server, "SnowflakeRemote", &format!("pid = {backend}"));
    assert_eq!(value(&mut server.connect(), &format!("SELECT pg_cancel_backend({backend})")), "t");
    asks.join().expect("a check that was cancelled");
}

/// Without a keeper, so that one backend writes, and the other one waits.
#[test]
fn a_backend_that_writes_the_mark_and_one_that_waits_for_it_show_that() {
    let server = start(Cluster::builder().worker(1).faulty_disk().set("max_worker_processes", 0));
    let [mut writer, mut waiter] = [Witness::of(&server), Witness::of(&server)];
    let [writes, waits] = [&mut writer, &mut waiter].map(|witness| value(witness.session(), "SELECT pg_backend_pid()"));
    writer.next_id().expect("an ID");
    waiter.next_id().expect("an ID");
    server.wait_until_mark_has_passed();
    server.disk().obey(Order::Slow(Duration::from_secs(1)));
    thread::scope(|scope| {
        scope.spawn(|| writer.next_id().expect("an ID"));
        wait_for(&server, "SnowflakeMarkWrite", &format!("pid = {writes}"));
        scope.spawn(|| waiter.next_id().expect("an ID"));
        wait_for(&server, "SnowflakeMark", &format!("pid = {waits}"));
    });
    server.disk().obey(Order::Work);
}

#[test]
fn a_call_that_waits_for_the_clock_shows_that() {
    let policy = ("snowflake_pg.clock_regression", "wait");
    let server =
        start(Cluster::builder().worker(1).own_clock().set(policy.0, policy.1).set("snowflake_pg.max_wait", "1min"));
    let mut client = server.connect();
    let backend = value(&mut client, "SELECT pg_backend_pid()");
    value(&mut client, "SELECT snowflake_nextval()");
    server.set_clock(-30.0);
    let asks = thread::spawn(move || value(&mut client, "SELECT snowflake_nextval()"));
    wait_for(&server, "SnowflakeClock", &format!("pid = {backend}"));
    server.set_clock(0.0);
    asks.join().expect("an ID");
}

#[test]
fn the_documents_list_every_wait_event() {
    let text = |file: &str| fs::read_to_string(project().join(file)).expect("a file");
    let (source, document) = (text("src/postgres/sleep.rs"), text("docs/monitoring.md"));
    let names: Vec<_> = source.split("c\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(names.len() >= 6 && names.iter().all(|name| name.starts_with("Snowflake")), "{names:?}");
    for name in names {
        assert!(document.contains(&format!("| `{name}` |")), "{name}");
    }
}
