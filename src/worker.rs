//! The worker that this server is, and so the IDs that it may issue.
//!
//! The worker ID and the data center are found once, when the server starts: see [`host_number`]. A registry can lease
//! the worker ID, or keep other servers from one that is configured.

pub mod citus_group;

use crate::config::{gucs, preload};
use crate::errors::{ConfigurationError, IssueError, LeaseError};
use crate::postgres::failure::Failure;
use crate::postgres::host_number::{self, Resolved, Unresolved};
use crate::shared::shared;
use once_cell::sync::OnceCell;
use pgrx::pg_sys;
use snowflake_core::id::layout::{FieldKind, Layout, Series, SeriesError};
use snowflake_core::server::identity::Worker;
use std::ffi::CString;

/// One of the two numbers of a server.
struct Number {
    variable: &'static str,
    text: fn() -> String,
    resolution: OnceCell<Result<Resolved, Unresolved>>,
}

static WORKER: Number =
    Number { variable: "snowflake_pg.worker_id", text: gucs::worker_id, resolution: OnceCell::new() };
static DATACENTER: Number =
    Number { variable: "snowflake_pg.datacenter_id", text: gucs::datacenter_id, resolution: OnceCell::new() };

/// Whether a registry was configured when the server started.
static HAS_REGISTRY: OnceCell<bool> = OnceCell::new();

/// Whether the server has started as a standby.
static IS_STANDBY: OnceCell<bool> = OnceCell::new();

