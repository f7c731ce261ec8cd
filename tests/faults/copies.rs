//! A server's files in another place, or from another time: copies, rewinds and backups.

use super::nodes::{
    IDS, START_MARGIN_MS, assert_above, assert_only_errors, assert_refused, crash, lead_ms, some_ids_without_errors,
    start,
};
use super::suite::{Evidence, Fault};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, Load, Report, Signal, error, issued_at, real_time, skip, value};

pub const FAULTS: &[Fault] = &[
    Fault {
        row: 20,
        promise: "a_base_backup_with_its_originals_worker_issues_nothing_until_it_is_accepted",
        short: 1,
        full: 3,
        run: |rounds| in_rounds(rounds, |_| accepted_copy(backed_up)),
    },
    Fault {
        row: 20,
        promise: "a_copied_directory_with_its_originals_worker_issues_nothing_until_it_is_accepted",
        short: 1,
        full: 3,
        run: |rounds| in_rounds(rounds, |_| accepted_copy(copied)),
    },
    Fault {
        row: 20,
        promise: "a_copy_with_a_worker_of_its_own_works",
        short: 2,
        full: 4,
        run: |rounds| in_rounds(rounds, |round| copy_with_its_own_worker([backed_up, copied][round % 2])),
    },
    Fault {
        row: 20,
        promise: "a_copy_with_another_layout_is_refused_as_a_copy_and_its_layout_is_named_too",
        short: 1,
        full: 2,
        run: |rounds| in_rounds(rounds, |_| copy_with_another_layout()),
    },
    Fault { row: 20, promise: "the_original_is_never_taken_for_a_copy", short: 1, full: 5, run: original },
    Fault { row: 41, promise: "a_data_directory_below_an_overlay_works", short: 1, full: 5, run: below_an_overlay },
    Fault {
        row: 21,
        promise: "a_primary_that_was_rewound_and_promoted_back_repeats_nothing",
        short: 1,
        full: 5,
        run: |rounds| in_rounds(rounds, |_| rewound_and_promoted_back(2)),
    },
    Fault {
        row: 21,
        promise: "the_same_holds_when_both_nodes_have_one_worker_that_moves",
        short: 1,
        full: 5,
        run: |rounds| in_rounds(rounds, |_| rewound_and_promoted_back(1)),
    },
    Fault {
        row: 22,
        promise: "a_server_recovered_to_a_point_in_time_begins_beyond_what_it_issued_after_it",
        short: 1,
        full: 5,
        run: recovered_to_a_point_in_time,
    },
];

/// The evidence of rounds that end with what clients have received.
fn in_rounds(rounds: usize, round: impl FnMut(usize) -> Report) -> Evidence {
    let mut all = Report::default();
    (0..rounds).map(round).for_each(|report| all.merge(report));
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all).lead_ms(lead_ms(&all, 0))
}

/// A copy of a server, and what clients have received from the original before it was stopped.
type Copied = (Cluster, Report);

/// By pg_basebackup. The original goes on for a while, then stops for good.
fn backed_up(worker: i32) -> Copied {
    let mut original = start(Cluster::builder().worker(1));
    let mut ids = some_ids_without_errors(&original);
    let copy = Cluster::builder().set("snowflake_pg.worker_id", worker).backup_of(&original);
    ids.merge(some_ids_without_errors(&original));
    original.stop(Signal::INT);
    (copy, ids)
}

/// By `cp -a` while the original was stopped. Then the original goes on for a while, and stops for good.
fn copied(worker: i32) -> Copied {
    let mut original = start(Cluster::builder().worker(1));
    let mut ids = some_ids_without_errors(&original);
    original.stop(Signal::INT);
    let copy = Cluster::builder().set("snowflake_pg.worker_id", worker).copy_of(&original);
    original.start();
    ids.merge(some_ids_without_errors(&original));
    original.stop(Signal::INT);
    (copy, ids)
}

