//! Clocks that are set, stepped, strobed, or nowhere near the time.

use super::fixture::{MAX_BORROW_MS, assert_kept, assert_kept_without_errors, server, signed};
use super::suite::{Evidence, Fault};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, PATIENCE, RESERVE_AHEAD_MS, Report, Signal, Witness, issued_at, real_time, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 8,
        promise: "a_clock_set_back_by_less_than_max_borrow_goes_unnoticed",
        short: 1,
        full: 5,
        run: set_back_a_little,
    },
    Fault {
        row: 8,
        promise: "a_clock_set_back_goes_unnoticed_by_a_saturated_server_that_has_just_started",
        short: 1,
        full: 5,
        run: set_back_at_the_start,
    },
    Fault {
        row: 9,
        promise: "a_clock_set_back_by_more_than_max_borrow_is_refused_until_it_has_caught_up",
        short: 1,
        full: 3,
        run: set_back_far,
    },
    Fault {
        row: 10,
        promise: "a_clock_set_back_across_a_restart_is_refused_until_it_has_caught_up",
        short: 1,
        full: 3,
        run: set_back_across_a_restart,
    },
    Fault {
        row: 10,
        promise: "a_clock_set_back_while_a_new_server_waits_is_told_of_by_when_its_ids_begin",
        short: 1,
        full: 3,
        run: set_back_before_the_first_id,
    },
    Fault {
        row: 11,
        promise: "a_clock_that_is_a_day_ahead_for_a_while_leaves_no_trace",
        short: 1,
        full: 3,
        run: a_day_ahead,
    },
    Fault {
        row: 11,
        promise: "a_clock_that_was_a_day_behind_is_trusted_when_it_is_accepted",
        short: 1,
        full: 3,
        run: a_day_ahead_accepted,
    },
    Fault {
        row: 11,
        promise: "a_clock_that_is_accepted_is_trusted_by_the_next_id_of_the_same_statement",
        short: 20,
        full: 200,
        run: accepted_while_a_tick_is_open,
    },
    Fault {
        row: 11,
        promise: "a_clock_that_was_a_day_behind_is_trusted_when_it_has_held_for_a_minute",
        short: 0,
        full: 1,
        run: a_day_ahead_held,
    },
    Fault {
        row: 11,
        promise: "a_clock_that_is_a_day_ahead_is_not_trusted_because_a_backend_was_killed",
        short: 2,
        full: 10,
        run: a_day_ahead_at_a_crash,
    },
    Fault {
        row: 12,
        promise: "a_clock_outside_the_layout_is_refused_and_never_wraps",
        short: 1,
        full: 5,
        run: outside,
    },
    Fault { row: 13, promise: "a_leap_second_goes_unnoticed_at_full_load", short: 1, full: 10, run: leap_seconds },
    Fault { row: 14, promise: "a_clock_that_strobes_goes_unnoticed", short: 4, full: 60, run: strobing },
];

const DAY_MS: i64 = 86_400_000;

/// A server with a clock of its own that has issued an ID.
fn server_with_clock() -> Cluster {
    let cluster = server(Cluster::builder().worker(1).own_clock());
    Witness::of(&cluster).next_id().expect("an ID");
    cluster
}

fn load(cluster: &Cluster) -> Load {
    Load::start(cluster, 4, "SELECT snowflake_nextval() FROM generate_series(1, 100)")
}

/// Waits until a server whose clock is too far behind issues IDs again.
fn recovery(cluster: &Cluster) {
    let mut client = cluster.connect();
    let since = Instant::now();
    while client.batch_execute("SELECT snowflake_nextval()").is_err() {
        assert!(since.elapsed() < PATIENCE, "no ID for {PATIENCE:?}");
    }
}

fn set_back_a_little(rounds: usize) -> Evidence {
    let cluster = server_with_clock();
    let mut report = Report::default();
    let mut lead = 0;
    for _ in 0..rounds {
        let right = load(&cluster);
        right.wait_for_ids();
        report.merge(right.finish());
        cluster.set_clock(-3.0);
        let behind = load(&cluster);
        behind.wait_for_ids();
        sleep(Duration::from_millis(1500));
        let behind = behind.finish();
        lead = lead.max(assert_kept_without_errors(rounds, &behind, -3000).lead_ms.expect("a lead"));
        report.merge(behind);
        cluster.set_clock(0.0);
    }
    assert_kept_without_errors(rounds, &report, -3000).lead_ms(lead)
}

