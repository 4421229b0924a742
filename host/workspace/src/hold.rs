//! Holding the changes of a transaction as a proposal, and showing them to later calls of its session.

use std::io;
use std::sync::Arc;

use cofferdam_core::policy::OWN;

use crate::commit::{Author, Change, Commit, CommitId, Held, Image, Net, net};
use crate::disk;
use crate::error::CommitError;
use crate::layout::PROPOSALS;
use crate::overlay::Overlay;
use crate::plan::plan;
use crate::proposals::{ImageWriter, MAX_ALL_BYTES, MAX_CHANGES, MAX_PROPOSALS, Proposals, Source};
use crate::proposed::MAX_PROPOSAL_BYTES;
use crate::session_name::SessionName;
use crate::stacked::Stacked;
use crate::transaction::Transaction;
use crate::workspace::Workspace;

/// A proposal that a transaction has added to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldChanges {
    /// The id of the proposal.
    pub proposal: CommitId,
    /// Its revision, counted from 1.
    pub revision: u64,
    /// The number of its changes.
    pub changes: usize,
}

impl Workspace {
    /// Whether there may be proposals: if not, no call has to look for those of its session.
    pub fn may_have_proposals(&self) -> bool {
        match self.existing_own() {
            // The call that looks for them gets the error.
            Ok(Some(own)) => !matches!(disk::look(&*own, PROPOSALS), Ok(None)),
            // Without the key nothing can be changed, and what is on the disk can be read.
            Ok(None) | Err(_) => false,
        }
    }

    /// Returns the tree that the calls of a session see, for reading: with the changes that are held
    /// for it. `None`: nothing is held.
    ///
    /// # Errors
    /// I/O errors.
    pub fn held_tree(&self, session: &SessionName) -> io::Result<Option<Arc<Overlay>>> {
        let Some(own) = self.existing_own()? else { return Ok(None) };
        let Some(proposals) = Proposals::existing(own)? else { return Ok(None) };
        let lock = proposals.reading()?;
        let Some(commit) = proposals.of_session(session)? else { return Ok(None) };
        let (disk, images) = (Arc::clone(self.disk()), Arc::clone(&proposals.directory));
        let tree = Overlay::with_held(disk, images, lock, &commit)?.at(self.path().to_owned());
        Ok(Some(Arc::new(tree)))
    }
}

impl Transaction {
    /// Adds the changes that are held for a session to the tree. Returns whether there are any: then
    /// the changes of the transaction have to be held as well.
    ///
    /// # Errors
    /// I/O errors.
    pub fn stack(&mut self, session: &SessionName) -> io::Result<bool> {
        let Some(proposals) = Proposals::existing(self.workspace.own()?)? else { return Ok(false) };
        let Some(commit) = proposals.of_session(session)? else { return Ok(false) };
        let left_out = self.overlay.stack(&proposals.directory, &commit)?;
        let entries = self.overlay.entries();
        self.stacked = Some(Stacked { commit, left_out, entries });
        Ok(true)
    }

    /// Whether changes that are held are part of the tree.
    pub fn is_stacked(&self) -> bool {
        self.stacked.is_some()
    }