impl Number {
    fn find(&'static self) -> &'static Result<Resolved, Unresolved> {
        self.resolution.get_or_init(|| host_number::resolve(&(self.text)(), &gucs::data_directory()))
    }

    fn number(&'static self) -> Result<u64, ConfigurationError> {
        match self.find() {
            Ok(resolved) => Ok(resolved.number),
            Err(reason) => Err(ConfigurationError::Unresolved { variable: self.variable, text: (self.text)(), reason }),
        }
    }
}

/// Finds the worker and the data center. To be called in the postmaster, whose processes inherit what was found.
pub fn find() {
    WORKER.find();
    DATACENTER.find();
    HAS_REGISTRY.get_or_init(|| !gucs::registry::registry().is_empty());
    IS_STANDBY.get_or_init(|| gucs::data_directory().join("standby.signal").exists());
    let own = || flat_worker().map_or_else(|_| String::new(), |own| own.to_string());
    let shown = if needs_lease() { "registry".to_owned() } else { own() };
    gucs::show_own_worker(&CString::new(shown).expect("a text without a zero"));
}

/// Whether the server has started as a standby. It can have been promoted since.
pub fn starts_as_standby() -> bool {
    IS_STANDBY.get() == Some(&true)
}

/// Whether the worker is the group of this node in a Citus cluster.
pub fn is_in_citus() -> bool {
    matches!(WORKER.find(), Err(Unresolved::InCitus))
}

/// Whether any worker of a registry will do.
fn is_leased() -> bool {
    matches!(WORKER.find(), Err(Unresolved::Leased))
}

/// Whether a registry must have granted the worker to this server before it issues IDs.
pub fn needs_lease() -> bool {
    is_leased() || HAS_REGISTRY.get() == Some(&true) && (WORKER.find().is_ok() || is_in_citus())
}

/// Whether a registry is configured that takes effect only at the next start.
pub fn ignores_registry() -> bool {
    !needs_lease() && WORKER.find().is_ok() && !gucs::registry::registry().is_empty()
}

/// The worker ID that a registry must grant; `None` if any will do. An error if it is not known yet.
pub fn configured() -> Result<Option<u64>, IssueError> {
    if is_leased() { Ok(None) } else { number().map(Some) }
}

/// The worker ID and where it comes from, whether or not the layout has room for it; `None` if there is none yet.
pub fn worker() -> Option<Resolved> {
    match WORKER.find() {
        Ok(resolved) => Some(resolved.clone()),
        // There is no shared memory yet.
        Err(Unresolved::Leased | Unresolved::InCitus) if preload::is_under_way() => None,
        Err(Unresolved::Leased) => leased().map(|number| Resolved { number, source: "registry".to_owned() }),
        Err(Unresolved::InCitus) => {
            let source = || format!("citus in database {}", gucs::citus_database().to_string_lossy());
            shared().citus.get().map(|number| Resolved { number, source: source() })
        }
        Err(_) => None,
    }
}

/// The data center and where it comes from; `None` if there is none.
pub fn datacenter() -> Option<Resolved> {
    DATACENTER.find().as_ref().ok().cloned()
}

/// The data center.
pub fn datacenter_number() -> Result<u64, IssueError> {
    Ok(DATACENTER.number()?)
}

/// Whether the configuration lets this server issue IDs, now or when its worker is known. Also before there is shared
/// memory.
pub fn may_issue() -> bool {
    if is_leased() || is_in_citus() {
        gucs::invalid_setting().is_none() && layout_in_force().is_ok() && DATACENTER.number().is_ok()
    } else {
        layout_and_series().is_ok()
    }
}

/// The layout and the series of IDs that this server may issue.
pub fn layout_and_series() -> Result<(Layout, Series), IssueError> {
    let layout = layout_in_force()?;
    if let Some(invalid) = gucs::invalid_setting() {
        return Err(ConfigurationError::InvalidSetting(invalid).into());
    }
    if matches!(WORKER.find(), Err(Unresolved::Unset)) {
        return Err(ConfigurationError::WorkerUnset(layout).into());
    }
    let series = layout.series(DATACENTER.number()?, number()?).map_err(|misfit| {
        let resolved = match misfit {
            SeriesError::Number(FieldKind::Datacenter, _) => DATACENTER.find(),
            _ => WORKER.find(),
        };
        let resolved = resolved.as_ref().ok().filter(|resolved| !resolved.is_configured());
        ConfigurationError::InvalidSeries { layout, misfit, resolved }
    })?;
    Ok((layout, series))
}

fn number() -> Result<u64, IssueError> {
    if is_leased() && preload::is_under_way() {
        return Err(LeaseError::Pending { failure: Failure::default() }.into());
    }
    if is_leased() {
        return leased().ok_or_else(|| LeaseError::Pending { failure: why_no_lease() }.into());
    }
    if is_in_citus() {
        // There is no shared memory yet.
        if preload::is_under_way() {
            return Err(ConfigurationError::NoGroup(String::new()).into());
        }
        let group = &shared().citus;
        return Ok(group.get().ok_or_else(|| ConfigurationError::NoGroup(group.reason()))?);
    }
    Ok(WORKER.number()?)
}

/// The worker that the registry has leased, as the layout has it.
fn leased() -> Option<u64> {
    let layout = gucs::layout().ok()?;
    shared().lease.worker().map(|leased| layout.unflatten(leased).1)
}

/// The layout of this server.
pub fn layout_in_force() -> Result<Layout, IssueError> {
    gucs::layout().map_err(|error| ConfigurationError::InvalidLayout(gucs::layout_text(), error).into())
}

/// The layout in which marks are kept, and compared with those of other servers.
pub fn flat_layout() -> Result<Layout, IssueError> {
    // mutant: flat-layout
    Ok(layout_in_force()?.flat())
}

/// The worker of this server in its [`flat_layout`], which has room for it.
pub fn flat_worker() -> Result<Worker, IssueError> {
    let (layout, _) = layout_and_series()?;
    Ok(layout.flatten(DATACENTER.number()?, number()?))
}

/// What went wrong with the registry last.
pub fn why_no_lease() -> Failure {
    if gucs::registry::registry().is_empty() {
        return gucs::registry::unset();
    }
    let failure = shared().lease.failure.read();
    // SAFETY: set when the process started.
    let is_single_user = unsafe { !pg_sys::IsUnderPostmaster };
    if is_single_user {
        return Failure::local("there are no background workers in single-user mode");
    } else if failure.message.is_empty() && !shared().lease.has_client() {
        return Failure {
            hint: "You might need to increase max_worker_processes.".to_owned(),
            ..Failure::local("the registry client is not running")
        };
    } else if failure.message.is_empty() {
        return Failure::of_connection("the registry has not answered yet");
    }
    failure
}
