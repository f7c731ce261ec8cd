//! What a server does when its clock goes back or a tick is full is for the DBA to choose. Whatever is chosen, no ID
//! comes twice.

use super::fixture::{MAX_BORROW_MS, signed, started};
use super::suite::{Evidence, Fault};
use std::cell::RefCell;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{Cluster, Load, PATIENCE, Report, Signal, Witness, default_layout, real_time, value};

pub const FAULTS: &[Fault] = &[
    Fault { row: 9, promise: "a_clock_that_goes_back_and_forth_under_borrow", short: 1, full: 6, run: stepped_borrow },
    Fault { row: 9, promise: "a_clock_that_goes_back_and_forth_under_wait", short: 1, full: 6, run: stepped_wait },
    Fault { row: 9, promise: "a_clock_that_goes_back_and_forth_under_error", short: 1, full: 6, run: stepped_error },
    Fault {
        row: 9,
        promise: "a_clock_that_goes_back_and_forth_under_history",
        short: 1,
        full: 6,
        run: stepped_history,
    },
    Fault { row: 14, promise: "a_clock_that_strobes_under_borrow", short: 1, full: 60, run: strobing_borrow },
    Fault { row: 14, promise: "a_clock_that_strobes_under_wait", short: 1, full: 60, run: strobing_wait },
    Fault { row: 14, promise: "a_clock_that_strobes_under_error", short: 1, full: 60, run: strobing_error },
    Fault { row: 14, promise: "a_clock_that_strobes_under_history", short: 1, full: 60, run: strobing_history },
    Fault {
        row: 34,
        promise: "every_policy_can_be_changed_by_reload_under_load_without_a_duplicate",
        short: 1,
        full: 5,
        run: reloads,
    },
    Fault {
        row: 2,
        promise: "a_killed_server_that_may_not_be_ahead_of_its_clock_lets_its_first_calls_wait",
        short: 2,
        full: 20,
        run: killed_without_borrowing,
    },
    Fault {
        row: 3,
        promise: "a_server_killed_while_it_draws_from_the_history_issues_nothing_twice",
        short: 2,
        full: 20,
        run: killed_in_the_past,
    },
    Fault {
        row: 31,
        promise: "a_saturated_server_that_borrows_ticks_is_never_more_than_max_borrow_ahead",
        short: 1,
        full: 10,
        run: borrowed_ticks,
    },
];

/// The errors that a clock which has gone back may lead to.
const TOO_FAR_BEHIND: &str = "53400 the server's clock is too far behind the last ID issued";
const WENT_BACK: &str = "53400 the server's clock has gone back";

/// What readings of two clocks, one after the other, may differ by.
const READING_MS: i64 = 5;

/// A server with a clock of its own and this policy, that has issued an ID.
fn server_with(policy: &str) -> Cluster {
    started(Cluster::builder().worker(1).own_clock().set("snowflake_pg.clock_regression", policy))
}

/// Clients that have begun.
fn load(cluster: &Cluster) -> Load {
    let load = Load::start(cluster, 16, "SELECT snowflake_nextval() FROM generate_series(1, 10)");
    load.wait_for_ids();
    load
}

/// A server's clock, and how it was set.
struct Clock<'a> {
    cluster: &'a Cluster,
    /// Since when (real time) it has been how far from the real one.
    settings: RefCell<Vec<(u64, i64)>>,
}

impl<'a> Clock<'a> {
    fn of(cluster: &'a Cluster) -> Self {
        Self { cluster, settings: RefCell::new(vec![(0, 0)]) }
    }

    fn set(&self, offset_ms: i64) {
        let offset = f64::from(i32::try_from(offset_ms).expect("a few seconds")) / 1000.0;
        let mut settings = self.settings.borrow_mut();
        let ahead = settings.last().is_some_and(|&(_, before)| before < offset_ms);
        // It may be further ahead from before it is set ahead, and until after it is set back. Times are whole
        // milliseconds.
        let before = real_time();
        self.cluster.set_clock(offset);
        settings.push((if ahead { before } else { real_time() + 1 }, offset_ms));
    }

