//! What a fleet gets that has two lines of configuration and `pg_basebackup -R`: one worker, which moves with each
//! failover, and the mark in WAL.

use super::nodes::{
    IDS, assert_above, assert_only_errors, assert_refused, ids_until_past, in_separate_rounds, last_time, start,
};
use super::suite::{Evidence, Fault};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Builder, Cluster, Load, Report, Signal, error, real_time};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 17,
        promise: "a_standby_takes_over_on_the_defaults_from_a_primary_whose_clock_was_ahead_by_seconds",
        short: 1,
        full: 5,
        run: |rounds| in_separate_rounds(rounds, |_| clock_ahead(12.0)).crashes(rounds),
    },
    Fault {
        row: 17,
        promise: "a_standby_on_the_defaults_refuses_to_follow_a_primary_whose_clock_was_ahead_by_most_of_an_hour",
        short: 1,
        full: 1,
        run: |rounds| Evidence::new(rounds, &clock_ahead(3000.0)).crashes(rounds),
    },
    Fault {
        row: 17,
        promise: "a_standby_without_the_library_and_with_other_settings_brings_the_mark_to_the_next_one",
        short: 1,
        full: 3,
        run: through_a_standby_without_the_library,
    },
    Fault {
        row: 17,
        promise: "a_standby_that_has_no_mark_of_its_primary_in_wal_is_refused_until_it_is_accepted",
        short: 1,
        full: 3,
        run: without_a_mark,
    },
    Fault {
        row: 21,
        promise: "failovers_on_the_defaults_with_clocks_apart_and_rewinds_and_clones_between_them_repeat_nothing",
        short: 2,
        full: 20,
        run: failovers,
    },
    Fault {
        row: 44,
        promise: "a_file_with_the_marks_that_is_removed_while_its_server_runs_does_no_harm",
        short: 1,
        full: 3,
        run: removed_while_it_runs,
    },
];

/// README's lines, and a clock of its own.
fn node() -> Builder {
    Cluster::builder().worker(1).with_defaults().own_clock().set("wal_log_hints", "on").set("wal_keep_size", "256MB")
}

/// What clients receive for a moment.
fn ids(server: &Cluster) -> Report {
    let load = Load::start(server, 2, IDS);
    load.wait_for_ids();
    sleep(Duration::from_millis(500));
    load.finish()
}

/// Ends a primary, as soon as its standby has all that it has committed, and promotes that.
fn fail_over(primary: &mut Cluster, standby: &Cluster) {
    standby.wait_for_commits_of(primary);
    primary.kill_all();
    standby.promote();
}

/// Waits until a server issues IDs again, and returns how long it has refused.
fn wait_for_ids(server: &Cluster) -> Duration {
    let began = Instant::now();
    let mut client = server.connect();
    while let Err(refused) = client.query_one("SELECT snowflake_nextval()", &[]) {
        let code = refused.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("53400"), "{refused:?}");
        assert!(began.elapsed() < Duration::from_secs(180), "{refused:?}");
        sleep(Duration::from_millis(50));
    }
    began.elapsed()
}

/// The clock of the standby is right, until it has refused.
fn clock_ahead(seconds: f64) -> Report {
    let mut primary = start(node());
    let mut before = ids(&primary);
    let standby = node().standby_of(&primary);
    primary.set_clock(seconds);
    before.merge(ids(&primary));
    assert!(last_time(&before) > real_time() + 10_000, "the clock was not followed");
    fail_over(&mut primary, &standby);
    let refused = error(&mut standby.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "53400", "{refused:?}");
    if seconds > 60.0 {
        standby.set_clock(seconds + 10.0);
    }
    println!("refused for {:?}", wait_for_ids(&standby));
    let after = ids(&standby);
    assert_above(&after, &before);
    before.merge(after);
    before
}

/// PostgreSQL itself replays the page.
fn through_a_standby_without_the_library(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        let mut primary = start(node());
        let plain = node().set("shared_preload_libraries", "").set("full_page_writes", "off");
        let middle = plain.standby_of(&primary);
        let last = node().set("snowflake_pg.wal_mark", "off").standby_of(&middle);
        primary.set_clock(12.0);
        let mut before = ids(&primary);
        middle.wait_for_commits_of(&primary);
        last.wait_for_commits_of(&primary);
        primary.kill_all();
        last.promote();
        println!("refused for {:?}", wait_for_ids(&last));
        let after = ids_until_past(&last, &before);
        assert_only_errors(&after, &["53400"]);
        assert_above(&after, &before);
        before.merge(after);
        before
    });
    evidence.crashes(rounds)
}

fn without_a_mark(rounds: usize) -> Evidence {
    let evidence = in_separate_rounds(rounds, |_| {
        let mut primary = start(node());
        let mut before = ids(&primary);
        // Then there is an old one, which it removes.
        primary.stop(Signal::INT);
        primary.configure("snowflake_pg.wal_mark", "off");
        primary.start();
        before.merge(ids(&primary));
        let standby = node().standby_of(&primary);
        before.merge(ids(&primary));
        fail_over(&mut primary, &standby);
        assert_refused(&standby, "WAL does not contain the durable mark");
        standby.connect().batch_execute("SELECT snowflake_accept_mark()").expect("an acceptance");
        let after = ids(&standby);
        assert_above(&after, &before);
        before.merge(after);
        before
    });
    evidence.crashes(rounds)
}

/// One worker, two nodes, and each has a clock that is off by up to a minute.
fn failovers(rounds: usize) -> Evidence {
    let far = if rounds > 5 { 60.0 } else { 6.0 };
    let mut primary = start(node());
    let mut standby = node().standby_of(&primary);
    let (mut all, mut refused) = (ids(&primary), Duration::ZERO);
    for round in 0..rounds {
        primary.set_clock((fastrand::f64() * 2.0 - 1.0) * far);
        standby.set_clock((fastrand::f64() * 2.0 - 1.0) * far);
        refused += wait_for_ids(&primary);
        all.merge(ids(&primary));
        fail_over(&mut primary, &standby);
        refused += wait_for_ids(&standby);
        all.merge(ids(&standby));
        // pg_rewind wants a server that was stopped as planned.
        primary.single_user("SELECT 1\n");
        let turn = [Cluster::rewind, Cluster::clone_anew][round % 2];
        turn(&primary, &standby);
        primary.follow(&standby);
        primary.wait_for_commits_of(&standby);
        std::mem::swap(&mut primary, &mut standby);
    }
    println!("{rounds} failovers: {} IDs, {} twice, refused for {refused:.1?}", all.ids(), all.duplicates());
    assert_eq!(all.duplicates(), 0);
    Evidence::new(rounds, &all).crashes(rounds)
}

fn removed_while_it_runs(rounds: usize) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let mut server = start(node());
        let standby = node().standby_of(&server);
        let mut before = ids(&server);
        fs::remove_file(server.wal_page_file()).expect("the page");
        before.merge(ids(&server));
        server.restart(Signal::QUIT);
        before.merge(ids(&server));
        fail_over(&mut server, &standby);
        wait_for_ids(&standby);
        let after = ids(&standby);
        assert_above(&after, &before);
        before.merge(after);
        before
    })
}
