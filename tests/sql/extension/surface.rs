//! What version 1.0 freezes: `surface` beside what is there.
//!
//! Each line of `surface` is a promise, or says that none is made: `frozen` stays as it is in all versions 1.x, `open`
//! may change. docs/reference.md says both to users.

use super::objects;
use super::released::frozen_names;
use snowflake_core::server::number_source::{NumberSource, SourceError};
use std::fs;
use std::path::Path;
use testbed::postgres::Client;
use testbed::{Cluster, Registry, error, project, test, value};

/// What is new, and has no mark yet.
const UNDECIDED: &str = "undecided";

fn document(name: &str) -> String {
    fs::read_to_string(project().join(name)).expect("a document")
}

/// The first cells of the rows of a section, without their ticks.
fn first_cells(document: &str, heading: &str) -> Vec<String> {
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once('`')).map(|(cell, _)| cell.to_owned()).collect()
}

fn texts(client: &mut Client, query: &str) -> Vec<String> {
    client.query(query, &[]).expect("rows").iter().map(|row| row.get(0)).collect()
}

/// Parameters, without defaults that may change; the layouts, by which stored IDs are read; and roles.
const SETTINGS: &str = "
    SELECT format('parameter %s %s, %s%s%s', name, concat_ws(' in ', vartype, unit), context, ' ' || enumvals::text,
        CASE WHEN name IN ('snowflake_pg.layout', 'snowflake_pg.max_borrow', 'snowflake_pg.reserve_ahead') THEN ', default ' || boot_val END)
    FROM pg_settings WHERE name LIKE 'snowflake_pg.%'
    UNION ALL SELECT format('limits of %s %s to %s', name, min_val, max_val)
        FROM pg_settings WHERE name LIKE 'snowflake_pg.%' AND min_val IS NOT NULL
    UNION ALL SELECT format('layout %s %s, unit %s, epoch %s', name, fields, unit, epoch) FROM snowflake_layouts
    UNION ALL SELECT format('role %s', rolname) FROM pg_roles WHERE rolname LIKE 'snowflake%'";

/// Parameters that `pg_settings` does not list, with what PostgreSQL tells of them.
fn hidden(client: &mut Client) -> Vec<String> {
    let mut names = Vec::new();
    for file in names_in(&project().join("src/config/gucs")) {
        let text = document(&format!("src/config/gucs/{file}"));
        let declared = text.lines().filter_map(|line| line.trim().strip_prefix("name: c\"")?.strip_suffix("\","));
        names.extend(declared.map(str::to_owned));
    }
    let query = format!(
        "SELECT format('hidden parameter %s %s', name, pg_settings_get_flags(name)) FROM unnest('{{{}}}'::text[]) name
         WHERE name NOT IN (SELECT name FROM pg_settings)",
        names.join(",")
    );
    texts(client, &query)
}

/// The words that an error's hint lists.
fn hinted(client: &mut Client, query: &str) -> Vec<String> {
    let refused = error(client, query);
    let hint = refused.hint().unwrap_or_default().trim_end_matches('.');
    let (of, words) = hint.split_once(" are ").unwrap_or_else(|| panic!("{refused:?}"));
    words
        .replace(" and ", ", ")
        .split(", ")
        .map(|word| format!("one of the {} {word}", of.to_lowercase().trim_start_matches("the ")))
        .collect()
}

/// The words that a message names: those in quotes, or those that look like a field of a layout.
fn grammar(client: &mut Client) -> Vec<String> {
    let sources = SourceError::Unknown.to_string();
    let sources = sources.split('"').skip(1).step_by(2).map(|source| {
        let example = source.replace("network/bits", "10.0.0.0/8");
        assert!(NumberSource::parse(&example).is_ok(), "{source}");
        format!("source of a number {source}")
    });
    let refused = error(client, "SELECT snowflake_min_id(now(), '?')");
    let detail = refused.detail().unwrap_or_default().trim_end_matches('.');
    let (_, fields) = detail.split_once(") nor a field such as ").unwrap_or_else(|| panic!("{refused:?}"));
    let fields = fields.split([',', ' ']).filter(|word| !matches!(*word, "" | "or" | "nor"));
    let fields =
        fields.map(|field| format!("word of a layout {}", field.trim_end_matches(|c: char| c.is_ascii_digit())));
    let arguments = [
        "SELECT snowflake_bound(now(), '?')",
        "SELECT snowflake_to_text(1, '?')",
        "SELECT snowflake_create_operator_class('class', '?', 'public', 'flat')",
    ];
    let arguments: Vec<_> = arguments.iter().flat_map(|query| hinted(client, query)).collect();
    sources.chain(fields).chain(arguments).collect()
}

