//! Servers that answer as no server should.

use super::fixture::{conninfo, member, start};
use std::fs;
use std::sync::mpsc;
use std::thread::spawn;
use std::time::Instant;
use testbed::postgres::Client;
use testbed::{HOSTILE_NOTICE, HostileAnswer, HostileServer, PATIENCE, Signal, test, value, waits_for};

const CHECK: &str = "SELECT coalesce(problem, '') FROM snowflake_check_fleet($1) ORDER BY server";

const AUDIT: &str = "SELECT coalesce(detail, '') FROM snowflake_audit_fleet($1) WHERE result = 'not seen'";

const TOO_LATE: &str = "the server did not answer in time";

/// What a machine that is busy with other things has of any server: less than that in time.
const SLOW: [&str; 2] = [TOO_LATE, "could not connect to server: timeout expired"];

/// Asks servers in a thread of its own, which gives the session back, and what it has got.
fn ask(
    mut client: Client,
    query: &'static str,
    asked: Vec<String>,
) -> mpsc::Receiver<(Client, Result<Vec<String>, String>)> {
    let (sender, receiver) = mpsc::channel();
    spawn(move || {
        let answer = client.query(query, &[&asked]);
        let answer = answer.map(|rows| rows.iter().map(|row| row.get(0)).collect());
        let refused = |error: testbed::postgres::Error| {
            error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
        };
        // Nobody may wait any more.
        let _ = sender.send((client, answer.map_err(refused)));
    });
    receiver
}

/// The most memory that a process has had, in kilobytes.
fn most_memory(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn expected(answer: HostileAnswer) -> &'static str {
    match answer {
        HostileAnswer::Copy(_) => "the server has sent an unexpected answer",
        HostileAnswer::Results => "the server has sent more than one answer",
        HostileAnswer::Rows | HostileAnswer::LongRow | HostileAnswer::Parameters | HostileAnswer::ParametersAtStart => {
            "the server's answer needs more than 64 MB of memory"
        }
        HostileAnswer::Notices | HostileAnswer::Silence | HostileAnswer::LongHash => TOO_LATE,
    }
}

#[test]
fn a_server_that_answers_with_copy_or_without_end_is_a_problem_and_takes_little_memory() {
    let (one, two) = (start(member(1)), start(member(1)));
    for query in [CHECK, AUDIT] {
        let mut client = one.connect();
        let process = value(&mut client, "SELECT pg_backend_pid()");
        for answer in HostileAnswer::ALL {
            let before = most_memory(&process);
            let asked = vec![HostileServer::start(answer).conninfo(), conninfo(&two)];
            let begun = Instant::now();
            loop {
                let answers;
                (client, answers) = ask(client, query, asked.clone()).recv_timeout(PATIENCE).expect("an answer");
                let answers = answers.expect("rows");
                if answers.iter().any(|problem| problem.contains(expected(answer))) {
                    break;
                }
                let is_slow = answers.iter().any(|problem| SLOW.iter().any(|slow| problem.contains(slow)));
                assert!(is_slow && begun.elapsed() < PATIENCE, "{answer:?}: {answers:?}");
            }
            // Linux's counts of pages are inexact: its most can become less.
            let more = most_memory(&process).saturating_sub(before);
            assert!(more < 160_000, "{answer:?}: {more} kB");
        }
    }
    assert!(!one.log().contains(HOSTILE_NOTICE));
}

#[test]
fn a_check_of_a_server_that_answers_without_end_can_be_cancelled_terminated_and_stopped() {
    let mut one = start(member(1));
    for answer in [HostileAnswer::Notices, HostileAnswer::Silence] {
        // Each keeps the check for some seconds.
        let asked = vec![HostileServer::start(answer).conninfo(); 1000];
        let begin = || {
            let mut client = one.connect();
            let process = value(&mut client, "SELECT pg_backend_pid()");
            let answer = ask(client, CHECK, asked.clone());
            let waits = waits_for("SnowflakeRemote");
            one.wait_until(&format!("SELECT {waits} FROM pg_stat_activity WHERE pid = {process}"));
            (process, answer)
        };
        let (process, receiver) = begin();
        value(&mut one.connect(), &format!("SELECT pg_cancel_backend({process})"));
        assert_eq!(receiver.recv_timeout(PATIENCE).expect("an end").1.expect_err("cancelled"), "57014", "{answer:?}");
        let (process, receiver) = begin();
        value(&mut one.connect(), &format!("SELECT pg_terminate_backend({process})"));
        // The client reads the last message, or finds that the connection is closed.
        receiver.recv_timeout(PATIENCE).expect("an end").1.expect_err("terminated");
        let (_, receiver) = begin();
        one.restart(Signal::INT);
        receiver.recv_timeout(PATIENCE).expect("an end").1.expect_err("stopped");
    }
}
