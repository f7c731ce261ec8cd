//! What a client does with a registry, a disk and a server that only write down what they are told.

use super::Client;
use super::io::{Claim, Claimed, DurableLease, Event, Grant, Io, Occasion, Renewal, Wish};
use crate::UnixMs;
use crate::mark::StoredMark;
use crate::server::identity::Worker;
use crate::server::lease::{Lease, LeaseStart, Location, Token};

const GRANT: Grant = Grant { until: 9000, receipt: [7; 32], revision: 1 };
const RENEWED: Grant = Grant { until: 9500, receipt: [8; 32], revision: 2 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Away,
    Disk,
    Refused,
    Lost,
}

#[derive(Default)]
struct World {
    now: u64,
    tokens: Token,
    disk: Option<Lease>,
    disk_fails: bool,
    is_away: bool,
    must_stop: Option<bool>,
    is_mark_lost: bool,
    worker: Option<Worker>,
    /// The lease on disk when the registry was told of a release.
    told: Option<Lease>,
    done: Vec<&'static str>,
}

impl World {
    fn done(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.done)
    }

    fn answer<T>(&mut self, what: &'static str, answer: T) -> Result<T, Failure> {
        self.done.push(what);
        if self.is_away { Err(Failure::Away) } else { Ok(answer) }
    }
}

impl Io for World {
    type Failure = Failure;
    type Session = ();

    fn monotonic_ms(&self) -> u64 {
        self.now
    }

    fn latest(&self, mark_at_start: UnixMs) -> UnixMs {
        mark_at_start.max(self.now)
    }

    fn lease_ms(&self) -> u64 {
        6000
    }

    fn new_token(&mut self) -> Token {
        self.tokens += 1;
        self.tokens
    }

    fn wish(&self) -> Result<Wish, Failure> {
        Ok(Wish { worker: None, least: 32, greatest: 63 })
    }

    fn lock(&mut self) -> Result<(), Failure> {
        self.done.push("lock");
        Ok(())
    }

    fn unlock(&mut self) {
        self.done.push("unlock");
    }

    fn location(&self) -> Option<Location> {
        Some(Location { boot: 1, device: 2, directory: 3 })
    }

    fn read_stored_mark(&mut self) -> Result<StoredMark, Failure> {
        Ok(StoredMark::none())
    }

    fn read_lease(&self) -> Result<Option<Lease>, Failure> {
        Ok(self.disk)
    }

    fn write_lease(&mut self, lease: &Lease) -> Result<(), Failure> {
        if self.disk_fails {
            return Err(Failure::Disk);
        }
        self.done.push("write");
        self.disk = Some(*lease);
        Ok(())
    }

    fn worker(&self) -> Option<Worker> {
        self.worker
    }

    fn lost_lease(&self) -> Failure {
        Failure::Lost
    }

    fn begin(&mut self, lease: &DurableLease, _start: LeaseStart) {
        self.done.push("begin");
        self.worker = Some(lease.worker);
    }

    fn extend(&mut self, _lease: &DurableLease) {
        self.done.push("extend");
    }

    fn lower_grant(&mut self, _lease: &Lease) -> Option<UnixMs> {
        self.done.push("lower");
        (!self.is_mark_lost).then_some(2000)
    }

    fn end_grant(&mut self, _lease: &Lease) {
        self.done.push("end");
    }

    fn show_superseded(&mut self, _is_superseded: bool) {}

    fn connect(&mut self, _lease: Option<&Lease>, _occasion: Occasion) -> Result<(), Failure> {
        if self.is_away { Err(Failure::Away) } else { Ok(()) }
    }

    fn claim(&mut self, (): &mut (), _had: Option<&Lease>, _claim: &Claim, _latest: u64) -> Result<Claimed, Failure> {
        self.answer("claim", Claimed { worker: 36, start: LeaseStart::First(500), grant: GRANT })
    }

