//! Collects the reasons why a patch does not fit the workspace, as a message and as a failure
//! document.

use cofferdam_sdk::{ToolError, WorkspacePath};
use serde::Serialize;

use super::place::Mismatch;
use super::{Hunk, Position, Shown};

/// The maximum number of failures that are described; more are only counted.
const MAX_DESCRIBED: usize = 50;

/// The maximum length of a line in the document, in characters.
const MAX_LINE_CHARS: usize = 500;

/// A reason why the patch does not fit.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Failure {
    file: String,
    reason: String,
    #[serde(flatten)]
    hunk: Option<HunkFailure>,
}

/// The position at which a hunk does not fit.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct HunkFailure {
    hunk: usize,
    line: usize,
    expected: Option<String>,
    found: Option<String>,
    would_apply_at: Option<usize>,
}

#[derive(Serialize)]
struct Document {
    failures: Vec<Failure>,
    /// The number of failures that are not listed.
    more: usize,
}

/// All failures of a patch.
#[derive(Default)]
pub(super) struct Failures {
    messages: Vec<String>,
    described: Vec<Failure>,
    more: usize,
}

impl Failures {
    /// Adds a failure that concerns a whole file.
    pub(super) fn add(&mut self, path: &WorkspacePath, reason: &str) {
        if self.described.len() >= MAX_DESCRIBED {
            self.more += 1;
            return;
        }
        self.messages.push(format!("{path}: {reason}"));
        self.described.push(Failure {
            file: path.as_str().to_owned(),
            reason: reason.to_owned(),
            hunk: None,
        });
    }

    /// Adds hunks that do not apply.
    pub(super) fn add_hunks(
        &mut self,
        path: &WorkspacePath,
        hunks: &[Hunk],
        mismatches: &[Mismatch],
    ) {
        let room = MAX_DESCRIBED.saturating_sub(self.described.len()).min(mismatches.len());
        self.more += mismatches.len() - room;
        for mismatch in &mismatches[..room] {
            let would_apply_at = nearest(&mismatch.fits, &hunks[mismatch.hunk].position);
            self.messages.push(describe(path, mismatch));
            self.described.push(Failure {
                file: path.as_str().to_owned(),
                reason: mismatch.reason.clone(),
                hunk: Some(HunkFailure {
                    hunk: mismatch.hunk + 1,
                    line: mismatch.line,
                    expected: mismatch.expected.map(text),
                    found: mismatch.found.map(text),
                    would_apply_at: would_apply_at.map(|at| at + 1),
                }),
            });
        }
    }

    /// `Ok` if there are no failures, otherwise the error with all of them.
    pub(super) fn into_result(mut self) -> Result<(), ToolError> {
        if self.described.is_empty() {
            return Ok(());
        }
        if self.more > 0 {
            self.messages.push(format!("and {} more", self.more));
        }
        let document = Document { failures: self.described, more: self.more };
        Err(ToolError::conflict(
            "PatchFailed",
            format!("patch failed: {}", self.messages.join("\n")),
        )
        .with_detail(document))
    }
}

fn nearest(fits: &[usize], position: &Position) -> Option<usize> {
    let stated = if let Position::After(stated) = position { *stated } else { 0 };
    fits.iter().copied().min_by_key(|at| at.abs_diff(stated))
}

fn describe(path: &WorkspacePath, mismatch: &Mismatch) -> String {
    let Mismatch { hunk, line, reason, .. } = mismatch;
    let mut message = format!("{path}: hunk {}, line {line}: {reason}", hunk + 1);
    if let Some(expected) = mismatch.expected {
        message.push_str(&format!("; expected {}", Shown(expected)));
    }
    if let Some(found) = mismatch.found {
        message.push_str(&format!(", found {}", Shown(found)));
    }
    if let [at] = mismatch.fits[..] {
        message.push_str(&format!("; it would apply at line {}", at + 1));
    }
    message
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().take(MAX_LINE_CHARS).collect()
}
