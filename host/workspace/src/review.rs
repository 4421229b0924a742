//! Deciding about proposals: what they change in the workspace as it is, and accepting or rejecting
//! hunks.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::fs::FileType;
use sha2::{Digest as _, Sha256};

use crate::commit::{Accepted, Author, Change, Commit, CommitId, Held, Image, Net, net, summary};
use crate::error::CommitError;
use crate::hold::kept;
use crate::merge::Pick;
use crate::overlay::{ExecutedFile, Opening, Overlay};
use crate::path::above;
use crate::proposals::{ImageWriter, Proposals, Source};
use crate::proposed::{Rebased, State, rebase, short};
use crate::quota::Quota;
use crate::reviewed::{self, Marks};
use crate::transaction::{Purpose, Transaction};
use crate::workspace::Workspace;
use crate::{disk, notices};

pub use crate::proposed::{FileReview, HunkReview};

/// For how long the shortest diff of a proposal is searched.
const DIFF_TIME: Duration = Duration::from_secs(5);

/// The proposals of a workspace, for a user who reviews them.
pub struct Reviews {
    workspace: Arc<Workspace>,
}

/// A proposal in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedProposal {
    /// The id, which is the same in all revisions.
    pub id: CommitId,
    /// Counted from 1.
    pub revision: u64,
    /// When this revision was made.
    pub time: Timestamp,
    /// Who proposes it.
    pub author: Author,
    /// The calls whose changes it contains, by their ids in the journal.
    pub calls: Vec<String>,
    /// The paths, each with `created`, `changed` or `removed`.
    pub paths: Vec<(String, &'static str)>,
    /// The number of files that are decided about: paths without directories of other paths.
    pub files: usize,
    /// The files that a user has marked as reviewed, and that are as they were seen then.
    pub reviewed: Vec<String>,
}

/// A proposal compared with the workspace as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Review {
    /// The proposal.
    pub proposal: ListedProposal,
    /// Identifies what is shown: the revision, and a digest of all hunks.
    pub view: String,
    /// The changes by path. Paths that the workspace has as proposed are left out.
    pub files: Vec<FileReview>,
}

/// What happens to hunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They become a commit of the workspace.
    Accept,
    /// They are removed from the proposal.
    Reject,
}

/// A hunk that a user decides about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The id of the hunk.
    pub id: String,
    /// What happens to it.
    pub verdict: Verdict,
    /// The text of the hunk as the user has edited it; only for [`Verdict::Accept`].
    pub edited: Option<Vec<u8>>,
}

/// A decision about a proposal, or about some of its hunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The proposal, by the beginning of its id.
    pub proposal: String,
    /// What the user has seen ([`Review::view`]). It is required unless hunks are chosen.
    pub view: Option<String>,
    /// The hunks; `None`: all.
    pub chosen: Option<Vec<Chosen>>,
    /// What happens to all of them, if none are chosen.
    pub verdict: Verdict,
    /// What the session is told.
    pub comment: Option<String>,
    /// Who decides, for the record.
    pub reviewer: String,
}

/// A decision that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The proposal.
    pub proposal: CommitId,
    /// The session that it belongs to.
    pub author: Author,
    /// The number of hunks that were accepted.
    pub accepted: usize,
    /// The number of hunks that were rejected.
    pub rejected: usize,
    /// The commit of what was accepted.
    pub commit: Option<Commit>,
    /// The new revision; `None`: nothing is left.
    pub revision: Option<u64>,
    /// What was accepted that other programs execute by its name.
    pub executed: Vec<ExecutedFile>,
    /// What the session is told.
    pub notice: String,
}

