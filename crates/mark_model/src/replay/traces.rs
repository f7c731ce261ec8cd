//! What servers have recorded, put together from copies of their files.

use snowflake_core::mark::trace::{Entry, Event, file};
use std::collections::BTreeMap;

/// The events of a server.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The number of the file.
    pub file: u64,
    /// The number of the file that it was copied from; 0 if it is no copy.
    pub copy_of: u64,
    /// In their order.
    pub entries: Vec<Entry>,
}

impl Trace {
    /// The first event after one that is missing. A process that is killed can leave out what it was about to record,
    /// while others record what comes right after.
    pub(super) fn gap(&self) -> Option<usize> {
        const AFTER: usize = 2;
        let is_boot = |entry: &Entry| matches!(entry.event, Event::Boot { .. });
        let ends = |after: &[Entry]| after.len() <= AFTER || after[..=AFTER].iter().any(is_boot);
        let is_gap = |position: &usize| self.entries[position - 1].number + 1 != self.entries[*position].number;
        (1..self.entries.len()).find(|position| is_gap(position) && !ends(&self.entries[*position..]))
    }
}

/// The traces in these files, of which several can be of one server, from different times. A server whose file was put
/// back to an earlier time has a trace for each way on.
pub fn collect(files: &[Vec<u8>]) -> Vec<Trace> {
    let mut traces = Vec::new();
    for bytes in files {
        let Ok((last_file, _)) = file::read_header(bytes) else { continue };
        let events = file::entries(bytes);
        // Of a copy that has lost its beginning, the first events are of the server that it was copied from.
        let first_boot = events.iter().find_map(|entry| match entry.event {
            Event::Boot { server, copy_of: 0, .. } => Some(server),
            Event::Boot { copy_of, .. } => Some(copy_of),
            _ => None,
        });
        let (mut file, mut copy_of) = (first_boot.unwrap_or(last_file), 0);
        let mut entries = BTreeMap::new();
        for entry in events {
            if let Event::Boot { server, copy_of: origin, .. } = entry.event
                && server != file
            {
                add(&mut traces, file, copy_of, std::mem::take(&mut entries));
                (file, copy_of) = (server, origin);
            }
            entries.insert(entry.number, entry);
        }
        add(&mut traces, file, copy_of, entries);
    }
    let trace =
        |(file, copy_of, entries): (_, _, Entries)| Trace { file, copy_of, entries: entries.into_values().collect() };
    traces.into_iter().map(trace).collect()
}

type Entries = BTreeMap<u64, Entry>;

/// Whether nothing can be missing between these parts of what a server has recorded. A file has no room for all.
fn touches(one: &Entries, other: &Entries) -> bool {
    let follows = |one: &Entries, other: &Entries| {
        one.last_key_value().zip(other.first_key_value()).is_none_or(|((last, _), (first, _))| *first <= last + 1)
    };
    follows(one, other) && follows(other, one)
}

/// Adds events of a server to those that are known.
fn add(traces: &mut Vec<(u64, u64, Entries)>, file: u64, copy_of: u64, entries: Entries) {
    let is_known =
        |known: &Entries| entries.iter().all(|(number, entry)| known.get(number).is_none_or(|of| of == entry));
    let agrees = |known: &Entries| touches(known, &entries) && is_known(known);
    match traces.iter_mut().find(|(of, _, known)| *of == file && agrees(known)) {
        Some((_, origin, known)) => {
            *origin = copy_of.max(*origin);
            known.extend(entries);
        }
        None => {
            let is_fork = traces.iter().any(|(of, ..)| *of == file);
            traces.push((file, if is_fork { file } else { copy_of }, entries));
        }
    }
}
