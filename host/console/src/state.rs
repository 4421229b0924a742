//! What all requests share: the workspace, the process's turn to answer questions, and the message that
//! the next page shows.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

use crate::guard::Access;
use cofferdam_engine::review::Reviewer;
use cofferdam_workspace::{Activity, Listener, Workspace};

/// What the user answers questions and cancels calls with, in the record.
pub const NAME: &str = "cofferdam console";

/// Who decides, in the record of a review.
pub const REVIEWER: &str = "console";

/// Reads what is granted now, as the command's own documents say it: `plugins` (each as `plugin list` and
/// `policy explain` describe it) and `policy` (as `policy show`).
pub type Permissions = Box<dyn Fn() -> Result<Value, String> + Send + Sync>;

/// What a console is started with.
pub struct Settings {
    /// Whose proposals, questions, calls and history it shows.
    pub workspace: Arc<Workspace>,
    /// Reads what is granted now.
    pub permissions: Permissions,
    /// The port on 127.0.0.1; 0: a free one.
    pub port: u16,
}

/// What pages show: the host's files, and the open questions by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// The state of the host's files.
    pub activity: Activity,
    /// The names of the open questions.
    pub questions: Vec<String>,
}

/// Tells open pages what has changed.
pub struct Changes {
    /// What was seen last.
    pub seen: watch::Sender<Seen>,
    /// Whether the poller runs.
    pub is_polling: AtomicBool,
}

impl Default for Changes {
    fn default() -> Self {
        Self { seen: watch::Sender::new(Seen::default()), is_polling: AtomicBool::new(false) }
    }
}

/// A console that runs.
pub struct Console {
    /// Carries out decisions.
    pub reviewer: Reviewer,
    /// Reads what is granted now.
    pub permissions: Permissions,
    /// Who may use it.
    pub access: Access,
    /// Tells open pages of changes.
    pub changes: Changes,
    listener: Mutex<Option<Arc<Listener>>>,
    message: Mutex<Option<String>>,
}

impl Console {
    /// Creates a console; nothing is opened yet.
    pub fn new(settings: Settings, access: Access) -> Self {
        Self {
            reviewer: Reviewer::new(settings.workspace),
            permissions: settings.permissions,
            access,
            changes: Changes::default(),
            listener: Mutex::default(),
            message: Mutex::default(),
        }
    }

    pub fn workspace(&self) -> &Arc<Workspace> {
        self.reviewer.workspace()
    }

    /// Returns what answers questions, if no other process does. Tries to become that process.
    ///
    /// # Errors
    /// I/O errors.
    pub fn listener(&self) -> io::Result<Option<Arc<Listener>>> {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        // Waiting for the lock would take a while.
        if listener.is_none() && !self.workspace().has_listener() {
            *listener = self.workspace().listen(NAME)?.map(Arc::new);
        }
        Ok(listener.clone())
    }

    /// Sets what the next page shows.
    pub fn say(&self, message: impl Into<String>) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = Some(message.into());
    }

    /// Returns what this page shows.
    pub fn said(&self) -> Option<String> {
        self.message.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
