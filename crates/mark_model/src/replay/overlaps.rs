//! Times in which two servers have issued IDs of one worker.

use super::traces::Trace;
use snowflake_core::mark::trace::Event;
use std::ops::Range;

/// A time in which a server has issued IDs: its first timestamp is there or later, and its last one is right before the
/// end.
#[derive(Clone, Debug)]
struct Issued {
    file: u64,
    system_identifier: u64,
    worker: u64,
    layout: u64,
    time: Range<u64>,
}

impl Issued {
    /// Whether another server had the same source of IDs.
    fn could_overlap(&self, other: &Self) -> bool {
        let source = |of: &Self| (of.system_identifier, of.worker, of.layout);
        self.file != other.file && source(self) == source(other)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.time.start.max(other.time.start) < self.time.end.min(other.time.end)
    }
}

/// An error if two servers of one cluster have issued IDs of one worker at the same time. Returns how many times were
/// compared with another server's.
pub fn compare(traces: &[Trace]) -> Result<u64, String> {
    let issued: Vec<_> = traces.iter().flat_map(issued).filter(|issued| !issued.time.is_empty()).collect();
    let pairs =
        issued.iter().enumerate().flat_map(|(nth, one)| issued[nth + 1..].iter().map(move |other| (one, other)));
    let pairs: Vec<_> = pairs.filter(|(one, other)| one.could_overlap(other)).collect();
    match pairs.iter().find(|(one, other)| one.overlaps(other)) {
        None => Ok(pairs.len() as u64),
        Some((one, other)) => {
            Err(format!("two servers have issued IDs of one worker at the same time:\n  {one:x?}\n  {other:x?}\n"))
        }
    }
}

/// When a server has issued IDs. A process that was killed has not told how far it came.
fn issued(trace: &Trace) -> Vec<Issued> {
    let (mut all, mut begins, mut running): (Vec<Issued>, _, Option<Issued>) = (Vec::new(), None, None);
    for entry in &trace.entries {
        match entry.event {
            Event::Begins { system_identifier, worker, layout, .. } => {
                begins = Some((system_identifier, worker, layout));
            }
            Event::Starts { first, .. } => {
                all.extend(running.take());
                let new = |(system_identifier, worker, layout)| Issued {
                    file: trace.file,
                    system_identifier,
                    worker,
                    layout,
                    time: first..first,
                };
                running = begins.map(new);
            }
            Event::Extends { issued, .. } | Event::Stops { issued } => {
                if let Some(running) = &mut running {
                    running.time.end = issued;
                }
            }
            // What is left out is not issued.
            Event::Advances { past } => {
                all.extend(running.clone());
                if let Some(running) = &mut running {
                    running.time = past + 1..past + 1;
                }
            }
            Event::Boot { .. } => all.extend(running.take()),
            _ => {}
        }
    }
    all.extend(running);
    all
}