/// Why a proposal can't be shown, or a decision was not carried out. Then nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// There is no such proposal.
    #[error("there is no open proposal {0}; `cofferdam review` lists them")]
    Unknown(String),
    /// The ids of several proposals begin like this.
    #[error("{0} is the beginning of several proposals; write more of it")]
    Ambiguous(String),
    /// The proposal or the workspace has changed since the user has seen it.
    #[error(
        "the proposal {proposal} has changed since the view {seen}: it is {now} now. Look at it \
         again: cofferdam review show {proposal}"
    )]
    Stale {
        /// The proposal.
        proposal: String,
        /// The view that the decision is about.
        seen: String,
        /// The view now.
        now: String,
    },
    /// Neither a view nor hunks were named.
    #[error(
        "name what you have seen: the view that `cofferdam review show {0}` prints (--view), or \
         hunks (--hunk)"
    )]
    Unseen(String),
    /// Hunks that are not, or no longer, part of the proposal.
    #[error(
        "the proposal {proposal} has no hunk {} (any more). Look at it again: cofferdam review show \
         {proposal}", hunks.join(", ")
    )]
    UnknownHunks {
        /// The proposal.
        proposal: String,
        /// The ids that were not found.
        hunks: Vec<String>,
    },
    /// The workspace has other changes in the same places.
    #[error(
        "the workspace has other changes in the same place: {}. Reject these, or change the files so \
         that they fit; the other hunks can be accepted by their ids", .0.join(", ")
    )]
    Collides(Vec<String>),
    /// An edited hunk that does not fit.
    #[error("the edited hunk {hunk}: {why}")]
    Edited {
        /// The id of the hunk.
        hunk: String,
        /// What is wrong.
        why: String,
    },
    /// What was accepted could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// I/O error.
    #[error("the proposals: {0}")]
    Io(#[from] io::Error),
}

impl ListedProposal {
    fn new(commit: &Commit, held: &Held, reviewed: Vec<String>) -> Self {
        let net = net(&commit.changes);
        let is_parent = |path: &str| {
            let below = format!("{path}/");
            net.range(below.as_str()..).next().is_some_and(|(path, _)| path.starts_with(&below))
        };
        let files = net.keys().filter(|path| !is_parent(path)).count();
        let paths = summary(&commit.changes).into_iter();
        Self {
            id: held.proposal.clone(),
            revision: held.revision,
            time: commit.time,
            author: held.author.clone(),
            calls: commit.calls.clone(),
            paths: paths.map(|(path, change)| (path.to_owned(), change)).collect(),
            files,
            reviewed,
        }
    }

    /// How many of its files are marked as reviewed, for the user.
    pub fn progress(&self) -> String {
        format!("{} of {} files reviewed", self.reviewed.len(), self.files)
    }
}

impl Reviews {
    /// Creates a handle; nothing is opened yet.
    pub fn new(workspace: Arc<Workspace>) -> Self {
        Self { workspace }
    }

    /// Returns the open proposals, the oldest first.
    ///
    /// # Errors
    /// I/O errors.
    pub fn list(&self) -> Result<Vec<ListedProposal>, ReviewError> {
        let Some(proposals) = self.open()? else { return Ok(Vec::new()) };
        let _lock = proposals.reading()?;
        let mut listed = Vec::new();
        for commit in proposals.current()? {
            let Some(held) = &commit.held else { continue };
            let reviewed = self.reviewed(&proposals, &commit, held)?;
            listed.push(ListedProposal::new(&commit, held, reviewed));
        }
        Ok(listed)
    }

    /// Returns the files of a proposal that are marked as reviewed, and are as they were seen then. Only
    /// these are read.
    fn reviewed(
        &self,
        proposals: &Proposals,
        commit: &Commit,
        held: &Held,
    ) -> io::Result<Vec<String>> {
        let marks = self.marks(held)?;
        let deadline = Instant::now() + DIFF_TIME;
        let mut files = Vec::new();
        for (path, sides) in net(&commit.changes) {
            let Some(mark) = marks.get(path) else { continue };
            let rebased = self.rebased(proposals, path, sides, deadline)?;
            let file = FileReview::without_hunks(path, rebased);
            files.extend(file.filter(|file| file.digest() == *mark).map(|file| file.path));
        }
        Ok(files)
    }

    fn marks(&self, held: &Held) -> io::Result<Marks> {
        let own = self.workspace.existing_own()?;
        own.map_or_else(|| Ok(Marks::new()), |own| reviewed::read(&own, &held.proposal))
    }

