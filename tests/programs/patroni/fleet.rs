//! Three nodes with Patroni, and an etcd.

use super::program::{Program, copy_installed, installed, kill_all_in, wait_for};
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::thread::panicking;
use testbed::postgres::{Client, Config, NoTls, config::TargetSessionAttrs};
use testbed::{Cluster, Registry, Signal, free_port, make_private_file};

pub const NODES: usize = 3;

/// How workers are given to the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// Each node has a number of its own, in its YAML file.
    Own,
    /// All nodes have one number, whose mark goes through WAL to a synchronous standby.
    Shared,
    /// A registry leases them.
    Leased,
}

/// The store of Patroni's.
struct Etcd {
    machine: Cluster,
    port: u16,
    program: Program,
}

/// A node.
pub struct Node {
    pub machine: Cluster,
    pub name: String,
    port: u16,
    /// Patroni's.
    api: u16,
    /// How far its clock is from the real one, in seconds.
    clock: f64,
    /// Where Python finds Patroni.
    packages: PathBuf,
    patroni: Option<Program>,
}

/// Three nodes, of which one is the primary.
pub struct Fleet {
    pub nodes: Vec<Node>,
    workers: Workers,
    etcd: Etcd,
    /// Asked by the nodes alone.
    _registry: Option<Registry>,
}

impl Etcd {
    fn start() -> Self {
        let machine = Cluster::builder().bare();
        let [port, peers] = [free_port(), free_port()].map(|port| (port, format!("http://127.0.0.1:{port}")));
        let url = format!("http://127.0.0.1:{}", port.0);
        // The servers' user can't read this project everywhere.
        for program in ["etcd-server/usr/bin/etcd", "patroni/venv/lib/python3*/site-packages"] {
            copy_installed(program, machine.host());
        }
        let mut command = machine.foreign_command();
        command.arg(machine.host().join("etcd"));
        command.args(["--data-dir", "data", "--listen-client-urls", &url, "--advertise-client-urls", &url]);
        command.args(["--listen-peer-urls", &peers.1, "--initial-advertise-peer-urls", &peers.1]);
        command.args(["--initial-cluster", &format!("default={}", peers.1), "--unsafe-no-fsync"]);
        let program = Program::start(&machine, &mut command);
        Self { machine, port: port.0, program }
    }
}

impl Workers {
    /// What all nodes have in common: the map of parameters in Patroni's store.
    fn of_all(self, registry: Option<&Registry>) -> Vec<(&'static str, String)> {
        match self {
            Self::Own => Vec::new(),
            Self::Shared => {
                vec![("snowflake_pg.worker_id", "7".to_owned()), ("snowflake_pg.wal_mark", "require".to_owned())]
            }
            Self::Leased => vec![
                ("snowflake_pg.worker_id", "registry".to_owned()),
                ("snowflake_pg.registry_conninfo", registry.expect("a registry").conninfo()),
            ],
        }
    }

    /// What a node has for itself.
    fn of_node(self, nth: usize) -> Vec<(&'static str, String)> {
        match self {
            Self::Own => vec![("snowflake_pg.worker_id", nth.to_string())],
            Self::Shared | Self::Leased => Vec::new(),
        }
    }
}

impl Node {
    fn create(nth: usize, clock: f64, etcd: &Etcd) -> Self {
        let machine = Cluster::builder().own_clock().bare();
        let packages = etcd.machine.host().join("site-packages");
        machine.set_clock(clock);
        Self { machine, clock, packages, name: format!("pg-{nth}"), port: free_port(), api: free_port(), patroni: None }
    }

    fn configure(&self, nth: usize, workers: Workers, etcd: &Etcd, registry: Option<&Registry>) {
        let indent = |depth: usize, parameters: &[(&str, String)]| {
            let lines = parameters.iter().map(|(name, value)| format!("{}{name}: '{value}'\n", " ".repeat(depth)));
            lines.collect::<String>()
        };
        let state = self.machine.make_directory("snowflake_state");
        let mut own = workers.of_node(nth);
        own.push(("snowflake_pg.state_directory", state.display().to_string()));
        own.push(("unix_socket_directories", self.machine.host().display().to_string()));
        let yaml = include_str!("node.yml")
            .replace("{name}", &self.name)
            .replace("{api}", &self.api.to_string())
            .replace("{etcd}", &etcd.port.to_string())
            .replace("{port}", &self.port.to_string())
            .replace("{data}", &self.machine.data().display().to_string())
            .replace("{bin}", &self.programs().display().to_string())
            .replace("{synchronous}", if workers == Workers::Shared { "true" } else { "false" })
            .replace("        {parameters of all}\n", &indent(8, &workers.of_all(registry)))
            .replace("    {parameters of this node}\n", &indent(4, &own));
        fs::write(self.yaml(), yaml).expect("own file");
        make_private_file(&self.yaml());
    }

