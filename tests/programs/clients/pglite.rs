//! PGlite, which is PostgreSQL in WebAssembly, with the functions in plain SQL, as docs/hosted.md shows.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use testbed::postgres::SimpleQueryMessage;
use testbed::{Cluster, hosted_script, needed, project, test, value};

/// One database, in a process of Node.js.
struct Pglite {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Pglite {
    /// Opens a directory, or makes one in memory. A new one can be loaded from a dump.
    fn open(directory: Option<&Path>, dump: Option<&Path>) -> Self {
        let clients = project().join("tests/programs/clients");
        // Without npm, `tools/setup clients` leaves it out.
        needed(clients.join("node_modules/@electric-sql/pglite/package.json"));
        let mut node = Command::new("node");
        // Optimizing a whole PostgreSQL takes longer than all that is run of it.
        node.arg("--liftoff-only").arg(clients.join("node/pglite.js")).arg(directory.unwrap_or(Path::new("")));
        let mut process = node
            .args(dump)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node, by `tools/setup clients`");
        let requests = process.stdin.take().expect("a pipe");
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        Self { process, requests, answers }
    }

    /// The same with the functions and this worker, as the document's first block installs them.
    fn with_worker(directory: Option<&Path>, worker: u32) -> Self {
        let mut pglite = Self::open(directory, None);
        let document = document();
        let (_, install) = document.split_once("```text\nCREATE SCHEMA ids;").expect("a block");
        let (install, _) = install.split_once("```").expect("its end");
        let install = format!("CREATE SCHEMA ids;{install}").replace("\\i snowflake_hosted.sql", &hosted_script());
        pglite.sql(&install.replace("set_worker_id(7)", &format!("set_worker_id({worker})")));
        pglite.sql("SET search_path = public");
        pglite
    }

    fn send(&mut self, request: &Value) {
        writeln!(self.requests, "{request}").expect("PGlite reads");
    }

    /// The next answer; none after the end of the process.
    fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("text");
        serde_json::from_str(&line).ok()
    }

    /// The same, which is no error.
    fn answer(&mut self) -> Option<Value> {
        let mut answer = self.read()?;
        assert!(answer["error"].is_null(), "{answer}");
        Some(answer["done"].take())
    }

    fn ask(&mut self, request: &Value) -> Value {
        self.send(request);
        self.answer().unwrap_or_else(|| panic!("PGlite has ended at {request}"))
    }

    /// The rows of the last statement, as texts.
    fn sql(&mut self, sql: &str) -> Vec<Vec<String>> {
        serde_json::from_value(self.ask(&json!({ "sql": sql }))).expect("rows without NULL")
    }

    fn ids(&mut self, sql: &str) -> Vec<i64> {
        self.sql(sql).iter().map(|row| row[0].parse().expect("an ID")).collect()
    }

    fn state(&mut self) -> Vec<String> {
        self.sql("SELECT state, worker_id FROM ids.snowflake_status").concat()
    }

    /// Issues these many IDs that depend on nothing but the clock, which then stands. The first two seconds after the
    /// time are those that may be lost.
    fn issue_at(&mut self, ms: u64, count: u32) -> BTreeSet<i64> {
        self.ask(&json!({ "clock": ms }));
        self.sql("SELECT ids.snowflake_horizon()");
        self.ask(&json!({ "clock": ms + 1500 }));
        self.ids(&format!("SELECT ids.snowflake_nextvals({count})")).into_iter().collect()
    }
}

impl Drop for Pglite {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn document() -> String {
    fs::read_to_string(project().join("docs/hosted.md")).expect("a document")
}

/// The blocks of SQL of a part of the document, each with what follows it.
fn blocks(part: &str) -> Vec<(&str, &str)> {
    part.split("```sql\n").skip(1).map(|rest| rest.split_once("```").expect("an end")).collect()
}

/// The part of the document on apps that are offline.
fn offline(document: &str) -> &str {
    let (_, part) = document.split_once("\n## In a browser, offline\n").expect("a heading");
    part.split_once("\n## ").expect("another heading").0
}

/// Runs the blocks of the document, and compares what they return with the block after each.
fn assert_runs_the_document(directory: Option<&Path>) {
    let mut pglite = Pglite::with_worker(directory, 7);
    let document = document();
    let mut compared = 0;
    for (sql, rest) in blocks(&document) {
        let rows = pglite.sql(sql);
        if let Some(shown) = rest.strip_prefix("\n\n```text\n") {
            let (shown, _) = shown.split_once("```").expect("an end");
            let shown: Vec<Vec<&str>> = shown
                .lines()
                .skip(2)
                .filter(|line| !line.starts_with('('))
                .map(|line| line.split(" | ").map(str::trim).collect())
                .collect();
            let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(|cell| cell.trim()).collect()).collect();
            assert_eq!(rows, shown, "{sql}");
            compared += 1;
        }
    }
    assert_eq!(compared, 2);
    assert_eq!(pglite.state(), ["ready", "7"]);
}

