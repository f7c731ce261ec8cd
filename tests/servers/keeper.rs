//! The keeper writes the durable mark as seldom as it can, whatever the settings of sessions are; and what becomes of
//! one that has to go through WAL.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};
use testbed::postgres::Client;
use testbed::{
    Builder, Cluster, Load, Order, PATIENCE, Signal, Witness, error, issued_at, real_time, test, value, waits_for,
};

const RESERVE_AHEAD: Duration = Duration::from_millis(400);

/// A server that has issued an ID, and does not stay warm.
fn server() -> Cluster {
    let reserve_ahead = format!("{}ms", RESERVE_AHEAD.as_millis());
    let builder = Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", reserve_ahead);
    let cluster = builder.set("snowflake_pg.keep_warm", 0).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    value(&mut cluster.connect(), "SELECT snowflake_nextval()");
    cluster
}

/// How often the mark is written in this time. Each time it is another file.
fn writes(cluster: &Cluster, time: Duration) -> u32 {
    let file = || fs::metadata(cluster.mark_file()).map(|found| (found.ino(), found.mtime_nsec())).ok();
    let (began, mut last, mut writes) = (Instant::now(), file(), 0);
    while began.elapsed() < time {
        let now = file();
        if now != last {
            (last, writes) = (now, writes + 1);
        }
        sleep(Duration::from_millis(1));
    }
    writes
}

#[test]
fn a_server_that_nobody_asks_for_ids_writes_nothing() {
    let cluster = server();
    cluster.wait_until_keeper_rests();
    assert_eq!(writes(&cluster, 4 * RESERVE_AHEAD), 0);
}

/// A call after a pause does not wait for the disk, unless the pause was long.
#[test]
fn a_server_keeps_its_mark_ahead_for_a_while_after_the_last_id_and_then_writes_nothing() {
    let builder = Cluster::builder().worker(1).set("snowflake_pg.reserve_ahead", "800ms");
    let cluster = builder.set("snowflake_pg.keep_warm", "5s").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    let mut waits = || {
        let waited = |client: &mut Client| value(client, "SELECT mark_wait_time FROM snowflake_status");
        let before = waited(&mut client);
        client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
        waited(&mut client) != before
    };
    let (mut kept, deadline) = (0, Instant::now() + PATIENCE);
    while kept < 3 {
        // Longer than the mark is ahead.
        sleep(Duration::from_secs(1));
        let mark = cluster.used_marks().last().copied().expect("a mark");
        let has_waited = waits();
        // The keeper of a busy machine can be late.
        if mark > real_time() {
            assert!(!has_waited, "a call has waited, though the mark was ahead");
            kept += 1;
        }
        assert!(Instant::now() < deadline, "the mark was ahead of {kept} calls only");
    }
    cluster.wait_until_keeper_rests();
    assert_eq!(writes(&cluster, Duration::from_secs(2)), 0);
    assert!(waits(), "the mark was not ahead any more");
}

#[test]
fn a_mark_that_a_backend_writes_is_in_wal_first() {
    let cluster = Cluster::builder().worker(1).set("snowflake_pg.keep_warm", 0).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.wait_until_keeper_rests();
    let advance = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '20 s'))";
    cluster.connect().batch_execute(advance).expect("an advance");
    let written = cluster.mark();
    assert!(ahead_ms(written) > 10_000, "the mark has followed the advance");
    assert!(mark_in_wal(&cluster) >= written);
}

/// By the marks, and not by the time that they take: they move with the clock, but for a new server whose IDs begin
/// ahead of it. The keeper looks twice in a reservation; a backend waits until three quarters are used.
#[test]
fn a_server_under_load_writes_no_mark_before_a_quarter_of_its_reservation_is_used() {
    let cluster = server();
    cluster.settle();
    let before = cluster.used_marks().len();
    let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    let marks = cluster.wait_for_used_marks(before + 10);
    load.finish().assert_unique_and_ordered();
    let quarter = RESERVE_AHEAD.as_millis() / 4;
    let moved = marks[before..].windows(2).map(|marks| u128::from(marks[1] - marks[0]));
    let moved: Vec<_> = moved.collect();
    assert!(moved.iter().all(|&moved| moved >= quarter), "{moved:?} ms, not {quarter} each");
}

