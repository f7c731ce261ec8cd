//! A coordinator and two worker nodes, with a table of each kind.

use super::servers::{execute, form_cluster, message, node};
use super::statements::{EXECUTIONS, Issuers, Sent, Statement};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use testbed::postgres::{Client, Error, SimpleQueryMessage};
use testbed::{Cluster, value};

/// The nodes, by their groups, which are their worker IDs.
pub const NODES: [&str; 3] = ["coordinator", "node 1", "node 2"];

/// The nodes that statements are sent to.
pub const SENT_TO: [usize; 2] = [0, 1];

/// The node that makes the tables, and has no shards.
pub const COORDINATOR: usize = 0;

/// The nodes that have the shards.
const WITH_SHARDS: [usize; 2] = [1, 2];

/// A kind of table.
pub struct Kind {
    /// Its name, and that of the table.
    pub name: &'static str,
    key: &'static str,
    /// What ends CREATE TABLE.
    storage: &'static str,
    /// Turns a table into one of this kind.
    distribute: &'static str,
}

/// Each node has a copy of its own.
pub const REFERENCE: &str = "reference";

/// Citus does not know it: each node has a table of its own.
pub const PLAIN: &str = "plain";

/// Citus adds rows, and changes none.
pub const COLUMNAR: &str = "columnar";

pub const KINDS: [Kind; 7] = [
    Kind { name: "distributed_by_id", key: "id", storage: "", distribute: "SELECT create_distributed_table('{table}', 'id')" },
    Kind {
        name: "distributed_by_tenant",
        key: "tenant, id",
        storage: "",
        distribute: "SELECT create_distributed_table('{table}', 'tenant')",
    },
    Kind {
        name: COLUMNAR,
        key: "tenant, id",
        storage: "USING columnar",
        distribute: "SELECT create_distributed_table('{table}', 'tenant')",
    },
    Kind {
        name: "partitioned_by_time",
        key: "tenant, id",
        storage: "PARTITION BY RANGE (id)",
        distribute: "CREATE TABLE {table}_rest PARTITION OF {table} DEFAULT;
            SELECT create_distributed_table('{table}', 'tenant'); SELECT snowflake_create_partitions('{table}', '1 day', 7)",
    },
    Kind { name: REFERENCE, key: "id", storage: "", distribute: "SELECT create_reference_table('{table}')" },
    Kind { name: "citus_local", key: "id", storage: "", distribute: "SELECT citus_add_local_table_to_metadata('{table}')" },
    Kind { name: PLAIN, key: "id", storage: "", distribute: "" },
];

impl Kind {
    /// What is wrong with the nodes that have issued the IDs of a statement, if anything.
    pub fn complaint(&self, issuers: Issuers, sent_to: usize, by: &BTreeSet<usize>) -> Option<String> {
        let of_shards = BTreeSet::from(WITH_SHARDS);
        let has_shards = self.distribute.contains("create_distributed_table");
        let expected = match issuers {
            Issuers::SomeOfSource if !by.is_empty() && by.is_subset(&of_shards) => return None,
            Issuers::OfTable if !has_shards => BTreeSet::from([sent_to]),
            Issuers::OfSource | Issuers::SomeOfSource | Issuers::OfTable => of_shards,
            Issuers::SentTo => BTreeSet::from([sent_to]),
        };
        (*by != expected).then(|| format!("issued by {} instead of {}", names(by), names(&expected)))
    }
}

/// The names of nodes.
pub fn names(nodes: &BTreeSet<usize>) -> String {
    nodes.iter().map(|&node| NODES[node]).collect::<Vec<_>>().join(", ")
}

/// A default of the column `id`.
#[derive(Clone, Copy)]
pub struct IdDefault {
    schema: &'static str,
    expression: &'static str,
}

pub const OURS: IdDefault = IdDefault { schema: "ours", expression: "snowflake_nextval()" };

/// As volatile, without the extension: what Citus refuses here, it refuses every volatile default.
pub const CONTROL: IdDefault = IdDefault { schema: "control", expression: "(random() * 1e18)::bigint" };

const TABLE: &str = "CREATE TABLE {table} (tenant integer, id bigint DEFAULT {default}, note text, made timestamptz, PRIMARY KEY ({key})) {storage}";

const FUNCTION: &str = "
    CREATE FUNCTION {table}_put(tenant integer, mark text) RETURNS bigint LANGUAGE plpgsql AS
    'DECLARE made bigint;
     BEGIN
         INSERT INTO {table} (tenant, note) VALUES (tenant, mark) RETURNING id INTO made;
         RETURN made;
     END'";

/// The servers.
pub struct Citus {
    pub nodes: Vec<Cluster>,
}

