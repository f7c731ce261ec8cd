//! One throwaway server.

use crate::disk::{Disk, install_library};
use crate::host::{Host, children, give_away, make_private};
use crate::installation::Installation;
use crate::mark_in;
use crate::overlay::Overlay;
use crate::query::value;
use crate::scratch::{Scratch, processes_in, send};
use crate::template;
use crate::test_run::is_testing;
use crate::traces::Traces;
use postgres::{Client, Config, NoTls};
use rustix::process::Signal;
use snowflake_core::UnixMs;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The library of crates/disk_faults, in the directory of a server that needs it.
pub(crate) const LIBRARY: &str = "faults.so";

/// How long anything may take that is sure to happen. Far longer than it does: only to end a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// How far the durable mark of a test's server runs ahead, unless the test sets that: a new server issues its first ID
/// after half a second, rather than after two.
pub const RESERVE_AHEAD_MS: u32 = 500;

/// `max_borrow`: how far ahead of its clock a new server begins.
const MAX_BORROW_MS: u64 = 5000;

/// What a server is to be like.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    settings: Vec<(String, String)>,
    environment: Vec<String>,
    pub(crate) on_host: Host,
    own_clock: bool,
    faulty_disk: bool,
    old: bool,
    own_installation: bool,
    waits: Waits,
    pub(crate) checksums: bool,
}

/// How long a new server waits, and how far ahead its mark is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Waits {
    /// As short as can be.
    #[default]
    Short,
    /// By default, except that a new server waits no longer than one whose mark was lost.
    Default,
    /// By default.
    All,
}

/// A throwaway server, running or not. Dropping it stops it and removes everything.
pub struct Cluster {
    pub(crate) directory: Scratch,
    pub(crate) data: PathBuf,
    pub(crate) installation: Arc<Installation>,
    pub(crate) environment: Vec<String>,
    pub(crate) on_host: Host,
    pub(crate) own_clock: bool,
    pub(crate) disk: Option<Disk>,
    pub(crate) overlay: Option<Overlay>,
    pub(crate) postmaster: Option<Child>,
    pub(crate) traces: Arc<Traces>,
}

impl Builder {
    /// A line of postgresql.conf.
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.push((name.to_owned(), value.to_string()));
        self
    }

    /// A variable in the environment of the server.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push(format!("{name}={value}"));
        self
    }

    /// A host of this name, as the server sees it: see [`can_name_hosts`](crate::can_name_hosts).
    pub fn host_name(mut self, name: &str) -> Self {
        self.on_host.name = Some(name.to_owned());
        self
    }

    /// The extension preloaded, with this worker ID.
    pub fn worker(self, worker: impl ToString) -> Self {
        self.set("shared_preload_libraries", "snowflake_pg").set("snowflake_pg.worker_id", worker)
    }

    /// The extension's defaults instead of the testbed's short waits, for tests that are about them. A new server waits two
    /// seconds, as if its mark was lost.
    pub fn with_defaults(mut self) -> Self {
        self.waits = Waits::Default;
        self
    }

    /// The same with the wait of a new server, as users have it.
    pub fn with_all_defaults(mut self) -> Self {
        self.waits = Waits::All;
        self
    }

    /// A clock of its own, which [`Cluster::set_clock`] sets.
    pub fn own_clock(mut self) -> Self {
        self.own_clock = true;
        self
    }

    /// A disk of its own under the state directory, which obeys [`Cluster::disk`].
    pub fn faulty_disk(mut self) -> Self {
        self.faulty_disk = true;
        self
    }

    /// Checksums of pages, which are initdb's default from PostgreSQL 18 on.
    pub fn checksums(mut self) -> Self {
        self.checksums = true;
        self
    }

    /// The version from which tests upgrade: see [`Installation::old`].
    pub fn old(mut self) -> Self {
        self.old = true;
        // pg_upgrade wants both servers to have checksums, or neither.
        self.checksums()
    }

    /// An installation of its own, in which [`Cluster::install`] replaces the extension.
    pub fn own_installation(mut self) -> Self {
        self.own_installation = true;
        self
    }

    /// Makes a server, and starts it.
    pub fn start(self) -> Cluster {
        let mut cluster = self.create();
        cluster.start();
        cluster
    }

    /// A server without a data directory, which the caller makes and runs. What it has told is lost with that, unless the
    /// caller [holds](Cluster::hold_trace) it.
    pub fn bare(&self) -> Cluster {
        let cluster = self.empty();
        make_private(cluster.held_traces());
        cluster.traces.touch();
        cluster
    }

    /// A server without a data directory.
    pub(crate) fn empty(&self) -> Cluster {
        let installation = match (self.old, self.own_installation) {
            (true, _) => Installation::old(),
            (false, true) => Installation::own(),
            (false, false) => Installation::shared(),
        };
        let directory = Scratch::new("snowflake-");
        give_away(directory.path());
        let data = directory.path().join("data");
        if self.own_clock || self.faulty_disk {
            install_library(&directory.path().join(LIBRARY));
        }
        let disk = self.faulty_disk.then(|| Disk::new(&data));
        let (environment, on_host, own_clock) = (self.environment.clone(), self.on_host.clone(), self.own_clock);
        let (overlay, postmaster) = (None, None);
        let cluster = Cluster {
            directory,
            data,
            installation,
            environment,
            on_host,
            own_clock,
            disk,
            overlay,
            postmaster,
            traces: Traces::current(),
        };
        cluster.set_clock(0.0);
        cluster
    }

    pub fn create(self) -> Cluster {
        let cluster = self.empty();
        // Not waiting for the disk is for initdb alone: the server itself runs with fsync on.
        let mut options = vec!["--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale", "--username=postgres"];
        options.extend(self.checksums.then_some("--data-checksums"));
        template::copy(&cluster.installation, &options, cluster.command("initdb"), &cluster.data);
        self.configure(&cluster);
        cluster
    }

    /// Appends these settings to the server's postgresql.conf.
    pub(crate) fn configure(&self, cluster: &Cluster) {
        cluster.configure("listen_addresses", "");
        // In the data directory, so a killed server leaves nothing behind.
        cluster.configure("dynamic_shared_memory_type", "mmap");
        cluster.configure("unix_socket_directories", cluster.host().display());
        let is_preloaded = self.settings.iter().any(|(name, _)| name == "shared_preload_libraries");
        if is_testing() && is_preloaded && self.waits == Waits::Short {
            cluster.configure("snowflake_pg.reserve_ahead", RESERVE_AHEAD_MS);
            cluster.configure("snowflake_pg.start_margin", 0);
        }
        if is_testing() && is_preloaded && self.waits == Waits::Default {
            cluster.configure("snowflake_pg.start_margin", "1s");
        }
        for (name, value) in &self.settings {
            cluster.configure(name, value);
        }
    }
}

