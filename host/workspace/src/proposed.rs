//! The files of a proposal as a user reviews them: compared with the workspace as it is, and split into
//! hunks.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use crate::commit::{Image, Kind};
use crate::content::Content;
use crate::diff::{self, Hunk, Side, lines};
use crate::disk::StatFields as _;
use crate::disk::{self, Spot};
use crate::merge::{Pick, merge, splice};

/// The largest size of the old and new files of one proposal, in bytes.
pub(crate) const MAX_PROPOSAL_BYTES: u64 = 64 << 20;

/// How much of a digest identifies hunks and views, in bytes.
const ID_BYTES: usize = 16;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    Nothing,
    /// A directory, with its permissions.
    Directory(u32),
    /// A regular file, with its permissions and its content.
    File(u32, Vec<u8>),
    /// A symbolic link, with its target.
    Link(Vec<u8>),
    /// Something else, or a file that is too large to be compared.
    Other,
}

impl State {
    /// Reads the old file of a proposal.
    pub(crate) fn old(images: &OwnedFd, image: Option<&Image>) -> io::Result<Self> {
        let Some(image) = image else { return Ok(Self::Nothing) };
        Ok(Self::of(image, Content::kept(images, image)?))
    }

    /// Reads the new file of a proposal.
    pub(crate) fn new(images: &OwnedFd, image: Option<&Image>) -> io::Result<Self> {
        let Some(image) = image else { return Ok(Self::Nothing) };
        Ok(Self::of(image, Content::placed(images, None, image)?))
    }

    fn of(image: &Image, content: Content) -> Self {
        match content {
            Content::Nothing if image.kind == Kind::Directory => Self::Directory(image.mode),
            Content::Nothing => Self::Other,
            Content::File { bytes, .. } => Self::File(image.mode, bytes),
            Content::Link(target) => Self::Link(target),
        }
    }

    /// Reads what is at a path of the workspace.
    pub(crate) fn on_disk(root: &OwnedFd, path: &str) -> io::Result<Self> {
        let Some(stat) = disk::find(root, path)? else { return Ok(Self::Nothing) };
        let mode = stat.mode() & 0o7777;
        Ok(match Kind::from(disk::file_type(&stat)) {
            Kind::Directory => Self::Directory(mode),
            Kind::Link => Self::Link(Spot::of(root, path)?.read_link()?),
            Kind::File
                if u64::try_from(stat.st_size).is_ok_and(|size| size <= MAX_PROPOSAL_BYTES) =>
            {
                let file: File = disk::open(root, path, OFlags::RDONLY)?.into();
                let mut bytes = Vec::new();
                file.take(MAX_PROPOSAL_BYTES + 1).read_to_end(&mut bytes)?;
                Self::File(mode, bytes)
            }
            Kind::File | Kind::Other => Self::Other,
        })
    }

    /// Adds its type, permissions and content to a digest.
    fn put(&self, digest: &mut Sha256) {
        let (kind, mode) = match self {
            Self::Nothing => ("nothing", 0),
            Self::Directory(mode) => ("directory", *mode),
            Self::File(mode, _) => ("file", *mode),
            Self::Link(_) => ("link", 0),
            Self::Other => ("other", 0),
        };
        digest.update(format!("{kind} {mode} {}\0", self.bytes().len()));
        digest.update(self.bytes());
    }

    fn side(&self) -> Side<'_> {
        match self {
            Self::Nothing | Self::Directory(_) | Self::Other => Side::Nothing,
            Self::File(mode, bytes) => Side::File { executable: mode & 0o100 != 0, content: bytes },
            Self::Link(target) => Side::Link { target },
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::File(_, bytes) | Self::Link(bytes) => bytes,
            _ => &[],
        }
    }

    /// The content of a text file.
    fn text(&self) -> Option<&[u8]> {
        match self {
            Self::File(_, bytes) if !self.side().is_binary() => Some(bytes),
            _ => None,
        }
    }
}

/// The changes of a path, compared with the workspace as it is.
pub(crate) enum Rebased {
    /// The workspace is as proposed.
    Done,
    /// What is there, and what is proposed.
    Clean(State, State),
    /// The workspace has other changes in the same place. What was there, and what is proposed.
    Collides(State, State),
}

/// Compares a proposed change of `old` to `new` with what the disk has now.
pub(crate) fn rebase(old: State, disk: State, new: State, deadline: Instant) -> Rebased {
    let is_directory = |state: &State| matches!(state, State::Directory(_));
    match (&old, &disk, &new) {
        // What can't be compared can have changed.
        _ if disk == State::Other => Rebased::Collides(old, new),
        _ if disk == new || (is_directory(&disk) && is_directory(&new)) => Rebased::Done,
        _ if disk == old => Rebased::Clean(disk, new),
        (State::Directory(_), State::Directory(_), State::Nothing) => Rebased::Clean(disk, new),
        (State::File(base, _), State::File(own, own_bytes), State::File(mode, bytes)) => {
            let mode = match (own == base, mode == base) {
                (true, _) => *mode,
                (_, true) => *own,
                _ if own == mode => *mode,
                _ => return Rebased::Collides(old, new),
            };
            let merged = match (old.text(), disk.text(), new.text()) {
                _ if old.bytes() == own_bytes => Some(bytes.clone()),
                _ if old.bytes() == bytes || own_bytes == bytes => Some(own_bytes.clone()),
                (Some(base), Some(own), Some(new)) => merge(base, own, new, deadline),
                _ => None,
            };
            match merged {
                Some(bytes) if (mode, &bytes) == (*own, own_bytes) => Rebased::Done,
                Some(bytes) => Rebased::Clean(disk, State::File(mode, bytes)),
                None => Rebased::Collides(old, new),
            }
        }
        (State::Nothing, State::File(_, own), State::File(_, bytes)) if own == bytes => {
            Rebased::Clean(disk, new)
        }
        _ => Rebased::Collides(old, new),
    }
}