    /// Compares the change of a path with the workspace as it is.
    fn rebased(
        &self,
        proposals: &Proposals,
        path: &str,
        (before, after): Sides<'_>,
        deadline: Instant,
    ) -> io::Result<Rebased> {
        let old = State::old(&proposals.directory, before)?;
        let new = State::new(&proposals.directory, after)?;
        let on_disk = State::on_disk(self.workspace.disk(), path)?;
        Ok(rebase(old, on_disk, new, deadline))
    }

    /// Marks files of a proposal as reviewed, as the `view` shows them, or takes the marks away. Returns
    /// what the proposal shows.
    ///
    /// # Errors
    /// [`ReviewError::Unknown`], [`ReviewError::Ambiguous`], [`ReviewError::Stale`], I/O errors.
    pub fn mark(
        &self,
        id: &str,
        view: &str,
        paths: &[String],
        is_reviewed: bool,
    ) -> Result<Review, ReviewError> {
        let proposals = self.open()?.ok_or_else(|| ReviewError::Unknown(id.to_owned()))?;
        let _lock = proposals.reading()?;
        let (commit, held) = find(&proposals, id)?;
        let mut review = self.review(&proposals, &commit, &held)?;
        if review.view != view {
            let (proposal, seen) = (held.proposal.to_string(), view.to_owned());
            return Err(ReviewError::Stale { proposal, seen, now: review.view });
        }
        let current = proposals.current()?;
        let open = current.iter().filter_map(|commit| Some(commit.held.as_ref()?.proposal.clone()));
        let own = self.workspace.own()?;
        reviewed::change(&own, &held.proposal, &open.collect(), |marks| {
            for file in review.files.iter_mut().filter(|file| paths.contains(&file.path)) {
                file.is_reviewed = is_reviewed;
                match is_reviewed {
                    true => drop(marks.insert(file.path.clone(), file.digest())),
                    false => drop(marks.remove(&file.path)),
                }
            }
        })?;
        Ok(review)
    }

    /// Compares a proposal, named by the beginning of its id, with the workspace as it is.
    ///
    /// # Errors
    /// [`ReviewError::Unknown`], [`ReviewError::Ambiguous`], I/O errors.
    pub fn show(&self, id: &str) -> Result<Review, ReviewError> {
        let proposals = self.open()?.ok_or_else(|| ReviewError::Unknown(id.to_owned()))?;
        let _lock = proposals.reading()?;
        let (commit, held) = find(&proposals, id)?;
        self.review(&proposals, &commit, &held)
    }

    fn open(&self) -> io::Result<Option<Proposals>> {
        self.workspace.existing_own()?.map_or(Ok(None), Proposals::existing)
    }

    fn review(
        &self,
        proposals: &Proposals,
        commit: &Commit,
        held: &Held,
    ) -> Result<Review, ReviewError> {
        let deadline = Instant::now() + DIFF_TIME;
        let mut files = Vec::new();
        for (path, sides) in net(&commit.changes) {
            let rebased = self.rebased(proposals, path, sides, deadline)?;
            files.extend(FileReview::new(path, rebased, deadline));
        }
        // A directory is decided about with its files.
        let has_files: Vec<bool> = files
            .iter()
            .map(|file| {
                let below = format!("{}/", file.path);
                file.is_directory() && files.iter().any(|other| other.path.starts_with(&below))
            })
            .collect();
        for (file, has_files) in files.iter_mut().zip(has_files) {
            if has_files {
                file.hunks.clear();
            }
        }
        let mut digest = Sha256::new();
        files.iter().flat_map(|file| &file.hunks).for_each(|hunk| digest.update(&hunk.id));
        let view = format!("{}.{}", held.revision, short(digest));
        let marks = self.marks(held)?;
        for file in &mut files {
            file.is_reviewed = marks.get(&file.path).is_some_and(|mark| *mark == file.digest());
        }
        let reviewed = files.iter().filter(|file| file.is_reviewed);
        let reviewed = reviewed.map(|file| file.path.clone()).collect();
        let count = files.iter().filter(|file| !file.hunks.is_empty()).count();
        let proposal =
            ListedProposal { files: count, ..ListedProposal::new(commit, held, reviewed) };
        Ok(Review { proposal, view, files })
    }

