//! Calls that wait for an answer of the user. What such a call has staged is kept here, with a state of
//! the engine, so that it holds no lock meanwhile, and any process can continue it.
//!
//! Each has a directory in `.cofferdam/paused`, which gets its name when it is complete. The staged
//! changes are a held commit, as in a proposal; its images and the state are authenticated. A paused call
//! continues once: its directory is removed under the workspace's lock.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cofferdam_core::policy::OWN;
use rustix::fs::OFlags;
use uuid::Uuid;

use crate::commit::{Author, CommitId};
use crate::error::CommitError;
use crate::layout::PAUSED;
use crate::own;
use crate::plan::plan;
use crate::proposals::Proposals;
use crate::proposed::MAX_PROPOSAL_BYTES;
use crate::seal::TAG;
use crate::transaction::Transaction;
use crate::workspace::Workspace;
use crate::{clock, disk};

/// The domain of the tag of a state.
const DOMAIN: &str = "paused";

/// The file with the state, in the directory of a paused call.
const STATE: &str = "state";

/// The directory with the staged changes, in the directory of a paused call.
const CHANGES: &str = "changes";

/// How the name of a directory begins that is not complete.
const NEW: &str = "new.";

/// The largest state, in bytes.
const MAX_STATE_BYTES: u64 = 128 << 20;

/// The largest number of paused calls; beyond it, the oldest is removed.
const MAX_PAUSED: usize = 32;

/// How long a paused call is kept, in seconds.
const MAX_AGE: i64 = 24 * 60 * 60;

/// The id of a paused call: a UUID of version 7. It can't be guessed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PausedId(Uuid);

impl PausedId {
    fn new() -> Self {
        Self(CommitId::new().parse().unwrap_or_else(|_| Uuid::now_v7()))
    }

    /// Whether the call can still continue.
    fn is_open(&self) -> bool {
        let paused = self.0.get_timestamp().map_or(0, |time| time.to_unix().0);
        let age = clock::present().as_second() - i64::try_from(paused).unwrap_or(i64::MAX);
        age < MAX_AGE
    }
}

impl std::str::FromStr for PausedId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

impl std::fmt::Display for PausedId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Workspace {
    /// Returns the state of a paused call; `None` if there is no such call, or its state is not
    /// authentic.
    ///
    /// # Errors
    /// I/O errors.
    pub fn paused(&self, id: &PausedId) -> io::Result<Option<Vec<u8>>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(all) = own::existing_directory(&*own, PAUSED)? else { return Ok(None) };
        let name = id.to_string();
        let Some(directory) = own::existing_directory(&all, &name)? else { return Ok(None) };
        let file: File = disk::open(&directory, STATE, OFlags::RDONLY)?.into();
        let mut sealed = Vec::new();
        if file.metadata()?.is_file() {
            file.take(MAX_STATE_BYTES + 1).read_to_end(&mut sealed)?;
        }
        let state = own.key().content(DOMAIN, &name, &sealed);
        if state.is_none() {
            tracing::warn!("{OWN}/{PAUSED}/{name} is not used: no host of this user wrote it");
        }
        Ok(state.filter(|_| id.is_open()).map(<[u8]>::to_vec))
    }

    /// Removes a paused call that will not continue.
    ///
    /// # Errors
    /// I/O errors.
    pub fn discard_paused(&self, id: &PausedId) -> io::Result<()> {
        let Some(own) = self.existing_own()? else { return Ok(()) };
        match own::existing_directory(&*own, PAUSED)? {
            Some(all) => disk::remove_all(&all, &id.to_string()),
            None => Ok(()),
        }
    }
}

impl Transaction {
    /// Keeps the staged changes and a state, and ends the transaction. Its changes must not be based on
    /// held ones.
    ///
    /// # Errors
    /// See [`CommitError`]; [`CommitError::TooLarge`] if the changes are larger than a proposal can be, or
    /// the state is too large.
    pub fn pause(self, state: Vec<u8>) -> Result<PausedId, CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let id = PausedId::new();
        let all =
            self.workspace.own().and_then(|own| own::directory(&*own, PAUSED)).map_err(own)?;
        let new = format!("{NEW}{id}");
        let made = tidy(&all).map_err(own).and_then(|()| {
            let directory = own::directory(&all, &new).map_err(own)?;
            self.write_paused(&directory, &id, state)?;
            disk::rename(&all, &new, &all, id.to_string()).map_err(own)
        });
        if made.is_err() {
            disk::remove_all(&all, &new).unwrap_or_else(|error| {
                tracing::warn!("{OWN}/{PAUSED}/{new} was not removed: {error}");
            });
        }
        made.map(|()| id).map_err(|error| match error {
            CommitError::TooMuchHeld(_) => self.too_large(),
            error => error,
        })
    }

    fn write_paused(
        &self,
        directory: &OwnedFd,
        id: &PausedId,
        mut state: Vec<u8>,
    ) -> Result<(), CommitError> {
        let io = |source| CommitError::Io { place: OWN.to_owned(), source };
        if state.len() as u64 > MAX_STATE_BYTES - TAG as u64 {
            return Err(self.too_large());
        }
        let own = self.workspace.own().map_err(io)?;
        let (changes, _) = plan(&self.overlay)?;
        if !changes.is_empty() {
            let images = own::directory(directory, CHANGES).map_err(io)?;
            let images = Proposals::at(Arc::clone(&own), images);
            self.write_revision(&images, &changes, Vec::new(), Author::default())?;
        }
        own.key().append(DOMAIN, &id.to_string(), &mut state);
        let mut file = disk::create(directory, STATE).map_err(io)?;
        file.write_all(&state).and_then(|()| disk::sync(&file)).map_err(io)
    }

    fn too_large(&self) -> CommitError {
        let most = usize::try_from(MAX_PROPOSAL_BYTES).unwrap_or(usize::MAX);
        CommitError::TooLarge { changes: self.change_count(), most }
    }

    /// Stages the changes of a paused call, which exists no more afterwards. Returns whether all of them
    /// could be staged: if not, nothing must be committed.
    ///
    /// # Errors
    /// I/O errors; then nothing must be committed either.
    pub fn resume(&self, id: &PausedId) -> io::Result<bool> {
        let own = self.workspace.own()?;
        let all = own::directory(&*own, PAUSED)?;
        let name = id.to_string();
        let Some(directory) = own::existing_directory(&all, &name)? else { return Ok(false) };
        let mut is_whole = true;
        if let Some(images) = own::existing_directory(&directory, CHANGES)? {
            let images = Proposals::at(own, images);
            match images.current()?.pop() {
                Some(commit) => {
                    is_whole = self.overlay.stack(&images.directory, &commit)?.is_empty();
                }
                None => is_whole = false,
            }
        }
        disk::remove_all(&all, &name)?;
        Ok(is_whole)
    }
}

/// Removes what is too old or was not completed, and the oldest calls if there are too many. The caller
/// holds the workspace's lock.
fn tidy(all: &OwnedFd) -> io::Result<()> {
    let mut kept: Vec<String> = Vec::new();
    for entry in disk::entries(all)? {
        let Ok(name) = entry?.name.into_string() else { continue };
        match name.parse::<PausedId>().is_ok_and(|id| id.is_open()) {
            true => kept.push(name),
            false => disk::remove_all(all, &name)?,
        }
    }
    kept.sort();
    let too_many = (kept.len() + 1).saturating_sub(MAX_PAUSED);
    kept.iter().take(too_many).try_for_each(|name| disk::remove_all(all, name))
}
