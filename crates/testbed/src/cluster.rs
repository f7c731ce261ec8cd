//! One throwaway server.

use crate::disk::Disk;
use crate::host::{Host, children, make_private};
use crate::installation::Installation;
use crate::overlay::Overlay;
use crate::query::value;
use crate::record::mark_in;
use crate::scratch::{Scratch, processes_in, send};
use crate::traces::{self, Traces};
use postgres::{Client, Config, NoTls};
use rustix::process::Signal;
use snowflake_core::UnixMs;
use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long anything may take that is sure to happen. Far longer than it does: only to end a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// `max_borrow`: how far ahead of its clock a new server begins.
const MAX_BORROW_MS: u64 = 5000;

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

impl Cluster {
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

    /// Where files of events stay that somebody else takes out of the data directory. Each name is kept.
    pub fn held_traces(&self) -> PathBuf {
        self.host().join(traces::HELD)
    }

    /// Keeps what a running server records, even if somebody else makes its data directory anew: its records stay in a
    /// state directory elsewhere, and nobody would know who has written them.
    pub fn hold_trace(&self) {
        let trace = self.data.join(traces::NAME);
        let Ok(found) = fs::metadata(&trace) else { return };
        let held = self.held_traces().join(found.ino().to_string());
        if !held.exists() {
            fs::hard_link(trace, held).expect("another name in one file system");
        }
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
            sleep(Duration::from_millis(5));
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

    /// To be called now and then while a server runs for long: the file of its events has room for the last 4,096.
    pub fn keep_trace(&self) {
        self.traces.keep_on_the_way(&self.data);
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

    /// A new session, or why there is none. A busy machine can have a queue of clients for which there is no room.
    pub fn try_connect(&self) -> Result<Client, postgres::Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.config().connect(NoTls) {
                Err(error) if is_queue_full(&error) && Instant::now() < deadline => sleep(Duration::from_millis(20)),
                session => return session,
            }
        }
    }

    /// The directory of the scripts of extensions, which the servers of this process share.
    pub fn extension_scripts(&self) -> &Path {
        self.installation.scripts()
    }

    /// A script for psql, of the package that this server has.
    pub fn script(&self, name: &str) -> PathBuf {
        self.installation.script(name)
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

fn is_queue_full(error: &postgres::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    cause.is_some_and(|cause| cause.kind() == io::ErrorKind::WouldBlock)
}
