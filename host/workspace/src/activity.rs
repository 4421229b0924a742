//! Whether anything was recorded about a workspace since a moment ago, for a page that follows it. Looks at
//! times and sizes only; reads no file.

use std::io;

use crate::disk;
use crate::layout::{CALLS, HISTORY, PROPOSALS, QUESTIONS, REVIEWED};
use crate::workspace::Workspace;

/// The file of the journal, which the engine writes.
const JOURNAL: &str = "journal.jsonl";

/// The time of the last change in nanoseconds since the epoch, and the size in bytes; `None`: not there.
type Mark = Option<(i64, i64)>;

/// What identifies the state of the host's own files. Two values that differ mean that something was
/// recorded in between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// The open proposals.
    pub proposals: Mark,
    /// What is marked as reviewed.
    pub reviewed: Mark,
    /// The open questions and their answers.
    pub questions: Mark,
    /// The calls under way.
    pub calls: Mark,
    /// The calls, events and decisions.
    pub journal: Mark,
    /// The commits.
    pub history: Mark,
}

impl Workspace {
    /// Looks at the host's own files.
    ///
    /// # Errors
    /// I/O errors.
    pub fn activity(&self) -> io::Result<Activity> {
        let Some(own) = self.existing_own()? else { return Ok(Activity::default()) };
        let mark = |name: &str| -> io::Result<Mark> {
            let stat = disk::look(&*own, name)?;
            Ok(stat.map(|stat| (disk::modified(&stat), stat.st_size)))
        };
        Ok(Activity {
            proposals: mark(PROPOSALS)?,
            reviewed: mark(REVIEWED)?,
            questions: mark(QUESTIONS)?,
            calls: mark(CALLS)?,
            journal: mark(JOURNAL)?,
            history: mark(HISTORY)?,
        })
    }
}
