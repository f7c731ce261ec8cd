use super::*;

fn recorder() -> Recorder {
    Recorder { server: 7, layout: "flat".parse().expect("a layout"), last: 0, has_begun: false }
}

/// What a process records of a start that finds the record of a life with this mark.
fn start(life: u64, record: (u64, UnixMs)) -> [Event; 6] {
    let (record_life, mark) = record;
    [
        Event::Begins { now: 1, timeline: 2, system_identifier: 3, directory: 4, worker: 5, layout: 6 },
        Event::FoundRecord { revision: 1, life: record_life, previous_life: 0, mark, logged: 0, of_worker: mark },
        Event::FoundInWal { mark: mark + 1, is_unknown: 0, common: 0, layout: 6, others: 0, is_complete: 0 },
        Event::Decided { decision: 1, floor: mark, margin_ms: 0, was_standby: 0, lease: 0, lease_begins: 0 },
        Event::Starts { first: mark, mark: mark + 2000, limit: u64::MAX, wal_mark: 1 },
        Event::Born { number: life, revision: 1, wal_mark: 0, worker: 5 },
    ]
}

/// What is in the file after these events of one process, in which there was this life last.
fn happen(recorder: &Recorder, last: Option<LifeSpan>, events: &[Event]) -> Vec<LifeSpan> {
    let (mut lives, mut recorder, mut file) = (Lives::default(), *recorder, last.into_iter().collect::<Vec<_>>());
    for &event in events {
        let last = file.last().copied();
        for life in lives.after(event, 100, &recorder, || last).into_iter().flatten() {
            match file.iter_mut().find(|known| known.nth == life.nth) {
                Some(known) => *known = life,
                None => file.push(life),
            }
            if life.nth > recorder.last {
                (recorder.last, recorder.has_begun) = (life.nth, true);
            }
        }
    }
    file
}

fn begun(life: u64, record: (u64, UnixMs)) -> LifeSpan {
    let events = [&start(life, record)[..], &[Event::Used { mark: record.1 + 2000 }]].concat();
    let [begun] = happen(&recorder(), None, &events)[..] else { panic!("one life") };
    begun
}

#[test]
fn a_start_that_lets_ids_be_issued_begins_a_life() {
    let life = begun(11, (0, 5000));
    assert_eq!((life.nth, life.number, life.server, life.worker), (1, 11, 7, 5));
    assert_eq!((life.first, life.issued, life.mark, life.found), (5000, 5000, 7000, 5001));
    assert_eq!((life.end, life.began_at, life.decision), (End::Open, 100, 1));
}

#[test]
fn a_start_that_fails_issues_nothing_and_its_record_is_known() {
    let events = [&start(11, (0, 5000))[..], &[Event::Failed {}]].concat();
    let [life] = happen(&recorder(), None, &events)[..] else { panic!("one life") };
    assert_eq!((life.number, life.first, life.mark), (11, 5000, 5000));
    let events = [&start(11, (0, 5000))[..5], &[Event::Failed {}, Event::Used { mark: 9000 }]].concat();
    assert_eq!(happen(&recorder(), None, &events), [], "before its record");
}

/// The next start finds its record, and only this says what was before it.
#[test]
fn a_mark_that_was_accepted_is_a_life_that_issues_nothing() {
    let recorder = Recorder { last: 1, ..recorder() };
    let accept =
        |follows| [start(0, (0, 0))[0], Event::Accepts { mark: 8000, follows, found: 7000 }, start(12, (0, 0))[5]];
    let [before, accepted] = happen(&recorder, Some(begun(11, (0, 5000))), &accept(11))[..] else {
        panic!("two lives")
    };
    assert_eq!((before.end, before.mark), (End::Crash, 7000));
    assert_eq!((accepted.number, accepted.follows, accepted.found, accepted.end), (12, 11, 7000, End::Stop));
    assert_eq!((accepted.first, accepted.mark, accepted.reason()), (8000, 8000, "accepted mark"));
    let events = [&accept(11)[..], &start(13, (12, 8000))].concat();
    let [.., next] = happen(&recorder, Some(before), &events)[..] else { panic!("a life") };
    assert_eq!((next.nth, next.number, next.follows, next.decision), (3, 13, 12, 1));
    assert_eq!(happen(&recorder, Some(before), &accept(0)), [before], "nobody knows whose it is");
}

