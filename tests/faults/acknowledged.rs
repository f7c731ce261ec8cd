//! A mark that a standby must have, which does not answer.

use super::failover::{in_rounds, together};
use super::nodes::{IDS, assert_above, assert_only_errors, crash, lead_ms, some_ids, some_ids_without_errors, start};
use super::suite::{Evidence, Fault};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Cluster, Load, PATIENCE, Signal, error, issued_at, real_time, value, waits_for};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 28,
        promise: "a_fast_shutdown_ends_while_no_standby_answers",
        short: 1,
        full: 5,
        run: shutdown_without_a_standby,
    },
    Fault {
        row: 28,
        promise: "no_id_comes_of_a_mark_whose_acknowledgement_was_cancelled",
        short: 1,
        full: 3,
        run: |rounds| keeper_disturbed("pg_cancel_backend", rounds),
    },
    Fault {
        row: 28,
        promise: "no_id_comes_of_a_mark_whose_keeper_was_terminated_while_it_waited",
        short: 1,
        full: 3,
        run: |rounds| keeper_disturbed("pg_terminate_backend", rounds),
    },
    Fault {
        row: 28,
        promise: "an_advance_that_was_cancelled_while_the_keeper_waited_is_not_carried_out_later",
        short: 1,
        full: 3,
        run: |rounds| advance_cancelled(true, rounds),
    },
    Fault {
        row: 28,
        promise: "an_advance_that_was_cancelled_while_its_own_mark_waited_is_not_carried_out_later",
        short: 1,
        full: 3,
        run: |rounds| advance_cancelled(false, rounds),
    },
];

/// Longer than the keeper sleeps before it looks whether there was a demand.
const KEEPER_SLEEPS: Duration = Duration::from_millis(1500);

/// Waits until the last mark of a server has passed, and its keeper, which may be slow to notice that nobody asks for
/// IDs any more, is at rest: then every further ID needs a new mark.
fn let_the_mark_pass(primary: &Cluster) {
    let mut client = primary.connect();
    let rests = format!(
        "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper' AND {}",
        waits_for("SnowflakeKeeperMain")
    );
    let deadline = Instant::now() + PATIENCE;
    let mut since = Instant::now();
    let mut mark = primary.mark();
    while since.elapsed() < KEEPER_SLEEPS || mark >= real_time() {
        assert!(Instant::now() < deadline, "the mark is extended though nobody asks for IDs");
        sleep(Duration::from_millis(20));
        if primary.mark() != mark || value(&mut client, &rests) != "t" {
            (mark, since) = (primary.mark(), Instant::now());
        }
    }
}

/// Lets commits on this server wait for a standby that does not exist, and returns clients that do. No ID can be issued
/// from here on: the last mark that was acknowledged has passed.
fn take_the_standby_away(primary: &Cluster) -> Load {
    let_the_mark_pass(primary);
    primary.configure("synchronous_standby_names", "nobody");
    primary.reload();
    let commits = Load::start(primary, 2, "INSERT INTO t DEFAULT VALUES RETURNING 0::bigint");
    primary.wait_until(
        "SELECT count(*) = 2 FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'INSERT INTO t %'",
    );
    commits
}

/// A server with a required mark, which it does not extend while nobody asks for IDs, and a table for
/// [`take_the_standby_away`].
fn with_required_mark() -> Cluster {
    let builder = Cluster::builder().worker(1).set("snowflake_pg.wal_mark", "require");
    let primary = start(builder.set("snowflake_pg.keep_warm", 0));
    primary.connect().batch_execute("CREATE TABLE t ()").expect("a table");
    primary
}

/// What a fast shutdown is promised to take at most.
const SHUTDOWN: Duration = Duration::from_secs(10);