/// A saturated server uses up ticks while it is ahead, so its mark has to be extended by a clock that is behind.
fn set_back_at_the_start(rounds: usize) -> Evidence {
    let mut cluster = server_with_clock();
    let mut report = Report::default();
    for round in 0..rounds {
        cluster.set_clock(-3.0);
        let load = Load::start(&cluster, 2, "SELECT max(id) FROM snowflake_nextvals(50000) id");
        sleep(Duration::from_millis(2800));
        report.merge(load.finish());
        cluster.set_clock(0.0);
        // Not before the clock has passed what was issued.
        if round + 1 < rounds {
            sleep(Duration::from_secs(2));
            cluster.restart(Signal::INT);
        }
    }
    assert_kept_without_errors(rounds, &report, -3000)
}

fn set_back_far(rounds: usize) -> Evidence {
    let cluster = server_with_clock();
    let mut lead = 0;
    let mut report = Report::default();
    for round in 1..=rounds {
        let (before, mut witness) = (load(&cluster), Witness::of(&cluster));
        before.wait_for_ids();
        report.merge(before.finish());
        let offset = -10 * i64::try_from(round).expect("a few");
        cluster.set_clock(seconds(offset));
        let refused = witness.refusal();
        let after = load(&cluster);
        recovery(&cluster);
        after.wait_for_ids();
        let after = after.finish();
        assert_eq!(refused.message(), "the server's clock is too far behind the last ID issued");
        assert!(after.errors().keys().all(|error| error.ends_with(refused.message())), "{:?}", after.errors());
        lead = lead.max(assert_kept(rounds, &after, offset * 1000).lead_ms.expect("a lead"));
        report.merge(after);
        // Until IDs are by the clock again, so that the next step is as far as this one.
        if round < rounds {
            sleep(Duration::from_millis(MAX_BORROW_MS.cast_unsigned()));
        }
    }
    report.assert_unique_and_ordered();
    Evidence::new(rounds, &report).lead_ms(lead)
}

fn set_back_across_a_restart(rounds: usize) -> Evidence {
    let mut cluster = server_with_clock();
    let mut lead = 0;
    let mut report = Report::default();
    for round in 1..=rounds {
        let before = load(&cluster);
        before.wait_for_ids();
        report.merge(before.finish());
        let offset = -10 * i64::try_from(round).expect("a few");
        cluster.stop(Signal::INT);
        // So far that it has not caught up yet, however long the start takes.
        cluster.set_clock(seconds(offset) - 600.0);
        cluster.start();
        let mut witness = Witness::of(&cluster);
        let refused = witness.refusal();
        cluster.set_clock(seconds(offset));
        assert_eq!(refused.code().code(), "53400");
        assert!(refused.detail().is_some_and(|detail| detail.ends_with("snowflake_pg.max_borrow is 5000 ms.")));
        assert!(refused.hint().is_some_and(|hint| hint.starts_with("Check the clock.")), "{refused:?}");
        let after = load(&cluster);
        recovery(&cluster);
        after.wait_for_ids();
        let mut after = after.finish();
        after.merge(witness.report());
        lead = lead.max(assert_kept(rounds, &after, offset * 1000).lead_ms.expect("a lead"));
        report.merge(after);
        if round < rounds {
            sleep(Duration::from_millis(MAX_BORROW_MS.cast_unsigned()));
        }
    }
    report.assert_unique_and_ordered();
    Evidence::new(rounds, &report).lead_ms(lead)
}

fn set_back_before_the_first_id(rounds: usize) -> Evidence {
    let mut report = Report::default();
    for _ in 0..rounds {
        let builder = Cluster::builder().worker(1).own_clock();
        let cluster = builder.set("snowflake_pg.max_first_wait", "4s").start();
        let began = real_time();
        let mut witness = Witness::of(&cluster);
        witness.session().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        // The keeper has looked by then.
        cluster.wait_until("SELECT state = 'waiting' FROM snowflake_status");
        cluster.set_clock(-20.0);
        let refused = witness.refusal();
        assert_eq!(refused.code().code(), "53400");
        assert_eq!(refused.message(), "the server's clock is behind the time at which IDs begin");
        let detail = refused.detail().expect("a detail");
        let begin = detail.rsplit("begin at ").next().and_then(|time| time.strip_suffix('.')).expect("a time");
        let seconds = format!("SELECT extract(epoch FROM '{begin}'::timestamptz) - {began} / 1000.0");
        let ahead: f64 = value(witness.session(), &seconds).parse().expect("seconds");
        assert!((-10.0..10.0).contains(&ahead), "{refused:?}");
        assert!(refused.hint().is_some_and(|hint| hint.starts_with("Check the clock. ")), "{refused:?}");
        cluster.set_clock(0.0);
        witness.next_id().expect("an ID");
        report.merge(witness.report());
    }
    assert_kept(rounds, &report, 0)
}

