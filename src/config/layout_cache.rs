//! Layouts by their text.
//!
//! SQL names a layout by its text with every ID, and reading the text takes longer than reading the ID. So each process keeps
//! the last few that it was asked for.

use crate::server_encoding::characters;
use snowflake_core::layout::{Layout, LayoutError};
use std::cell::RefCell;

/// How many layouts a process keeps: more than have a name.
const KEPT: usize = 16;

thread_local! {
    static KNOWN: RefCell<Vec<(Box<[u8]>, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// The layout that a text means.
pub fn by_text(text: &[u8]) -> Result<Layout, LayoutError> {
    KNOWN.with_borrow_mut(|known| {
        if let Some((_, layout)) = known.iter().find(|(kept, _)| **kept == *text) {
            return Ok(*layout);
        }
        let layout = characters(text).parse()?;
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((text.into(), layout));
        Ok(layout)
    })
}
