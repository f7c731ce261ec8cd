//! Measures `snowflake_nextval()` beside everything else that could give a row its key, in the same run.
//!
//! `make bench` runs all parts, `make bench PARTS="cost insert"` some of them, and `make bench QUICK=1` all of them in
//! short. Contenders take turns: a round measures each of them once, so that a machine whose speed drifts drifts for
//! all. What is printed is the median over the rounds, with the least and the most. The results go to target/bench (of
//! some parts, or in short: to target/bench-part), as JSON, Markdown and pictures.

mod batches;
mod clients;
mod contenders;
mod cost;
mod created_at;
mod decoding;
mod effort;
mod fdw;
mod feed;
mod growth;
mod insert;
mod last_page;
mod latency;
mod low_load;
mod measure;
mod pgbench;
mod place;
mod retries;
mod saturation;
mod servers;
mod settings;
mod standby;
mod targets;
mod waiting;

use crate::effort::Effort;
use crate::servers::Servers;
use bench_report::{Machine, Report};
use std::process::ExitCode;
use std::time::Instant;

/// One question, and how it is answered.
struct Part {
    name: &'static str,
    asks: &'static str,
    run: fn(&Servers, Effort, &mut Report),
}

const PARTS: [Part; 16] = [
    Part { name: "cost", asks: "what one ID costs in one backend", run: cost::run },
    Part { name: "batches", asks: "what an ID costs when many are taken at once", run: batches::run },
    Part { name: "decoding", asks: "what it costs to read IDs, and to select by time", run: decoding::run },
    Part { name: "fdw", asks: "what it costs to select by time over postgres_fdw", run: fdw::run },
    Part { name: "clients", asks: "how many IDs clients get together", run: clients::run },
    Part { name: "saturation", asks: "how close a full server comes to the layout's rate", run: saturation::run },
    Part { name: "latency", asks: "how long single calls take under load", run: latency::run },
    Part {
        name: "low_load",
        asks: "what a call costs after a pause",
        run: |_, effort, report| low_load::run(effort, report),
    },
    Part {
        name: "standby",
        asks: "how long it takes until a row can be read on a standby",
        run: |_, effort, report| standby::run(effort, report),
    },
    Part { name: "insert", asks: "what the key of a table costs", run: insert::run },
    Part { name: "created_at", asks: "what a created_at costs, and planning a query by it", run: created_at::run },
    Part { name: "last_page", asks: "what it costs that many clients insert at once", run: last_page::run },
    Part { name: "place", asks: "what it costs that an ID decides where its row is", run: place::run },
    Part {
        name: "waiting",
        asks: "how soon a reader has a row, and what it costs that it waits",
        run: |_, effort, report| waiting::run(effort, report),
    },
    Part {
        name: "feed",
        asks: "how soon a reader of several servers has a row, and how many it gets",
        run: |_, effort, report| feed::run(effort, report),
    },
    Part { name: "growth", asks: "whether the cost grows with the number of IDs", run: growth::run },
];

fn main() -> ExitCode {
    // cargo bench adds --bench.
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|part| part.name != **name)) {
        eprintln!("There is no part \"{unknown}\". Parts are:");
        PARTS.iter().for_each(|part| eprintln!("  {:<12} {}", part.name, part.asks));
        return ExitCode::FAILURE;
    }
    let effort = match std::env::var("QUICK").as_deref() {
        Err(_) | Ok("" | "0") => Effort::Full,
        Ok(_) => Effort::Quick,
    };
    let parts: Vec<_> =
        PARTS.iter().filter(|part| wanted.is_empty() || wanted.iter().any(|w| w == part.name)).collect();
    let mut machine = Machine::new(&command(&wanted, effort));

    println!("==> Starting servers");
    let servers = Servers::start();
    servers.describe(&mut machine);
    print!("{machine}");
    let mut report = Report::new(machine);
    for (number, part) in parts.iter().enumerate() {
        println!("\n==> {} of {}, {}: {}", number + 1, parts.len(), part.name, part.asks);
        let since = Instant::now();
        (part.run)(&servers, effort, &mut report);
        measure::end_progress();
        report.print(part.name);
        println!("({:.0} s)", since.elapsed().as_secs_f64());
    }
    let verdicts = targets::judge(&report);
    let table = targets::table(&verdicts);
    println!("\n==> What must be reached\n\n{table}");
    match report.write(&verdicts, &table) {
        Ok(directory) => println!("==> Written: {}", directory.display()),
        Err(error) => {
            eprintln!("the results can't be written: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// What was typed.
fn command(parts: &[String], effort: Effort) -> String {
    let parts = if parts.is_empty() { String::new() } else { format!(" PARTS=\"{}\"", parts.join(" ")) };
    format!("make bench{}{parts}", effort.pick("", " QUICK=1"))
}
