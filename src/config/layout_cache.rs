//! Layouts by their text.
//!
//! SQL passes a layout as text with every ID, and parsing the text takes longer than decoding the ID. So each process
//! keeps the last layouts that it has parsed.

use crate::postgres::server_encoding::characters;
use snowflake_core::id::layout::{Layout, LayoutError};
use std::cell::RefCell;

/// How many layouts a process keeps: more than the named ones.
const KEPT: usize = 24;

thread_local! {
    static KNOWN: RefCell<Vec<(Box<[u8]>, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// The layout of a text that this process has parsed.
pub fn known(text: &[u8]) -> Option<Layout> {
    // mutant: layout-cache
    KNOWN.with_borrow(|known| known.iter().find(|(kept, _)| **kept == *text).map(|&(_, layout)| layout))
}

/// The layout of a text.
pub fn by_text(text: &[u8]) -> Result<Layout, LayoutError> {
    if let Some(layout) = known(text) {
        return Ok(layout);
    }
    let layout = characters(text).parse()?;
    KNOWN.with_borrow_mut(|known| {
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((text.into(), layout));
    });
    Ok(layout)
}
