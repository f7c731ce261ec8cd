use super::*;

fn teller() -> Teller {
    Teller { server: 7, layout: "flat".parse().expect("a layout"), last: 0, keeps_order: true, has_begun: false }
}

/// What a process tells of a start that finds the record of a life with this mark.
fn start(life: u64, record: (u64, UnixMs)) -> [Event; 6] {
    let (record_life, mark) = record;
    [
        Event::Begins { now: 1, timeline: 2, system_identifier: 3, directory: 4, worker: 5, layout: 6 },
        Event::FoundRecord { revision: 1, life: record_life, previous_life: 0, mark, logged: 0, of_worker: mark },
        Event::FoundInWal { mark: mark + 1, is_unknown: 0, common: 0, layout: 6 },
        Event::Decided { decision: 1, floor: mark, margin_ms: 0, was_standby: 0, lease: 0, lease_begins: 0 },
        Event::Starts { first: mark, mark: mark + 2000, limit: u64::MAX, wal_mark: 1 },
        Event::Born { number: life, revision: 1, wal_mark: 0, worker: 5 },
    ]
}

fn happen(lives: &mut Lives, teller: &Teller, last: Option<LifeSpan>, events: &[Event]) -> [Option<LifeSpan>; 2] {
    let mut changed = [None, None];
    for &event in events {
        changed = lives.after(event, 100, teller, || last);
    }
    changed
}

fn begun(life: u64, record: (u64, UnixMs)) -> LifeSpan {
    let events = [&start(life, record)[..], &[Event::Used { mark: record.1 + 2000 }]].concat();
    let [ended, begun] = happen(&mut Lives::default(), &teller(), None, &events);
    assert_eq!(ended, None);
    begun.expect("a life")
}

#[test]
fn a_start_that_lets_ids_be_issued_begins_a_life() {
    let life = begun(11, (0, 5000));
    assert_eq!((life.nth, life.number, life.server, life.worker), (1, 11, 7, 5));
    assert_eq!((life.first, life.issued, life.mark, life.found), (5000, 5000, 7000, 5001));
    assert_eq!((life.end, life.began_at, life.decision), (End::Open, 100, 1));
}

#[test]
fn a_start_that_fails_begins_none() {
    let events = [&start(11, (0, 5000))[..], &[Event::Failed {}, Event::Used { mark: 9000 }]].concat();
    assert_eq!(happen(&mut Lives::default(), &teller(), None, &events), [None, None]);
}

#[test]
fn an_extension_moves_the_end_and_a_planned_stop_fixes_it() {
    let teller = Teller { last: 1, has_begun: true, ..teller() };
    let life = begun(11, (0, 5000));
    let mut lives = Lives::default();
    let extends = Event::Extends { issued: 6500, mark: 9000, limit: u64::MAX, wal_mark: 1, jumps_to: 0 };
    let [longer, none] = happen(&mut lives, &teller, Some(life), &[extends, Event::Used { mark: 9000 }]);
    assert_eq!((longer, none), (Some(LifeSpan { issued: 6500, mark: 9000, ..life }), None));
    let [stopped, _] = happen(&mut lives, &teller, longer, &[Event::Stops { issued: 6600 }]);
    let end = LifeSpan { issued: 6600, mark: 6600, end: End::Stop, ended_at: 100, ..life };
    assert_eq!(stopped, Some(end));
}

#[test]
fn a_jump_leaves_out_what_is_between() {
    let teller = Teller { last: 1, has_begun: true, ..teller() };
    let life = begun(11, (0, 5000));
    let jump = Event::Extends { issued: 6500, mark: 92_000, limit: u64::MAX, wal_mark: 1, jumps_to: 90_000 };
    let jump = [jump, Event::Used { mark: 92_000 }];
    let [Some(before), Some(after)] = happen(&mut Lives::default(), &teller, Some(life), &jump) else {
        panic!("no jump");
    };
    assert_eq!((before.first, before.issued, before.mark, before.end), (5000, 6500, 7000, End::Jumped));
    assert_eq!((after.nth, after.number, after.first, after.mark), (2, 11, 90_000, 92_000));
    assert_eq!(after.with_issued(90_001).first, 90_000, "IDs have followed");
    assert_eq!(after.with_issued(6600).first, 7000, "none has, and those between can be issued");
    let disordered = Teller { keeps_order: false, ..teller };
    let [longer, none] = happen(&mut Lives::default(), &disordered, Some(life), &jump);
    assert_eq!((longer.map(|life| (life.first, life.mark)), none), (Some((5000, 92_000)), None));
}

#[test]
fn the_next_start_says_how_a_life_ended_that_could_not() {
    let last = begun(11, (0, 5000));
    let next = |teller: Teller, record| {
        let events = [&start(12, record)[..], &[Event::Used { mark: 20_000 }]].concat();
        let [ended, begun] = happen(&mut Lives::default(), &Teller { last: 1, ..teller }, Some(last), &events);
        assert_eq!(begun.map(|life| life.nth), Some(2));
        ended.map(|life| (life.end, life.mark))
    };
    assert_eq!(next(teller(), (11, 7500)), Some((End::Crash, 7500)), "the record had a later mark");
    assert_eq!(next(teller(), (10, 9000)), Some((End::Lost, 7000)), "its record is lost");
    assert_eq!(next(Teller { has_begun: true, ..teller() }, (11, 7500)), Some((End::GivenAway, 7000)));
    assert_eq!(next(Teller { server: 8, ..teller() }, (11, 7500)), None, "it was another server's");
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
