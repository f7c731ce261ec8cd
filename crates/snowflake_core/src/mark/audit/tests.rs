use super::*;

fn life(server: char, number: u64, begins: UnixMs, until: UnixMs) -> Life {
    Life {
        number,
        server: server.into(),
        system_identifier: 9,
        is_own: true,
        nth: 1,
        timeline: 1,
        worker: 5,
        layout: "flat".parse().expect("a preset"),
        reason: "restart".to_owned(),
        begins,
        issued: until,
        reserved: until,
        state: State::Ended,
        ended: 0,
        found: 0,
        logged: 0,
        follows: 0,
    }
}

fn told(lives: Vec<Life>) -> Told {
    Ok(Known { lives, ..Known::default() })
}

fn kinds(fleet: &[Told]) -> Vec<String> {
    audit(fleet)
        .iter()
        .map(|finding| format!("{finding:?}").split([' ', '{']).next().unwrap_or("").to_owned())
        .collect()
}

#[test]
fn lives_one_after_another_do_not_overlap() {
    let fleet = [told(vec![life('a', 1, 10, 20), life('a', 2, 20, 30)]), told(vec![life('b', 3, 30, 40)])];
    let [Finding::Apart { worker: 5, lives: 3, begins: 10, until: 40, .. }] = audit(&fleet)[..] else {
        panic!("{:?}", audit(&fleet));
    };
}

#[test]
fn lives_of_different_workers_may_have_the_same_times() {
    let other = Life { worker: 6, ..life('b', 2, 10, 20) };
    assert_eq!(kinds(&[told(vec![life('a', 1, 10, 20)]), told(vec![other])]), ["Apart", "Apart"]);
}

#[test]
fn two_lives_that_have_issued_ids_of_the_same_times_overlap() {
    let fleet = [told(vec![life('a', 1, 10, 20)]), told(vec![life('b', 2, 15, 30)])];
    let [Finding::Overlap { begins: 15, until: 20, is_certain: true, .. }] = audit(&fleet)[..] else {
        panic!("{:?}", audit(&fleet));
    };
}

#[test]
fn what_was_only_reserved_may_overlap() {
    let crashed = Life { issued: 15, ..life('a', 1, 10, 20) };
    let fleet = [told(vec![crashed]), told(vec![life('b', 2, 16, 30)])];
    let [Finding::Overlap { begins: 16, until: 20, is_certain: false, .. }] = audit(&fleet)[..] else {
        panic!("{:?}", audit(&fleet));
    };
}

/// A server that is killed does not know what it has issued since it wrote its mark.
#[test]
fn the_span_of_a_certain_overlap_has_all_that_can_be_there_twice() {
    let span = |fleet: &[Told]| match audit(fleet)[0] {
        Finding::Overlap { begins, until, is_certain: true, .. } => (begins, until),
        ref other => panic!("{other:?}"),
    };
    let crashed = Life { state: State::Crashed, issued: 18, ..life('a', 1, 10, 20) };
    assert_eq!(span(&[told(vec![crashed]), told(vec![life('b', 2, 15, 30)])]), (15, 20));
    let jumped = |until| told(vec![Life { issued: 18, ..life('a', 1, 10, until) }]);
    assert_eq!(span(&[jumped(40), jumped(30)]), (10, 30), "one life");
    let copy = Life { is_own: false, state: State::Unknown, issued: 25, ..life('a', 1, 10, 30) };
    assert_eq!(span(&[told(vec![life('a', 1, 10, 20)]), told(vec![copy, life('b', 2, 40, 50)])]), (10, 30));
}

#[test]
fn a_copy_of_a_life_is_the_same_life_and_its_own_server_knows_best() {
    let copied = Life { is_own: false, state: State::Unknown, ..life('a', 1, 10, 12) };
    let fleet = [told(vec![copied.clone(), life('b', 2, 25, 30)]), told(vec![life('a', 1, 10, 20)])];
    assert_eq!(kinds(&fleet), ["Apart"]);
    assert_eq!(kinds(&fleet[..1]), ["Apart", "NotAsked"], "its server was not asked");
}

