//! A primary comes back as a clone of the node that took over from it, so that its own state file may be lost: then
//! what it has issued is known from WAL, or from a state directory outside, or not at all.

use super::nodes::{
    Ahead, IDS, START_MARGIN_MS, assert_only_errors, ids_until_past, in_separate_rounds, last_time, run_ahead,
    some_ids_without_errors, start, together_above,
};
use super::suite::{Evidence, Fault};
use snowflake_core::UnixMs;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{
    Builder, Cluster, Load, PATIENCE, Report, Signal, Volume, Witness, issued_at, mark_in, real_time, sleep_past, value,
};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 35,
        promise: "a_rewound_primary_that_was_far_ahead_repeats_nothing_by_its_preferred_wal_mark",
        short: 1,
        full: 4,
        run: |rounds| far_ahead(rounds, REWOUND, Memory::Wal("prefer")),
    },
    Fault {
        row: 35,
        promise: "a_rewound_primary_that_was_far_ahead_repeats_nothing_by_its_required_wal_mark",
        short: 1,
        full: 4,
        run: |rounds| far_ahead(rounds, REWOUND, Memory::Wal("require")),
    },
    Fault {
        row: 35,
        promise: "a_rewound_primary_that_was_far_ahead_repeats_nothing_by_its_absolute_directory",
        short: 1,
        full: 4,
        run: |rounds| far_ahead(rounds, REWOUND, Memory::Directory),
    },
    Fault {
        row: 35,
        promise: "a_primary_rewound_after_a_split_repeats_nothing_by_its_absolute_directory",
        short: 1,
        full: 3,
        run: |rounds| after_split(rounds, REWOUND),
    },
    Fault {
        row: 35,
        promise: "a_rewound_primary_that_lost_its_mark_says_so_and_waits_for_its_start_margin",
        short: 1,
        full: 3,
        run: |rounds| without_mark(rounds, REWOUND),
    },
    Fault {
        row: 36,
        promise: "a_primary_cloned_anew_that_was_far_ahead_repeats_nothing_by_its_preferred_wal_mark",
        short: 1,
        full: 4,
        run: |rounds| far_ahead(rounds, CLONED, Memory::Wal("prefer")),
    },
    Fault {
        row: 36,
        promise: "a_primary_cloned_anew_that_was_far_ahead_repeats_nothing_by_its_required_wal_mark",
        short: 1,
        full: 4,
        run: |rounds| far_ahead(rounds, CLONED, Memory::Wal("require")),
    },
    Fault {
        row: 36,
        promise: "a_primary_cloned_anew_that_was_far_ahead_repeats_nothing_by_its_absolute_directory",
        short: 1,
        full: 4,
        run: |rounds| far_ahead(rounds, CLONED, Memory::Directory),
    },
    Fault {
        row: 36,
        promise: "a_primary_cloned_anew_after_a_split_repeats_nothing_by_its_absolute_directory",
        short: 1,
        full: 3,
        run: |rounds| after_split(rounds, CLONED),
    },
    Fault {
        row: 36,
        promise: "a_primary_cloned_anew_that_lost_its_mark_says_so_and_waits_for_its_start_margin",
        short: 1,
        full: 3,
        run: |rounds| without_mark(rounds, CLONED),
    },
];

/// How A's data directory becomes B's.
#[derive(Clone, Copy)]
struct Return {
    name: &'static str,
    turn: fn(&Cluster, &Cluster),
    /// How A comes to be ahead of its clock, in one round after the other.
    ahead: [Ahead; 2],
}

const REWOUND: Return = Return { name: "rewound", turn: Cluster::rewind, ahead: [Ahead::Clock, Ahead::Advance] };

const CLONED: Return = Return { name: "cloned anew", turn: Cluster::clone_anew, ahead: [Ahead::Advance, Ahead::Clock] };

