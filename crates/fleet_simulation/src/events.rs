//! What happens next.

use crate::time::Micros;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens to a node, a cluster, a data center or the registry, all by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A client asks the server of a node. Only the call with the number that the node expects counts.
    Call(usize, u32),
    /// The registry client of this life of a node's server looks whether something is due.
    Client(usize, u32),
    /// NTP corrects a node's clock.
    Discipline(usize),
    /// Clients ask as fast as they can, since something is about to happen to a cluster.
    Crowd(usize),
    /// Something goes wrong in a cluster.
    Fault(usize),
    /// The server of a node starts, if the node has been down since.
    Start(usize, u32),
    /// The server of this life of a node dies again.
    CrashAgain(usize, u32),
    /// A standby of a cluster becomes its primary.
    Promote(usize),
    /// A machine continues that had stopped with all its memory.
    Thaw(usize, u32),
    /// A former primary is stopped.
    Fence(usize, u32),
    /// A node becomes a standby.
    Rejoin(usize),
    /// A server that has lost its worker is restarted.
    Operator(usize, u32),
    /// A clock is repaired.
    Repair(usize),
    /// Several clusters of a data center lose their primaries at once.
    Rack(u32),
    /// The registry goes away.
    RegistryDown,
    /// It is back.
    RegistryUp,
    /// Its clock is set wrong.
    RegistryStep,
    /// Its clock is repaired.
    RegistryRepair,
    /// NTP corrects its clock.
    RegistryDiscipline,
}

/// Events in the order of their times, and of their entry.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Micros, u64, Event)>>,
    entered: u64,
}

impl Events {
    /// Enters an event at a true time.
    pub fn at(&mut self, time: Micros, event: Event) {
        self.entered += 1;
        self.heap.push(Reverse((time, self.entered, event)));
    }

    pub fn pop(&mut self) -> Option<(Micros, Event)> {
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}
