//! Lives that were told in two ways: each of these has run twice.

use super::{Finding, Life, State, Told, all_told};
use crate::UnixMs;
use std::collections::BTreeMap;

/// Servers that run one life beside each other.
pub fn clones(fleet: &[Told]) -> Vec<Finding> {
    let running = |at: usize| Some((at, fleet[at].as_ref().ok()?.running_life()?.clone()));
    let cloned = |other: usize| {
        let (one, is_certain) = fleet[other].as_ref().ok()?.clone_of?;
        let (one, other) = (running(one)?, running(other)?);
        let (begins, until) = (one.1.begins, one.1.reserved.min(other.1.reserved));
        Some(Finding::Cloned { begins, until, is_certain, one: Box::new(one), other: Box::new(other) })
    };
    (0..fleet.len()).filter_map(cloned).collect()
}

/// Lives that have ended, and of which a copy knows more than their own server does: they have gone on elsewhere.
pub fn continued_twice(fleet: &[Told], known: &[(usize, Life)]) -> Vec<Finding> {
    let twice = |(at, copy): (usize, &Life)| {
        let is_of = |(_, own): &&(usize, Life)| (own.server, own.number) == (copy.server, copy.number);
        let own = known.iter().find(is_of)?;
        let is_ended = own.1.is_own && matches!(own.1.state, State::Ended | State::Crashed);
        (is_ended && copy.issued > own.1.reserved).then(|| Finding::Overlap {
            // When it was cloned, nobody knows.
            begins: own.1.begins,
            until: copy.reserved,
            is_certain: true,
            one: Box::new(own.clone()),
            other: Box::new((at, copy.clone())),
        })
    };
    all_told(fleet).filter(|(_, life)| !life.is_own).filter_map(twice).collect()
}

/// Lives that two servers tell as their own, and of which one went on after the other had ended: clones of a machine
/// with its memory. When it was cloned, nobody knows.
pub fn told_differently(fleet: &[Told]) -> Vec<Finding> {
    let mut first: BTreeMap<(u64, u64), (usize, &Life)> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, life) in all_told(fleet).filter(|(_, life)| life.is_own) {
        let (earlier, one) = *first.entry((life.server, life.number)).or_insert((at, life));
        let (begins, issued) = (life.begins, one.issued.min(life.issued));
        // A crash can also be that of a disk which was cloned without the memory, before the rest of the life.
        let has_crashed = [one, life].iter().any(|life| matches!(life.state, State::Crashed | State::Unknown));
        let (is_told_twice, may_be_one) = match (one.state, life.state) {
            (State::Running, State::Running) => (false, false),
            // One server that is listed twice can end a life between its answers.
            (State::Running, _) => (true, one.reserved <= life.reserved),
            (_, State::Running) => (true, false),
            // A planned stop says when it was. Of two clones that have crashed, their next lives tell.
            // mutant: audit-told-twice
            _ => (told_of(one) != told_of(life) || has_crashed && have_parted(fleet, [earlier, at], life), false),
        };
        let is_certain = !has_crashed && !may_be_one && begins < issued;
        let until = one.reserved.min(life.reserved);
        // A life that has just begun can count as one that does not run yet.
        if is_told_twice && begins < until {
            let [one, other] = [(earlier, one), (at, life)].map(|(at, life)| Box::new((at, life.clone())));
            found.push(Finding::Overlap { one, other, begins, until, is_certain });
        }
    }
    found
}

/// What the server of a life that has ended always tells of it.
fn told_of(life: &Life) -> (State, UnixMs, UnixMs) {
    (life.state, life.reserved, life.ended)
}

/// Whether these two servers have each begun another life after this one.
fn have_parted(fleet: &[Told], servers: [usize; 2], life: &Life) -> bool {
    let is_next = |next: &&Life| next.is_own && (next.server, next.nth) == (life.server, life.nth + 1);
    let next = |at: usize| fleet[at].as_ref().ok()?.lives.iter().find(is_next).map(|next| next.number);
    // mutant: audit-parted
    matches!(servers.map(next), [Some(one), Some(other)] if one != other)
}
