//! Nodes with one configuration, whose workers are their groups.

use crate::nodes::{Citus, node};
use libtest_mimic::Failed;
use testbed::{error, value};

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
    Ok(())
}

fn expect(found: &str, expected: &str) -> Result<(), Failed> {
    if found == expected { Ok(()) } else { Err(format!("{found} instead of {expected}").into()) }
}
