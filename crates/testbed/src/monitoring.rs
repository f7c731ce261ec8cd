//! Prometheus and its exporter for PostgreSQL, as `tools/setup monitoring` has unpacked them.

use crate::cluster::{Cluster, PATIENCE};
use crate::installation::{needed, project};
use crate::scratch::Scratch;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Where a program of one of these packages is.
fn unpacked(package: &str, program: &str) -> PathBuf {
    project().join("target").join(package).join("usr/bin").join(program)
}

/// Debian's prometheus-postgres-exporter.
pub fn exporter_program() -> PathBuf {
    unpacked("prometheus-postgres-exporter", "prometheus-postgres-exporter")
}

/// `prometheus` or `promtool`; a test that needs it is skipped without it, or without the exporter.
pub fn monitoring_program(name: &str) -> PathBuf {
    needed(exporter_program());
    needed(unpacked("prometheus", name))
}

/// A running program with a web server. Dropping it ends the program.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    /// Starts it, and waits until it answers on this path.
    fn start(command: &mut Command, port: u16, path: &str, log: &Path) -> Self {
        let output = fs::File::create(log).expect("a log");
        command.stdin(Stdio::null()).stdout(output.try_clone().expect("the log")).stderr(output);
        let mut served = Self { child: command.spawn().expect("a program"), port };
        let deadline = Instant::now() + PATIENCE;
        while served.get(path).is_none() {
            let ended = served.child.try_wait().expect("a child").is_some();
            let said = || fs::read_to_string(log).unwrap_or_default();
            assert!(!ended && Instant::now() < deadline, "it does not answer:\n{}", said());
            sleep(Duration::from_millis(20));
        }
        served
    }

    /// Its answer, if that is a success.
    fn get(&self, path: &str) -> Option<String> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        write!(connection, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.starts_with("HTTP/1.0 200").then(|| body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Debian's prometheus-postgres-exporter, with the queries of `contrib/monitoring`. Dropping it ends it.
pub struct Exporter(Served);

impl Exporter {
    /// The role with which it connects, as docs/monitoring.md creates it.
    const ROLE: &str = "monitoring";

    /// Starts one for a server, which must have the role.
    pub fn start(cluster: &Cluster) -> Self {
        let directory = cluster.make_directory("exporter");
        // The servers' user can't read this project everywhere.
        fs::copy(exporter_program(), directory.join("exporter")).expect("a copy");
        fs::copy(project().join("contrib/monitoring/postgres_exporter.yml"), directory.join("queries"))
            .expect("a copy");
        let port = free_port();
        let mut command = cluster.foreign_command();
        command
            .arg(format!("DATA_SOURCE_NAME=host={} user={} dbname=postgres", cluster.host().display(), Self::ROLE))
            .arg(directory.join("exporter"))
            .arg(format!("--extend.query-path={}", directory.join("queries").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        Self(Served::start(&mut command, port, "/metrics", &directory.join("log")))
    }

    /// What Prometheus gets from it.
    pub fn metrics(&self) -> String {
        self.0.get("/metrics").expect("metrics")
    }
}

/// Debian's Prometheus, with the rules of `contrib/monitoring`. Dropping it ends it.
pub struct Prometheus {
    served: Served,
    _directory: Scratch,
}

impl Prometheus {
    /// Starts one, which asks each exporter, and evaluates the rules, once a second. It calls them pg-1, pg-2 and so
    /// on.
    pub fn start<'a>(exporters: impl IntoIterator<Item = &'a Exporter>) -> Self {
        let directory = Scratch::new("prometheus-");
        let target = |(nth, exporter): (usize, &Exporter)| {
            let port = exporter.0.port;
            format!("  - {{targets: ['127.0.0.1:{port}'], labels: {{instance: pg-{nth}}}}}\n")
        };
        let targets: String = (1..).zip(exporters).map(target).collect();
        let configuration = directory.path().join("prometheus.yml");
        let rules = project().join("contrib/monitoring/alerts.yml");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}]\nscrape_configs:\n\
             - job_name: snowflake_pg\n  static_configs:\n{targets}",
            rules.display()
        );
        fs::write(&configuration, text).expect("own file");
        let port = free_port();
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(unpacked("prometheus", "prometheus"))
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!("--storage.tsdb.path={}", directory.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"));
        let served = Served::start(&mut command, port, "/-/ready", &directory.path().join("log"));
        Self { served, _directory: directory }
    }

    /// What its API answers, as JSON: to `query`, for example, with parameters such as `query` and `time`.
    pub fn api(&self, what: &str, parameters: &[(&str, &str)]) -> String {
        let mut path = format!("/api/v1/{what}?");
        for (name, value) in parameters {
            let _ = write!(path, "{name}=");
            for byte in value.bytes() {
                let _ = write!(path, "%{byte:02X}");
            }
            path.push('&');
        }
        self.served.get(&path).unwrap_or_else(|| panic!("{what} {parameters:?}"))
    }
}

/// A query of `contrib/monitoring/dashboard.json`, as Grafana sends it when all servers are chosen.
pub fn with_all_chosen(query: &str) -> String {
    let variables = ["$fleet", "$datacenter", "$worker"];
    let query = variables.iter().fold(query.to_owned(), |query, variable| query.replace(variable, ".*"));
    let query = query.replace("$__rate_interval", "5s");
    assert!(!query.contains('$'), "{query}");
    query
}

/// A port that nobody uses.
///
/// It is below 32768: from there on, the system could give the same port to a client that connects in between.
pub fn free_port() -> u16 {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let port = || {
        let nth = TRIED.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(97));
        u16::try_from(15_000 + nth % 15_000).expect("a port")
    };
    let is_free = |&port: &u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    std::iter::repeat_with(port).take(15_000).find(is_free).expect("a free port")
}
