//! docs/reference.md beside a server: each has all that the other has, and says the same of it.

use std::collections::BTreeSet;
use std::fs;
use testbed::postgres::{Client, Row};
use testbed::{Cluster, Database, error, project, test, value};

fn document(name: &str) -> String {
    fs::read_to_string(project().join(name)).expect("a document")
}

/// What is below a heading.
fn section<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document.split_once(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    rest.split("\n## ").next().unwrap_or_default()
}

/// The rows of tables whose first cell is a name of ours, and the paragraph that introduces each.
fn rows(section: &str) -> Vec<(Vec<&str>, &str)> {
    let (mut rows, mut introduction) = (Vec::new(), "");
    for paragraph in section.split("\n\n") {
        let lines = paragraph.lines().filter(|line| line.starts_with("| `snowflake"));
        rows.extend(lines.map(|line| (line.trim_matches('|').split('|').map(str::trim).collect(), introduction)));
        introduction = paragraph;
    }
    rows
}

fn without_ticks(cell: &str) -> String {
    cell.replace('`', "")
}

fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(0).database();
    let mut client = database.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt").expect("the extensions");
    (database, client)
}

fn texts(client: &mut Client, query: &str) -> BTreeSet<String> {
    client.query(query, &[]).expect("rows").iter().map(|row| row.get(0)).collect()
}

/// The functions that a signature stands for: `f(a bigint [, b text])` is two, with and without what is in brackets.
/// Before an argument from brackets, none has a default.
fn expanded(signature: &str) -> Vec<String> {
    let Some((before, rest)) = signature.split_once('[').filter(|(_, rest)| !rest.starts_with(']')) else {
        return vec![signature.to_owned()];
    };
    let (optional, after) = rest.split_once(']').expect("a bracket that is closed");
    let before = before.trim_end();
    let given = before.split(',').map(|argument| argument.split(" DEFAULT ").next().unwrap_or_default());
    let with = format!("{}{optional}{after}", given.collect::<Vec<_>>().join(","));
    [format!("{before}{after}"), with].iter().flat_map(|signature| expanded(signature)).collect()
}

/// Functions with their arguments, results and privileges. Left out are those that only PostgreSQL and the views call,
/// and those that are the type `snowflake`.
const FUNCTIONS: &str = "
    SELECT CASE extname WHEN 'snowflake_adopt' THEN 'snowflake_adopt.' ELSE '' END || proname || '(' || array_to_string(ARRAY(
            SELECT regexp_replace(argument, '^IN |::\\w+(\\[\\])?$', '', 'g') FROM unnest(string_to_array(
                replace(pg_get_function_arguments(p.oid), 'timestamp with time zone', 'timestamptz'), ', ')) argument
            WHERE argument NOT LIKE 'OUT %'), ', ') || ')',
        CASE WHEN prokind = 'p' THEN 'procedure' WHEN proretset THEN 'setof ' ELSE '' END
            || replace(replace(format_type(prorettype, NULL), 'timestamp with time zone', 'timestamptz'), 'void', ''),
        CASE WHEN proretset THEN 'setof ' ELSE '' END || coalesce(
            (SELECT string_agg(name, ', ' ORDER BY nth) FROM unnest(proargnames, proargmodes) WITH ORDINALITY a(name, mode, nth)
             WHERE mode = 'o'),
            (SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute a JOIN pg_type t ON attrelid = typrelid
             WHERE t.oid = prorettype), ''),
        EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0)
    FROM pg_proc p JOIN pg_depend d ON (d.classid, d.objid) = ('pg_proc'::regclass, p.oid) AND deptype = 'e'
    JOIN pg_extension e ON e.oid = refobjid AND extname LIKE 'snowflake%'
    WHERE NOT prorettype || proargtypes::oid[] && '{internal, cstring, snowflake}'::regtype[]::oid[]
      AND obj_description(p.oid, 'pg_proc') NOT LIKE 'not to be called%'
    ORDER BY 1";

