//! The packages, as those who install them meet them, and what their files say of the version.
//!
//! `make suite NAME=packages` builds the packages first, on this machine, and makes roots of Debian. Then it runs the
//! tests that are ignored else. What they type and read is in `target/transcripts`.

mod contents;
mod machine;
mod sources;
mod versions;

pub use machine::Machine;
use machine::psql;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{can_name_hosts, exporter_program, project, test};

/// Suites of Debian, and versions of PostgreSQL that each has. No suite has 16. `sid` gets 19 from experimental.
const SUITES: [(&str, &str); 4] = [("bookworm", "15"), ("trixie", "17"), ("sid", "18"), ("sid", "19")];

/// The path that a variable of `make suite` names. Packages are only tested as root.
pub fn from_make(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    assert!(can_name_hosts(), "only root can test packages");
    path.unwrap_or_else(|| panic!("{variable} is not set: make suite sets it"))
}

/// A machine of a suite of Debian with a server that has never run, and the name of the package in its `/packages`.
struct Server {
    machine: Machine,
    major: &'static str,
    package: String,
}

impl Server {
    fn new(suite: &str, major: &'static str, packages: &Path, transcript: &str) -> Self {
        let machine = Machine::new(suite, packages, &format!("{transcript}-{suite}-{major}.txt"));
        machine.run("useradd monitoring");
        machine.note("As PostgreSQL's package does where its main cluster is wanted:");
        machine.run(&format!("pg_createcluster {major} main"));
        Self { machine, major, package: format!("postgresql-{major}-snowflake-pg") }
    }

    fn install(&self) {
        self.machine.run(&format!("apt-get install -qq -y -o Dpkg::Use-Pty=0 /packages/{}_*.deb", self.package));
    }

    /// The same package with a higher version.
    fn upgrade(&self) {
        let (machine, package) = (&self.machine, &self.package);
        let made = machine.attempt(&format!(
            "dpkg-deb --raw-extract /packages/{package}_*.deb /tmp/newer
sed -i 's/^Version: .*/&+newer/' /tmp/newer/DEBIAN/control
dpkg-deb --build /tmp/newer /tmp/newer.deb && rm -r /tmp/newer"
        ));
        made.expect("a newer package");
        machine.run("apt-get install -qq -y -o Dpkg::Use-Pty=0 /tmp/newer.deb");
        let version = machine.run(&format!("dpkg-query --show --showformat '${{Version}}' {package}"));
        assert!(version.ends_with("+newer"), "{version}");
    }

    /// The same as Debian's own machines would run it: debian/tests/control.
    fn smoke(&self) {
        self.machine.put(&project().join("debian/tests/smoke"), "tmp");
        self.machine.run("/tmp/smoke");
    }

    fn configure(&self) {
        let major = &self.major;
        self.machine.run(&format!("pg_conftool {major} main set shared_preload_libraries snowflake_pg"));
        self.machine.run(&format!("pg_conftool {major} main set snowflake_pg.worker_id 7"));
    }

    fn control(&self, action: &str) {
        self.machine.run(&format!("pg_ctlcluster {} main {action}", self.major));
    }

    /// Issues an ID, which is of worker 7 and above the one before.
    fn issue(&self, above: &str) -> String {
        let id = self.machine.sql("INSERT INTO orders (item) VALUES ('tea') RETURNING id");
        assert_eq!(self.machine.sql(&format!("SELECT worker_id FROM snowflake_decode({id})")), "7");
        assert!(id.parse::<i64>().expect("an ID") > above.parse::<i64>().expect("an ID"), "{id} after {above}");
        id
    }

    /// Takes a table with a serial key to Snowflake IDs, and shows the server to an exporter.
    fn adopt_and_watch(&self) {
        let (machine, files) = (&self.machine, format!("/usr/share/doc/{}/contrib/monitoring", self.package));
        machine.sql(
            "CREATE EXTENSION snowflake_adopt; CREATE TABLE customers (id serial PRIMARY KEY, name text);
             INSERT INTO customers (name) VALUES ('Ada')",
        );
        machine.sql_script(r"SELECT command FROM snowflake_adopt.plan('customers') \gexec");
        machine.sql("INSERT INTO customers (name) VALUES ('Grace')");
        let customers = "SELECT name, worker_id FROM customers, snowflake_decode(id) ORDER BY id DESC LIMIT 1";
        assert_eq!(machine.sql(customers), "Grace|7");

        machine.put(&exporter_program(), "tmp");
        machine.sql("CREATE ROLE monitoring LOGIN; GRANT pg_monitor TO monitoring");
        let metrics = machine.run(&format!(
            "runuser -u monitoring -- env DATA_SOURCE_NAME='host=/var/run/postgresql user=monitoring dbname=postgres' \\
    /tmp/prometheus-postgres-exporter --extend.query-path={files}/postgres_exporter.yml \\
    --web.listen-address=127.0.0.1:9187 >/tmp/exporter.log 2>&1 &
curl -sS --retry 50 --retry-delay 1 --retry-connrefused http://127.0.0.1:9187/metrics | grep ^snowflake_
kill $!"
        ));
        let status = metrics.lines().find(|metric| metric.starts_with("snowflake_pg_server_info{")).expect("a server");
        assert!(status.contains("worker_id=\"7\"") && status.ends_with(" 1"), "{status}");
    }