/// A part of a proposal that is decided about as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkReview {
    /// Identifies the hunk by its path, its place and its lines: of a hunk that has changed, the id
    /// is another one.
    pub id: String,
    /// A hunk of a unified diff, or the whole diff of a file that is created, removed or binary.
    pub text: Vec<u8>,
    kind: HunkKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HunkKind {
    /// Lines of the old and the new file.
    Lines(Range<usize>, Range<usize>),
    /// The permissions.
    Mode,
    /// Everything at the path.
    Whole,
}

/// The changes of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileReview {
    /// Relative to the workspace.
    pub path: String,
    /// `created`, `changed` or `removed`.
    pub change: &'static str,
    /// Whether the workspace has other changes in the same place: then the change can't be accepted,
    /// and it is shown as it was proposed.
    pub collides: bool,
    /// Whether a user has marked it as reviewed, as it is shown here.
    pub is_reviewed: bool,
    /// What is decided about; empty for a directory that is created or removed with its files.
    pub hunks: Vec<HunkReview>,
    pub(crate) old: State,
    pub(crate) new: State,
}

impl FileReview {
    pub(crate) fn new(path: &str, rebased: Rebased, deadline: Instant) -> Option<Self> {
        let mut file = Self::without_hunks(path, rebased)?;
        file.hunks = file.split(deadline);
        Some(file)
    }

    pub(crate) fn without_hunks(path: &str, rebased: Rebased) -> Option<Self> {
        let (old, new, collides) = match rebased {
            Rebased::Done => return None,
            Rebased::Clean(old, new) => (old, new, false),
            Rebased::Collides(old, new) => (old, new, true),
        };
        let change = match (&old, &new) {
            (State::Nothing, _) => "created",
            (_, State::Nothing) => "removed",
            _ => "changed",
        };
        let (path, hunks, is_reviewed) = (path.to_owned(), Vec::new(), false);
        Some(Self { path, change, collides, is_reviewed, hunks, old, new })
    }

    /// Identifies what is shown of the file.
    pub(crate) fn digest(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(format!("{}\0{}\0", self.path, self.collides));
        self.old.put(&mut digest);
        self.new.put(&mut digest);
        short(digest)
    }

    /// Whether a directory is created or removed.
    pub(crate) fn is_directory(&self) -> bool {
        matches!((&self.old, &self.new), (State::Directory(_), State::Nothing))
            || matches!((&self.old, &self.new), (State::Nothing, State::Directory(_)))
    }

    fn split(&self, deadline: Instant) -> Vec<HunkReview> {
        let (old, new) = match (&self.old, &self.new) {
            (State::File(..), State::File(..)) => (self.old.text(), self.new.text()),
            _ => (None, None),
        };
        let (Some(old), Some(new)) = (old, new) else {
            return vec![self.hunk(HunkKind::Whole, self.whole(deadline))];
        };
        let mut hunks = Vec::new();
        if let (State::File(before, _), State::File(after, _)) = (&self.old, &self.new)
            && before != after
        {
            // Git has no permissions but these.
            let of_git = |mode: u32| if mode & 0o100 != 0 { 0o755 } else { 0o644 };
            let mut text = match (of_git(*before), of_git(*after)) {
                (old, new) if old == new => String::new(),
                (old, new) => format!("old mode 100{old:o}\nnew mode 100{new:o}\n"),
            };
            if text.is_empty() || *after != of_git(*after) {
                text.push_str(&format!("permissions {before:03o} to {after:03o}\n"));
            }
            hunks.push(self.hunk(HunkKind::Mode, text.into_bytes()));
        }
        let (old, new) = (lines(old), lines(new));
        for hunk in diff::hunks(&old, &new, deadline) {
            let mut text = Vec::new();
            hunk.put(&old, &new, hunk.new.start, &mut text);
            let Hunk { old, new, .. } = hunk;
            hunks.push(self.hunk(HunkKind::Lines(old, new), text));
        }
        hunks
    }

    fn whole(&self, deadline: Instant) -> Vec<u8> {
        if self.is_directory() {
            return format!("directory {}\n", self.change).into_bytes();
        }
        let mut text = Vec::new();
        diff::render(&self.path, self.old.side(), self.new.side(), deadline, &mut text);
        text
    }

