//! Nodes with one configuration, whose workers are their groups.

use super::nodes::Citus;
use super::servers::{address, form_cluster, node};
use libtest_mimic::Failed;
use std::thread::sleep;
use std::time::Duration;
use testbed::{error, value};

const WORKER: &str = "SELECT concat_ws(' ', worker_id, 'from', worker_id_source) FROM snowflake_status";

/// A check of all nodes, as docs/workers.md has it.
pub const FLEET: &str = "snowflake_check_fleet((
    SELECT array_agg(format('host=%s port=%s dbname=%s', nodename, nodeport, current_database()))
    FROM pg_dist_node))";

pub fn run(citus: &Citus) -> Result<(), Failed> {
    for (group, node) in citus.nodes.iter().enumerate() {
        expect(&value(&mut node.connect(), WORKER), &format!("{group} from citus in database postgres"))?;
    }
    // The coordinator is asked twice, and is no duplicate of itself.
    let check =
        format!("SELECT string_agg(concat_ws(' ', worker_id, problem), ', ' ORDER BY worker_id, problem) FROM {FLEET}");
    expect(&value(&mut citus.nodes[0].connect(), &check), "0, 0, 1, 2")?;
    // A server with Citus that is in no cluster has group 0, too.
    let alone = node();
    let mut client = alone.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg")?;
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    let reason = "According to the metadata in database \"postgres\", this node is in no Citus cluster.";
    expect(refused.detail().unwrap_or_default(), &format!("It is \"citus\". {reason}"))?;
    client.batch_execute(&format!("SELECT citus_set_coordinator_host({})", address(&alone)))?;
    // It goes on without a restart.
    alone.wait_until("SELECT worker_id = 0 FROM snowflake_status");
    client.batch_execute("SELECT snowflake_nextval()")?;
    changed()?;
    Ok(())
}

/// A node that is removed and added again has another group. Another node can have its old one by then, if the metadata
/// was made anew.
fn changed() -> Result<(), Failed> {
    let nodes = [node(), node()];
    form_cluster(&nodes);
    nodes[0].connect().batch_execute("CREATE EXTENSION snowflake_pg")?;
    let mut of_joined = nodes[1].connect();
    of_joined.batch_execute("SELECT snowflake_nextval()")?;
    expect(&value(&mut of_joined, "SELECT groupid FROM pg_dist_local_group"), "1")?;
    of_joined.batch_execute("UPDATE pg_dist_local_group SET groupid = 7")?;
    let refused = loop {
        match of_joined.batch_execute("SELECT snowflake_nextval()") {
            Ok(()) => sleep(Duration::from_millis(100)),
            Err(error) => break error,
        }
    };
    let refused = refused.as_db_error().map(|error| (error.code().code().to_owned(), error.message().to_owned()));
    let expected = ("55000".to_owned(), "the group of this Citus node has changed".to_owned());
    if refused.as_ref() == Some(&expected) { Ok(()) } else { Err(format!("{refused:?}").into()) }
}

fn expect(found: &str, expected: &str) -> Result<(), Failed> {
    if found == expected { Ok(()) } else { Err(format!("{found} instead of {expected}").into()) }
}
