//! Real clients read IDs through JSON: a snowflake comes whole, a bigint does where its numbers are not floats. The
//! modules have what docs/clients.md and other documents show.

mod created_at;
mod django;
mod hosted;
mod json;
mod nested;
mod objects;
mod online;
mod pglite;
mod program;
mod serial;
mod shards;
mod within;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{Cluster, project, test};

/// A server whose table `ids` has 10 new IDs, each as a bigint and as a snowflake.
fn server() -> Cluster {
    let cluster = Cluster::builder().worker(7).start();
    cluster
        .connect()
        .batch_execute(
            "CREATE EXTENSION snowflake_pg;
             CREATE TABLE ids (plain bigint, exact snowflake);
             INSERT INTO ids SELECT id, id FROM snowflake_nextvals(10) id",
        )
        .expect("IDs");
    cluster
}

/// What a program in tests/programs/clients prints of the server's IDs, without its headings.
fn run(cluster: &Cluster, interpreter: impl AsRef<OsStr>, program: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/clients").join(program);
    let mut client = Command::new(interpreter);
    let output =
        client.arg(path).envs(cluster.environment()).output().expect("an interpreter, by `tools/setup clients`");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}, which needs `tools/setup clients`: {complaint}");
    let text = String::from_utf8(output.stdout).expect("text");
    print!("{text}");
    let rows: Vec<_> = text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), 10, "{text}");
    rows
}

/// The digits of each ID, those of the floating-point number nearest to it, and the row that these find.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "what is lost is the matter here")]
fn digits(cluster: &Cluster) -> Vec<[String; 3]> {
    let rows = cluster.connect().query("SELECT plain FROM ids ORDER BY plain", &[]).expect("IDs");
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    let float = |id: i64| id as f64 as i64;
    // Between 2^60 and 2^63 only every 256th number, or fewer, is a float.
    assert!(ids.iter().filter(|&&id| float(id) == id).count() <= 1, "{ids:?}");
    let found = |id: i64| if ids.contains(&id) { id.to_string() } else { "no row".to_owned() };
    ids.iter().map(|&id| [id.to_string(), float(id).to_string(), found(float(id))]).collect()
}

#[test]
fn node_reads_a_snowflake_whole_from_json_and_a_bigint_as_another_number() {
    let cluster = server();
    let expected: Vec<_> = digits(&cluster)
        .iter()
        .map(|[id, float, row]| {
            [
                id.clone(),
                format!("string {id}"),
                format!("string {id}"),
                format!("number {float}"),
                row.clone(),
                format!("string {id}"),
                id.clone(),
            ]
        })
        .collect();
    assert_eq!(run(&cluster, "node", "exact.cjs"), expected);
}

#[test]
fn python_reads_a_snowflake_whole_from_json_and_a_bigint_unless_numbers_become_floats() {
    let cluster = server();
    let expected: Vec<_> = digits(&cluster)
        .iter()
        .map(|[id, float, row]| {
            [
                id.clone(),
                format!("int {id}"),
                format!("str {id}"),
                format!("int {id}"),
                id.clone(),
                format!("float {float}"),
                row.clone(),
                format!("str {id}"),
                id.clone(),
            ]
        })
        .collect();
    // Debian's, for which Debian's psycopg2 is; there may be others in the PATH.
    assert_eq!(run(&cluster, "/usr/bin/python3", "exact.py"), expected);
}

#[test]
fn the_documents_show_what_the_programs_of_clients_do() {
    let project_of_django = ["fields.py", "apps.py", "migrations/0003_order_tags.py"];
    let project_of_django = project_of_django.map(|file| format!("python/shop/{file}"));
    let objects = objects::programs().chain(["prisma/schema.prisma"]);
    let clients = objects.chain(within::PYTHON).chain(within::OTHERS).chain(nested::PROGRAMS);
    let clients = clients.chain(created_at::programs()).chain(online::PROGRAMS);
    let clients = clients.map(str::to_owned).chain(project_of_django);
    let formats = json::PYTHON.into_iter().chain(json::OTHERS).chain(["python/settings.py"]).map(str::to_owned);
    let mut shown = 0;
    let pages: [(&str, Vec<_>); 2] = [("clients", clients.collect()), ("formats", formats.collect())];
    for (document, programs) in pages {
        let text = fs::read_to_string(project().join(format!("docs/{document}.md"))).expect("a document");
        for program in programs {
            for recipe in program::recipes(&program) {
                assert!(text.contains(&recipe), "docs/{document}.md does not show {program}:\n{recipe}");
                shown += 1;
            }
        }
    }
    assert!(shown > 35, "{shown} recipes");
}