    /// Carries out a decision. What is accepted is one commit.
    ///
    /// # Errors
    /// See [`ReviewError`].
    pub fn decide(
        &self,
        mut transaction: Transaction,
        decision: &Decision,
    ) -> Result<Decided, ReviewError> {
        let unknown = || ReviewError::Unknown(decision.proposal.clone());
        let proposals = self.open()?.ok_or_else(unknown)?;
        let (commit, held) = find(&proposals, &decision.proposal)?;
        let review = self.review(&proposals, &commit, &held)?;
        let chosen = Selection::new(&review, decision)?;
        stage(transaction.overlay(), &review, &chosen)?;
        let executed = transaction.executed(None);
        let (mut next, kept) = self.next(&proposals, (&commit, &held), &review, &chosen)?;
        let made = if transaction.overlay().is_changed() {
            if let Some(held) = &mut next.held {
                held.after = Some(transaction.id.clone());
            }
            proposals.write(&next, || Ok(()))?;
            let (proposal, reviewer) = (held.proposal.clone(), decision.reviewer.clone());
            let accepts = Some(Accepted { proposal, reviewer });
            let made = transaction.commit_locked(Purpose {
                calls: commit.calls.clone(),
                accepts,
                ..Purpose::default()
            });
            // An unfinished commit is finished by the next transaction: then the revision counts.
            if made.as_ref().is_err_and(|error| !matches!(error, CommitError::Unfinished { .. })) {
                proposals.remove(&next)?;
            }
            made?
        } else {
            None
        };
        if let Some(held) = &mut next.held {
            held.after = None;
        }
        match proposals.write(&next, || Ok(())) {
            // It counts already, by its commit.
            Err(error) if made.is_some() => {
                tracing::warn!("the next revision is not complete yet: {error}");
            }
            written => written?,
        }
        let notice = notice(&review, decision, &chosen, made.as_ref());
        // The decision was carried out.
        if let Err(error) = self.workspace.notify(&held.author.session, &notice) {
            tracing::warn!("the session {} can't be told: {error}", held.author.session);
        }
        if let Err(error) = proposals.tidy() {
            tracing::warn!("old revisions were not removed: {error}");
        }
        Ok(Decided {
            proposal: held.proposal,
            author: held.author,
            accepted: chosen.count(Verdict::Accept),
            rejected: chosen.count(Verdict::Reject),
            commit: made,
            revision: (kept > 0).then_some(held.revision + 1),
            executed,
            notice,
        })
    }

    /// Writes the images of the next revision. Returns it, and the number of its changes.
    fn next(
        &self,
        proposals: &Proposals,
        (commit, held): (&Commit, &Held),
        review: &Review,
        chosen: &Selection,
    ) -> io::Result<(Commit, usize)> {
        let mut next =
            Commit::new(CommitId::new(), commit.calls.clone(), None, Vec::new(), Vec::new());
        let net = net(&commit.changes);
        let mut images = ImageWriter::new(&proposals.directory, &next.id);
        let left: BTreeSet<&str> = review
            .files
            .iter()
            .filter(|file| !file.is_directory() || !file.hunks.is_empty())
            .filter(|file| chosen.left(file).is_none_or(|(old, new)| old != new))
            .map(|file| file.path.as_str())
            .collect();
        for file in &review.files {
            let below = format!("{}/", file.path);
            let is_left = match file.hunks.is_empty() {
                true => {
                    left.range(below.as_str()..).next().is_some_and(|path| path.starts_with(&below))
                }
                false => left.contains(file.path.as_str()),
            };
            if !is_left {
                continue;
            }
            let name = images.next_name();
            let (before, after) = match chosen.left(file) {
                None => relinked(&images, &name, &net, &file.path)?,
                Some((old, new)) => {
                    let before = source(&old).map(|source| images.old(&name, source));
                    let after = source(&new).map(|source| images.new_file(&name, source));
                    (before.transpose()?, after.transpose()?)
                }
            };
            next.changes.push(Change { path: file.path.clone(), before, after });
        }
        next.held = Some(Held { revision: held.revision + 1, after: None, ..held.clone() });
        let count = next.changes.len();
        Ok((next, count))
    }
}