    /// How far it was from the real one, at most, between two times.
    fn offset_ms(&self, from: u64, until: u64) -> i64 {
        let settings = self.settings.borrow();
        let first = settings.partition_point(|&(since, _)| since <= from).saturating_sub(1);
        let during = settings[first..].iter().take_while(|&&(since, _)| since <= until);
        during.map(|&(_, offset)| offset).max().expect("set once")
    }

    /// How far an ID was ahead of it, at most.
    fn lead_ms(&self, report: &Report) -> i64 {
        report.largest_lead_ms_by(&default_layout(), |from, until| self.offset_ms(from, until))
    }
}

/// What every policy keeps: no duplicate, only this error, and a lead that it allows.
fn assert_policy(policy: &str, report: &Report, lead_ms: i64, error: Option<&str>) {
    assert!(report.ids() > 0, "no ID was received: {:?}", report.errors());
    assert_eq!(report.duplicates(), 0, "duplicates of {} IDs under {policy}", report.ids());
    if policy != "history" {
        assert_eq!(report.inversions(), 0, "inversions of {} IDs under {policy}", report.ids());
    }
    let errors = report.errors();
    assert!(errors.keys().all(|&seen| Some(seen) == error), "{errors:?} under {policy}");
    let allowed = if matches!(policy, "wait" | "error") { 0 } else { MAX_BORROW_MS };
    assert!(lead_ms <= allowed + READING_MS, "{lead_ms} ms ahead of the clock under {policy}");
}

/// Steps the clock back and puts it right again. Each step lasts so many seconds.
fn stepped(policy: &str, seconds: usize, error: impl Fn(i64) -> Option<&'static str>) -> Evidence {
    let cluster = server_with(policy);
    let mut all = Report::default();
    let mut lead = i64::MIN;
    let steps = [-50, -3000, -15_000];
    for offset_ms in steps {
        let (clock, error) = (Clock::of(&cluster), error(offset_ms));
        let load = load(&cluster);
        clock.set(offset_ms);
        sleep(Duration::from_secs(u64::try_from(seconds).expect("a few")));
        if error.is_some() {
            load.wait_for_an_error();
        }
        clock.set(0);
        sleep(Duration::from_millis(300));
        let report = load.finish();
        let ahead = clock.lead_ms(&report);
        assert_policy(policy, &report, ahead, error);
        assert_eq!(report.errors().is_empty(), error.is_none(), "errors after a step of {offset_ms} ms under {policy}");
        lead = lead.max(ahead);
        all.merge(report);
    }
    assert_eq!(all.duplicates(), 0, "duplicates of {} IDs under {policy}", all.ids());
    assert_history_is_drawn_from(policy, &cluster);
    Evidence::new(steps.len(), &all).lead_ms(lead)
}

fn stepped_borrow(seconds: usize) -> Evidence {
    stepped("borrow", seconds, |step| (-step > MAX_BORROW_MS).then_some(TOO_FAR_BEHIND))
}

/// What a call waits at most is half a second.
fn stepped_wait(seconds: usize) -> Evidence {
    stepped("wait", seconds, |step| (-step > 500).then_some(TOO_FAR_BEHIND))
}

fn stepped_error(seconds: usize) -> Evidence {
    stepped("error", seconds, |_| Some(WENT_BACK))
}

/// What is more than 10,000 ticks ago is borrowed.
fn stepped_history(seconds: usize) -> Evidence {
    stepped("history", seconds, |step| (-step > MAX_BORROW_MS).then_some(TOO_FAR_BEHIND))
}

fn assert_history_is_drawn_from(policy: &str, cluster: &Cluster) {
    let drawn = status(&mut cluster.connect(), "history_ids > 0");
    assert_eq!(drawn, if policy == "history" { "t" } else { "f" }, "IDs from the history under {policy}");
}

