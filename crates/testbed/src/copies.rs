//! Servers that come from other servers: standbys, copies, backups, upgrades.

use crate::builder::Builder;
use crate::cluster::{Cluster, PATIENCE};
use crate::host::make_private_file;
use crate::query::{is_true, value};
use crate::traces;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The file of lives, of which each is a new inode.
const LIFE: &str = "snowflake_pg.life";

impl Builder {
    /// A copy of a running server, made by pg_basebackup. Not started, and no standby.
    pub fn backup_of(self, source: &Cluster) -> Cluster {
        let cluster = self.empty();
        cluster.back_up(source);
        self.configure(&cluster);
        cluster
    }

    /// A standby that streams from a running server.
    pub fn standby_of(self, primary: &Cluster) -> Cluster {
        let mut standby = self.backup_of(primary);
        standby.follow(primary);
        standby
    }

    /// A copy of a stopped server, file by file. Not started.
    pub fn copy_of(self, stopped: &Cluster) -> Cluster {
        let cluster = self.empty();
        run(Command::new("cp").arg("-a").arg(stopped.data()).arg(cluster.data()));
        self.configure(&cluster);
        cluster
    }

    /// One of several clones of the machine of a stopped server: it finds the same files, with the same inodes, and
    /// what it writes from then on is its own. Not started. `None` if that can't be done, as by anybody except root.
    pub fn clone_of(self, stopped: &Cluster) -> Option<Cluster> {
        let mut cluster = self.empty();
        // What is in the upper layer before it is mounted takes the place of what is below.
        cluster.data = cluster.make_directory("upper");
        let configuration = cluster.data.join("postgresql.conf");
        fs::copy(stopped.data().join("postgresql.conf"), &configuration).expect("postgresql.conf");
        self.configure(&cluster);
        make_private_file(&configuration);
        cluster.lay_over(stopped.data()).then_some(cluster)
    }

    /// The server that pg_upgrade makes from a stopped one, which was built as [`Builder::old`]. Not started.
    pub fn upgrade_of(mut self, old: &Cluster) -> Cluster {
        self.checksums = true;
        let new = self.create();
        let _needed = new.program("pg_upgrade");
        let mut upgrade = new.command("pg_upgrade");
        upgrade.args(["--username=postgres", "--old-bindir"]).arg(old.bindir()).arg("--new-bindir").arg(new.bindir());
        upgrade.arg("--old-datadir").arg(old.data()).arg("--new-datadir").arg(new.data());
        if !upgrade.output().expect("pg_upgrade").status.success() {
            let logs = format!("tail -n 20 {}/pg_upgrade_output.d/*/log/*.log", new.data().display());
            let said = Command::new("sh").args(["-c", &logs]).output().expect("sh");
            panic!("pg_upgrade: {}", String::from_utf8_lossy(&said.stdout));
        }
        new
    }
}

impl Cluster {
    /// Replaces the extension's files under a server with an installation of its own, which may run: what the upgrade
    /// of a package does.
    pub fn install(&self, sources: &Path, library: &Path) {
        assert!(Arc::strong_count(&self.installation) == 1, "others have this installation");
        self.installation.install(sources, library);
    }

    /// Fills the data directory, which is empty or missing, from a running server.
    fn back_up(&self, source: &Cluster) {
        let mut backup = self.command("pg_basebackup");
        backup.args(["--checkpoint=fast", "--no-sync", "--username=postgres", "--host"]).arg(source.host());
        run(backup.arg("--pgdata").arg(self.data()));
    }

    /// Empties the data directory of a stopped server, and fills it again with a base backup of another one. Keeps its
    /// configuration.
    pub fn clone_anew(&self, source: &Cluster) {
        self.preserve_configuration(|| {
            self.empty();
            self.back_up(source);
        });
    }

    /// Removes everything in the data directory.
    fn empty(&self) {
        for entry in fs::read_dir(self.data()).expect("the data directory") {
            let path = entry.expect("an entry").path();
            let is_directory = path.is_dir() && !path.is_symlink();
            let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.expect("an entry of the data directory");
        }
    }

    /// Keeps the data directory of a stopped server as a snapshot of its volume would: the file of lives with its
    /// inode.
    pub fn snapshot(&self) -> PathBuf {
        let snapshot = self.host().join("snapshot");
        run(Command::new("cp").arg("-a").arg(self.data()).arg(&snapshot));
        fs::remove_file(snapshot.join(LIFE)).expect("a copy");
        fs::hard_link(self.data().join(LIFE), snapshot.join(LIFE)).expect("the file itself");
        snapshot
    }

    /// Puts the data directory of a stopped server back to its snapshot, once.
    pub fn put_back(&self, snapshot: &Path) {
        let (trace, kept) = (self.data().join(traces::NAME), self.host().join(traces::NAME));
        fs::rename(&trace, &kept).expect("the file itself");
        self.empty();
        fs::rename(snapshot.join(LIFE), self.data().join(LIFE)).expect("the file itself");
        run(Command::new("cp").arg("-a").arg(snapshot.join(".")).arg(self.data()));
        fs::rename(&kept, &trace).expect("the file itself");
        fs::write(&trace, fs::read(snapshot.join(traces::NAME)).expect("a copy")).expect("own file");
    }