impl Citus {
    pub fn start() -> Self {
        let nodes: Vec<_> = NODES.iter().map(|_| node()).collect();
        form_cluster(&nodes);
        let mut coordinator = nodes[0].connect();
        // Citus creates all of it on the other nodes, too.
        execute(
            &mut coordinator,
            "CREATE EXTENSION snowflake_pg;
             CREATE EXTENSION citus_columnar;
             CREATE SCHEMA ours;
             CREATE SCHEMA control;
             CREATE TABLE source (tenant integer PRIMARY KEY);
             CREATE TABLE copied_source (tenant integer PRIMARY KEY)",
        );
        execute(&mut coordinator, "SELECT create_distributed_table('source', 'tenant')");
        execute(&mut coordinator, "SELECT create_reference_table('copied_source')");
        for source in ["source", "copied_source"] {
            execute(&mut coordinator, &format!("INSERT INTO {source} SELECT generate_series(1, 10)"));
        }
        for (kind, default) in KINDS.iter().flat_map(|kind| [(kind, OURS), (kind, CONTROL)]) {
            let fill = |text| fill(text, kind, default, "");
            execute(&mut coordinator, &fill(TABLE));
            execute(&mut coordinator, &fill(kind.distribute));
            if kind.name == PLAIN {
                execute(&mut nodes[1].connect(), &fill(TABLE));
            }
            execute(&mut coordinator, &fill(FUNCTION));
        }
        Self { nodes }
    }

    /// The versions of Citus and of PostgreSQL.
    pub fn versions(&self) -> String {
        let query =
            "SELECT split_part(citus_version(), ' on ', 1) || ', PostgreSQL ' || current_setting('server_version')";
        value(&mut self.nodes[0].connect(), query)
    }

    /// Sends a statement to a node, and returns the IDs that are in the table then. An error says what the server
    /// refused, or what is wrong with the rows.
    pub fn attempt(
        &self,
        statement: &Statement,
        kind: &Kind,
        default: IdDefault,
        to: usize,
    ) -> Result<Vec<i64>, String> {
        let mark = format!("{}_{to}", statement.identifier());
        let fill = |text: &str| fill(text, kind, default, &mark);
        let mut client = self.nodes[to].connect();
        let mut received = send(&mut client, &statement.sent, fill, &mark).map_err(|error| message(&error))?;
        let stored = |node: &Cluster| ids(node, &fill(statement.stored));
        let ids = stored(&self.nodes[to]);
        received.sort_unstable();
        if !received.is_empty() && received != ids {
            return Err(format!("returned {received:?}, and stored {ids:?}"));
        }
        if kind.name == REFERENCE && self.nodes.iter().any(|node| stored(node) != ids) {
            return Err("the nodes' copies have different values".to_owned());
        }
        Ok(ids)
    }
}

/// Puts the names into a text of [`statements`](super::statements).
pub fn fill(text: &str, kind: &Kind, default: IdDefault, mark: &str) -> String {
    text.replace("{table}", &format!("{}.{}", default.schema, kind.name))
        .replace("{default}", default.expression)
        .replace("{key}", kind.key)
        .replace("{storage}", kind.storage)
        .replace("{mark}", mark)
}

/// The IDs that a query finds on a node, in order.
fn ids(node: &Cluster, query: &str) -> Vec<i64> {
    let rows = node.connect().query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    let mut ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    ids.sort_unstable();
    ids
}

/// Sends a statement, and returns the IDs that come back.
fn send(client: &mut Client, sent: &Sent, fill: impl Fn(&str) -> String, mark: &str) -> Result<Vec<i64>, Error> {
    let mut received = Vec::new();
    match sent {
        Sent::Text(statements) => {
            for message in statements.iter().map(|text| client.simple_query(&fill(text))) {
                let rows = message?.into_iter().filter_map(|message| match message {
                    SimpleQueryMessage::Row(row) => row.get(0).map(|id| id.parse::<i64>().expect("an ID")),
                    _ => None,
                });
                received.extend(rows);
            }
        }
        Sent::Prepared(text) => {
            let prepared = client.prepare(&fill(text))?;
            for tenant in 1..=EXECUTIONS {
                received.extend(client.query(&prepared, &[&tenant, &mark])?.iter().map(|row| row.get::<_, i64>(0)));
            }
            let plans = "SELECT max(generic_plans) FROM pg_prepared_statements";
            assert!(value(client, plans).parse::<i64>().expect("a number") > 0, "no generic plan was used");
        }
        Sent::CopyIn(text) => {
            let mut rows = client.copy_in(&fill(text))?;
            (1..=10).try_for_each(|tenant| writeln!(rows, "{tenant}\t{mark}")).expect("rows");
            rows.finish()?;
        }
        Sent::CopyOut(text) => {
            let mut printed = String::new();
            client.copy_out(&fill(text))?.read_to_string(&mut printed).expect("rows");
            received.extend(printed.lines().map(|id| id.parse::<i64>().expect("an ID")));
        }
    }
    Ok(received)
}
