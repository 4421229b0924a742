//! Why something was not queued, or not read from the queue.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};
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
    /// The server has no JetStream, or has not started it yet: it does not say which.
    #[error(
        "the server of the queue has no JetStream, or has not started it yet: {0}; it needs the block \
         `jetstream {{ store_dir: ... }}` in its configuration, or the option --jetstream"
    )]
    NoJetStream(String),
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

    /// Whether the server may be available later, as it is configured.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::NoJetStream(_))
    }

    /// The error that no server responds.
    pub(super) fn unreachable(error: impl ToString) -> Self {
        Self::Unreachable(shown(error))
    }

    /// The error that a server has returned.
    pub(super) fn refused(error: impl ToString) -> Self {
        Self::Refused(shown(error))
    }

    /// Why a stream was not created.
    pub(super) fn of_stream(error: &CreateStreamError) -> Self {
        let kind = error.kind();
        let returned = match &kind {
            CreateStreamErrorKind::TimedOut => return Self::unreachable(error),
            // No part of the server responds to requests for JetStream.
            CreateStreamErrorKind::JetStreamUnavailable => {
                return Self::NoJetStream(shown(error));
            }
            CreateStreamErrorKind::JetStream(returned) => returned,
            _ => return Self::refused(error),
        };
        match returned.error_code() {
            ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => Self::refused(format_args!(
                "{error}; the server's administrator enables it by `jetstream: enabled` in the account"
            )),
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::CLUSTER_NOT_AVAILABLE => {
                Self::NoJetStream(shown(error))
            }
            _ => Self::refused(error),
        }
    }
}

/// What a server has sent may be in it.
fn shown(error: impl ToString) -> String {
    shorten(&escape_control(&error.to_string()), 300)
}