#[test]
fn pglite_runs_the_document_on_hosted_databases_on_disk_and_in_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    assert_runs_the_document(Some(&directory.path().join("data")));
    assert_runs_the_document(None);
}

#[test]
fn pglite_repeats_no_id_after_kill_9_and_a_reload_of_its_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let mut pglite = Pglite::with_worker(Some(&data), 7);
    pglite.sql("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), item text)");
    let mut issued = Vec::new();
    for _ in 0..3 {
        for _ in 0..500 {
            pglite.send(&json!({ "sql": "INSERT INTO orders (item) VALUES ('tea') RETURNING id" }));
        }
        for _ in 0..200 {
            issued.push(pglite.answer().expect("an answer"));
        }
        pglite.process.kill().expect("kill -9");
        issued.extend(std::iter::from_fn(|| pglite.answer()));
        pglite = Pglite::open(Some(&data), None);
    }
    assert!(issued.len() < 1500, "each process had answered all before it was killed");
    let issued: Vec<i64> =
        issued.iter().map(|rows| rows[0][0].as_str().expect("text").parse().expect("an ID")).collect();
    assert!(issued.is_sorted_by(|id, next| id < next), "{issued:?}");
    let kept: BTreeSet<i64> = pglite.ids("SELECT id FROM orders").into_iter().collect();
    assert!(issued.iter().all(|id| kept.contains(id)), "a row that was answered is lost");
    let next = pglite.ids("INSERT INTO orders (item) VALUES ('cake') RETURNING id");
    assert!(next.first() > kept.last(), "{next:?} after {:?}", kept.last());
}

#[test]
fn a_reader_by_id_in_pglite_misses_no_row() {
    let mut pglite = Pglite::with_worker(None, 7);
    pglite.sql("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), item text)");
    let mut made = Vec::new();
    let mut read = Vec::new();
    for _ in 0..10 {
        made.extend(pglite.ids("INSERT INTO orders (item) SELECT 'tea' FROM generate_series(1, 100) RETURNING id"));
        loop {
            let last = read.last().copied().unwrap_or(0);
            let page = pglite.ids(&format!("SELECT id FROM ids.snowflake_poll(NULL::orders, {last}, 30)"));
            read.extend(&page);
            if page.len() < 30 {
                break;
            }
        }
    }
    assert_eq!(read, made);
    let horizon = pglite.ids("SELECT ids.snowflake_horizon()")[0];
    let next = pglite.ids("INSERT INTO orders (item) VALUES ('cake') RETURNING id")[0];
    assert!(made.last() < Some(&horizon) && horizon <= next, "{horizon} is not between {made:?} and {next}");
}

#[test]
fn a_loaded_dump_issues_no_id_in_pglite_before_its_worker_is_set() {
    let directory = tempfile::tempdir().expect("a directory");
    let dump = directory.path().join("dump.tar");
    let mut original = Pglite::with_worker(None, 7);
    original.ids("SELECT ids.snowflake_nextvals(1000)");
    let ms: u64 = original.sql("SELECT ids.snowflake_unix_ms() + 60000").concat()[0].parse().expect("a time");
    original.ask(&json!({ "dump": dump }));
    assert_eq!(original.state(), ["ready", "7"]);

    let data = directory.path().join("data");
    let mut issued = Vec::new();
    // 7 again, as if nothing had been noticed: the same IDs.
    for (data, worker) in [(None, 7), (None, 7), (Some(&*data), 8)] {
        let mut copy = Pglite::open(data, Some(&dump));
        assert_eq!(copy.state(), ["not started", "7"]);
        copy.send(&json!({ "sql": "SELECT ids.snowflake_nextval()" }));
        let error = copy.read().expect("an answer")["error"].take().to_string();
        assert!(error.contains("this database is a copy of another one with the same worker ID"), "{error}");
        copy.sql(&format!("SELECT ids.snowflake_set_worker_id({worker})"));
        assert_eq!(copy.state(), ["ready", &*worker.to_string()]);
        if data.is_some() {
            // A reload is no copy.
            drop(copy);
            copy = Pglite::open(data, None);
            assert_eq!(copy.state(), ["ready", &*worker.to_string()]);
        }
        issued.push(copy.issue_at(ms, 1000));
    }
    assert_eq!(issued[0], issued[1]);
    assert_eq!(issued[2].len(), 1000);
    assert!(issued[2].is_disjoint(&issued[0]));
}

