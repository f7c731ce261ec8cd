//! Errors of the operating system.

use std::io;

/// The text of the operating system, without the number that Rust adds.
pub fn reason(source: &io::Error) -> String {
    let text = source.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_owned()
}
