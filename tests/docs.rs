//! The documentation does what it says: its SQL runs, and prints what it shows.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use testbed::Cluster;

/// A fenced block: its language, and its lines.
struct Block {
    language: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in document.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language: language.trim().to_owned(), text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block without an end");
    blocks
}

fn psql(cluster: &Cluster, sql: &str) -> String {
    let mut psql = cluster.psql();
    psql.args(["--set=ON_ERROR_STOP=1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = psql.spawn().expect("psql");
    child.stdin.take().expect("a pipe").write_all(sql.as_bytes()).expect("psql reads");
    let output = child.wait_with_output().expect("psql");
    assert!(output.status.success(), "{sql}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs the SQL of a document, and compares what it prints with the block that follows, if that is of text. Says how often.
fn run(cluster: &Cluster, document: &str) -> usize {
    let blocks = blocks(document);
    let mut compared = 0;
    for (at, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sql") {
        let printed = psql(cluster, &block.text);
        if let Some(shown) = blocks.get(at + 1).filter(|next| next.language == "text") {
            assert_eq!(printed.trim_end(), shown.text.trim_end(), "{}", block.text);
            compared += 1;
        }
    }
    compared
}

#[test]
fn the_sql_of_the_readme_runs_and_prints_what_the_readme_shows() {
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
    assert!(run(&cluster, include_str!("../README.md")) > 0, "the README shows no output");
}

#[test]
fn the_sql_about_the_clock_runs_and_prints_what_is_shown() {
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert!(run(&cluster, include_str!("../docs/clock.md")) > 0, "no output is shown");
}

#[test]
fn the_sql_about_layouts_runs_and_prints_what_is_shown() {
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert!(run(&cluster, include_str!("../docs/layouts.md")) > 0, "no output is shown");
}

#[test]
fn the_sql_about_the_alternatives_runs_and_prints_what_is_shown() {
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert!(run(&cluster, include_str!("../docs/alternatives.md")) > 0, "no output is shown");
}

#[test]
fn every_link_to_a_file_leads_to_one() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let documents = [project.clone(), project.join("docs"), project.join("docs/benchmarks")];
    let entries = documents.iter().flat_map(|directory| fs::read_dir(directory).expect("a directory of documents"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut links = 0;
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&path).expect("a document");
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        for target in targets.filter(|target| !target.is_empty() && !target.contains(':')) {
            assert!(path.with_file_name(target).exists(), "{}: {target}", path.display());
            links += 1;
        }
    }
    assert!(links > 50, "{links}");
}
