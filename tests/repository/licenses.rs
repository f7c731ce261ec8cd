//! What is linked into the library may be distributed with it.

use std::collections::BTreeMap;
use std::process::Command;
use testbed::{project, test};

/// Licenses that ask for no more than to be named.
const ALLOWED: [&str; 10] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Whether one may choose licenses that are allowed, by an SPDX expression of `OR` and `AND`. The slash is an old `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
    expression.split(" AND ").all(|all| all.split(" OR ").any(|one| ALLOWED.contains(&one.trim())))
}

#[test]
fn every_license_of_what_is_linked_into_the_library_allows_to_distribute_it() {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(project()).args([
        "tree",
        "--locked",
        "--offline",
        "--package",
        "snowflake_pg",
        "--edges",
        "normal",
    ]);
    cargo.args(["--no-default-features", "--features", "pg15", "--prefix", "none", "--format", "{l}\t{p}"]);
    let output = cargo.output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("text");
    let mut crates: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in listed.lines() {
        let (license, package) = line.split_once('\t').expect("a license and a package");
        crates.entry(license.trim_end_matches(" (*)")).or_default().push(package);
    }
    assert!(crates.values().map(Vec::len).sum::<usize>() > 20, "{crates:?}");
    let refused: Vec<_> = crates.iter().filter(|(license, _)| !is_allowed(license)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn a_license_that_asks_for_more_is_not_allowed() {
    for allowed in
        ["MIT", "MIT OR Apache-2.0", "MIT/Apache-2.0", "(MIT OR GPL-3.0) AND Unicode-3.0", "Unlicense OR MIT"]
    {
        assert!(is_allowed(allowed), "{allowed}");
    }
    for refused in ["GPL-3.0", "MIT AND GPL-3.0", "MPL-2.0", "", "LGPL-2.1 OR GPL-2.0"] {
        assert!(!is_allowed(refused), "{refused}");
    }
}