/// Two devices with one dump of the app send their rows to a server with this layout, the second one twice.
fn assert_sends_rows(layout: &str) {
    let server = Cluster::builder().worker(3).set("snowflake_pg.layout", layout).start();
    let mut client = server.connect();
    let extension = "CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids";
    client.batch_execute(extension).expect("the extension in the script's schema");
    let document = document();
    let [(tables, rest)] = blocks(offline(&document))[..] else { panic!("one block of SQL: the server's") };
    client.batch_execute(tables).expect("the server's tables");
    let [set, send] = ["```js\nawait db.exec(`", "```text\n"].map(|begin| {
        let (_, block) = rest.split_once(begin).expect("a block");
        block.split_once('`').expect("its end").0
    });

    let directory = tempfile::tempdir().expect("a directory");
    let dump = directory.path().join("dump.tar");
    let mut app = Pglite::with_worker(None, 0);
    app.sql("CREATE TABLE notes (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), text text)");
    app.ask(&json!({ "dump": dump }));
    let mut made = BTreeSet::new();
    let mut workers = Vec::new();
    for device in 0..2 {
        let worker = value(&mut client, "INSERT INTO devices DEFAULT VALUES RETURNING worker");
        let mut pglite = Pglite::open(None, Some(&dump));
        pglite.sql(&set.replace("${worker}", &worker));
        made.extend(pglite.ids("INSERT INTO notes (text) SELECT n FROM generate_series(1, 500) n RETURNING id"));
        for n in 0..500 {
            made.extend(pglite.ids(&format!("INSERT INTO notes (text) VALUES ('{n}') RETURNING id")));
        }
        // As a text, so no number is rounded on the way.
        let rows =
            pglite.sql("SELECT jsonb_agg(jsonb_build_object('id', id::text, 'text', text))::text FROM notes").concat();
        assert!(rows[0].contains(r#""id": ""#), "{rows:?}");
        let own = "INSERT INTO notes (text) SELECT 'of the server' FROM generate_series(1, 500)";
        client.batch_execute(own).expect("rows of the server's own");
        for sent in 0..=device {
            let inserted = client.execute(send, &[&rows[0]]);
            assert_eq!(inserted.expect("rows"), if sent == 0 { 1000 } else { 0 }, "the answer may have been lost");
        }
        workers.push(worker);
    }

    assert_eq!(made.len(), 2000);
    let kept = client.query("SELECT id FROM notes WHERE text <> 'of the server'", &[]).expect("rows");
    assert_eq!(kept.iter().map(|row| row.get(0)).collect::<BTreeSet<i64>>(), made);
    let decoded = "SELECT worker_id, count(*) FROM notes, ids.snowflake_decode(id, 't41 w22')
                   WHERE text <> 'of the server' GROUP BY 1 ORDER BY 1";
    let decoded = client.simple_query(decoded).expect("workers");
    let decoded: Vec<_> = decoded
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some((row.get(0)?.to_owned(), row.get(1)?.to_owned())),
            _ => None,
        })
        .collect();
    let expected: Vec<_> = workers.into_iter().map(|worker| (worker, "1000".to_owned())).collect();
    assert_eq!(decoded, expected);
    // A key is as old as its row on the device: readers go by what the server adds.
    let read = "SELECT count(*) FROM ids.snowflake_poll(NULL::notes, 0, 5000, column_name => 'received')";
    assert_eq!(value(&mut client, read), "3000");
}

#[test]
fn rows_made_in_two_pglites_reach_a_server_with_their_keys() {
    for layout in ["flat", "t41 w22"] {
        assert_sends_rows(layout);
    }
}
