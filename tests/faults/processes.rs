//! Processes that end without warning, or that are not there.

use super::fixture::{assert_kept, assert_kept_without_errors, new_server, server, signed};
use super::suite::{Evidence, Fault};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, Load, PATIENCE, RESERVE_AHEAD_MS, Report, Signal, Witness, real_time};

pub const FAULTS: &[Fault] = &[
    Fault { row: 1, promise: "ids_stay_unique_when_backends_are_killed", short: 10, full: 50, run: backends_killed },
    Fault {
        row: 2,
        promise: "ids_stay_unique_when_the_whole_server_is_killed",
        short: 6,
        full: 60,
        run: server_killed,
    },
    Fault {
        row: 3,
        promise: "ids_stay_unique_when_the_clock_goes_back_at_every_restart",
        short: 4,
        full: 50,
        run: clock_goes_back_at_every_restart,
    },
    Fault {
        row: 3,
        promise: "sessions_that_end_leave_the_mark_above_what_others_issue",
        short: 4,
        full: 30,
        run: sessions_end,
    },
    Fault {
        row: 4,
        promise: "quick_crashes_do_not_drive_the_server_away_from_its_clock",
        short: 8,
        full: 20,
        run: quick_crashes,
    },
    Fault { row: 25, promise: "ids_stay_unique_through_single_user_mode", short: 2, full: 10, run: single_user_mode },
    Fault {
        row: 27,
        promise: "a_keeper_that_is_terminated_is_not_missed_and_comes_back",
        short: 1,
        full: 8,
        run: keeper_terminated,
    },
    Fault {
        row: 27,
        promise: "a_keeper_that_is_terminated_is_waited_for_where_the_mark_has_to_go_through_wal",
        short: 1,
        full: 5,
        run: required_keeper_terminated,
    },
    Fault { row: 27, promise: "a_server_without_a_keeper_refuses_nothing", short: 2, full: 20, run: no_keeper },
];

/// A server that issues IDs already: a new one waits, and would begin to wait anew at every crash.
fn issuing(builder: Builder) -> Cluster {
    let cluster = server(builder);
    Witness::of(&cluster).next_id().expect("an ID");
    cluster
}

/// Something was at stake in every round.
fn assert_many(evidence: Evidence) -> Evidence {
    assert!(evidence.ids > 100 * evidence.rounds, "the row shows nothing: {evidence:?}");
    evidence
}

fn load(cluster: &Cluster) -> Load {
    Load::start(cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 500)")
}

fn backends_killed(rounds: usize) -> Evidence {
    let cluster = issuing(Cluster::builder().worker(1));
    let load = load(&cluster);
    for _ in 0..rounds {
        sleep(Duration::from_millis(100));
        cluster.kill_backend();
    }
    sleep(Duration::from_millis(100));
    let report = load.finish();
    assert!(report.outages() > 0, "the crashes were noticed");
    let evidence = assert_kept_without_errors(rounds, &report, 0);
    let lead = evidence.lead_ms.expect("a lead");
    assert!(lead <= RESERVE_AHEAD_MS.into(), "{lead} ms ahead");
    assert_many(evidence).crashes(rounds)
}

/// Once with the postmaster last, and once with the postmaster alone: its children end when they notice.
fn server_killed(rounds: usize) -> Evidence {
    let mut cluster = issuing(Cluster::builder().worker(1));
    let load = load(&cluster);
    for round in 0..rounds {
        sleep(Duration::from_millis(150));
        if round % 2 == 0 {
            cluster.kill_all();
        } else {
            cluster.stop(Signal::KILL);
        }
        cluster.start();
    }
    sleep(Duration::from_millis(150));
    let report = load.finish();
    assert!(report.outages() > 0, "the crashes were noticed");
    assert_many(assert_kept_without_errors(rounds, &report, 0)).crashes(rounds)
}

fn clock_goes_back_at_every_restart(rounds: usize) -> Evidence {
    let mut cluster = issuing(Cluster::builder().worker(1).own_clock());
    let load = load(&cluster);
    for round in 0..rounds {
        // For as long as the clock goes back, so that it shows times at which there are IDs.
        sleep(Duration::from_secs(1));
        cluster.stop(Signal::QUIT);
        cluster.set_clock(if round % 2 == 0 { -1.0 } else { 0.0 });
        cluster.start();
    }
    load.wait_for_ids();
    assert_many(assert_kept_without_errors(rounds, &load.finish(), -1000)).crashes(rounds)
}

/// Every crash brings the server to its mark. If the next mark were counted from there, and not from the clock, each
/// would take it further.
fn quick_crashes(rounds: usize) -> Evidence {
    let cluster = server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    for _ in 0..rounds {
        witness.next_id().expect("an ID");
        cluster.kill_backend();
        witness.connect(&cluster);
    }
    witness.next_id().expect("an ID");
    let ahead = signed(cluster.mark()) - signed(real_time());
    assert!(ahead <= RESERVE_AHEAD_MS.into(), "the mark is {ahead} ms ahead");
    assert_kept_without_errors(rounds, &witness.report(), 0).crashes(rounds)
}