#[test]
fn a_server_that_was_not_asked_is_most_likely_the_old_primary_of_a_promoted_one() {
    let copied = Life { is_own: false, state: State::Unknown, ..life('a', 1, 10, 12) };
    let is_promoted = |by: &Life| {
        let findings = audit(&[told(vec![copied.clone(), by.clone()])]);
        findings.iter().find_map(|finding| match finding {
            Finding::NotAsked { is_promoted, .. } => Some(*is_promoted),
            _ => None,
        })
    };
    let heir = Life { reason: "promotion or recovery".to_owned(), ..life('b', 2, 20, 30) };
    assert_eq!([&life('b', 2, 20, 30), &heir].map(is_promoted), [Some(false), Some(true)]);
}

#[test]
fn a_server_that_does_not_answer_is_never_a_silent_yes() {
    assert_eq!(kinds(&[told(vec![life('a', 1, 10, 20)]), Err("no route".to_owned())]), ["Apart", "Silent"]);
}

#[test]
fn what_a_data_directory_has_forgotten_is_said() {
    // It has found the record of the one before it, which is forgotten.
    let late = Life { nth: 7, follows: 9, found: 10, ..life('a', 1, 10, 20) };
    let [_, Finding::Forgotten { lives: 6, before: 10, .. }] = audit(&[told(vec![late.clone()])])[..] else {
        panic!("{:?}", audit(&[told(vec![late])]));
    };
    let twice = [told(vec![late.clone()]), told(vec![late.clone()])];
    assert_eq!(kinds(&twice), ["Apart", "Forgotten"], "it is listed twice");
    let promoted = Life { reason: "promotion or recovery".to_owned(), ..late };
    assert_eq!(kinds(&[told(vec![promoted])]), ["Apart", "Predecessor", "Forgotten"]);
}

#[test]
fn a_gap_in_the_numbers_of_lives_is_said() {
    let [one, two] = [(1, 10), (5, 30)].map(|(nth, begins)| Life { nth, ..life('a', nth, begins, begins + 10) });
    let [_, Finding::Missing { lives: 3, before: 30, .. }] = audit(&[told(vec![two.clone(), one.clone()])])[..] else {
        panic!("{:?}", audit(&[told(vec![two, one])]));
    };
}

#[test]
fn all_is_seen_from_where_the_last_forgotten_life_can_have_ended() {
    let late = |server, number, begins| {
        told(vec![Life { nth: 7, worker: number, ..life(server, number, begins, begins + 10) }])
    };
    let whole = told(vec![life('c', 3, 10, 20)]);
    let since = |fleet: &[Told]| seen_since(&audit(fleet), 10);
    assert_eq!(since(std::slice::from_ref(&whole)), Some(10));
    assert_eq!(since(&[late('a', 1, 40), whole.clone(), late('b', 2, 30)]), Some(40));
    assert_eq!(since(&[late('a', 1, 40), Err("no route".to_owned())]), None);
}

#[test]
fn a_mark_that_no_known_life_has_written_is_of_one_that_is_not_known() {
    let promoted = Life { reason: "promotion or recovery".to_owned(), found: 30, ..life('b', 2, 40, 50) };
    let primary = life('a', 1, 10, 20);
    assert_eq!(kinds(&[told(vec![primary.clone(), promoted.clone()])]), ["Apart", "Predecessor"]);
    let logged = Life { logged: 30, ..primary };
    assert_eq!(kinds(&[told(vec![logged, promoted])]), ["Apart"], "its last mark was lowered at a planned stop");
}

/// It has passed the mark of a primary that was lost between the two.
#[test]
fn the_mark_of_a_lost_primary_is_not_taken_for_that_of_an_earlier_one() {
    let earlier = life('a', 1, 10, 40);
    let heir = Life { reason: "promotion or recovery".to_owned(), found: 30, ..life('b', 2, 40, 50) };
    let of_timeline = |timeline| kinds(&[told(vec![earlier.clone()]), told(vec![Life { timeline, ..heir.clone() }])]);
    assert_eq!(of_timeline(3), ["Apart", "Predecessor"]);
    assert_eq!([of_timeline(1), of_timeline(2)], [["Apart"], ["Apart"]], "it has gone on, or the heir lacks its end");
    let exact = [earlier.reserved, 30].map(|found| Life { timeline: 3, found, ..heir.clone() });
    for heir in exact {
        let logged = told(vec![Life { logged: 30, ..earlier.clone() }]);
        assert_eq!(kinds(&[logged, told(vec![heir])]), ["Apart"], "nobody has written a later one");
    }
    let of_other_cluster = told(vec![Life { system_identifier: 8, ..earlier }]);
    assert_eq!(kinds(&[of_other_cluster, told(vec![heir])]), ["Apart", "Predecessor"]);
}

