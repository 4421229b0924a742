//! The files of the beads, a file each: found, read, made, and added to.

use std::{fs, io};

use cofferdam_beads_format::bead::{ATTRIBUTES, DIRECTORY};
use cofferdam_beads_format::{Bead, Change, Event, Id, NotFound, id};
use cofferdam_sdk::{Context, ErrorKind, ToolError, WorkspacePath};
use jiff::Timestamp;

/// How many random ids are tried for a new bead.
const ATTEMPTS: usize = 8;

/// The beads of a workspace.
pub struct Store<'a> {
    context: &'a Context,
}

/// A bead with its file.
#[derive(Debug)]
pub struct Stored {
    /// What it is called.
    pub id: Id,
    /// What its file says.
    pub bead: Bead,
    path: WorkspacePath,
    text: String,
}

impl<'a> Store<'a> {
    /// The beads of a call's workspace.
    pub fn new(context: &'a Context) -> Self {
        Self { context }
    }

    /// The bead that somebody means by an id or the beginning of one.
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

    /// Reads a bead.
    ///
    /// # Errors
    /// `InvalidBeadFile`, with the file and the line; as [`Context::read`].
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

    /// The bead that another one names, if it is still there.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub fn linked(&self, id: &Id) -> Result<Option<Stored>, ToolError> {
        match self.ids()?.contains(id) {
            true => self.get(id.clone()).map(Some),
            false => Ok(None),
        }
    }

    /// Keeps a new bead under a random id that no other one has.
    ///
    /// # Errors
    /// `BeadCreatorNotConfigured` where the directory can't be written.
    pub fn add(&self, bead: &Bead) -> Result<Id, ToolError> {
        let mut attempts = 0;
        loop {
            let id = random_id()?;
            match self.create(&id.file_name(), &bead.to_text()) {
                Ok(()) => break self.tell_git().map(|()| id),
                Err(error) if error.code == "FileExistsError" && attempts < ATTEMPTS => {
                    attempts += 1;
                }
                Err(error) => break Err(unavailable(error)),
            }
        }
    }

    /// Adds an event to a bead's history. What is in its file stays as it is.
    ///
    /// # Errors
    /// `BeadCreatorNotConfigured` where the file can't be written.
    pub fn append(&self, stored: &Stored, change: Change) -> Result<(), ToolError> {
        let event = Event { at: stored.bead.next(Timestamp::now()), change };
        let mut text = stored.text.clone();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&event.to_line());
        self.context.write(&stored.path, text.as_bytes()).map_err(unavailable)
    }

    /// Says how git merges beads, unless somebody has said something already.
    fn tell_git(&self) -> Result<(), ToolError> {
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

    /// The ids of all beads. What else is in the directory is none of them.
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

/// S3's "bead creator not configured": beads can't be kept here. What was denied stays denied.
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