fn seconds(seconds: i64) -> f64 {
    f64::from(i32::try_from(seconds).expect("a few seconds"))
}

/// For five seconds a day ahead, and then right again. What is not trusted must not get into the mark either, not even
/// for a moment: from there is no way back.
fn a_day_ahead(rounds: usize) -> Evidence {
    let cluster = server_with_clock();
    let load = load(&cluster);
    for _ in 0..rounds {
        sleep(Duration::from_millis(300));
        cluster.set_clock(86_400.0);
        let until = Instant::now() + Duration::from_secs(5);
        while Instant::now() < until {
            let ahead = signed(cluster.mark()) - signed(real_time());
            assert!(ahead <= i64::from(RESERVE_AHEAD_MS) + 3_600_000, "the mark is {ahead} ms ahead");
            sleep(Duration::from_millis(50));
        }
        cluster.set_clock(0.0);
        sleep(Duration::from_secs(3));
    }
    let report = load.finish();
    let evidence = assert_kept_without_errors(rounds, &report, 0);
    cluster.wait_for_log("WARNING:  snowflake_pg: the server's clock has jumped ahead");
    evidence
}

/// The clock was a day behind, and now it is right.
fn put_right(round: usize) -> (Cluster, Witness) {
    let cluster = server(Cluster::builder().worker(1).own_clock());
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID by the old clock");
    cluster.set_clock(86_400.0);
    let id = witness.next_id().expect("an ID");
    assert!(signed(issued_at(id)) - signed(real_time()) <= MAX_BORROW_MS, "not trusted at once, in round {round}");
    (cluster, witness)
}

fn a_day_ahead_accepted(rounds: usize) -> Evidence {
    let mut report = Report::default();
    for round in 0..rounds {
        let (cluster, mut witness) = put_right(round);
        witness.session().batch_execute("SELECT snowflake_accept_clock()").expect("a clock that is accepted");
        let ahead = signed(issued_at(witness.next_id().expect("an ID"))) - signed(real_time());
        assert!(ahead > DAY_MS - MAX_BORROW_MS, "{ahead} ms ahead of the old clock:\n{}", cluster.log());
        report.merge(witness.report());
    }
    assert_kept_without_errors(rounds, &report, DAY_MS)
}

/// A statement is shorter than a tick. So in most rounds the tick of the first ID, by the old clock, is still open when
/// the second one is drawn.
fn accepted_while_a_tick_is_open(rounds: usize) -> Evidence {
    const STEP: i64 = 10;
    let cluster = server(Cluster::builder().worker(1).own_clock().set("snowflake_pg.max_forward_jump", "1s"));
    let mut witness = Witness::of(&cluster);
    witness.next_id().expect("an ID");
    let mut offset = 0;
    for round in 1..=rounds {
        offset += STEP;
        cluster.set_clock(seconds(offset));
        // It sees the jump.
        witness.next_id().expect("an ID by the old clock");
        let statement = "SELECT snowflake_nextval(), snowflake_accept_clock(), snowflake_nextval()";
        let row = witness.session().query_one(statement, &[]).expect("a clock that is accepted");
        let ids: [i64; 2] = [row.get(0), row.get(2)];
        let [before, after] = ids.map(issued_at);
        let ahead = signed(after) - signed(before);
        assert!(ahead > STEP * 1000 - MAX_BORROW_MS, "{ahead} ms ahead of the old clock, in round {round}");
        witness.add(ids);
    }
    assert_kept_without_errors(rounds, &witness.report(), offset * 1000)
}

fn a_day_ahead_held(rounds: usize) -> Evidence {
    let mut report = Report::default();
    for round in 0..rounds {
        let (cluster, witness) = put_right(round);
        let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 10)");
        sleep(Duration::from_secs(70));
        report.merge(load.finish());
        report.merge(witness.report());
        let last = report.received().max().expect("IDs");
        let ahead = signed(issued_at(last)) - signed(real_time());
        assert!(ahead > DAY_MS - MAX_BORROW_MS, "{ahead} ms ahead of the old clock:\n{}", cluster.log());
    }
    assert_kept_without_errors(rounds, &report, DAY_MS)
}