/// Words in rows: a row with another word is new.
fn words(client: &mut Client) -> Vec<String> {
    let states = first_cells(&document("docs/operations.md"), "States");
    let states = states.into_iter().skip(1).map(|state| format!("state {state}"));
    let mut described = |what: &str, relation: &str, column: &str| -> Vec<String> {
        let comment = value(
            client,
            &format!(
                "SELECT col_description(attrelid, attnum) FROM pg_attribute
                 WHERE attrelid = '{relation}'::regclass AND attname = '{column}'"
            ),
        );
        let word = |part: &str| part.split([':', '(']).next().unwrap_or_default().trim().to_owned();
        comment.split(';').map(|part| format!("{what} {}", word(part))).collect()
    };
    let results = described("result of an audit", "snowflake_audit_finding", "result");
    let others = [
        ("state of a worker", "snowflake_registry.workers", "state"),
        ("rule of a worker", "snowflake_registry.lease", "rule"),
        ("state of a life", "snowflake_life", "state"),
        ("value of worker_id_source", "snowflake_status", "worker_id_source"),
        ("value of clones_detected_by", "snowflake_status", "clones_detected_by"),
    ];
    let others = others.into_iter().flat_map(|(what, relation, column)| described(what, relation, column));
    let wait_events = first_cells(&document("docs/monitoring.md"), "Wait events").into_iter();
    let wait_events = wait_events.filter(|cell| cell.starts_with("Snowflake")).map(|cell| format!("wait event {cell}"));
    states.chain(results).chain(others).chain(wait_events).collect()
}

/// The control files, which say who can create an extension, and where.
const EXTENSIONS: &str = "
    SELECT format('extension %s relocatable %s, superuser %s, trusted %s, schema %s, requires %s', name, relocatable,
        superuser, trusted, coalesce(schema, 'any'), array_to_string(requires, ' '))
    FROM pg_available_extension_versions JOIN pg_available_extensions e USING (name)
    WHERE name LIKE 'snowflake%' AND version = e.default_version";

/// What servers tell each other and the registry, by name and type.
const TOLD: &str = "
    SELECT DISTINCT format('field of a life %s %s', key, jsonb_typeof(value))
        FROM snowflake_lives_for_servers(1) told, jsonb_each(told)
    UNION ALL SELECT format('field of about %s %s', name, type::regtype)
        FROM pg_proc, unnest(proargnames[2:], proallargtypes[2:]) AS field(name, type)
        WHERE pg_proc.oid = 'snowflake_registry.read_about(jsonb)'::regprocedure";

fn sqlstates() -> Vec<String> {
    let errors = document("docs/errors.md");
    let rows = errors.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let codes = rows.flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>());
    let mut codes: Vec<_> = codes
        .filter(|code| code.len() == 5 && code.chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase()))
        .collect();
    codes.sort_unstable();
    codes.dedup();
    codes.into_iter().map(|code| format!("SQLSTATE {code}")).collect()
}

/// Of the second metric of the exporter's file, which has no view.
fn labels() -> Vec<String> {
    let exporter = document("contrib/monitoring/postgres_exporter.yml");
    let (_, info) = exporter.split_once("\nsnowflake_pg_server:").unwrap_or_else(|| panic!("no snowflake_pg_server"));
    let names = info.lines().filter_map(|line| line.trim().strip_prefix("- ")?.strip_suffix(':'));
    names.map(|name| format!("metric or label snowflake_pg_server {name}")).collect()
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect()
}

/// Files of a server, and their formats, of which the core keeps bytes of each version, with their fields.
fn files(data: &Path) -> Vec<String> {
    let names = names_in;
    let mut files: Vec<_> = names(data).into_iter().filter(|name| name.starts_with("snowflake_pg.")).collect();
    files.extend(names(&data.join("snowflake_pg")).into_iter().map(|name| format!("snowflake_pg/{name}")));
    files.extend(
        names(&data.join("global")).into_iter().filter(|name| name == "16111").map(|name| format!("global/{name}")),
    );
    let mut lines: Vec<_> = files.iter().map(|name| format!("file {name}")).collect();
    let formats = project().join("crates/snowflake_core/tests/formats");
    for version in names(&formats).into_iter().filter(|name| name.starts_with("version_")) {
        for name in names(&formats.join(&version)) {
            lines.push(format!("format of {name}, {version}"));
        }
    }
    let mut format = "header".to_owned();
    for line in document("crates/snowflake_core/src/formats.rs").lines().filter_map(|line| line.strip_prefix("//! ")) {
        if let Some((_, letters)) = line.split_once(": `").filter(|_| line.starts_with("# ")) {
            format = letters.trim_end_matches('`').to_owned();
        } else if let Some((place, meaning)) =
            line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")?.rsplit_once(" | "))
            && place.contains(|c: char| c.is_ascii_digit() || c == '*')
        {
            lines
                .push(format!("field of {format}, {}: {meaning}", place.replace(" | ", ", ").trim_start_matches("| ")));
        }
    }
    lines.extend(numbers_in_traces());
    lines
}