impl Cluster {
    /// A server that is to be described further.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The data directory, for who may change something in it.
    pub fn data(&self) -> PathBuf {
        self.traces.touch();
        self.data.clone()
    }

    /// Moves the data directory of a stopped server to another name.
    pub fn move_data(&mut self, name: &str) {
        assert!(self.postmaster.is_none(), "moved while it runs");
        self.traces.touch();
        let moved = self.directory.path().join(name);
        fs::rename(&self.data, &moved).expect("the data directory");
        self.data = moved;
    }

    /// A new directory that belongs to the servers' user alone.
    pub fn make_directory(&self, name: &str) -> PathBuf {
        make_private(self.directory.path().join(name))
    }

    /// Puts the data directory of a stopped server under an overlay file system: what the server writes from now on is
    /// in another layer. False if that can't be done, as by anybody except root.
    pub fn overlay(&mut self) -> bool {
        self.make_directory("upper");
        self.lay_over(self.data())
    }

    /// Gives the server a data directory under the overlay whose upper layer is there.
    pub(crate) fn lay_over(&mut self, lower: PathBuf) -> bool {
        let (upper, work) = (self.directory.path().join("upper"), self.make_directory("work"));
        self.overlay = Overlay::new(lower.clone(), upper, work);
        self.data = lower;
        self.overlay.is_some()
    }

    /// The directory of the socket; what psql takes as -h.
    pub fn host(&self) -> &Path {
        self.directory.path()
    }

    /// The file that keeps the durable mark, for who may change it.
    pub fn mark_file(&self) -> PathBuf {
        self.data().join("snowflake_pg/mark")
    }

    /// The durable mark on disk.
    pub fn mark(&self) -> UnixMs {
        mark_in(&self.data.join("snowflake_pg/mark"))
    }

    /// The disk under the state directory, of a server that has its own.
    pub fn disk(&self) -> &Disk {
        self.disk.as_ref().expect("a disk of its own")
    }

    /// Adds a line to postgresql.conf; the last one of a name counts.
    pub fn configure(&self, name: &str, value: impl ToString) {
        if name == "snowflake_pg.state_directory" {
            // Where other servers can write.
            self.traces.touch();
        }
        let path = self.data.join("postgresql.conf");
        let line = format!("{name} = '{}'\n", value.to_string().replace('\'', "''"));
        let lines = fs::read_to_string(&path).expect("postgresql.conf");
        fs::write(&path, lines + &line).expect("postgresql.conf");
    }

    /// Starts the server, and waits until it answers.
    pub fn start(&mut self) {
        self.try_start().unwrap_or_else(|log| panic!("the server does not start:\n{log}"));
    }