#[test]
fn a_restart_that_follows_a_life_which_was_removed_is_said() {
    let second = Life { follows: 9, ..life('a', 1, 20, 30) };
    assert_eq!(kinds(&[told(vec![second.clone()])]), ["Apart", "Predecessor"]);
    assert_eq!(kinds(&[told(vec![life('a', 9, 10, 20), Life { nth: 2, ..second }])]), ["Apart"]);
}

#[test]
fn a_life_that_only_a_copy_knows_although_its_server_was_asked_is_said() {
    let nth = |nth, begins| Life { nth, ..life('a', nth, begins, begins + 10) };
    let copied = |life| Life { is_own: false, state: State::Unknown, ..life };
    let copy = |lives: &[u64]| told(lives.iter().map(|&number| copied(nth(number, 10 * number))).collect());
    assert_eq!(kinds(&[told(vec![nth(1, 10)]), copy(&[1, 2])]), ["Apart", "Removed"]);
    assert_eq!(kinds(&[told(vec![nth(1, 10), nth(2, 20)]), copy(&[1, 2])]), ["Apart"]);
    assert_eq!(kinds(&[told(vec![nth(2, 20)]), copy(&[1, 2])]), ["Apart", "Forgotten"], "it keeps no more of them");
}

#[test]
fn a_life_whose_mark_was_lost_may_have_issued_more() {
    let lost = Life { state: State::Unknown, ..life('a', 1, 10, 20) };
    assert_eq!(kinds(&[told(vec![lost])]), ["Apart", "MarkLost"]);
}

#[test]
fn lives_of_another_layout_are_not_compared() {
    let other = Life { layout: "discord".parse::<Layout>().expect("a preset").flat(), ..life('b', 2, 10, 20) };
    let fleet = [told(vec![life('a', 1, 10, 20), life('a', 3, 20, 30)]), told(vec![other])];
    assert_eq!(kinds(&fleet), ["Apart", "Apart", "OtherLayout"]);
}

#[test]
fn a_lease_of_which_no_life_was_told_is_said() {
    let grant = Grant { worker: 5, system_identifier: 9, server: "pg-5".to_owned(), until: 40, issued: 0 };
    let registry = |grant| Ok(Known { grants: vec![grant], ..Known::default() });
    let server = told(vec![life('a', 1, 10, 20)]);
    assert_eq!(kinds(&[server.clone(), registry(grant.clone())]), ["Apart"]);
    for grant in [Grant { worker: 6, ..grant.clone() }, Grant { system_identifier: 8, ..grant }] {
        assert_eq!(kinds(&[server.clone(), registry(grant)]), ["Apart", "Leased"]);
    }
}

#[test]
fn a_lease_of_a_clone_is_not_that_of_its_original() {
    let is_told = |life: Life, issued| {
        let grant = Grant { worker: 5, system_identifier: 9, server: "clone".to_owned(), until: 1_000_000, issued };
        kinds(&[told(vec![life]), Ok(Known { grants: vec![grant], ..Known::default() })]) == ["Apart"]
    };
    let running = Life { state: State::Running, ..life('a', 1, 10, 20) };
    assert!(is_told(life('a', 1, 10, 20), 20) && !is_told(life('a', 1, 10, 20), 21));
    assert!(is_told(running.clone(), 60_020), "it has issued more since it was asked");
    assert!(!is_told(running.clone(), 60_021) && !is_told(Life { is_own: false, ..running }, 60_020));
}

#[test]
fn a_server_that_runs_twice_is_no_silent_yes() {
    let running = |until| vec![Life { state: State::Running, ..life('a', 1, 10, until) }];
    let clone = Known { lives: running(30), clone_of: Some((0, true)), ..Known::default() };
    let [Finding::Cloned { begins: 10, until: 20, .. }] = audit(&[told(running(20)), Ok(clone.clone())])[..] else {
        panic!("{:?}", audit(&[told(running(20)), Ok(clone)]));
    };
}

