//! Reads a workspace and its journal from the files alone, without any code of the host.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

/// The host's own directory, and the file that is written only by the calls that recover.
const NOT_LOOKED_AT: [&str; 2] = [".cofferdam", "other"];

/// Permissions and contents by path; a directory has no contents.
pub type State = BTreeMap<String, (u32, Option<Vec<u8>>)>;

/// Reads the state of a workspace.
pub fn state(workspace: &Path) -> State {
    let mut found = State::new();
    let mut directories = vec![String::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(workspace.join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if directory.is_empty() && NOT_LOOKED_AT.contains(&name.as_str()) {
                continue;
            }
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            let metadata = entry.metadata().unwrap();
            let mode = metadata.permissions().mode() & 0o7777;
            let content = if metadata.is_dir() {
                directories.push(path.clone());
                None
            } else {
                Some(fs::read(entry.path()).unwrap())
            };
            found.insert(path, (mode, content));
        }
    }
    found
}

/// Lists paths in which two states differ, at most a few of them.
pub fn differences(left: &State, right: &State) -> String {
    let paths: std::collections::BTreeSet<_> = left.keys().chain(right.keys()).collect();
    let differ: Vec<_> =
        paths.into_iter().filter(|path| left.get(*path) != right.get(*path)).collect();
    format!("{} paths differ: {:?}", differ.len(), &differ[..differ.len().min(5)])
}

/// A commit in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub undoes: Option<String>,
    pub paths: u64,
    pub first: String,
    pub conflicts: usize,
}

/// The commits in a journal's lines. A host that was killed while writing leaves an incomplete
/// line, which must be on a line of its own.
pub fn commits(workspace: &Path) -> Vec<Commit> {
    let text = fs::read_to_string(workspace.join(".cofferdam/journal.jsonl")).unwrap_or_default();
    let of = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        Some(Commit {
            id: line["commit"].as_str()?.to_owned(),
            undoes: line["undoes"].as_str().map(str::to_owned),
            paths: line["paths"].as_u64()?,
            first: line["changes"][0]["path"].as_str().unwrap_or_default().to_owned(),
            conflicts: line["conflicts"].as_array().map_or(0, Vec::len),
        })
    };
    text.lines().filter_map(of).collect()
}

/// How many transactions in the staging directory are unfinished.
pub fn staged(workspace: &Path) -> usize {
    count(&workspace.join(".cofferdam/staging"))
}

/// How many files were set aside.
pub fn set_aside(workspace: &Path) -> usize {
    count(&workspace.join(".cofferdam/set-aside"))
}

/// How many commits are kept and can be undone.
pub fn kept(workspace: &Path) -> usize {
    count(&workspace.join(".cofferdam/history"))
}

fn count(directory: &Path) -> usize {
    fs::read_dir(directory).map_or(0, Iterator::count)
}
