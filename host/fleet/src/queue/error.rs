//! Why something was not queued, or not read from the queue.

use cofferdam_text::{escape_control, shorten};

use crate::error::KeyError;

/// Why a queue can't be used, or why a request was not queued.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The text names no server.
    #[error("'{text}' names no queue: {why}")]
    Address {
        /// The beginning of the text.
        text: String,
        /// What would be right.
        why: &'static str,
    },
    /// The secret of the fleet is too short or too long.
    #[error("the secret of a fleet has {least} to {most} bytes; this one has {bytes}")]
    Secret {
        /// The length of the secret, in bytes.
        bytes: usize,
        /// The shortest, in bytes.
        least: usize,
        /// The longest, in bytes.
        most: usize,
    },
    /// The credentials can't be read.
    #[error("the credentials for the queue are not valid: {0}")]
    Credentials(String),
    /// No server can be reached, or it does not respond. A request that was submitted may have been
    /// stored: it can be submitted again with the same key.
    #[error("the server of the queue can't be reached: {0}")]
    Unreachable(String),
    /// The server has refused a request, such as for missing permissions.
    #[error("the server of the queue refuses: {0}")]
    Refused(String),
    /// A name is empty, too long, or has control characters.
    #[error("{what} has to have 1 to {most} bytes and no control characters")]
    Name {
        /// What the name is for.
        what: &'static str,
        /// The longest, in bytes.
        most: usize,
    },
    /// Not the key of a request.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A message is larger than the queue allows.
    #[error("{what} has {bytes} bytes; the queue takes at most {most}")]
    TooLarge {
        /// What kind of message it is.
        what: &'static str,
        /// Its size, in bytes.
        bytes: usize,
        /// The largest, in bytes.
        most: usize,
    },
    /// Too many requests wait for a workspace.
    #[error("{0} requests wait for this workspace already; submit again later")]
    Full(i64),
}

impl QueueError {
    /// Whether the same request would fail again, at any time.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Key(_) | Self::Name { .. } | Self::TooLarge { .. })
    }

    /// The error that no server responds.
    pub(super) fn unreachable(error: impl ToString) -> Self {
        Self::Unreachable(shown(error))
    }

    /// The error that a server has returned.
    pub(super) fn refused(error: impl ToString) -> Self {
        Self::Refused(shown(error))
    }
}

/// What a server has sent may be in it.
fn shown(error: impl ToString) -> String {
    shorten(&escape_control(&error.to_string()), 300)
}