fn accepted_copy(copied: fn(i32) -> Copied) -> Report {
    let (mut copy, mut ids) = copied(1);
    copy.start();
    assert_refused(&copy, "copy");
    crash(&mut copy);
    assert_refused(&copy, "copy");
    copy.connect().batch_execute("SELECT snowflake_accept_mark()").expect("an acceptance");
    let accepted = some_ids_without_errors(&copy);
    assert_above(&accepted, &ids);
    // Once is enough.
    copy.restart(Signal::INT);
    let later = some_ids_without_errors(&copy);
    assert_above(&later, &accepted);
    ids.merge(accepted);
    ids.merge(later);
    ids
}

fn copy_with_its_own_worker(copied: fn(i32) -> Copied) -> Report {
    let (mut copy, mut ids) = copied(2);
    copy.start();
    ids.merge(some_ids_without_errors(&copy));
    assert_no_mark_is_logged(&copy);
    let worker = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";
    assert_eq!(value(&mut copy.connect(), worker), "2");
    copy.restart(Signal::INT);
    ids.merge(some_ids_without_errors(&copy));
    ids
}

/// Where IDs begin is in the log, with what that relies on; but what a healthy fleet does is nothing to be warned of.
fn assert_no_mark_is_logged(server: &Cluster) {
    let log = server.log();
    assert!(log.contains("LOG:  snowflake_pg: durable mark of another worker found"), "{log}");
    assert!(!log.contains("WARNING:  snowflake_pg"), "{log}");
}

/// Both layouts divide the same bits, so that nothing but the refusal keeps the IDs of the two apart.
fn copy_with_another_layout() -> Report {
    let mut original = start(Cluster::builder().worker(1));
    let mut ids = some_ids_without_errors(&original);
    original.stop(Signal::INT);
    let mut copy = Cluster::builder().set("snowflake_pg.layout", "t41 w11 s11").copy_of(&original);
    original.start();
    copy.start();
    assert_refused(&copy, "copy");
    let refused = error(&mut copy.connect(), "SELECT snowflake_nextval()");
    assert!(refused.detail().is_some_and(|detail| detail.contains("The layout has also changed")), "{refused:?}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("If the other server may still run")), "{refused:?}");
    ids.merge(some_ids_without_errors(&original));
    ids
}

fn original(rounds: usize) -> Evidence {
    let mut original = start(Cluster::builder().worker(1).with_defaults());
    let mut all = some_ids_without_errors(&original);
    let mut issued_since = |original: &Cluster| {
        let ids = some_ids_without_errors(original);
        assert_above(&ids, &all);
        all.merge(ids);
    };
    for round in 0..rounds {
        crash(&mut original);
        issued_since(&original);
        original.restart(Signal::INT);
        issued_since(&original);
        original.stop(Signal::INT);
        original.move_data(&format!("moved{round}"));
        original.start();
        issued_since(&original);
    }
    // A copy beside it does not matter to it.
    original.stop(Signal::INT);
    let _copy = Cluster::builder().copy_of(&original);
    original.start();
    issued_since(&original);
    let log = original.log();
    assert!(!log.contains("WARNING:  snowflake_pg"), "{log}");
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all).crashes(rounds).lead_ms(lead_ms(&all, 0))
}

