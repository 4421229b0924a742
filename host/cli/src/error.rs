//! The error that ends a command: its exit status, its place and its hints.

use std::error::Error;
use std::fmt;

use crate::config::ConfigError;
use crate::exit;
use crate::install::InstallError;
use crate::listing::ListingError;
use cofferdam_engine::dispatch::Refusal;
use cofferdam_engine::host::OpenError;
use cofferdam_engine::review::DecideError;
use cofferdam_fleet::FleetError;
use cofferdam_plugin::distribution::FetchError;
use cofferdam_plugin::registry::RegistryError;
use cofferdam_plugin::store::StoreError;
use cofferdam_workspace::{CommitError, HistoryError, ReviewError};

/// The kind of an error, which decides the exit status.
#[derive(Debug, Clone, Copy)]
enum ErrorKind {
    /// Invalid arguments, files or envelopes; nothing was run.
    Usage,
    /// A call or a request failed.
    Call,
    /// The policy or the user does not allow it.
    Denied,
    /// The host or the operating system failed.
    Host,
}

/// The error that ends a command.
#[derive(Debug)]
pub struct CliError {
    kind: ErrorKind,
    /// The file, option or name that the error is about.
    place: Option<String>,
    source: Box<dyn Error + Send + Sync>,
    /// What the user can do about it.
    hints: Vec<String>,
}

impl CliError {
    fn new(kind: ErrorKind, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind, place: None, source: source.into(), hints: Vec::new() }
    }

    /// Invalid arguments, settings or files.
    pub fn usage(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Usage, source)
    }

    /// A call or a request that failed.
    pub fn call(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Call, source)
    }

    /// An action that is not allowed.
    pub fn denied(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Denied, source)
    }

    /// A failure of the host or the operating system.
    pub fn host(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::new(ErrorKind::Host, source)
    }

    /// Sets the file, option or name that the error is about.
    pub fn at(self, place: impl fmt::Display) -> Self {
        Self { place: Some(place.to_string()), ..self }
    }

    /// Adds a hint: what the user can do about the error.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn status(&self) -> u8 {
        match self.kind {
            ErrorKind::Usage => exit::REFUSED,
            ErrorKind::Call => exit::ERROR,
            ErrorKind::Denied => exit::DENIED,
            ErrorKind::Host => exit::HOST,
        }
    }

    /// The message, followed by each hint on a line of its own, for a terminal. `Display` has all of
    /// it on one line.
    pub fn report(&self) -> String {
        let mut text = self.message();
        self.hints.iter().for_each(|hint| text.extend(["\nhint: ", hint]));
        text
    }

    fn message(&self) -> String {
        let source = &self.source;
        match &self.place {
            Some(place) => format!("{place}: {source}"),
            None => source.to_string(),
        }
    }

    /// The refusal, if the error is that of an envelope or a call that was refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.source.downcast_ref()
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message())?;
        self.hints.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

impl From<ReviewError> for CliError {
    fn from(error: ReviewError) -> Self {
        match error {
            ReviewError::Stale { .. }
            | ReviewError::Collides(_)
            | ReviewError::Commit(CommitError::Conflict(_)) => Self::call(error),
            ReviewError::Commit(_) | ReviewError::Io(_) => Self::host(error),
            _ => Self::usage(error),
        }
    }
}

impl From<DecideError> for CliError {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::Begin(error) => Self::host(error),
            DecideError::Review(error) => error.into(),
            DecideError::History(error) => error.into(),
        }
    }
}

impl From<FleetError> for CliError {
    fn from(error: FleetError) -> Self {
        match error {
            FleetError::Address { .. }
            | FleetError::NoStore
            | FleetError::OtherStore { .. }
            | FleetError::Empty(_)
            | FleetError::NotEmpty(_)
            | FleetError::Unsupported { .. } => Self::usage(error),
            FleetError::Begin(_)
            | FleetError::Io(_)
            | FleetError::Commit(
                CommitError::Io { .. }
                | CommitError::NotPublished(_)
                | CommitError::InDoubt(_)
                | CommitError::TooLarge { .. }
                | CommitError::TooMuchHeld(_)
                | CommitError::Unfinished { .. },
            ) => Self::host(error),
            _ => Self::call(error),
        }
    }
}

impl From<Refusal> for CliError {
    fn from(refusal: Refusal) -> Self {
        Self::usage(refusal)
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        let is_denied = matches!(error, ConfigError::Changed { .. });
        Self::new(if is_denied { ErrorKind::Denied } else { ErrorKind::Usage }, error)
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::Registry(
                RegistryError::Changed { .. } | RegistryError::LockMismatch { .. },
            ) => ErrorKind::Denied,
            OpenError::Workspace(_)
            | OpenError::Policy(_)
            | OpenError::Registry(_)
            | OpenError::InWorkspace(_) => ErrorKind::Usage,
            OpenError::Contract(_)
            | OpenError::Runtime(_)
            | OpenError::Threads(_)
            | OpenError::NoRuntime(_) => ErrorKind::Host,
        };
        Self::new(kind, error)
    }
}

impl From<InstallError> for CliError {
    fn from(error: InstallError) -> Self {
        let kind = match error {
            InstallError::Settings(error) => return error.into(),
            InstallError::Lock(_)
            | InstallError::Unknown(_)
            | InstallError::Pack { .. }
            | InstallError::Listing { source: ListingError::List(_), .. }
            | InstallError::Fetch(FetchError::File { .. } | FetchError::TooLarge { .. }) => {
                ErrorKind::Usage
            }
            InstallError::BuiltIn { .. }
            | InstallError::OtherName { .. }
            | InstallError::OtherDigest { .. }
            | InstallError::NoSignature { .. }
            | InstallError::Identity { .. }
            | InstallError::Signature { .. }
            | InstallError::TrustChange { .. }
            | InstallError::Revoked { .. }
            | InstallError::Revocations { .. }
            | InstallError::Catalogue { .. }
            | InstallError::Fetch(FetchError::Digest { .. } | FetchError::Private(..))
            | InstallError::Store(StoreError::NotAccepted { .. } | StoreError::Gone { .. }) => {
                ErrorKind::Denied
            }
            InstallError::Fetch(_) => ErrorKind::Call,
            InstallError::LockFile { .. }
            | InstallError::Store(_)
            | InstallError::Listing { .. } => ErrorKind::Host,
        };
        Self::new(kind, error)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        InstallError::from(error).into()
    }
}

impl From<HistoryError> for CliError {
    fn from(error: HistoryError) -> Self {
        let kind = match error {
            HistoryError::Unknown(_) | HistoryError::NothingToUndo | HistoryError::Ambiguous(_) => {
                ErrorKind::Usage
            }
            HistoryError::Changed { .. }
            | HistoryError::NotAlone
            | HistoryError::Commit(_)
            | HistoryError::Io(_) => ErrorKind::Host,
        };
        Self::new(kind, error)
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        Self::host(error)
    }
}