    /// Another server here leases its worker from a registry in a database of this one, as docs/registry.md says.
    fn lease(&self) {
        let (machine, major) = (&self.machine, &self.major);
        machine.run("runuser -u postgres -- createdb registry");
        let registry = |sql: &str| machine.run(&format!("runuser -u postgres -- psql -d registry -XAtqc \"{sql}\""));
        registry("CREATE EXTENSION snowflake_registry");
        registry("CREATE ROLE fleet LOGIN IN ROLE snowflake_registry_server PASSWORD 'between us'");
        machine.run(
            "echo '*:*:registry:fleet:between us' | install -o postgres -m 600 /dev/stdin /var/lib/postgresql/pgpass",
        );
        machine.run(&format!("pg_createcluster {major} leased"));
        let conninfo = "host=127.0.0.1 dbname=registry user=fleet passfile=/var/lib/postgresql/pgpass";
        let settings = [("snowflake_pg.worker_id", "registry"), ("snowflake_pg.registry_conninfo", conninfo)];
        for (name, value) in [("shared_preload_libraries", "snowflake_pg")].into_iter().chain(settings) {
            machine.run(&format!("pg_conftool {major} leased set {name} '{value}'"));
        }
        machine.run(&format!("pg_ctlcluster {major} leased start"));
        let leased = |sql: &str| format!("runuser -u postgres -- psql -p 5433 -XAtqc \"{sql}\"");
        machine.run(&leased("CREATE EXTENSION snowflake_pg"));
        machine.run(&format!("until {}; do sleep 1; done", leased("SELECT snowflake_nextval()")));
        assert_eq!(machine.run(&leased("SELECT worker_id, worker_id_source FROM snowflake_status")), "1023|registry");
        let of_worker = "SELECT state, server FROM snowflake_registry.workers WHERE worker_id = 1023";
        assert_eq!(registry(of_worker), format!("leased|{major}/leased"));
        machine.run(&format!("pg_dropcluster --stop {major} leased"));
        machine.run("runuser -u postgres -- dropdb registry");
    }

    /// A database without the extension runs the script of a release.
    fn run_hosted(&self) {
        let machine = &self.machine;
        machine.put(&from_make("SNOWFLAKE_PG_DIST").with_file_name("snowflake_hosted.sql"), "tmp");
        machine.run("runuser -u postgres -- createdb hosted");
        let id = machine.run(
            "runuser -u postgres -- psql -d hosted -XAtq -v ON_ERROR_STOP=1 -c 'CREATE SCHEMA ids' \\
    -c 'SET search_path = ids' -f /tmp/snowflake_hosted.sql -c 'SELECT snowflake_set_worker_id(8)' \\
    -c 'SELECT worker_id FROM snowflake_decode(snowflake_nextval())' | tail -n 1",
        );
        assert_eq!(id, "8");
        machine.run("runuser -u postgres -- dropdb hosted");
    }

    /// The scripts of the package can be run.
    fn plan_faults(&self) {
        let plan = self.machine.run(&format!("/usr/share/doc/{}/contrib/chaos/plan 7 3", self.package));
        assert_eq!(plan.lines().count(), 3, "{plan}");
    }

    /// Removes the extension and the package. The server goes on without it.
    fn remove(&self) {
        let machine = &self.machine;
        machine.sql_script(r"SELECT command FROM snowflake_adopt.revert_plan('customers') \gexec");
        machine.sql("INSERT INTO customers (name) VALUES ('Linus')");
        assert_eq!(machine.sql("SELECT id FROM customers WHERE name = 'Linus'"), "2");
        machine.sql("DROP TABLE orders; DROP EXTENSION snowflake_adopt, snowflake_pg");
        machine.run(&format!("pg_conftool {} main set shared_preload_libraries ''", self.major));
        self.control("restart");
        let said = machine.run(&format!("apt-get purge -qq -y -o Dpkg::Use-Pty=0 {}", self.package));
        assert!(!said.contains("WARNING"), "{said}");
        assert_eq!(machine.sql("SELECT count(*) FROM customers"), "3");
        self.control("stop");
        machine.run(&format!("dpkg --listfiles {} && exit 1 || true", self.package));
    }
}

