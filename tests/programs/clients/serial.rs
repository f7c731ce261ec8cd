//! Applications that know nothing of Snowflake IDs, after the first commands of docs/serial.md. Each makes its tables,
//! inserts 500 objects, and says what it would migrate then; the document has a row for each.

use super::program;
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, project, test};

/// A row of the table in the document.
struct Application {
    name: &'static str,
    /// In tests/programs/clients, with an argument.
    program: &'static str,
    argument: &'static str,
    layout: &'static str,
    /// What comes of it after the first commands.
    first: Outcome,
    /// And with `widen_serial = on`.
    wide: Outcome,
    /// What the document says that it would migrate.
    remark: &'static str,
}

/// What comes of it.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    /// Its keys are those of its rows, one statement has inserted the objects, and it would migrate what has this text.
    Right(&'static str),
    /// Its keys are those of its rows, and numbers of a sequence; it would migrate nothing.
    Numbers,
    /// Its keys are not those of its rows.
    Rounded,
    /// An error that has this text.
    Fails(&'static str),
}

use Outcome::{Fails, Numbers, Right, Rounded};

const SQLALCHEMY: [Application; 2] = [
    with_64_bits(
        "SQLAlchemy 2.1.9, `BigInteger`",
        ("python/serial_sqlalchemy.py", "bigint"),
        "",
        "nothing (Alembic 1.20.1)",
    ),
    with_32_bits(
        "SQLAlchemy 2.1.9, `Integer`",
        ("python/serial_sqlalchemy.py", "integer"),
        "flat",
        Fails("integer out of range"),
        "nothing",
    ),
];

const OTHERS: [Application; 9] = [
    with_64_bits(
        "Rails 6.1",
        ("ruby/serial_rails.rb", ""),
        "create_table \"comments\", id: :bigint, default: -> { \"snowflake_id()\" }",
        "`schema.rb` shows the default, and creates the same tables",
    ),
    with_32_bits("Sequelize 6.37.8", ("node/serial_sequelize.js", ""), "flat", Right(""), "nothing"),
    with_64_bits(
        "Drizzle 0.45.4, `bigint`",
        ("node/serial_drizzle.js", "bigint"),
        "",
        "nothing, by its migrations; do not use `push`",
    ),
    with_32_bits("Drizzle 0.45.4, `integer`", ("node/serial_drizzle.js", "number"), "flat", Rounded, "nothing"),
    with_32_bits(
        "Drizzle 0.45.4, `integer`",
        ("node/serial_drizzle.js", "number"),
        "js",
        Right(""),
        "nothing, by its migrations",
    ),
    with_64_bits(
        "TypeORM 1.1.1, `bigint`",
        ("node/serial_typeorm.js", "bigint"),
        "ALTER TABLE \"users\" ALTER COLUMN \"id\" SET DEFAULT nextval(",
        "`synchronize` reverts to sequences; `migration:run` does not",
    ),
    with_32_bits(
        "TypeORM 1.1.1, `Number`",
        ("node/serial_typeorm.js", ""),
        "flat",
        Fails("violates foreign key constraint"),
        "nothing",
    ),
    with_32_bits(
        "TypeORM 1.1.1, `Number`",
        ("node/serial_typeorm.js", ""),
        "js",
        Right("ALTER TABLE \"users\" DROP COLUMN \"id\""),
        "with `on`, `synchronize` drops the keys; `migration:run` does not",
    ),
    with_64_bits(
        "Prisma 7.10.0, `BigInt`",
        ("prisma/serial.js", ""),
        "2 steps",
        "`db push` reverts to sequences; `migrate deploy` does not",
    ),
];

/// Its row.
const DJANGO: &str = "| Django 5.2.19, `BigAutoField` | `flat` | Snowflake IDs | does not run | nothing |";

/// One that declares keys of 64 bits, and would migrate what has this text.
const fn with_64_bits(
    name: &'static str,
    (program, argument): (&'static str, &'static str),
    drift: &'static str,
    remark: &'static str,
) -> Application {
    Application { name, program, argument, layout: "flat", first: Right(drift), wide: Right(drift), remark }
}

/// One that declares keys of 32 bits.
const fn with_32_bits(
    name: &'static str,
    (program, argument): (&'static str, &'static str),
    layout: &'static str,
    wide: Outcome,
    remark: &'static str,
) -> Application {
    Application { name, program, argument, layout, first: Numbers, wide, remark }
}

/// The first blocks of commands in docs/serial.md: what turns it on, and what widens narrow keys.
fn commands() -> [String; 2] {
    let document = fs::read_to_string(project().join("docs/serial.md")).expect("a document");
    let section = document.split("## Turn it on").nth(1).expect("a section");
    let mut blocks =
        section.split("```text\n").skip(1).map(|block| block.split("```").next().expect("a block").to_owned());
    [(); 2].map(|()| blocks.next().expect("commands"))
}

/// Types commands into psql, as a superuser.
fn psql(cluster: &Cluster, commands: &str) {
    let mut psql = cluster.psql();
    psql.args(["--set=ON_ERROR_STOP=1"]).stdin(Stdio::piped());
    let mut child = psql.spawn().expect("psql");
    child.stdin.take().expect("a pipe").write_all(commands.as_bytes()).expect("psql reads");
    assert!(child.wait().expect("psql").success(), "{commands}");
}

/// A server with the database `shop` of the role `app`.
fn server_without_the_extension(worker: u32, layout: &str) -> Cluster {
    let builder = Cluster::builder().worker(worker).set("snowflake_pg.layout", layout);
    let cluster = builder.set("log_statement", "all").set("log_line_prefix", "%d ").start();
    psql(&cluster, "CREATE ROLE app LOGIN CREATEDB; CREATE DATABASE shop OWNER app;");
    cluster
}

/// With the first commands of the document.
fn server(worker: u32, layout: &str) -> Cluster {
    let cluster = server_without_the_extension(worker, layout);
    psql(&cluster, &commands()[0]);
    cluster
}

fn connect(cluster: &Cluster) -> Client {
    cluster.config().dbname("shop").connect(NoTls).expect("a session")
}

fn run(command: &mut Command, cluster: &Cluster) -> Output {
    command
        .envs(cluster.environment())
        .env("PGDATABASE", "shop")
        .env("PGUSER", "app")
        .output()
        .expect("an interpreter, by `tools/setup clients`")
}

/// Whether the keys that a program has are those of the rows with these numbers.
fn has_keys(printed: &Value, client: &mut Client, table: &str, number: &str) -> bool {
    let rows = client.query(&format!("SELECT {number}, id::bigint FROM {table}"), &[]).expect("rows");
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
        self.run_on(&server(7, self.layout), self.first);
        if self.wide != self.first {
            let cluster = server(7, self.layout);
            psql(&cluster, &commands()[1]);
            self.run_on(&cluster, self.wide);
        }
    }

    fn run_on(&self, cluster: &Cluster, outcome: Outcome) {
        let mut command = program::command(self.program);
        if !self.argument.is_empty() {
            command.arg(self.argument);
        }
        let output = run(&mut command, cluster);
        let said = String::from_utf8_lossy(&output.stderr);
        let drift = match outcome {
            Fails(error) => {
                assert!(!output.status.success() && said.contains(error), "{}: {said}", self.name);
                return;
            }
            Rounded => None,
            Numbers => Some(""),
            Right(drift) => Some(drift),
        };
        assert!(output.status.success(), "{}: {said}", self.name);
        let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut client = connect(cluster);
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
            let is_numbered = numbered_tables(&mut client).iter().any(|numbered| numbered == table);
            assert_eq!(is_numbered, outcome == Numbers, "{}", self.name);
        }
    }

    /// Its row in the table of docs/serial.md.
    fn row(&self) -> String {
        let [first, wide] = [self.first, self.wide].map(|outcome| match outcome {
            Right(_) => "Snowflake IDs",
            Numbers => "sequence numbers",
            Rounded => "keys lose digits",
            Fails(_) => "does not run",
        });
        format!("| {} | `{}` | {first} | {wide} | {} |", self.name, self.layout, self.remark)
    }
}

