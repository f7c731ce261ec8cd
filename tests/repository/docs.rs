//! The documentation does what it says: its SQL runs, and prints what it shows.

use super::files;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Stdio;
use testbed::{Builder, Cluster, Installation, blocks, hosted_script, project, test};

fn psql(cluster: &Cluster, sql: &str) -> String {
    let mut psql = cluster.psql();
    psql.current_dir(project()).args(["--set=ON_ERROR_STOP=1"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = psql.spawn().expect("psql");
    child.stdin.take().expect("a pipe").write_all(sql.as_bytes()).expect("psql reads");
    let output = child.wait_with_output().expect("psql");
    assert!(output.status.success(), "{sql}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs the SQL of a document, and compares what it prints with the block that follows, if that is of text or a sample.
/// Says how often.
fn run(cluster: &Cluster, document: &str) -> usize {
    let blocks = blocks(document);
    let mut compared = 0;
    for (at, block) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sql") {
        let printed = psql(cluster, &block.text);
        let Some(shown) = blocks.get(at + 1) else { continue };
        match shown.language.as_str() {
            "text" if block.text.contains("EXPLAIN") => {
                assert_eq!(steps(&printed), steps(&shown.text), "{}", block.text)
            }
            "text" => assert_eq!(printed.trim_end(), shown.text.trim_end(), "{}", block.text),
            "sample" => {
                assert_eq!(without_values(&printed), without_values(&shown.text), "{}", block.text);
                assert_times_of_ids(cluster, &shown.text);
            }
            _ => continue,
        }
        compared += 1;
    }
    compared
}

/// The lines of plans but for those that only PostgreSQL 19 has, and what depends on their widths and number.
fn steps(printed: &str) -> Vec<&str> {
    let lines = printed.lines().map(str::trim_end);
    lines
        .filter(|line| !line.trim().starts_with("Replaces: ") && line.starts_with(' ') && !line.contains("QUERY PLAN"))
        .collect()
}

/// What is the same each time that it is printed: all but numbers, and the widths that they need.
fn without_values(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_ascii_digit() || c == '.' { '0' } else { c }).collect();
    let mut squeezed: Vec<char> = text.trim_end().chars().collect();
    squeezed.dedup_by(|next, c| next == c && matches!(c, '0' | ' ' | '-'));
    squeezed.into_iter().collect()
}

/// A row that begins with an ID and ends with a time has the time of the ID.
fn assert_times_of_ids(cluster: &Cluster, sample: &str) {
    let rows = sample.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let mut checked = 0;
    for row in rows.filter(|row| row.len() > 1 && row[0].parse::<i64>().is_ok()) {
        let time = psql(cluster, &format!("\\pset tuples_only\nSELECT snowflake_timestamp({})", row[0]));
        assert_eq!(time.trim(), row[row.len() - 1], "the time of {}", row[0]);
        checked += 1;
    }
    assert!(checked > 0, "{sample}");
}

#[test]
fn the_sql_of_the_readme_runs_as_typed_and_prints_what_it_shows() {
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
    assert!(run(&cluster, include_str!("../../README.md")) > 0, "the README shows no output");
}

#[test]
fn the_sql_of_the_documents_runs_and_prints_what_they_show() {
    for name in [
        "adopting",
        "alternatives",
        "clock",
        "formats",
        "layouts",
        "operations",
        "reading",
        "reference",
        "serial",
        "sharding",
        "time",
    ] {
        let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        let document = fs::read_to_string(project().join(format!("docs/{name}.md"))).expect("a document");
        let compared = run(&cluster, &with_services(&document));
        assert!(compared > 0, "{name} shows no output");
    }
}

#[test]
fn the_sql_of_the_document_on_hosted_databases_runs_without_the_extension() {
    let cluster = Cluster::builder().set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE SCHEMA ids; SET search_path = ids").expect("a schema");
    client.batch_execute(&hosted_script()).expect("functions");
    client.batch_execute("SELECT snowflake_set_worker_id(7)").expect("a worker");
    assert_eq!(run(&cluster, include_str!("../../docs/hosted.md")), 2);
}

/// On a server with the extension, and then on one without.
#[test]
fn the_sql_of_the_skill_for_agents_runs_and_prints_what_it_shows() {
    let skill = fs::read_to_string(project().join("contrib/agents/snowflake-pg/SKILL.md")).expect("a skill");
    let (extension, hosted) = skill.split_once("\n## On a hosted database\n").expect("two parts");
    let cluster = Cluster::builder().worker(0).set("timezone", "UTC").start();
    assert_eq!(run(&cluster, extension), 2);
    let script = Installation::shared().script("snowflake_hosted.sql");
    let hosted = hosted.replace("\\i snowflake_hosted.sql", &format!("\\i '{}'", script.display()));
    assert!(hosted.contains(&*script.to_string_lossy()), "{hosted}");
    assert_eq!(run(&Cluster::builder().start(), &hosted), 1);
}

/// A fleet as in the document: two servers with the same worker, one without preload, and one that does not answer.
#[test]
fn the_sql_of_the_document_on_workers_finds_what_it_shows_in_a_fleet() {
    let start = |builder: Builder| {
        let cluster = builder.set("timezone", "UTC").start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster
    };
    let others = [Cluster::builder().worker(1), Cluster::builder().worker(1), Cluster::builder()].map(start);
    for issues in &others[..2] {
        issues.connect().batch_execute("CREATE ROLE monitor LOGIN; SELECT snowflake_nextval()").expect("an ID");
    }
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port that accepts nobody");
    let port = silent.local_addr().expect("an address").port();
    let hosts = others.iter().map(|other| format!("host={}", other.host().display()));
    let hosts = hosts.chain([format!("host=127.0.0.1\nport={port}\nconnect_timeout=1")]);
    let services = hosts.zip(2..).map(|(host, nth)| format!("[pg-{nth}]\n{host}\nuser=postgres\ndbname=postgres\n"));
    let file = others[0].host().join("pg_service.conf");
    fs::write(&file, services.collect::<String>()).expect("a file of services");
    let cluster = start(Cluster::builder().worker(0).environment("PGSERVICEFILE", &file.display().to_string()));
    let setup = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
        INSERT INTO orders SELECT FROM generate_series(1, 10);
        INSERT INTO orders SELECT snowflake_compose(clock_timestamp() + interval '1 min', 0, 0, 0);
        CREATE TABLE pg_dist_node (nodename, nodeport) AS
            VALUES (current_setting('unix_socket_directories'), current_setting('port'))";
    cluster.connect().batch_execute(setup).expect("tables");
    let document = fs::read_to_string(project().join("docs/workers.md")).expect("a document");
    assert_eq!(run(&cluster, &with_services(&document)), 4);
}

/// Nobody looks up the names of hosts that are not there.
fn with_services(document: &str) -> String {
    document.replace("host=pg-", "service=pg-").replace("(host 'pg-", "(service 'pg-")
}

/// Over ssh, people give psql a command by -c, which runs all statements in one transaction.
#[test]
fn a_command_that_a_sentence_names_works_by_psql_c() {
    let cluster = Cluster::builder().worker(0).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let mut typed = 0;
    for (path, text) in documents() {
        for command in text.lines().filter_map(|line| line.strip_prefix("psql -xc \"")?.strip_suffix('"')) {
            let output = cluster.psql().args(["-xc", command]).output().expect("psql");
            assert!(output.status.success(), "{output:?}");
            typed += 1;
        }
        let outside: String = text.split("```").step_by(2).collect();
        for command in outside.split('`').skip(1).step_by(2) {
            let needs_psql = command.contains("\\gx") || command.contains("ALTER SYSTEM") && command.contains(';');
            assert!(!needs_psql, "{}: {command}", path.display());
        }
    }
    assert!(typed > 0);
}

/// The documents, with their text.
fn documents() -> Vec<(PathBuf, String)> {
    let directories = ["", "docs", "docs/benchmarks", "contrib/agents/snowflake-pg", "contrib/packaging"]
        .map(|directory| project().join(directory));
    let entries = directories.iter().flat_map(|directory| fs::read_dir(directory).expect("a directory of documents"));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let documents = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    documents.map(|path| (path.clone(), fs::read_to_string(&path).expect("a document"))).collect()
}

/// The anchors of a document's headings, as GitHub makes them.
fn anchors(document: &str) -> Vec<String> {
    let mut in_block = false;
    let headings = document.lines().filter(|line| {
        in_block ^= line.starts_with("```");
        !in_block && line.starts_with('#')
    });
    let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let anchor = |heading: &str| {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(is_kept).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_to_a_file_or_a_heading_leads_to_one() {
    let mut links = 0;
    for (path, text) in documents() {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        for target in targets.filter(|target| !target.contains(':')) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            assert!(linked.exists(), "{}: {target}", path.display());
            if !anchor.is_empty() {
                let linked = fs::read_to_string(linked).expect("a document");
                assert!(anchors(&linked).iter().any(|known| known == anchor), "{}: {target}", path.display());
            }
            links += 1;
        }
    }
    assert!(links > 50, "{links}");
}

/// Words in capitals stand for names: `src/functions/TOPIC.rs`.
#[test]
fn every_path_in_the_repository_that_a_document_names_is_there() {
    let folders = ["crates/", "sql/", "src/", "tests/", "tools/"];
    let mut seen = 0;
    for (path, text) in documents() {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "/_.-".contains(c)));
        let named = words.filter(|word| folders.iter().any(|folder| word.starts_with(folder)));
        for named in named.filter(|named| !named.contains(|c: char| c.is_ascii_uppercase())) {
            assert!(project().join(named.trim_end_matches('.')).exists(), "{}: {named}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 50, "{seen}");
}

/// Tables included, and code not.
#[test]
fn the_readme_has_at_most_900_words_and_a_page_2500_that_is_not_looked_up() {
    let looked_up = ["reference.md", "errors.md", "results.md", "CHANGELOG.md"];
    for (path, text) in documents() {
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let most = if name == "README.md" { 900 } else { 2500 };
        let prose: String = text.split("```").step_by(2).collect();
        let words = prose.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
        assert!(words <= most || looked_up.contains(&name), "{name} has {words} words");
    }
}

/// The messages of errors and warnings in a source: the first text of each call that makes a report. Those that a call
/// gets in a variable, as in errors/mark_conflict.rs, are not seen here.
fn messages(source: &str) -> Vec<String> {
    let calls = ["error_report(", "warning("].map(|call| source.split(call).skip(1));
    calls.into_iter().flatten().filter_map(|rest| first_text(arguments(rest))).collect()
}

/// What is before the parenthesis that ends a call.
fn arguments(rest: &str) -> &str {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => in_text = !in_text,
            '(' if !in_text => depth += 1,
            ')' if !in_text && depth == 0 => return &rest[..at],
            ')' if !in_text => depth -= 1,
            _ => {}
        }
    }
    rest
}

fn first_text(arguments: &str) -> Option<String> {
    let mut text = String::new();
    let mut characters = arguments[arguments.find('"')? + 1..].chars().peekable();
    loop {
        match characters.next()? {
            '"' => return Some(text),
            '\\' => match characters.next()? {
                // A line that goes on.
                '\n' => while characters.next_if(|c| c.is_whitespace()).is_some() {},
                escaped => text.push(escaped),
            },
            c => text.push(c),
        }
    }
}

/// The parts of a message between its values.
fn parts(message: &str) -> impl Iterator<Item = &str> {
    let parts = message.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest));
    parts.map(|part| part.trim_matches([' ', '"', ':', ','])).filter(|part| part.len() > 7)
}