fn status(client: &mut Client, column: &str) -> String {
    value(client, &format!("SELECT {column} FROM snowflake_status"))
}

fn strobed(policy: &str, seconds: usize, error: Option<&str>) -> Evidence {
    let cluster = server_with(policy);
    let clock = Clock::of(&cluster);
    let load = load(&cluster);
    let until = Instant::now() + Duration::from_secs(u64::try_from(seconds).expect("a minute"));
    while Instant::now() < until {
        for offset_ms in [200, -200] {
            clock.set(offset_ms);
            sleep(Duration::from_millis(10));
        }
    }
    let report = load.finish();
    let lead = clock.lead_ms(&report);
    assert_policy(policy, &report, lead, error);
    assert_history_is_drawn_from(policy, &cluster);
    Evidence::new(seconds, &report).lead_ms(lead)
}

fn strobing_borrow(seconds: usize) -> Evidence {
    strobed("borrow", seconds, None)
}

fn strobing_wait(seconds: usize) -> Evidence {
    strobed("wait", seconds, Some(TOO_FAR_BEHIND))
}

fn strobing_error(seconds: usize) -> Evidence {
    strobed("error", seconds, Some(WENT_BACK))
}

fn strobing_history(seconds: usize) -> Evidence {
    strobed("history", seconds, None)
}

/// Through every combination, while the clock steps: in each at the step and after it.
fn reloads(rounds: usize) -> Evidence {
    let cluster = server_with("borrow");
    let clock = Clock::of(&cluster);
    let (mut admin, mut signal) = (cluster.connect(), cluster.connect());
    let few = load(&cluster);
    let many = Load::start(&cluster, 2, "SELECT snowflake_nextvals(5000)");
    let mut set = |name: &str, value: &str| {
        let change = format!("ALTER SYSTEM SET snowflake_pg.{name} = '{value}'");
        admin.batch_execute(&change).expect("a policy");
    };
    let mut changes = 0;
    for _ in 0..rounds {
        for regression in ["history", "borrow", "error", "history", "wait"] {
            set("clock_regression", regression);
            for exhaustion in ["wait", "borrow"] {
                set("sequence_exhaustion", exhaustion);
                for start in ["zero", "random", "rotate"] {
                    set("sequence_start", start);
                    for offset_ms in [0, -300] {
                        clock.set(offset_ms);
                        signal.batch_execute("SELECT pg_reload_conf()").expect("a reload");
                        sleep(Duration::from_millis(20));
                        changes += 1;
                    }
                }
            }
        }
    }
    for (name, last) in [("clock_regression", "wait"), ("sequence_exhaustion", "borrow"), ("sequence_start", "rotate")]
    {
        assert_eq!(value(&mut cluster.connect(), &format!("SHOW snowflake_pg.{name}")), last);
    }
    let drawn = status(&mut cluster.connect(), "history_ids > 0 AND borrowed_ids > 0");
    assert_eq!(drawn, "t", "IDs from the history, and borrowed ones");
    let mut report = few.finish();
    report.merge(many.finish());
    let errors = report.errors();
    assert!(errors.keys().all(|&seen| seen == TOO_FAR_BEHIND || seen == WENT_BACK), "{errors:?}");
    assert_eq!(report.duplicates(), 0, "duplicates of {} IDs", report.ids());
    let lead = clock.lead_ms(&report);
    assert!(lead <= MAX_BORROW_MS + READING_MS, "{lead} ms ahead of the clock");
    Evidence::new(changes, &report).lead_ms(lead)
}