/// By the time of the processor, of which a process that tries again and again takes all.
#[test]
fn a_backend_that_waits_for_another_one_to_write_the_mark_sleeps() {
    let cluster = Cluster::builder().worker(1).faulty_disk().set("max_worker_processes", 0).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let [mut writer, mut waiter] = [Witness::of(&cluster), Witness::of(&cluster)];
    let [writes, waits] = [&mut writer, &mut waiter].map(|witness| value(witness.session(), "SELECT pg_backend_pid()"));
    writer.next_id().expect("an ID");
    waiter.next_id().expect("an ID");
    let used = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{waits}/stat")).expect("a process");
        let fields = stat.rsplit(')').next().expect("fields after the name").split_whitespace();
        fields.skip(11).take(2).map(|time| time.parse::<u64>().expect("a time")).sum()
    };
    cluster.wait_until_mark_has_passed();
    cluster.disk().obey(Order::Slow(Duration::from_secs(1)));
    let before = used();
    thread::scope(|scope| {
        scope.spawn(|| writer.next_id().expect("an ID"));
        let is_waiting = waits_for("SnowflakeMarkWrite");
        cluster.wait_until(&format!("SELECT {is_waiting} FROM pg_stat_activity WHERE pid = {writes}"));
        scope.spawn(|| waiter.next_id().expect("an ID"));
    });
    cluster.disk().obey(Order::Work);
    let hundredths = used() - before;
    assert!(hundredths < 30, "{hundredths} hundredths of a second");
}

/// A server that issues IDs, no mark of which is used that has not been through WAL.
/// It has nothing to do with WAL while nobody asks for IDs.
fn with_required_mark(builder: Builder) -> Cluster {
    let builder = builder.worker(1).set("snowflake_pg.wal_mark", "require").set("snowflake_pg.keep_warm", 0);
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    Witness::of(&cluster).next_id().expect("an ID");
    cluster
}

/// Makes every commit take this long.
fn slow_down_commits(cluster: &Cluster, time: Duration) {
    cluster.configure("commit_delay", time.as_micros());
    cluster.configure("commit_siblings", 0);
}

/// How far a time is ahead of the clock, in milliseconds; negative when it has passed.
fn ahead_ms(time: u64) -> i64 {
    i64::try_from(time).expect("this age") - i64::try_from(real_time()).expect("this age")
}

fn mark_in_wal(cluster: &Cluster) -> u64 {
    cluster.mark_in_wal().expect("a mark")
}

/// It begins at a distance from the clock, as a promoted one does, and the clock goes on while WAL is written.
#[test]
fn a_server_with_another_worker_starts_however_long_a_commit_takes() {
    let mut cluster = with_required_mark(Cluster::builder());
    cluster.stop(Signal::INT);
    // Or it would begin at a distance from the old mark.
    cluster.wait_until_mark_has_passed();
    cluster.configure("snowflake_pg.worker_id", 2);
    slow_down_commits(&cluster, Duration::from_millis(100));
    cluster.start();
    // As long as it takes; a test that hangs ends by itself.
    let load = Load::start(&cluster, 1, "SELECT snowflake_nextval() FROM generate_series(1, 1000)");
    load.wait_for_ids();
    load.finish().assert_unique_and_ordered();
}

#[test]
fn calls_get_ids_where_a_commit_takes_longer_than_the_mark_runs_ahead() {
    let mut cluster = with_required_mark(Cluster::builder().set("snowflake_pg.reserve_ahead", "100ms"));
    cluster.stop(Signal::INT);
    slow_down_commits(&cluster, Duration::from_millis(100));
    cluster.start();
    let mut witness = Witness::of(&cluster);
    witness.session().batch_execute("SET statement_timeout = '30 s'").expect("a bound for a test that hangs");
    for _ in 0..3 {
        cluster.wait_until_mark_has_passed();
        witness.next_id().expect("an ID");
    }
    witness.report().assert_unique_and_ordered();
}

/// Each start would take the mark in WAL further, and a promoted standby begins above it.
#[test]
fn a_server_that_begins_by_its_mark_in_wal_is_not_driven_ahead_of_its_clock_by_crashes() {
    let mut cluster = Cluster::builder().worker(1).with_defaults().set("snowflake_pg.wal_mark", "prefer").start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    cluster.stop(Signal::INT);
    fs::remove_file(cluster.mark_file()).expect("the mark");
    for crash in 0..6 {
        cluster.start();
        sleep(Duration::from_millis(300));
        let ahead = ahead_ms(mark_in_wal(&cluster));
        // As far as a server can be ahead (max_borrow), and a step of the mark.
        assert!(ahead <= 5000 + 50, "{ahead} ms ahead of the clock after {crash} crashes");
        cluster.kill_all();
    }
    cluster.start();
    Witness::of(&cluster).next_id().expect("an ID");
}

