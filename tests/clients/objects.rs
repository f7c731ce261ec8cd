//! Each client inserts 500 objects as docs/clients.md shows. The server counts the statements, and the keys that the
//! program has must be those of the rows.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use testbed::{Cluster, project, test};

/// Of the server for Java, since JDBC has no Unix sockets.
const ADDRESS: &str = "127.0.18.1";

/// What a program does.
struct Recipe {
    /// As docs/clients.md calls it.
    name: &'static str,
    /// In tests/clients. That of Python's packages, which are in target/clients.
    folder: &'static str,
    program: &'static str,
    statements: usize,
    keys: Keys,
    key_type: &'static str,
}

/// The keys that the objects have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Those of their rows.
    Right,
    /// None.
    Unset,
    /// Of rows that are not there: a floating-point number has no room for the digits.
    Rounded,
}

impl Keys {
    fn text(self) -> &'static str {
        match self {
            Self::Right => "yes",
            Self::Unset => "no: the objects have none",
            Self::Rounded => "no: the last digits are lost",
        }
    }
}

const PYTHON: [Recipe; 9] = [
    python("SQLAlchemy 2.1.9, `monotonic=True`", "sqlalchemy_monotonic.py", 1),
    python("SQLAlchemy 2.1.9, without it", "sqlalchemy_plain.py", 500),
    python("SQLAlchemy 2.1.9, IDs first", "sqlalchemy_first.py", 2),
    Recipe { folder: "python_sqlalchemy_2_0", ..python("SQLAlchemy 2.0.58, IDs first", "sqlalchemy_first.py", 2) },
    python("Alembic 1.20.1", "alembic_migration.py", 1),
    python("Django 5.2.19, `SnowflakeAutoField`", "django_auto_field.py", 1),
    Recipe {
        keys: Keys::Unset,
        key_type: "DatabaseDefault",
        ..python("Django 5.2.19, `db_default`", "django_db_default.py", 1)
    },
    python("asyncpg 0.32.0", "asyncpg_unnest.py", 1),
    python("psycopg 3.3.9", "psycopg_unnest.py", 1),
];

const NODE: [Recipe; 7] = [
    node("node-postgres 8.23.1", "pg.js", "string"),
    node("postgres.js 3.4.9", "postgres.js", "bigint"),
    node("Drizzle 0.45.4, `mode: \"bigint\"`", "drizzle.js", "bigint"),
    Recipe { keys: Keys::Rounded, ..node("Drizzle 0.45.4, `mode: \"number\"`", "drizzle_number.js", "number") },
    node("TypeORM 1.1.1", "typeorm.js", "string"),
    node("Sequelize 6.37.8", "sequelize.js", "string"),
    Recipe { folder: "prisma", ..node("Prisma 7.10.0", "create_many.js", "bigint") },
];

/// With the libraries of Debian's packages, except for Rust.
const OTHERS: [Recipe; 6] = [
    Recipe { folder: "php", ..node("PHP 8.2, PDO", "pdo.php", "integer") },
    Recipe { folder: "ruby", ..node("Rails 6.1, `insert_all`", "rails.rb", "Integer") },
    Recipe { folder: "go", ..node("Go 1.19, pgx 4.15", "main.go", "int64") },
    Recipe { folder: "java", ..node("Java 17, JDBC 42.5", "Jdbc.java", "long") },
    Recipe { folder: "rust", ..node("tokio-postgres 0.7.18", "tokio_postgres.rs", "i64") },
    Recipe { folder: "rust", ..node("sqlx 0.8.6", "sqlx.rs", "i64") },
];

const fn python(name: &'static str, program: &'static str, statements: usize) -> Recipe {
    Recipe { name, folder: "python", program, statements, keys: Keys::Right, key_type: "int" }
}

const fn node(name: &'static str, program: &'static str, key_type: &'static str) -> Recipe {
    Recipe { name, folder: "node", program, statements: 1, keys: Keys::Right, key_type }
}

