//! Calls that wait, and are told to end.

use super::fixture::{assert_kept, server, started};
use super::suite::{Evidence, Fault};
use std::panic::resume_unwind;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, Load, Order, Report, Signal, Witness, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 15,
        promise: "a_call_that_waits_for_the_clock_ends_when_it_is_told_to",
        short: 1,
        full: 10,
        run: interrupted_while_the_clock_is_behind,
    },
    Fault {
        row: 15,
        promise: "a_call_that_waits_until_the_clock_catches_up_ends_when_it_is_told_to",
        short: 1,
        full: 10,
        run: interrupted_while_the_clock_catches_up,
    },
    Fault {
        row: 15,
        promise: "a_call_that_waits_for_full_ticks_ends_when_it_is_told_to",
        short: 1,
        full: 10,
        run: interrupted_while_ticks_are_full,
    },
    Fault {
        row: 15,
        promise: "queued_calls_end_when_they_are_told_to_and_the_others_go_on",
        short: 1,
        full: 10,
        run: interrupted_in_the_queue,
    },
    Fault {
        row: 15,
        promise: "a_call_that_waits_for_a_slow_disk_ends_when_it_is_told_to",
        short: 1,
        full: 10,
        run: interrupted_while_the_disk_is_slow,
    },
];

/// How long a call may take to end when it is told to. It is far below that, however busy the machine is; only a call
/// that goes on waiting is not.
const PROMPT: Duration = Duration::from_secs(30);

/// How far the clock goes back, in seconds, so that calls wait for longer than that; and how long they may wait.
const STEP_BACK: f64 = -60.0;
const MAX_WAIT: &str = "5min";

/// Ways to end a call, and what the server then logs. The first one is the call's own.
const INTERRUPTIONS: [(&str, &str); 3] = [
    ("statement_timeout", "ERROR:  canceling statement due to statement timeout"),
    ("pg_cancel_backend", "ERROR:  canceling statement due to user request"),
    ("pg_terminate_backend", "FATAL:  terminating connection due to administrator command"),
];

/// A call that does not end by itself. In FROM, the series would be made whole before the first ID is asked for.
const ENDLESS: &str = "SELECT max(snowflake_nextval()) FROM (SELECT generate_series(1, 1000000000000)) AS line";

/// Lets a call wait for a moment, and ends it.
fn interrupt(cluster: &Cluster, witness: &mut Witness, query: &str, (how, logs): (&str, &str)) {
    let waits = Duration::from_millis(200);
    let timeout = if how == "statement_timeout" { waits.as_millis() } else { 0 };
    witness.session().batch_execute(&format!("SET statement_timeout = {timeout}")).expect("a setting");
    let backend = value(witness.session(), "SELECT pg_backend_pid()");
    let logged = || cluster.log().matches(logs).count();
    let before = logged();
    thread::scope(|scope| {
        let call = scope.spawn(|| (witness.ask(query), Instant::now()));
        if timeout == 0 {
            // What is told to a session without a call has no effect.
            cluster.wait_until(&format!("SELECT state = 'active' FROM pg_stat_activity WHERE pid = {backend}"));
        }
        sleep(waits);
        let told = Instant::now();
        // Again and again: a session that is between the messages of its call takes no notice.
        while timeout == 0 && !call.is_finished() && told.elapsed() < PROMPT {
            cluster.connect().batch_execute(&format!("SELECT {how}({backend})")).expect("a signal");
            sleep(waits);
        }
        let (answer, ended) = call.join().unwrap_or_else(|panic| resume_unwind(panic));
        let took = ended.saturating_duration_since(told);
        assert!(took < PROMPT, "{how} took {took:?}");
        // Or none at all: a client whose session is terminated does not always get to read why.
        assert!(answer.map_or(true, |ids| ids.is_empty()), "{how} has no effect");
    });
    assert_eq!(logged(), before + 1, "{how}: {}", cluster.log());
    witness.connect(cluster);
}

fn interrupted_while_the_clock_is_behind(rounds: usize) -> Evidence {
    interrupted_after_a_step(rounds, Cluster::builder().set("snowflake_pg.max_wait", MAX_WAIT))
}

fn interrupted_while_the_clock_catches_up(rounds: usize) -> Evidence {
    interrupted_after_a_step(rounds, waiting())
}

/// A server that waits for a clock which has gone back.
fn waiting() -> Builder {
    Cluster::builder().set("snowflake_pg.clock_regression", "wait").set("snowflake_pg.max_wait", MAX_WAIT)
}

