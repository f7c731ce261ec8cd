//! A machine of a suite of Debian: the root that tools/debian_root makes, under an overlay, with processes and a
//! network of its own. Or one that has what this machine has.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use testbed::project;

/// Makes the machine, says so, and waits. `$0` is a directory for it. Before it is ready, its root is that of this
/// machine.
const HOLD: &str = "set -e
mount -t overlay overlay -o lowerdir=\"$2\",upperdir=$0/changes,workdir=$0/work $0/root
mount -t proc proc $0/root/proc
mount --rbind /dev $0/root/dev
mount -t tmpfs tmpfs $0/root/dev/shm
mount -t tmpfs tmpfs $0/root/run
mkdir $0/root/run/postgresql
chroot $0/root chown postgres: /run/postgresql
mkdir $0/root/packages
mount --bind \"$1\" $0/root/packages
ip link set lo up 2>/dev/null || true
exec chroot $0/root sh -c 'echo ready && exec sleep infinity'";

/// What changes without harm: what dpkg and apt note of themselves, servers, and what running programs write.
const NOTES: [&str; 10] = [
    "etc/ld.so.cache",
    "etc/postgresql",
    "packages",
    "root",
    "run",
    "tmp",
    "var/cache",
    "var/lib/apt",
    "var/lib/postgresql",
    "var/log",
];
const DPKG: &str = "var/lib/dpkg";

/// Dropping it ends all its processes, and removes what they wrote; so does the end of this process.
pub struct Machine {
    holder: Child,
    inside: String,
    directory: TempDir,
    transcript: File,
}

impl Machine {
    /// A machine of this suite, on which `packages` is the directory `/packages`. The transcript is a name in
    /// `target/transcripts`.
    pub fn new(suite: &str, packages: &Path, transcript: &str) -> Self {
        Self::above(&project().join("target/roots").join(suite), packages, transcript)
    }

    /// The same with the files of this machine, which has Rust and rpm.
    pub fn like_this(packages: &Path, transcript: &str) -> Self {
        Self::above(Path::new("/"), packages, transcript)
    }

    fn above(root: &Path, packages: &Path, transcript: &str) -> Self {
        let transcripts = project().join("target/transcripts");
        fs::create_dir_all(&transcripts).expect("own directory");
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["changes", "work", "root"] {
            fs::create_dir(directory.path().join(name)).expect("own directory");
        }
        let mut holder = Command::new("unshare")
            .args(["--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "sh", "-c", HOLD])
            .args([directory.path(), packages, root])
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare");
        let mut said = String::new();
        BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut said).expect("text");
        assert_eq!(said, "ready\n", "{} can't be used", root.display());
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let inside = fs::read_to_string(children).expect("a child").trim().to_owned();
        let transcript = File::create(transcripts.join(transcript)).expect("own file");
        Self { holder, inside, directory, transcript }
    }

    fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.inside, "--mount", "--pid", "--net", "--ipc", "--uts", "--root"]);
        command.args([
            "env",
            "-i",
            "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME=/root",
            "LANG=C.UTF-8",
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

    /// Adds to the transcript, as a terminal would show it.
    pub fn show(&self, prompt: &str, typed: &str, said: &str) {
        let newline = if said.is_empty() { "" } else { "\n" };
        write!(&self.transcript, "{prompt} {typed}\n{said}{newline}").expect("own file");
    }

    /// What a script says, which must succeed. The transcript shows it as what is typed at a prompt.
    pub fn must(&self, prompt: &str, typed: &str, script: &str) -> String {
        let said = self.attempt(script);
        self.show(prompt, typed, said.as_ref().unwrap_or_else(|said| said));
        said.unwrap_or_else(|said| panic!("{script}\n{said}"))
    }

    /// A remark in the transcript.
    pub fn note(&self, remark: &str) {
        self.show("\n--", remark, "");
    }

    /// What a script of root says, which must succeed. The transcript shows both.
    pub fn run(&self, script: &str) -> String {
        self.must("#", script, script)
    }

    /// What psql prints of SQL, as the superuser.
    pub fn sql(&self, sql: &str) -> String {
        self.must("postgres=#", sql, &psql(sql))
    }

    /// The same of a script, which may have psql's commands, such as `\gexec`.
    pub fn sql_script(&self, script: &str) -> String {
        let psql = "runuser -u postgres -- psql -XAt -v ON_ERROR_STOP=1";
        self.must("postgres=#", script, &format!("{psql} <<'END'\n{script}\nEND"))
    }

    /// Copies a file of this machine into a directory of that one.
    pub fn put(&self, file: &Path, directory: &str) {
        let into = Path::new("/proc").join(&self.inside).join("root").join(directory);
        fs::copy(file, into.join(file.file_name().expect("a file"))).expect("a copy");
    }

    /// Every link of the documents in a directory to a file leads to one that is there.
    pub fn follow_links(&self, directory: &str) {
        let dead = self.run(&format!(
            r#"cd {directory} && find . -name '*.md' | while read -r page; do
    grep -oE '\]\([^):]*\)' "$page" | sed 's/^](//; s/)$//; s/#.*//' | while read -r to; do
        test -e "$(dirname "$page")/$to" || echo "$page: $to"
    done
done"#
        ));
        assert_eq!(dead, "", "dead links");
    }

    /// The files that are not as in the root, but for the notes of dpkg.
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
impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
