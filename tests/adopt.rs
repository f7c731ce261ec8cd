//! Existing tables get Snowflake IDs by `snowflake_adopt.plan()`, and their own numbers back by
//! `snowflake_adopt.revert_plan()`; whole schemas do so by `schema_plan()` and `revert_schema_plan()`, and tables in
//! use by `start`, `run` and `finish`.

mod around;
mod code;
mod extension;
mod made;
mod obstacles;
mod online;
mod owners;
mod plans;
mod schema;
mod schemas;
mod stale;

use testbed::postgres::{Client, SimpleQueryMessage};
use testbed::{Cluster, Database, value};

/// A database with both extensions, whose schemas no search_path has.
pub fn database() -> (Database, Client) {
    let database = Cluster::builder().worker(7).database();
    let client = with_extension(database.connect());
    (database, client)
}

/// Gives the database of a session the extensions.
pub fn with_extension(mut client: Client) -> Client {
    client
        .batch_execute(
            "CREATE SCHEMA ids; CREATE EXTENSION snowflake_pg SCHEMA ids; CREATE EXTENSION snowflake_adopt;
             SELECT ids.snowflake_nextval()",
        )
        .expect("the extensions");
    client
}

/// A plan.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its commands.
    pub commands: Vec<String>,
    /// The notes of rows without a command.
    pub notes: Vec<String>,
}

/// What a function of this name plans with these arguments.
pub fn plan(client: &mut Client, which: &str, arguments: &str) -> Plan {
    let query = format!("SELECT command, note FROM snowflake_adopt.{which}({arguments})");
    let mut plan = Plan { commands: Vec::new(), notes: Vec::new() };
    for message in client.simple_query(&query).unwrap_or_else(|error| panic!("{query}: {error:?}")) {
        if let SimpleQueryMessage::Row(row) = message {
            match row.get(0) {
                Some(command) => plan.commands.push(command.to_owned()),
                None => plan.notes.push(row.get(1).expect("a note").to_owned()),
            }
        }
    }
    plan
}

/// Runs a plan as `\gexec` does.
pub fn run(client: &mut Client, which: &str, arguments: &str) {
    let plan = plan(client, which, arguments);
    assert!(!plan.commands.is_empty(), "{arguments}: {:?}", plan.notes);
    run_all(client, &plan.commands);
}

/// Runs the commands of a plan.
pub fn run_all(client: &mut Client, commands: &[String]) {
    for command in commands {
        client.batch_execute(command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
}

/// Whether a value is a new ID of this server.
pub fn is_new(client: &mut Client, query: &str) -> bool {
    value(client, &format!("SELECT ({query}) > ids.snowflake_min_id(now() - interval '1 min')")) == "t"
}