/// A crash sets up shared memory anew, and with it what is trusted; after a restart of the server a clock would be.
fn a_day_ahead_at_a_crash(rounds: usize) -> Evidence {
    let cluster = server_with_clock();
    let mut witness = Witness::of(&cluster);
    for round in 0..rounds {
        cluster.set_clock(86_400.0);
        // Somebody has noticed before the crash, or nobody has.
        if round % 2 == 0 {
            witness.next_id().expect("an ID by the old clock");
        }
        cluster.kill_backend();
        witness.connect(&cluster);
        witness.next_id().expect("an ID by the old clock");
        let ahead = signed(cluster.mark()) - signed(real_time());
        assert!(ahead <= MAX_BORROW_MS, "the mark is {ahead} ms ahead in round {round}");
        cluster.set_clock(0.0);
    }
    assert_kept_without_errors(rounds, &witness.report(), 0).crashes(rounds)
}

fn outside(rounds: usize) -> Evidence {
    let cluster = server(Cluster::builder().worker(0).own_clock());
    let mut witness = Witness::of(&cluster);
    let years = 365.25 * 86400.0;
    let mut before = witness.next_id().expect("an ID");
    for _ in 0..rounds {
        // Before the epoch, and before 1970.
        for offset in [-20.0 * years, -60.0 * years] {
            cluster.set_clock(offset);
            let refused = witness.refusal();
            assert_eq!(
                (refused.code().code(), refused.message()),
                ("55000", "the server's clock is before the epoch of the layout")
            );
            assert!(refused.hint().is_some_and(|hint| hint.starts_with("Set the clock")), "{refused:?}");
        }
        // So far ahead it is trusted only when somebody says so.
        cluster.set_clock(60.0 * years);
        witness.session().batch_execute("SELECT snowflake_accept_clock()").expect("a clock");
        let refused = witness.refusal();
        assert_eq!((refused.code().code(), refused.message()), ("2200H", "reached the last timestamp of the layout"));
        assert!(refused.detail().is_some_and(|detail| detail.contains("2080-07-10T17:30:30.208Z")), "{refused:?}");
        assert!(refused.hint().is_some_and(|hint| hint.starts_with("Check the clock.")), "{refused:?}");

        cluster.set_clock(0.0);
        let after = witness.next_id().expect("an ID");
        assert!(after > before && after - before < 1 << 40, "{after} after {before}");
        before = after;
    }
    assert_kept(rounds, &witness.report(), 0)
}

/// One second comes twice. Clients that ask for as much as they can get leave no room in any tick.
fn leap_seconds(rounds: usize) -> Evidence {
    let cluster = server_with_clock();
    let mut report = Report::default();
    let mut lead = 0;
    for round in 0..rounds {
        let offset = -1 - i64::try_from(round).expect("a few");
        let many = Load::start(&cluster, 2, "SELECT max(id) FROM snowflake_nextvals(50000) id");
        let few = load(&cluster);
        few.wait_for_ids();
        sleep(Duration::from_millis(500));
        cluster.set_clock(seconds(offset));
        sleep(Duration::from_millis(1500));
        let mut seen = many.finish();
        seen.merge(few.finish());
        lead = lead.max(assert_kept_without_errors(rounds, &seen, offset * 1000).lead_ms.expect("a lead"));
        report.merge(seen);
        // Leap seconds are years apart: not before the clock has caught up.
        if round + 1 < rounds {
            sleep(Duration::from_millis(MAX_BORROW_MS.cast_unsigned()));
        }
    }
    report.assert_unique_and_ordered();
    Evidence::new(rounds, &report).lead_ms(lead)
}

fn strobing(seconds: usize) -> Evidence {
    let cluster = server_with_clock();
    let load = load(&cluster);
    load.wait_for_ids();
    let until = Instant::now() + Duration::from_secs(u64::try_from(seconds).expect("a minute"));
    while Instant::now() < until {
        for offset in [0.2, -0.2] {
            cluster.set_clock(offset);
            sleep(Duration::from_millis(10));
        }
    }
    assert_kept_without_errors(seconds, &load.finish(), -200)
}
