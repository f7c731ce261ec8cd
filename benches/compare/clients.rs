//! How many IDs clients get together.
//!
//! pgbench's clients repeat a prepared statement: one of a single ID, which shows what is left of a difference when the
//! way to the server is in it, and one of 1,000 IDs, which shows whether backends that want IDs at the same time are in
//! each other's way. As in `cost`, each of its rows makes 25 calls: with one, rows take longer than our calls, and hide
//! the difference. `clock_timestamp()` is beside the former: hardly anything but the way. The default layout has
//! 4,096,000 IDs a second and no more, so a wider one is measured beside it.

use crate::contenders::{
    BORROW, CLOCK, Contender, HOSTED, NAIVE, OURS, PLPGSQL, SEQUENCE, SEQUENCE_32, SEQUENCE_1000, UUID_4, WIDE, calls,
};
use crate::effort::Effort;
use crate::measure;
use crate::pgbench::{Clients, Until};
use crate::servers::Servers;
use bench_report::{Better, Question, Report};

pub const SINGLE: Question = Question {
    part: "clients",
    case: "IDs of all clients a second, one a statement",
    unit: "IDs/s",
    better: Better::Higher,
    reference: OURS.name,
};
pub const THOUSAND: Question = Question { case: "IDs of all clients a second, 1,000 a statement", ..SINGLE };

/// What is measured once a round.
struct Case {
    question: &'static Question,
    contender: Contender,
    clients: u32,
    rates: Vec<f64>,
}

impl Case {
    fn rate(&self, servers: &Servers) -> f64 {
        let expression = self.contender.expression;
        let (statement, ids) = if *self.question == SINGLE {
            (format!("SELECT {expression}"), 1.0)
        } else {
            (calls(expression, 1000), 1000.0)
        };
        let cluster = servers.cluster(self.contender.setting);
        // 64 backends take a while to prepare the statement.
        let until = Until::Seconds(if self.clients < 64 { 1 } else { 2 });
        Clients { cluster, count: self.clients, statement: &statement, until }.rate() * ids
    }
}

pub fn run(servers: &Servers, effort: Effort, report: &mut Report) {
    let peers = servers.peers();
    let singles = [&[OURS, HOSTED, CLOCK, SEQUENCE, UUID_4], peers, &[NAIVE, PLPGSQL]].concat();
    let few = [OURS, WIDE, BORROW, SEQUENCE, SEQUENCE_32, SEQUENCE_1000, UUID_4];
    let thousands = [&few, peers, &[NAIVE, HOSTED, PLPGSQL]].concat();
    let questions = [
        (&SINGLE, effort.pick(singles, vec![OURS, SEQUENCE])),
        (&THOUSAND, effort.pick(thousands, vec![OURS, WIDE, SEQUENCE, NAIVE])),
    ];
    let counts: &[u32] = effort.pick(&[1, 2, 4, 16, 64], &[16]);

    // Contenders that are compared with each other come right after each other.
    let mut cases = Vec::new();
    for (question, contenders) in &questions {
        for &clients in counts {
            let case = |contender: &Contender| Case { question, contender: contender.clone(), clients, rates: vec![] };
            cases.extend(contenders.iter().map(case));
        }
    }
    let (rounds, all) = (effort.pick(3, 1), cases.len());
    for round in 0..rounds {
        for (number, case) in cases.iter_mut().enumerate() {
            measure::progress(round * all + number + 1, rounds * all);
            case.rates.push(case.rate(servers));
        }
    }
    for (question, contenders) in &questions {
        for contender in contenders {
            let own = |case: &&Case| case.question == *question && case.contender.name == contender.name;
            for case in cases.iter().filter(own) {
                report.add_at(question, contender.name, case.clients.into(), case.rates.clone());
            }
        }
    }
}