#[test]
fn models_of_sqlalchemy_run_as_they_are_and_keys_of_64_bits_are_snowflake_ids() {
    SQLALCHEMY.iter().for_each(Application::run);
}

#[test(By("make suite NAME=clients"))]
fn applications_of_ruby_and_javascript_run_as_they_are_with_the_keys_of_the_document() {
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

/// A project of Django in a folder of its own, where `manage.py` runs.
struct Django<'cluster>(&'cluster Cluster, PathBuf);

impl<'cluster> Django<'cluster> {
    fn of(cluster: &'cluster Cluster) -> Self {
        let folder = cluster.make_directory("django");
        copy(&project().join("tests/programs/clients/python"), &folder);
        let project = Self(cluster, folder);
        project.run(&["manage.py", "makemigrations", "polls"]);
        project
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let mut python = Command::new(program::command("python/manage.py").get_program());
        python.current_dir(&self.1).args(arguments).env("DJANGO_SETTINGS_MODULE", "polls_settings");
        run(python.env("PYTHONDONTWRITEBYTECODE", "yes"), self.0)
    }

    fn run(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// What comes with Django has keys of 32 bits, and stays so. Its tests make a database of their own.
#[test]
fn a_project_of_django_gets_snowflake_ids_as_it_is_and_the_rows_of_two_servers_fit_into_one_table() {
    let servers = [7, 8].map(|worker| server(worker, "flat"));
    for cluster in &servers {
        let django = Django::of(cluster);
        django.run(&["manage.py", "migrate"]);
        let before = cluster.log().len();
        let printed: Value = serde_json::from_slice(&django.run(&["serial_django.py"])).expect("JSON");
        let inserts = cluster.log().split_off(before).matches("INSERT INTO \"polls_choice\"").count();
        assert_eq!((inserts, printed["drift"].as_str()), (1, Some("")));
        let mut client = connect(cluster);
        assert!(has_keys(&printed, &mut client, "polls_choice", "votes"));
        let narrow = ["auth_group", "auth_permission", "auth_user", "django_content_type"];
        assert_eq!(numbered_tables(&mut client), narrow);
        django.run(&["manage.py", "test", "polls", "--noinput"]);
        let inspected = String::from_utf8(django.run(&["manage.py", "inspectdb", "polls_tag"])).expect("a model");
        assert!(inspected.contains("id = models.BigIntegerField(primary_key=True)"), "{inspected}");
    }
    let [first, second] = &servers;
    merge(second, first, &["polls_question", "polls_longquestion", "polls_choice", "polls_tag", "polls_tag_questions"]);
    let document = fs::read_to_string(project().join("docs/serial.md")).expect("a document");
    assert!(document.contains(DJANGO), "docs/serial.md lacks {DJANGO}");
}

#[test]
fn django_does_not_run_where_its_keys_of_32_bits_become_wider() {
    let cluster = server(7, "flat");
    psql(&cluster, &commands()[1]);
    let output = Django::of(&cluster).output(&["manage.py", "migrate"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("integer out of range"), "{said}");
}

/// Django shows no WARNING of the server.
#[test]
fn the_log_of_the_server_tells_that_a_test_database_of_django_lacks_the_extension() {
    let cluster = server_without_the_extension(7, "flat");
    psql(
        &cluster,
        "\\connect shop\nCREATE EXTENSION snowflake_pg; ALTER ROLE app SET snowflake_pg.serial_schemas = '*';",
    );
    let tested = Django::of(&cluster).output(&["manage.py", "test", "polls", "--noinput"]);
    assert!(!tested.status.success(), "the tests look for Snowflake IDs");
    cluster.wait_for_log("test_shop WARNING:  column \"id\" of table \"polls_question\" gets no Snowflake IDs");
}

#[test(By("make suite NAME=clients"))]
fn the_rows_that_rails_has_made_on_two_servers_fit_into_one_table() {
    let servers = [7, 8].map(|worker| server(worker, "flat"));
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