#[test]
fn every_error_and_warning_is_in_the_list_of_errors() {
    let listed = fs::read_to_string(project().join("docs/errors.md")).expect("a document");
    let mut directories = vec![project().join("src")];
    let (mut found, mut missing) = (0, Vec::new());
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).expect("sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            for message in messages(&fs::read_to_string(&path).expect("a source")) {
                found += 1;
                if !parts(&message).all(|part| listed.contains(part)) {
                    missing.push(message);
                }
            }
        }
    }
    assert_eq!(missing, [""; 0], "not in docs/errors.md");
    assert!(found > 40, "{found}");
}

/// The numbers that stand between `before` and `after` in a text.
fn numbers(text: &str, before: &str, after: &str) -> BTreeSet<u8> {
    let parts = text.split(before).skip(1).filter_map(|rest| rest.split(after).next());
    parts.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn the_document_on_guarantees_has_the_rows_of_the_fault_suite() {
    let document = fs::read_to_string(project().join("docs/guarantees.md")).expect("a document");
    let mut listed = numbers(&document, "\n| ", " |");
    // Row 18 is in tests/programs/patroni.
    assert!(listed.remove(&18), "{listed:?}");
    let sources =
        files(&project().join("tests/faults")).into_iter().map(|file| fs::read_to_string(file).expect("a source"));
    let tested: BTreeSet<u8> = sources.flat_map(|source| numbers(&source, " row: ", ",")).collect();
    assert!(!tested.is_empty());
    assert_eq!(listed, tested);
}

/// Hints and comments that users read send them there.
#[test]
fn every_document_that_a_source_or_a_script_names_is_there() {
    let mut seen = 0;
    for file in ["src", "sql", "contrib"].iter().flat_map(|folder| files(&project().join(folder))) {
        let text = String::from_utf8_lossy(&fs::read(&file).expect("a file")).into_owned();
        for part in text.split("docs/").skip(1) {
            let page = part.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap_or_default();
            if part[page.len()..].starts_with(".md") {
                assert!(project().join(format!("docs/{page}.md")).exists(), "{}: docs/{page}.md", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
    let brings = |file: &str, begins: &str| {
        let text = fs::read_to_string(project().join(file)).expect("a file");
        text.lines().any(|line| line.trim().starts_with(begins) && line.split(' ').any(|word| word == "docs"))
    };
    assert!(brings("debian/rules", "dh_installdocs ") && brings("contrib/packaging/rpm/snowflake_pg.spec", "%doc "));
}

/// Who reads a HINT need not have the sources.
#[test]
fn every_hint_that_names_a_document_says_whose_it_is() {
    let mut seen = 0;
    for file in ["src", "sql"].iter().flat_map(|folder| files(&project().join(folder))) {
        let text = fs::read_to_string(&file).expect("a file");
        let is_comment = |line: &&str| ["//", "--", "COMMENT"].iter().any(|begin| line.trim_start().starts_with(begin));
        let code: Vec<_> = text.lines().filter(|line| !is_comment(line)).collect();
        let code = code.join(" ").replace("\\ ", "").split_whitespace().collect::<Vec<_>>().join(" ");
        for (at, _) in code.match_indices("docs/") {
            let Some((page, after)) = code[at..].split_once(".md").filter(|(page, _)| !page.contains(' ')) else {
                continue;
            };
            // A comment on a column, whose text is in a line of its own.
            if !code[..at].ends_with("others are in ") {
                let is_said = after.starts_with(" in the documentation of snowflake_pg");
                assert!(is_said, "{}: {page}", file.display());
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 5);
}
