//! What one ID costs in one backend.
//!
//! Each row of a query makes 25 calls, so that the loop is the smaller part of what is measured; it is taken off, as
//! the cost of the same query without calls, and shown. What counts is CPU time of the backend, as the operating system
//! accounts for it.

use crate::contenders::{self, CLOCK, Contender, HOSTED, OURS, SEQUENCE, UNTRACKED, calls};
use crate::effort::Effort;
use crate::measure::{Backend, cpu_time, nanoseconds, rounds, wal_written};
use crate::servers::Servers;
use crate::settings::Setting;
use bench_report::{Better, Question, Report};
use testbed::postgres::Statement;

pub const CPU: Question =
    Question { part: "cost", case: "CPU time of one ID", unit: "ns", better: Better::Lower, reference: OURS.name };
/// Of the first ID of a transaction, with the transaction.
pub const TRANSACTION: Question = Question { case: "CPU time of a transaction with one ID", ..CPU };
/// Of readers by ID, and of those by transaction ID.
const HORIZON: Question =
    Question { case: "CPU time of a transaction with one horizon", reference: HORIZONS[0].name, ..CPU };
const WAL: Question = Question { case: "WAL of one ID", unit: "bytes", ..CPU };

const HORIZONS: [Contender; 3] = [
    Contender { name: "snowflake_horizon()", expression: "snowflake_horizon()", ..OURS },
    Contender { name: "snowflake_horizon(), plain SQL", expression: "snowflake_horizon()", ..HOSTED },
    Contender { name: "pg_snapshot_xmin()", expression: "pg_snapshot_xmin(pg_current_snapshot())", ..OURS },
];

const CALLS: u32 = 3_500;
/// How often a statement is run in a round. Rounds are short and many: who is slow for a second is so beside all.
const TIMES: u32 = 5;

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    struct Entry {
        backend: Backend,
        nothing: Statement,
        statement: Statement,
    }
    let contenders = contenders::all(servers.peers());
    let mut entries: Vec<_> = contenders
        .iter()
        .map(|contender| {
            let mut backend = Backend::of(servers, contender);
            let mut prepare = |expression| backend.client.prepare(&calls(expression, CALLS)).expect("a statement");
            let (nothing, statement) = (prepare("i"), prepare(contender.expression));
            Entry { backend, nothing, statement }
        })
        .collect();
    // The loop itself is taken off within a round, and within a backend. What comes first pays for caches
    // that others have filled.
    let mut loops = Vec::new();
    let costs = rounds(effort.pick(200, 10), &mut entries, |entry| {
        entry.backend.cost(&entry.statement, 1, CALLS);
        let the_loop = entry.backend.cost(&entry.nothing, TIMES, CALLS);
        loops.push(the_loop);
        entry.backend.cost(&entry.statement, TIMES, CALLS) - the_loop
    });
    for (contender, values) in contenders.iter().zip(costs) {
        report.add(&CPU, contender.name, values);
    }
    report.add(&CPU, "(taken off: the statement without calls)", loops);
    transactions(servers, effort, report, &TRANSACTION, &[OURS, UNTRACKED, CLOCK, SEQUENCE]);
    transactions(servers, effort, report, &HORIZON, &HORIZONS);

    let mut client = servers.connect(Setting::Default);
    for contender in contenders.iter().filter(|contender| contender.setting == Setting::Default) {
        let before = wal_written(&mut client);
        for _ in 0..10 {
            client.execute(&calls(contender.expression, CALLS), &[]).expect("IDs");
        }
        let wal = wal_written(&mut client) - before;
        report.add(&WAL, contender.name, vec![wal / 10.0 / f64::from(CALLS)]);
    }
}

/// Transactions of one call each, in a procedure, so that the client and the network have no part in it.
fn transactions(
    servers: &Servers,
    effort: Effort,
    report: &mut Report,
    question: &'static Question,
    contenders: &[Contender],
) {
    const COUNT: u32 = 2_000;
    let mut entries: Vec<_> =
        contenders.iter().map(|contender| (Backend::of(servers, contender), contender.expression)).collect();
    let costs = rounds(effort.pick(400, 20), &mut entries, |(backend, expression)| {
        let before = cpu_time(backend.process());
        let transactions = format!("FOR i IN 1..{COUNT} LOOP PERFORM {expression}; COMMIT; END LOOP");
        backend.client.batch_execute(&format!("DO $$ BEGIN {transactions}; END $$")).expect("transactions");
        nanoseconds(cpu_time(backend.process()) - before) / f64::from(COUNT)
    });
    for (contender, values) in contenders.iter().zip(costs) {
        report.add(question, contender.name, values);
    }
}
