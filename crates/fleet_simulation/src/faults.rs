//! What goes wrong in a cluster, and how often.

use crate::chance::Chance;
use crate::time::{HOUR, MINUTE, Micros, SECOND};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The primary's server dies, and is started again.
    Crash,
    /// It dies several times, one right after the other.
    CrashSeries,
    /// It is stopped as planned, and started again.
    PlannedStop,
    /// It is stopped as planned, and a standby takes over.
    Switchover,
    /// The primary's machine loses its power, and a standby takes over.
    PowerLoss,
    /// The primary's machine is booted.
    Reboot,
    /// The primary continues beside a standby that takes over.
    SplitBrain,
    /// The primary's machine stands still, a standby takes over, and the primary continues.
    Freeze,
    /// A standby goes away for a while.
    StandbyLost,
    /// The primary's server dies, and its state directory is lost.
    LostState,
    /// A clock is set wrong for a while.
    ClockStep,
    /// A clock stops for a while.
    ClockStop,
    /// A clock is not corrected for a while.
    ClockNeglect,
}

/// How often each of them comes, beside the others.
const WEIGHTS: [(Fault, usize); 13] = [
    (Fault::Crash, 3),
    (Fault::CrashSeries, 1),
    (Fault::PlannedStop, 2),
    (Fault::Switchover, 1),
    (Fault::PowerLoss, 2),
    (Fault::Reboot, 1),
    (Fault::SplitBrain, 2),
    (Fault::Freeze, 1),
    (Fault::StandbyLost, 1),
    (Fault::LostState, 1),
    (Fault::ClockStep, 4),
    (Fault::ClockStop, 1),
    (Fault::ClockNeglect, 1),
];

impl Fault {
    pub fn draw(chance: &mut Chance) -> Self {
        let mut left = chance.index(WEIGHTS.iter().map(|&(_, weight)| weight).sum());
        for (fault, weight) in WEIGHTS {
            if left < weight {
                return fault;
            }
            left -= weight;
        }
        unreachable!("less than all weights")
    }
}

/// The error to which a clock is set, in microseconds: a millisecond to an hour, back or ahead. One in ten is ahead by
/// one to four hours, which the server does not trust at once.
pub fn clock_step(chance: &mut Chance) -> i64 {
    if chance.happens(0.1) {
        return chance.between(HOUR, 4 * HOUR).cast_signed();
    }
    let by = chance.log_time(1000, HOUR).cast_signed();
    if chance.happens(0.5) { by } else { -by }
}

/// How long a clock is wrong.
pub fn clock_hold(chance: &mut Chance) -> Micros {
    chance.log_time(SECOND, 2 * HOUR)
}

/// How long a server takes to come back after a crash.
pub fn restart_time(chance: &mut Chance) -> Micros {
    chance.log_time(SECOND / 10, 10 * SECOND)
}

/// How long a machine takes to boot.
pub fn boot_time(chance: &mut Chance) -> Micros {
    chance.between(30 * SECOND, 3 * MINUTE)
}

/// How long a standby takes to notice that it must take over.
pub fn failover_time(chance: &mut Chance) -> Micros {
    chance.between(5 * SECOND, 30 * SECOND)
}

/// How long a node is away before it is a standby again.
pub fn away_time(chance: &mut Chance) -> Micros {
    chance.log_time(MINUTE, 30 * MINUTE)
}

/// How long a former primary continues: one in ten for more than a lease.
pub fn split_time(chance: &mut Chance) -> Micros {
    let shortest = 40 * SECOND;
    if chance.happens(0.1) { chance.between(HOUR, 2 * HOUR) } else { chance.log_time(shortest, 30 * MINUTE) }
}

/// How long the registry is away.
pub fn registry_outage(chance: &mut Chance) -> Micros {
    chance.log_time(2 * MINUTE, 4 * HOUR)
}
