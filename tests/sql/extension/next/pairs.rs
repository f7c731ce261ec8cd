//! Each library under each script, in every order of packages, restarts and `ALTER EXTENSION`.

use super::Version::{self, Next, This};
use super::walk::walk;
use super::{APPLICATION, connect, goes_on, install, made, restart, update};
use crate::calls::functions;
use std::collections::BTreeMap;
use testbed::postgres::Client;
use testbed::{Cluster, Load, Signal, Witness, error, test, value};

/// The library that a server runs, and the script that its database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub library: Version,
    pub script: Version,
}

pub const PAIRS: [Pair; 4] = [
    Pair { library: This, script: This },
    Pair { library: Next, script: This },
    Pair { library: Next, script: Next },
    Pair { library: This, script: Next },
];

/// Servers of which each pair has been asked for IDs, and what they must all answer alike.
#[derive(Default)]
pub struct Asked {
    pub witness: Witness,
    answers: BTreeMap<bool, BTreeMap<String, String>>,
    pairs: Vec<Pair>,
}

impl Asked {
    /// A pair issues IDs above all before, or refuses in words: on a primary, all goes on that an application has made;
    /// a standby reads. Each function answers as under the first pair. What only the next version has says so.
    pub fn issues_or_refuses(&mut self, cluster: &Cluster, pair: Pair) {
        let mut client = cluster.connect();
        let is_standby = value(&mut client, "SELECT pg_is_in_recovery()") == "t";
        let (library, script) = (pair.library.number(), pair.script.number());
        if is_standby {
            let said = "SELECT concat_ws(' ', state, library_version, extension_version) FROM snowflake_status";
            assert_eq!(value(&mut client, said), format!("standby {library} {script}"));
            assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "25006");
            cluster.wait_until("SELECT count(*) > 1000 FROM snowflake_poll(NULL::orders, 0, 100000)");
        } else {
            cluster.wait_until("SELECT snowflake_nextval() > 0");
            self.witness.connect(cluster);
            let ids = self.witness.ask("SELECT snowflake_nextvals(100)");
            assert!(ids.is_ok(), "{pair:?}: {ids:?}\n{}", cluster.log());
            goes_on(cluster, (&library, &script));
        }
        assert_eq!(refused_of_next_version(&mut client, pair), pair.script == Next && pair.library == This);
        let answers = answers(&mut client);
        let first = self.answers.entry(is_standby).or_insert_with(|| answers.clone());
        let others: Vec<_> = answers.iter().filter(|&(call, answer)| first.get(call) != Some(answer)).collect();
        assert!(others.is_empty() && answers.len() == first.len(), "{pair:?}: {others:?}");
        if !self.pairs.contains(&pair) {
            self.pairs.push(pair);
        }
    }

    /// No pair was forgotten, and no ID was issued twice.
    pub fn end(self) {
        for pair in PAIRS {
            assert!(self.pairs.contains(&pair), "{pair:?} was not asked");
        }
        let report = self.witness.report();
        assert_eq!((report.duplicates(), report.inversions()), (0, 0), "of {} IDs", report.ids());
    }
}

/// Whether the library lacks what only the next version has. Nothing else is missing, and the error says what.
fn refused_of_next_version(client: &mut Client, pair: Pair) -> bool {
    if pair.script == This {
        assert_eq!(error(client, "SELECT of_next_version FROM snowflake_status").code().code(), "42703");
        assert_eq!(error(client, "SELECT snowflake_of_next_version()").code().code(), "42883");
        return false;
    }
    // A column that the library does not know is NULL.
    let column = if pair.library == Next { "1" } else { "NULL" };
    for row in ["snowflake_status", "snowflake_lives() ORDER BY number DESC LIMIT 1"] {
        assert_eq!(value(client, &format!("SELECT of_next_version FROM {row}")), column, "{row}");
    }
    if pair.library == Next {
        assert_eq!(value(client, "SELECT snowflake_of_next_version()"), "1");
        return false;
    }
    let refused = error(client, "SELECT snowflake_of_next_version()");
    assert_eq!(refused.code().code(), "42883");
    let words = "could not find function \"snowflake_of_next_version_wrapper\" in file \"";
    assert!(refused.message().starts_with(words), "{refused:?}");
    true
}

/// What comes of a call of each function that everybody may call, and whether the library has each of the others: `ok`
/// or an SQLSTATE, which is never that of an internal error.
fn answers(client: &mut Client) -> BTreeMap<String, String> {
    let mut answers = BTreeMap::new();
    for function in functions(client) {
        let call = function.call(None, "");
        let asked = if function.is_for_everybody {
            format!("SELECT * FROM {call}")
        } else {
            let types: Vec<_> = function.arguments.iter().map(|(_, kind)| kind.as_str()).collect();
            format!("SELECT fmgr_c_validator('{}({})'::regprocedure)", function.name, types.join(", "))
        };
        client.batch_execute("BEGIN").expect("a transaction");
        let answer = match client.simple_query(&asked) {
            Ok(_) => "ok".to_owned(),
            Err(error) => error.code().unwrap_or_else(|| panic!("{asked}: {error:?}")).code().to_owned(),
        };
        client.batch_execute("ROLLBACK").expect("the session lasts");
        assert!(!answer.starts_with("XX"), "{asked}: {answer}");
        if function.name != "snowflake_of_next_version" {
            answers.insert(call, answer);
        }
    }
    assert!(answers.len() > 60, "{}", answers.len());
    answers
}