#[test]
fn ids_are_not_ahead_of_the_clock_when_the_mark_begins_to_go_through_wal() {
    for before in ["off", "prefer"] {
        let builder = Cluster::builder().worker(1).with_defaults();
        let mut cluster = builder.set("snowflake_pg.wal_mark", before).start();
        cluster.wait_until_keeper_rests();
        cluster.wait_until_mark_has_passed();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster.configure("snowflake_pg.wal_mark", "prefer");
        cluster.restart(Signal::INT);
        cluster.wait_until("SELECT snowflake_nextval() > 0");
        assert_eq!(value(&mut cluster.connect(), "SELECT lead < '1 s' FROM snowflake_status"), "t", "{before}");
        assert!(!cluster.log().contains("durable mark found in WAL"), "{}", cluster.log());
    }
}

/// What the keeper takes to WAL for an idle server is no higher than the record, also where ticks are long.
#[test]
fn an_idle_server_with_long_ticks_begins_at_its_own_mark_after_a_crash() {
    let layout = "t32 w10 s21 unit=1s epoch=2020-01-01T00:00:00Z";
    // Not whole ticks.
    let builder =
        Cluster::builder().worker(1).set("snowflake_pg.layout", layout).set("snowflake_pg.reserve_ahead", "1500ms");
    let mut cluster = builder.set("snowflake_pg.wal_mark", "prefer").set("snowflake_pg.keep_warm", 0).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    cluster.wait_until_keeper_rests();
    let advance = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '1 s'))";
    cluster.connect().batch_execute(advance).expect("an advance");
    sleep(Duration::from_secs(1));
    // In WAL, a mark that is written again is a millisecond higher.
    assert_eq!(mark_in_wal(&cluster) / 1000, cluster.mark() / 1000);
    cluster.kill_all();
    cluster.start();
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    assert!(!cluster.log().contains("durable mark found in WAL"), "{}", cluster.log());
}

/// A client that waits for an advance which the keeper has begun with, and its process ID.
fn advance_that_has_begun(cluster: &Cluster) -> (String, JoinHandle<testbed::postgres::Error>) {
    loop {
        let mut client = cluster.connect();
        let process = value(&mut client, "SELECT pg_backend_pid()");
        let call = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '50 min'))";
        let advance = thread::spawn(move || client.batch_execute(call).expect_err("a failure"));
        // A keeper that is slow to begin lets it fail before.
        while !advance.is_finished() {
            if ahead_ms(mark_in_wal(cluster)) >= 40 * 60_000 {
                return (process, advance);
            }
            sleep(Duration::from_millis(10));
        }
    }
}

/// Nobody gets the IDs that were stepped over, and nobody may have to wait for them.
#[test]
fn an_advance_that_fails_leaves_the_mark_where_it_was() {
    for is_terminated in [false, true] {
        let wait = if is_terminated { "1min" } else { "2s" };
        let mut cluster = with_required_mark(Cluster::builder().set("snowflake_pg.max_wait", wait));
        cluster.wait_until_keeper_rests();
        cluster.wait_until_mark_has_passed();
        cluster.configure("synchronous_standby_names", "nobody");
        cluster.reload();
        let (process, advance) = advance_that_has_begun(&cluster);
        if is_terminated {
            cluster.connect().batch_execute(&format!("SELECT pg_terminate_backend({process})")).expect("a signal");
        }
        let failure = advance.join().expect("a client");
        let code = failure.code().map(|code| code.code());
        if is_terminated {
            assert!(code.is_none_or(|code| code == "57P01"), "{failure:?}");
            assert!(!cluster.log().contains("was terminated by signal"), "{}", cluster.log());
        } else {
            assert_eq!(code, Some("53400"), "{failure:?}");
        }
        cluster.configure("synchronous_standby_names", "");
        cluster.reload();
        let mut witness = Witness::of(&cluster);
        witness.next_id().expect("an ID");
        let ahead = ahead_ms(cluster.mark());
        assert!(ahead < 10_000, "the mark is {ahead} ms ahead");
        cluster.kill_all();
        cluster.start();
        witness.connect(&cluster);
        witness.next_id().expect("an ID after a crash, too");
        witness.report().assert_unique_and_ordered();
    }
}

