use super::*;

/// A server without problems: its place in the list is its worker, its cluster and its name.
fn member(nth: u32) -> Member {
    Member {
        server: nth as usize,
        system_identifier: i64::from(nth),
        numbers: Some((0, nth)),
        layout: Some("t41 d5 w5 s12".to_owned()),
        is_standby: false,
        has_wal_mark: false,
        clock: Clock::default(),
    }
}

fn problems(members: impl IntoIterator<Item = Member>) -> Vec<Vec<Problem>> {
    compare(&members.into_iter().map(Some).collect::<Vec<_>>(), 1000)
}

#[test]
fn servers_that_differ_have_no_problem() {
    assert_eq!(problems([member(0), member(1), member(2)]), [[], [], []]);
    assert_eq!(compare(&[], 1000), Vec::<Vec<Problem>>::new());
    assert_eq!(compare(&[None, Some(member(1)), None], 1000), [[], [], []]);
}

#[test]
fn servers_with_equal_workers_name_each_other() {
    let duplicate = Member { numbers: Some((0, 1)), ..member(3) };
    let members = [Some(member(0)), Some(member(1)), None, Some(duplicate.clone()), Some(duplicate)];
    let same = |others: &[usize]| vec![Problem::SameWorker(others.to_vec())];
    assert_eq!(
        compare(&members, 1000),
        [vec![], same(&[3]), vec![], same(&[1]), same(&[1])],
        "the last is named twice"
    );
}

#[test]
fn the_same_worker_of_another_data_center_is_another_one() {
    assert_eq!(problems([member(0), Member { numbers: Some((1, 0)), ..member(1) }]), [[], []]);
}

#[test]
fn a_worker_has_the_same_ids_in_a_layout_with_data_centers_and_in_one_without() {
    let flat = |worker| Member { numbers: Some((0, worker)), layout: Some("t41 w10 s12".to_owned()), ..member(1) };
    let twitter = Member { numbers: Some((11, 26)), ..member(0) };
    assert_eq!(
        problems([twitter.clone(), flat(378)]),
        [[Problem::SameWorker(vec![1])], [Problem::SameWorker(vec![0])]]
    );
    assert_eq!(problems([twitter.clone(), flat(26)]), [[], []], "and the layouts are one");
    let unknown = Member { layout: Some("q64".to_owned()), ..flat(378) };
    assert_eq!(problems([twitter, unknown]), [vec![], vec![Problem::OtherLayout(0)]]);
}

#[test]
fn servers_without_a_worker_are_no_duplicates() {
    let without = |nth| Member { numbers: None, ..member(nth) };
    assert_eq!(problems([without(0), without(1)]), [[], []]);
}

#[test]
fn a_server_that_is_listed_twice_is_no_duplicate_of_itself() {
    assert_eq!(problems([member(0), member(1), member(0), member(1)]), [[], [], [], []]);
    let copy = Member { server: 7, ..member(1) };
    let same = |others: &[usize]| vec![Problem::SameWorker(others.to_vec())];
    assert_eq!(problems([member(1), copy.clone(), copy]), [same(&[1]), same(&[0]), same(&[0])], "each is named once");
}

#[test]
fn a_standby_may_have_the_worker_of_its_primary_if_both_take_the_mark_through_wal() {
    for (primary, standby) in [(true, true), (true, false), (false, true), (false, false)] {
        let primary = Member { has_wal_mark: primary, ..member(1) };
        let standby = Member { server: 9, is_standby: true, has_wal_mark: standby, ..member(1) };
        let expected = if primary.has_wal_mark && standby.has_wal_mark { vec![] } else { vec![Problem::Standby(0)] };
        assert_eq!(problems([primary.clone(), standby.clone()]), [vec![], expected], "{primary:?} {standby:?}");
    }
}

#[test]
fn a_standby_of_another_cluster_with_the_same_worker_is_a_duplicate() {
    let standby = Member { numbers: Some((0, 0)), is_standby: true, has_wal_mark: true, ..member(1) };
    let primary = Member { has_wal_mark: true, ..member(0) };
    assert_eq!(problems([primary, standby]), [[Problem::SameWorker(vec![1])], [Problem::SameWorker(vec![0])]]);
}

#[test]
fn a_copy_that_has_been_promoted_is_a_duplicate_whatever_goes_through_wal() {
    let primary = Member { has_wal_mark: true, ..member(1) };
    let copy = Member { server: 9, ..primary.clone() };
    assert_eq!(problems([primary, copy]), [[Problem::SameWorker(vec![1])], [Problem::SameWorker(vec![0])]]);
}

#[test]
fn a_layout_is_compared_with_the_first_that_is_known() {
    let other = |nth| Member { layout: Some("t41 w9 s13".to_owned()), ..member(nth) };
    let without = Member { layout: None, ..member(0) };
    let differs = || vec![Problem::OtherLayout(1)];
    assert_eq!(
        problems([without, member(1), other(2), member(3), other(4)]),
        [vec![], vec![], differs(), vec![], differs()]
    );
}

#[test]
fn every_two_clocks_that_are_apart_are_found_and_one_wrong_clock_is_one_problem() {
    let clocks = |all: &[i64]| {
        let all = (0..).zip(all);
        problems(all.map(|(nth, &ahead_ms)| Member { clock: Clock { ahead_ms, error_ms: 0 }, ..member(nth) }))
    };
    let apart = |other, ms| vec![Problem::ClockApart(other, ms)];
    assert_eq!(clocks(&[0, 1000, -10]), [vec![], vec![], apart(1, -1010)]);
    assert_eq!(clocks(&[0, 5000, 0, 900]), [vec![], apart(0, 5000), vec![], vec![]]);
    assert_eq!(clocks(&[0, 600, -600]), [vec![], vec![], apart(1, -1200)], "though both are near the first");
    assert_eq!(clocks(&[0, i64::MIN, i64::MAX]), [vec![], apart(0, i64::MIN), apart(0, i64::MAX)]);
}

#[test]
fn what_the_round_trips_can_explain_is_no_difference() {
    let with = |nth, ahead_ms, error_ms| Member { clock: Clock { ahead_ms, error_ms }, ..member(nth) };
    assert_eq!(problems([member(0), with(1, 1200, 200)]), [[], []]);
    assert_eq!(problems([member(0), with(1, 1201, 200)]), [vec![], vec![Problem::ClockApart(0, 1201)]]);
    assert_eq!(problems([member(0), with(1, -700, 300), with(2, 700, 300)]), [[], [], []]);
    assert_eq!(problems([member(0), with(1, i64::MAX, u64::MAX)]), [[], []]);
}
