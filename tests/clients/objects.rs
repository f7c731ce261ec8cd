//! Each client inserts 500 objects as docs/clients.md shows. The server counts the statements, and the keys that the
//! program has must be those of the rows.

use std::collections::HashMap;
use std::fs;
use std::process::Command;
use testbed::{Cluster, project};

/// What a program does.
struct Recipe {
    /// As docs/clients.md calls it.
    name: &'static str,
    /// The folder of tests/clients, which is also that of the packages in target/clients.
    folder: &'static str,
    program: &'static str,
    statements: usize,
    /// Whether the objects have the keys of their rows; else they have none.
    has_keys: bool,
    key_type: &'static str,
}

const RECIPES: [Recipe; 9] = [
    python("SQLAlchemy 2.1.9, `monotonic=True`", "sqlalchemy_monotonic.py", 1),
    python("SQLAlchemy 2.1.9, without it", "sqlalchemy_plain.py", 500),
    python("SQLAlchemy 2.1.9, IDs first", "sqlalchemy_first.py", 2),
    Recipe { folder: "python_sqlalchemy_2_0", ..python("SQLAlchemy 2.0.58, IDs first", "sqlalchemy_first.py", 2) },
    python("Alembic 1.20.1", "alembic_migration.py", 1),
    python("Django 5.2.19, `SnowflakeAutoField`", "django_auto_field.py", 1),
    Recipe {
        has_keys: false,
        key_type: "DatabaseDefault",
        ..python("Django 5.2.19, `db_default`", "django_db_default.py", 1)
    },
    python("asyncpg 0.32.0", "asyncpg_unnest.py", 1),
    python("psycopg 3.3.9", "psycopg_unnest.py", 1),
];

const fn python(name: &'static str, program: &'static str, statements: usize) -> Recipe {
    Recipe { name, folder: "python", program, statements, has_keys: true, key_type: "int" }
}

impl Recipe {
    /// Runs it on a server of its own.
    fn run(&self) {
        let cluster = Cluster::builder().worker(7).set("log_statement", "all").set("log_line_prefix", "%d ").start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
        let before = cluster.log().len();
        let python = project().join("target/clients").join(self.folder).join("venv/bin/python3");
        // The programs are the same for each version of a package.
        let program = project().join("tests/clients/python").join(self.program);
        let output = Command::new(python).arg(program).envs(cluster.environment()).output();
        let output = output.expect("an interpreter, by `tools/setup clients`");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", self.name);
        let log = cluster.log().split_off(before);
        let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(printed["type"], self.key_type, "{}", self.name);

        let rows = client.query("SELECT n, id FROM orders", &[]).expect("rows");
        let rows: HashMap<String, String> =
            rows.iter().map(|row| (row.get::<_, i32>(0).to_string(), row.get::<_, i64>(1).to_string())).collect();
        assert_eq!(rows.len(), 500, "{}", self.name);
        let keys = printed["keys"].as_object().expect("keys");
        assert_eq!(keys.len(), 500, "{}", self.name);
        let right = keys.iter().filter(|(n, key)| rows.get(*n).is_some_and(|id| *key == id.as_str())).count();
        assert_eq!(right, if self.has_keys { 500 } else { 0 }, "{}", self.name);

        let statements = log.lines().filter_map(|line| {
            let (_, statement) = line.split_once("LOG:  ")?;
            statement.split_once(": ").filter(|(kind, _)| *kind == "statement" || kind.starts_with("execute "))
        });
        let of_orders =
            |(_, text): &(&str, &str)| text.starts_with("INSERT INTO") || text.contains("snowflake_nextvals(");
        // Django's single object is one of the statements.
        let more = usize::from(self.program == "django_auto_field.py");
        assert_eq!(statements.filter(of_orders).count(), self.statements + more, "{}:\n{log}", self.name);
    }

    /// Its row in the table of docs/clients.md.
    fn row(&self) -> String {
        let keys = if self.has_keys { "yes" } else { "no: the objects have none" };
        format!("| {} | {} | {keys} | `{}` |", self.name, self.statements, self.key_type)
    }
}

#[test]
fn every_client_sends_as_many_statements_as_documented_and_has_the_keys_of_its_rows() {
    for recipe in &RECIPES {
        recipe.run();
    }
}

#[test]
fn the_document_on_clients_shows_what_was_run() {
    let document = fs::read_to_string(project().join("docs/clients.md")).expect("a document");
    for recipe in &RECIPES {
        assert!(document.contains(&recipe.row()), "docs/clients.md lacks {}", recipe.row());
        let program =
            fs::read_to_string(project().join("tests/clients/python").join(recipe.program)).expect("a program");
        let Some((_, rest)) = program.split_once("# recipe\n") else { continue };
        let shown = rest.split("# end").next().expect("an end").trim_end();
        // As it is indented there.
        let indent = shown.len() - shown.trim_start_matches(' ').len();
        let lines = shown.lines().map(|line| line.get(indent..).unwrap_or("").to_owned() + "\n");
        let shown: String = lines.collect();
        assert!(document.contains(shown.trim_end()), "docs/clients.md does not show {}:\n{shown}", recipe.program);
    }
}