/// For cargo: not optimized, which takes a fourth of the time.
const SOONER: [&str; 3] =
    ["CARGO_PROFILE_RELEASE_LTO=off", "CARGO_PROFILE_RELEASE_OPT_LEVEL=0", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16"];

const FIRST: &str = "CREATE EXTENSION snowflake_pg;
    CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)";

#[test(By("make suite NAME=packages"))]
fn a_package_brings_ids_an_adopted_table_and_metrics_and_leaves_no_trace() {
    let packages = from_make("SNOWFLAKE_PG_DEBS");
    for (suite, major) in SUITES {
        let server = Server::new(suite, major, &packages, "package");
        let machine = &server.machine;
        let before = machine.changes();
        machine.note("Install:");
        server.install();
        assert!(machine.changes().len() > before.len(), "nothing is installed");
        machine.follow_links(&format!("/usr/share/doc/{}", server.package));
        server.plan_faults();
        machine.note("What debian/tests runs:");
        server.smoke();
        machine.note("Configure a server, and issue IDs:");
        server.configure();
        server.control("start");
        machine.sql(FIRST);
        let first = server.issue("0");
        machine.note("Upgrade. The server keeps its library until its restart:");
        server.upgrade();
        let second = server.issue(&first);
        server.control("restart");
        server.issue(&second);
        machine.note("Give a table Snowflake IDs, and watch the server:");
        server.adopt_and_watch();
        machine.note("Lease a worker from a registry:");
        server.lease();
        machine.note("In a database without the extension:");
        server.run_hosted();
        machine.note("Remove:");
        server.remove();
        assert_eq!(machine.changes(), before, "{suite}, {major}");
    }
}

#[test(By("make suite NAME=packages"))]
fn removing_the_package_of_a_server_that_preloads_it_warns_and_the_package_can_come_back() {
    let packages = from_make("SNOWFLAKE_PG_DEBS");
    let (suite, major) = SUITES[0];
    let server = Server::new(suite, major, &packages, "removal");
    let machine = &server.machine;
    server.install();
    server.configure();
    server.control("start");
    machine.sql(FIRST);
    let first = server.issue("0");
    let said = machine.run(&format!("apt-get remove -qq -y -o Dpkg::Use-Pty=0 {}", server.package));
    let file = format!("/etc/postgresql/{}/main/postgresql.conf", server.major);
    assert!(said.contains(&format!("shared_preload_libraries still names snowflake_pg:\n  {file}\n")), "{said}");
    let refused = machine.attempt(&psql("SELECT snowflake_nextval()")).expect_err("a new session");
    assert!(refused.contains("could not access file \"$libdir/snowflake_pg\""), "{refused}");
    let start = format!("pg_ctlcluster {} main restart", server.major);
    let refused = machine.attempt(&start).expect_err("a server without its library");
    // The rest of the message differs between minor versions.
    assert!(refused.contains("FATAL:  could not ") && refused.contains("\"snowflake_pg\""), "{refused}");
    // As the hint says.
    server.install();
    server.control("start");
    server.issue(&first);
}

#[test(By("make suite NAME=packages"))]
fn the_sources_that_are_packed_for_pgxn_are_enough_to_build() {
    let archive = from_make("SNOWFLAKE_PG_DIST");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let unpacked = Command::new("python3").args(["-m", "zipfile", "-e"]).args([&archive, directory.path()]).status();
    assert!(unpacked.expect("Python").success());
    let root = directory.path().join(format!("snowflake_pg-{}", env!("CARGO_PKG_VERSION")));
    assert!(root.join("META.json").exists() && root.join("Cargo.lock").exists());
    fs::set_permissions(root.join("tools/setup"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a file");
    let target = project().join("target/dist");
    let mut make = Command::new("make");
    make.arg("--directory").arg(&root).env("CARGO_TARGET_DIR", &target);
    make.envs(SOONER.iter().filter_map(|setting| setting.split_once('=')));
    assert!(make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL").status().expect("make").success());
    assert!(target.join("release/libsnowflake_pg.so").exists());
}
