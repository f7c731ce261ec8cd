//! The worker that this server is configured to be, and so the IDs that it may issue.
//!
//! The worker ID and the data center are found once, when the server starts: see [`host_number`].

use crate::config::gucs;
use crate::errors::{ConfigurationError, IssueError};
use crate::host_number::{self, Resolved, Unresolved};
use once_cell::sync::OnceCell;
use snowflake_core::identity::Numbers;
use snowflake_core::layout::{FieldKind, Layout, Series, SeriesError};

/// One of the two numbers of a server.
struct Number {
    variable: &'static str,
    text: fn() -> String,
    found: OnceCell<Result<Resolved, Unresolved>>,
}

static WORKER: Number = Number { variable: "snowflake_pg.worker_id", text: gucs::worker_id, found: OnceCell::new() };
static DATACENTER: Number =
    Number { variable: "snowflake_pg.datacenter_id", text: gucs::datacenter_id, found: OnceCell::new() };

impl Number {
    fn find(&'static self) -> &'static Result<Resolved, Unresolved> {
        self.found.get_or_init(|| host_number::resolve(&(self.text)(), &gucs::data_directory()))
    }

    fn number(&'static self) -> Result<u64, ConfigurationError> {
        match self.find() {
            Ok(found) => Ok(found.number),
            Err(reason) => Err(ConfigurationError::Unresolved { variable: self.variable, text: (self.text)(), reason }),
        }
    }
}

/// Finds the worker and the data center. To be called in the postmaster, whose processes inherit what was found.
pub fn find() {
    WORKER.find();
    DATACENTER.find();
}

/// The worker ID and where it comes from, whether or not the layout has room for it; `None` if there is none.
pub fn worker() -> Option<&'static Resolved> {
    WORKER.find().as_ref().ok()
}

/// The data center and where it comes from; `None` if there is none.
pub fn datacenter() -> Option<&'static Resolved> {
    DATACENTER.find().as_ref().ok()
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
    let series = layout.series(DATACENTER.number()?, WORKER.number()?).map_err(|misfit| {
        let found = match misfit {
            SeriesError::Number(FieldKind::Datacenter, _) => datacenter(),
            _ => worker(),
        };
        ConfigurationError::InvalidSeries { layout, misfit, found: found.filter(|found| !found.is_configured()) }
    })?;
    Ok((layout, series))
}

/// The layout of this server.
pub fn layout_in_force() -> Result<Layout, IssueError> {
    gucs::layout().map_err(|error| ConfigurationError::InvalidLayout(gucs::layout_text(), error).into())
}

/// The data center and the worker, and the layout, which has room for them.
pub fn numbers() -> Result<(Numbers, Layout), IssueError> {
    let (layout, _) = layout_and_series()?;
    let number =
        |number: &'static Number| number.number().map(|id| u32::try_from(id).expect("a number that fits the layout"));
    Ok(((number(&DATACENTER)?, number(&WORKER)?), layout))
}
