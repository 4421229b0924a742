//! The `history` plugin: the commits that the calls of a session have made. The host knows which
//! those are; the plugin asks it for pages and describes them.

use cofferdam_sdk::history::{self, Commit, Error, Kind, Page, Part};
use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};

/// The most commits in one answer.
const MAX_COMMITS: u32 = 10;

/// The most paths that are listed of a commit in a list.
const MAX_LISTED_PATHS: usize = 10;

/// The most bytes of a diff in one answer.
const MAX_DIFF_BYTES: u32 = 24_000;

/// The most bytes that a list names in paths.
const MAX_PATH_BYTES: usize = 200;

/// The arguments of `history`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryArgs {
    /// The commit whose diff is returned; without it, commits are listed.
    pub id: Option<String>,
    /// How many commits, or bytes of the diff, are skipped.
    #[serde(default)]
    pub offset: u64,
}

/// The result of `history`: a page of commits, or of a diff.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct HistoryOutput {
    #[serde(flatten)]
    content: Content,
    /// The number of all commits, or the size of the diff in bytes.
    total: u64,
    /// The offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Content {
    List { commits: Vec<Listed> },
    Diff { id: String, diff: String },
}

/// A commit in a list.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Listed {
    id: String,
    time: String,
    tools: Vec<String>,
    files: Vec<String>,
    paths: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    undoes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undone: Option<bool>,
}

/// The arguments of `undo`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UndoArgs {
    /// The commit; without it, the latest one that has not been undone.
    pub id: Option<String>,
}

/// The result of `undo`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct UndoOutput {
    undone: String,
    files: Vec<String>,
    paths: u32,
}

/// The plugin: each function is a tool.
pub struct History;

impl History {
    fn history(args: HistoryArgs, _: &Context) -> Result<HistoryOutput, ToolError> {
        match args.id {
            Some(id) => {
                let part = history::diff(&id, args.offset, MAX_DIFF_BYTES).map_err(failure)?;
                part_of_diff(id, args.offset, &part)
            }
            None => {
                let skip = u32::try_from(args.offset).unwrap_or(u32::MAX);
                let page = history::commits(skip, MAX_COMMITS).map_err(failure)?;
                Ok(list(skip, page))
            }
        }
    }

    fn undo(args: UndoArgs, _: &Context) -> Result<UndoOutput, ToolError> {
        history::undo(args.id.as_deref()).map(undone).map_err(failure)
    }
}

plugin!(History { history, undo });

fn list(skip: u32, page: Page) -> HistoryOutput {
    let shown = u64::try_from(page.commits.len()).unwrap_or(0);
    let after = u64::from(skip) + shown;
    let next = (shown > 0 && after < u64::from(page.total)).then_some(after);
    let commits = page.commits.into_iter().map(|commit| {
        let files = files(&commit, MAX_LISTED_PATHS, |kind| match kind {
            Kind::Created => "created",
            Kind::Changed => "changed",
            Kind::Removed => "removed",
        });
        let Commit { id, time, tools, undoes, undone, paths, .. } = commit;
        Listed { id, time, tools, files, paths, undoes, undone: undone.then_some(true) }
    });
    let content = Content::List { commits: commits.collect() };
    HistoryOutput { content, total: page.total.into(), next }
}

/// Returns the whole lines of a part of a diff; a line that fills the part is cut.
fn part_of_diff(id: String, offset: u64, part: &Part) -> Result<HistoryOutput, ToolError> {
    let Part { bytes, total } = part;
    if offset > 0 && offset >= *total {
        return Err(ToolError::invalid_args(
            "InvalidOffset",
            format!("offset: the diff of {id} has {total} bytes, so none at {offset}"),
        ));
    }
    let is_last = offset + bytes.len() as u64 >= *total;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
    let end = if is_last { bytes.len() } else { end };
    let diff = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let after = offset + end as u64;
    let next = (after < *total && end > 0).then_some(after);
    Ok(HistoryOutput { content: Content::Diff { id, diff }, total: *total, next })
}

fn undone(commit: Commit) -> UndoOutput {
    let files = files(&commit, usize::MAX, |kind| match kind {
        Kind::Created => "deleted",
        Kind::Changed => "reverted",
        Kind::Removed => "restored",
    });
    UndoOutput { undone: commit.id, files, paths: commit.paths }
}

fn files(commit: &Commit, most: usize, word: impl Fn(Kind) -> &'static str) -> Vec<String> {
    let changes = commit.changes.iter().take(most);
    let named = changes.map(|change| {
        let path = cofferdam_sdk::shorten(&change.path, MAX_PATH_BYTES);
        format!("{} {path}", word(change.kind))
    });
    named.collect()
}

