//! The version in the files that packagers read.

use std::fs;
use testbed::{hosted_script, project, test, version_of};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn text(name: &str) -> String {
    fs::read_to_string(project().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_files_of_all_packages_have_the_version_of_the_extension() {
    let meta: serde_json::Value = serde_json::from_str(&text("META.json")).expect("JSON");
    assert_eq!(meta["version"], VERSION);
    for extension in ["snowflake_pg", "snowflake_adopt", "snowflake_feed", "snowflake_registry"] {
        assert_eq!(meta["provides"][extension]["version"], version_of(extension));
    }
    let changelog = text("debian/changelog");
    assert_eq!(changelog.lines().next(), Some(&*format!("snowflake-pg ({VERSION}-1) unstable; urgency=medium")));
    let spec = text("contrib/packaging/rpm/snowflake_pg.spec");
    assert!(spec.contains(&format!("\nVersion:        {VERSION}\n")) && spec.contains(&format!("> - {VERSION}-1\n")));
    let pigsty = text("contrib/packaging/pigsty.csv");
    assert_eq!(pigsty.matches(&format!(",{VERSION},")).count(), 3, "version, rpm_ver and deb_ver: {pigsty}");
    let hosted = version_of("snowflake_hosted");
    assert_eq!(hosted_script().matches(&format!("'{hosted}'")).count(), 1);
}

/// Its rules, as of dbdev's commit 3921491: cli/src/models.rs, and package_tables.sql in supabase/migrations.
#[test]
fn the_package_for_dbdev_keeps_to_the_rules_of_dbdev() {
    let control = text("sql/hosted/snowflake_hosted.control");
    for line in control.lines().filter(|line| !line.starts_with('#')) {
        assert_eq!(line.matches('=').count(), 1, "dbdev takes what is between two of them: {line}");
        assert!(!line.contains("''") && line.matches('\'').count() % 2 == 0, "{line}");
    }
    for text in [hosted_script(), text("sql/hosted/README.md")] {
        assert!(text.chars().count() < 250_000, "{text}");
    }
}
