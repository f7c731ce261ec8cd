//! Which versions of PostgreSQL the extension is for: `debian/pgversions` lists them, and what else names them agrees.

use std::fs;
use testbed::{project, test};

fn text(name: &str) -> String {
    fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// From the oldest on.
fn versions() -> Vec<u32> {
    text("debian/pgversions").lines().map(|line| line.parse().expect("a version")).collect()
}

#[test]
fn what_lists_the_versions_lists_those_of_the_packages() {
    let versions = versions();
    let (oldest, newest) = (versions[0], versions[versions.len() - 1]);
    assert!(versions.iter().copied().eq(oldest..=newest), "the README says all between, too: {versions:?}");
    let features: String = versions.iter().map(|major| format!("pg{major} = [\"pgrx/pg{major}\"]\n")).collect();
    let matrix = format!("postgresql: {versions:?}\n");
    for (name, listed) in [
        ("Cargo.toml", &features),
        ("benches/naive_generator/Cargo.toml", &features),
        (".github/workflows/test.yml", &matrix),
        (".github/workflows/release.yml", &matrix),
        (
            "contrib/packaging/rpm/snowflake_pg.spec",
            &format!("%{{?pgmajorversion}} < {oldest} || 0%{{?pgmajorversion}} > {newest}\n"),
        ),
        ("contrib/packaging/rpm/snowflake_pg.spec", &format!("is for PostgreSQL {oldest} to {newest}}}\n")),
        ("META.json", &format!("\"PostgreSQL\": \"{oldest}.0.0\"")),
        ("README.md", &format!("PostgreSQL {oldest} to {newest}")),
    ] {
        assert!(text(name).contains(listed), "{name} lacks {listed}");
    }
}

/// With an older one, `make` says what it does: CONTRIBUTING.md.
#[test]
fn who_builds_is_told_of_the_same_version_of_rust_everywhere() {
    let readme = text("README.md");
    let rest = readme.split_once("[Rust](https://www.rust-lang.org/tools/install) ").expect("a version").1;
    let rust = rest.split_whitespace().next().expect("a version");
    for (name, before) in [
        ("contrib/packaging/publishing.md", "needs Rust "),
        ("CONTRIBUTING.md", "pgrx asks for Rust "),
        ("contrib/packaging/rpm/snowflake_pg.spec", "cargo >= "),
        ("examples/docker/Dockerfile", "FROM rust:"),
        (".github/workflows/test.yml", "RUSTUP_TOOLCHAIN: \""),
        (".github/workflows/nightly.yml", "RUSTUP_TOOLCHAIN: \""),
        (".github/workflows/release.yml", "RUSTUP_TOOLCHAIN: \""),
    ] {
        assert!(text(name).contains(&format!("{before}{rust}")), "{name} lacks {before}{rust}");
    }
}
