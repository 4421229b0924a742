//! The `git` plugin: `git_status` and `git_diff` of the workspace.
//!
//! [`cofferdam_sdk::git`] prevents a repository from running its own programs; the tests of this
//! crate verify that.
//!
//! Source: the actions reference, "Git Operations". It has neither pages nor the diff of one path.

use cofferdam_sdk::answer::{beginning, text_bytes};
use cofferdam_sdk::git::Report;
use cofferdam_sdk::process::Captured;
use cofferdam_sdk::{Context, ToolError, git, plugin};
use serde::{Deserialize, Serialize};

/// The maximum size of a page of git's output, as JSON, in bytes.
const PAGE_BYTES: usize = 28 * 1024;

/// The maximum size of the mark in output whose middle is missing, in bytes.
const MARK_BYTES: usize = 64;

/// The arguments of `git_status`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusArgs {
    /// How many bytes of the output are skipped.
    #[serde(default)]
    pub offset: usize,
}

/// The arguments of `git_diff`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiffArgs {
    /// The file or directory whose changes are returned; the default is the workspace.
    pub path: Option<String>,
    /// How many bytes of the output are skipped.
    #[serde(default)]
    pub offset: usize,
}

/// The result of both tools: the output of git, or a page of it in whole lines.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The output of git.
    pub output: String,
    /// The size of the whole output in bytes, if this is a part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<usize>,
    /// The parts of the repository that are outside of the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
}

/// The plugin: each function is a tool.
pub struct Git;

impl Git {
    fn git_status(args: StatusArgs, context: &Context) -> Result<Output, ToolError> {
        page(git::status(&["--long"], context)?, args.offset)
    }

    fn git_diff(args: DiffArgs, context: &Context) -> Result<Output, ToolError> {
        let path = args.path.as_deref().map(|path| context.resolve(path)).transpose()?;
        let report = git::diff(path.as_ref(), context)?;
        if let Some(path) = path.filter(|_| report.output.stdout.total == 0)
            && context.local(&path).symlink_metadata().is_err()
        {
            let message = format!("no such file or directory, and git has no change of it: {path}");
            return Err(ToolError::not_found("FileNotFoundError", message));
        }
        page(report, args.offset)
    }
}

plugin!(Git { git_status, git_diff });

/// Returns the lines after the first `offset` bytes that fit into a page.
///
/// # Errors
/// `InvalidOffset` if there are not so many bytes.
fn page(report: Report, offset: usize) -> Result<Output, ToolError> {
    let Captured { bytes, total } = report.output.stdout;
    // Of very long output only the beginning and the end are there, one half each.
    let is_cut = total > bytes.len() as u64;
    let there = if is_cut { bytes.len().saturating_sub(MARK_BYTES) / 2 } else { bytes.len() };
    let rest = bytes[..there].get(offset..).filter(|rest| offset == 0 || !rest.is_empty());
    let rest = rest.ok_or_else(|| invalid_offset(offset, there, total))?;
    let end = page_end(rest);
    let is_part = offset > 0 || ((offset + end) as u64) < total;
    Ok(Output {
        output: String::from_utf8_lossy(&rest[..end]).into_owned(),
        total: is_part.then_some(total),
        next: (((offset + end) as u64) < total).then_some(offset + end),
        outside: report.repository.outside,
    })
}

fn invalid_offset(offset: usize, there: usize, total: u64) -> ToolError {
    let more = if (there as u64) < total {
        format!(", of which the first {there} can be read: use `path` for a part of the diff")
    } else {
        String::new()
    };
    let message = format!("offset: the output has {total} bytes, so none at {offset}{more}");
    ToolError::invalid_args("InvalidOffset", message)
}

/// Returns where the page ends that begins with `rest`: after the last line that fits, or within the
/// first one.
fn page_end(rest: &[u8]) -> usize {
    let (mut size, mut end) = (0, 0);
    for line in rest.split_inclusive(|&byte| byte == b'\n') {
        size += text_bytes(&String::from_utf8_lossy(line));
        if size > PAGE_BYTES {
            return if end > 0 { end } else { part_of_line(line) };
        }
        end += line.len();
    }
    end
}

/// How many bytes of a long line are returned.
fn part_of_line(line: &[u8]) -> usize {
    match str::from_utf8(line) {
        Ok(text) => beginning(text, PAGE_BYTES).len(),
        // Even if each byte is escaped.
        Err(_) => line.len().min(PAGE_BYTES / 6),
    }
}