impl Recipe {
    /// Runs it on a server of its own.
    fn run(&self) {
        let server = Cluster::builder().worker(7).set("log_statement", "all").set("log_line_prefix", "%d ");
        let cluster = server.set("listen_addresses", if self.folder == "java" { ADDRESS } else { "" }).start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
        let before = cluster.log().len();
        let output = self.command().envs(cluster.environment()).output();
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
        match self.keys {
            Keys::Right => assert_eq!(right, 500, "{}", self.name),
            Keys::Unset => assert_eq!(right, 0, "{}", self.name),
            // Every 256th number is a float.
            Keys::Rounded => assert!(right < 50, "{}: {right}", self.name),
        }

        let statements = log.lines().filter_map(|line| {
            let (_, statement) = line.split_once("LOG:  ")?;
            statement.split_once(": ").filter(|(kind, _)| *kind == "statement" || kind.starts_with("execute "))
        });
        let of_orders = |(_, text): &(&str, &str)| {
            text.contains("snowflake_nextvals(")
                || text.to_lowercase().starts_with("insert into") && text.contains("orders")
        };
        // A single object is inserted, too.
        let more = usize::from(["django_auto_field.py", "rails.rb"].contains(&self.program));
        assert_eq!(statements.filter(of_orders).count(), self.statements + more, "{}:\n{log}", self.name);
    }

    /// What runs the program.
    fn command(&self) -> Command {
        let mut command = match self.folder {
            "node" | "prisma" => Command::new("node"),
            "php" => Command::new("/usr/bin/php"),
            "ruby" => Command::new("/usr/bin/ruby"),
            "go" => Command::new("/usr/bin/go"),
            "java" => Command::new("/usr/bin/java"),
            "rust" => Command::new("cargo"),
            python => Command::new(project().join("target/clients").join(python).join("venv/bin/python3")),
        };
        match self.folder {
            // Debian's libraries are there, without modules.
            "go" => command.arg("run").arg(self.path()).env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode"),
            "java" => command.args(["--class-path", "/usr/share/java/postgresql.jar"]).arg(self.path()).arg(ADDRESS),
            "rust" => {
                let name = self.program.trim_end_matches(".rs");
                command.args(["run", "--quiet", "--locked", "--bin", name, "--manifest-path"]);
                command.arg(self.path().with_file_name("Cargo.toml"));
                command.arg("--target-dir").arg(project().join("target/clients/rust"))
            }
            _ => command.arg(self.path()),
        };
        command
    }

    /// Its row in the table of docs/clients.md.
    fn row(&self) -> String {
        format!("| {} | {} | {} | `{}` |", self.name, self.statements, self.keys.text(), self.key_type)
    }

    /// The programs in Python are the same for each version of a package.
    fn path(&self) -> PathBuf {
        let folder = if self.folder.starts_with("python") { "python" } else { self.folder };
        project().join("tests/clients").join(folder).join(self.program)
    }
}

#[test]
fn every_client_of_python_sends_as_many_statements_as_documented_and_has_those_keys() {
    PYTHON.iter().for_each(Recipe::run);
}

#[test(By("make suite NAME=clients"))]
fn every_client_of_node_sends_as_many_statements_as_documented_and_has_those_keys() {
    NODE.iter().for_each(Recipe::run);
}

#[test(By("make suite NAME=clients"))]
fn clients_of_php_ruby_go_java_and_rust_send_as_many_statements_as_documented_and_have_those_keys() {
    OTHERS.iter().for_each(Recipe::run);
}

#[test]
fn the_document_on_clients_shows_what_was_run() {
    let document = fs::read_to_string(project().join("docs/clients.md")).expect("a document");
    for recipe in PYTHON.iter().chain(&NODE).chain(&OTHERS) {
        assert!(document.contains(&recipe.row()), "docs/clients.md lacks {}", recipe.row());
        let schema = recipe.path().with_file_name("schema.prisma");
        for file in [recipe.path(), schema].iter().filter(|file| file.exists()) {
            let program = fs::read_to_string(file).expect("a program").replace("// ", "# ");
            let Some((_, rest)) = program.split_once("# recipe\n") else { continue };
            let shown = rest.split("# end").next().expect("an end").trim_end();
            // As it is indented there.
            let indent = shown.len() - shown.trim_start_matches([' ', '\t']).len();
            let lines = shown.lines().map(|line| line.get(indent..).unwrap_or("").to_owned() + "\n");
            let shown: String = lines.collect();
            assert!(document.contains(shown.trim_end()), "docs/clients.md does not show {}:\n{shown}", file.display());
        }
    }
}