    /// Starts the server; the error is its log.
    pub fn try_start(&mut self) -> Result<(), String> {
        assert!(self.postmaster.is_none(), "started twice");
        let log = File::options().create(true).append(true).open(self.log_path()).expect("the server's log");
        let mut command = self.command("postgres");
        command.arg("-D").arg(&self.data).stdin(Stdio::null()).stdout(log.try_clone().expect("the log")).stderr(log);
        self.postmaster = Some(command.spawn().expect("postgres"));
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.try_connect().is_ok() {
                return Ok(());
            }
            if let Some(child) = &mut self.postmaster
                && child.try_wait().expect("a child").is_some()
            {
                self.postmaster = None;
                break;
            }
            sleep(Duration::from_millis(20));
        }
        Err(self.log())
    }

    /// Stops the server, and waits until it has ended: `INT` is a fast shutdown, `QUIT` an immediate one, and `KILL`
    /// none.
    pub fn stop(&mut self, how: Signal) {
        let Some(mut child) = self.postmaster.take() else { return };
        send(child.id(), how);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "the server does not stop:\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
        if how == Signal::KILL {
            self.wait_for_orphans(child.id());
        }
        self.traces.keep(&self.data);
    }

    /// Stops the server, and starts it again.
    pub fn restart(&mut self, how: Signal) {
        self.stop(how);
        self.start();
    }

    /// The processes of the running server, the postmaster first.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let postmaster = self.postmaster.as_ref().expect("a running server").id();
        [vec![postmaster], children(postmaster)].concat()
    }

    /// Backends outlive a killed postmaster until they notice; a new one does not start before. A new one does not wait
    /// for the logging collector and for the server's commands.
    fn wait_for_orphans(&self, postmaster: u32) {
        let deadline = Instant::now() + PATIENCE;
        let is_backend = |pid| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            // A process that ends has no line any more while it still has the shared memory. A new one has no title
            // yet.
            let program = line.split('\0').next().unwrap_or_default();
            let is_servers = program.is_empty() || program.ends_with("/postgres") || program.starts_with("postgres: ");
            pid != postmaster && is_servers && !line.contains("logger")
        };
        while Instant::now() < deadline && processes_in(&self.data).any(is_backend) {
            sleep(Duration::from_millis(5));
        }
    }

    /// Reloads the configuration. Every process has been told when this returns, and a session notices before its next
    /// statement.
    pub fn reload(&self) {
        let loaded = || value(&mut self.connect(), "SELECT pg_conf_load_time()");
        let last_loaded = loaded();
        send(self.postmaster.as_ref().expect("a running server").id(), Signal::HUP);
        let deadline = Instant::now() + PATIENCE;
        while loaded() == last_loaded {
            assert!(Instant::now() < deadline, "the server does not reload:\n{}", self.log());
            sleep(Duration::from_millis(5));
        }
    }

    /// Sets the clock of a server that has its own: seconds to add to the real time. When this returns, the server has
    /// had time to notice, which may take a millisecond.
    pub fn set_clock(&self, offset: f64) {
        // Replaced as a whole: the server may read it at any moment.
        let new = self.directory.path().join("clock.new");
        fs::write(&new, format!("{offset:+.3}\n")).expect("the clock");
        fs::rename(&new, self.clock_path()).expect("the clock");
        sleep(Duration::from_millis(2));
    }

    /// Everything the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Waits until the server has logged something: what another process logs may come after what it has done.
    pub fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.log().contains(text) {
            assert!(Instant::now() < deadline, "never logged: {text}\n{}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the IDs of a new server are not ahead of its clock any more, before it has issued any.
    pub fn settle(&self) {
        self.wait_for_log("IDs begin at ");
        sleep(Duration::from_millis(MAX_BORROW_MS));
    }

    pub fn config(&self) -> Config {
        let mut config = Config::new();
        config.host_path(self.host()).user("postgres").dbname("postgres");
        config
    }

    pub fn connect(&self) -> Client {
        self.try_connect().unwrap_or_else(|error| panic!("{error:?}\n{}", self.log()))
    }

    /// A new session, or why there is none.
    pub fn try_connect(&self) -> Result<Client, postgres::Error> {
        self.config().connect(NoTls)
    }

    /// The directory of the scripts of extensions, which the servers of this process share.
    pub fn extension_scripts(&self) -> &Path {
        self.installation.scripts()
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    pub(crate) fn clock_path(&self) -> PathBuf {
        self.directory.path().join("clock")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A test that has failed is unwinding: another panic would end the process before other servers are stopped.
        if let Some(child) = &mut self.postmaster {
            send(child.id(), Signal::QUIT);
            let deadline = Instant::now() + Duration::from_secs(10);
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        self.traces.keep(&self.data);
        self.traces.keep_held(self.host());
    }
}