fn failure(error: Error) -> ToolError {
    match error {
        Error::Denied(why) => ToolError::denied("PermissionError", why),
        Error::Unknown(what) => ToolError::not_found(
            "CommitNotFound",
            format!("{what}; `history` lists the commits of this session"),
        ),
        Error::Changed(what) => ToolError::conflict("ChangedSince", what),
        Error::Failed(why) => ToolError::failed("OSError", why),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_sdk::history::Change;
    use cofferdam_testing::{fits, parsed, takes_examples};

    use super::*;

    macro_rules! schema {
        ($name:literal) => {
            parsed(include_str!(concat!("../../../schemas/tools/history.", $name, ".json")))
        };
    }

    fn commit(paths: u32) -> Commit {
        let change = |number| Change { path: format!("src/{number}"), kind: Kind::Created };
        Commit {
            id: "019a2b3c".to_owned(),
            time: "2026-01-01T00:00:00Z".to_owned(),
            tools: vec!["files.write_file".to_owned()],
            undoes: None,
            undone: true,
            changes: (0..paths.min(100)).map(change).collect(),
            paths,
        }
    }

    #[test]
    fn examples_can_be_decoded() {
        takes_examples::<HistoryArgs>(&schema!("history.input"));
        takes_examples::<UndoArgs>(&schema!("undo.input"));
    }

    #[test]
    fn lists_are_pages_with_bounded_files() {
        let page = Page { commits: vec![commit(150), commit(1)], total: 5 };
        let answer = list(1, page);
        assert_eq!((answer.total, answer.next), (5, Some(3)));
        let value = serde_json::to_value(&answer).unwrap();
        fits(&schema!("history.output"), &value);
        let files = value["commits"][0]["files"].as_array().unwrap();
        assert_eq!((files.len(), files[0].as_str()), (MAX_LISTED_PATHS, Some("created src/0")));
        assert_eq!(
            (&value["commits"][0]["paths"], &value["commits"][0]["undone"]),
            (&150.into(), &true.into())
        );
        assert_eq!(list(5, Page { commits: Vec::new(), total: 5 }).next, None);
    }

    #[test]
    fn parts_of_a_diff_are_the_whole_diff_together() {
        let diff: Vec<u8> =
            (0..200).flat_map(|line| format!("+line {line}\n").into_bytes()).collect();
        let (mut whole, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let start = usize::try_from(at).unwrap();
            let bytes = diff[start..diff.len().min(start + 100)].to_vec();
            let part = Part { bytes, total: diff.len() as u64 };
            let answer = part_of_diff("019a".to_owned(), at, &part).unwrap();
            fits(&schema!("history.output"), &serde_json::to_value(&answer).unwrap());
            let Content::Diff { diff, .. } = &answer.content else { unreachable!() };
            assert!(diff.ends_with('\n'));
            whole += diff;
            offset = answer.next;
        }
        assert_eq!(whole.as_bytes(), diff);
        // A line that is longer than a part is cut; nothing is after the end.
        let long = Part { bytes: vec![b'x'; 100], total: 150 };
        assert_eq!(part_of_diff("019a".to_owned(), 0, &long).unwrap().next, Some(100));
        let after = Part { bytes: Vec::new(), total: 150 };
        assert_eq!(part_of_diff("019a".to_owned(), 150, &after).unwrap_err().code, "InvalidOffset");
        let empty = Part { bytes: Vec::new(), total: 0 };
        assert_eq!(part_of_diff("019a".to_owned(), 0, &empty).unwrap().next, None);
    }

    #[test]
    fn an_undo_says_what_happened_to_each_file() {
        let mut of = commit(2);
        of.changes[1].kind = Kind::Removed;
        let answer = undone(of);
        assert_eq!(answer.files, ["deleted src/0", "restored src/1"]);
        fits(&schema!("undo.output"), &serde_json::to_value(&answer).unwrap());
    }

    #[test]
    fn refusals_have_their_codes() {
        let why = || "why".to_owned();
        for (error, code) in [
            (Error::Denied(why()), "PermissionError"),
            (Error::Unknown(why()), "CommitNotFound"),
            (Error::Changed(why()), "ChangedSince"),
            (Error::Failed(why()), "OSError"),
        ] {
            let error = failure(error);
            assert_eq!(error.code, code);
            assert!(error.message.starts_with("why"));
        }
    }
}
