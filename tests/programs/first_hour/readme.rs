//! What README says, up to its last block of SQL.

use super::stranger::{Stranger, block, line, section};
use std::fs;
use std::time::SystemTime;
use testbed::{blocks, project};

const README: &str = "README.md";

pub fn install(stranger: &Stranger) {
    stranger.note("README, Installation:");
    stranger.types("snowflake_pg", &line(&section(README, "## Installation"), "sudo apt install"));
}

/// Returns the worker that the configuration has.
pub fn configure(stranger: &Stranger) -> u64 {
    let installation = section(README, "## Installation");
    let configuration = block(&installation, "ini", "snowflake_pg.worker_id");
    stranger.types("", &format!("sudo tee -a /etc/postgresql/15/main/postgresql.conf <<'END'\n{configuration}END"));
    stranger.types("", &line(&installation, "systemctl"));
    let worker = configuration.lines().find_map(|line| line.strip_prefix("snowflake_pg.worker_id = "));
    worker.and_then(|rest| rest.split(' ').next()?.parse().ok()).expect("a worker")
}

pub fn use_psql(stranger: &Stranger) {
    stranger.note("README, its blocks of SQL:");
    let text = fs::read_to_string(project().join(README)).expect("a document");
    let psql = line(&section(README, "## Installation"), "psql");
    let blocks = blocks(&text);
    let mut orders = 0;
    for (at, sql) in blocks.iter().enumerate().filter(|(_, block)| block.language == "sql") {
        let began = SystemTime::now();
        let printed = stranger.asks_psql(&psql, &sql.text);
        let issues = sql.text.contains("RETURNING") || sql.text.contains("snowflake_nextval()");
        for row in printed.lines().filter(|_| issues) {
            let cells: Vec<_> = row.split('|').map(str::trim).collect();
            if cells[0].len() == 19 && cells[0].parse::<u64>().is_ok() {
                let issued = stranger.must_have_issued(cells[0], began);
                if let [_, _, time] = cells[..] {
                    assert_eq!(stranger.time(time), issued, "{row}");
                    orders += 1;
                }
            }
        }
        match blocks.get(at + 1).map(|next| (next.language.as_str(), next.text.as_str())) {
            Some(("sample", shown)) => assert!(printed.contains(columns(shown)), "{printed}"),
            Some(("text", shown)) if sql.text.contains("EXPLAIN") => {
                assert_eq!(steps(&printed), steps(shown), "{printed}");
            }
            Some(("text", shown)) => assert_eq!(printed.trim_end(), shown.trim_end()),
            _ => {}
        }
    }
    assert_eq!(orders, 2, "tea and cake");
}

fn columns(table: &str) -> &str {
    table.lines().next().unwrap_or_default().trim_end()
}

/// The lines of a plan, whose heading is as wide as they are.
fn steps(printed: &str) -> Vec<&str> {
    let plan = printed.lines().skip_while(|line| !line.contains("QUERY PLAN")).skip(2);
    plan.map(str::trim_end).filter(|line| !line.is_empty()).collect()
}
