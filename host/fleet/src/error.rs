//! Why a workspace was not pushed, cloned, pulled or listed.

use std::io;

use cofferdam_plugin::digest::Digest;
use cofferdam_text::shorten;
use cofferdam_workspace::{BeginError, CommitError};

/// The longest key, in bytes.
pub(crate) const MAX_KEY_BYTES: usize = 256;

/// How many paths a message names.
const MAX_NAMED: usize = 20;

/// A text that is no key of a call.
#[derive(Debug, thiserror::Error)]
#[error("a key has 1 to {MAX_KEY_BYTES} visible ASCII characters")]
pub struct KeyError;

/// Why nothing was pushed, cloned, pulled or listed. The workspace is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The text names no store.
    #[error("'{text}' names no store: {why}")]
    Address {
        /// The text, shortened.
        text: String,
        /// What would be right.
        why: String,
    },
    /// The workspace has not been pushed or pulled yet.
    #[error("this workspace has no store yet: name one, such as `cofferdam workspace push STORE`")]
    NoStore,
    /// The workspace is synced with another store.
    #[error("this workspace is synced with {known}, not with {named}")]
    OtherStore {
        /// The store that the workspace is synced with.
        known: String,
        /// The store that was named.
        named: String,
    },
    /// Another process pushes or pulls the workspace.
    #[error("another process pushes or pulls this workspace; try again when it has ended")]
    InUse,
    /// The store has no commits.
    #[error("there is no workspace in {0}: nothing was pushed there yet")]
    Empty(String),
    /// The store does not refuse to create an object twice, so two hosts could create one commit.
    #[error(
        "the store {0} replaces an object that was to be created only once; it can't be used: the \
         commits of two hosts would overwrite each other"
    )]
    NoConditionalPut(String),
    /// The store has commits that the workspace does not have.
    #[error(
        "the store has newer commits (number {0} and perhaps more): pull first, or push with --pull"
    )]
    Behind(u64),
    /// Other commits were created again and again.
    #[error("others have pushed {0} times meanwhile; push again later")]
    LostRaces(usize),
    /// Places were changed both in the workspace and in the store.
    #[error("changed in the workspace and in the store, so nothing was changed: {}", named(.0))]
    Collides(Vec<String>),
    /// Files were changed again and again while they were read.
    #[error("changed by another process while it was read: {0}; push again")]
    Changing(String),
    /// Something that a commit of the workspace can't contain.
    #[error("{place}: {why}")]
    Unsupported {
        /// The place in the workspace.
        place: String,
        /// Why it can't be contained.
        why: String,
    },
    /// A document in the store that is not valid, or that names what a workspace may not contain.
    #[error("{what} in the store is not valid: {why}")]
    Invalid {
        /// The document.
        what: String,
        /// What is wrong.
        why: String,
    },
    /// An object whose content does not have the digest by which it is named, or not its size.
    #[error("the object {0} in the store has other content: it is damaged, or was changed")]
    WrongContent(Digest),
    /// An object that a commit names does not exist.
    #[error("the object {0}, which a commit names, is missing in the store")]
    MissingObject(Digest),
    /// A commit is missing whose successor exists, or that this workspace has seen.
    #[error(
        "the commit {0} is missing in the store: it was removed, or the store is an older copy"
    )]
    MissingCommit(u64),
    /// A commit is not the one that this workspace has seen.
    #[error(
        "the commit {0} in the store was replaced: it is not the one that this workspace has seen"
    )]
    Replaced(u64),
    /// A commit does not name the one before it.
    #[error(
        "the commit {0} in the store does not follow the commit before it: the chain is broken"
    )]
    BrokenChain(u64),
    /// Not the key of a call.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The call was made, but what it returned is too large to be kept.
    #[error("a result has {0} bytes, and may have {1}")]
    LargeResult(usize, u64),
    /// The store at this address is another one than before.
    #[error("{0} is another store than the one that this workspace is synced with")]
    AnotherStore(String),
    /// The new files have no room on the disk. A small store can describe large files.
    #[error("the files to be written have {bytes} bytes, and {free} bytes are free on the disk")]
    TooLarge {
        /// The size of all new files, in bytes.
        bytes: u64,
        /// The free space, in bytes.
        free: u64,
    },
    /// The directory of a clone exists and has contents.
    #[error("{0} exists and is not an empty directory")]
    NotEmpty(String),
    /// The store can't be reached, or refuses a request.
    #[error("the store: {0}")]
    Store(String),
    /// The workspace can't be changed at present.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The changes were not committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// I/O error in the workspace.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl FleetError {
    /// An invalid document.
    pub(crate) fn invalid(what: impl Into<String>, why: impl ToString) -> Self {
        Self::Invalid { what: what.into(), why: shorten(&why.to_string(), 300) }
    }

    /// Whether the same request would fail again, on any host and at any time.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Key(_) | Self::LargeResult(..))
    }

    /// Something in the workspace that can't be pushed.
    pub(crate) fn unsupported(place: &str, why: impl ToString) -> Self {
        Self::Unsupported { place: place.to_owned(), why: why.to_string() }
    }
}

impl From<object_store::Error> for FleetError {
    fn from(error: object_store::Error) -> Self {
        Self::Store(shorten(&error.to_string(), 500))
    }
}

fn named(places: &[String]) -> String {
    let mut text = places.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    if places.len() > MAX_NAMED {
        text.push_str(&format!(" and {} more", places.len() - MAX_NAMED));
    }
    text
}
