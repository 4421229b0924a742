//! Why a patch does not fit the workspace: a message for reading and fields for programs.

use cofferdam_sdk::{ToolError, WorkspacePath};
use serde::Serialize;

use super::apply::{Mismatch, nearest};
use super::{Hunk, Shown};

/// How many failures are described; more than these are only counted. It also bounds the
/// search for places where hunks would apply.
const DESCRIBED: usize = 50;

/// How much of a line the fields hold, in characters.
const LINE: usize = 500;

/// One thing that does not fit.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Failure {
    file: String,
    reason: String,
    #[serde(flatten)]
    hunk: Option<HunkFailure>,
}

/// Where a hunk does not fit.
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
    /// How many there are beside these.
    more: usize,
}

/// All that does not fit.
#[derive(Default)]
pub(super) struct Failures {
    messages: Vec<String>,
    described: Vec<Failure>,
    more: usize,
}

impl Failures {
    /// Something about a file as a whole.
    pub(super) fn add(&mut self, path: &WorkspacePath, reason: &str) {
        if self.described.len() >= DESCRIBED {
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

    /// Hunks that do not apply to the lines of a file.
    pub(super) fn add_hunks(
        &mut self,
        path: &WorkspacePath,
        file: &[&[u8]],
        hunks: &[Hunk],
        mismatches: &[Mismatch],
    ) {
        let room = DESCRIBED.saturating_sub(self.described.len()).min(mismatches.len());
        self.more += mismatches.len() - room;
        for mismatch in &mismatches[..room] {
            let would_apply_at =
                nearest(file, &hunks[mismatch.hunk]).filter(|at| *at != hunks[mismatch.hunk].start);
            self.messages.push(describe(path, mismatch, would_apply_at));
            self.described.push(Failure {
                file: path.as_str().to_owned(),
                reason: mismatch.reason.to_owned(),
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

    /// Nothing, or the error that says it all.
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

fn describe(path: &WorkspacePath, mismatch: &Mismatch, would_apply_at: Option<usize>) -> String {
    let Mismatch { hunk, line, reason, .. } = mismatch;
    let mut message = format!("{path}: hunk {}, line {line}: {reason}", hunk + 1);
    if let Some(expected) = mismatch.expected {
        message.push_str(&format!("; expected {}", Shown(expected)));
    }
    if let Some(found) = mismatch.found {
        message.push_str(&format!(", found {}", Shown(found)));
    }
    if let Some(at) = would_apply_at {
        message.push_str(&format!("; it would apply at line {}", at + 1));
    }
    message
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).chars().take(LINE).collect()
}
