//! Errors that several modules return.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// An operation that the host refused, as opposed to the operating system. Travels in an
/// [`io::Error`] of the kind `PermissionDenied`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Whether no call may change this kind of file, as opposed to this call.
    pub unsupported: bool,
    /// What was refused and for which reason.
    pub reason: String,
}

impl Refused {
    /// Returns an error for something that this call may not access.
    pub fn denied(reason: String) -> io::Error {
        Self { unsupported: false, reason }.into()
    }

    /// Returns an error for something that no call may change.
    pub fn unsupported(reason: String) -> io::Error {
        Self { unsupported: true, reason }.into()
    }

    /// Returns the refusal in an error, if it contains one.
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Refused {}

/// Why a transaction was not committed. Except after [`CommitError::Unfinished`] and
/// [`CommitError::InDoubt`], the workspace is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another process changed what the transaction has read or was going to change.
    #[error("changed by another process meanwhile: {}", .0.join(", "))]
    Conflict(Vec<String>),
    /// A place that no call may change.
    #[error("{place} is protected: {why}")]
    Protected {
        /// The place, relative to the workspace.
        place: String,
        /// The rule that protects it.
        why: String,
    },
    /// I/O error before anything was changed, or after all changes were reverted.
    #[error("{place}: {source}")]
    Io {
        /// The place that the error is about.
        place: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The call was made already: another host has published its result.
    #[error("this call was made already, on another host")]
    Repeated,
    /// The store of the workspace did not take the commit.
    #[error("the commit was not published: {0}")]
    NotPublished(String),
    /// The store did not say whether it has taken the commit.
    #[error(
        "it is not known whether the commit was published: {0}; read what the call was going to change \
         before you repeat it"
    )]
    InDoubt(String),
    /// The commit's file would be larger than a host reads.
    #[error(
        "a commit of {changes} changes would need more than the {} MiB that can be written down of \
         one; make the changes in several parts",
        .most >> 20
    )]
    TooLarge {
        /// The number of changes.
        changes: usize,
        /// The largest size that can be written, in bytes.
        most: usize,
    },
    /// A proposal, or all of them, would be larger than what is kept.
    #[error("{0}; a user has to accept or reject some with `cofferdam review` first")]
    TooMuchHeld(String),
    /// I/O error, and another one while the changes made so far were reverted.
    #[error(
        "{place}: {source}; the commit is half done, and the next call that changes something \
         finishes it"
    )]
    Unfinished {
        /// The place that the second error is about.
        place: String,
        /// Why the change there could not be reverted.
        source: io::Error,
    },
}

/// Why the history can't be read, or a commit can't be undone.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The history has no such commit.
    #[error(
        "there is no commit {0}, or it is not kept any more ([history] says how long it would \
         be); `cofferdam log --commits` lists all that were made"
    )]
    Unknown(String),
    /// Each commit has been undone, or there are none.
    #[error(
        "there is no commit to undo, or it is not kept any more ([history] says how long it would \
         be); `cofferdam log --commits` lists all that were made"
    )]
    NothingToUndo,
    /// The ids of several commits begin like this.
    #[error("{0} is the beginning of several commits; write more of it")]
    Ambiguous(String),
    /// Paths of the commit were changed again.
    #[error(
        "changed since the commit {commit}, so it can't be undone: {}{}",
        paths.join(", "),
        earlier.as_ref().map(|id| format!("; the one before it is {id}, to be undone by its id"))
            .unwrap_or_default()
    )]
    Changed {
        /// The id of the commit that was to be undone.
        commit: String,
        /// The paths, each with the difference.
        paths: Vec<String>,
        /// The commit before it that has not been undone, if the latest one was to be undone.
        earlier: Option<String>,
    },
    /// The transaction has other changes.
    #[error("an undo is a commit of its own: make it in a call of its own, without other changes")]
    NotAlone,
    /// The undo was not committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// I/O error in the history.
    #[error("the history: {0}")]
    Io(#[from] io::Error),
}

/// Whether an error says that a disk, or the user's quota on it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error says that a file, or a directory on the way to it, does not exist (any more).
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Adds the place to an error of the operating system. Other errors name it themselves.
pub(crate) fn about(place: &str, error: io::Error) -> io::Error {
    if error.get_ref().is_some() || place.is_empty() {
        error
    } else {
        io::Error::new(error.kind(), format!("{place}: {error}"))
    }
}
