//! Lives that went on beside others: lost primaries, and clones of machines.

use super::super::fixture::{member, start};
use super::{IDS, audit, ids};
use testbed::{Cluster, Load, Signal, allow_duplicates, real_time, sleep_past, test};

/// A primary runs beside its standby, which was promoted and is lost. Only the heir of that one has its mark, and the old
/// primary has passed it.
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
    heir.promote();
    let of_heir = ids(&heir);
    sleep_past(promoted + 11500);
    all.merge(of_old.finish());
    all.merge(of_heir);
    allow_duplicates();
    assert!(all.duplicates() > 0, "the test shows nothing");
    old.restart(Signal::INT);
    let (results, details) = audit(&old, &[&heir]);
    assert_eq!(results[0], "not seen", "{details}");
    assert!(details.contains("may be of a life that none of these servers has told of"), "{details}");
}