    fn hunk(&self, kind: HunkKind, text: Vec<u8>) -> HunkReview {
        let mut digest = Sha256::new();
        digest.update(format!("{}\0{}\0", self.path, self.collides));
        digest.update(&text);
        // Two binary files can have the same diff.
        if kind == HunkKind::Whole {
            digest.update(format!("{:?}{:?}", self.old, self.new));
        }
        HunkReview { id: short(digest), text, kind }
    }

    /// Returns a patch of some of its hunks, which `git apply` takes.
    pub fn patch(&self, is_chosen: impl Fn(&str) -> bool) -> Vec<u8> {
        let chosen: Vec<&HunkReview> =
            self.hunks.iter().filter(|hunk| is_chosen(&hunk.id)).collect();
        let mut patch = Vec::new();
        let Some(first) = chosen.first() else { return patch };
        if first.kind == HunkKind::Whole {
            return first.text.clone();
        }
        diff::put_first_line(&self.path, &mut patch);
        let (mut has_names, mut shift) = (false, 0_isize);
        for hunk in &self.hunks {
            let is_chosen = is_chosen(&hunk.id);
            match &hunk.kind {
                HunkKind::Lines(_, new) if is_chosen => {
                    if !has_names {
                        diff::put_names_of(&self.path, &mut patch);
                        has_names = true;
                    }
                    patch.extend(with_start(&hunk.text, new, shift));
                }
                HunkKind::Lines(old, new) => {
                    shift += old.len().cast_signed() - new.len().cast_signed();
                }
                _ if is_chosen => {
                    // The others are not git's.
                    let lines = lines(&hunk.text).into_iter();
                    patch.extend(lines.filter(|line| !line.starts_with(b"permissions ")).flatten());
                }
                _ => {}
            }
        }
        patch
    }

    /// Returns the file with what `pick` takes of each hunk.
    pub(crate) fn picked<'a>(&self, pick: impl Fn(&str) -> Pick<'a>) -> State {
        if let [HunkReview { id, kind: HunkKind::Whole, .. }] = self.hunks.as_slice() {
            return if pick(id) == Pick::Old { self.old.clone() } else { self.new.clone() };
        }
        let (State::File(before, old), State::File(after, new)) = (&self.old, &self.new) else {
            return self.old.clone();
        };
        let mut mode = *before;
        let mut of_lines = Vec::new();
        for hunk in &self.hunks {
            match &hunk.kind {
                HunkKind::Lines(old, new) => {
                    of_lines.push((old.clone(), new.clone(), pick(&hunk.id)));
                }
                _ if pick(&hunk.id) != Pick::Old => mode = *after,
                _ => {}
            }
        }
        State::File(mode, splice(&lines(old), &lines(new), of_lines.into_iter()))
    }

    /// Returns the new lines of a hunk that the user has edited: the text of a hunk whose old lines
    /// are the same.
    ///
    /// # Errors
    /// A message if the text is no such hunk.
    pub(crate) fn edited(&self, id: &str, text: &[u8]) -> Result<Vec<u8>, String> {
        let hunk = self.hunks.iter().find(|hunk| hunk.id == id);
        let (Some(HunkKind::Lines(range, _)), State::File(_, old)) =
            (hunk.map(|hunk| &hunk.kind), &self.old)
        else {
            return Err("only hunks of lines can be edited".to_owned());
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut last = b' ';
        for line in lines(text) {
            let (mark, rest) = line.split_first().unwrap_or((&b'\n', &[]));
            match mark {
                b' ' => {
                    before.extend_from_slice(rest);
                    after.extend_from_slice(rest);
                }
                b'-' => before.extend_from_slice(rest),
                b'+' => after.extend_from_slice(rest),
                b'@' if before.is_empty() && after.is_empty() => {}
                // "\ No newline at end of file" is about the line before it.
                b'\\' => {
                    if last != b'+' && before.last() == Some(&b'\n') {
                        before.pop();
                    }
                    if last != b'-' && after.last() == Some(&b'\n') {
                        after.pop();
                    }
                }
                _ => return Err("each line begins with ' ', '-' or '+'".to_owned()),
            }
            last = *mark;
        }
        if before == lines(old)[range.clone()].concat() {
            Ok(after)
        } else {
            Err("its unchanged and removed lines are not those of the file".to_owned())
        }
    }
}

/// The beginning of a digest, in hexadecimal digits.
pub(crate) fn short(digest: Sha256) -> String {
    cofferdam_text::hex(&digest.finalize()[..ID_BYTES])
}

/// A hunk whose first line in the new file is moved by `shift` lines.
fn with_start(text: &[u8], new: &Range<usize>, shift: isize) -> Vec<u8> {
    let end = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
    let header = String::from_utf8_lossy(&text[..end]);
    let start = new.start.saturating_add_signed(shift);
    let range = diff::range(start, new.len());
    let moved = header.split_once(" +").and_then(|(old, rest)| {
        let (_, rest) = rest.split_once(" @@")?;
        Some(format!("{old} +{range} @@{rest}"))
    });
    match moved {
        Some(header) => [header.as_bytes(), &text[end..]].concat(),
        None => text.to_vec(),
    }
}
