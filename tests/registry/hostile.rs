//! A registry that answers as no server should.

use super::fixture::{answer_of, start};
use std::fs;
use testbed::{Cluster, HOSTILE_NOTICE, HostileAnswer, HostileServer, Signal, test};

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
            HostileAnswer::Notices | HostileAnswer::Silence => "",
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
        let client = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_pg registry client'";
        let status = fs::read_to_string(format!("/proc/{}/status", answer_of(&server, client))).expect("a process");
        let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory").trim();
        let most: u64 = most.trim_end_matches(" kB").parse().expect("a number");
        assert!(most < 200_000, "{answer:?}: {most} kB");
        server.stop(Signal::INT);
        server.start();
    }
    assert!(!server.log().contains(HOSTILE_NOTICE));
}
