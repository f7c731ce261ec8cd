//! Draws docs/first-minute.svg: what README shows first, typed into psql on a new server. `target/first-minute.cast` is
//! the recording, in asciinema's format, and termtosvg-ng draws it.
//!
//! Run with `make picture NAME=first-minute`.

use serde_json::json;
use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Cluster, blocks, project};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The blocks of README that are typed, by words in them.
const TYPED: [&str; 3] = ["CREATE EXTENSION", "snowflake_decode(", "EXPLAIN"];

const DATABASE: &str = "shop";

/// How wide the terminal is: the longest line fits.
const COLUMNS: usize = 104;

/// psql's prompts, in a color that tells what is typed from what is answered.
const PROMPTS: &str = "-v PROMPT1='%033[32m%/=#%033[0m ' -v PROMPT2='%033[32m%/-#%033[0m '";
const PROMPT_END: &str = "#\u{1b}[0m ";

/// Each part that is typed at once is a picture of the animation.
const PART: usize = 12;
const AFTER_PART: Duration = Duration::from_millis(180);
const AFTER_ANSWER: Duration = Duration::from_millis(1500);

/// psql at a terminal, and what that has shown so far, with the seconds since the beginning.
struct Recording {
    began: Instant,
    shown: Receiver<Vec<u8>>,
    events: Vec<(f64, String)>,
}

impl Recording {
    /// Returns when psql waits for a line.
    fn until_prompt(&mut self) -> Result<()> {
        let mut said = String::new();
        while !said.ends_with(PROMPT_END) {
            let bytes = self.shown.recv()?;
            let text = String::from_utf8(bytes)?;
            said.push_str(&text);
            self.events.push((self.began.elapsed().as_secs_f64(), text));
        }
        Ok(())
    }

    /// All that has come by now.
    fn until_silence(&mut self) -> Result<()> {
        while let Ok(bytes) = self.shown.recv_timeout(AFTER_PART) {
            self.events.push((self.began.elapsed().as_secs_f64(), String::from_utf8(bytes)?));
        }
        Ok(())
    }

    /// In asciinema's format, version 2. All lines fit, so that the last picture shows everything.
    fn cast(&self) -> String {
        let rows = 1 + self.events.iter().map(|(_, text)| text.matches('\n').count()).sum::<usize>();
        let header = json!({"version": 2, "width": COLUMNS, "height": rows});
        let events = self.events.iter().map(|(at, text)| json!([at, "o", text]).to_string());
        [header.to_string()].into_iter().chain(events).map(|line| line + "\n").collect()
    }
}

/// What is typed, line by line.
fn lines() -> Result<Vec<String>> {
    let readme = fs::read_to_string(project().join("README.md"))?;
    let blocks = blocks(&readme);
    let shown =
        blocks.iter().filter(|block| block.language == "sql" && TYPED.iter().any(|words| block.text.contains(words)));
    Ok(shown.flat_map(|block| block.text.lines()).map(str::to_owned).collect())
}

/// Some words of a line at a time.
fn parts(line: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for word in line.split_inclusive(' ') {
        match parts.last_mut().filter(|part| part.len() < PART) {
            Some(part) => part.push_str(word),
            None => parts.push(word.to_owned()),
        }
    }
    parts
}

/// Types README's blocks into psql, at a pace that can be read.
fn record(server: &Cluster) -> Result<Recording> {
    let psql = format!("{} -X -n -P pager=off {PROMPTS}", server.psql().get_program().display());
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--flush", "--return", "--command", &psql, "/dev/null"]);
    terminal.envs(server.environment()).env("PGDATABASE", DATABASE);
    let mut terminal = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (mut keys, mut screen) = (terminal.stdin.take().ok_or("no input")?, terminal.stdout.take().ok_or("no output")?);
    let (sender, shown) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 65536];
        while let Ok(length @ 1..) = screen.read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    let mut recording = Recording { began: Instant::now(), shown, events: Vec::new() };
    recording.until_prompt()?;
    // Without psql's greeting.
    recording.events = vec![(0.0, format!("\u{1b}[32m{DATABASE}={PROMPT_END}"))];
    for line in lines()? {
        for part in parts(&line) {
            keys.write_all(part.as_bytes())?;
            recording.until_silence()?;
        }
        keys.write_all(b"\n")?;
        recording.until_prompt()?;
        sleep(if line.ends_with(';') { AFTER_ANSWER } else { AFTER_PART });
    }
    terminal.kill()?;
    terminal.wait()?;
    Ok(recording)
}

fn main() -> Result<()> {
    println!("==> Typing README's SQL into psql (half a minute)");
    let server = Cluster::builder().worker(0).set("timezone", "UTC").start();
    server.connect().batch_execute(&format!("CREATE DATABASE {DATABASE}"))?;
    let (cast, picture) = (project().join("target/first-minute.cast"), project().join("docs/first-minute.svg"));
    fs::write(&cast, record(&server)?.cast())?;
    let mut termtosvg = Command::new(project().join("target/termtosvg/bin/termtosvg"));
    let template = project().join("crates/demos/src/bin/first_minute_picture/template.svg");
    let drawn = termtosvg.arg("render").args([&cast, &picture]).arg("--template").arg(template).output()?;
    drawn.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&drawn.stderr).into_owned())?;
    println!("==> Drawn: docs/first-minute.svg, of target/first-minute.cast");
    Ok(())
}