#[test]
fn the_reference_has_every_function_with_its_arguments_its_result_and_who_may_call_it() {
    let reference = document("docs/reference.md");
    let (_database, mut client) = database();
    let mut documented = Vec::new();
    let sections = ["Functions", "Plans to adopt tables"].map(|heading| section(&reference, heading));
    for (row, introduction) in sections.into_iter().flat_map(rows) {
        let is_for_superusers = row.iter().chain([&introduction]).any(|text| text.contains("for superusers"));
        let functions = expanded(&without_ticks(row[0]));
        documented.extend(functions.into_iter().map(|function| (function, without_ticks(row[1]), !is_for_superusers)));
    }
    documented.sort_unstable();
    let mut there = Vec::new();
    for row in client.query(FUNCTIONS, &[]).expect("functions") {
        let (function, result, columns): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        // A composite type is documented by its name or by its columns.
        let is_by_columns = documented.iter().any(|(name, result, _)| *name == function && *result == columns);
        there.push((function, if is_by_columns { columns } else { result }, row.get::<_, bool>(3)));
    }
    there.sort_unstable();
    assert!(there.len() > 40, "{there:?}");
    let missing: Vec<_> = there.iter().filter(|function| !documented.contains(function)).collect();
    let wrong: Vec<_> = documented.iter().filter(|function| !there.contains(function)).collect();
    assert!(missing.is_empty() && wrong.is_empty(), "there: {missing:#?}\ndocumented: {wrong:#?}");
}

#[test]
fn the_reference_has_every_view_and_every_type() {
    let reference = document("docs/reference.md");
    let (_database, mut client) = database();
    let owned = |class: &str, more: &str| {
        format!(
            "SELECT CASE extname WHEN 'snowflake_adopt' THEN 'snowflake_adopt.' ELSE '' END || {class}name FROM pg_{more} JOIN pg_depend d ON d.objid = o.oid AND deptype = 'e'
             JOIN pg_extension e ON e.oid = refobjid AND extname LIKE 'snowflake%'"
        )
    };
    let types = owned("typ", "type o")
        + " LEFT JOIN pg_class c ON c.oid = typrelid WHERE typelem = 0 AND coalesce(relkind, 'c') = 'c'";
    for (heading, query) in [("Views", owned("rel", "class o") + " WHERE relkind = 'v'"), ("Types", types)] {
        let names: BTreeSet<_> =
            rows(section(&reference, heading)).iter().map(|(row, _)| without_ticks(row[0])).collect();
        assert_eq!(names, texts(&mut client, &query), "{heading}");
    }
}

/// A length of time in the largest unit that it has a whole number of, as PostgreSQL shows it; other numbers as they
/// are.
fn with_unit(number: &str, unit: Option<&str>) -> String {
    let mut number: i64 = number.parse().expect("a number");
    let Some(unit) = unit.filter(|_| number > 0) else { return number.to_string() };
    let units = [("ms", 1000), ("s", 60), ("min", 60), ("h", 24), ("d", i64::MAX)];
    let mut units = units.iter().skip_while(|(name, _)| *name != unit).peekable();
    while units.peek().is_some_and(|(_, next)| number % next == 0) {
        number /= units.next().expect("one that was seen").1;
    }
    format!("{number}{}", units.next().expect("days at last").0)
}

/// A parameter: its name, its default, its values, and when a change takes effect.
type Parameter = [String; 4];

/// As the server has them; those that pg_settings shows.
fn parameters(client: &mut Client) -> Vec<Parameter> {
    let query = "SELECT name, boot_val, min_val, max_val, array_to_string(enumvals, ', '), unit, context, vartype
        FROM pg_settings WHERE name LIKE 'snowflake_pg.%' ORDER BY name";
    let describe = |row: &Row| {
        let text = |column: usize| row.get::<_, Option<String>>(column).unwrap_or_default();
        let unit: Option<String> = row.get(5);
        let unit = unit.as_deref();
        let (default, values) = match &*text(7) {
            "integer" => {
                let [default, least, greatest] = [1, 2, 3].map(|column| with_unit(&text(column), unit));
                let is_bound = text(3) != i32::MAX.to_string();
                (default, if is_bound { format!("{least} to {greatest}") } else { format!("{least} or more") })
            }
            "bool" => (text(1), "on, off".to_owned()),
            "enum" => (text(1), text(4)),
            _ => (text(1), String::new()),
        };
        let takes_effect = match &*text(6) {
            "postmaster" => "restart".to_owned(),
            "sighup" => "reload".to_owned(),
            "user" => "at once".to_owned(),
            other => other.to_owned(),
        };
        [text(0), default, values, takes_effect]
    };
    client.query(query, &[]).expect("parameters").iter().map(describe).collect()
}

/// A row of a table of parameters.
fn documented(row: &[&str]) -> Parameter {
    let cell = |nth: usize| without_ticks(row[nth]).replace("empty", "");
    [cell(0), cell(1), cell(2).replace(',', if cell(2).contains(" to ") { "" } else { "," }), cell(3)]
}

