//! Compares the servers of a fleet: which could issue the same IDs.

use crate::id::layout::Layout;
use crate::server::identity::Worker;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The number of the running server, which is the same for a server that is listed twice.
    pub server: usize,
    /// PostgreSQL's system identifier, which all copies of a database cluster share.
    pub system_identifier: i64,
    /// The data center and the worker; `None` if it has none.
    pub numbers: Option<(u32, u32)>,
    /// The layout, spelled out; `None` if it has none.
    pub layout: Option<String>,
    /// Whether it is a standby.
    pub is_standby: bool,
    /// Whether its durable mark goes through WAL.
    pub has_wal_mark: bool,
    /// Its clock.
    pub clock: Clock,
}

/// A clock, compared with the clock of the server that asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// How far it is ahead, in milliseconds.
    pub ahead_ms: i64,
    /// The largest error of that difference, in milliseconds.
    pub error_ms: u64,
}

/// A problem between a server and another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// These servers have its data center and its worker.
    SameWorker(Vec<usize>),
    /// It is a standby that would issue the IDs of this server after a promotion, and the mark does not go through WAL.
    Standby(usize),
    /// Its layout is not this server's.
    OtherLayout(usize),
    /// Its clock is ahead of this server's by so many milliseconds; behind if negative.
    ClockApart(usize, i64),
}

/// The problems of each server, in the order of the list; a server that has not answered is `None`. Problems name
/// servers by their index in it.
pub fn compare(members: &[Option<Member>], max_clock_offset_ms: u64) -> Vec<Vec<Problem>> {
    let known: Vec<_> = members.iter().enumerate().filter_map(|(at, member)| Some((at, member.as_ref()?))).collect();
    let mut problems = vec![Vec::new(); members.len()];
    for &(at, member) in &known {
        problems[at].extend(same_worker(member, &known));
        problems[at].extend(other_layout(member, &known));
    }
    // The servers whose clocks agree with one another. Of two clocks that are apart, the first counts as right, so one
    // wrong clock is one problem.
    let mut agree: Vec<(usize, Clock)> = Vec::new();
    for &(at, member) in &known {
        // mutant: all-clocks-compared
        match agree.iter().find_map(|&(other, clock)| Some((other, apart(member.clock, clock, max_clock_offset_ms)?))) {
            Some((other, ms)) => problems[at].push(Problem::ClockApart(other, ms)),
            None => agree.push((at, member.clock)),
        }
    }
    problems
}

/// The servers that could issue the same IDs as this one. Each is named once, and a standby that may have its primary's
/// worker is not one of them.
fn same_worker(member: &Member, known: &[(usize, &Member)]) -> Vec<Problem> {
    let (mut duplicates, mut problems, mut named) = (Vec::new(), Vec::new(), vec![member.server]);
    for &(at, other) in known {
        if !may_issue_the_same(member, other) || named.contains(&other.server) {
            continue;
        }
        named.push(other.server);
        let is_copy = member.system_identifier == other.system_identifier;
        if !(is_copy && (member.is_standby || other.is_standby)) {
            duplicates.push(at);
        } else if member.is_standby && !(member.has_wal_mark && other.has_wal_mark) {
            problems.push(Problem::Standby(at));
        }
    }
    if !duplicates.is_empty() {
        problems.insert(0, Problem::SameWorker(duplicates));
    }
    problems
}

/// Whether two servers have one worker. It can have two names: in a layout with data centers, and in one without.
fn may_issue_the_same(member: &Member, other: &Member) -> bool {
    let source = |member: &Member| -> Option<(Layout, Worker)> {
        let (layout, (datacenter, worker)): (Layout, _) = (member.layout.as_ref()?.parse().ok()?, member.numbers?);
        // mutant: flat-numbers
        Some((layout.flat(), layout.flatten(datacenter.into(), worker.into())))
    };
    let has_same_name = member.numbers.is_some() && member.numbers == other.numbers;
    let [one, other] = [member, other].map(source);
    has_same_name || one.is_some() && one == other
}

/// The first server that has a layout, if this one has another.
fn other_layout(member: &Member, known: &[(usize, &Member)]) -> Option<Problem> {
    // A newer server can have one that this one cannot read.
    let layout = |member: &Member| -> Option<String> {
        let text = member.layout.as_ref()?;
        Some(text.parse().map_or_else(|_| text.clone(), |layout: Layout| layout.flat().to_string()))
    };
    let member_layout = layout(member)?;
    let (first, other) = known.iter().find_map(|&(at, other)| Some((at, layout(other)?)))?;
    (member_layout != other).then_some(Problem::OtherLayout(first))
}

/// How far a clock is ahead of another one, if they are certainly further apart than is allowed.
fn apart(clock: Clock, other: Clock, max_ms: u64) -> Option<i64> {
    let ahead_ms = clock.ahead_ms.saturating_sub(other.ahead_ms);
    let error_ms = clock.error_ms.saturating_add(other.error_ms);
    // mutant: slow-answer
    (ahead_ms.unsigned_abs() > max_ms.saturating_add(error_ms)).then_some(ahead_ms)
}

#[cfg(test)]
mod tests;
