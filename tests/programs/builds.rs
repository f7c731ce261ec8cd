//! The library in builds of PostgreSQL that npm and PyPI carry, which bring their own libraries. tools/builds unpacks
//! them as they are, and then runs tests/sql on each.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testbed::{Cluster, Signal, need_extension, need_hosts, test, value};

const FIRST: &str = "CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)";

/// Extensions that use libpq.
const OTHERS: &str = "CREATE EXTENSION dblink; CREATE EXTENSION postgres_fdw";

/// A command that follows does not see the system's libpq. `$0` is a directory.
const WITHOUT_LIBPQ: &str = "set -e
for library in $(ldconfig -p | sed -n 's/.*libpq\\.so.* => //p'); do
    [ -e \"$library\" ] || continue
    around=${library%/*}
    mount -t tmpfs tmpfs \"$0\"
    mkdir \"$0/upper\" \"$0/work\"
    mount -t overlay overlay -o \"lowerdir=$around,upperdir=$0/upper,workdir=$0/work\" \"$around\"
    rm \"$around\"/libpq.so*
done
exec \"$@\"";

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The library where the server looks for it.
fn library(cluster: &Cluster) -> PathBuf {
    let directory = value(&mut cluster.connect(), "SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'");
    Path::new(&directory).join("snowflake_pg.so")
}

/// Whether the library says itself where libpq is.
fn names_libpq(library: &Path) -> bool {
    !run("patchelf", &["--print-rpath", &library.display().to_string()]).trim().is_empty()
}

/// As docs/deployment.md says.
fn find_libpq_beside(library: &Path) {
    run("patchelf", &["--set-rpath", "$ORIGIN:$ORIGIN/..", &library.display().to_string()]);
}

/// What a stopped server says to a call for an ID on a machine without libpq.
fn call_without_libpq(cluster: &Cluster, hidden: &Path) -> String {
    let mut server = Command::new("unshare");
    server.args(["--mount", "sh", "-c", WITHOUT_LIBPQ]).arg(hidden);
    server.args(["setpriv", "--reuid", "postgres", "--regid", "postgres", "--init-groups"]);
    server.arg(cluster.bindir().join("postgres")).args(["--single", "-D"]).arg(cluster.data()).arg("postgres");
    let piped = server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut server = piped.spawn().expect("unshare");
    // A server that does not start does not read it.
    let _ = server.stdin.take().expect("a pipe").write_all(b"SELECT snowflake_nextval()\n");
    let output = server.wait_with_output().expect("a server");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

#[test(By("make suite NAME=builds"))]
fn a_server_of_another_build_issues_ids_and_goes_on_above_them_after_it_was_killed() {
    let mut cluster = Cluster::builder().worker(7).start();
    let client = &mut cluster.connect();
    client.batch_execute(FIRST).expect("a table");
    println!("{}", value(client, "SELECT version()"));
    let maps =
        fs::read_to_string(format!("/proc/{}/maps", value(client, "SELECT pg_backend_pid()"))).expect("a backend");
    let loaded = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/libpq"));
    println!("    libpq: {}", loaded.expect("libpq"));
    let issue = |cluster: &Cluster| {
        let client = &mut cluster.connect();
        let id = value(client, "INSERT INTO orders (item) VALUES ('tea') RETURNING id");
        assert_eq!(value(client, &format!("SELECT worker_id FROM snowflake_decode({id})")), "7");
        id.parse::<i64>().expect("an ID")
    };
    let first = issue(&cluster);
    cluster.restart(Signal::KILL);
    let second = issue(&cluster);
    assert!(second > first, "{second} after {first}");
}

#[test(By("make suite NAME=builds"))]
fn without_the_systems_libpq_the_loader_says_so_and_a_search_path_in_the_library_mends_it() {
    need_hosts();
    let mut cluster = Cluster::builder().worker(7).own_installation().start();
    cluster.connect().batch_execute(FIRST).expect("a table");
    let library = library(&cluster);
    cluster.stop(Signal::INT);
    let hidden = cluster.make_directory("hidden");
    if !names_libpq(&library) {
        let said = call_without_libpq(&cluster, &hidden);
        assert!(said.contains("libpq.so.5: cannot open shared object file"), "{said}");
        println!("    without libpq: {}", said.lines().find(|line| line.contains("FATAL")).unwrap_or_default());
        find_libpq_beside(&library);
    }
    let said = call_without_libpq(&cluster, &hidden);
    assert!(said.contains("snowflake_nextval = \""), "{said}");
}

#[test(By("make suite NAME=builds"))]
fn dblink_and_postgres_fdw_load_beside_a_library_that_finds_the_libpq_of_the_build() {
    need_extension("dblink");
    let mut cluster = Cluster::builder().worker(7).own_installation().start();
    let library = library(&cluster);
    if !names_libpq(&library) {
        // The one that the system has comes with another version of PostgreSQL. It was loaded first, and both have one
        // name.
        if let Err(error) = cluster.connect().batch_execute(OTHERS) {
            let said = error.as_db_error().expect("an error of the server").message().to_owned();
            assert!(said.contains("undefined symbol: PQ"), "{said}");
            println!("    with the system's libpq: {said}");
        } else {
            cluster.connect().batch_execute("DROP EXTENSION dblink, postgres_fdw").expect("extensions");
        }
        cluster.stop(Signal::INT);
        find_libpq_beside(&library);
        cluster.start();
    }
    let client = &mut cluster.connect();
    client.batch_execute(OTHERS).expect("extensions");
    let here = format!("host={} user=postgres dbname=postgres", cluster.host().display());
    assert_eq!(value(client, &format!("SELECT id FROM dblink('{here}', 'SELECT 7') AS t (id int)")), "7");
}