/// The keeper's transaction has to write, and no session that draws IDs has one that may.
#[test]
fn a_server_that_is_read_only_by_default_issues_ids_and_takes_its_mark_through_wal() {
    let mut cluster = Cluster::builder()
        .worker(1)
        .set("snowflake_pg.wal_mark", "require")
        .set("snowflake_pg.reserve_ahead", format!("{}ms", RESERVE_AHEAD.as_millis()))
        .start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.configure("default_transaction_read_only", "on");
    cluster.reload();
    for restarts in 0..2 {
        let mut client = cluster.connect();
        assert_eq!(value(&mut client, "SHOW transaction_read_only"), "on");
        for _ in 0..3 {
            let id = value(&mut client, "SELECT snowflake_nextval()").parse().expect("an ID");
            let logged = mark_in_wal(&cluster);
            assert!(issued_at(id) < logged, "{id} is above the mark {logged} in WAL, after {restarts} restarts");
            // Past this mark: the next ID needs another one.
            sleep(2 * RESERVE_AHEAD);
        }
        drop(client);
        cluster.restart(Signal::INT);
    }
}

/// The mark was lowered when the server stopped, and the one in WAL was not. A restart still begins at its own.
#[test]
fn ids_after_a_planned_restart_are_not_ahead_of_the_clock_although_the_mark_in_wal_is() {
    for wal_mark in ["prefer", "require"] {
        let mut cluster = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", wal_mark).start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster.settle();
        for _ in 0..3 {
            value(&mut cluster.connect(), "SELECT snowflake_nextval()");
            let logged = cluster.log().len();
            cluster.restart(Signal::INT);
            let id = value(&mut cluster.connect(), "SELECT snowflake_nextval()").parse().expect("an ID");
            let (issued, now) = (issued_at(id), real_time());
            assert!(issued <= now, "{wal_mark}: {issued} is ahead of the clock, {now}");
            // The line comes after the first ID that other processes can have.
            let found = || cluster.log()[logged..].contains("snowflake_pg: durable mark found, IDs begin at");
            let until = Instant::now() + Duration::from_secs(30);
            while !found() && Instant::now() < until {
                sleep(Duration::from_millis(10));
            }
            assert!(found(), "{wal_mark}:\n{}", &cluster.log()[logged..]);
        }
    }
}

/// Whoever looks after the clock would look in vain.
#[test]
fn a_mark_in_wal_after_the_end_of_the_layout_is_named_by_the_error_and_removed_as_that_says() {
    for largest in [1 << 50, u64::MAX - 1] {
        let mut cluster = Cluster::builder().worker(1).start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        cluster.stop(Signal::INT);
        cluster.set_mark_in_wal(largest);
        fs::remove_file(cluster.mark_file()).expect("the mark");
        cluster.start();
        let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
        assert_eq!(refused.message(), "the layout ends before IDs would begin");
        assert!(refused.hint().is_some_and(|hint| hint.contains("remove the file \"global/16111\"")), "{refused:?}");
        cluster.stop(Signal::INT);
        fs::remove_file(cluster.wal_page_file()).expect("the page");
        cluster.start();
        Witness::of(&cluster).next_id().expect("an ID");
    }
}

/// Anybody can read and write the mark in WAL, unless standbys must acknowledge it.
#[test]
fn a_server_without_a_keeper_begins_at_its_mark_also_in_single_user_mode() {
    let mut cluster = Cluster::builder().worker(1).set("max_worker_processes", 0).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.restart(Signal::QUIT);
    cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    let before = mark_in_wal(&cluster);
    cluster.stop(Signal::INT);
    cluster.wait_until_mark_has_passed();
    let printed = cluster.single_user("SELECT snowflake_nextval()\n");
    assert!(printed.contains("snowflake_nextval = "), "{printed}");
    cluster.configure("snowflake_pg.wal_mark", "require");
    cluster.start();
    assert!(mark_in_wal(&cluster) > before);
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), "could not write the durable mark to WAL in time");
    assert_eq!(refused.code().code(), "53400");
}

/// Each attempt would take what it finds for another server's, and begin above that.
#[test]
fn a_server_that_cannot_write_its_first_mark_does_not_drive_the_one_in_wal_ahead() {
    let mut primary = Cluster::builder().worker(1).with_defaults().start();
    primary.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    let standby = Cluster::builder().worker(1).with_defaults().faulty_disk().standby_of(&primary);
    standby.wait_for_commits_of(&primary);
    standby.disk().obey(Order::Full);
    primary.stop(Signal::QUIT);
    standby.promote();
    let mut client = standby.connect();
    for _ in 0..300 {
        assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "53100");
    }
    let ahead = ahead_ms(mark_in_wal(&standby));
    assert!(ahead < 10_000, "{ahead} ms ahead of the clock");
    standby.disk().obey(Order::Work);
    let mut witness = Witness::of(&standby);
    witness.next_id().expect("an ID as soon as the disk works");
}
