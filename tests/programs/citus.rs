//! `DEFAULT snowflake_nextval()` on Citus: every way to insert, on every kind of table, sent to the coordinator and to
//! a worker node; the clauses in which Citus wants functions IMMUTABLE; and what becomes of IDs while shards and nodes
//! come and go. Skipped where PostgreSQL has no Citus. Ends with a table of what was seen.

mod clauses;
mod clones;
mod example;
mod failover;
mod functions;
mod groups;
mod misfits;
mod moves;
mod nodes;
mod placeless;
mod places;
mod servers;
mod shards;
mod statements;
mod unsupported;

use libtest_mimic::Failed;
use nodes::{CONTROL, Citus, KINDS, Kind, NODES, OURS, SENT_TO, names};
use statements::{STATEMENTS, Statement};
use std::collections::{BTreeSet, HashSet};
use std::mem::take;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use testbed::runner::{Case, Kind as When};
use testbed::{default_layout, lasting, pg_config};

/// The name of a test, and the test.
type Named<T> = (&'static str, T);
type OnSharedNodes = fn(&Citus) -> Result<(), Failed>;
type OnOwnNodes = fn() -> Result<(), Failed>;

/// Tests on the nodes that statements are sent to.
const ON_SHARED_NODES: &[Named<OnSharedNodes>] = &[
    ("functions_that_depend_on_the_layout_work_in_every_clause", clauses::run),
    ("a_distributed_function_takes_ids_from_the_node_that_runs_it", functions::run),
    ("nodes_with_one_configuration_have_their_groups_as_workers", groups::run),
    ("the_shard_of_an_id_is_the_one_that_programs_compute", shards::run),
    ("tables_that_citus_does_not_distribute_by_id_are_refused_and_rights_are_not_needed", placeless::run),
    ("the_example_of_orders_on_citus_gives_each_order_an_id_of_its_own", example::run),
];

/// Tests on nodes of their own.
const ON_OWN_NODES: &[Named<OnOwnNodes>] = &[
    ("a_clone_that_is_promoted_beside_its_original_waits_for_a_group_of_its_own", clones::run),
    ("a_node_that_does_not_fit_is_found_and_named", misfits::run),
    ("a_node_that_fails_over_issues_no_id_twice", failover::run),
    ("an_insert_with_an_id_for_a_table_stays_on_the_node_to_which_it_is_sent", places::local),
    ("a_row_lands_on_the_shard_of_the_row_that_it_is_near", places::near),
    ("ids_for_a_table_follow_its_shards_when_they_move_and_no_row_is_lost", places::moved),
    ("ids_stay_what_they_are_while_shards_and_nodes_come_and_go", moves::run),
];

/// What was seen so far.
#[derive(Default)]
struct Seen {
    citus: Option<Citus>,
    issued: HashSet<i64>,
    lines: Vec<Line>,
}

/// A line of the table.
struct Line {
    statement: &'static str,
    kind: &'static str,
    sent_to: usize,
    outcome: Outcome,
}

/// What became of a statement.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// So many rows have so many IDs that no other row has, issued by these nodes.
    Issued { rows: usize, distinct: usize, by: BTreeSet<usize> },
    /// Citus can't do it, with another volatile default no more than with this one.
    Unsupported(String),
    /// Citus can do it, but not with this default.
    Failed(String),
}

static SEEN: LazyLock<Mutex<Seen>> = LazyLock::new(Mutex::default);

/// Every statement, and what becomes of nodes.
pub fn cases() -> Vec<Case> {
    let library = pg_config("--pkglibdir").join("citus.so");
    if !library.exists() {
        let name = "citus::every_way_to_insert_on_citus_gives_each_row_an_id_of_its_own";
        return vec![Case::new(name, When::By("make suite NAME=citus, with Citus"), || panic!("no Citus"))];
    }
    // One statement after the other, on the same servers.
    let case = |name: &str, run: Box<dyn FnOnce() -> Result<(), Failed> + Send>| {
        Case::fallible(format!("citus::{name}"), When::Alone, run)
    };
    let shared = ON_SHARED_NODES.iter().map(|&(name, test)| case(name, Box::new(move || test(seen().citus()))));
    let own = ON_OWN_NODES.iter().map(|&(name, test)| case(name, Box::new(test)));
    let statements = STATEMENTS.iter().map(|statement| {
        let name = format!("{}_gives_each_row_an_id_of_its_own", statement.identifier());
        case(&name, Box::new(|| seen().run(statement)))
    });
    shared.chain(own).chain(statements).collect()
}