    /// A directory of PostgreSQL's programs, of which the server alone has the clock of this node: Patroni's Python
    /// does not stand libfaketime. pg_rewind writes over the file of what the server has told, so that goes away
    /// before.
    fn programs(&self) -> PathBuf {
        let (programs, real) = (self.machine.make_directory("bin"), self.machine.bindir());
        for entry in fs::read_dir(&real).expect("a directory") {
            let name = entry.expect("an entry").file_name();
            if name != "postgres" && name != "pg_rewind" {
                symlink(real.join(&name), programs.join(&name)).expect("a link");
            }
        }
        let clock = self.machine.preloaded().join(" ");
        let (trace, held) = (self.machine.data().join("snowflake_pg.trace"), self.machine.held_traces());
        let postgres = format!("exec env {clock} {} \"$@\"", real.join("postgres").display());
        let pg_rewind = format!(
            "[ ! -e '{trace}' ] || mv '{trace}' '{held}/'$$\nexec {} \"$@\"",
            real.join("pg_rewind").display(),
            trace = trace.display(),
            held = held.display()
        );
        for (name, commands) in [("postgres", postgres), ("pg_rewind", pg_rewind)] {
            fs::write(programs.join(name), format!("#!/bin/sh\n{commands}\n")).expect("own file");
            fs::set_permissions(programs.join(name), Permissions::from_mode(0o755)).expect("own file");
        }
        programs
    }

    fn yaml(&self) -> PathBuf {
        self.machine.host().join("node.yml")
    }

    /// Starts Patroni, which starts PostgreSQL if it does not run.
    pub fn start(&mut self) {
        self.correct_start_time();
        let mut command = self.machine.foreign_command();
        command.arg(format!("PYTHONPATH={}", self.packages.display()));
        command.args(["/usr/bin/python3", "-m", "patroni"]).arg(self.yaml());
        self.patroni = Some(Program::start(&self.machine, &mut command));
    }

    /// Patroni compares when the postmaster was started, by the server's clock, with when its process was, by the real
    /// one. On a machine, these are one clock.
    fn correct_start_time(&self) {
        let file = self.machine.data().join("postmaster.pid");
        let Ok(text) = fs::read_to_string(&file) else { return };
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        let started: f64 = lines[2].parse().expect("a time");
        lines[2] = format!("{:.0}", started - self.clock);
        fs::write(&file, lines.join("\n") + "\n").expect("own file");
    }

    /// Kills Patroni alone. PostgreSQL goes on as what it is.
    pub fn kill_patroni(&mut self) {
        self.patroni = None;
    }

    /// Kills PostgreSQL alone.
    pub fn kill_postgres(&self) {
        kill_all_in(&self.machine.data());
    }

    /// The node loses its power.
    pub fn kill(&mut self) {
        self.kill_patroni();
        kill_all_in(self.machine.host());
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("postgres").dbname("postgres");
        config
    }

    pub fn try_connect(&self) -> Option<Client> {
        self.config().connect(NoTls).ok()
    }

    /// What a query says; `None` if the server does not answer it.
    pub fn answer<T: for<'a> testbed::postgres::types::FromSql<'a>>(&self, query: &str) -> Option<T> {
        self.try_connect()?.query_one(query, &[]).ok()?.try_get(0).ok()
    }

    pub fn is_primary(&self) -> bool {
        self.answer("SELECT NOT pg_is_in_recovery()") == Some(true)
    }

    /// Whether Patroni says that its node is this.
    fn says(&self, what: &str) -> bool {
        let Ok(mut connection) = TcpStream::connect(("127.0.0.1", self.api)) else { return false };
        let mut answer = String::new();
        let asked = write!(connection, "GET /{what} HTTP/1.0\r\n\r\n");
        asked.and_then(|()| connection.read_to_string(&mut answer)).is_ok() && answer.starts_with("HTTP/1.0 200")
    }

