//! Nodes with one configuration, whose workers are their groups.

use crate::nodes::{Citus, node};
use libtest_mimic::Failed;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Cluster, error, value};

const WORKER: &str = "SELECT concat_ws(' ', worker_id, 'from', worker_id_source) FROM snowflake_status";

/// As docs/workers.md has it. The coordinator is asked twice, and is no duplicate of itself.
const CHECK: &str = "SELECT string_agg(concat_ws(' ', worker_id, problem), ', ' ORDER BY server)
    FROM snowflake_check_fleet((
        SELECT array_agg(format('host=%s port=%s dbname=%s', nodename, nodeport, current_database()) ORDER BY nodeid)
        FROM pg_dist_node))";

pub fn run(citus: &Citus) -> Result<(), Failed> {
    for (group, node) in citus.nodes.iter().enumerate() {
        expect(&value(&mut node.connect(), WORKER), &format!("{group} from citus in database postgres"))?;
    }
    expect(&value(&mut citus.nodes[0].connect(), CHECK), "0, 0, 1, 2")?;
    // A server with Citus that is in no cluster has group 0, too.
    let alone = node();
    let mut client = alone.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg")?;
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    let reason = "By the metadata in database \"postgres\", this node is in no Citus cluster.";
    expect(refused.detail().unwrap_or_default(), &format!("It is \"citus\". {reason}"))?;
    let port = value(&mut client, "SHOW port");
    client.batch_execute(&format!("SELECT citus_set_coordinator_host('{}', {port})", alone.host().display()))?;
    // It goes on without a restart.
    alone.wait_until("SELECT worker_id = 0 FROM snowflake_status");
    client.batch_execute("SELECT snowflake_nextval()")?;
    changed()?;
    Ok(())
}

/// A node that is removed and added again has another group. Another node can have its old one by then, if the metadata
/// was made anew.
fn changed() -> Result<(), Failed> {
    let [coordinator, joined] = [node(), node()];
    let mut client = coordinator.connect();
    let port = value(&mut client, "SHOW port");
    let at = |node: &Cluster| format!("'{}', {port}", node.host().display());
    client.batch_execute(&format!("SELECT citus_set_coordinator_host({})", at(&coordinator)))?;
    client.batch_execute(&format!("SELECT citus_add_node({})", at(&joined)))?;
    client.batch_execute("CREATE EXTENSION snowflake_pg")?;
    let mut of_joined = joined.connect();
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
