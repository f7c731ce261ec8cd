//! Projects of frameworks have a table adopted while processes of them use it, as docs/clients.md shows. A process
//! prints after each round of work what has failed in it.

use super::program;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, PATIENCE, error, test, value};

/// What the document shows, beside its other blocks.
pub const PROGRAMS: [&str; 4] = [
    "ruby/online.rb",
    "ruby/migrate/2_adopt_orders.rb",
    "python/store/migrations/0002_wide_orders.py",
    "python/store/migrations/0003_adopt_orders.py",
];

/// With a database of a role, which is no superuser.
fn server() -> Cluster {
    let cluster = Cluster::builder().worker(7).set("max_worker_processes", 16).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE shop LOGIN CREATEDB").expect("a role");
    let extensions = "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt";
    connect(&cluster, "postgres", "template1").batch_execute(extensions).expect("the extensions");
    for database in ["shop", "laptop"] {
        client.batch_execute(&format!("CREATE DATABASE {database} OWNER shop")).expect("a database");
    }
    cluster
}

fn connect(cluster: &Cluster, role: &str, database: &str) -> Client {
    cluster.config().user(role).dbname(database).connect(NoTls).expect("a session")
}

fn call(client: &mut Client, step: &str, table: &str) {
    client.batch_execute(&format!("CALL snowflake_adopt.{step}('{table}')")).expect(step);
}

/// A program of a project, for the role of a database.
fn command(cluster: &Cluster, program: &str, arguments: &[&str], database: &str) -> Command {
    let mut command = program::command(program);
    command.args(arguments).envs(cluster.environment()).env("PGDATABASE", database).env("PGUSER", "shop");
    command.env("DJANGO_SETTINGS_MODULE", "store_settings");
    command
}