    /// Keeps the changes as a proposal, or adds them to the one that the transaction is based on. The
    /// workspace is not changed. Returns `None` if there are no changes.
    ///
    /// # Errors
    /// See [`CommitError`].
    pub fn hold(
        self,
        calls: Vec<String>,
        author: Author,
    ) -> Result<Option<HeldChanges>, CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let entries = self.overlay.entries();
        if self.stacked.as_ref().map_or(entries.is_empty(), |stacked| stacked.entries == entries) {
            return Ok(None);
        }
        let (changes, _) = plan(&self.overlay)?;
        let paths = changes.iter().map(|change| change.path.as_str());
        if let Some((place, why)) = self.overlay.refused(paths) {
            return Err(CommitError::Protected { place, why });
        }
        let proposals = self.workspace.own().and_then(Proposals::open).map_err(own)?;
        let written = self.write_revision(&proposals, &changes, calls, author);
        // Removes the old revision, or what was written of a new one that was refused.
        let cleared = proposals.tidy();
        cleared.unwrap_or_else(|error| tracing::warn!("old revisions were not removed: {error}"));
        let commit = written?;
        let Some(held) = commit.held else { return Ok(None) };
        let changes = commit.changes.len();
        Ok(Some(HeldChanges { proposal: held.proposal, revision: held.revision, changes }))
    }

    /// Writes the next revision with its images.
    pub(crate) fn write_revision(
        &self,
        proposals: &Proposals,
        changes: &[Change],
        calls: Vec<String>,
        author: Author,
    ) -> Result<Commit, CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let mut commit = self.revision(calls, author);
        commit.changes = self.held_changes(proposals, changes).map_err(own)?;
        self.check_bounds(proposals, &commit)?;
        // The last check: the old files were copied after the first one.
        proposals.write(&commit, || plan(&self.overlay).map(drop))?;
        Ok(commit)
    }

    /// Returns the next revision, without its changes.
    fn revision(&self, mut calls: Vec<String>, mut author: Author) -> Commit {
        let (mut proposal, mut revision) = (CommitId::new(), 1);
        if let Some(Stacked { commit, .. }) = &self.stacked
            && let Some(held) = &commit.held
        {
            (proposal, revision) = (held.proposal.clone(), held.revision + 1);
            author.tools.extend(held.author.tools.iter().cloned());
            calls.splice(0..0, commit.calls.iter().cloned());
        }
        author.tools.sort();
        author.tools.dedup();
        let mut commit = Commit::new(self.id.clone(), calls, None, Vec::new(), Vec::new());
        commit.held = Some(Held { proposal, revision, author, after: None });
        commit
    }

    /// Writes the images of the next revision, and returns its changes. The old file of a path stays
    /// the one that was there when the proposal first changed it.
    fn held_changes(&self, proposals: &Proposals, changes: &[Change]) -> io::Result<Vec<Change>> {
        let held: Net<'_> =
            self.stacked.as_ref().map(|stacked| net(&stacked.commit.changes)).unwrap_or_default();
        let mut images = ImageWriter::new(&proposals.directory, &self.id);
        let mut written = Vec::new();
        for (path, (on_disk, staged)) in net(changes) {
            let name = images.next_name();
            let before = match (held.get(path), on_disk) {
                (Some((before, _)), _) => {
                    before.map(|image| kept(&images, &name, image)).transpose()?
                }
                (None, None) => None,
                (None, Some(_)) => {
                    Some(images.old(&name, Source::Disk(self.overlay.disk(), path))?)
                }
            };
            let after = match staged {
                None => None,
                Some(image) => {
                    let staged = Source::Staged(self.overlay.stage()?, &image.name);
                    Some(images.new_file(&name, staged)?)
                }
            };
            if before.is_some() || after.is_some() {
                written.push(Change { path: path.to_owned(), before, after });
            }
        }
        for path in self.stacked.iter().flat_map(|stacked| &stacked.left_out) {
            let Some((before, after)) = held.get(path.as_str()) else { continue };
            let name = images.next_name();
            let before = before.map(|image| kept(&images, &name, image)).transpose()?;
            let after =
                after.map(|image| images.new_file(&name, Source::Revision(&image.copy_name())));
            written.push(Change { path: path.clone(), before, after: after.transpose()? });
        }
        Ok(written)
    }

    fn check_bounds(&self, proposals: &Proposals, commit: &Commit) -> Result<(), CommitError> {
        let own = |source| CommitError::Io { place: OWN.to_owned(), source };
        let id = commit.held.as_ref().map(|held| &held.proposal);
        let mut others = proposals.current().map_err(own)?;
        others.retain(|other| other.held.as_ref().map(|held| &held.proposal) != id);
        let all = others.iter().map(Commit::size).sum::<u64>().saturating_add(commit.size());
        let exceeded = |what: String| Err(CommitError::TooMuchHeld(what));
        if others.len() >= MAX_PROPOSALS {
            return exceeded(format!("there are {MAX_PROPOSALS} open proposals"));
        }
        if commit.changes.len() > MAX_CHANGES {
            return exceeded(format!("a proposal has at most {MAX_CHANGES} changes"));
        }
        if commit.size() > MAX_PROPOSAL_BYTES {
            let most = MAX_PROPOSAL_BYTES >> 20;
            return exceeded(format!(
                "the old and new files of a proposal have at most {most} MiB"
            ));
        }
        if all > MAX_ALL_BYTES {
            return exceeded(format!("all proposals have at most {} MiB", MAX_ALL_BYTES >> 20));
        }
        Ok(())
    }
}

/// Links the old file of another revision.
pub(crate) fn kept(images: &ImageWriter<'_>, name: &str, image: &Image) -> io::Result<Image> {
    match image.kind {
        // Its content is not kept.
        crate::commit::Kind::Other => Ok(Image { name: name.to_owned(), ..image.clone() }),
        _ => images.old(name, Source::Revision(&image.name)),
    }
}
