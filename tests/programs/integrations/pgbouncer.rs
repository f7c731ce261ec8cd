//! PgBouncer in transaction mode: each transaction of a client can be in another session.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use testbed::postgres::{Client, Config, NoTls, SimpleQueryMessage};
use testbed::{Cluster, PATIENCE, hosted_script, needed, project, test};

const CLIENTS: usize = 20;
const INSERTS: usize = 200;

/// A running PgBouncer. Dropping it kills it.
struct Pool(Child);

impl Pool {
    /// Between clients and a server, with four sessions.
    fn start(cluster: &Cluster) -> Self {
        let unpacked = project().join("target/pgbouncer");
        let program = needed(unpacked.join("usr/sbin/pgbouncer"));
        // The servers' user can't read this project everywhere.
        let (own, pool) = (cluster.make_directory("pgbouncer"), cluster.make_directory("pool"));
        fs::copy(program, own.join("pgbouncer")).expect("a copy");
        fs::set_permissions(own.join("pgbouncer"), fs::Permissions::from_mode(0o755)).expect("a program");
        for directory in fs::read_dir(unpacked.join("usr/lib")).into_iter().flatten() {
            for library in fs::read_dir(directory.expect("an entry").path()).into_iter().flatten() {
                let library = library.expect("an entry").path();
                if library.is_file() {
                    fs::copy(&library, own.join(library.file_name().expect("a name"))).expect("a copy");
                }
            }
        }
        let settings = format!(
            "[databases]\n* = host={} user=postgres\n[pgbouncer]\nlisten_port = 6432\nunix_socket_dir = {}\nauth_type = any\n\
             pool_mode = transaction\ndefault_pool_size = 4\nmax_client_conn = 100\n",
            cluster.host().display(),
            pool.display()
        );
        fs::write(own.join("pgbouncer.ini"), settings).expect("own file");
        let mut command = cluster.foreign_command();
        command
            .arg(format!("LD_LIBRARY_PATH={}", own.display()))
            .arg(own.join("pgbouncer"))
            .arg(own.join("pgbouncer.ini"));
        Self(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbouncer"))
    }

    /// A new client.
    fn connect(cluster: &Cluster) -> Client {
        let mut config = Config::new();
        config.host_path(cluster.host().join("pool")).port(6432).user("postgres").dbname("postgres");
        let deadline = Instant::now() + PATIENCE;
        loop {
            match config.connect(NoTls) {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < deadline, "{error:?}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn clients_of_pgbouncer_in_transaction_mode_get_ids_of_their_own_in_ascending_order() {
    assert_own_and_ascending(&Cluster::builder().worker(0).start(), "CREATE EXTENSION snowflake_pg");
}

#[test]
fn clients_of_pgbouncer_get_ids_of_their_own_from_the_functions_in_plain_sql() {
    let cluster = Cluster::builder().start();
    assert_own_and_ascending(&cluster, &format!("{}; SELECT snowflake_set_worker_id(7)", hosted_script()));
}

/// In a pool, a session with a name is another one in the next transaction, and what it sets there stays for others.
#[test]
fn an_audit_through_pgbouncer_takes_no_server_for_its_clone_and_leaves_no_settings_behind() {
    let [server, other] = [7, 8].map(|worker| {
        let cluster = Cluster::builder().worker(worker).start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        cluster
    });
    let _pool = Pool::start(&server);
    let mut client = Pool::connect(&server);
    let direct = format!("host={} user=postgres dbname=postgres", server.host().display());
    let pooled = format!("host={} port=6432 user=postgres dbname=postgres", server.host().join("pool").display());
    for by in [&server, &other] {
        let fleet = [&direct, &pooled, &pooled, &direct];
        let rows =
            by.connect().query("SELECT a::text FROM snowflake_audit_fleet($1) a", &[&&fleet[..]]).expect("an audit");
        let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert!(rows.iter().all(|row| row.starts_with("(\"no overlap\"")), "{rows:?}");
        let check = "SELECT string_agg(problem, '; ') FROM snowflake_check_fleet($1)";
        let problems: Option<String> = by.connect().query_one(check, &[&&fleet[..]]).expect("a check").get(0);
        assert_eq!(problems, None);
    }
    for _ in 0..20 {
        let path = client.simple_query("SHOW search_path").expect("a setting");
        assert!(format!("{path:?}").contains("public"), "{path:?}");
    }
}

fn assert_own_and_ascending(cluster: &Cluster, install: &str) {
    cluster.connect().batch_execute(install).expect("the functions");
    let _pool = Pool::start(cluster);
    Pool::connect(cluster)
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), session integer DEFAULT pg_backend_pid())",
        )
        .expect("a table");
    // A client's row is in which session, and has which ID.
    let insert = |client: &mut Client| -> (i64, i32) {
        let messages = client.simple_query("INSERT INTO orders DEFAULT VALUES RETURNING id, session").expect("a row");
        let row = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let field = |at| row.and_then(|row| row.get(at)).expect("a field");
        (field(0).parse().expect("an ID"), field(1).parse().expect("a process"))
    };
    let received: Vec<Vec<(i64, i32)>> = thread::scope(|scope| {
        let work = || {
            let mut client = Pool::connect(cluster);
            (0..INSERTS).map(|_| insert(&mut client)).collect()
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
        clients.into_iter().map(|client| client.join().expect("a client")).collect()
    });
    assert!(received.iter().all(|rows| rows.is_sorted_by(|a, b| a.0 < b.0)), "each client's IDs ascend");
    assert!(received.iter().any(|rows| rows.iter().any(|row| row.1 != rows[0].1)), "all clients had a session each");
    let mut ids: Vec<_> = received.iter().flatten().map(|row| row.0).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), CLIENTS * INSERTS);
}
