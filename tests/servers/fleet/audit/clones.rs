//! Lives that went on beside others: lost primaries, and clones of machines.

use super::super::fixture::{conninfo, member, start};
use super::{IDS, audit, have_told, ids, issue_beside_each_other, life_of};
use std::fs;
use testbed::{Cluster, Load, Signal, allow_duplicates, real_time, sleep_past, test};

/// A primary runs beside its standby, which was promoted and is lost. Only the heir of that one has its mark, and the
/// old primary has passed it.
#[test]
fn an_old_primary_that_runs_on_does_not_hide_a_lost_one() {
    let mut old = start(member(7).with_defaults());
    ids(&old);
    let mut lost = Cluster::builder().standby_of(&old);
    let heir = Cluster::builder().standby_of(&lost);
    let of_old = Load::start(&old, 2, IDS);
    of_old.wait_for_ids();
    lost.promote();
    let promoted = real_time();
    let of_lost = Load::start(&lost, 2, IDS);
    of_lost.wait_for_ids();
    // Above the margin of the promotion, the same times are issued by both.
    sleep_past(promoted + 8500);
    heir.wait_for_commits_of(&lost);
    let mut all = of_lost.finish();
    lost.kill_all();
    sleep_past(promoted + 11500);
    all.merge(of_old.finish());
    old.stop(Signal::INT);
    heir.promote();
    all.merge(ids(&heir));
    allow_duplicates();
    assert!(all.duplicates() > 0, "the test shows nothing");
    old.start();
    let (results, details) = audit(&old, &[&heir]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("ask the server that had this worker until 20"), "{details}");
    assert!(details.contains(", most likely the old primary: "), "{details}");
    assert!(details.contains(" (promotion or recovery, IDs from 20"), "{details}");
}

#[test]
fn an_overlap_of_clones_names_their_worker_and_their_ids() {
    let by = start(member(8));
    ids(&by);
    let [one, two] = [(), ()].map(|()| start(member(7)));
    let (lowest, highest) = ids(&one).range().expect("IDs");
    let life = life_of(&one);
    have_told(&two, &format!("SELECT '{life}'::jsonb"));
    let fleet = [&one, &two].map(conninfo);
    let rows = by
        .connect()
        .query(
            "SELECT result, worker_id, begins_at < ends_at, detail FROM snowflake_audit_fleet($1)",
            &[&fleet.as_slice()],
        )
        .expect("an audit");
    let of_worker: Vec<_> = rows.iter().filter(|row| row.get::<_, Option<i32>>(1) == Some(7)).collect();
    let [row] = of_worker[..] else { panic!("{rows:?}") };
    assert_eq!((row.get::<_, &str>(0), row.get(2)), ("overlap", Some(true)));
    let detail: &str = row.get(3);
    assert!(detail.contains("runs the same life as"), "{detail}");
    let (_, span) = detail.rsplit_once(" from ").expect(detail);
    let (first, last) = span.split_once(" to ").expect(span);
    let [first, last] = [first, last].map(|id| id.parse::<i64>().expect(span));
    assert!((first..=last).contains(&lowest) && (first..=last).contains(&highest), "{lowest} to {highest}: {detail}");
}

/// It was cloned with its memory, and the clone got another worker afterwards.
#[test]
fn clones_that_have_run_one_life_overlap_after_one_has_got_another_worker() {
    let by = start(member(9));
    ids(&by);
    let [one, two] = [(), ()].map(|()| start(member(7)));
    ids(&one);
    let life = life_of(&one);
    let changed = |number: u32, life_number: &str, worker: u32, state: &str, from: u32, to: u32| {
        format!(
            "SELECT l || jsonb_build_object('life', {life_number}, 'is_own', true, 'number', {number}, 'worker_id', {worker},
                'reason', 'restart', 'begins_at', begins + {from} * 1000, 'issued_until', begins + {to} * 1000,
                'reserved_until', begins + {to} * 1000, 'state', '{state}', 'ended_at', 0, 'found', 0, 'logged', 0,
                'follows', CASE WHEN {number} > 1 THEN l->>'life' ELSE '0' END)
             FROM (SELECT t.l, (t.l->'begins_at')::bigint AS begins FROM (SELECT '{life}'::jsonb AS l) AS t) AS t"
        )
    };
    have_told(&one, &changed(1, "l->>'life'", 7, "running", 0, 3600));
    let ended = changed(1, "l->>'life'", 7, "given away", 0, 1800);
    have_told(&two, &format!("{ended} UNION ALL {}", changed(2, "'abc'", 8, "running", 1900, 3600)));
    let (results, details) = audit(&by, &[&one, &two]);
    assert_eq!(results.iter().filter(|result| *result == "overlap").count(), 2, "{details}");
}

/// The life during which the copy was made.
#[test]
fn a_life_that_its_server_has_lost_and_a_copy_knows_is_named() {
    let mut original = start(member(7));
    ids(&original);
    original.stop(Signal::INT);
    let trace = original.data().join("snowflake_pg.trace");
    let old = fs::read(&trace).expect("a trace");
    original.start();
    ids(&original);
    let mut copy = Cluster::builder().backup_of(&original);
    copy.start();
    issue_beside_each_other(&original, &copy);
    let (results, details) = audit(&original, &[&copy]);
    assert_eq!(results[0], "overlap", "{details}");
    copy.configure("snowflake_pg.worker_id", 8);
    copy.restart(Signal::INT);
    ids(&copy);
    original.stop(Signal::INT);
    fs::write(&trace, &old).expect("own file");
    original.start();
    ids(&original);
    let (results, details) = audit(&original, &[&copy]);
    assert_ne!(results[0], "no overlap", "{details}");
    assert!(details.contains("its server no longer has it"), "{details}");
}
