//! The history of a workspace: its commits, which can be listed, shown and undone.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_core::policy::Retention;

use crate::clock;
use crate::commit::Commit;
use crate::content::{self, Content};
use crate::error::HistoryError;
use crate::history_dirs::HistoryDirs;
use crate::overlay::Overlay;
use crate::restore::{changed_since, restore};
use crate::store::InterruptedCommit;
use crate::transaction::{Purpose, Transaction};
use crate::workspace::Workspace;

/// How many of the latest commits have to agree that a commit is too old.
const WITNESSES: usize = 10;

/// The history of a workspace.
pub struct History {
    workspace: Arc<Workspace>,
}

impl History {
    /// Creates a handle; nothing is opened yet.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    /// Returns the `latest` newest commits, oldest first.
    ///
    /// # Errors
    /// A history that can't be read.
    pub fn list(&self, latest: usize) -> Result<Vec<Commit>, HistoryError> {
        let Some(dirs) = self.open()? else { return Ok(Vec::new()) };
        let entries = dirs.entries()?;
        let from = entries.len().saturating_sub(latest);
        entries[from..].iter().map(|entry| Ok(dirs.read(entry)?)).collect()
    }

    /// Returns a commit that a process did not finish. Changes nothing.
    ///
    /// # Errors
    /// The host's own directory can't be read.
    pub fn interrupted(&self) -> Result<Option<InterruptedCommit>, HistoryError> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(None) };
        Ok(InterruptedCommit::find(&own)?)
    }

    /// Returns the unified diff of a commit, named by the beginning of its id.
    ///
    /// # Errors
    /// [`HistoryError::Unknown`], [`HistoryError::Ambiguous`], images that can't be read.
    pub fn diff(&self, id: &str) -> Result<Vec<u8>, HistoryError> {
        let (commit, images) = self.find(id)?;
        let preview = content::preview(
            &commit.changes,
            |_, image| Content::kept(&images, image),
            |before, after| Content::placed(&images, before, after),
        )?;
        Ok(preview.diff)
    }

    /// Undoes a commit, or the latest one that has not been undone if `id` is `None`: a new commit
    /// restores everything that it changed, with permissions and times. Returns both commits; the
    /// second is `None` if there was nothing to change.
    ///
    /// Without an id, a commit whose old files are gone or damaged is skipped with a warning, so that
    /// it does not block those before it. One that was changed since is not: the user may want to
    /// undo it after all.
    ///
    /// # Errors
    /// [`HistoryError::Changed`] if something was changed since; then nothing is done.
    pub fn undo(
        &self,
        transaction: Transaction,
        id: Option<&str>,
    ) -> Result<(Commit, Option<Commit>), HistoryError> {
        let overlay = transaction.overlay();
        let (commit, images) = match id {
            Some(id) => {
                let (commit, images) = self.find(id)?;
                check_unchanged(overlay, &commit, &images, || None)?;
                (commit, images)
            }
            None => self.latest(overlay)?,
        };
        let directories = restore(overlay, &commit, &images)?;
        let undoes = Some(commit.id.clone());
        let done = transaction.commit(Purpose { calls: Vec::new(), undoes, directories })?;
        Ok((commit, done))
    }

    /// Returns the latest commit that has not been undone and can be, so that repeated undos go back
    /// step by step, and the directory of the images.
    fn latest(&self, overlay: &Overlay) -> Result<(Commit, OwnedFd), HistoryError> {
        let unknown = || HistoryError::Unknown("to undo".to_owned());
        let dirs = self.open()?.ok_or_else(unknown)?;
        let entries = dirs.entries()?;
        let mut first_error = None;
        let mut left = dirs.not_undone(&entries);
        while let Some(commit) = left.next() {
            let checked = commit.map_err(HistoryError::from).and_then(|commit| {
                let earlier =
                    || left.by_ref().find_map(Result::ok).map(|commit| commit.id.to_string());
                check_unchanged(overlay, &commit, &dirs.images, earlier)?;
                Ok(commit)
            });
            match checked {
                Err(HistoryError::Io(error)) => {
                    tracing::warn!("skipped: {error}");
                    first_error.get_or_insert(error);
                }
                checked => {
                    drop(left);
                    return Ok((checked?, dirs.images));
                }
            }
        }
        Err(first_error.map_or_else(unknown, HistoryError::Io))
    }

    /// Removes commits beyond the retention, by number and size first. The latest commit stays
    /// regardless of its size, unless the retention is 0 bytes.
    ///
    /// By age, a commit is removed if it is too old by the clock and by the times of each of the
    /// [`WITNESSES`] latest commits, which stay: a clock that is wrong for a few calls removes
    /// nothing.
    ///
    /// # Errors
    /// A history that can't be written.
    pub fn prune(&self, retention: &Retention) -> Result<(), HistoryError> {
        let Some(dirs) = self.open()? else { return Ok(()) };
        let now = u64::try_from(clock::present().as_second()).unwrap_or(0);
        let entries = dirs.entries()?;
        let witnesses = entries.iter().rev().take(WITNESSES).map(|entry| entry.id.time());
        let now = witnesses.min().map_or(now, |earliest| earliest.min(now));
        let mut bytes = 0_u64;
        for (index, entry) in entries.iter().rev().enumerate() {
            bytes = bytes.saturating_add(entry.bytes);
            let age = Duration::from_secs(now.saturating_sub(entry.id.time()));
            let fits = bytes <= retention.bytes || (index == 0 && retention.bytes > 0);
            let is_young = index < WITNESSES || age <= retention.age;
            if index >= retention.commits || !fits || !is_young {
                dirs.remove(entry)?;
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<Option<HistoryDirs>, HistoryError> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(None) };
        Ok(HistoryDirs::open(&own)?)
    }

    /// Returns a commit, named by the beginning of its id, and the directory of the images.
    fn find(&self, id: &str) -> Result<(Commit, OwnedFd), HistoryError> {
        let unknown = || HistoryError::Unknown(id.to_owned());
        let dirs = self.open()?.ok_or_else(unknown)?;
        let entries = dirs.entries()?;
        let mut matching = entries.iter().filter(|entry| entry.id.starts_with(id));
        let first = matching.next();
        if matching.next().is_some() {
            return Err(HistoryError::Ambiguous(id.to_owned()));
        }
        let commit = dirs.read(first.ok_or_else(unknown)?)?;
        Ok((commit, dirs.images))
    }
}

/// Checks that a commit can be undone. `earlier` returns the commit to name if it can't.
fn check_unchanged(
    overlay: &Overlay,
    commit: &Commit,
    images: &OwnedFd,
    earlier: impl FnOnce() -> Option<String>,
) -> Result<(), HistoryError> {
    let paths = changed_since(overlay, commit, images)?;
    if paths.is_empty() {
        return Ok(());
    }
    Err(HistoryError::Changed { commit: commit.id.to_string(), paths, earlier: earlier() })
}
