//! The history of a workspace: its commits, which can be listed, shown and undone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_core::policy::Retention;

use crate::clock;
use crate::commit::{Change, Commit, CommitId, Image, Net, net};
use crate::content::{self, Content};
use crate::error::HistoryError;
use crate::history_dirs::{HistoryDirs, HistoryEntry};
use crate::overlay::{Overlay, Undo};
use crate::restore::{changed_since, restore};
use crate::store::InterruptedCommit;
use crate::transaction::{Purpose, Transaction};
use crate::workspace::Workspace;

/// How many of the latest commits have to agree that a commit is too old.
const WITNESSES: usize = 10;

/// The history of a workspace, or a part of it.
pub struct History {
    workspace: Arc<Workspace>,
    /// The only commits that are listed, shown and undone; `None`: all of them.
    only: Option<BTreeSet<CommitId>>,
}

/// A commit in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedCommit {
    /// The commit.
    pub commit: Commit,
    /// The commit that undoes it at present. To undo that one makes its changes again.
    pub undone_by: Option<CommitId>,
}

/// What several commits in a row changed together, and what other programs changed of the same files in
/// between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeDiff {
    /// The oldest commit.
    pub first: Commit,
    /// The newest commit.
    pub last: Commit,
    /// The number of commits.
    pub commits: usize,
    /// From the files before the first commit to the files after the last one, as a unified diff.
    pub diff: Vec<u8>,
    /// The paths that are left out since their files are not kept any more.
    pub unreadable: Vec<String>,
}

/// The commits that are undone at present, with those that undo them; read from the newest one on.
#[derive(Default)]
struct Undone(BTreeMap<CommitId, CommitId>);

impl Undone {
    /// Adds what a commit undoes. Returns the commit that undoes it: then it has no effect any more.
    fn see(&mut self, commit: &Commit) -> Option<CommitId> {
        let by = self.0.get(&commit.id).cloned();
        if let Some(id) = commit.undoes.clone().filter(|_| by.is_none()) {
            self.0.insert(id, commit.id.clone());
        }
        by
    }
}

