//! `contrib/monitoring`, with the exporter, the Prometheus and the promtool of Debian. Each test is skipped, aloud,
//! where they are missing: `tools/setup monitoring` unpacks them.

mod alerts;
mod dashboard;
mod exporter;
mod files;

use std::fs;
use testbed::{Cluster, project};

/// Gives a server the extension and the role of the exporter, as docs/monitoring.md says.
fn prepare(cluster: &Cluster) {
    let document = fs::read_to_string(project().join("docs/monitoring.md")).expect("a document");
    let (_, block) = document.split_once("```sql\n").expect("SQL");
    let (sql, _) = block.split_once("```").expect("its end");
    cluster.connect().batch_execute(sql).expect("the extension and a role");
}