    /// Runs something that replaces postgresql.conf, and puts the old one back.
    fn preserve_configuration<T>(&self, replace: impl FnOnce() -> T) -> T {
        let configuration = self.data().join("postgresql.conf");
        let ours = fs::read(&configuration).expect("postgresql.conf");
        let replaced = replace();
        fs::write(&configuration, ours).expect("postgresql.conf");
        replaced
    }

    /// Starts a stopped server as a standby, and waits until it streams.
    pub fn follow(&mut self, primary: &Cluster) {
        fs::write(self.data().join("standby.signal"), "").expect("a standby");
        self.configure("primary_conninfo", format!("host={} user=postgres", primary.host().display()));
        // A standby that has lost its primary may sleep that long before it notices its promotion.
        self.configure("wal_retrieve_retry_interval", "100ms");
        self.start();
        primary.wait_until("SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming')");
    }

    /// Makes a standby a primary, and waits until it is one.
    pub fn promote(&self) {
        assert_eq!(value(&mut self.connect(), "SELECT pg_promote()"), "t", "{}", self.log());
    }

    /// Waits until a standby has replayed every commit of its running primary up to now.
    pub fn wait_for_commits_of(&self, primary: &Cluster) {
        let end = value(&mut primary.connect(), "SELECT pg_current_wal_flush_lsn()");
        self.wait_until(&format!("SELECT pg_last_wal_replay_lsn() >= '{end}'::pg_lsn"));
    }

    /// Waits until a standby has replayed everything from its primary, which has been shut down.
    pub fn wait_for_replay_of(&self, stopped: &Cluster) {
        let output = self.command("pg_controldata").arg(stopped.data()).output().expect("pg_controldata");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let end = text.lines().find_map(|line| line.strip_prefix("Latest checkpoint location:"));
        let end = end.unwrap_or_else(|| panic!("the last checkpoint in:\n{text}")).trim();
        self.wait_until(&format!("SELECT pg_last_wal_replay_lsn() > '{end}'::pg_lsn"));
    }

    /// Rewinds a stopped server by pg_rewind to where it can follow another one. Keeps its configuration.
    pub fn rewind(&self, source: &Cluster) {
        self.rewind_if_ahead(source);
    }

    /// The same. Returns whether it had WAL that the other one has not.
    pub fn rewind_if_ahead(&self, source: &Cluster) -> bool {
        // A server that has just been promoted has its new timeline in its control file after the next checkpoint.
        source.connect().batch_execute("CHECKPOINT").expect("a checkpoint");
        self.preserve_configuration(|| {
            let mut rewind = self.command("pg_rewind");
            rewind.arg("--no-sync").arg("--target-pgdata").arg(self.data()).arg("--source-server");
            let said = run(rewind.arg(format!("host={} user=postgres dbname=postgres", source.host().display())));
            !said.contains("no rewind required")
        })
    }

    /// Archives WAL in a directory of this server, from its next start on.
    pub fn archive(&self) {
        let archive = self.make_directory("archive");
        self.configure("archive_mode", "on");
        self.configure("archive_command", format!("cp %p {}/%f", archive.display()));
    }

    /// Waits until everything that was written up to now is in the archive.
    pub fn wait_for_archive(&self) {
        let segment = value(&mut self.connect(), "SELECT pg_walfile_name(pg_switch_wal())");
        self.wait_until(&format!("SELECT coalesce(last_archived_wal >= '{segment}', false) FROM pg_stat_archiver"));
    }

    /// Starts a backup that recovers to a point in time from another server's archive, and waits until it is a primary.
    pub fn recover(&mut self, source: &Cluster, until: &str) {
        self.begin_to_recover(source, until, "promote");
        self.wait_until("SELECT NOT pg_is_in_recovery()");
    }

    /// Starts a backup that recovers to a point in time from another server's archive, and waits until it is there.
    /// There it can be read, until it is promoted.
    pub fn recover_and_pause(&mut self, source: &Cluster, until: &str) {
        self.begin_to_recover(source, until, "pause");
        self.wait_until("SELECT pg_get_wal_replay_pause_state() = 'paused'");
    }

    fn begin_to_recover(&mut self, source: &Cluster, until: &str, action: &str) {
        fs::write(self.data().join("recovery.signal"), "").expect("a recovery");
        self.configure("archive_mode", "off");
        self.configure("restore_command", format!("cp {}/archive/%f %p", source.host().display()));
        self.configure("recovery_target_time", until);
        self.configure("recovery_target_action", action);
        self.start();
    }

    /// Restores a dump of another server's database.
    pub fn restore_dump_of(&self, source: &Cluster) {
        let file = self.host().join("dump");
        let mut dump = self.command("pg_dump");
        dump.args(["--username=postgres", "--host"]).arg(source.host()).arg("--file").arg(&file);
        run(dump.arg("postgres"));
        run(self.psql().args(["--set=ON_ERROR_STOP=1", "--file"]).arg(&file));
    }

    /// Waits until a query returns one row, and true.
    pub fn wait_until(&self, query: &str) {
        let (mut client, deadline) = (self.connect(), Instant::now() + PATIENCE);
        while !is_true(&mut client, query) {
            assert!(Instant::now() < deadline, "never true: {query}\n{}", self.log());
            sleep(Duration::from_millis(20));
        }
    }
}

/// Runs a program that must succeed. Returns what it has said.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}:\n{said}");
    said
}