/// The first write in a directory of the lower layer copies the directory to the upper one, where it has a birth of its
/// own.
fn below_an_overlay(rounds: usize) -> Evidence {
    let mut all = Report::default();
    for _ in 0..rounds {
        let mut server = start(Cluster::builder().worker(1));
        all.merge(some_ids_without_errors(&server));
        server.stop(Signal::INT);
        if !server.overlay() {
            skip("this user can mount no overlay file system");
        }
        server.start();
        let warned = "WARNING:  snowflake_pg: the state directory was copied up";
        server.wait_for_log(warned);
        assert_eq!(server.log().matches(warned).count(), 1, "its like may be running: {}", server.log());
        for _ in 0..2 {
            let load = Load::start(&server, 2, IDS);
            // Past the first mark, which reaches half a second ahead.
            sleep(Duration::from_secs(1));
            let ids = load.finish();
            assert_only_errors(&ids, &[]);
            assert_above(&ids, &all);
            all.merge(ids);
            crash(&mut server);
        }
        server.restart(Signal::INT);
        all.merge(some_ids_without_errors(&server));
        assert_eq!(server.log().matches(warned).count(), 1, "{}", server.log());
        for elsewhere in ["written in another directory", "durable mark found in WAL, IDs begin"] {
            assert!(!server.log().contains(elsewhere), "{}", server.log());
        }
    }
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all).crashes(2 * rounds).lead_ms(lead_ms(&all, 0))
}

/// Node A, of worker 1, is followed by B. B is promoted while A still goes on; then A is rewound, follows B, and takes
/// over again.
fn rewound_and_promoted_back(worker_of_b: i32) -> Report {
    let server = Cluster::builder().worker(1).set("wal_log_hints", "on").set("wal_keep_size", "128MB");
    let mut a = start(server);
    a.connect().batch_execute("CREATE TABLE t (i integer)").expect("a table");
    let mut b = Cluster::builder().set("snowflake_pg.worker_id", worker_of_b).standby_of(&a);

    let mut before = some_ids_without_errors(&a);
    b.promote();
    a.connect().batch_execute("INSERT INTO t SELECT generate_series(1, 1000)").expect("rows that B never sees");
    let load_of_b = Load::start(&b, 2, IDS);
    load_of_b.wait_for_ids();
    // Two servers can't issue IDs of one worker at the same time: then A goes on with rows alone.
    if worker_of_b != 1 {
        before.merge(some_ids_without_errors(&a));
    }
    a.stop(Signal::INT);

    a.rewind(&b);
    a.follow(&b);
    assert_eq!(value(&mut a.connect(), "SELECT count(*) FROM t"), "0", "A is where B is");
    load_of_b.wait_for_ids();
    b.stop(Signal::INT);
    let meanwhile = load_of_b.finish();
    a.wait_for_replay_of(&b);
    a.promote();
    let after = some_ids_without_errors(&a);
    let noticed =
        ["durable mark of an older timeline found", "durable mark found in WAL"][usize::from(worker_of_b != 1)];
    a.wait_for_log(&format!("LOG:  snowflake_pg: {noticed}"));

    assert_only_errors(&meanwhile, &[]);
    let mut all = before;
    all.merge(meanwhile);
    assert_above(&after, &all);
    all.merge(after);
    all
}

fn recovered_to_a_point_in_time(rounds: usize) -> Evidence {
    let evidence = in_rounds(rounds, |_| {
        let mut server = Cluster::builder().worker(1).with_defaults().create();
        server.archive();
        server.start();
        let mut client = server.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let mut ids = some_ids_without_errors(&server);
        let mut backup = Cluster::builder().backup_of(&server);

        let load = Load::start(&server, 2, IDS);
        load.wait_for_ids();
        let moment = value(&mut client, "SELECT clock_timestamp()");
        load.wait_for_ids();
        client.batch_execute("CREATE TABLE mistake ()").expect("a table");
        server.wait_for_archive();
        load.wait_for_ids();
        drop(client);
        server.kill_all();
        ids.merge(load.finish());
        assert_only_errors(&ids, &[]);

        let began = real_time();
        backup.recover(&server, &moment);
        assert_eq!(value(&mut backup.connect(), "SELECT to_regclass('mistake')"), "NULL", "back in time");
        let after = some_ids_without_errors(&backup);
        assert_above(&after, &ids);
        let (lowest, _) = after.range().expect("IDs");
        let floor = issued_at(lowest);
        assert!(floor >= began + START_MARGIN_MS, "the floor is {floor} and not beyond {began} by the start margin");
        ids.merge(after);
        ids
    });
    evidence.crashes(rounds)
}
