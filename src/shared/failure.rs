//! A failure in shared memory.

use super::text::SharedTexts;
use crate::postgres::failure::Failure;

/// A failure that processes write and read. Each of its texts is cut if it is long.
#[derive(Default)]
pub struct SharedFailure(SharedTexts<4>);

impl SharedFailure {
    /// Writes it, unless another process is writing another one.
    pub fn write(&self, failure: &Failure) {
        let Failure { sqlstate, message, detail, hint } = failure;
        self.0.write_all([sqlstate.as_deref().unwrap_or_default(), message, detail, hint]);
    }

    /// Reads it; the default if it is just being written.
    pub fn read(&self) -> Failure {
        let [sqlstate, message, detail, hint] = self.0.read_all();
        Failure { sqlstate: Some(sqlstate).filter(|code| !code.is_empty()), message, detail, hint }
    }
}
