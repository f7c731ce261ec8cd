//! A stranger at a machine of Debian 12, on which PostgreSQL runs as its package has made it, and who may use sudo.

use crate::packages::{Machine, from_make};
use std::fs;
use std::time::SystemTime;
use testbed::{blocks, project};

/// When the timestamps of the default layout begin: README says until when they last.
const EPOCH_MS: u64 = 1_288_834_974_657;

/// How far the time in an ID may be ahead of the clock.
const MAX_BORROW_MS: u64 = 5_000;

pub struct Stranger {
    machine: Machine,
    /// The number of the server, once it is configured.
    pub worker: u64,
}

impl Stranger {
    pub fn new() -> Self {
        let debs = from_make("SNOWFLAKE_PG_DEBS");
        let fetched = project().join("target/first-hour");
        let machine = Machine::new("bookworm-first-hour", &fetched, "first-hour.txt");
        machine.note("A machine of Debian 12 with PostgreSQL 15, Python, Node.js and Ruby, of which Ada is a user:");
        let prepared = machine.attempt(
            "hostname debian
echo '127.0.0.1 localhost debian' >/etc/hosts
useradd --create-home --shell /bin/bash ada
printf 'ada ALL=(ALL) NOPASSWD: ALL
Defaults env_keep += DEBIAN_FRONTEND
' >/etc/sudoers.d/ada
echo 'Dpkg::Use-Pty 0;' >/etc/apt/apt.conf.d/plain
printf '#!/bin/sh\nexec pg_ctlcluster 15 main \"$1\"\n' >/usr/local/bin/systemctl
chmod +x /usr/local/bin/systemctl
mkdir -p /home/ada/snowflake_pg/target/deb
cp -r /packages/npm /home/ada/.npm
chown -R ada: /home/ada",
        );
        prepared.expect("a user");
        machine.run("pg_createcluster 15 main --start");
        for entry in fs::read_dir(debs).expect("packages").map(|entry| entry.expect("an entry").path()) {
            if entry.extension().is_some_and(|extension| extension == "deb") {
                machine.put(&entry, "home/ada/snowflake_pg/target/deb");
            }
        }
        machine.note("PyPI and npm are what make has fetched, and systemctl is a script, as there is no systemd.");
        machine.note("Ada has built the package in ~/snowflake_pg by make pack NAME=deb, as README says.");
        Self { machine, worker: u64::MAX }
    }

    pub fn note(&self, remark: &str) {
        self.machine.note(remark);
    }

    /// What a shell says in a directory of the stranger's home.
    pub fn types(&self, directory: &str, script: &str) -> String {
        let as_ada = format!(
            "cd /home/ada/{directory} && exec runuser -u ada -- env HOME=/home/ada USER=ada PIP_NO_INDEX=yes \\
    PIP_FIND_LINKS=/packages/wheels PIP_DISABLE_PIP_VERSION_CHECK=yes npm_config_offline=true \\
    npm_config_update_notifier=false sh -euc \"$(cat <<'TYPED'\n{script}\nTYPED\n)\""
        );
        let home = if directory.is_empty() { "~" } else { "~/" };
        self.machine.must(&format!("{home}{directory}$"), script, &as_ada)
    }

    /// Writes a file of the directory, or more lines at its end (`>>`).
    pub fn edits(&self, directory: &str, into: &str, text: &str) {
        self.types(directory, &format!("cat {into} <<'END'\n{}\nEND", text.trim_end()));
    }

    /// What psql says, which is started by this command. The transcript shows the first of many rows.
    pub fn asks_psql(&self, command: &str, sql: &str) -> String {
        let said = self.machine.attempt(&format!("{command} -X -v ON_ERROR_STOP=1 <<'END'\n{sql}END"));
        let text = said.as_ref().unwrap_or_else(|said| said);
        let lines: Vec<_> = text.lines().collect();
        let cut = lines.len().saturating_sub(20);
        let shown =
            if cut < 20 { lines.join("\n") } else { [&lines[..10], &["…"], &lines[10 + cut..]].concat().join("\n") };
        self.machine.show("postgres=#", sql.trim_end(), &shown);
        said.unwrap_or_else(|said| panic!("{sql}\n{said}"))
    }

    /// Milliseconds, by the clock of the machine.
    pub fn time(&self, text: &str) -> u64 {
        let ms = self.machine.attempt(&format!("date -d '{text}' +%s%3N")).expect("a time");
        ms.parse().expect("milliseconds")
    }

    /// The text is an ID of this server, issued since this time. When it says that it was, in milliseconds.
    pub fn must_have_issued(&self, id: &str, since: SystemTime) -> u64 {
        let id: u64 = id.parse().unwrap_or_else(|_| panic!("{id} is no ID"));
        assert_eq!((id >> 12) & 0x3ff, self.worker, "the worker of {id}");
        let issued = (id >> 22) + EPOCH_MS;
        let ms = |time: SystemTime| {
            let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).expect("a time after 1970");
            u64::try_from(since_1970.as_millis()).expect("milliseconds")
        };
        let possible = ms(since)..=ms(SystemTime::now()) + MAX_BORROW_MS;
        assert!(possible.contains(&issued), "{id} says {issued}, not {possible:?}");
        issued
    }
}

/// The part of a document with this heading, up to the next one like it.
pub fn section(document: &str, heading: &str) -> String {
    let text = fs::read_to_string(project().join(document)).expect("a document");
    let (_, part) = text.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{document}: {heading}"));
    part.split("\n## ").next().unwrap_or_default().to_owned()
}

/// The first block of a part that has these words.
pub fn block(part: &str, language: &str, words: &str) -> String {
    let found = blocks(part).into_iter().find(|block| block.language == language && block.text.contains(words));
    found.unwrap_or_else(|| panic!("no block of {language} with {words}")).text
}

/// The first code in a sentence of a part that has these words.
pub fn code(part: &str, words: &str) -> String {
    let sentences: String = part.split("```").step_by(2).collect();
    let found = sentences.split('`').skip(1).step_by(2).find(|code| code.contains(words));
    found.unwrap_or_else(|| panic!("no code with {words}")).to_owned()
}

/// The first line of a part's blocks for shells that has these words, without its comment.
pub fn line(part: &str, words: &str) -> String {
    let text = block(part, "sh", words);
    let line = text.lines().find(|line| line.contains(words)).expect("a line");
    line.split(" #").next().unwrap_or_default().trim_end().to_owned()
}
