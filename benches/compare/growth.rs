//! Whether the cost grows with the number of IDs.
//!
//! One statement takes more and more IDs, up to 1,000,000,000: what accumulates with each of them, in CPU time, in
//! memory or on disk, shows there. The series is not in FROM, where it would be stored first. Each statement has a
//! backend of its own. CPU time is less that of the same loop without a call. Memory is the anonymous memory of the
//! backend, without what it has touched of the shared buffers: that is what a leak would be in.
//!
//! 1,000,000,000 IDs of the default layout take four minutes, since its ticks are full: so many are taken from a layout
//! whose ticks are not. Random UUIDs are not here: nothing is kept from one to the next that could grow.

use crate::contenders::{Contender, OURS, SEQUENCE, SEQUENCE_1000, WIDE};
use crate::effort::Effort;
use crate::measure::{Backend, cpu_time, nanoseconds, progress};
use crate::servers::Servers;
use bench_report::{Better, Question, Report};
use std::fs::{self, DirEntry};

pub const CPU: Question = Question {
    part: "growth",
    case: "CPU time of one ID in one long statement",
    unit: "ns",
    better: Better::Lower,
    reference: OURS.name,
};
pub const MEMORY: Question = Question { case: "Anonymous memory of the backend", unit: "KiB", ..CPU };
pub const FILES: Question = Question { case: "Size of the state directory", unit: "bytes", ..CPU };

/// What a contender needed for so many IDs, a value a round.
struct Need {
    contender: Contender,
    ids: u32,
    cpu: Vec<f64>,
    memory: Vec<f64>,
    files: Vec<f64>,
}

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    let all = [OURS, WIDE, SEQUENCE, SEQUENCE_1000];
    let long: &[(u32, &[Contender])] =
        &[(1_000_000, &all), (10_000_000, &all), (100_000_000, &[WIDE, SEQUENCE]), (1_000_000_000, &[WIDE])];
    let mut needs = Vec::new();
    let few = [OURS, WIDE, SEQUENCE];
    for &(ids, contenders) in effort.pick(long, &[(100_000, &few), (1_000_000, &few)]) {
        println!("    {ids:e} IDs");
        needs.extend(compare(servers, ids, contenders));
    }
    // Everything of one contender is in one row.
    for contender in &all {
        for need in needs.iter().filter(|need| need.contender.name == contender.name) {
            let at = need.ids.into();
            report.add_at(&CPU, contender.name, at, need.cpu.clone());
            report.add_at(&MEMORY, contender.name, at, need.memory.clone());
            if !need.files.is_empty() {
                report.add_at(&FILES, contender.name, at, need.files.clone());
            }
        }
    }
}

/// Lets contenders take turns, with the loop alone once a round.
fn compare(servers: &Servers, ids: u32, contenders: &[Contender]) -> Vec<Need> {
    let need =
        |contender: &Contender| Need { contender: contender.clone(), ids, cpu: vec![], memory: vec![], files: vec![] };
    let mut needs: Vec<_> = contenders.iter().map(need).collect();
    // The longest are means of so much that one is enough.
    let rounds = if ids > 10_000_000 { 1 } else { 3 };
    for round in 1..=rounds {
        progress(round, rounds);
        let (the_loop, _) = take_ids(servers, &OURS, "i", ids);
        for need in &mut needs {
            let (cpu, memory) = take_ids(servers, &need.contender, need.contender.expression, ids);
            need.cpu.push((cpu - the_loop) / f64::from(ids));
            need.memory.push(memory);
            if need.contender.expression == OURS.expression {
                need.files.push(state(servers, &need.contender));
            }
        }
    }
    needs
}

/// The CPU time of one statement in nanoseconds, and the memory of its backend after it in KiB.
fn take_ids(servers: &Servers, contender: &Contender, expression: &str, ids: u32) -> (f64, f64) {
    let mut backend = Backend::of(servers, contender);
    let query = |ids| format!("SELECT count({expression}) FROM (SELECT generate_series(1, {ids}) i) series");
    // What a backend looks up once is no part of the cost of an ID.
    backend.client.execute(&query(1), &[]).expect("an ID");
    let before = cpu_time(backend.process());
    backend.client.execute(&query(ids), &[]).expect("IDs");
    let cpu = nanoseconds(cpu_time(backend.process()) - before);
    (cpu, anonymous_memory(backend.process()))
}

/// Anonymous memory of a process in KiB. What it shares with others, as the shared buffers, is not anonymous.
fn anonymous_memory(process: u32) -> f64 {
    let memory = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).expect("the memory of a backend");
    let line = memory.lines().find_map(|line| line.strip_prefix("Anonymous:")).expect("anonymous memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Bytes of all files in the state directory of a contender's server.
fn state(servers: &Servers, contender: &Contender) -> f64 {
    let mark = servers.cluster(contender.setting).mark_file();
    let files = fs::read_dir(mark.parent().expect("a directory")).expect("the state directory");
    let size = |file: DirEntry| u32::try_from(file.metadata().expect("a file").len()).expect("a small file");
    files.map(|file| f64::from(size(file.expect("a file")))).sum()
}
