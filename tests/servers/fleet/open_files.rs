//! Connections to other servers are among the files that PostgreSQL lets a process open.

use super::fixture::{conninfo, member, problems};
use std::net::TcpListener;
use testbed::{Cluster, error, need_extension, test, value};

/// A server that opens few files. PostgreSQL needs 48, and ten, and those that are open from the start.
fn start() -> Cluster {
    need_extension("dblink");
    let cluster = member(1).set("max_files_per_process", 80).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION dblink").expect("the extensions");
    cluster
}

/// A connection needs a file for its socket, and one for the wait for it.
#[test]
fn a_server_for_which_a_session_has_no_file_left_is_a_problem_and_the_session_goes_on() {
    let (one, two) = (start(), super::fixture::start(member(1)));
    let mut client = one.connect();
    let open = format!("SELECT dblink_connect('link ' || $1::integer, '{}')", conninfo(&two));
    let asked = vec![conninfo(&two); 5];
    let answered = ["same worker ID as this server"; 5];
    let refused = ["could not establish connection: too many open files on the local server"; 5];
    let mut links = 0;
    loop {
        let found = problems(&mut client, &asked);
        if found[1..] == refused {
            break;
        }
        assert_eq!(found[1..], answered, "beside {links} connections");
        client.execute(&open, &[&links]).expect("a connection of dblink");
        links += 1;
    }
    assert!((5..40).contains(&links), "{links}");
    // dblink of PostgreSQL 15 waits without another file.
    if client.execute(&open, &[&links]).is_ok() {
        assert_eq!(problems(&mut client, &asked)[1..], refused);
        value(&mut client, &format!("SELECT dblink_disconnect('link {links}')"));
    }
    value(&mut client, "SELECT dblink_disconnect('link 0')");
    assert_eq!(problems(&mut client, &asked)[1..], answered);
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