    /// Runs patronictl, which must succeed.
    pub fn patronictl(&self, arguments: &[&str]) {
        let mut command = Command::new(installed("patroni/venv/bin/patronictl"));
        let output = command.arg("-c").arg(self.yaml()).args(arguments).output().expect("patronictl");
        assert!(output.status.success(), "patronictl {arguments:?}: {output:?}\n{}", self.machine.log());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if panicking() {
            let log = self.machine.log();
            let lines: Vec<_> = log.lines().collect();
            println!("{}, at the end:\n{}\n", self.name, lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        self.kill();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.program.send(Signal::CONT);
        kill_all_in(self.machine.host());
    }
}

impl Fleet {
    /// Starts one, whose nodes' clocks are so many seconds from the real one, and creates the extension.
    pub fn start(workers: Workers, clocks: [f64; NODES]) -> Self {
        let registry = (workers == Workers::Leased).then(Registry::start);
        let etcd = Etcd::start();
        let mut nodes: Vec<_> =
            clocks.iter().enumerate().map(|(nth, &clock)| Node::create(nth, clock, &etcd)).collect();
        for (nth, node) in nodes.iter().enumerate() {
            node.configure(nth, workers, &etcd, registry.as_ref());
        }
        nodes.iter_mut().for_each(Node::start);
        let fleet = Self { nodes, workers, etcd, _registry: registry };
        let primary = fleet.wait_for_primary(|_| true);
        fleet.wait_for_standbys();
        let mut client = fleet.nodes[primary].try_connect().expect("a primary");
        client
            .batch_execute("CREATE EXTENSION IF NOT EXISTS snowflake_pg; CREATE SEQUENCE IF NOT EXISTS serial")
            .expect("the extension");
        fleet
    }

    /// Waits for a primary among some nodes.
    pub fn wait_for_primary(&self, is_meant: impl Fn(usize) -> bool) -> usize {
        let mut found = None;
        let is_there = || {
            found = (0..NODES).find(|&nth| is_meant(nth) && self.nodes[nth].is_primary());
            found.is_some()
        };
        wait_for("a primary", is_there);
        found.expect("a primary")
    }

    /// The primary that Patroni knows.
    pub fn primary(&self) -> usize {
        self.wait_for_primary(|_| true)
    }

    /// Waits until the other nodes follow the only primary, and Patroni would promote one of them. Each then has the
    /// data directory in which it tells what it does, until Patroni makes another one.
    pub fn wait_for_standbys(&self) {
        let streaming = "SELECT count(*) = 2 FROM pg_stat_replication WHERE state = 'streaming'";
        let ready = if self.workers == Workers::Shared { "synchronous" } else { "replica" };
        wait_for("two standbys", || {
            let mut primaries = self.nodes.iter().filter(|node| node.is_primary());
            let (first, second) = (primaries.next(), primaries.next());
            second.is_none()
                && first.is_some_and(|primary| primary.answer(streaming) == Some(true))
                && self.nodes.iter().any(|node| node.says(ready))
        });
        self.nodes.iter().for_each(|node| node.machine.hold_trace());
    }

    /// Stops etcd in the middle of what it does, or lets it go on.
    pub fn send_to_etcd(&self, signal: Signal) {
        self.etcd.program.send(signal);
    }

    /// How clients connect that want the primary.
    pub fn config(&self) -> Config {
        let mut config = Config::new();
        for node in &self.nodes {
            config.host("127.0.0.1").port(node.port);
        }
        config.user("postgres").dbname("postgres").target_session_attrs(TargetSessionAttrs::ReadWrite);
        config
    }

    pub fn workers(&self) -> Workers {
        self.workers
    }

    /// How often a node was promoted before this one.
    pub fn timeline(&self, node: usize) -> i32 {
        let query = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer";
        self.nodes[node].answer(query).expect("a primary")
    }

    /// Waits until a node issues IDs.
    pub fn wait_for_ids_of(&self, node: usize) {
        wait_for("an ID", || self.nodes[node].answer::<i64>("SELECT snowflake_nextval()").is_some());
    }
}
