//! `edit_code` and `apply_patch`: apply unified diffs, including git's extensions.
//!
//! | module | does |
//! |---|---|
//! | `cursor` | the lines of a patch |
//! | `parse` | files and their headers |
//! | `name` | file names: prefixes, quotes |
//! | `hunk` | hunks, with counts that may be wrong |
//! | `codex` | the format that begins with `*** Begin Patch` |
//! | `place` | finds the places of hunks in a file |
//! | `apply` | applies hunks to the content of a file |
//! | `before` | the state of the workspace before the patch |
//! | `failure` | collects reasons why a patch does not fit |
//! | `plan` | checks a patch against the workspace and plans the changes |
//! | `changes` | makes the changes, in a safe order |
//! | `tools` | the two tools |
//!
//! Hunks apply at their line numbers, or at the only place that has exactly their lines. All of a
//! patch refers to the files before it, so two files can swap their names; but several parts that
//! change one file apply one after the other. Not supported on purpose: fuzz, binary patches,
//! submodules, combined diffs.
//!
//! The format is the one of git's "Generating patch text with -p"
//! (<https://git-scm.com/docs/diff-format>) and of POSIX `diff -u`.

mod apply;
mod before;
mod changes;
mod codex;
mod cursor;
mod failure;
mod hunk;
mod name;
mod parse;
mod place;
mod plan;
mod tools;

use std::fmt;

use cofferdam_sdk::ToolError;

pub use parse::parse;
pub use tools::{ApplyPatch, EditCode, Output, apply_patch, edit_code};

/// A parsed patch of one or more files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'a> {
    /// The files in the order of the patch; at least one.
    pub files: Vec<FilePatch<'a>>,
}

/// The changes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch<'a> {
    /// The line of the patch at which the file's part begins, from 1.
    pub line: usize,
    /// The path, and the change of the file as a whole.
    pub operation: Operation,
    /// The kind of file according to its mode; `None` if the patch has no mode.
    pub kind: Option<Kind>,
    /// Whether the file becomes executable or not; `None`: unchanged.
    pub executable: Option<bool>,
    /// Whether a deletion does not say what is in the file.
    pub any_content: bool,
    /// The changes of the content, in the order of the file.
    pub hunks: Vec<Hunk<'a>>,
}

/// The kind of an entry in a git tree that a patch can change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file, executable or not (mode 100755 or 100644).
    File,
    /// A symbolic link, whose content is its target (mode 120000).
    Link,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "file",
            Self::Link => "link",
        })
    }
}

/// The change of a file as a whole. Names are without the prefixes `a/` and `b/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Hunks without a file header.
    Unnamed,
    /// Hunks whose header has two names that may be of different files.
    Different {
        /// The name before the change, as written.
        old: String,
        /// The name after the change, as written.
        new: String,
    },
    /// The file keeps its path.
    Modify(String),
    /// The file is created.
    Create(String),
    /// The file is removed.
    Delete(String),
    /// The file is moved.
    Rename {
        /// The path before the patch.
        from: String,
        /// The path after the patch.
        to: String,
    },
    /// A copy of the file, as it was before the patch, is created.
    Copy {
        /// The file that is copied.
        from: String,
        /// The file that is created.
        to: String,
    },
}

/// Consecutive lines of a file, before and after the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// The line of the patch at which the hunk begins, from 1.
    pub line: usize,
    /// What the hunk's header says about its place.
    pub position: Position<'a>,
    /// The number of lines of the original file in the hunk.
    pub old_count: usize,
    /// Whether the counts in its header were wrong and were ignored.
    pub recounted: bool,
    /// Whether the hunk does not tell a last line without a newline from one with it.
    pub open_end: bool,
    /// Old, new and unchanged lines.
    pub lines: Vec<Line<'a>>,
}

/// The place of a hunk according to its header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position<'a> {
    /// `-0,0`: the original file is empty or does not exist.
    Empty,
    /// The number of lines of the original file before the hunk.
    After(usize),
    /// The header has no line number.
    Unnumbered {
        /// Beginnings of lines above the hunk, without the blanks around them.
        headings: Vec<&'a [u8]>,
        /// Whether the hunk ends at the end of the file.
        at_end: bool,
    },
}

impl Position<'_> {
    /// Whether a hunk that only adds lines may be there in an empty file.
    fn may_be_of_an_empty_file(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::After(start) => *start == 0,
            Self::Unnumbered { headings, .. } => headings.is_empty(),
        }
    }
}

impl<'a> Hunk<'a> {
    /// Whether a line of a file is this line of the hunk. Line ends may be LF or CRLF.
    fn is_line(&self, line: &Line, found: &[u8]) -> bool {
        place::content(found) == place::content(line.text)
            && (self.open_end || found.ends_with(b"\n") == line.newline)
    }

    /// The lines that are in the original file.
    pub fn old_lines(&self) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().filter(|line| line.side != Side::New)
    }

    /// The lines that are in the changed file.
    pub fn new_lines(&self) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().filter(|line| line.side != Side::Old)
    }

    /// The number of lines on this side only.
    fn count(&self, side: Side) -> usize {
        self.lines.iter().filter(|line| line.side == side).count()
    }
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The side or sides that have the line.
    pub side: Side,
    /// The bytes without the line feed.
    pub text: &'a [u8],
    /// Whether a line feed follows.
    pub newline: bool,
}

/// The version of a file that has a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Only in the original file (`-`).
    Old,
    /// Only in the changed file (`+`).
    New,
    /// In both files (a blank).
    Both,
}

/// Why a text can't be applied as a patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The text is not a well-formed patch.
    #[error("line {line} of the patch: {problem}")]
    Malformed {
        /// The line of the patch, from 1.
        line: usize,
        /// What was expected and what was found.
        problem: String,
    },
    /// The patch has a kind of change that is not supported.
    #[error("line {line} of the patch: {file}: {problem}")]
    Unsupported {
        /// The line of the patch, from 1.
        line: usize,
        /// The file, as the patch names it.
        file: String,
        /// The kind of change, in words.
        problem: String,
    },
}

impl From<PatchError> for ToolError {
    fn from(error: PatchError) -> Self {
        let code = match error {
            PatchError::Malformed { .. } => "MalformedPatch",
            PatchError::Unsupported { .. } => "UnsupportedPatch",
        };
        Self::invalid_args(code, format!("patch failed: {error}"))
    }
}

/// The maximum length of a line in a message, in bytes.
const MAX_SHOWN_BYTES: usize = 120;

/// Displays a line for a message: quoted, escaped and shortened.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = &self.0[..self.0.len().min(MAX_SHOWN_BYTES)];
        let more = if cut.len() < self.0.len() { "..." } else { "" };
        write!(f, "{:?}{more}", String::from_utf8_lossy(cut))
    }
}