impl History {
    /// Creates a handle; nothing is opened yet.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace, only: None }
    }

    /// Restricts the handle to some commits: it knows no other ones.
    #[must_use]
    pub fn only(self, commits: impl IntoIterator<Item = CommitId>) -> Self {
        Self { only: Some(commits.into_iter().collect()), ..self }
    }

    /// Returns the `latest` newest commits, oldest first.
    ///
    /// # Errors
    /// A history that can't be read.
    pub fn list(&self, latest: usize) -> Result<Vec<Commit>, HistoryError> {
        let Some(dirs) = self.open()? else { return Ok(Vec::new()) };
        let entries = self.entries(&dirs)?;
        let from = entries.len().saturating_sub(latest);
        entries[from..].iter().map(|entry| Ok(dirs.read(entry)?)).collect()
    }

    /// Returns at most `most` commits, newest first, after the `skipped` newest ones, and the number
    /// of all commits. A commit whose file can't be read is left out.
    ///
    /// # Errors
    /// A history that can't be read.
    pub fn page(
        &self,
        skipped: usize,
        most: usize,
    ) -> Result<(Vec<ListedCommit>, usize), HistoryError> {
        let Some(dirs) = self.open()? else { return Ok((Vec::new(), 0)) };
        let (mut page, mut undone, mut count) = (Vec::new(), Undone::default(), 0);
        for entry in dirs.entries()?.iter().rev() {
            let is_own = self.has(&entry.id);
            count += usize::from(is_own);
            let is_on_page = is_own && count > skipped && page.len() < most;
            if page.len() == most && !is_on_page {
                continue;
            }
            let Ok(commit) = dirs.read(entry) else { continue };
            let undone_by = undone.see(&commit);
            if is_on_page {
                page.push(ListedCommit { commit, undone_by });
            }
        }
        Ok((page, count))
    }

    /// Returns a commit, named by the beginning of its id, and the commit that undoes it at present.
    ///
    /// # Errors
    /// [`HistoryError::Unknown`], [`HistoryError::Ambiguous`], a history that can't be read.
    pub fn listed(&self, id: &str) -> Result<ListedCommit, HistoryError> {
        let (commit, _) = self.find(id)?;
        let (mut undone, mut undone_by) = (Undone::default(), None);
        let Some(dirs) = self.open()? else { return Ok(ListedCommit { commit, undone_by }) };
        for entry in dirs.entries()?.iter().rev() {
            if let Ok(other) = dirs.read(entry) {
                undone_by = undone.see(&other);
            }
            if entry.id == commit.id {
                break;
            }
        }
        Ok(ListedCommit { commit, undone_by })
    }

    /// Returns a commit that a process did not finish. Changes nothing.
    ///
    /// # Errors
    /// The host's own directory can't be read.
    pub fn interrupted(&self) -> Result<Option<InterruptedCommit>, HistoryError> {
        let Some(own) = self.workspace.existing_own()? else { return Ok(None) };
        Ok(InterruptedCommit::find(&own)?)
    }

    /// Returns a commit, named by the beginning of its id.
    ///
    /// # Errors
    /// [`HistoryError::Unknown`], [`HistoryError::Ambiguous`], a history that can't be read.
    pub fn commit(&self, id: &str) -> Result<Commit, HistoryError> {
        Ok(self.find(id)?.0)
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

    /// Compares the files before one commit with those after another one, each named by the beginning of its
    /// id, in any order; an empty `to` is the latest commit.
    ///
    /// # Errors
    /// [`HistoryError::Unknown`], [`HistoryError::Ambiguous`], a commit in between that can't be read.
    pub fn diff_range(&self, from: &str, to: &str) -> Result<RangeDiff, HistoryError> {
        let dirs = self.open()?.ok_or_else(|| HistoryError::Unknown(from.to_owned()))?;
        let entries = self.entries(&dirs)?;
        let one = position(&entries, from)?;
        let other = if to.is_empty() { entries.len() - 1 } else { position(&entries, to)? };
        let range = &entries[one.min(other)..=one.max(other)];
        let commits = range.iter().map(|entry| dirs.read(entry)).collect::<io::Result<Vec<_>>>()?;
        let (Some(first), Some(last)) = (commits.first(), commits.last()) else {
            return Err(HistoryError::Unknown(from.to_owned()));
        };
        let mut changes: Vec<Change> =
            commits.iter().flat_map(|commit| &commit.changes).cloned().collect();
        // The content of a new file may be kept as an edit of the file before its own commit.
        let nets: Vec<Net<'_>> = commits.iter().map(|commit| net(&commit.changes)).collect();
        let sides = nets.iter().flat_map(Net::values);
        let own: BTreeMap<&str, Option<&Image>> = sides
            .filter_map(|(before, after)| Some((after.as_ref()?.name.as_str(), *before)))
            .collect();
        let before = |after: &Image| own.get(after.name.as_str()).copied().flatten();
        let mut unreadable = BTreeSet::new();
        for (path, (old, new)) in net(&changes) {
            let new = new.map(|new| (before(new), new));
            if content::check(&dirs.images, old, new).is_err() {
                unreadable.insert(path.to_owned());
            }
        }
        changes.retain(|change| !unreadable.contains(&change.path));
        let preview = content::preview(
            &changes,
            |_, image| Content::kept(&dirs.images, image),
            |_, after| Content::placed(&dirs.images, before(after), after),
        )?;
        Ok(RangeDiff {
            first: first.clone(),
            last: last.clone(),
            commits: commits.len(),
            diff: preview.diff,
            unreadable: unreadable.into_iter().collect(),
        })
    }

    /// Returns why a commit can't be undone at present: the paths that were changed since, each with the
    /// difference. Nothing is locked, so an undo can find other ones.
    ///
    /// # Errors
    /// [`HistoryError::Unknown`], [`HistoryError::Ambiguous`], images that can't be read.
    pub fn conflicts(&self, id: &str) -> Result<Vec<String>, HistoryError> {
        let (commit, images) = self.find(id)?;
        Ok(changed_since(self.workspace.plain(), &commit, &images)?)
    }

    /// Undoes a commit, or the latest one if `id` is `None`: a new commit restores everything that
    /// it changed, with permissions and times. Returns both commits; the second is `None` if there
    /// was nothing to change.
    ///
    /// # Errors
    /// As for [`History::stage_undo`]; [`HistoryError::Commit`].
    pub fn undo(
        &self,
        transaction: Transaction,
        id: Option<&str>,
    ) -> Result<(Commit, Option<Commit>), HistoryError> {
        let commit = self.stage_undo(transaction.overlay(), id, |_| Ok(()))?;
        Ok((commit, transaction.commit(Purpose::default())?))
    }

    /// Stages the undo of a commit, or of the latest one that has not been undone if `id` is `None`,
    /// as the changes of a transaction, whose commit then undoes it. Returns the undone commit.
    /// `allow` is called for each path before anything is staged.
    ///
    /// Without an id, a commit whose old files are gone or damaged is skipped with a warning, so that
    /// it does not block those before it. One that was changed since is not: the user may want to
    /// undo it after all.
    ///
    /// # Errors
    /// [`HistoryError::Changed`] if something was changed since, [`HistoryError::NotAlone`] if there
    /// are other staged changes; then nothing is done. Those of `allow`.
    pub fn stage_undo(
        &self,
        overlay: &Overlay,
        id: Option<&str>,
        allow: impl Fn(&str) -> io::Result<()>,
    ) -> Result<Commit, HistoryError> {
        if overlay.is_changed() || overlay.undo().is_some() {
            return Err(HistoryError::NotAlone);
        }
        let (commit, images) = match id {
            Some(id) => {
                let (commit, images) = self.find(id)?;
                check_unchanged(overlay, &commit, &images, || None)?;
                (commit, images)
            }
            None => self.latest(overlay)?,
        };
        commit.changes.iter().try_for_each(|change| allow(&change.path))?;
        let directories = restore(overlay, &commit, &images)?;
        overlay.set_undo(Undo { commit: commit.id.clone(), directories });
        Ok(commit)
    }

    /// Returns the latest commit that has not been undone and can be, so that repeated undos go back
    /// step by step, and the directory of the images.
    fn latest(&self, overlay: &Overlay) -> Result<(Commit, OwnedFd), HistoryError> {
        let dirs = self.open()?.ok_or(HistoryError::NothingToUndo)?;
        let entries = dirs.entries()?;
        let mut first_error = None;
        let mut left = dirs.not_undone(&entries, |id| self.has(id));
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
        Err(first_error.map_or(HistoryError::NothingToUndo, HistoryError::Io))
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

    /// Whether a commit is among those that the handle is restricted to.
    fn has(&self, id: &CommitId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(id))
    }

    fn entries(&self, dirs: &HistoryDirs) -> io::Result<Vec<HistoryEntry>> {
        let mut entries = dirs.entries()?;
        entries.retain(|entry| self.has(&entry.id));
        Ok(entries)
    }

    /// Returns a commit, named by the beginning of its id, and the directory of the images.
    fn find(&self, id: &str) -> Result<(Commit, OwnedFd), HistoryError> {
        let dirs = self.open()?.ok_or_else(|| HistoryError::Unknown(id.to_owned()))?;
        let entries = self.entries(&dirs)?;
        let commit = dirs.read(&entries[position(&entries, id)?])?;
        Ok((commit, dirs.images))
    }
}

/// The position of the commit whose id begins like this.
fn position(entries: &[HistoryEntry], id: &str) -> Result<usize, HistoryError> {
    let mut matching = (0..entries.len()).filter(|at| entries[*at].id.starts_with(id));
    let first = matching.next().ok_or_else(|| HistoryError::Unknown(id.to_owned()))?;
    match matching.next() {
        Some(_) => Err(HistoryError::Ambiguous(id.to_owned())),
        None => Ok(first),
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
