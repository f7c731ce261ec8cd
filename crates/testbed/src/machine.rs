//! A machine of its own for a server, which is booted and has a resolver of names.

use crate::cluster::Cluster;
use std::net::IpAddr;

/// Each takes effect at the next start of the server, and only if [`can_name_hosts`](crate::can_name_hosts).
impl Cluster {
    /// Boots the machine. The number tells its boots apart.
    pub fn boot(&mut self, number: u8) {
        self.on_host.put("/proc/sys/kernel/random/boot_id", format!("00000000-0000-4000-8000-{number:012}"));
    }

    /// Lets a server at this address resolve names of hosts. The machine waits a second for its answer.
    pub fn resolve_names_at(&mut self, address: &str) {
        self.on_host.put("/etc/resolv.conf", format!("nameserver {address}\noptions timeout:1 attempts:1\n"));
    }

    /// Names hosts with these addresses.
    pub fn name_hosts(&mut self, name: &str, addresses: &[IpAddr]) {
        let lines = addresses.iter().map(|address| format!("{address} {name}\n"));
        self.on_host.put("/etc/hosts", lines.collect());
    }
}