/// By turns under wait and error. What it may have issued before is ahead of its clock, which is no error.
fn killed_without_borrowing(rounds: usize) -> Evidence {
    let mut cluster = server_with("wait");
    cluster.configure("snowflake_pg.max_wait", 0);
    // So that the mark is still ahead when the server is back.
    cluster.configure("snowflake_pg.reserve_ahead", "4s");
    let mut report = Report::default();
    for round in 0..rounds {
        let policy = if round % 2 == 0 { "wait" } else { "error" };
        cluster.configure("snowflake_pg.clock_regression", policy);
        cluster.reload();
        cluster.restart(Signal::KILL);
        let load = load(&cluster);
        // Until the mark is by the longer reservation.
        sleep(Duration::from_millis(if round == 0 { 1000 } else { 0 }));
        report.merge(load.finish());
    }
    let lead = report.largest_lead_ms(&default_layout(), 0);
    assert_policy("wait", &report, lead, None);
    Evidence::new(rounds, &report).crashes(rounds).lead_ms(lead)
}

/// After each crash the server is ahead of its clock; it draws from the history when it has been caught up with.
fn killed_in_the_past(rounds: usize) -> Evidence {
    let mut cluster = server_with("history");
    let load = load(&cluster);
    for round in 0..rounds {
        load.wait_for_ids();
        let mut client = cluster.connect();
        cluster.set_clock(-0.4);
        while status(&mut client, "history_ids > 0") != "t" {
            // Not yet far enough above the floor: once more, from where the clock is right.
            cluster.set_clock(0.0);
            sleep(Duration::from_millis(50));
            cluster.set_clock(-0.4);
            sleep(Duration::from_millis(20));
        }
        cluster.stop(Signal::KILL);
        // The clock is right again after the crash, or it is not.
        cluster.set_clock(if round % 2 == 0 { 0.0 } else { -0.4 });
        cluster.start();
    }
    load.wait_for_ids();
    let report = load.finish();
    let lead = report.largest_lead_ms(&default_layout(), -400);
    assert_policy("history", &report, lead, None);
    Evidence::new(rounds, &report).crashes(rounds).lead_ms(lead)
}

/// In each round until it is as far ahead as it may be; then it is killed. Ticks are small enough for any machine to
/// fill them.
fn borrowed_ticks(rounds: usize) -> Evidence {
    const MAX_BORROW: i64 = 1000;
    const LAYOUT: &str = "t41 w10 s8";
    let builder = Cluster::builder().worker(1).set("snowflake_pg.layout", LAYOUT).set("snowflake_pg.max_borrow", "1s");
    let mut cluster = started(builder.set("snowflake_pg.sequence_exhaustion", "borrow"));
    let mut report = Report::default();
    for _ in 0..rounds {
        let all = Load::start(&cluster, 2, "SELECT snowflake_nextvals(20000)");
        let most = Load::start(&cluster, 2, "SELECT max(id) FROM snowflake_nextvals(100000) id");
        let mut client = cluster.connect();
        let until = Instant::now() + PATIENCE;
        let lead = "(extract(epoch FROM lead) * 1000)::bigint";
        while status(&mut client, lead).parse::<i64>().expect("a lead") < MAX_BORROW * 9 / 10 {
            assert!(Instant::now() < until, "not ahead of the clock");
        }
        sleep(Duration::from_millis(300));
        assert_eq!(status(&mut client, "ticks_exhausted > 0 AND borrowed_ids > 0"), "t");
        cluster.stop(Signal::KILL);
        report.merge(all.finish());
        report.merge(most.finish());
        cluster.start();
        let mut witness = Witness::of(&cluster);
        let ids = witness.ask("SELECT snowflake_nextvals(20000)").expect("IDs after the crash");
        let before = report.range().expect("IDs before the crash").1;
        assert!(ids.iter().all(|&id| id > before), "below {before}");
        report.merge(witness.report());
    }
    report.assert_unique_and_ordered();
    assert!(report.errors().is_empty(), "{:?}", report.errors());
    let lead = report.largest_lead_ms(&LAYOUT.parse().expect("a layout"), 0);
    assert!(lead <= MAX_BORROW, "{lead} ms ahead of the clock");
    assert!(signed(cluster.mark()) <= signed(real_time()) + MAX_BORROW + 2 * 500, "the mark is far ahead");
    Evidence::new(rounds, &report).crashes(rounds).lead_ms(lead)
}