/// The old and the new file of a change.
type Sides<'a> = (Option<&'a Image>, Option<&'a Image>);

/// Links the images of a path that is not decided about.
fn relinked(
    images: &ImageWriter<'_>,
    name: &str,
    net: &Net<'_>,
    path: &str,
) -> io::Result<(Option<Image>, Option<Image>)> {
    let (before, after) = net.get(path).copied().unwrap_or_default();
    let before = before.map(|image| kept(images, name, image)).transpose()?;
    let after = after
        .map(|image| images.new_file(name, Source::Revision(&image.copy_name())))
        .transpose()?;
    Ok((before, after))
}

fn source(state: &State) -> Option<Source<'_>> {
    match state {
        State::Nothing | State::Other => None,
        State::Directory(mode) => Some(Source::Directory(*mode)),
        State::File(mode, bytes) => Some(Source::File(*mode, bytes)),
        State::Link(target) => Some(Source::Link(target)),
    }
}

/// Returns the proposal whose id begins with `id`.
fn find(proposals: &Proposals, id: &str) -> Result<(Commit, Held), ReviewError> {
    let current = proposals.current()?.into_iter();
    let mut found = current.filter_map(|commit| {
        let held = commit.held.clone()?;
        held.proposal.starts_with(id).then_some((commit, held))
    });
    let first = found.next().ok_or_else(|| ReviewError::Unknown(id.to_owned()))?;
    match found.next() {
        Some(_) => Err(ReviewError::Ambiguous(id.to_owned())),
        None => Ok(first),
    }
}

/// The hunks that a decision is about.
struct Selection {
    /// The ids, with the new lines of those that were edited.
    hunks: BTreeMap<String, (Verdict, Option<Vec<u8>>)>,
}

impl Selection {
    fn new(review: &Review, decision: &Decision) -> Result<Self, ReviewError> {
        let proposal = review.proposal.id.to_string();
        if let Some(seen) = decision.view.as_ref().filter(|seen| **seen != review.view) {
            let (seen, now) = (seen.clone(), review.view.clone());
            return Err(ReviewError::Stale { proposal, seen, now });
        }
        let all = || review.files.iter().flat_map(|file| &file.hunks);
        let mut hunks = BTreeMap::new();
        match &decision.chosen {
            None if decision.view.is_none() => return Err(ReviewError::Unseen(proposal)),
            None => hunks.extend(all().map(|hunk| (hunk.id.clone(), (decision.verdict, None)))),
            Some(chosen) => {
                let is_unknown = |chosen: &&Chosen| !all().any(|hunk| hunk.id == chosen.id);
                let unknown = chosen.iter().filter(is_unknown).map(|chosen| chosen.id.clone());
                let unknown: Vec<String> = unknown.collect();
                if !unknown.is_empty() {
                    return Err(ReviewError::UnknownHunks { proposal, hunks: unknown });
                }
                for Chosen { id, verdict, edited } in chosen {
                    let edited = edited.as_ref().map(|text| edited_lines(review, id, text));
                    hunks.insert(id.clone(), (*verdict, edited.transpose()?));
                }
            }
        }
        let selection = Self { hunks };
        let is_accepted = |file: &&FileReview| selection.has(file, Verdict::Accept);
        let colliding = review.files.iter().filter(|file| file.collides).filter(is_accepted);
        let colliding: Vec<String> = colliding.map(|file| file.path.clone()).collect();
        if !colliding.is_empty() {
            return Err(ReviewError::Collides(colliding));
        }
        Ok(selection)
    }

    /// The number of hunks that are accepted, or rejected.
    fn count(&self, verdict: Verdict) -> usize {
        self.hunks.values().filter(|(of_hunk, _)| *of_hunk == verdict).count()
    }

