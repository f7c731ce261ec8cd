//! Clients: a burst of calls once a minute, and a crowd of them around everything that goes wrong.

use super::Simulation;
use crate::events::Event;
use crate::server::{Cause, Stop};
use crate::tally::Count;
use crate::time::{BEGIN, MINUTE, Micros, SECOND};

/// How long a quiet server waits for the next burst, on average.
const QUIET: Micros = MINUTE;

/// How long a former primary that continues waits for the next burst: it may issue what others issue.
const FORMER: Micros = 5 * SECOND;

/// How many calls a burst has, one or two milliseconds apart.
const BURST: u32 = 4;

/// How long a crowd stays after a start.
const CROWD: Micros = 5 * SECOND;

/// How often a client that was refused asks again.
const RETRY: Micros = SECOND;

/// How long IDs count as issued in trouble after something went wrong.
const TROUBLED: Micros = 10 * MINUTE;

/// What a full tick holds.
const WHOLE_TICK: u32 = 4096;

impl Simulation {
    /// A client asks a server.
    pub(super) fn call(&mut self, node: usize, number: u32) {
        let calls = self.fleet.nodes[node].calls;
        if calls.number != number || self.fleet.nodes[node].is_frozen {
            return;
        }
        let want = self.want();
        let mut issued = std::mem::take(&mut self.issued);
        let Some(outcome) = self.on_server(node, |host, server| server.call(host, want, &mut issued)) else {
            self.issued = issued;
            return;
        };
        self.issued = issued;
        self.receive(node);
        self.count(node, Count::Calls);
        match outcome {
            Ok(()) => {}
            Err(Stop::Waits) => self.count(node, Count::Waited),
            // A call waits for the registry client.
            Err(Stop::Refused(cause)) if cause.is_of_lease() && self.ask_if_due(node) => {
                self.count(node, Count::Waited);
            }
            Err(Stop::Refused(cause)) => self.refused(node, cause),
        }
        self.call_again(node, outcome);
    }

    /// How many IDs a call wants: mostly some, at times a whole tick.
    fn want(&mut self) -> u32 {
        let most = match self.chance.index(20) {
            0 => return WHOLE_TICK,
            1..=3 => 1000,
            _ => 50,
        };
        1 + u32::try_from(self.chance.index(most)).expect("at most 1000")
    }

    /// Enters what a call has got.
    fn receive(&mut self, node: usize) {
        if self.issued.is_empty() {
            return;
        }
        self.end_outage(node);
        let (now, now_ms) = (self.now, self.now / 1000);
        let node_state = &mut self.fleet.nodes[node];
        node_state.former.iter_mut().for_each(|former| former.last_id = Some(now));
        let is_troubled = now < node_state.troubled_until.max(BEGIN + TROUBLED);
        let tally = &mut self.tallies[self.fleet.clusters[node_state.cluster].way as usize];
        let lead = if is_troubled { &mut tally.troubled } else { &mut tally.quiet };
        for issued in self.issued.drain(..) {
            self.ledger.receive(issued.first_id, issued.count);
            lead.over_truth.add(issued.timestamp.saturating_sub(now_ms), issued.count);
            lead.over_clock.add(issued.timestamp.saturating_sub(issued.clock), issued.count);
        }
    }

    /// A call was refused. To refuse a former primary's calls is no loss: clients have the new one.
    fn refused(&mut self, node: usize, cause: Cause) {
        let now = self.now;
        self.trouble_until(node, now + TROUBLED);
        let node_state = &mut self.fleet.nodes[node];
        if let Some(former) = &mut node_state.former {
            former.is_refused |= cause == Cause::NoStandby || cause.is_of_lease();
            return;
        }
        self.tally(node).outages[cause as usize].calls += 1;
        let node_state = &self.fleet.nodes[node];
        if node_state.outage.is_none_or(|(_, last_cause)| last_cause != cause) {
            self.end_outage(node);
            self.fleet.nodes[node].outage = Some((now, cause));
        }
    }

    /// Calls are not refused any more, or for another cause.
    pub(super) fn end_outage(&mut self, node: usize) {
        if let Some((since, cause)) = self.fleet.nodes[node].outage.take() {
            let time = self.now - since;
            self.tally(node).outages[cause as usize].times.add(time);
        }
    }

    fn call_again(&mut self, node: usize, outcome: Result<(), Stop>) {
        let is_refused = matches!(outcome, Err(Stop::Refused(_)));
        let mut calls = self.fleet.nodes[node].calls;
        let pause = if self.now < calls.crowd_until {
            self.chance.between(1000, 8000)
        } else if is_refused {
            calls.burst = 0;
            RETRY
        } else if calls.burst > 0 {
            calls.burst -= 1;
            self.chance.between(500, 2000)
        } else {
            calls.burst = BURST - 1;
            let is_former = self.fleet.nodes[node].former.is_some();
            self.chance.until_next(if is_former { FORMER } else { QUIET })
        };
        calls.number += 1;
        self.fleet.nodes[node].calls = calls;
        self.events.at(self.now + pause, Event::Call(node, calls.number));
    }

    /// Makes clients ask a node as fast as they can from now on.
    pub(super) fn crowd_around(&mut self, node: usize) {
        let node_state = &mut self.fleet.nodes[node];
        node_state.calls.number += 1;
        node_state.calls.crowd_until = self.now + CROWD;
        self.events.at(self.now + 1, Event::Call(node, node_state.calls.number));
    }

    /// Something is about to go wrong in a cluster.
    pub(super) fn crowd(&mut self, cluster: usize) {
        for node in self.fleet.clusters[cluster].nodes() {
            self.trouble_until(node, self.now + TROUBLED);
            self.crowd_around(node);
        }
    }

    /// What is counted in a node until then was in trouble.
    pub(super) fn trouble_until(&mut self, node: usize, until: Micros) {
        let node_state = &mut self.fleet.nodes[node];
        node_state.troubled_until = node_state.troubled_until.max(until);
    }
}
