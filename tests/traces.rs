//! What the servers of all tests have recorded of their marks, held to the model of the mark.

use mark_model::coverage;
use mark_model::replay::{Findings, Touch, collect, replay};
use mark_model::rules::Rule;
use mark_model::world::World;
use snowflake_core::mark::audit::{Finding, Known, Life, Told, audit};
use snowflake_core::mark::lives::{self, End};
use snowflake_core::mark::trace::file;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{LazyLock, Mutex, PoisonError};
use testbed::Traces;

/// What the tests have seen.
#[derive(Default)]
struct Seen {
    findings: Findings,
    /// The tests whose servers a model without this rule does not allow.
    without: BTreeMap<String, u64>,
    /// Pairs of lives that the audit takes for possible duplicates.
    possible: u64,
}

static SEEN: LazyLock<Mutex<Seen>> = LazyLock::new(Mutex::default);

/// Rules without which the model allows what servers do: the events do not say when an ID is issued, or a horizon read,
/// nor whether a standby has the mark, and others stand in for the rest, unless a server dies at a rare moment.
const UNSEEN: &[Rule] = &[
    Rule::MarkBeforeIds,
    Rule::CopiedLifeSaysNothing,
    Rule::RecordNamesLifeBefore,
    Rule::MarksOfOthers,
    Rule::BeginsAboveOthers,
    Rule::LeasedAboveMargin,
    Rule::HorizonAboveOthers,
    Rule::WaitsForStandby,
];

/// Says how the servers of a test differ from the model.
pub fn check(traces: &Traces) -> Result<(), String> {
    let touch = match (traces.is_planted(), traces.is_touched()) {
        (true, _) => Touch::Anything,
        (false, true) => Touch::Files,
        (false, false) => Touch::Nothing,
    };
    let traced = collect(&traces.files());
    let findings = replay(&traced, touch, World::ALONE)?;
    let noticed: Vec<_> =
        Rule::ALL.into_iter().filter(|rule| replay(&traced, touch, World::ALONE.without(*rule)).is_err()).collect();
    let possible = audit_lives(traces, touch)?;
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    seen.findings.add(&findings);
    seen.possible += possible;
    noticed.into_iter().for_each(|rule| *seen.without.entry(rule.to_string()).or_default() += 1);
    Ok(())
}

/// Asks the audit of lives whether servers of a cluster have issued the same IDs. Returns how many pairs can have done
/// so only if one has used all that it had reserved.
fn audit_lives(traces: &Traces, touch: Touch) -> Result<u64, String> {
    let mut clusters: BTreeMap<u64, Vec<Told>> = BTreeMap::new();
    let read = |bytes: &Vec<u8>| {
        let (server, _) = file::read_header(bytes).ok()?;
        Some((server, lives::read(bytes.get(lives::BEGIN..).unwrap_or_default())))
    };
    let files: Vec<_> = traces.files().iter().filter_map(read).collect();
    // A file that was taken when its server was killed lacks what the next start has found.
    let crashed: BTreeSet<_> = files
        .iter()
        .flat_map(|(server, lives)| lives.iter().filter(move |life| life.server == *server && life.end == End::Crash))
        .map(|life| (life.server, life.number))
        .collect();
    for (server, lives) in files {
        let mut found: BTreeMap<u64, Vec<Life>> = BTreeMap::new();
        for life in lives {
            let is_own = life.server == server;
            if is_own && life.end == End::Open && crashed.contains(&(server, life.number)) {
                continue;
            }
            let of_cluster = found.entry(life.system_identifier).or_default();
            of_cluster.push(Life::new(&life, is_own, life.state(is_own, false)));
        }
        found.into_iter().for_each(|(cluster, lives)| {
            clusters.entry(cluster).or_default().push(Ok(Known { lives, ..Known::default() }))
        });
    }
    let findings: Vec<_> = clusters.values().flat_map(|told| audit(told)).collect();
    let overlaps: Vec<_> = findings.iter().filter(|finding| matches!(finding, Finding::Overlap { .. })).collect();
    let certain =
        overlaps.iter().filter(|finding| matches!(finding, Finding::Overlap { is_certain: true, .. })).count();
    match (traces.has_duplicates(), certain > 0) {
        (false, true) if traces.may_repeat() => Ok(0),
        (true, false) => Err("the audit does not find that IDs were issued twice".to_owned()),
        (false, true) => Err(format!("the audit finds IDs that were issued twice: {overlaps:#?}")),
        _ if touch == Touch::Nothing && certain < overlaps.len() => {
            Err(format!("the audit finds IDs that can have been issued twice: {overlaps:#?}"))
        }
        _ => Ok((overlaps.len() - certain) as u64),
    }
}

/// Prints what was seen. Says which rows of the start table no server has found, and which rules nobody would miss, if
/// all tests have run.
pub fn report(is_whole: bool) -> Result<(), String> {
    let Seen { findings, without, possible } =
        std::mem::take(&mut *SEEN.lock().unwrap_or_else(PoisonError::into_inner));
    let Findings { servers, untouched, events, granted, most_states, rows, explained, outside } = findings;
    println!(
        "\nthe model allows all {events} events of {servers} servers, each of which can be in {most_states} states at most"
    );
    println!("{untouched:>8} servers whose files nobody had touched");
    println!("{granted:>8} marks were below what a registry had granted");
    println!("{possible:>8} pairs of lives may overlap, after files were touched, and none does without duplicates");
    for (number, row) in coverage::rows() {
        println!("{:>8} starts found {row}", rows.get(&number).unwrap_or(&0));
    }
    for (what, count) in explained.iter().chain(&outside) {
        println!("{count:>8} {what}");
    }
    for rule in Rule::ALL {
        println!("{:>8} tests would notice a model without {rule}", without.get(&rule.to_string()).unwrap_or(&0));
    }
    let rows: Vec<_> = coverage::rows().into_iter().filter(|(number, _)| !rows.contains_key(number)).collect();
    let is_missed = |rule: &Rule| !without.contains_key(&rule.to_string()) && !UNSEEN.contains(rule);
    let rules: Vec<_> = Rule::ALL.into_iter().filter(is_missed).collect();
    if !is_whole || rows.is_empty() && rules.is_empty() {
        return Ok(());
    }
    Err(format!("no server found the rows {rows:?}, and none shows what the rules {rules:?} are for"))
}