    fn is(&self, id: &str, verdict: Verdict) -> bool {
        self.hunks.get(id).is_some_and(|(of_hunk, _)| *of_hunk == verdict)
    }

    /// Whether a hunk of a file is accepted, or rejected.
    fn has(&self, file: &FileReview, verdict: Verdict) -> bool {
        file.hunks.iter().any(|hunk| self.is(&hunk.id, verdict))
    }

    /// What is taken of a hunk; `other` of one that is not decided about.
    fn pick<'a>(&'a self, id: &str, other: Pick<'a>) -> Pick<'a> {
        match self.hunks.get(id) {
            None => other,
            Some((Verdict::Reject, _)) => Pick::Old,
            Some((Verdict::Accept, None)) => Pick::New,
            Some((Verdict::Accept, Some(lines))) => Pick::Text(lines),
        }
    }

    /// The old and the new file of what is left of a file; `None`: as before.
    fn left(&self, file: &FileReview) -> Option<(State, State)> {
        let is_decided = file.hunks.iter().any(|hunk| self.hunks.contains_key(&hunk.id));
        is_decided.then(|| {
            let left = |other| file.picked(|id| self.pick(id, other));
            (left(Pick::Old), left(Pick::New))
        })
    }
}

fn edited_lines(review: &Review, id: &str, text: &[u8]) -> Result<Vec<u8>, ReviewError> {
    let mut files = review.files.iter();
    let file = files.find(|file| file.hunks.iter().any(|hunk| hunk.id == id));
    let lines = file.map_or_else(|| Err(String::new()), |file| file.edited(id, text));
    lines.map_err(|why| ReviewError::Edited { hunk: id.to_owned(), why })
}

/// Stages what is accepted.
fn stage(overlay: &Overlay, review: &Review, chosen: &Selection) -> Result<(), ReviewError> {
    let is_removed = |file: &FileReview| file.new == State::Nothing;
    // They are created with their files.
    let new_directories: Vec<(&str, u32)> = review
        .files
        .iter()
        .filter_map(|file| match file.new {
            State::Directory(mode) if overlay.stat(&file.path).is_err() => {
                Some((file.path.as_str(), mode))
            }
            _ => None,
        })
        .collect();
    // The contents of a directory are removed before it.
    let removed = review.files.iter().rev().filter(|file| is_removed(file));
    let files = removed.chain(review.files.iter().filter(|file| !is_removed(file)));
    let mut removed = BTreeSet::new();
    for file in files {
        let io = |source| CommitError::Io { place: file.path.clone(), source };
        if file.hunks.is_empty() {
            let below = format!("{}/", file.path);
            let is_emptied = removed.iter().any(|path: &&str| path.starts_with(&below))
                && overlay.list(&file.path).map_err(io)?.is_empty();
            if is_removed(file) && is_emptied {
                overlay.remove_directory(&file.path).map_err(io)?;
                removed.insert(file.path.as_str());
            }
        } else if let Some((result, _)) =
            chosen.left(file).filter(|(result, _)| *result != file.old)
        {
            place(overlay, &file.path, &file.old, &result).map_err(io)?;
            // Since the overlay has looked at the path, the commit checks that it is unchanged.
            if State::on_disk(overlay.disk(), &file.path).map_err(io)? != file.old {
                return Err(CommitError::Conflict(vec![file.path.clone()]).into());
            }
            if result == State::Nothing {
                removed.insert(file.path.as_str());
            }
        }
    }
    for (path, mode) in new_directories {
        if overlay.stat(path).is_ok() {
            let io = |source| CommitError::Io { place: path.to_owned(), source };
            overlay.set_mode(path, mode & 0o777).map_err(io)?;
        }
    }
    Ok(())
}