/// What a program prints.
fn run(mut command: Command) -> String {
    let output = command.output().expect("an interpreter, by `tools/setup clients`");
    let said = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// A process of an application, which works until it is dropped.
struct Process {
    child: Child,
    rounds: Receiver<Vec<String>>,
}

impl Process {
    /// Waits until it has worked.
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("an interpreter, by `tools/setup clients`");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (send, rounds) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let _ = send.send(serde_json::from_str(&line).expect("JSON"));
            }
        });
        let process = Self { child, rounds };
        assert_eq!(process.failures(), BTreeSet::new());
        process
    }

    /// What has failed since the last time, and in a round that begins now.
    fn failures(&self) -> BTreeSet<String> {
        let before: Vec<_> = self.rounds.try_iter().collect();
        let two = [(); 2].map(|()| self.rounds.recv_timeout(PATIENCE).expect("a round"));
        let failures = before.into_iter().chain(two).flatten();
        failures.map(|failure| failure.lines().next().unwrap_or("").to_owned()).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn assert_fails(process: &Process, with: &[&str]) {
    let failures = process.failures();
    for text in with {
        assert!(failures.iter().any(|failure| failure.contains(text)), "{text} is not in {failures:#?}");
    }
}

#[test]
fn processes_of_django_whose_models_are_wide_before_a_table_is_adopted_see_no_error() {
    let cluster = server();
    let mut client = connect(&cluster, "shop", "shop");
    let manage = |arguments: &[&str], database: &str| run(command(&cluster, "python/manage.py", arguments, database));
    let serve = || command(&cluster, "python/online_django.py", &[], "shop");
    manage(&["migrate", "store", "0001"], "shop");
    let rows = "INSERT INTO store_order (note) SELECT 'old' FROM generate_series(1, 500);
        INSERT INTO store_item (order_id) SELECT id FROM store_order";
    client.batch_execute(rows).expect("rows");

    let mut narrow = serve();
    narrow.env("DEFAULT_AUTO_FIELD", "django.db.models.AutoField");
    let narrow = Process::start(narrow);
    manage(&["migrate", "store", "0002"], "shop");
    manage(&["makemigrations", "--check"], "shop");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM store_order"), "integer");
    let mut wide = vec![Process::start(serve())];
    call(&mut client, "start", "store_order");
    wide.push(Process::start(serve()));
    call(&mut client, "run", "store_order");
    assert_eq!(narrow.failures(), BTreeSet::new());
    call(&mut client, "finish", "store_order");
    manage(&["migrate"], "shop");
    wide.push(Process::start(serve()));
    for process in wide {
        assert_eq!(process.failures(), BTreeSet::new());
    }
    // It finds no row by an ID, and takes it for a new one.
    assert_fails(
        &narrow,
        &["DoesNotExist", "update has found something else", "duplicate key value violates", "integer out of range"],
    );
    drop(narrow);

    // Elsewhere, the migration does it.
    manage(&["test", "store", "--noinput"], "laptop");
}

#[test(By("make suite NAME=clients"))]
fn processes_of_rails_that_are_ready_before_a_table_is_adopted_see_no_error() {
    let cluster = server();
    let mut client = connect(&cluster, "shop", "shop");
    let migrate = |version: &str, database: &str| -> String {
        let dumped = run(command(&cluster, "ruby/online.rb", &["migrate", version], database));
        serde_json::from_str(&dumped).expect("JSON")
    };
    let serve = |models: &str| Process::start(command(&cluster, "ruby/online.rb", &["serve", models], "shop"));
    migrate("1", "shop");
    let rows =
        "INSERT INTO tags (name) VALUES ('new'); INSERT INTO orders (note) SELECT 'old' FROM generate_series(1, 500);
        INSERT INTO items (order_id) SELECT id FROM orders";
    client.batch_execute(rows).expect("rows");

    let old = serve("old");
    let mut ready = vec![serve("ready")];
    call(&mut client, "start", "orders");
    let between = serve("old");
    ready.push(serve("ready"));
    call(&mut client, "run", "orders");
    call(&mut client, "finish", "orders");
    assert_fails(&old, &["ActiveModel::RangeError"]);
    assert_fails(&between, &["column \"snowflake_adopt_id\" of relation \"orders\" does not exist"]);
    drop((old, between));
    let dumped = migrate("2", "shop");
    ready.push(serve("old"));
    for process in ready {
        assert_eq!(process.failures(), BTreeSet::new());
    }
    assert!(dumped.contains("create_table \"orders\", id: :bigint, default: -> { \"snowflake_id()\" }"), "{dumped}");
    assert!(dumped.contains("t.bigint \"order_id\", null: false") && !dumped.contains("snowflake_adopt_"), "{dumped}");
    assert_eq!(migrate("2", "laptop"), dumped, "elsewhere, the migration does it");
}

#[test(By("make suite NAME=clients"))]
fn processes_of_prisma_whose_models_are_wide_before_a_table_is_adopted_see_no_error() {
    let cluster = server();
    let mut client = connect(&cluster, "shop", "shop");
    let tables = "CREATE TABLE users (id serial PRIMARY KEY, name text);
        CREATE TABLE orders (id bigserial PRIMARY KEY, n integer NOT NULL, \"userId\" integer NOT NULL REFERENCES users);
        INSERT INTO users (name) SELECT 'old' FROM generate_series(1, 500)";
    client.batch_execute(tables).expect("tables");
    let serve = || Process::start(command(&cluster, "prisma/online.js", &[], "shop"));
    let mut wide = vec![serve()];
    // Each as the one command of a migration, which some versions of Prisma send as one text.
    let together = error(&mut client, "CALL snowflake_adopt.start('users'); CALL snowflake_adopt.finish('users')");
    assert_eq!(together.message(), "invalid transaction termination");
    call(&mut client, "start", "users");
    wide.push(serve());
    call(&mut client, "finish", "users");
    wide.push(serve());
    for process in wide {
        assert_eq!(process.failures(), BTreeSet::new());
    }
}
