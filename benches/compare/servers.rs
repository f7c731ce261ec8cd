//! The throwaway servers on which everything is measured: stock settings and fsync on, but for what is named here.

use crate::contenders::{self, Contender};
use crate::settings::{SETTINGS, Setting};
use bench_report::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use testbed::postgres::Client;
use testbed::{Cluster, Registry, hosted_script, value};

/// One server for each configuration, all in the same machine. Those that are not asked for anything do nothing.
pub struct Servers {
    clusters: BTreeMap<Setting, Cluster>,
    /// Leases the worker of one of them.
    _registry: Registry,
    peers: Vec<Contender>,
}

impl Servers {
    /// Starts them all, with everything that contenders need.
    pub fn start() -> Self {
        let mut clusters = BTreeMap::new();
        let registry = Registry::start();
        for (setting, values) in SETTINGS {
            let builder = Cluster::builder().worker(0).set("max_connections", 100);
            let mut cluster = values.iter().fold(builder, |builder, (name, value)| builder.set(name, value)).create();
            match setting {
                Setting::Default => preload_naive(&cluster),
                Setting::Leased => cluster.configure("snowflake_pg.registry_conninfo", registry.conninfo()),
                _ => {}
            }
            cluster.start();
            clusters.insert(setting, cluster);
        }
        let mut peers = Vec::new();
        for (setting, cluster) in &clusters {
            let mut client = cluster.connect();
            if *setting == Setting::Hosted {
                client.batch_execute(&hosted_script()).expect("the script");
                client.batch_execute("SELECT snowflake_set_worker_id(0)").expect("a worker");
            } else {
                client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
            }
            client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
            if *setting == Setting::Default {
                create_naive(cluster, &mut client);
                peers = contenders::set_up(&mut client);
            }
        }
        Self { clusters, _registry: registry, peers }
    }

    /// The server of a configuration.
    pub fn cluster(&self, setting: Setting) -> &Cluster {
        &self.clusters[&setting]
    }

    /// A session that plans without surprises.
    pub fn connect(&self, setting: Setting) -> Client {
        let mut client = self.cluster(setting).connect();
        client
            .batch_execute("SET jit = off; SET max_parallel_workers_per_gather = 0; SET work_mem = '256MB'")
            .expect("settings");
        client
    }

    /// Adds what the default server says of itself.
    pub fn describe(&self, machine: &mut Machine) {
        let mut client = self.connect(Setting::Default);
        machine.add("PostgreSQL", value(&mut client, "SHOW server_version"));
        let settings = "SELECT string_agg(name || ' ' || current_setting(name), ', ')
                        FROM unnest('{fsync, synchronous_commit, wal_level, shared_buffers}'::text[]) name";
        machine.add("settings", value(&mut client, settings));
    }

    /// Contenders that these servers have, and not every server.
    pub fn peers(&self) -> &[Contender] {
        &self.peers
    }
}

/// Where a server finds the naive generator: beside its data, where its user can read.
const NAIVE: &str = "naive_generator.so";

fn preload_naive(cluster: &Cluster) {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release/libnaive_generator.so");
    let copy = cluster.host().join(NAIVE);
    fs::copy(&built, &copy).unwrap_or_else(|error| panic!("{} can't be copied, is it built? {error}", built.display()));
    cluster.configure("shared_preload_libraries", format!("snowflake_pg, {}", copy.display()));
}

fn create_naive(cluster: &Cluster, client: &mut Client) {
    let library = cluster.host().join(NAIVE);
    let create = format!(
        "CREATE FUNCTION naive_nextval() RETURNS bigint AS '{}', 'naive_nextval_wrapper'
             LANGUAGE C VOLATILE PARALLEL SAFE STRICT",
        library.display()
    );
    client.batch_execute(&create).expect("the naive generator");
}
