//! Servers that share a registry.

use testbed::{Builder, Cluster, Registry, Witness, error, value};

/// The worker of a server, and where it comes from.
pub const WORKER: &str = "SELECT worker_id || ' from ' || worker_id_source FROM snowflake_status";

/// The worker of the next ID.
pub const OF_NEXT_ID: &str = "SELECT worker_id FROM snowflake_decode(snowflake_nextval())";

/// A layout with two workers.
pub const TWO_WORKERS: &str = "t41 w1 s21";

/// A layout with one worker.
pub const ONE_WORKER: &str = "t41 s22";

/// A server of a fleet with this registry.
pub fn member(registry: &Registry) -> Builder {
    Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo())
}

/// A server that leases this worker, or none.
pub fn numbered(registry: &Registry, worker: u16) -> Builder {
    member(registry).set("snowflake_pg.worker_id", worker)
}

/// Starts a server, and creates the extension.
pub fn start(builder: Builder) -> Cluster {
    let cluster = builder.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// What a server answers.
pub fn answer_of(cluster: &Cluster, query: &str) -> String {
    value(&mut cluster.connect(), query)
}

/// Waits until a server has a lease, and says of which worker.
pub fn worker_of(cluster: &Cluster) -> String {
    cluster.wait_until("SELECT worker_id IS NOT NULL AND lease_until > now() FROM snowflake_status");
    answer_of(cluster, "SELECT worker_id FROM snowflake_status")
}

/// What the registry knows of a worker.
pub fn row_of(registry: &Registry, columns: &str, worker: u16) -> String {
    answer_of(registry, &format!("SELECT {columns} FROM snowflake_registry.workers WHERE worker_id = {worker}"))
}

/// Asks each of some servers for a thousand IDs.
pub fn take_a_thousand(witness: &mut Witness, servers: &[&Cluster]) {
    for server in servers {
        witness.connect(server);
        witness.ask("SELECT snowflake_nextvals(1000)").unwrap_or_else(|error| panic!("{error:?}: {}", server.log()));
    }
}

/// From here on nothing that is committed reaches the standby.
pub fn cut_off(standby: &Cluster, registry: &Registry) {
    standby.configure("primary_conninfo", "host=/nowhere");
    standby.reload();
    registry.wait_until("SELECT NOT EXISTS (SELECT FROM pg_stat_replication)");
}

/// What a server says of itself.
pub fn about(lease_ms: u32) -> String {
    format!(
        "jsonb_build_object('lease_ms', {lease_ms}, 'clock', 0, 'clock_offset_ms', 0, 'issued_until', 0, 'layout', '', 'host', 'thief')"
    )
}

/// How the answer to a server begins that gets no worker since the registry was restored.
pub const REFUSED: &str = "Registry: Registry was restored or has failed over. Leases may have been lost. \
                       The registry leases no worker to another server before ";

/// Sends a server to another registry.
pub fn send_to(server: &Cluster, registry: &Registry) {
    server.configure("snowflake_pg.registry_conninfo", registry.conninfo());
    server.reload();
}

/// Starts a server that must get no worker, since the registry was restored.
pub fn assert_refused(registry: &Registry) {
    let server = start(member(registry));
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert!(refused.detail().is_some_and(|detail| detail.starts_with(REFUSED)), "{refused:?}\n{}", server.log());
}

/// Waits until a server has renewed its lease.
pub fn wait_for_renewal(registry: &Registry, worker: &str) {
    let renewed = "renewed_at > to_timestamp(restored_at / 1000.0)";
    registry.wait_until(&format!(
        "SELECT EXISTS (SELECT FROM snowflake_registry.lease, snowflake_registry.registry WHERE worker_id = {worker} AND {renewed})"
    ));
}
