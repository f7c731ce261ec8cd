//! Programs that run as a server would run them: as its user, by its clock and on its disk.

use crate::cluster::Cluster;
use crate::disk::LIBRARY;
use crate::host::{UNPRIVILEGED, faketime, running_as_root};
use crate::test_run::skip;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

impl Cluster {
    /// A program that some builds of PostgreSQL lack. There, a test that needs it is skipped.
    pub fn program(&self, name: &str) -> PathBuf {
        let program = self.installation.program(name);
        if program.exists() { program } else { skip(format_args!("this PostgreSQL has no {name}")) }
    }

    /// A command for psql on this server, silent except for results and errors.
    pub fn psql(&self) -> Command {
        let mut psql = Command::new(self.program("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--username=postgres", "--dbname=postgres", "--host"]).arg(self.host());
        psql
    }

    /// The environment variables of libpq that lead clients to this server.
    pub fn environment(&self) -> [(&str, &OsStr); 3] {
        let text = OsStr::new("postgres");
        [("PGHOST", self.host().as_os_str()), ("PGUSER", text), ("PGDATABASE", text)]
    }

    /// A program of PostgreSQL's, run by the servers' user, by the server's clock, that ends when this process does.
    pub(crate) fn command(&self, program: &str) -> Command {
        self.command_under(&[], program)
    }

    fn command_under(&self, runner: &[&str], program: &str) -> Command {
        let mut command = self.foreign_command();
        command.args(self.preloaded()).args(runner).arg(self.installation.program(program));
        command
    }

    /// The beginning of a command that runs somebody else's program, which is to follow, on the machine of this server:
    /// as its user, and until this process ends.
    pub fn foreign_command(&self) -> Command {
        let mut command = match &self.overlay {
            Some(overlay) => overlay.command(),
            None => self.on_host.command(self.directory.path()),
        };
        command.args(["setpriv", "--pdeathsig", "QUIT"]);
        if running_as_root() {
            command.args(["--reuid", UNPRIVILEGED, "--regid", UNPRIVILEGED, "--init-groups"]);
        }
        // In a group of its own: Ctrl-C in a terminal is for this process, which then ends its servers.
        command
            .process_group(0)
            .current_dir(self.directory.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // By env, and not around setpriv: what root's process makes, the servers' user can't use.
        command.args(["--", "env"]).args(&self.environment);
        command
    }

    /// Variables with which a program of PostgreSQL's has the clock and the disk of this server.
    pub fn preloaded(&self) -> Vec<String> {
        let mut variables = Vec::new();
        // Ours comes first: it must be before libfaketime.
        let mut preloaded = vec![self.directory.path().join(LIBRARY)];
        if self.own_clock {
            // One file a server, read at every look at the clock. Monotonic time stays true, as it does in reality.
            preloaded.push(faketime());
            // Up to 0.9.10, stat() takes a semaphore of all processes for it: one that is killed there stops the
            // server.
            let quiet = ["FAKETIME_NO_CACHE=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1", "NO_FAKE_STAT=1"];
            variables.extend(quiet.map(str::to_owned));
            variables.push(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock_path().display()));
        }
        if let Some(disk) = &self.disk {
            variables.extend(disk.environment());
        }
        if self.own_clock || self.disk.is_some() {
            let preloaded: Vec<_> = preloaded.iter().map(|path| path.display().to_string()).collect();
            variables.push(format!("LD_PRELOAD={}", preloaded.join(":")));
        }
        variables
    }

    /// The directory of PostgreSQL's programs.
    pub fn bindir(&self) -> PathBuf {
        let postgres = self.installation.program("postgres");
        postgres.parent().expect("a program lies in a directory").to_owned()
    }

    /// Runs statements, one a line, on a stopped server in single-user mode, and returns what it prints.
    pub fn single_user(&self, statements: &str) -> String {
        self.single_user_under(&[], statements)
    }

    /// Runs the statements with PostgreSQL's program under another one: valgrind, for example.
    pub fn single_user_under(&self, runner: &[&str], statements: &str) -> String {
        assert!(self.postmaster.is_none(), "a running server");
        let mut command = self.command_under(runner, "postgres");
        command.arg("--single").arg("-D").arg(&self.data).arg("postgres");
        let log = File::options().create(true).append(true).open(self.log_path()).expect("the server's log");
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().expect("single-user mode");
        child.stdin.take().expect("a pipe").write_all(statements.as_bytes()).expect("a server that reads");
        let output = child.wait_with_output().expect("single-user mode");
        assert!(output.status.success(), "{}", self.log());
        String::from_utf8(output.stdout).expect("text")
    }
}