#[test]
fn the_reference_has_every_parameter_with_its_default_its_values_and_when_it_takes_effect() {
    let (_database, mut client) = database();
    let parameters = parameters(&mut client);
    let reference = document("docs/reference.md");
    let mut of_document: Vec<Parameter> = Vec::new();
    for (row, _) in rows(section(&reference, "Parameters")) {
        let [name, default, values, takes_effect] = documented(&row);
        // What texts are valid, the document says in words.
        let is_text = parameters.iter().any(|known| known[0] == name && known[2].is_empty());
        of_document.push([name, default, if is_text { String::new() } else { values }, takes_effect]);
    }
    of_document.sort_unstable();
    assert_eq!(of_document, parameters);

    // The README has some.
    let readme = document("README.md");
    let rows = rows(section(&readme, "Configuration"));
    assert!(rows.len() > 2, "{rows:?}");
    for (row, _) in rows {
        let said = [0, 1, 2].map(|nth| without_ticks(row[nth]).replace("empty", ""));
        let is_so = |known: &Parameter| [&known[0], &known[1], &known[3]] == [&said[0], &said[1], &said[2]];
        assert!(parameters.iter().any(is_so), "{said:?}");
    }
}

#[test]
fn contributors_read_of_the_developer_options_which_no_list_of_the_server_shows() {
    let server = Cluster::builder().worker(0).with_all_defaults().start();
    let mut client = server.connect();
    let contributing = document("CONTRIBUTING.md");
    let rows = rows(section(&contributing, "Developer options"));
    let sources = fs::read_dir(project().join("src/config/gucs")).expect("sources");
    let of_file = |path| fs::read_to_string(path).expect("a source").matches("flags: FOR_DEVELOPERS").count();
    assert_eq!(rows.len(), sources.map(|file| of_file(file.expect("a file").path())).sum::<usize>());
    for (row, _) in rows {
        let [name, defaults, values, takes_effect] = documented(&row);
        // The server can be of another architecture than this program: under QEMU.
        let is_arm64 = value(&mut client, "SELECT version()").contains(" on aarch64-");
        let (default, on_arm64) = defaults.split_once("; on arm64 ").unwrap_or((&defaults, &defaults));
        let default = if is_arm64 { on_arm64 } else { default };
        assert_eq!(value(&mut client, &format!("SHOW {name}")), default);
        assert_eq!(value(&mut client, &format!("SELECT count(*) FROM pg_settings WHERE name = '{name}'")), "0");
        let flags = format!("SELECT pg_settings_get_flags('{name}') @> '{{NO_SHOW_ALL, NOT_IN_SAMPLE}}'");
        assert_eq!(value(&mut client, &flags), "t");
        if values.contains(',') {
            let unknown = error(&mut client, &format!("ALTER SYSTEM SET {name} = 'nonsense'"));
            assert_eq!(unknown.hint(), Some(&*format!("Available values: {values}.")));
        }
        let fixed = error(&mut client, &format!("SET {name} = '{default}'"));
        let why = if takes_effect == "restart" { "without restarting the server" } else { "cannot be changed now" };
        assert!(fixed.message().contains(why), "{fixed:?}");
    }
}

/// `TEMP` and `CREATE` add no function.
#[test]
fn security_md_says_exactly_what_a_role_without_rights_may_execute() {
    let security = document("SECURITY.md");
    let listed = section(&security, "Who may execute what");
    let (of_library, of_adopt) = listed.split_once("Of the schema `snowflake_adopt`").expect("two lists");
    let (of_adopt, _) = of_adopt.split_once("The other functions").expect("what is behind the lists");
    let names = |text: &str| -> BTreeSet<String> { text.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let (_database, mut client) = database();
    client
        .batch_execute("CREATE ROLE anybody; GRANT CREATE ON SCHEMA public TO anybody; SET ROLE anybody")
        .expect("a role");
    let functions = |extension: &str, may: &str| {
        format!(
            "SELECT proname::text FROM pg_proc p JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND deptype = 'e'
             JOIN pg_extension e ON e.oid = refobjid AND extname = '{extension}'
             WHERE has_function_privilege('anybody', p.oid, 'EXECUTE') = {may}"
        )
    };
    let mut refused = names(of_library);
    assert!(refused.remove("snowflake_pg"), "{refused:?}");
    assert_eq!(texts(&mut client, &functions("snowflake_pg", "false")), refused);
    let mut allowed = names(of_adopt);
    assert!(allowed.remove("progress"), "{allowed:?}");
    assert_eq!(texts(&mut client, &functions("snowflake_adopt", "true")), allowed);
    client.batch_execute("RESET ROLE; DROP OWNED BY anybody; DROP ROLE anybody").expect("the end");
}
