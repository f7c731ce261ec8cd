//! A registry of worker IDs, which the script has made.

use crate::builder::Builder;
use crate::cluster::Cluster;
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
        registry.let_servers_in()
    }

    /// Starts one that is an extension.
    pub fn as_extension() -> Self {
        Self::extension_on(Cluster::builder())
    }

    /// The same on a server like this.
    pub fn extension_on(builder: Builder) -> Self {
        let registry = Self(builder.start());
        registry.connect().batch_execute("CREATE EXTENSION snowflake_registry").expect("the extension");
        registry.let_servers_in()
    }

    fn let_servers_in(self) -> Self {
        let role = format!("CREATE ROLE {ROLE} LOGIN IN ROLE snowflake_registry_server");
        self.connect().batch_execute(&role).expect("a role");
        self
    }

    /// A registry that another server has, or will have when it is promoted.
    pub fn on(cluster: Cluster) -> Self {
        Self(cluster)
    }

    /// Runs the script, as a DBA does.
    pub fn install(&self) {
        let said = self.run_script();
        assert_eq!(said, "");
    }

    /// Runs the script of the package that its server has. What that says, also if it fails.
    pub fn run_script(&self) -> String {
        let script = self.script("snowflake_registry.sql");
        let output = self.psql().args(["--set=QUIET=off", "--file"]).arg(script).output().expect("psql");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
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
