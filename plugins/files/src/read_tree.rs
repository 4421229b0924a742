//! `read_tree`: lists everything below a directory.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::PRIVATE;

/// The arguments of `read_tree`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The directory to list.
    #[serde(default = "workspace")]
    pub path: String,
    /// The number of levels to list, 1 for the directory's own entries; the default is all.
    pub max_depth: Option<u64>,
    /// The maximum number of entries.
    #[serde(default = "default_limit")]
    pub limit: usize,
}

fn workspace() -> String {
    ".".to_owned()
}

fn default_limit() -> usize {
    1_000
}

/// The result of `read_tree`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The entries: parents before children, siblings by name.
    pub entries: Vec<Entry>,
    /// Whether `limit` was exceeded, so that some are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// An entry of the tree.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// The path relative to the workspace.
    pub path: String,
    /// The type of the entry.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// The size in bytes, for files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whether this is a directory that could not be listed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// The type of an entry. Symbolic links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file with contents.
    File,
    /// A directory, listed unless too deep.
    Directory,
    /// A symbolic link, with any target.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

impl Kind {
    fn of(metadata: &Metadata) -> Self {
        if metadata.is_file() {
            Self::File
        } else if metadata.is_dir() {
            Self::Directory
        } else if metadata.is_symlink() {
            Self::Symlink
        } else {
            Self::Other
        }
    }
}

/// Lists the tree below a directory.
///
/// # Errors
/// Those of [`Context::resolve`]; `FileNotFoundError`, `NotADirectoryError` or `PermissionError`
/// for the directory itself. A directory below it that can't be listed is marked instead.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let root = context.resolve(&args.path)?;
    let local = context.local(&root);
    let failed = |error: io::Error| ToolError::io(&root.to_string(), &error);
    if !fs::metadata(&local).map_err(failed)?.is_dir() {
        let message = format!("is a file, not a directory: {root}");
        return Err(ToolError::invalid_args("NotADirectoryError", message));
    }
    let mut output = Output::default();
    // A stack of entries still to be listed.
    let mut pending = children(&local, root.as_str(), 1).map_err(failed)?;
    while let Some(node) = pending.pop() {
        if output.entries.len() == args.limit {
            output.truncated = true;
            break;
        }
        let kind = Kind::of(&node.metadata);
        let deeper = args.max_depth.is_none_or(|most| node.depth < most);
        let mut unreadable = false;
        if kind == Kind::Directory && deeper {
            match children(&node.local, &node.path, node.depth + 1) {
                Ok(below) => pending.extend(below),
                Err(_) => unreadable = true,
            }
        }
        let size = (kind == Kind::File).then_some(node.metadata.len());
        output.entries.push(Entry { path: node.path, kind, size, unreadable });
    }
    Ok(output)
}

struct Node {
    /// The path relative to the workspace.
    path: String,
    /// The path under which this process opens it.
    local: PathBuf,
    metadata: Metadata,
    /// The number of levels below the listed directory.
    depth: u64,
}

/// The entries of `directory`, the last name first.
fn children(directory: &Path, path: &str, depth: u64) -> io::Result<Vec<Node>> {
    let mut nodes = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if PRIVATE.contains(&&*name) {
            continue;
        }
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // It was removed after it had been listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let path = if path.is_empty() { name.into_owned() } else { format!("{path}/{name}") };
        nodes.push(Node { path, local: entry.path(), metadata, depth });
    }
    nodes.sort_unstable_by(|a, b| b.path.cmp(&a.path));
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn project() -> (tempfile::TempDir, Context) {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["a", "a/deep", "b", ".git", "a/.git", ".cofferdam", ".github"] {
            fs::create_dir(at(name)).unwrap();
        }
        for (name, content) in [
            ("a/deep/x.rs", "12345"),
            ("a/z", ""),
            ("a-b", "1"),
            (".git/config", "x"),
            (".github/ci.yml", "x"),
            (".gitignore", "b\n"),
        ] {
            fs::write(at(name), content).unwrap();
        }
        symlink("a", at("link")).unwrap();
        let context = Context::for_directory(directory.path());
        (directory, context)
    }

    fn args(value: serde_json::Value) -> Args {
        serde_json::from_value(value).unwrap()
    }

    fn listed(value: serde_json::Value, context: &Context) -> (Vec<String>, bool) {
        let output = run(&args(value), context).unwrap();
        (output.entries.into_iter().map(|entry| entry.path).collect(), output.truncated)
    }

    #[test]
    fn parents_come_before_children_and_siblings_by_name() {
        let (_directory, context) = project();
        let everything = [
            ".github",
            ".github/ci.yml",
            ".gitignore",
            "a",
            "a/deep",
            "a/deep/x.rs",
            "a/z",
            "a-b",
            "b",
            "link",
        ];
        for (given, wanted, truncated) in [
            (serde_json::json!({}), &everything[..], false),
            (serde_json::json!({"limit": 10}), &everything, false),
            (serde_json::json!({"limit": 9}), &everything[..9], true),
            (serde_json::json!({"path": "a"}), &everything[4..7], false),
            (serde_json::json!({"path": "a", "max_depth": 1}), &["a/deep", "a/z"], false),
            (serde_json::json!({"path": "link", "max_depth": 1}), &["link/deep", "link/z"], false),
            (serde_json::json!({"path": "b"}), &[], false),
        ] {
            let wanted: Vec<String> = wanted.iter().map(|&path| path.to_owned()).collect();
            assert_eq!(listed(given.clone(), &context), (wanted, truncated), "{given}");
        }
    }

    #[test]
    fn entries_have_a_type_and_size() {
        let (directory, context) = project();
        let _socket = UnixListener::bind(directory.path().join("socket")).unwrap();
        let output = run(&args(serde_json::json!({})), &context).unwrap();
        let kind_and_size = |path: &str| {
            let entry = output.entries.iter().find(|entry| entry.path == path).unwrap();
            (entry.kind, entry.size)
        };
        assert_eq!(kind_and_size("a/deep/x.rs"), (Kind::File, Some(5)));
        assert_eq!(kind_and_size("a"), (Kind::Directory, None));
        assert_eq!(kind_and_size("link"), (Kind::Symlink, None));
        assert_eq!(kind_and_size("socket"), (Kind::Other, None));
    }

    #[test]
    fn paths_that_are_not_directories_are_refused() {
        let (_directory, context) = project();
        for (path, code) in [
            ("a-b", "NotADirectoryError"),
            ("none", "FileNotFoundError"),
            ("a-b/x", "FileNotFoundError"),
            ("..", "PathNotAllowed"),
        ] {
            let error = run(&args(serde_json::json!({"path": path})), &context).unwrap_err();
            assert_eq!(error.code, code, "{path}");
        }
    }
}
