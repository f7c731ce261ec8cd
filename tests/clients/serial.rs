//! Applications that know nothing of Snowflake IDs get them by `snowflake_pg.serial_schemas`. Each makes its tables, inserts
//! 500 objects, and says what it would migrate then; docs/serial.md has a row for each.

use super::program;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, project, test};

/// A row of the table in the document.
struct Application {
    name: &'static str,
    /// In tests/clients, with an argument.
    program: &'static str,
    argument: &'static str,
    layout: &'static str,
    outcome: Outcome,
    /// What the document says of it.
    remark: &'static str,
}

/// What comes of it.
#[derive(Clone, Copy)]
enum Outcome {
    /// Its keys are those of its rows, one statement has inserted the objects, and it would migrate what has this text.
    Right(&'static str),
    /// Its keys are not those of its rows.
    Rounded,
    /// An error that has this text.
    Fails(&'static str),
}

use Outcome::{Fails, Right, Rounded};

const SQLALCHEMY: [Application; 2] = [
    of(
        "SQLAlchemy 2.1.9, `BigInteger`",
        "python/serial_sqlalchemy.py",
        "bigint",
        Right(""),
        "nothing (Alembic 1.20.1)",
    ),
    of(
        "SQLAlchemy 2.1.9, `Integer`",
        "python/serial_sqlalchemy.py",
        "integer",
        Fails("integer out of range"),
        "does not run: it casts keys to `integer`",
    ),
];

const OTHERS: [Application; 9] = [
    of(
        "Rails 6.1",
        "ruby/serial_rails.rb",
        "",
        Right("create_table \"comments\", id: :bigint, default: -> { \"ids.snowflake_id()\" }"),
        "`schema.rb` shows the default, and makes the same tables",
    ),
    of("Sequelize 6.37.8", "node/serial_sequelize.js", "", Right(""), "nothing"),
    of(
        "Drizzle 0.45.4, `bigint`",
        "node/serial_drizzle.js",
        "bigint",
        Right(""),
        "nothing, by its migrations; do not use `push`",
    ),
    of("Drizzle 0.45.4, `integer`", "node/serial_drizzle.js", "number", Rounded, "keys lose digits"),
    of_js("Drizzle 0.45.4, `integer`", "node/serial_drizzle.js", "number", Right(""), "nothing, by its migrations"),
    of(
        "TypeORM 1.1.1, `bigint`",
        "node/serial_typeorm.js",
        "bigint",
        Right("ALTER TABLE \"users\" ALTER COLUMN \"id\" SET DEFAULT nextval("),
        "`synchronize` goes back to sequences; `migration:run` does not",
    ),
    of(
        "TypeORM 1.1.1, `Number`",
        "node/serial_typeorm.js",
        "",
        Fails("violates foreign key constraint"),
        "does not run: keys lose digits",
    ),
    of_js(
        "TypeORM 1.1.1, `Number`",
        "node/serial_typeorm.js",
        "",
        Right("ALTER TABLE \"users\" DROP COLUMN \"id\""),
        "`synchronize` drops the keys; `migration:run` does not",
    ),
    of(
        "Prisma 7.10.0, `BigInt`",
        "prisma/serial.js",
        "",
        Right("2 steps"),
        "`db push` goes back to sequences; `migrate deploy` does not",
    ),
];

/// Its row.
const DJANGO: &str = "| Django 5.2.19, `BigAutoField`, `widen_serial = off` | `flat` | Snowflake IDs | nothing |";

const fn of(
    name: &'static str,
    program: &'static str,
    argument: &'static str,
    outcome: Outcome,
    remark: &'static str,
) -> Application {
    Application { name, program, argument, layout: "flat", outcome, remark }
}

const fn of_js(
    name: &'static str,
    program: &'static str,
    argument: &'static str,
    outcome: Outcome,
    remark: &'static str,
) -> Application {
    Application { layout: "js", ..of(name, program, argument, outcome, remark) }
}

/// A server on which the databases of applications have the extension in a schema of its own.
fn server(worker: u32, layout: &str, widens: &str) -> Cluster {
    let builder = Cluster::builder().worker(worker).set("snowflake_pg.layout", layout);
    let builder = builder.set("snowflake_pg.serial_schemas", "*").set("snowflake_pg.widen_serial", widens);
    let cluster = builder.set("log_statement", "all").set("log_line_prefix", "%d ").start();
    let mut template = cluster.config().dbname("template1").connect(NoTls).expect("a session");
    template
        .batch_execute(
            "CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; GRANT USAGE ON SCHEMA ids TO PUBLIC",
        )
        .expect("the extension");
    drop(template);
    cluster.connect().batch_execute("CREATE DATABASE app").expect("a database");
    cluster
}

fn connect(cluster: &Cluster) -> Client {
    cluster.config().dbname("app").connect(NoTls).expect("a session")
}

fn run(command: &mut Command, cluster: &Cluster) -> Output {
    command
        .envs(cluster.environment())
        .env("PGDATABASE", "app")
        .output()
        .expect("an interpreter, by `tools/setup clients`")
}

/// Whether the keys that a program has are those of the rows with these numbers.
fn has_keys(printed: &Value, client: &mut Client, table: &str, number: &str) -> bool {
    let rows = client.query(&format!("SELECT {number}, id FROM {table}"), &[]).expect("rows");
    let rows: HashMap<String, String> =
        rows.iter().map(|row| (row.get::<_, i32>(0).to_string(), row.get::<_, i64>(1).to_string())).collect();
    assert_eq!(rows.len(), 500);
    let keys = printed["keys"].as_object().expect("keys");
    assert_eq!(keys.len(), 500);
    keys.iter().all(|(n, key)| rows[n] == *key.as_str().expect("a key"))
}

/// Tables whose keys are not Snowflake IDs, by their defaults.
fn numbered_tables(client: &mut Client) -> Vec<String> {
    let query = "SELECT DISTINCT attrelid::regclass::text FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
            AND (attidentity <> '' OR pg_get_expr(adbin, adrelid) LIKE 'nextval(%') ORDER BY 1";
    client.query(query, &[]).expect("columns").iter().map(|row| row.get(0)).collect()
}

impl Application {
    fn run(&self) {
        let cluster = server(7, self.layout, "on");
        let mut command = program::command(self.program);
        if !self.argument.is_empty() {
            command.arg(self.argument);
        }
        let output = run(&mut command, &cluster);
        let said = String::from_utf8_lossy(&output.stderr);
        let drift = match self.outcome {
            Fails(error) => {
                assert!(!output.status.success() && said.contains(error), "{}: {said}", self.name);
                return;
            }
            Rounded => None,
            Right(drift) => Some(drift),
        };
        assert!(output.status.success(), "{}: {said}", self.name);
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut client = connect(&cluster);
        let table = if self.name.starts_with("Rails") { "comments" } else { "orders" };
        assert_eq!(has_keys(&printed, &mut client, table, "n"), drift.is_some(), "{}", self.name);
        let is_insert = |line: &&str| {
            let line = line.to_lowercase().replace('"', "").replace("into public.", "into ");
            [" ", "("].iter().any(|after| line.contains(&format!(": insert into {table}{after}")))
        };
        let log = cluster.log();
        assert_eq!(log.lines().filter(is_insert).count(), 1, "{}:\n{log}", self.name);
        let Some(expected) = drift else { return };
        let drift = printed["drift"].as_str().expect("a text");
        assert_eq!(drift.is_empty(), expected.is_empty(), "{}: {drift}", self.name);
        assert!(drift.contains(expected), "{}: {drift}", self.name);
        // Prisma has just gone back to them.
        if !self.name.starts_with("Prisma") {
            assert_eq!(numbered_tables(&mut client), [""; 0], "{}", self.name);
        }
    }

    /// Its row in the table of docs/serial.md.
    fn row(&self) -> String {
        let keys = match self.outcome {
            Right(_) => "Snowflake IDs",
            Rounded | Fails(_) => "none that it can use",
        };
        format!("| {} | `{}` | {keys} | {} |", self.name, self.layout, self.remark)
    }
}

#[test]
fn models_of_sqlalchemy_get_snowflake_ids_as_they_are_if_their_keys_have_64_bits() {
    SQLALCHEMY.iter().for_each(Application::run);
}

#[test(By("make suite NAME=clients"))]
fn applications_of_ruby_and_javascript_get_snowflake_ids_as_they_are_or_fail_as_documented() {
    OTHERS.iter().for_each(Application::run);
}

/// Adds the rows of another server's tables to those of the same names.
fn merge(from: &Cluster, into: &Cluster, tables: &[&str]) {
    let (mut from, mut into) = (connect(from), connect(into));
    for table in tables {
        let count = |client: &mut Client| -> i64 {
            client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).expect("a count").get(0)
        };
        let both = count(&mut from) + count(&mut into);
        let mut rows = from.copy_out(&format!("COPY {table} TO STDOUT")).expect("rows");
        let mut copied = into.copy_in(&format!("COPY {table} FROM STDIN")).expect("a copy");
        io::copy(&mut rows, &mut copied).expect("rows");
        copied.finish().expect("no row whose key is there");
        assert_eq!(count(&mut into), both, "{table}");
    }
}

/// What comes with Django has keys of 32 bits, and stays so.
#[test]
fn a_project_of_django_gets_snowflake_ids_as_it_is_and_the_rows_of_two_servers_fit_into_one_table() {
    let servers = [7, 8].map(|worker| server(worker, "flat", "off"));
    for cluster in &servers {
        let folder = cluster.make_directory("django");
        copy(&project().join("tests/clients/python"), &folder);
        let run = |arguments: &[&str]| {
            let mut python = Command::new(program::command("python/manage.py").get_program());
            python.current_dir(&folder).args(arguments).env("DJANGO_SETTINGS_MODULE", "polls_settings");
            let output = run(python.env("PYTHONDONTWRITEBYTECODE", "yes"), cluster);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{arguments:?}: {said}");
            output.stdout
        };
        run(&["manage.py", "makemigrations", "polls"]);
        run(&["manage.py", "migrate"]);
        let before = cluster.log().len();
        let printed: Value = serde_json::from_slice(&run(&["serial_django.py"])).expect("JSON");
        let inserts = cluster.log().split_off(before).matches("INSERT INTO \"polls_choice\"").count();
        assert_eq!((inserts, printed["drift"].as_str()), (1, Some("")));
        let mut client = connect(cluster);
        assert!(has_keys(&printed, &mut client, "polls_choice", "votes"));
        let narrow = ["auth_group", "auth_permission", "auth_user", "django_content_type"];
        assert_eq!(numbered_tables(&mut client), narrow);
        run(&["manage.py", "test", "polls", "--noinput"]);
    }
    let [first, second] = &servers;
    merge(second, first, &["polls_question", "polls_longquestion", "polls_choice", "polls_tag", "polls_tag_questions"]);
    let document = fs::read_to_string(project().join("docs/serial.md")).expect("a document");
    assert!(document.contains(DJANGO), "docs/serial.md lacks {DJANGO}");
}

#[test(By("make suite NAME=clients"))]
fn the_rows_that_rails_has_made_on_two_servers_fit_into_one_table() {
    let servers = [7, 8].map(|worker| server(worker, "flat", "on"));
    for cluster in &servers {
        let output = run(&mut program::command("ruby/serial_rails.rb"), cluster);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let [first, second] = &servers;
    merge(second, first, &["articles", "comments"]);
}

fn copy(from: &Path, into: &Path) {
    fs::create_dir_all(into).expect("a directory");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copied = into.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).expect("a copy");
        }
    }
}

#[test]
fn the_document_on_serial_columns_has_a_row_for_each_application() {
    let document = fs::read_to_string(project().join("docs/serial.md")).expect("a document");
    for application in SQLALCHEMY.iter().chain(&OTHERS) {
        assert!(document.contains(&application.row()), "docs/serial.md lacks {}", application.row());
    }
}