/// What the numbers in a trace mean: kinds of events with their fields, decisions of a start, and ends of lives.
fn numbers_in_traces() -> Vec<String> {
    let mark = "crates/snowflake_core/src/mark";
    let code = document(&format!("{mark}/trace.rs")) + &document(&format!("{mark}/lives.rs"));
    let number = |text: &str| text.parse::<u8>().is_ok();
    let line = |line: &str| {
        let line = line.trim().trim_end_matches(',');
        let event = line.split_once(' ').filter(|(kind, fields)| number(kind) && fields.ends_with('}'));
        let value = |between| line.split_once(between).filter(|(_, value)| number(value));
        event
            .map(|(kind, fields)| format!("number in SNOWTRAC, event {kind}: {fields}"))
            .or_else(|| {
                value(" => ").map(|(decision, value)| format!("number in SNOWTRAC, decision {value}: {decision}"))
            })
            .or_else(|| value(" = ").map(|(end, value)| format!("number in SNOWTRAC, end {value}: {end}")))
    };
    code.lines().filter_map(line).collect()
}

/// What a line promises: a text, parts of which a later version may have more, and limits that it may widen.
type Promise<'a> = (String, Vec<&'a str>, [i64; 2]);

/// The parameter of a line about limits, and these.
fn limits(line: &str) -> Option<(&str, [i64; 2])> {
    let (parameter, limits) = line.strip_prefix("limits of ")?.split_once(' ')?;
    let (least, most) = limits.split_once(" to ")?;
    Some((parameter, [least.parse().ok()?, most.parse().ok()?]))
}

fn promise(line: &str) -> Promise<'_> {
    // From the rarest on: a change may take effect sooner.
    const CONTEXTS: [&str; 6] = ["postmaster", "sighup", "superuser-backend", "backend", "superuser", "user"];
    if let Some((parameter, limits)) = limits(line) {
        return (parameter.to_owned(), vec![], limits);
    }
    if let Some((function, rest)) = line.split_once(") (").filter(|_| line.starts_with("function ")) {
        let (arguments, rest) = rest.split_once(") returns ").unwrap_or_default();
        let (result, grants) = rest.split_once(", rows ").unwrap_or_default();
        let result = format!("returns {result}, for {}", grants.rsplit_once(", for ").unwrap_or_default().1);
        // Not in stored objects, and called with names.
        if let Some((name, _)) = function.split_once('(').filter(|(name, _)| name.contains(" snowflake_registry.")) {
            return (format!("{name} {result}"), arguments.split(", ").collect(), [0; 2]);
        }
        return (format!("{function} ({arguments}) {result}"), vec![], [0; 2]);
    }
    let (before, words) = line.split_once('{').unwrap_or((line, ""));
    let (words, after) = words.split_once('}').unwrap_or_default();
    let mut words: Vec<_> = words.split(',').collect();
    let mut text = before.to_owned();
    let context = CONTEXTS.iter().position(|context| before.contains(&format!(", {context}")));
    if let Some(rank) = context.filter(|_| line.starts_with("parameter ")) {
        words.extend(&CONTEXTS[..=rank]);
        text = before.replacen(CONTEXTS[rank], "", 1);
    }
    (text + after, words, [0; 2])
}

fn is_kept((text, parts, [least, most]): &Promise, there: &[Promise]) -> bool {
    there.iter().any(|(now, has, [from, to])| {
        now == text && parts.iter().all(|part| has.contains(part)) && from <= least && most <= to
    })
}

