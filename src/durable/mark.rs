//! The mark of this server: [`snowflake_core::mark`] with the parameters of the extension and the memory that its
//! processes share.
//!
//! Before each write, the record in the directory must be the one that this server wrote last, with its revision and
//! the number of its life. Otherwise another server writes there, or an old copy has taken the place of the file.

use crate::config::gucs;
use crate::durable::lease;
use crate::durable::state_file::{self, StateDirectory};
use crate::durable::storage::Disk;
use crate::errors::{IssueError, StateFileError, StatePath};
use crate::shared::machine::{self, Change};
use crate::shared::optional::OsError;
use crate::shared::shared;
use crate::worker;
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::{Mark, MarkSettings, Refusal};

/// The mark of this server, and where it is kept.
pub type ServersMark = Mark<'static, Disk>;

/// The mark in the state directory, which is opened, and created within the data directory.
pub fn open() -> Result<ServersMark, IssueError> {
    within(StateDirectory::open(&gucs::state_directory())?)
}

/// The mark in a state directory.
pub fn within(directory: StateDirectory) -> Result<ServersMark, IssueError> {
    let layout = worker::flat_layout()?;
    let (generator, state) = (&shared().generator, &shared().mark);
    Ok(Mark::new(generator, state, settings(layout), Disk::new(directory, layout)?))
}

/// Makes durable that the machine was cloned, if it was and nobody has accepted that. On a server that has begun, under
/// the lock.
pub fn note_clone() -> Result<(), IssueError> {
    match machine::check() {
        // mutant: clone-noted
        Err(Change::Cloned { .. }) => open()?.note_clone(),
        // It may only be told late.
        Err(Change::Unknown) | Ok(()) => Ok(()),
    }
}

fn settings(layout: Layout) -> MarkSettings {
    MarkSettings {
        layout,
        reserve_ahead_ms: gucs::reserve_ahead_ms(),
        max_borrow_ms: gucs::max_borrow_ms(),
        borrows_ticks: gucs::sequence_exhaustion().borrows_ticks(),
        start_wait_ms: gucs::start_wait_ms(&layout),
        first_wait_ms: gucs::first_wait_ms(&layout),
        wal_mark: gucs::wal_mark(),
    }
}

impl From<Refusal> for IssueError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Clock(now, outside) => Self::Clock(now, outside),
            Refusal::LeaseEnded => lease::end_error(),
            Refusal::Replaced => Self::StateDirectoryReplaced(state_file::path()),
            Refusal::Conflict { conflict, record, identity } => {
                Self::MarkConflict { conflict, record, this_server: identity }
            }
            Refusal::LayoutEndsBefore { layout, begin } => Self::LayoutEndsBefore { layout, begin },
        }
    }
}

/// The error when the clock overtakes each mark before it is on disk.
pub fn too_slow() -> IssueError {
    IssueError::MarkTooSlow {
        last_writes_ms: shared().mark.last_writes_ms(),
        reserve_ahead_ms: gucs::reserve_ahead_ms(),
        max_borrow_ms: gucs::max_borrow_ms(),
    }
}

/// The error of another process that could not write the mark.
pub fn write_error(error: OsError) -> StateFileError {
    let path = if error.is_in_data_directory {
        StatePath::data_directory(&gucs::data_directory())
    } else {
        StatePath::directory(&gucs::state_directory())
    };
    let source = std::io::Error::from_raw_os_error(error.number);
    StateFileError::Io { action: "write file in directory", path, source }
}
