//! Why there is no answer from another server.

/// What has gone wrong: an error of another server, of libpq, or of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The SQLSTATE, if the other server has reported the error.
    pub sqlstate: Option<String>,
    /// What has happened.
    pub message: String,
    /// More about it; may be empty.
    pub detail: String,
    /// What to do; may be empty.
    pub hint: String,
}

impl Failure {
    /// An error that no other server has reported.
    pub fn local(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }
}
