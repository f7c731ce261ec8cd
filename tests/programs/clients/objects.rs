//! Each client inserts 500 objects as docs/clients.md shows. The server counts the statements, and the keys that the
//! program has must be those of the rows.

use super::program;
use std::collections::HashMap;
use std::fs;
use testbed::{Cluster, project, test};

/// What a program does.
struct Recipe {
    /// As docs/clients.md calls it.
    name: &'static str,
    /// In tests/programs/clients.
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
    python("SQLAlchemy 2.1.9, `monotonic=True`", "python/sqlalchemy_monotonic.py", 1),
    python("SQLAlchemy 2.1.9, without `monotonic=True`", "python/sqlalchemy_plain.py", 500),
    python("SQLAlchemy 2.1.9, IDs first", "python/sqlalchemy_first.py", 2),
    Recipe {
        program: "python_sqlalchemy_2_0/sqlalchemy_first.py",
        ..python("SQLAlchemy 2.0.58, IDs first", "python/sqlalchemy_first.py", 2)
    },
    python("Alembic 1.20.1", "python/alembic_migration.py", 1),
    python("Django 5.2.19, `SnowflakeAutoField`", "python/django_auto_field.py", 1),
    Recipe {
        keys: Keys::Unset,
        key_type: "DatabaseDefault",
        ..python("Django 5.2.19, `db_default`", "python/django_db_default.py", 1)
    },
    python("asyncpg 0.32.0", "python/asyncpg_unnest.py", 1),
    python("psycopg 3.3.9", "python/psycopg_unnest.py", 1),
];

const NODE: [Recipe; 7] = [
    client("node-postgres 8.23.1", "node/pg.js", "string"),
    client("postgres.js 3.4.9", "node/postgres.js", "bigint"),
    client("Drizzle 0.45.4, the type `snowflake`", "node/drizzle.js", "bigint"),
    Recipe { keys: Keys::Rounded, ..client("Drizzle 0.45.4, `mode: \"number\"`", "node/drizzle_number.js", "number") },
    client("TypeORM 1.1.1", "node/typeorm.js", "string"),
    client("Sequelize 6.37.8", "node/sequelize.js", "string"),
    client("Prisma 7.10.0", "prisma/create_many.js", "bigint"),
];

/// With the libraries of Debian's packages, except for Rust.
const OTHERS: [Recipe; 6] = [
    client("PHP 8.2, PDO", "php/pdo.php", "integer"),
    client("Rails 6.1, `insert_all`", "ruby/rails.rb", "Integer"),
    client("Go 1.19, pgx 4.15", "go/main.go", "int64"),
    client("Java 17, JDBC 42.5", "java/Jdbc.java", "long"),
    client("tokio-postgres 0.7.18", "rust/tokio_postgres.rs", "i64"),
    client("sqlx 0.8.6", "rust/sqlx.rs", "i64"),
];

const fn python(name: &'static str, program: &'static str, statements: usize) -> Recipe {
    Recipe { statements, ..client(name, program, "int") }
}

const fn client(name: &'static str, program: &'static str, key_type: &'static str) -> Recipe {
    Recipe { name, program, statements: 1, keys: Keys::Right, key_type }
}

impl Recipe {
    /// Runs it on a server of its own.
    fn run(&self) {
        let server = Cluster::builder().worker(7).set("log_statement", "all").set("log_line_prefix", "%d ");
        let cluster = server.set("listen_addresses", program::address(self.program)).start();
        let mut client = cluster.connect();
        client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("the extension");
        let before = cluster.log().len();
        let printed = program::run(self.program, &cluster);
        let log = cluster.log().split_off(before);
        assert_eq!(printed["type"], self.key_type, "{}", self.name);

        let rows = client.query("SELECT n, id::bigint FROM orders", &[]).expect("rows");
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
        let more = usize::from(["python/django_auto_field.py", "ruby/rails.rb"].contains(&self.program));
        assert_eq!(statements.filter(of_orders).count(), self.statements + more, "{}:\n{log}", self.name);
    }

    /// A table has clients by the type of their keys, and another one those that need more statements or other keys.
    fn is_in(&self, document: &str) -> bool {
        if self.statements != 1 || self.keys != Keys::Right {
            return document.contains(&format!("| {} | {} | {} |", self.name, self.statements, self.keys.text()));
        }
        let mut rows = document.lines().filter_map(|line| line.strip_prefix(&format!("| `{}` | ", self.key_type)));
        rows.any(|names| names.trim_end_matches(" |").split("; ").any(|name| name == self.name))
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
fn the_document_on_clients_has_each() {
    let document = fs::read_to_string(project().join("docs/clients.md")).expect("a document");
    for recipe in PYTHON.iter().chain(&NODE).chain(&OTHERS) {
        assert!(recipe.is_in(&document), "docs/clients.md lacks {} with `{}`", recipe.name, recipe.key_type);
    }
}

pub fn programs() -> impl Iterator<Item = &'static str> {
    PYTHON.iter().chain(&NODE).chain(&OTHERS).map(|recipe| recipe.program)
}
