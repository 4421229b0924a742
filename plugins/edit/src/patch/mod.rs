//! `edit_code` and `apply_patch`: unified diffs, and what git adds to them.
//!
//! | module | does |
//! |---|---|
//! | `cursor` | the lines of a patch |
//! | `parse` | files and their headers |
//! | `name` | file names: prefixes, quotes |
//! | `hunk` | hunks, with counts that may be wrong |
//! | `apply` | the hunks of one file against its content |
//! | `before` | what is in the workspace before the patch |
//! | `failure` | why a patch does not fit the workspace |
//! | `plan` | all files of a patch against the workspace |
//! | `changes` | what is done in the end, and in which order |
//! | `tools` | the two tools |
//!
//! Hunks apply exactly at the lines of the original file that they name. All of a patch is
//! about the files as they are before it: two files may swap their names. Left out on purpose:
//! fuzz, offsets, binary patches, submodules, combined diffs.
//!
//! The format is the one of git's "Generating patch text with -p"
//! (<https://git-scm.com/docs/diff-format>) and of POSIX `diff -u`.

mod apply;
mod before;
mod changes;
mod cursor;
mod failure;
mod hunk;
mod name;
mod parse;
mod plan;
mod tools;

use std::fmt;

use cofferdam_sdk::ToolError;

pub use parse::parse;
pub use tools::{ApplyPatch, EditCode, Output, apply_patch, edit_code};

/// A patch: what becomes of which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'a> {
    /// In the order of the patch; at least one.
    pub files: Vec<FilePatch<'a>>,
}

/// What becomes of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch<'a> {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// Which file, and what happens to it as a whole.
    pub operation: Operation,
    /// What the patch says that the file is; `None`: nothing.
    pub kind: Option<Kind>,
    /// Whether the file is executable afterwards; `None`: as before.
    pub executable: Option<bool>,
    /// The file's header lines end in CRLF, so that the carriage returns in its hunks may
    /// belong to the patch and not to the file.
    pub crlf: bool,
    /// What changes in its content, in the order of the file.
    pub hunks: Vec<Hunk<'a>>,
}

/// What git keeps under a name, as far as a patch can change it.
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

/// What happens to a file as a whole. Names are as in the patch, without `a/` and `b/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Hunks without a file header.
    Unnamed,
    /// The file stays where it is.
    Modify(String),
    /// The file is new.
    Create(String),
    /// The file goes away.
    Delete(String),
    /// The file gets another name.
    Rename {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// The file, as it was before the patch, is the beginning of a new one.
    Copy {
        /// The file that is read.
        from: String,
        /// The new file.
        to: String,
    },
}

/// Consecutive lines of a file, before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk<'a> {
    /// The line of the patch where it begins, from 1.
    pub line: usize,
    /// How many lines of the original file stand before it.
    pub start: usize,
    /// How many lines of the original file it covers.
    pub old_count: usize,
    /// The counts in its header did not fit its lines and were not used.
    pub recounted: bool,
    /// Its lines.
    pub lines: Vec<Line<'a>>,
}

impl<'a> Hunk<'a> {
    /// Its lines in the original file.
    pub fn old_lines(&self) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().filter(|line| line.side != Side::New)
    }

    /// Its lines in the changed file.
    pub fn new_lines(&self) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().filter(|line| line.side != Side::Old)
    }

    /// How many of its lines are on one side only.
    fn count(&self, side: Side) -> usize {
        self.lines.iter().filter(|line| line.side == side).count()
    }
}

/// One line of a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Where it stands.
    pub side: Side,
    /// Its bytes without the line feed.
    pub text: &'a [u8],
    /// Whether a line feed follows.
    pub newline: bool,
}

/// Which version of a file a line stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The original (`-`).
    Old,
    /// The changed one (`+`).
    New,
    /// Both (a blank).
    Both,
}

/// Why a text is no patch that can be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The text breaks the format.
    #[error("line {line} of the patch: {problem}")]
    Malformed {
        /// The line of the patch, from 1.
        line: usize,
        /// What was expected and what is there.
        problem: String,
    },
    /// The patch does something that these tools don't do.
    #[error("line {line} of the patch: {file}: {problem}")]
    Unsupported {
        /// The line of the patch, from 1.
        line: usize,
        /// The file, as the patch names it.
        file: String,
        /// What it is.
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

/// How much of a line is shown, in bytes.
const SHOWN: usize = 120;

/// A line as messages show it: quoted, escaped, cut where it is long.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = &self.0[..self.0.len().min(SHOWN)];
        let more = if cut.len() < self.0.len() { "..." } else { "" };
        write!(f, "{:?}{more}", String::from_utf8_lossy(cut))
    }
}
