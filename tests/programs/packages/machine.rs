//! A copy of this machine: its files under an overlay, with processes and a network of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Makes the copy, says so, and waits. `$0` is a directory for it.
const HOLD: &str = "set -e
mount -t overlay overlay -o lowerdir=/,upperdir=$0/changes,workdir=$0/work $0/root
mount -t proc proc $0/root/proc
mount --rbind /dev $0/root/dev
mount -t tmpfs tmpfs $0/root/dev/shm
mount -t tmpfs tmpfs $0/root/run
mkdir $0/root/run/postgresql
chown postgres: $0/root/run/postgresql
mkdir $0/root/packages
mount --bind \"$1\" $0/root/packages
ip link set lo up 2>/dev/null || true
echo ready
exec chroot $0/root sleep infinity";

/// What changes without harm: what dpkg and apt note of themselves, and what running programs write.
const NOTES: [&str; 8] = ["etc/ld.so.cache", "packages", "root", "run", "tmp", "var/cache", "var/lib/apt", "var/log"];
const DPKG: &str = "var/lib/dpkg";

/// Dropping it ends all its processes, and removes what they wrote; so does the end of this process.
pub struct Machine {
    holder: Child,
    inside: String,
    directory: TempDir,
}

impl Machine {
    /// A copy on which `packages` is the directory `/packages`.
    pub fn new(packages: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["changes", "work", "root"] {
            fs::create_dir(directory.path().join(name)).expect("own directory");
        }
        let mut holder = Command::new("unshare")
            .args(["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-c", HOLD])
            .args([directory.path(), packages])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut said = String::new();
        BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut said).expect("text");
        assert_eq!(said, "ready\n", "this machine can't be copied");
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let inside = fs::read_to_string(children).expect("a child").trim().to_owned();
        Self { holder, inside, directory }
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.inside, "--mount", "--pid", "--net", "--ipc", "--uts", "--root"]);
        command.args([
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "DEBIAN_FRONTEND=noninteractive",
        ]);
        command.args(["sh", "-c", script]);
        command
    }

    /// What a script of root says, which succeeds or does not.
    pub fn attempt(&self, script: &str) -> Result<String, String> {
        let output =
            self.command(&format!("exec 2>&1\ncd /\n{script}")).stdin(Stdio::null()).output().expect("nsenter");
        let said = String::from_utf8(output.stdout).expect("text").trim_end().to_owned();
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    /// What a script of root says, which must succeed. The transcript shows both.
    pub fn run(&self, script: &str) -> String {
        let said = self.attempt(script);
        println!("# {script}\n{}", said.as_ref().unwrap_or_else(|said| said));
        said.unwrap_or_else(|said| panic!("{script}\n{said}"))
    }

    /// What psql prints of SQL, as the superuser.
    pub fn sql(&self, sql: &str) -> String {
        self.run(&psql(sql))
    }

    /// Copies a file of this machine into a directory of the copy.
    pub fn put(&self, file: &Path, directory: &str) {
        let into = Path::new("/proc").join(&self.inside).join("root").join(directory);
        fs::copy(file, into.join(file.file_name().expect("a file"))).expect("a copy");
    }

    /// The files that are not as on the machine that was copied, but for the notes of dpkg.
    pub fn changes(&self) -> Vec<PathBuf> {
        let root = self.directory.path().join("changes");
        let mut found = Vec::new();
        let mut directories = vec![root.clone()];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).expect("own directory").map(|entry| entry.expect("an entry")) {
                let path = entry.path();
                let name = path.strip_prefix(&root).expect("inside").to_path_buf();
                let is_note = NOTES.iter().any(|note| name.starts_with(note))
                    || name.starts_with(DPKG) && !name.to_string_lossy().contains("snowflake");
                if is_note {
                    continue;
                }
                if entry.file_type().expect("a type").is_dir() {
                    directories.push(path);
                } else {
                    found.push(name);
                }
            }
        }
        found.sort();
        found
    }
}

/// A command that prints what SQL returns.
pub fn psql(sql: &str) -> String {
    format!("runuser -u postgres -- psql -XAtq -v ON_ERROR_STOP=1 -c \"{sql}\"")
}

/// A command that gives psql a script, which may have its commands, such as `\gexec`.
pub fn psql_script(script: &str) -> String {
    format!("runuser -u postgres -- psql -XAt -v ON_ERROR_STOP=1 <<'END'\n{script}\nEND")
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
