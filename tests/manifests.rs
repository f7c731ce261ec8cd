//! The manifests in `examples`, and workflows: validators accept them, and servers with their settings do what they say.
//! Each test is skipped, aloud, where the validators are missing: `tools/setup manifests` installs them.

mod settings;
mod validators;

use std::path::PathBuf;
use testbed::project;

/// A program of the Python environment that `tools/setup manifests` has made; says so if there is none.
fn installed(program: &str) -> Option<PathBuf> {
    let path = project().join("target/manifests/venv/bin").join(program);
    if !path.exists() {
        println!("skipped: there is no {}", path.display());
    }
    path.exists().then_some(path)
}

/// A file of the examples.
fn example(name: &str) -> PathBuf {
    project().join("examples").join(name)
}