/// Shows a table of what was seen, and ends the servers.
pub fn report() {
    take(&mut *seen()).show();
}

fn seen() -> MutexGuard<'static, Seen> {
    // A statement that panicked has left nothing half done.
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Outcome {
    /// What is wrong with it, if anything.
    fn complaint(&self, statement: &Statement, kind: &Kind, sent_to: usize) -> Option<String> {
        let refusal = unsupported::refusal(statement.name, kind.name, sent_to);
        match (self, refusal) {
            (Self::Issued { .. }, Some(refusal)) => Some(format!("now supported, without: {refusal}")),
            (&Self::Issued { rows, distinct, ref by }, None) => {
                let expected = statement.ids.unwrap_or(rows).max(1);
                if (rows, distinct) != (expected, expected) {
                    return Some(format!("{rows} rows with {distinct} IDs of their own instead of {expected}"));
                }
                kind.complaint(statement.issuers, sent_to, by)
            }
            (Self::Unsupported(message), Some(refusal)) if message == refusal => None,
            (Self::Unsupported(message), Some(refusal)) => Some(format!("{message}, instead of: {refusal}")),
            (Self::Unsupported(message), None) => Some(format!("not supported: {message}")),
            (Self::Failed(message), _) => Some(message.clone()),
        }
    }
}

impl Seen {
    fn citus(&mut self) -> &Citus {
        self.citus.get_or_insert_with(|| lasting(Citus::start))
    }

    /// Sends a statement to each node, for each kind of table.
    fn run(&mut self, statement: &'static Statement) -> Result<(), Failed> {
        let mut wrong = Vec::new();
        for (kind, sent_to) in KINDS.iter().flat_map(|kind| SENT_TO.map(|node| (kind, node))) {
            let outcome = match self.citus().attempt(statement, kind, OURS, sent_to) {
                Ok(ids) => self.issued(&ids),
                Err(message) => match self.citus().attempt(statement, kind, CONTROL, sent_to) {
                    Err(same) if same == message => Outcome::Unsupported(message),
                    _ => Outcome::Failed(message),
                },
            };
            let complaint = outcome.complaint(statement, kind, sent_to);
            wrong.extend(complaint.map(|complaint| format!("{}, sent to {}: {complaint}", kind.name, NODES[sent_to])));
            self.lines.push(Line { statement: statement.name, kind: kind.name, sent_to, outcome });
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
    }

    fn issued(&mut self, ids: &[i64]) -> Outcome {
        let distinct = ids.iter().filter(|&&id| self.issued.insert(id)).count();
        let worker = |&id: &i64| default_layout().unpack(id.cast_unsigned()).worker.expect("a worker ID");
        let by = ids.iter().map(|id| usize::try_from(worker(id)).expect("a node")).collect();
        Outcome::Issued { rows: ids.len(), distinct, by }
    }

    /// Prints the table. Kinds for which a statement did the same share a line.
    fn show(&self) {
        let Some(citus) = self.citus.as_ref().filter(|_| !self.lines.is_empty()) else { return };
        println!("{}", citus.versions());
        let print = |[statement, kinds, sent_to, rows, distinct, issued_by]: [&str; 6]| {
            println!("{statement:<38} {kinds:<68} {sent_to:<11} {rows:>4} {distinct:>8}  {issued_by}");
        };
        print(["statement", "tables", "sent to", "rows", "distinct", "issued by"]);
        for line in &self.lines {
            let same = |other: &&Line| {
                (other.statement, other.sent_to, &other.outcome) == (line.statement, line.sent_to, &line.outcome)
            };
            let kinds: Vec<_> = self.lines.iter().filter(same).map(|other| other.kind).collect();
            if kinds[0] != line.kind {
                continue;
            }
            let kinds = if kinds.len() == KINDS.len() { "all".to_owned() } else { kinds.join(", ") };
            let print = |rows: &str, distinct: &str, by: &str| {
                print([line.statement, &kinds, NODES[line.sent_to], rows, distinct, by]);
            };
            match &line.outcome {
                Outcome::Issued { rows, distinct, by } => print(&rows.to_string(), &distinct.to_string(), &names(by)),
                Outcome::Unsupported(message) => print("-", "-", &format!("not supported by Citus: {message}")),
                Outcome::Failed(message) => print("-", "-", &format!("FAILED: {message}")),
            }
        }
        let rows = self.lines.iter().map(|line| match line.outcome {
            Outcome::Issued { rows, .. } => rows,
            _ => 0,
        });
        print(["in all", "", "", &rows.sum::<usize>().to_string(), &self.issued.len().to_string(), ""]);
    }
}