#[test]
fn a_later_version_may_add_to_what_is_frozen_and_take_nothing_away() {
    let parameter = |context, words| format!("parameter snowflake_pg.wal_mark enum, {context} {{{words}}}");
    let function = |name: &str, arguments| {
        format!(
            "function {name}(text) ({arguments}) returns text, stable, parallel safe, rows 0, support -, c a, for everybody"
        )
    };
    let (mark, other) = (parameter("sighup", "off,prefer"), function("snowflake_text", "id text"));
    let registry = function("snowflake_registry.server_hello", "token uuid");
    let limits = "limits of snowflake_pg.max_wait 0 to 3600000".to_owned();
    for (frozen, now, is_kept) in [
        (&limits, limits.replace("0 to 3600000", "-1 to 7200000"), true),
        (&limits, limits.replace(" 0 to", " 1 to"), false),
        (&limits, limits.replace("3600000", "3599999"), false),
        (&limits, limits.replace("max_wait", "max_borrow"), false),
        (&mark, parameter("sighup", "off,prefer,require"), true),
        (&mark, parameter("user", "off,prefer"), true),
        (&mark, parameter("postmaster", "off,prefer"), false),
        (&mark, parameter("sighup", "off"), false),
        (&other, other.replace("c a,", "sql body,").replace("rows 0", "rows 9"), true),
        (&other, other.replace("id text", "id text, more text"), false),
        (&other, other.replace("stable", "volatile"), false),
        (&other, other.replace("everybody", "superusers"), false),
        (&registry, registry.replace("(text)", "(text,text)").replace("uuid", "uuid, more text DEFAULT ''"), true),
        (&registry, registry.replace("uuid", "text"), false),
    ] {
        assert_eq!(self::is_kept(&promise(frozen), &[promise(&now)]), is_kept, "{frozen}\n{now}");
    }
}

/// A change of this list is a change of the public surface.
#[test]
fn what_is_there_is_frozen_or_open_as_the_list_of_the_surface_says() {
    let registry = Registry::start();
    let member = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let cluster = member.set("timezone", "UTC").start();
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt; CREATE EXTENSION snowflake_registry",
        )
        .expect("the extensions");
    cluster.wait_until("SELECT state IN ('ready', 'idle') FROM snowflake_status");
    value(&mut client, "SELECT snowflake_nextval()");
    let owned = objects(&mut client);
    let mut there: Vec<_> = owned.iter().map(|(object, _)| object.clone()).collect();
    let lists = [SETTINGS, EXTENSIONS, TOLD].map(|query| texts(&mut client, query));
    let named = [hidden(&mut client), grammar(&mut client), words(&mut client)];
    for more in lists.into_iter().chain(named).chain([sqlstates(), labels(), files(&cluster.data())]) {
        assert!(!more.is_empty());
        there.extend(more);
    }
    there.sort_unstable();

    let listed: Vec<(&str, &str)> = lines().collect();
    let mark = |line: &str| listed.iter().find(|(_, listed)| *listed == line).map_or(UNDECIDED, |(mark, _)| mark);
    let marked: Vec<_> = there.iter().map(|line| format!("{} {line}", mark(line))).collect();
    fs::write(project().join("target/surface"), marked.join("\n") + "\n").expect("own file");
    // psql's \d+ and \df+ describe everything.
    let without: Vec<_> = owned.iter().filter(|(_, has_comment)| !has_comment).collect();
    assert!(without.is_empty(), "without a comment: {without:#?}");
    let is_there = |line: &str| there.iter().any(|there| there == line);
    let promises: Vec<_> = there.iter().map(|line| promise(line)).collect();
    let broken: Vec<_> = frozen_names().into_iter().filter(|(_, line)| !is_kept(&promise(line), &promises)).collect();
    assert!(
        broken.is_empty(),
        "frozen by a release, and not there, or another: {broken:#?}\n\
         keep it, add what is new beside it, and deprecate it as docs/reference.md says (before the release: make freeze)"
    );
    let gone: Vec<_> =
        listed.iter().filter(|(_, line)| !is_there(line)).map(|(mark, line)| format!("{mark} {line}")).collect();
    let new: Vec<_> = marked.iter().filter(|line| !line.starts_with("frozen ") && !line.starts_with("open ")).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new, and neither frozen nor open: {new:#?}\nnot there, or another: {gone:#?}\n\
         if that is meant: cp target/surface tests/sql/extension/, and write frozen or open before each new line"
    );
}

/// What users find in the reference, and would take for kept.
#[test]
fn the_reference_names_what_it_shows_and_the_list_leaves_open() {
    let reference = document("docs/reference.md");
    let (before, kept) = reference.split_once("\n## What 1.0 freezes\n").expect("the section");
    let mut named = 0;
    for (mark, line) in lines() {
        let mut words = line.split([' ', '(']);
        let (kind, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_shown = before
            .lines()
            .any(|row| row.starts_with(&format!("| `{name}(")) || row.starts_with(&format!("| `{name}`")));
        if mark == "frozen" || !is_shown || !matches!(kind, "function" | "view" | "type" | "parameter") {
            continue;
        }
        let schema = name.split_once('.').map_or(name, |(schema, _)| schema);
        assert!(kept.contains(&format!("`{name}")) || kept.contains(&format!("`{schema}`")), "{name} is open");
        named += 1;
    }
    assert!(named > 5, "{named}");
}

/// The lines of the list, after their marks.
pub fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("surface").lines().map(|line| line.split_once(' ').expect("a mark, and what it is about"))
}
