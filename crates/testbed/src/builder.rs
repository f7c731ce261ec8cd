//! How a throwaway server is described, and made.

use crate::cluster::Cluster;
use crate::disk::{Disk, LIBRARY, install_library};
use crate::host::{Host, give_away, make_private};
use crate::installation::Installation;
use crate::scratch::Scratch;
use crate::template;
use crate::test_run::is_testing;
use crate::traces::Traces;

/// How far the durable mark of a test's server runs ahead, unless the test sets that: a new server issues its first ID
/// after half a second, rather than after two.
pub const RESERVE_AHEAD_MS: u32 = 500;

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

impl Cluster {
    /// A server that is to be described further.
    pub fn builder() -> Builder {
        Builder::default()
    }
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

    /// The extension's defaults instead of the testbed's short waits, for tests that are about them. A new server waits
    /// two seconds, as if its mark was lost.
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

    /// A server without a data directory, which the caller makes and runs. What it has recorded is lost with that,
    /// unless the caller [holds](Cluster::hold_trace) it.
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
        if is_testing() {
            // A start and a shutdown look through all of them, and to compile a query takes longer than to run it.
            cluster.configure("shared_buffers", "16MB");
            cluster.configure("jit", "off");
        }
        if is_testing() && is_preloaded && self.waits == Waits::Short {
            cluster.configure("snowflake_pg.reserve_ahead", RESERVE_AHEAD_MS);
        }
        if is_testing() && is_preloaded && self.waits != Waits::All {
            cluster.configure("snowflake_pg.max_first_wait", 0);
        }
        for (name, value) in &self.settings {
            cluster.configure(name, value);
        }
    }
}
