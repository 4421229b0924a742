//! Finds, reads, creates and extends the files of the beads.

use std::{fs, io};

use cofferdam_beads_format::bead::{ATTRIBUTES, DIRECTORY};
use cofferdam_beads_format::{Bead, Change, Event, Id, NotFound, id};
use cofferdam_sdk::{Context, ErrorKind, ToolError, WorkspacePath};
use jiff::Timestamp;

/// The number of random ids tried for a new bead.
const MAX_ID_ATTEMPTS: usize = 8;

/// The beads in a workspace.
pub struct Store<'a> {
    context: &'a Context,
}

/// A bead read from its file.
#[derive(Debug)]
pub struct Stored {
    /// The id of the bead.
    pub id: Id,
    /// The contents of its file.
    pub bead: Bead,
    path: WorkspacePath,
    text: String,
}

impl<'a> Store<'a> {
    /// Opens the beads in a call's workspace.
    pub fn new(context: &'a Context) -> Self {
        Self { context }
    }

    /// Finds a bead by its id or an abbreviation of it.
    ///
    /// # Errors
    /// `BeadNotFound`, `AmbiguousBead`, and as [`Store::get`].
    pub fn find(&self, given: &str) -> Result<Stored, ToolError> {
        let id = id::find(given, &self.ids()?).map_err(|error| match error {
            NotFound::Unknown { .. } => ToolError::not_found("BeadNotFound", error.to_string()),
            NotFound::Ambiguous { .. } => {
                ToolError::invalid_args("AmbiguousBead", error.to_string())
            }
        })?;
        self.get(id)
    }

    /// Reads the bead with this id.
    ///
    /// # Errors
    /// `InvalidBeadFile`, with the file and the line; those of [`Context::read`].
    pub fn get(&self, id: Id) -> Result<Stored, ToolError> {
        let path = self.path(&id.file_name())?;
        let contents = self.context.read(&path)?;
        let invalid = |line: usize, message: &str| {
            ToolError::conflict("InvalidBeadFile", format!("{path}:{line}: {message}"))
        };
        let bead = Bead::parse(&contents).map_err(|found| invalid(found.line, &found.message))?;
        let text = String::from_utf8_lossy(&contents).into_owned();
        Ok(Stored { id, bead, path, text })
    }

    /// Reads the bead that another bead refers to; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn linked(&self, id: &Id) -> Result<Option<Stored>, ToolError> {
        match self.ids()?.contains(id) {
            true => self.get(id.clone()).map(Some),
            false => Ok(None),
        }
    }

    /// Stores a new bead under a random id that is not in use.
    ///
    /// # Errors
    /// `BeadCreatorNotConfigured` if the directory can't be written.
    pub fn add(&self, bead: &Bead) -> Result<Id, ToolError> {
        let mut attempts = 0;
        loop {
            let id = random_id()?;
            match self.create(&id.file_name(), &bead.to_text()) {
                Ok(()) => break self.create_attributes_file().map(|()| id),
                Err(error) if error.code == "FileExistsError" && attempts < MAX_ID_ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => break Err(unavailable(error)),
            }
        }
    }

    /// Appends an event to a bead's history. Nothing else in its file changes.
    ///
    /// # Errors
    /// `BeadCreatorNotConfigured` if the file can't be written.
    pub fn append(&self, stored: &Stored, change: Change) -> Result<(), ToolError> {
        let event = Event { at: stored.bead.next(Timestamp::now()), change };
        let mut text = stored.text.clone();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&event.to_line());
        self.context.write(&stored.path, text.as_bytes()).map_err(unavailable)
    }

    /// Creates the file that tells git how to merge beads, unless it exists.
    fn create_attributes_file(&self) -> Result<(), ToolError> {
        let (name, text) = ATTRIBUTES;
        match self.create(name, text) {
            Err(error) if error.code != "FileExistsError" => Err(unavailable(error)),
            _ => Ok(()),
        }
    }

    fn create(&self, name: &str, text: &str) -> Result<(), ToolError> {
        self.context.create(&self.path(name)?, text.as_bytes())
    }

    fn path(&self, name: &str) -> Result<WorkspacePath, ToolError> {
        self.context.resolve(&format!("{DIRECTORY}/{name}"))
    }

    /// The ids of all beads; other files in the directory are ignored.
    fn ids(&self) -> Result<Vec<Id>, ToolError> {
        let list = |directory| {
            let entries = fs::read_dir(directory)?;
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect::<io::Result<Vec<String>>>()
        };
        let names = match list(self.context.local(&self.context.resolve(DIRECTORY)?)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names.map_err(|error| unavailable(ToolError::io(DIRECTORY, &error)))?,
        };
        Ok(names.iter().filter_map(|name| Id::of_file(name)?.ok()).collect())
    }
}

fn random_id() -> Result<Id, ToolError> {
    let mut bytes = [0; 5];
    getrandom::fill(&mut bytes).map_err(|error| {
        unavailable(ToolError::failed("OSError", format!("no random numbers: {error}")))
    })?;
    Ok(Id::from_random(bytes))
}

/// Converts an I/O error to "bead creator not configured", as the actions reference calls it; a
/// denial stays one.
fn unavailable(error: ToolError) -> ToolError {
    let kind = match error.kind {
        kind @ (ErrorKind::Denied | ErrorKind::Limit) => kind,
        _ => ErrorKind::Unavailable,
    };
    let message = format!(
        "beads are kept in {DIRECTORY}, which can't be used: {}; it has to be a directory that \
         this call may write",
        error.message
    );
    ToolError::new(kind, "BeadCreatorNotConfigured", message)
}