/// They have run it beside each other, until one of them was stopped, or got another worker.
#[test]
fn a_life_that_two_servers_tell_as_their_own_in_two_ways_has_run_twice() {
    let ran_on = told(vec![Life { state: State::Running, ..life('a', 1, 10, 90) }]);
    let ended = |until, state| Life { state, ..life('a', 1, 10, until) };
    let again = |worker| Life { worker, nth: 2, follows: 1, ..life('a', 2, 60, 80) };
    let other_worker = told(vec![ended(50, State::Ended), again(6)]);
    let same_worker = told(vec![ended(50, State::Ended), again(5)]);
    for fleet in [[&ran_on, &other_worker], [&other_worker, &ran_on], [&ran_on, &same_worker]] {
        let findings = audit(&fleet.map(Clone::clone));
        let is_of =
            |finding: &Finding| matches!(finding, Finding::Overlap { begins: 10, until: 50, is_certain: true, .. });
        assert!(findings.iter().any(is_of), "{findings:?}");
        let is_apart = |finding: &Finding| matches!(finding, Finding::Apart { worker: 5, .. });
        assert!(!findings.iter().any(is_apart), "{findings:?}");
    }
    let both_ended = [50, 70].map(|until| told(vec![ended(until, State::Ended)]));
    assert_eq!(kinds(&both_ended), ["Overlap"]);
    let has_crashed = [told(vec![ended(70, State::Ended)]), told(vec![ended(50, State::Crashed)])];
    let [Finding::Overlap { until: 50, is_certain: false, .. }] = audit(&has_crashed)[..] else {
        panic!("{:?}", audit(&has_crashed));
    };
}

/// Both have issued IDs of the tick in which they were cloned, and none after that.
#[test]
fn clones_that_were_stopped_in_the_same_tick_of_one_life_have_run_it_twice() {
    let stopped = |ended| told(vec![Life { ended, ..life('a', 1, 10, 20) }]);
    assert_eq!(kinds(&[stopped(30), stopped(31)]), ["Overlap"]);
    assert_eq!(kinds(&[stopped(30), stopped(30)]), ["Apart"], "it is listed twice");
}

/// They were killed before one of them wrote a further mark. One got another worker afterwards.
#[test]
fn clones_that_have_crashed_with_the_same_mark_may_have_run_their_life_twice() {
    let fork = |state, numbers: [u64; 2]| {
        kinds(&numbers.map(|number| {
            let next = Life { nth: 2, worker: number, follows: 1, ..life('a', number, 40, 50) };
            told(vec![Life { state, ..life('a', 1, 10, 20) }, next])
        }))
    };
    assert_eq!(fork(State::Crashed, [6, 7]), ["Apart", "Apart", "Overlap"]);
    assert_eq!(fork(State::Crashed, [6, 6]), ["Apart", "Apart"], "it is listed twice");
    assert_eq!(fork(State::Ended, [6, 7]), ["Apart"; 3], "the volume of a stopped server was cloned");
}

#[test]
fn a_server_that_is_listed_twice_has_run_its_lives_once() {
    for state in [State::Running, State::Ended, State::Crashed] {
        let server = told(vec![Life { state, ..life('a', 1, 10, 20) }]);
        assert_eq!(kinds(&[server.clone(), server]), ["Apart"], "{state:?}");
    }
    let [earlier, later] = [20, 30].map(|until| told(vec![Life { state: State::Running, ..life('a', 1, 10, until) }]));
    assert_eq!(kinds(&[earlier.clone(), later]), ["Apart"], "it has issued some between its answers");
    let stopped = told(vec![life('a', 1, 10, 30)]);
    let [Finding::Overlap { is_certain: false, .. }] = audit(&[earlier, stopped])[..] else {
        panic!("it may have stopped between its answers");
    };
    let begins = [State::Crashed, State::Running].map(|state| Life { state, ..life('a', 1, 10, 10) });
    assert_eq!(kinds(&begins.map(|life| told(vec![life]))), ["Apart"], "it has begun between its answers");
}
