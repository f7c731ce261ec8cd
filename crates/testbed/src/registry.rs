//! A registry of worker IDs, on a server without the extension.

use crate::cluster::{Builder, Cluster};
use std::ops::{Deref, DerefMut};

/// A server with a registry, and a role for servers.
pub struct Registry(Cluster);

/// The role with which servers ask the registry.
const ROLE: &str = "fleet";

impl Registry {
    pub fn start() -> Self {
        Self::start_as(Cluster::builder())
    }

    /// Starts one on a server like this.
    pub fn start_as(builder: Builder) -> Self {
        let registry = Self(builder.start());
        registry.install();
        let role = format!("CREATE ROLE {ROLE} LOGIN IN ROLE snowflake_registry_server");
        registry.connect().batch_execute(&role).expect("a role");
        registry
    }

    /// A registry that another server has, or will have when it is promoted.
    pub fn on(cluster: Cluster) -> Self {
        Self(cluster)
    }

    /// Runs the script, as a DBA does.
    pub fn install(&self) {
        let script = self.extension_scripts().join("snowflake_registry.sql");
        let output = self.psql().args(["--set=QUIET=off", "--file"]).arg(script).output().expect("psql");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success() && said.is_empty(), "{}", String::from_utf8_lossy(&said));
    }

    /// The connection string for servers.
    pub fn conninfo(&self) -> String {
        format!("host={} user={ROLE} dbname=postgres", self.host().display())
    }
}

impl Deref for Registry {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.0
    }
}

impl DerefMut for Registry {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.0
    }
}