#[test]
fn an_extension_moves_the_end_and_a_planned_stop_fixes_it() {
    let recorder = Recorder { last: 1, has_begun: true, ..recorder() };
    let life = begun(11, (0, 5000));
    let extends = Event::Extends { issued: 6500, mark: 9000, limit: u64::MAX, wal_mark: 1, jumps_to: 0 };
    let longer = happen(&recorder, Some(life), &[extends, Event::Used { mark: 9000 }]);
    assert_eq!(longer, [LifeSpan { issued: 6500, mark: 9000, ..life }]);
    let end = LifeSpan { issued: 6600, mark: 6600, end: End::Stop, ended_at: 100, ..life };
    assert_eq!(happen(&recorder, Some(longer[0]), &[Event::Stops { issued: 6600 }]), [end]);
}

#[test]
fn after_a_jump_only_what_was_before_it_is_known_to_have_been_issued() {
    let recorder = Recorder { last: 1, has_begun: true, ..recorder() };
    let mut life = begun(11, (0, 5000));
    for (issued, mark, jumps_to) in [(6500, 92_000, 90_000), (90_500, 93_000, 0)] {
        let extends = Event::Extends { issued, mark, limit: u64::MAX, wal_mark: 1, jumps_to };
        life = happen(&recorder, Some(life), &[extends, Event::Used { mark }])[0];
        assert_eq!((life.first, life.issued, life.mark), (5000, 6500, mark));
    }
    let stopped = happen(&recorder, Some(life), &[Event::Stops { issued: 90_700 }])[0];
    assert_eq!((stopped.issued, stopped.mark, stopped.jumped_at), (6500, 90_700, 100));
}

/// With `wal_mark = off`, a start writes its record, tells WAL of it, and begins anew.
#[test]
fn a_start_that_begins_anew_tells_what_it_found_first() {
    let found = |number, record_life, decision| {
        let mut events = start(number, (record_life, 7500)).to_vec();
        events[3] = Event::Decided { decision, floor: 0, margin_ms: 0, was_standby: 0, lease: 0, lease_begins: 0 };
        events
    };
    let events = [found(12, 11, 2), found(13, 12, 1), vec![Event::Used { mark: 9500 }]].concat();
    let last = begun(11, (0, 5000));
    let [ended, begun] = happen(&Recorder { last: 1, ..recorder() }, Some(last), &events)[..] else {
        panic!("two lives")
    };
    assert_eq!(ended.end, End::Crash);
    assert_eq!((begun.number, begun.decision, begun.follows, begun.mark), (13, 2, 11, 9500));
}

#[test]
fn the_next_start_says_how_a_life_ended_that_could_not() {
    let last = begun(11, (0, 5000));
    let next = |recorder: Recorder, record| {
        let events = [&start(12, record)[..], &[Event::Used { mark: 20_000 }]].concat();
        let [ended, begun] = happen(&Recorder { last: 1, ..recorder }, Some(last), &events)[..] else {
            panic!("two lives")
        };
        assert_eq!((begun.nth, begun.mark), (2, 20_000));
        (ended.end, ended.mark)
    };
    assert_eq!(next(recorder(), (11, 7500)), (End::Crash, 7500), "the record had a later mark");
    assert_eq!(next(recorder(), (10, 9000)), (End::Lost, 7000), "its record is lost");
    assert_eq!(next(Recorder { has_begun: true, ..recorder() }, (11, 7500)), (End::GivenAway, 7000));
    assert_eq!(next(Recorder { server: 8, ..recorder() }, (11, 7500)), (End::Open, 7000), "it was another server's");
}

#[test]
fn a_life_is_read_as_it_was_written() {
    let life = LifeSpan { end: End::GivenAway, ended_at: 9, ..begun(11, (0, 5000)) };
    let bytes = life.encode();
    assert_eq!(LifeSpan::decode(&bytes), Some(life));
    for at in 0..LENGTH {
        let mut damaged = bytes;
        damaged[at] ^= 1;
        assert_eq!(LifeSpan::decode(&damaged), None, "byte {at}");
    }
    assert_eq!(LifeSpan::decode(&[0; LENGTH]), None, "nothing was written there");
}
