//! Why there is no answer from another server.

/// The SQLSTATE of a connection that is not made, is lost, or stays silent.
const CONNECTION_FAILURE: &str = "08006";

/// What has gone wrong: an error of another server, of libpq, or of this server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// The SQLSTATE, if the other server has reported the error, or [`CONNECTION_FAILURE`].
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

    /// The other server cannot be reached, or does not answer.
    pub fn of_connection(message: impl Into<String>) -> Self {
        Self { sqlstate: Some(CONNECTION_FAILURE.to_owned()), ..Self::local(message) }
    }

    /// Whether the other server has reported the error.
    pub fn is_answer(&self) -> bool {
        self.sqlstate.as_deref().is_some_and(|sqlstate| sqlstate != CONNECTION_FAILURE)
    }

    /// Whether it can pass without an administrator: the other server does not answer, has no room, or has a lock.
    pub fn can_pass(&self) -> bool {
        matches!(self.sqlstate.as_deref(), Some(CONNECTION_FAILURE | "53400" | "55P03"))
    }
}
