//! Throwaway PostgreSQL servers with the extension installed: for tests, the demonstration and benchmarks.
//!
//! Nothing is installed into the system, and nothing is left behind except templates in `target`. Each server runs from
//! a private copy of the PostgreSQL installation, in a temporary directory, on Unix sockets only, and stops when its
//! [`Cluster`] is dropped or the process dies. PostgreSQL refuses to run as root, so root's servers run as the user
//! `postgres`.

mod blocks;
mod builder;
mod cluster;
mod copies;
mod disk;
mod faults;
mod host;
pub mod hostile;
mod installation;
mod keeper;
mod load;
mod locale;
mod machine;
mod monitoring;
mod overlay;
mod programs;
mod query;
mod reading;
mod record;
mod registry;
#[cfg(feature = "runner")]
pub mod runner;
mod scratch;
#[cfg(feature = "runner")]
mod shared;
mod stops;
mod template;
mod test_run;
#[cfg(feature = "runner")]
mod times;
mod traces;
mod vmclock;
mod volume;
mod wal_page;

pub use blocks::{Block, blocks};
pub use builder::{Builder, RESERVE_AHEAD_MS};
pub use cluster::{Cluster, PATIENCE};
pub use disk::Disk;
pub use disk_faults_protocol::{Event, Key, Order, Turn};
pub use faults::Frozen;
pub use host::{can_name_hosts, make_private_file, need_hosts};
pub use hostile::{HOSTILE_NOTICE, HostileAnswer, HostileServer};
pub use installation::{
    Installation, has_extension, hosted_script, library, make_install, need_extension, need_postgresql, needed,
    pg_config, postgresql, project, sources, version_of,
};
#[cfg(feature = "runner")]
pub use inventory;
pub use load::{Load, Report, StopOnDrop, Witness, real_time, sleep_past};
pub use locale::chilean;
pub use monitoring::{Exporter, Prometheus, exporter_program, free_port, monitoring_program, with_all_chosen};
pub use postgres;
pub use query::{assert_refused, error, plan, value, waits_for};
pub use reading::{Reader, Seen, Traffic};
pub use record::{mark_in, record_in};
pub use registry::Registry;
pub use rustix::process::Signal;
pub use scratch::{processes_in, send, shield};
#[cfg(feature = "runner")]
pub use shared::{Database, lasting};
pub use stops::Stop;
pub use test_run::skip;
#[cfg(feature = "runner")]
pub use testbed_macros::test;
pub use traces::Traces;
pub use vmclock::Vmclock;
pub use volume::Volume;

use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;

/// To be called by a test whose servers issue IDs twice on purpose: then the audit of their lives must find that.
pub fn expect_duplicates() {
    Traces::current().expect_duplicates();
}

/// To be called by a test whose servers can issue IDs twice, where the guarantees have an exception.
pub fn allow_duplicates() {
    Traces::current().allow_duplicates();
}

/// The layout of servers that have no other configured.
pub fn default_layout() -> Layout {
    "flat".parse().expect("a preset")
}

/// The timestamp of an ID of that layout.
pub fn issued_at(id: i64) -> UnixMs {
    assert!(id > 0, "{id} has wrapped");
    default_layout().issued_at(id.cast_unsigned())
}
