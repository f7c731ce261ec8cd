//! Connections to other servers are among the files that PostgreSQL lets a process open.

use super::fixture::{conninfo, member, problems};
use std::net::TcpListener;
use testbed::{Cluster, error, test, value};

/// A server that opens few files. PostgreSQL needs 48, and ten, and those that are open from the start.
fn start() -> Cluster {
    let cluster = member(1).set("max_files_per_process", 80).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION dblink").expect("the extensions");
    cluster
}

/// The session has all connections that it may have, but for none, one and two.
#[test]
fn a_server_for_which_a_session_has_no_file_left_is_a_problem_and_the_session_goes_on() {
    let (one, two) = (start(), super::fixture::start(member(1)));
    let mut client = one.connect();
    let open = format!("SELECT dblink_connect('link ' || $1::integer, '{}')", conninfo(&two));
    let links = (0..80).take_while(|link| client.execute(&open, &[link]).is_ok()).count();
    assert!((5..40).contains(&links), "{links}");
    let refused = client.execute(&open, &[&-1]).expect_err("too many").as_db_error().cloned().expect("an error");
    assert_eq!(refused.code().code(), "08001", "of dblink: {refused:?}");
    let asked = vec![conninfo(&two); 5];
    for free in 0..2 {
        let found = problems(&mut client, &asked);
        let expected = "could not establish connection: too many open files on the local server";
        assert_eq!(found, ["", expected, expected, expected, expected, expected], "with {free} files free");
        value(&mut client, &format!("SELECT dblink_disconnect('link {free}')"));
    }
    let found = problems(&mut client, &asked);
    assert!(found.iter().skip(1).all(|problem| problem == "same worker ID as this server"), "{found:?}");
}

#[test]
fn a_check_gives_its_files_back_also_when_it_is_cancelled() {
    let (one, two) = (start(), super::fixture::start(member(1)));
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let mut client = one.connect();
    for _ in 0..50 {
        client.batch_execute("SET statement_timeout = '20ms'").expect("a setting");
        let check = format!("SELECT snowflake_check_fleet('{{host=127.0.0.1 port={port}}}')");
        assert_eq!(error(&mut client, &check).code().code(), "57014");
    }
    client.batch_execute("SET statement_timeout = 0").expect("a setting");
    let found = problems(&mut client, &vec![conninfo(&two); 50]);
    assert!(found.iter().skip(1).all(|problem| problem == "same worker ID as this server"), "{found:?}");
}
