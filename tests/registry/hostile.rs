//! A registry that answers as no server should.

use super::fixture::{OF_NEXT_ID, answer_of, member, start, worker_of};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, HOSTILE_NOTICE, HostileAnswer, HostileServer, PATIENCE, Registry, Signal, test};

const CLIENT: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_pg registry client'";

#[test]
fn a_server_stops_whose_registry_answers_with_copy_or_without_end_and_says_what_is_wrong() {
    let mut server =
        start(Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", "host=/nowhere"));
    for answer in HostileAnswer::ALL {
        let expected = match answer {
            HostileAnswer::Copy(_) => "The server has sent an unexpected answer",
            HostileAnswer::Results => "The server has sent more than one answer",
            HostileAnswer::Rows
            | HostileAnswer::LongRow
            | HostileAnswer::Parameters
            | HostileAnswer::ParametersAtStart => "The server's answer needs more than 64 MB of memory",
            // It is given up after twenty seconds, and asked again.
            HostileAnswer::Notices | HostileAnswer::Silence | HostileAnswer::LongHash => "",
        };
        server.configure("snowflake_pg.registry_conninfo", HostileServer::start(answer).conninfo());
        server.restart(Signal::INT);
        if expected.is_empty() {
            server.wait_until(
                "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'snowflake_pg registry client'",
            );
        } else {
            server.wait_until(&format!(
                "SELECT registry_error LIKE '%{}%' FROM snowflake_status",
                expected.replace('\'', "''")
            ));
        }
        let status = fs::read_to_string(format!("/proc/{}/status", answer_of(&server, CLIENT))).expect("a process");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory").trim();
        let most: u64 = most.trim_end_matches(" kB").parse().expect("a number");
        assert!(most < 200_000, "{answer:?}: {most} kB");
        server.stop(Signal::INT);
        server.start();
    }
    assert!(!server.log().contains(HOSTILE_NOTICE));
}

/// libpq computes that itself, and nothing interrupts it: see SECURITY.md.
#[test]
fn a_registry_that_asks_for_an_hours_hash_delays_no_id_and_an_immediate_stop_ends_it() {
    let registry = Registry::start();
    let mut server = start(member(&registry).environment("PGPASSWORD", "secret"));
    worker_of(&server);
    server.configure("snowflake_pg.registry_conninfo", HostileServer::start(HostileAnswer::LongHash).conninfo());
    server.reload();
    let client = answer_of(&server, CLIENT);
    // In clock ticks, the fourteenth number: a connection needs none.
    let used = || {
        let line = fs::read_to_string(format!("/proc/{client}/stat")).expect("a process");
        line.rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(11))
            .expect("a number")
            .parse::<u64>()
            .expect("ticks")
    };
    let deadline = Instant::now() + PATIENCE;
    while used() < 100 {
        assert!(Instant::now() < deadline, "{}", server.log());
        sleep(Duration::from_millis(20));
    }
    answer_of(&server, OF_NEXT_ID);
    server.stop(Signal::QUIT);
    server.configure("snowflake_pg.registry_conninfo", registry.conninfo());
    server.start();
    answer_of(&server, OF_NEXT_ID);
}