fn shutdown_without_a_standby(rounds: usize) -> Evidence {
    let mut primary = with_required_mark();
    in_rounds(rounds, |all| {
        let before = some_ids_without_errors(&primary);
        let commits = take_the_standby_away(&primary);
        let load = Load::start(&primary, 2, IDS);
        primary.wait_until(KEEPER_WAITS);
        let began = Instant::now();
        primary.stop(Signal::INT);
        let took = began.elapsed();
        assert!(took < SHUTDOWN, "the shutdown took {took:?}:\n{}", primary.log());
        let waiting = load.finish();
        assert_eq!(waiting.ids(), 0, "IDs above a mark that nobody has acknowledged:\n{}", primary.log());
        commits.finish();
        primary.configure("synchronous_standby_names", "");
        primary.start();
        let after = some_ids_without_errors(&primary);
        assert_above(&after, &before);
        let lead = lead_ms(&before, 0).max(lead_ms(&after, 0));
        together(all, [before, waiting, after]);
        lead
    })
}

/// Whether the keeper waits for a standby.
const KEEPER_WAITS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity
    WHERE backend_type = 'snowflake_pg keeper' AND wait_event = 'SyncRep')";

/// A wait for a standby that is cut short has committed here alone, which is no acknowledgement.
fn keeper_disturbed(signal: &str, rounds: usize) -> Evidence {
    let primary = with_required_mark();
    in_rounds(rounds, |all| {
        let before = some_ids_without_errors(&primary);
        let commits = take_the_standby_away(&primary);
        let load = Load::start(&primary, 2, IDS);
        primary.wait_until(KEEPER_WAITS);
        let keeper = "FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper'";
        primary.connect().batch_execute(&format!("SELECT {signal}(pid) {keeper}")).expect("a signal");
        sleep(Duration::from_secs(1));
        let waiting = load.finish();
        assert_eq!(waiting.ids(), 0, "IDs above a mark that nobody has acknowledged:\n{}", primary.log());
        assert_only_errors(&waiting, &["53400"]);
        primary.configure("synchronous_standby_names", "");
        primary.reload();
        commits.finish();
        let after = some_ids(&primary);
        // A keeper that was terminated comes back a few seconds later.
        assert_only_errors(&after, &["53400"]);
        assert_above(&after, &before);
        let lead = lead_ms(&before, 0).max(lead_ms(&after, 0));
        together(all, [before, waiting, after]);
        lead
    })
}

/// The keeper can't be told any more what it does not have to do when it waits for a standby: it finds out afterwards.
fn advance_cancelled(keeper_is_busy: bool, rounds: usize) -> Evidence {
    let mut primary = with_required_mark();
    let evidence = in_rounds(rounds, |all| {
        let before = some_ids_without_errors(&primary);
        let commits = take_the_standby_away(&primary);
        // What others wait for is not lost with the advance.
        let load = keeper_is_busy.then(|| Load::start(&primary, 2, IDS));
        if keeper_is_busy {
            primary.wait_until(KEEPER_WAITS);
        }
        let mut client = primary.connect();
        let half_an_hour = "SELECT snowflake_min_id(clock_timestamp() + '30 min')";
        let past: i64 = value(&mut client, half_an_hour).parse().expect("an ID");
        // Before the call itself gives up.
        client.batch_execute("SET statement_timeout = '1s'").expect("a timeout");
        let cancelled = error(&mut client, &format!("SELECT snowflake_advance({past})"));
        assert_eq!(cancelled.code().code(), "57014", "{cancelled:?}");
        primary.wait_until(KEEPER_WAITS);
        primary.configure("synchronous_standby_names", "");
        primary.reload();
        commits.finish();
        let load = load.unwrap_or_else(|| Load::start(&primary, 2, IDS));
        load.wait_for_ids();
        sleep(KEEPER_SLEEPS);
        let mut after = load.finish();
        assert_only_errors(&after, &["53400"]);
        assert!(primary.mark() < issued_at(past), "the mark is at what was cancelled:\n{}", primary.log());
        // From there IDs would begin.
        crash(&mut primary);
        after.merge(some_ids_without_errors(&primary));
        assert_above(&after, &before);
        let lead = lead_ms(&before, 0).max(lead_ms(&after, 0));
        together(all, [before, after]);
        lead
    });
    evidence.crashes(rounds)
}
