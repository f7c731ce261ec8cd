//! The manifests in `examples`, and workflows: validators accept them, and servers with their settings do what they
//! say. Each test is skipped where the validators are missing: `tools/setup manifests` installs them.

mod github;
mod settings;
mod validators;

use std::path::PathBuf;
use testbed::{needed, project};

/// A program of the Python environment that `tools/setup manifests` has made.
fn installed(program: &str) -> PathBuf {
    needed(project().join("target/manifests/venv/bin").join(program))
}

/// A file of the examples.
fn example(name: &str) -> PathBuf {
    project().join("examples").join(name)
}
