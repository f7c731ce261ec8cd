//! `debian/copyright`: the extension, and each crate that is linked into the library, as the crate itself says.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{postgresql, project, test};

fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(project()).args(arguments).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// `NAME VERSION` of each crate in the library that comes from elsewhere. Macros only run in the compiler.
fn linked() -> BTreeSet<String> {
    let features = format!("pg{}", postgresql());
    let tree = cargo(&[
        "tree",
        "--locked",
        "--package=snowflake_pg",
        "--features",
        &features,
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={p}",
    ]);
    // A crate of this project is followed by its path.
    let words = tree.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let foreign = words.filter(|words| words.get(2).is_none_or(|after| *after == "(*)"));
    foreign.map(|words| format!("{} {}", words[0], words[1].trim_start_matches('v'))).collect()
}

/// What its files say of the copyright; else its authors.
fn holders(package: &Value) -> Vec<String> {
    let manifest = Path::new(package["manifest_path"].as_str().expect("a path"));
    let mut files: Vec<_> = fs::read_dir(manifest.parent().expect("a directory"))
        .expect("the sources of a crate")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().to_uppercase();
            path.is_file() && ["LICEN", "COPYING", "COPYRIGHT"].iter().any(|word| name.contains(word))
        })
        .collect();
    files.sort();
    let mut holders = Vec::new();
    for text in files.iter().map(|file| fs::read_to_string(file).expect("text")) {
        for line in text.lines().map(str::trim) {
            let Some(said) = line.strip_prefix("Copyright ") else { continue };
            let said = said.trim_start_matches("(c)").trim_start_matches("(C)").trim_start_matches('©').trim();
            if said.starts_with(|first: char| first.is_ascii_digit()) && !holders.iter().any(|known| known == said) {
                holders.push(said.to_owned());
            }
        }
    }
    if holders.is_empty() {
        let authors = package["authors"].as_array().expect("a list").iter();
        holders.extend(authors.map(|author| author.as_str().expect("a name").to_owned()));
    }
    if holders.is_empty() {
        holders.push(format!("the authors of {}", package["name"].as_str().expect("a name")));
    }
    holders
}

/// An SPDX expression in the words of Debian's format, in which a comma stands for the parentheses.
fn license(spdx: &str) -> String {
    let words = spdx.replace('/', " OR ").replace(") AND ", ", and ").replace(['(', ')'], "");
    let words = words.replace(" WITH LLVM-exception", " with LLVM exception");
    let words = words.replace(" OR ", " or ").replace(" AND ", " and ");
    words
        .split(' ')
        .map(|word| if word.trim_end_matches(',') == "MIT" { word.replace("MIT", "Expat") } else { word.to_owned() })
        .collect::<Vec<_>>()
        .join(" ")
}

/// A stanza for each crate, where `cargo vendor` puts it.
fn stanzas() -> String {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--locked", "--format-version=1"])).expect("JSON");
    let mut crates: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    let linked = linked();
    for package in metadata["packages"].as_array().expect("a list") {
        let name = package["name"].as_str().expect("a name");
        if linked.contains(&format!("{name} {}", package["version"].as_str().expect("a version"))) {
            crates.entry(name.to_owned()).or_default().push(package);
        }
    }
    assert_eq!(crates.values().map(Vec::len).sum::<usize>(), linked.len(), "{linked:?}");
    let mut stanzas = String::new();
    for (name, packages) in crates {
        let mut lines: Vec<String> = Vec::new();
        for holder in packages.iter().flat_map(|package| holders(package)) {
            if !lines.contains(&holder) {
                lines.push(holder);
            }
        }
        let licenses: BTreeSet<_> =
            packages.iter().map(|package| license(package["license"].as_str().expect("a license"))).collect();
        assert_eq!(licenses.len(), 1, "{name} needs a stanza for each version: {licenses:?}");
        // The newest of several has no version in its path.
        let older = if packages.len() > 1 { format!(" vendor/{name}-*/*") } else { String::new() };
        stanzas += &format!("Files: vendor/{name}/*{older}\nCopyright: {}\n", lines.join("\n "));
        stanzas += &format!("License: {}\n\n", licenses.first().expect("a license"));
    }
    stanzas
}

#[test]
fn the_copyright_of_the_package_names_each_crate_in_the_library_and_prints_each_license() {
    let text = fs::read_to_string(project().join("debian/copyright")).expect("text");
    let start = text.find("Files: vendor/").or_else(|| text.find("License: Expat\n Perm")).expect("crates");
    let end = start + text[start..].find("\nLicense: Expat\n Perm").map_or(0, |at| at + 1);
    let stanzas = stanzas();
    let right = format!("{}{stanzas}{}", &text[..start], &text[end..]);
    for line in stanzas.lines().filter_map(|line| line.strip_prefix("License: ")) {
        for name in line.replace(", and ", " or ").replace(" and ", " or ").split(" or ") {
            assert!(right.contains(&format!("\nLicense: {name}\n ")), "debian/copyright lacks the text of {name}");
        }
    }
    fs::write(project().join("target/copyright"), &right).expect("own file");
    assert!(text == right, "the crates in the library have changed: cp target/copyright debian/copyright");
}
