//! The machine that the servers run on: its users, processes and libraries.

use crate::scratch::processes;
use crate::test_run::skip;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The user that servers of root run as.
pub(crate) const UNPRIVILEGED: &str = "postgres";

/// Whether this process may become anybody.
pub(crate) fn running_as_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// The host that a server believes it runs on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Its own name, if it has one.
    pub name: Option<String>,
    /// Its own files of the system: their paths and contents.
    pub files: Vec<(&'static str, String)>,
}

impl Host {
    /// The beginning of a command that runs a program, which is to follow, on this host: in namespaces of its own,
    /// which end with it. `scratch` is a directory for its files.
    pub fn command(&self, scratch: &Path) -> Command {
        if self.name.is_none() && self.files.is_empty() {
            // With its path: what is looked for in a PATH of its own is started by fork() of this whole process.
            return Command::new("/usr/bin/env");
        }
        let mut script = "set -e\n".to_owned();
        if let Some(name) = &self.name {
            script += &format!("hostname '{name}'\n");
        }
        for (nth, (path, content)) in self.files.iter().enumerate() {
            let file = scratch.join(format!("of_host_{nth}"));
            fs::write(&file, content).expect("own file");
            script += &format!("mount --bind '{}' '{path}'\n", file.display());
        }
        let mut command = Command::new("unshare");
        command.args(["--uts", "--mount", "--", "sh", "-c", &(script + "exec \"$@\""), "sh"]);
        command
    }

    /// Gives the host a file of the system of its own.
    pub fn put(&mut self, path: &'static str, content: String) {
        self.files.retain(|(other, _)| *other != path);
        self.files.push((path, content));
    }
}

/// Whether servers can have hosts of their own, which root can give them.
pub fn can_name_hosts() -> bool {
    let host = Host { name: Some("pg-3".to_owned()), ..Host::default() };
    let named = host.command(Path::new("")).args(["uname", "-n"]).output();
    named.is_ok_and(|named| named.stdout == b"pg-3\n")
}

/// Skips a test that needs hosts of its own if there can be none.
pub fn need_hosts() {
    if !can_name_hosts() {
        skip("only root can give servers hosts of their own");
    }
}

/// Makes the servers' user the owner of a file or directory; unless root runs this, it is the owner already.
pub(crate) fn give_away(path: &Path) {
    if !running_as_root() {
        return;
    }
    let id = |kind: &str| {
        let output = Command::new("id").args([kind, UNPRIVILEGED]).output().expect("id");
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let (user, group) = (id("-u"), id("-g"));
    assert!(user.is_some(), "there is no user {UNPRIVILEGED}, which Debian's package postgresql-common makes");
    chown(path, user, group).expect("own file or directory");
}

/// Makes a directory that belongs to the servers' user alone, and says where it is.
pub(crate) fn make_private(path: PathBuf) -> PathBuf {
    fs::DirBuilder::new().mode(0o700).create(&path).expect("own directory");
    give_away(&path);
    path
}

/// Makes a file belong to the servers' user alone.
pub fn make_private_file(path: &Path) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("own file");
    give_away(path);
}

/// The processes that a process has started.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let parent_of = |pid: u32| -> io::Result<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The name is in brackets and may contain anything; after it come the state and the parent.
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        Ok(after_name.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or_default())
    };
    processes().filter(|&pid| parent_of(pid).is_ok_and(|its_parent| its_parent == parent)).collect()
}

/// The library that steps a process's clock, from Debian's package libfaketime.
pub(crate) fn faketime() -> PathBuf {
    let libraries = fs::read_dir("/usr/lib").expect("/usr/lib");
    libraries
        .filter_map(|entry| Some(entry.ok()?.path().join("faketime/libfaketime.so.1")))
        .find(|path| path.exists())
        .expect("libfaketime, from Debian's package of that name")
}