/// Of which version the package, the library that runs and the scripts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Server {
    package: Version,
    library: Version,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Package,
    Stop,
    Crash,
    Update,
    Create,
}

/// A script goes up alone. So each order of the other moves is tried before and after.
#[test(By("make suite NAME=next"))]
fn each_library_under_each_script_issues_or_refuses_in_words_in_every_order_of_moves() {
    let mut server = Cluster::builder().worker(7).own_installation().start();
    server.connect().batch_execute(APPLICATION).expect("an application");
    let early = "CREATE TABLE early (id serial PRIMARY KEY); INSERT INTO early SELECT FROM generate_series(1, 100)";
    server.connect().batch_execute(early).expect("a table");
    server.connect().batch_execute("CALL snowflake_adopt.start('early')").expect("a migration");
    let before = made(&mut server.connect());
    let mut asked = Asked::default();
    asked.issues_or_refuses(&server, PAIRS[0]);
    for script in [This, Next] {
        if script == Next {
            restart(&mut server, Next, Signal::INT);
            for (extension, pair) in [("snowflake_adopt", PAIRS[1]), ("snowflake_pg", PAIRS[2])] {
                update_beside_sessions(&server, extension);
                asked.issues_or_refuses(&server, pair);
            }
        }
        let leads_to = |here: Server, this| match this {
            Move::Package => Some(Server { package: here.package.other(), ..here }),
            Move::Stop | Move::Crash => Some(Server { library: here.package, ..here }),
            // It would not come back.
            Move::Update if script == This && here == (Server { package: Next, library: Next }) => None,
            Move::Update | Move::Create => Some(here),
        };
        let moves = [Move::Package, Move::Stop, Move::Crash, Move::Update, Move::Create];
        walk(Server { package: script, library: script }, &moves, leads_to, |here, this| {
            make(&mut server, here, script, this);
            let library = leads_to(here, this).expect("a move").library;
            asked.issues_or_refuses(&server, Pair { library, script });
            assert_eq!(made(&mut server.connect()), before);
            server.connect().batch_execute("INSERT INTO early DEFAULT VALUES").expect("a row");
        });
    }
    restart(&mut server, Next, Signal::INT);
    server.connect().batch_execute("CALL snowflake_adopt.finish('early')").expect("the end of a migration");
    assert_eq!(value(&mut server.connect(), "SELECT pg_typeof(max(id)) FROM early"), "bigint");
    asked.end();
}

/// Sessions that draw IDs notice nothing.
fn update_beside_sessions(server: &Cluster, extension: &str) {
    let load = Load::start(server, 2, "SELECT snowflake_nextval()");
    load.wait_for_some(100);
    update(server, extension);
    load.wait_for_some(100);
    let report = load.finish();
    assert_eq!((report.errors().len(), report.outages()), (0, 0), "{:?}", report.errors());
    report.assert_unique_and_ordered();
}

/// Makes a move. What cannot be done is refused in words, whatever the script of the database.
fn make(server: &mut Cluster, here: Server, script: Version, this: Move) {
    match this {
        Move::Package => install(server, here.package.other()),
        Move::Stop => server.restart(Signal::INT),
        Move::Crash => server.restart(Signal::KILL),
        Move::Update => {
            let refused = match (here.package, here.library, script) {
                // PostgreSQL knows no way down.
                (This, _, Next) => Some(("22023", "has no update path")),
                (Next, This, This) => Some(("55000", "needs the library of that version")),
                _ => None,
            };
            expect(&mut server.connect(), "ALTER EXTENSION snowflake_pg UPDATE", refused);
        }
        Move::Create => {
            let (package, library) = (here.package, here.library);
            let refused = (package == Next && library == This).then_some(("42883", "could not find function"));
            server.connect().batch_execute("CREATE DATABASE another").expect("a database");
            let mut another = connect(server, "another");
            expect(&mut another, "CREATE EXTENSION snowflake_pg", refused);
            if refused.is_none() {
                assert_eq!(value(&mut another, "SELECT snowflake_nextval() > 0"), "t");
            }
            drop(another);
            server.connect().batch_execute("DROP DATABASE another WITH (FORCE)").expect("a database");
        }
    }
}

fn expect(client: &mut Client, command: &str, refused: Option<(&str, &str)>) {
    match refused {
        None => client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}")),
        Some((code, words)) => {
            let refused = error(client, command);
            assert_eq!(refused.code().code(), code, "{refused:?}");
            assert!(refused.message().contains(words), "{refused:?}");
        }
    }
}
