//! In which order a server writes: the starts that are tried must do the same.

use super::disk::{DIRECTORY, LIFE, MARK, NEW_LIFE, NEW_MARK};
use std::path::Path;
use testbed::Event;

/// Every order of steps that there is, as src/durable has them.
const ORDERS: [&[(&str, &str)]; 7] = [
    &[("make", DIRECTORY), ("flush", "")],
    &[("write", MARK), ("flush", MARK)],
    &[("remove", NEW_MARK)],
    &[("write", NEW_MARK), ("flush", NEW_MARK), ("rename", NEW_MARK), ("flush", DIRECTORY)],
    &[("remove", NEW_LIFE)],
    &[("write", NEW_LIFE), ("flush", NEW_LIFE)],
    &[("rename", NEW_LIFE), ("flush", "")],
];

/// Panics if a journal has steps in another order. More flushes than there must be are none of our business.
pub fn check<'a>(events: impl Iterator<Item = &'a Event>) {
    let mut rest: &[(&str, &str)] = &[];
    for event in events {
        let (act, path) = match event {
            Event::Directory { path, .. } => ("make", path),
            Event::Write { path, .. } => ("write", path),
            Event::Flush { path, .. } => ("flush", path),
            Event::Rename { from, .. } => ("rename", from),
            Event::Remove { path } => ("remove", path),
            Event::FailedFlush { .. } => {
                rest = &[];
                continue;
            }
            Event::Note(_) => continue,
        };
        if ![DIRECTORY, MARK, NEW_MARK, LIFE, NEW_LIFE, ""].iter().any(|ours| path == Path::new(ours)) {
            continue;
        }
        let is = |step: &(&str, &str)| step.0 == act && path == Path::new(step.1);
        if let Some((_, after)) = rest.split_first().filter(|(next, _)| is(next)) {
            rest = after;
        } else if act != "flush" {
            assert!(rest.is_empty(), "{act} {} before {rest:?}", path.display());
            let begun = ORDERS.iter().find(|steps| is(&steps[0]));
            rest = &begun.unwrap_or_else(|| panic!("{act} {} begins nothing", path.display()))[1..];
        }
    }
    assert!(rest.is_empty(), "{rest:?} is missing at the end");
}
