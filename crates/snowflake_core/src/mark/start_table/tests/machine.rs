//! Tests of the start table on machines that were restored from a snapshot, or cloned.

use super::*;
use crate::server::vmclock::Machine;

const MACHINE: Machine = Machine { boot: 4, generation: 7 };
const CLONE: Machine = Machine { boot: 4, generation: 8 };

/// What is decided on this machine if the record names that one.
fn decided_on(
    machine: Option<Machine>,
    writer: Option<Machine>,
    differ: impl Fn(&mut Identity),
) -> Result<StartReason, MarkConflict> {
    let mut identity = this_server();
    differ(&mut identity);
    let record = Record { machine: writer, ..record(MARK, identity) };
    let context = StartContext { machine, last_life: Some(life(LIFE)), wal: in_wal(LOGGED), ..CONTEXT };
    decide(Some(&record), &this_server(), &context).map(|point| point.reason)
}

#[test]
fn a_server_whose_machine_was_cloned_while_it_was_stopped_is_refused() {
    let cloned = Err(MarkConflict::OtherGeneration);
    assert_eq!(decided_on(Some(CLONE), Some(MACHINE), |_| {}), cloned);
    let older = |identity: &mut Identity| identity.timeline -= 1;
    assert_eq!(decided_on(Some(CLONE), Some(MACHINE), older), cloned, "also if it was promoted since");
    let other = |identity: &mut Identity| identity.layout = "twitter".parse().unwrap();
    assert_eq!(decided_on(Some(CLONE), Some(MACHINE), other), cloned, "before it is told of another layout");
}

#[test]
fn a_server_that_has_noticed_a_clone_is_refused_after_a_boot_and_without_a_device() {
    let rebooted = Machine { boot: 5, ..MACHINE };
    for machine in [Some(MACHINE), Some(CLONE), Some(rebooted), None] {
        let decided = decided_on(machine, Some(MACHINE.cloned()), |_| {});
        assert_eq!(decided, Err(MarkConflict::OtherGeneration), "{machine:?}");
        let moved = decided_on(machine, Some(MACHINE.cloned()), |identity| identity.directory.number += 1);
        assert_eq!(moved, Err(MarkConflict::OtherGeneration), "its state directory was moved: {machine:?}");
        let other_worker = |identity: &mut Identity| identity.worker += 1;
        assert_eq!(decided_on(machine, Some(MACHINE.cloned()), other_worker), Ok(StartReason::WalMark));
    }
}

/// The base backup was made before somebody accepted the clone.
#[test]
fn a_standby_of_a_server_that_has_noticed_a_clone_begins_when_it_is_promoted() {
    let mut writer = this_server();
    writer.timeline -= 1;
    writer.directory.number += 1;
    let record = Record { machine: Some(MACHINE.cloned()), ..record(MARK, writer) };
    let context = StartContext { machine: Some(MACHINE), was_standby: true, wal: in_wal(LOGGED), ..CONTEXT };
    let decided = decide(Some(&record), &this_server(), &context).map(|point| point.reason);
    assert_eq!(decided, Ok(StartReason::Promotion));
}

#[test]
fn a_server_that_cannot_tell_whether_its_machine_was_cloned_begins_as_without_a_device() {
    let restart = Ok(StartReason::Restart);
    let rebooted = Machine { boot: 5, ..CLONE };
    let machines = [(MACHINE, Some(MACHINE)), (rebooted, Some(MACHINE)), (CLONE, None)];
    assert_eq!(machines.map(|(now, then)| decided_on(Some(now), then, |_| {})), [restart; 3]);
    assert_eq!(decided_on(None, Some(MACHINE), |_| {}), restart);
}

#[test]
fn a_clone_that_has_got_another_worker_begins() {
    let before = |identity: &mut Identity| identity.worker += 1;
    assert_eq!(decided_on(Some(CLONE), Some(MACHINE), before), Ok(StartReason::WalMark));
}

#[test]
fn a_cloned_server_continues_with_what_the_registry_grants_it_anew_and_not_with_its_old_lease() {
    let record = Record { machine: Some(MACHINE), ..record(MARK, this_server()) };
    let decided = |lease| {
        let context = StartContext { machine: Some(CLONE), last_life: Some(life(LIFE)), lease: Some(lease), ..CONTEXT };
        decide(Some(&record), &this_server(), &context).map(|point| point.reason)
    };
    assert_eq!(decided(LeaseStart::Continued(0)), Err(MarkConflict::OtherGeneration));
    assert_eq!(decided(LeaseStart::At(NOW)), Ok(StartReason::Leased));
}
