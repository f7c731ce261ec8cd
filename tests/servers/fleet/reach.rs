//! Servers that cannot be reached, or do not answer.

use super::fixture::{conninfo, member, problems, start};
use rustix::net::{AddressFamily, SocketType, bind, connect, getsockname, listen, socket};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread::spawn;
use std::time::Instant;
use testbed::{PATIENCE, test, value, waits_for};

/// A port that accepts connections, and never answers.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, format!("host=127.0.0.1 port={port} user=postgres dbname=postgres"))
}

/// A port whose queue is full: nobody gets a connection, and nobody is refused.
fn full() -> (Vec<OwnedFd>, String) {
    let any = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0));
    let new = || socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    let listener = new();
    bind(&listener, &any).expect("a port");
    listen(&listener, 0).expect("a listener");
    let address = SocketAddr::try_from(getsockname(&listener).expect("an address")).expect("an address");
    let first = new();
    connect(&first, &address).expect("the one that the queue has room for");
    let text = format!("host=127.0.0.1 port={} user=postgres dbname=postgres", address.port());
    (vec![listener, first], text)
}

#[test]
fn who_cannot_be_reached_is_reported_and_the_others_are_asked() {
    let (one, two) = (start(member(1)), start(member(1)));
    let (_listener, silent) = silent();
    let asked = [
        "host=127.0.0.1 port=1 user=postgres".to_owned(),
        format!("{silent} connect_timeout=1"),
        silent,
        "host=/nonexistent user=postgres".to_owned(),
        "nonsense=".to_owned(),
        conninfo(&two),
    ];
    let found = problems(&mut one.connect(), &asked);
    assert!(found[0].starts_with("same worker ID as server 6 ("), "{found:?}");
    assert!(
        found[1].starts_with("connection to server at \"127.0.0.1\", port 1 failed: Connection refused"),
        "{found:?}"
    );
    assert_eq!(found[2], "could not connect to server: timeout expired");
    assert_eq!(found[3], "could not connect to server: timeout expired", "by the default of connect_timeout");
    assert!(found[4].contains("No such file or directory"), "{found:?}");
    assert_eq!(found[5], "invalid connection string");
    assert_eq!(found[6], "same worker ID as this server");
    assert!(found.iter().all(|problem| !problem.contains('\n')), "one line each: {found:?}");
}

#[test]
fn a_check_can_be_cancelled_while_a_server_does_not_answer() {
    let one = start(member(1));
    let (_listener, silent) = silent();
    let (_sockets, full) = full();
    for (what, target) in [("silent", silent), ("full", full)] {
        let mut client = one.connect();
        let process = value(&mut client, "SELECT pg_backend_pid()");
        let (sender, receiver) = mpsc::channel();
        spawn(move || {
            // Each has a minute at most.
            let asked = vec![format!("{target} connect_timeout=3600"); 10];
            let query = "SELECT problem FROM snowflake_check_fleet($1)";
            let refused = client.query(query, &[&asked]).expect_err("cancelled");
            let code = refused.as_db_error().expect("an error of the server").code().code().to_owned();
            sender.send((code, client)).expect("the test waits");
        });
        let waits = waits_for("SnowflakeRemote");
        one.wait_until(&format!("SELECT {waits} FROM pg_stat_activity WHERE pid = {process}"));
        assert_eq!(value(&mut one.connect(), &format!("SELECT pg_cancel_backend({process})")), "t");
        let (code, mut client) = receiver.recv_timeout(PATIENCE).expect("a check that ends");
        assert_eq!(code, "57014", "{what}");
        assert_eq!(value(&mut client, "SELECT 1"), "1", "the session goes on");
    }
}

/// A signal wakes a backend that waits. libpq must not be told then that it may write.
#[test]
fn a_reload_of_the_configuration_does_not_keep_a_check_from_its_time_limit() {
    let one = start(member(1));
    let (_sockets, full) = full();
    let mut client = one.connect();
    let process = value(&mut client, "SELECT pg_backend_pid()");
    let (sender, receiver) = mpsc::channel();
    spawn(move || {
        sender.send(problems(&mut client, &[format!("{full} connect_timeout=3")])).expect("the test waits");
    });
    let waits = waits_for("SnowflakeRemote");
    one.wait_until(&format!("SELECT {waits} FROM pg_stat_activity WHERE pid = {process}"));
    one.reload();
    let found = receiver.recv_timeout(PATIENCE).expect("a check that ends");
    assert_eq!(found[1], "could not connect to server: timeout expired");
}

/// A host that is dead, one that refuses, and one that does neither.
#[test]
fn each_host_of_a_connection_string_is_tried() {
    let (one, two) = (start(member(1)), start(member(1)));
    let (_listener, silent) = silent();
    let port = silent.split_once("port=").and_then(|(_, rest)| rest.split(' ').next()).expect("a port");
    let hosts = format!(
        "host=127.0.0.1,127.0.0.1,{} port={port},1,5432 user=postgres dbname=postgres connect_timeout=1",
        two.host().display()
    );
    assert_eq!(problems(&mut one.connect(), &[hosts])[1], "same worker ID as this server");
}

/// One that answers no more while it is asked.
#[test]
fn a_server_that_stops_to_answer_is_given_up() {
    let (one, two) = (start(member(1)), start(member(2)));
    two.connect()
        .batch_execute(
            "ALTER EXTENSION snowflake_pg DROP FUNCTION snowflake_identity(); DROP FUNCTION snowflake_identity();
             CREATE FUNCTION snowflake_identity(
                 OUT system_identifier bigint, OUT datacenter_id integer, OUT worker_id integer, OUT state text,
                 OUT layout text, OUT clock timestamptz, OUT in_recovery boolean) LANGUAGE sql AS
                 $$ SELECT 1, 0, 2, 'ready', 't1', now(), false FROM pg_sleep(3600) $$;
             ALTER EXTENSION snowflake_pg ADD FUNCTION snowflake_identity()",
        )
        .expect("a function that takes an hour");
    let began = Instant::now();
    assert_eq!(problems(&mut one.connect(), &[conninfo(&two)])[1], "the server did not answer in time");
    assert!(began.elapsed() < PATIENCE);
}