    fn renew(&mut self, (): &mut (), _lease: &Lease, _latest: u64) -> Result<Renewal<Failure>, Failure> {
        let refused = |must_stop| Renewal::Refused { failure: Failure::Refused, is_final: true, must_stop };
        let renewal = self.must_stop.map_or(Renewal::Granted(RENEWED), refused);
        self.answer("renew", renewal)
    }

    fn release(&mut self, (): &mut (), _held: &Lease, lowered: &Lease, _latest: u64) -> Result<Grant, Failure> {
        self.told = self.disk;
        self.answer("release", Grant { until: lowered.granted_until, ..GRANT })
    }

    fn must_not_start(&self) -> bool {
        false
    }

    fn is_answer(failure: &Failure) -> bool {
        *failure != Failure::Away
    }

    fn tell(&mut self, _event: Event<'_, Failure>) {}
}

/// A server that has leased a worker.
fn leased() -> (Client, World) {
    let mut world = World::default();
    let mut client = Client::new(&mut world);
    client.ask(&mut world).expect("a worker");
    world.done();
    (client, world)
}

#[test]
fn a_worker_is_used_when_its_lease_is_on_disk_and_not_if_it_cannot_be_written() {
    let mut world = World { disk_fails: true, ..World::default() };
    let mut client = Client::new(&mut world);
    assert_eq!(client.ask(&mut world), Err(Failure::Disk));
    assert_eq!(world.done(), ["lock", "claim", "unlock"]);
    world.disk_fails = false;
    assert_eq!(client.ask(&mut world), Ok(()));
    assert_eq!(world.done(), ["lock", "claim", "write", "begin"]);
}

#[test]
fn a_grant_is_used_when_it_is_on_disk_and_its_token_is_there_before_it_is_asked_for() {
    let (mut client, mut world) = leased();
    assert_eq!(client.ask(&mut world), Ok(()));
    assert_eq!(world.done(), ["write", "renew", "write", "extend"]);
    let lease = world.disk.expect("a lease");
    assert_eq!(
        (lease.granted_until, lease.receipt, lease.revision),
        (9500, [8; 32], 2),
        "as the registry has granted it"
    );
    world.disk_fails = true;
    assert_eq!(client.ask(&mut world), Err(Failure::Disk));
    assert_eq!(world.done(), [""; 0], "no token, no question");
}

#[test]
fn a_server_goes_on_without_the_registry_while_its_lease_lasts_and_no_longer() {
    let (_, mut world) = leased();
    (world.worker, world.is_away) = (None, true);
    let mut client = Client::new(&mut world);
    assert_eq!(client.ask(&mut world), Err(Failure::Away));
    assert_eq!(world.done(), ["lock", "begin", "unlock"]);
    (world.worker, world.now) = (None, 9000);
    let mut client = Client::new(&mut world);
    assert_eq!(client.ask(&mut world), Err(Failure::Away));
    assert_eq!(world.done(), ["lock", "unlock"]);
}

#[test]
fn a_client_that_was_restarted_takes_up_the_lease_of_its_server_and_no_other_one() {
    let (_, mut world) = leased();
    let mut client = Client::new(&mut world);
    assert_eq!(client.ask(&mut world), Ok(()));
    assert_eq!(world.done(), ["lock", "write", "renew", "write", "extend"]);
    world.worker = Some(5);
    let mut client = Client::new(&mut world);
    assert_eq!(client.ask(&mut world), Err(Failure::Lost));
    assert_eq!(world.done(), ["lock"]);
}

#[test]
fn a_server_whose_worker_was_given_away_stops_if_it_must_and_asks_no_more() {
    for must_stop in [false, true] {
        let (mut client, mut world) = leased();
        world.must_stop = Some(must_stop);
        assert_eq!(client.ask(&mut world), Err(Failure::Refused));
        let expected: &[_] = if must_stop { &["write", "renew", "end", "write"] } else { &["write", "renew", "write"] };
        assert_eq!(world.done(), expected);
        let lease = world.disk.expect("a lease");
        assert_eq!(
            (lease.location, lease.receipt),
            (Location::NOWHERE, [0; 32]),
            "no start and no registry take it for its own"
        );
        assert_eq!(client.next(), None);
        world.now = 1_000_000;
        assert!(!client.is_due(&world));
    }
}

#[test]
fn a_lease_is_lowered_on_disk_before_it_is_given_back_and_only_to_a_registry_that_answers() {
    let (mut client, mut world) = leased();
    let held = world.disk.expect("a lease");
    client.release(&mut world);
    assert_eq!(world.done(), ["lower", "write", "release", "write"]);
    let [token, next] = [held.tokens[0], world.tokens];
    assert_ne!(token, next);
    let lowered = Lease { tokens: [token, next], granted_until: 2000, receipt: [0; 32], ..held };
    assert_eq!(world.told, Some(lowered));
    assert_eq!(world.disk, Some(Lease { tokens: [next; 2], receipt: [7; 32], ..lowered }));
    let (mut client, mut world) = leased();
    world.is_mark_lost = true;
    client.release(&mut world);
    assert_eq!(world.done(), ["lower"], "it cannot tell what was issued");
    let (mut client, mut world) = leased();
    world.is_away = true;
    client.release(&mut world);
    assert_eq!(world.done(), [""; 0]);
}

#[test]
fn a_worker_will_do_if_it_is_of_the_data_center_and_the_one_that_is_wanted() {
    let any = Wish { worker: None, least: 32, greatest: 63 };
    assert_eq!([31, 32, 63, 64].map(|worker| any.is_for(worker)), [false, true, true, false]);
    let one = Wish { worker: Some(40), ..any };
    assert_eq!([39, 40, 41].map(|worker| one.is_for(worker)), [false, true, false]);
    assert!(!Wish { worker: Some(64), ..any }.is_for(64));
}

#[test]
fn a_lease_is_renewed_after_a_third_of_it_and_sooner_if_it_is_short() {
    let (mut client, mut world) = leased();
    // Of six seconds, since nine are left: a third, and up to a tenth of that.
    let next = client.next().expect("a time");
    assert!((1800..=2200).contains(&next), "{next}");
    world.now = next - 1;
    assert!(!client.is_due(&world));
    world.now = next;
    assert!(client.is_due(&world));
    world.is_away = true;
    assert_eq!(client.ask(&mut world), Err(Failure::Away));
    assert_eq!(client.next(), Some(next + 1000));
    assert_eq!(client.ask(&mut world), Err(Failure::Away));
    assert_eq!(client.next(), Some(next + 1000), "a tenth of the lease at most, and a second at least");
    world.now = 6500;
    assert!(client.is_due(&world), "less than half of it is left");
}

#[test]
fn a_client_shows_its_lease_asks_at_once_when_told_and_says_when_it_is_refused() {
    let mut world = World::default();
    assert_eq!(Client::new(&mut world).lease(), None);
    let (mut client, mut world) = leased();
    assert_eq!((client.lease().map(|lease| lease.worker), client.is_superseded()), (Some(36), false));
    assert!(!client.is_due(&world));
    client.hurry(&world);
    assert!(client.is_due(&world));
    world.must_stop = Some(false);
    assert_eq!((client.ask(&mut world), client.is_superseded()), (Err(Failure::Refused), true));
}

/// So that servers that started together do not come back together.
#[test]
fn a_third_of_a_lease_is_a_tenth_shorter_or_longer_by_its_token() {
    for (token, next) in [(0x1_0000, 1800), (0x1_8000, 2000), (0x1_FFFF, 2199)] {
        let (mut client, mut world) = leased();
        let now = client.next().expect("a time");
        // The next token is one more.
        (world.now, world.tokens) = (now, token - 1);
        client.ask(&mut world).expect("a renewal");
        assert_eq!(client.next(), Some(now + next), "{token:x}");
    }
}