/// What knows how far A has come when its data directory is B's.
#[derive(Clone, Copy, Debug)]
enum Memory {
    /// The mark in WAL: snowflake_pg.wal_mark.
    Wal(&'static str),
    /// An absolute state directory.
    Directory,
}

impl Memory {
    /// A node of this worker.
    fn node(self, worker: i32, volume: &Volume) -> Builder {
        let node = node(worker);
        match self {
            Self::Wal(wal_mark) => node.set("snowflake_pg.wal_mark", wal_mark),
            Self::Directory => {
                let directory = volume.make_directory(&format!("state{worker}"));
                node.set("snowflake_pg.state_directory", directory.display())
            }
        }
    }
}

/// A node that can be rewound.
fn node(worker: i32) -> Builder {
    Cluster::builder().worker(worker).with_defaults().set("wal_log_hints", "on").set("wal_keep_size", "128MB")
}

/// B is promoted while A still goes on, and issues IDs. Then A becomes a clone of B, follows it, and is promoted when B
/// has stopped. When that was, and what B's clients have received.
fn take_turns(a: &mut Cluster, b: &mut Cluster, turn: fn(&Cluster, &Cluster)) -> (UnixMs, Report) {
    b.wait_for_commits_of(a);
    b.promote();
    return_to(a, b, turn)
}

/// A becomes a clone of B, which was promoted beside it.
fn return_to(a: &mut Cluster, b: &mut Cluster, turn: fn(&Cluster, &Cluster)) -> (UnixMs, Report) {
    a.connect().batch_execute("CREATE TABLE t AS SELECT generate_series(1, 1000) i").expect("rows that B never sees");
    let load_of_b = Load::start(b, 2, IDS);
    load_of_b.wait_for_ids();
    a.stop(Signal::INT);
    turn(a, b);
    a.follow(b);
    assert_eq!(value(&mut a.connect(), "SELECT to_regclass('t')"), "NULL", "A is where B is");
    load_of_b.wait_for_ids();
    b.stop(Signal::INT);
    let ids_of_b = load_of_b.finish();
    a.wait_for_replay_of(b);
    let began = real_time();
    a.promote();
    (began, ids_of_b)
}

fn far_ahead(rounds: usize, back: Return, memory: Memory) -> Evidence {
    in_separate_rounds(rounds, |round| {
        let ahead = back.ahead[round % 2];
        let volume = Volume::empty();
        let mut a = start(memory.node(1, &volume).own_clock());
        let mut before = some_ids_without_errors(&a);
        // It is to issue IDs at once, even if it begins above what A has issued, whose worker is another one.
        let mut b = memory.node(2, &volume).set("snowflake_pg.max_borrow", "1min").standby_of(&a);
        before.merge(run_ahead(&a, ahead));
        let (began, ids_of_b) = take_turns(&mut a, &mut b, back.turn);
        let after = ids_until_past(&a, &before);
        // Until its clock is near what it has issued before.
        assert_only_errors(&after, &["53400"]);
        let lead = last_time(&before).saturating_sub(began);
        let what =
            format!("A, {} after {ahead:?}, with {memory:?}, promoted {lead} ms before its last time", back.name);
        let mut all = together_above(&what, before, after);
        all.merge(ids_of_b);
        all
    })
}

/// A's last mark is in its state directory alone: WAL of B, and so of A, has an earlier one. A member of Patroni's
/// comes to this, whose data directory is made anew.
fn after_split(rounds: usize, back: Return) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let volume = Volume::empty();
        let mut a = start(Memory::Directory.node(1, &volume));
        let mut before = some_ids_without_errors(&a);
        let mut b = Memory::Directory.node(2, &volume).standby_of(&a);
        b.wait_for_commits_of(&a);
        b.promote();
        sleep_past(mark_in(&volume.path().join("state1/mark")));
        before.merge(some_ids_without_errors(&a));
        let (_, ids_of_b) = return_to(&mut a, &mut b, back.turn);
        let after = ids_until_past(&a, &before);
        assert_only_errors(&after, &["53400"]);
        let mut all = together_above(&format!("A, {} after a split", back.name), before, after);
        all.merge(ids_of_b);
        all
    })
}

fn without_mark(rounds: usize, back: Return) -> Evidence {
    in_separate_rounds(rounds, |_| {
        let node = |worker| node(worker).set("snowflake_pg.wal_mark", "off");
        let mut a = start(node(1));
        let before = some_ids_without_errors(&a);
        let mut b = node(2).standby_of(&a);
        let logged = a.log().len();
        let (began, ids_of_b) = take_turns(&mut a, &mut b, back.turn);
        let (first, received, mut after) = first_id(&a);
        after.merge(ids_until_past(&a, &before));
        let what =
            format!("A, {} without a mark, first ID {} ms after the promotion", back.name, first.saturating_sub(began));
        assert_only_errors(&after, &["53400"]);
        let mut all = together_above(&what, before, after);
        all.merge(ids_of_b);

        let log = &a.log()[logged..];
        assert_says_what_it_rests_on(log);
        assert!(first >= began + START_MARGIN_MS, "{first} is not beyond {began} by the start margin:\n{log}");
        assert!(first <= received + 3000, "{first} is ahead of the clock, which showed {received}:\n{log}");
        all
    })
}

/// The time of the first ID that a server issues, the time when it was received, and what the client has seen.
fn first_id(server: &Cluster) -> (UnixMs, UnixMs, Report) {
    let (mut witness, deadline) = (Witness::of(server), Instant::now() + PATIENCE);
    loop {
        match witness.next_id() {
            Ok(id) => return (issued_at(id), real_time(), witness.report()),
            Err(refused) => assert!(Instant::now() < deadline, "no ID: {refused:?}"),
        }
        sleep(Duration::from_millis(20));
    }
}

/// The server log has one message of a mark that was not found, with what that means and what can be done.
fn assert_says_what_it_rests_on(log: &str) {
    const MESSAGE: &str = "LOG:  snowflake_pg: durable mark of another worker found";
    let mut lines = log.lines().skip_while(|line| !line.contains(MESSAGE)).skip(1);
    let [detail, hint] = [lines.next(), lines.next()].map(Option::unwrap_or_default);
    assert!(detail.contains("DETAIL:  "), "{log}");
    assert!(hint.contains("HINT:  ") && hint.contains("wal_mark"), "{log}");
    assert_eq!(log.matches(MESSAGE).count(), 1, "{log}");
}