fn interrupted_after_a_step(rounds: usize, builder: Builder) -> Evidence {
    let cluster = started(builder.worker(1).own_clock());
    let mut witness = Witness::of(&cluster);
    let calls = rounds * INTERRUPTIONS.len();
    for &interruption in INTERRUPTIONS.iter().cycle().take(calls) {
        cluster.set_clock(0.0);
        witness.next_id().expect("an ID");
        cluster.set_clock(STEP_BACK);
        interrupt(&cluster, &mut witness, "SELECT snowflake_nextval()", interruption);
    }
    cluster.set_clock(0.0);
    witness.next_id().expect("an ID");
    assert_kept(calls, &witness.report(), 0)
}

/// While others take all they can get.
fn interrupted_while_ticks_are_full(rounds: usize) -> Evidence {
    let cluster = started(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    let others = Load::start(&cluster, 3, "SELECT max(id) FROM snowflake_nextvals(200000) id");
    let calls = rounds * INTERRUPTIONS.len();
    for &interruption in INTERRUPTIONS.iter().cycle().take(calls) {
        interrupt(&cluster, &mut witness, ENDLESS, interruption);
    }
    witness.next_id().expect("an ID");
    let mut report = others.finish();
    assert_eq!(report.errors().len(), 0, "{:?}", report.errors());
    report.merge(witness.report());
    assert_kept(calls, &report, 0)
}

/// Fifteen calls behind one that leads the queue: they are told to end in every way, this one too, or get their ID
/// when the clock is right again.
fn interrupted_in_the_queue(rounds: usize) -> Evidence {
    const CALLS: usize = 16;
    let cluster = started(waiting().worker(1).own_clock());
    let mut report = Report::default();
    for round in 0..rounds {
        let mut admin = Witness::of(&cluster);
        admin.next_id().expect("an ID");
        cluster.set_clock(STEP_BACK);
        let mut calls: Vec<_> = (0..CALLS).map(|_| Witness::of(&cluster)).collect();
        let backends: Vec<_> = calls.iter_mut().map(|call| value(call.session(), "SELECT pg_backend_pid()")).collect();
        thread::scope(|scope| {
            let calls: Vec<_> = calls
                .iter_mut()
                .zip(&backends)
                .map(|(call, backend)| {
                    let call = scope.spawn(move || (call.ask("SELECT snowflake_nextval()"), Instant::now()));
                    // One after the other: the first one leads.
                    let waits = format!("SELECT wait_event_type FROM pg_stat_activity WHERE pid = {backend}");
                    while value(admin.session(), &waits) != "Extension" {
                        sleep(Duration::from_millis(1));
                    }
                    call
                })
                .collect();
            let mut told = Vec::new();
            for (number, backend) in backends.iter().enumerate() {
                let how = match number {
                    0 if round % 2 == 0 => "pg_terminate_backend",
                    0 => "pg_cancel_backend",
                    _ => ["pg_terminate_backend", "pg_cancel_backend", "none"][number % 3],
                };
                if how != "none" {
                    told.push((number, Instant::now()));
                    admin.session().batch_execute(&format!("SELECT {how}({backend})")).expect("a signal");
                }
            }
            // Nobody else ends before the clock is right.
            sleep(Duration::from_millis(200));
            let right = Instant::now();
            cluster.set_clock(0.0);
            for (number, call) in calls.into_iter().enumerate() {
                let (answer, ended) = call.join().unwrap_or_else(|panic| resume_unwind(panic));
                let told = told.iter().find(|(told, _)| *told == number).map(|(_, at)| *at);
                // A client whose session is terminated does not always get to read why.
                let got_one = answer.as_ref().is_ok_and(|ids| !ids.is_empty());
                assert_eq!(got_one, told.is_none(), "call {number} of round {round}: {answer:?}");
                let took = ended.saturating_duration_since(told.unwrap_or(right));
                assert!(took < PROMPT, "call {number} of round {round} took {took:?}");
                assert!(told.is_some() || ended > right, "call {number} of round {round} did not wait");
            }
        });
        for call in calls {
            report.merge(call.report());
        }
        report.merge(admin.report());
    }
    assert_kept(rounds * CALLS, &report, 0)
}

/// Right after a start, when the first mark is being written, by a call that does not end by itself.
fn interrupted_while_the_disk_is_slow(rounds: usize) -> Evidence {
    let builder = Cluster::builder().worker(1).faulty_disk().set("snowflake_pg.reserve_ahead", "100ms");
    let mut cluster = server(builder);
    let mut witness = Witness::of(&cluster);
    let calls = rounds * INTERRUPTIONS.len();
    for &interruption in INTERRUPTIONS.iter().cycle().take(calls) {
        cluster.disk().obey(Order::Work);
        witness.next_id().expect("an ID");
        cluster.restart(Signal::QUIT);
        cluster.disk().obey(Order::Slow(Duration::from_millis(300)));
        witness.connect(&cluster);
        interrupt(&cluster, &mut witness, ENDLESS, interruption);
    }
    witness.next_id().expect("an ID");
    assert_kept(calls, &witness.report(), 0).crashes(calls)
}