fn single_user_mode(rounds: usize) -> Evidence {
    let mut cluster = server(Cluster::builder().worker(1));
    let mut witness = Witness::of(&cluster);
    for round in 0..rounds {
        witness.ask("SELECT snowflake_nextvals(5000)").expect("IDs");
        // After a crash, single-user mode is also what recovers.
        cluster.stop(if round % 2 == 0 { Signal::INT } else { Signal::QUIT });
        let printed = cluster.single_user(
            "SELECT snowflake_nextval() AS id FROM generate_series(1, 1000)\nSELECT snowflake_nextvals(1000) AS id\n",
        );
        // A row is printed as: 1: id = "1541815603606036480"	(typeid = 20, …
        let ids = printed.lines().filter_map(|line| line.split('"').nth(1)?.parse::<i64>().ok());
        let ids: Vec<_> = ids.collect();
        assert_eq!(ids.len(), 2000, "{printed}");
        witness.add(ids);
        cluster.start();
        witness.connect(&cluster);
    }
    witness.ask("SELECT snowflake_nextvals(5000)").expect("IDs");
    assert_kept_without_errors(rounds, &witness.report(), 0).crashes(rounds / 2)
}

/// The process number of the keeper, once there is one that is not `before`.
fn keeper(cluster: &Cluster, before: i32) -> i32 {
    let query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper' AND pid <> $1";
    let deadline = Instant::now() + PATIENCE;
    loop {
        // In a new session each time: up to PostgreSQL 15, a postmaster that is told of an end just before it goes to
        // sleep wakes up a minute later, or when somebody connects.
        if let Some(row) = cluster.connect().query_opt(query, &[&before]).expect("a query") {
            return row.get(0);
        }
        assert!(Instant::now() < deadline, "there is no keeper");
        sleep(Duration::from_millis(20));
    }
}

/// With marks that last for a moment only, so that they have to be extended while the keeper is away.
fn keeper_terminated(rounds: usize) -> Evidence {
    let cluster = server(Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", "100ms"));
    let mut witness = Witness::of(&cluster);
    // A new server waits for a moment, which is not to count.
    witness.next_id().expect("an ID");
    let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 10)");
    let mut terminated = 0;
    for _ in 0..rounds {
        terminated = keeper(&cluster, terminated);
        witness.session().query_one("SELECT pg_terminate_backend($1)", &[&terminated]).expect("a signal");
        wait_until_mark_moves(&cluster);
    }
    keeper(&cluster, terminated);
    sleep(Duration::from_millis(300));
    assert_kept_without_errors(rounds, &load.finish(), 0)
}

/// Nobody else may extend the mark. It comes back after five seconds: longer than a call waits, unless it is told to.
fn required_keeper_terminated(rounds: usize) -> Evidence {
    let cluster = server(Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "require"));
    // A new server's keeper may have looked before the extension was there, and looks again a second later.
    cluster.wait_until("SELECT state = 'idle' FROM snowflake_status");
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    let mut terminated = 0;
    for _ in 0..rounds {
        terminated = keeper(&cluster, terminated);
        witness.session().query_one("SELECT pg_terminate_backend($1)", &[&terminated]).expect("a signal");
        let deadline = Instant::now() + PATIENCE;
        let refused = loop {
            assert!(Instant::now() < deadline, "IDs above a mark that nobody extends");
            match witness.next_id() {
                Ok(_) => sleep(Duration::from_millis(50)),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused.code().code(), "53400", "{refused:?}");
        assert_eq!(refused.message(), "could not write the durable mark to WAL in time");
        keeper(&cluster, terminated);
        witness.next_id().expect("IDs again");
    }
    cluster.configure("snowflake_pg.max_wait", "30s");
    cluster.reload();
    terminated = keeper(&cluster, terminated);
    witness.session().query_one("SELECT pg_terminate_backend($1)", &[&terminated]).expect("a signal");
    sleep(Duration::from_secs(3));
    witness.next_id().expect("an ID that was waited for");
    assert_kept(rounds, &witness.report(), 0)
}

fn no_keeper(rounds: usize) -> Evidence {
    let builder = Cluster::builder().worker(1).set("max_worker_processes", 0);
    let cluster = new_server(builder.set("snowflake_pg.reserve_ahead", "100ms"));
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    let load = load(&cluster);
    for round in 0..rounds {
        wait_until_mark_moves(&cluster);
        if round % 2 == 0 {
            cluster.kill_backend();
        }
    }
    let query = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper'";
    let keepers: i64 = cluster.connect().query_one(query, &[]).expect("a query").get(0);
    assert_eq!(keepers, 0, "the test means something only without one");
    let report = load.finish();
    assert_kept_without_errors(rounds, &report, 0).crashes(rounds.div_ceil(2))
}

/// Only the postmaster may lower the mark, when nobody else is left. Then the server is killed, and comes back with its
/// clock set back, so that nothing but the mark keeps IDs from coming twice.
fn sessions_end(rounds: usize) -> Evidence {
    let mut cluster = issuing(Cluster::builder().worker(1).own_clock());
    let load = load(&cluster);
    let mut report = Report::default();
    for round in 0..rounds {
        for _ in 0..20 {
            let mut witness = Witness::of(&cluster);
            witness.next_id().expect("an ID");
            report.merge(witness.report());
        }
        sleep(Duration::from_millis(30));
        cluster.kill_all();
        // Further than a restart takes on a busy machine: a clock that has passed what was issued would hide a low
        // mark.
        cluster.set_clock(if round % 2 == 0 { -2.0 } else { 0.0 });
        cluster.start();
    }
    report.merge(load.finish());
    assert_kept_without_errors(rounds, &report, -2000).crashes(rounds)
}

fn wait_until_mark_moves(cluster: &Cluster) {
    let (mark, deadline) = (cluster.mark(), Instant::now() + PATIENCE);
    while cluster.mark() <= mark {
        assert!(Instant::now() < deadline, "the mark stays where it was");
        sleep(Duration::from_millis(10));
    }
}
