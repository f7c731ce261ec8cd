//! Where the time of a statement goes: samples of its backend's processor time, by function.
//!
//! Run with `make demo NAME=profile`.

use std::cmp::Ordering;
use std::error::Error;
use std::process::{Command, Stdio};
use testbed::{Cluster, value};

/// Statements that run for a second or more.
const STATEMENTS: [(&str, &str); 5] = [
    ("snowflake_nextval()", "SELECT count(*) FROM (SELECT {25} FROM generate_series(1, 2000000) i OFFSET 0) calls"),
    ("clock_timestamp()", "SELECT count(*) FROM (SELECT {25} FROM generate_series(1, 2000000) i OFFSET 0) calls"),
    ("nextval('plain')", "SELECT count(*) FROM (SELECT {25} FROM generate_series(1, 300000) i OFFSET 0) calls"),
    ("INSERT ... SELECT", "INSERT INTO ours (n) SELECT generate_series(1, 1000000)"),
    ("INSERT ... SELECT with identity", "INSERT INTO theirs (n) SELECT generate_series(1, 1000000)"),
];

/// How many functions are shown of each.
const SHOWN: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    // With this layout the code is the limit, and no backend ever waits.
    let server = Cluster::builder().worker(0).set("snowflake_pg.layout", "t41 w2 s20").start();
    let mut client = server.connect();
    client.batch_execute(
        "CREATE EXTENSION snowflake_pg; CREATE SEQUENCE plain; SET jit = off;
         CREATE TABLE ours (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer);
         CREATE TABLE theirs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n integer)",
    )?;
    let process = value(&mut client, "SELECT pg_backend_pid()");
    let samples = server.host().join("perf.data");
    for (name, statement) in STATEMENTS {
        let mut perf = Command::new("perf")
            .args(["record", "--event=cpu-clock", "--freq=4000", "--pid", &process, "--output"])
            .arg(&samples)
            .stderr(Stdio::null())
            .spawn()?;
        client.batch_execute(&statement.replace("{25}", &vec![name; 25].join(", ")))?;
        Command::new("kill").args(["-INT", &perf.id().to_string()]).status()?;
        perf.wait()?;
        let report = Command::new("perf")
            .args([
                "report",
                "--stdio",
                "--no-children",
                "--sort=dso,symbol",
                "--fields=overhead,dso,symbol",
                "--input",
            ])
            .arg(&samples)
            .stderr(Stdio::null())
            .output()?;
        println!("\n{name}");
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        let share = |line: &&str| line.split_once('%').and_then(|(share, _)| share.trim().parse::<f64>().ok());
        let mut lines: Vec<_> = report.lines().filter(|line| share(line).is_some()).collect();
        lines.sort_by(|one, other| share(other).partial_cmp(&share(one)).unwrap_or(Ordering::Equal));
        lines.iter().take(SHOWN).for_each(|line| println!("{}", line.trim_end_matches([' ', '-'])));
    }
    Ok(())
}
