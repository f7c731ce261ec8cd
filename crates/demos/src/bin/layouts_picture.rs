//! Draws docs/layouts.svg: where the bits of each layout with a name are.
//!
//! Run with `make picture NAME=layouts`.

use std::{fs, io};
use testbed::project;

fn main() -> io::Result<()> {
    fs::write(project().join("docs/layouts.svg"), pictures::layouts())?;
    println!("==> Drawn: docs/layouts.svg");
    Ok(())
}