/// Stages a file in place of `old`.
fn place(overlay: &Overlay, path: &str, old: &State, new: &State) -> io::Result<()> {
    let quota = Quota::unlimited();
    let is_same_kind = matches!((old, new), (State::File(..), State::File(..)));
    match old {
        State::Directory(_) => overlay.remove_directory(path)?,
        State::File(..) | State::Link(_) if !is_same_kind => overlay.remove_file(path)?,
        _ => {}
    }
    if *new != State::Nothing {
        let mut parents: Vec<&str> = above(path).filter(|parent| !parent.is_empty()).collect();
        parents.sort_unstable_by_key(|parent| parent.len());
        for parent in parents {
            match overlay.stat(parent).map(|stat| disk::file_type(&stat)) {
                Ok(FileType::Directory) => {}
                Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
                Err(_) => overlay.create_directory(parent, &quota)?,
            }
        }
    }
    match new {
        State::Nothing | State::Other => {}
        State::Directory(_) => {
            overlay.create_directory(path, &quota)?;
        }
        State::Link(target) => {
            let target = std::str::from_utf8(target).map_err(io::Error::other)?;
            overlay.create_link(target, path, &quota)?;
        }
        State::File(mode, bytes) => {
            let opening = Opening { read: false, create: true, exclusive: false, truncate: true };
            if !matches!(old, State::File(_, before) if before == bytes) {
                let mut file = overlay.open_write(path, opening, &quota)?;
                io::Write::write_all(&mut file, bytes)?;
            }
            if !matches!(old, State::File(before, _) if before == mode) {
                overlay.set_mode(path, mode & 0o777)?;
            }
        }
    }
    Ok(())
}

/// Returns what the session is told.
fn notice(
    review: &Review,
    decision: &Decision,
    chosen: &Selection,
    commit: Option<&Commit>,
) -> String {
    let all = review.files.iter().map(|file| file.hunks.len()).sum::<usize>();
    let id = &review.proposal.id;
    let mut lines = Vec::new();
    for verdict in [Verdict::Accept, Verdict::Reject] {
        let count = chosen.count(verdict);
        let hunks = match (count, all) {
            (1, 1) => "the only hunk".to_owned(),
            _ if count == all => format!("all {all} hunks"),
            _ => format!("{count} of {all} hunks"),
        };
        let hunks = format!("{hunks} of the proposal {id} of this session");
        match verdict {
            _ if count == 0 => {}
            Verdict::Accept => {
                let commit = commit.map(|commit| format!(" (commit {})", commit.id));
                let commit = commit.unwrap_or_default();
                lines.push(format!(
                    "The user accepted {hunks}: they are in the workspace now{commit}."
                ));
            }
            Verdict::Reject => lines.push(format!(
                "The user rejected {hunks}: they are no longer part of it, and later calls do not \
                 see them."
            )),
        }
    }
    lines.extend(decision.comment.iter().map(|comment| format!("The user's comment: {comment}")));
    let mut text = lines.join("\n");
    for file in &review.files {
        let rejected = file.patch(|hunk| chosen.is(hunk, Verdict::Reject));
        let edited = "Edited by the user before it was accepted (- proposed, + accepted)";
        for (what, patch) in [("Rejected", rejected), (edited, edits_of(file, chosen))] {
            if !patch.is_empty() {
                text.push_str(&format!("\n{what}:\n{}", String::from_utf8_lossy(&patch)));
            }
        }
        if text.len() > notices::MAX_NOTICE_BYTES {
            break;
        }
    }
    text
}

/// Returns the diff between what was proposed and what was accepted of a file.
fn edits_of(file: &FileReview, chosen: &Selection) -> Vec<u8> {
    if !file.hunks.iter().any(|hunk| matches!(chosen.hunks.get(&hunk.id), Some((_, Some(_))))) {
        return Vec::new();
    }
    let proposed = file.picked(|id| match chosen.is(id, Verdict::Accept) {
        true => Pick::New,
        false => Pick::Old,
    });
    let accepted = file.picked(|id| chosen.pick(id, Pick::Old));
    let deadline = Instant::now() + DIFF_TIME;
    let file = FileReview::new(&file.path, Rebased::Clean(proposed, accepted), deadline);
    file.filter(|file| file.old != file.new).map(|file| file.patch(|_| true)).unwrap_or_default()
}
