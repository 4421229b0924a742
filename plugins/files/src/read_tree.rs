//! `read_tree`: lists everything below a directory, level by level.
//!
//! The host's listing of files knows the ignore rules; this module walks the tree and leaves out
//! what that listing does not have.

use std::collections::{HashSet, VecDeque};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use cofferdam_sdk::answer::{call_text, item_bytes};
use cofferdam_sdk::scan::{self, Query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::PRIVATE;

/// The maximum number of entries of a result whose caller gave no limit.
const DEFAULT_LIMIT: usize = 1_000;

/// The maximum size of the entries of such a result, as JSON, in bytes.
const PAGE_BYTES: usize = 28 * 1024;

/// Lists the files of a query, relative to the workspace.
pub type List<'a> = &'a dyn Fn(&Query) -> Result<Vec<String>, ToolError>;

/// The arguments of `read_tree`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The directory to list.
    #[serde(default = "workspace")]
    pub path: String,
    /// The number of levels to list, 1 for the directory's own entries; the default is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_depth: Option<u64>,
    /// The maximum number of entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// The number of entries to leave out at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<usize>,
    /// Whether files that ignore rules exclude are listed too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ignored: Option<bool>,
}

fn workspace() -> String {
    ".".to_owned()
}

/// The result of `read_tree`.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The entries: level by level, siblings by name.
    pub entries: Vec<Entry>,
    /// The number of all entries, listed or not.
    pub total: usize,
    /// Whether some are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// How many are left out, and the call for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
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

/// Lists the tree below a directory; `list` lists files.
///
/// # Errors
/// Those of [`Context::resolve`]; `FileNotFoundError`, `NotADirectoryError` or `PermissionError`
/// for the directory itself. A directory below it that can't be listed is marked instead.
pub fn run(args: &Args, context: &Context, list: List) -> Result<Output, ToolError> {
    let root = context.resolve(&args.path)?;
    let local = context.local(&root);
    let failed = |error: io::Error| ToolError::io(&root.to_string(), &error);
    if !fs::metadata(&local).map_err(failed)?.is_dir() {
        let message = format!("is a file, not a directory: {root}");
        return Err(ToolError::invalid_args("NotADirectoryError", message));
    }
    let mut pending = VecDeque::from(children(&local, root.as_str(), 1).map_err(failed)?);
    let visible = match args.ignored {
        Some(true) => None,
        _ => Some(Visible::new(&root, list)?),
    };
    let mut page = Page::new(args);
    let mut ignored = 0;
    while let Some(node) = pending.pop_front() {
        let kind = Kind::of(&node.metadata);
        if visible.as_ref().is_some_and(|visible| !visible.has(&node, kind)) {
            ignored += 1;
            continue;
        }
        let deeper = args.max_depth.is_none_or(|most| node.depth < most);
        let mut unreadable = false;
        if kind == Kind::Directory && deeper {
            match children(&node.local, &node.path, node.depth + 1) {
                Ok(below) => pending.extend(below),
                Err(_) => unreadable = true,
            }
        }
        let size = (kind == Kind::File).then_some(node.metadata.len());
        page.add(Entry { path: node.path, kind, size, unreadable });
    }
    Ok(page.end(args, ignored))
}

/// What ignore rules leave of a tree.
struct Visible {
    files: HashSet<String>,
    /// The directories above them.
    directories: HashSet<String>,
}

impl Visible {
    fn new(root: &WorkspacePath, list: List) -> Result<Self, ToolError> {
        let query = Query { hidden: true, ..scan::query(root) };
        let files: HashSet<String> = list(&query)?.into_iter().collect();
        let mut directories = HashSet::new();
        for file in &files {
            let mut path = file.as_str();
            while let Some((directory, _)) = path.rsplit_once('/') {
                if !directories.insert(directory.to_owned()) {
                    break;
                }
                path = directory;
            }
        }
        Ok(Self { files, directories })
    }

    /// Whether an entry is not ignored. A directory without files, which the listing does not have,
    /// is not; neither are links.
    fn has(&self, node: &Node, kind: Kind) -> bool {
        match kind {
            Kind::File => self.files.contains(&node.path),
            Kind::Directory if self.directories.contains(&node.path) => true,
            Kind::Directory => {
                children(&node.local, &node.path, 0).is_ok_and(|below| {
                    below.iter().all(|node| !node.metadata.is_file() && !node.metadata.is_dir())
                }) || fs::read_dir(&node.local).is_err()
            }
            Kind::Symlink | Kind::Other => true,
        }
    }
}

/// The entries of a result, as far as they fit.
struct Page {
    output: Output,
    offset: usize,
    limit: usize,
    /// The bytes that are left for entries.
    room: usize,
}

impl Page {
    fn new(args: &Args) -> Self {
        Self {
            output: Output::default(),
            offset: args.offset.unwrap_or(0),
            limit: args.limit.unwrap_or(DEFAULT_LIMIT),
            room: args.limit.map_or(PAGE_BYTES, |_| usize::MAX),
        }
    }

    /// Counts an entry, and lists it if it fits.
    fn add(&mut self, entry: Entry) {
        self.output.total += 1;
        if self.output.total <= self.offset || self.output.truncated {
            return;
        }
        match self.room.checked_sub(item_bytes(&entry)) {
            Some(room) if self.output.entries.len() < self.limit => {
                self.room = room;
                self.output.entries.push(entry);
            }
            _ => self.output.truncated = true,
        }
    }

    fn end(self, args: &Args, ignored: usize) -> Output {
        let mut output = self.output;
        let (listed, total) = (output.entries.len(), output.total);
        let call = |args: Args| call_text("read_tree", &args);
        if output.truncated {
            let next = call(Args { offset: Some(self.offset + listed), ..args.clone() });
            output.left_out = Some(format!(
                "{listed} of {total} entries are listed; the next: {next}; or set \
                 max_depth, or a path further down"
            ));
        } else if total == 0 && ignored > 0 {
            let all = call(Args { ignored: Some(true), ..args.clone() });
            output.left_out =
                Some(format!("{ignored} ignored entries are not listed; with them: {all}"));
        }
        output
    }
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

/// The entries of `directory`, by name.
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
    nodes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
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
        for name in ["a", "a/deep", "b", "cache", ".git", "a/.git", ".cofferdam", ".github"] {
            fs::create_dir(at(name)).unwrap();
        }
        for (name, content) in [
            ("a/deep/x.rs", "12345"),
            ("a/z", ""),
            ("a-b", "1"),
            (".git/config", "x"),
            (".github/ci.yml", "x"),
            (".gitignore", "cache\n"),
            ("cache/x", "ignored"),
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

    /// Lists the files of the project that its .gitignore does not exclude.
    fn list(query: &Query) -> Result<Vec<String>, ToolError> {
        assert!(query.ignore_files && query.hidden);
        let all = ["a/deep/x.rs", "a/z", "a-b", ".github/ci.yml", ".gitignore"];
        let root = if query.root.is_empty() { String::new() } else { format!("{}/", query.root) };
        Ok(all.iter().filter(|path| path.starts_with(&root)).map(|&path| path.to_owned()).collect())
    }

    fn listed(value: serde_json::Value, context: &Context) -> (Vec<String>, bool) {
        let output = run(&args(value), context, &list).unwrap();
        (output.entries.into_iter().map(|entry| entry.path).collect(), output.truncated)
    }

    #[test]
    fn entries_come_level_by_level_and_siblings_by_name() {
        let (_directory, context) = project();
        let everything = [
            ".github",
            ".gitignore",
            "a",
            "a-b",
            "b",
            "link",
            ".github/ci.yml",
            "a/deep",
            "a/z",
            "a/deep/x.rs",
        ];
        for (given, wanted, truncated) in [
            (serde_json::json!({}), &everything[..], false),
            (serde_json::json!({"limit": 10}), &everything, false),
            (serde_json::json!({"limit": 9}), &everything[..9], true),
            (serde_json::json!({"limit": 2, "offset": 3}), &everything[3..5], true),
            (serde_json::json!({"path": "a"}), &everything[7..], false),
            (serde_json::json!({"path": "a", "max_depth": 1}), &["a/deep", "a/z"], false),
            (
                serde_json::json!({"path": "link", "max_depth": 1, "ignored": true}),
                &["link/deep", "link/z"],
                false,
            ),
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
        let output = run(&args(serde_json::json!({})), &context, &list).unwrap();
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
            let error = run(&args(serde_json::json!({"path": path})), &context, &list).unwrap_err();
            assert_eq!(error.code, code, "{path}");
        }
    }

    #[test]
    fn ignored_entries_are_listed_on_request() {
        let (_directory, context) = project();
        let tree = |value| run(&args(value), &context, &list).unwrap();
        let all = tree(serde_json::json!({"ignored": true}));
        assert_eq!(all.total, tree(serde_json::json!({})).total + 2);
        assert!(all.entries.iter().any(|entry| entry.path == "cache/x"));
        let cache = tree(serde_json::json!({"path": "cache"}));
        assert_eq!((cache.entries.len(), cache.total), (0, 0));
        assert_eq!(
            cache.left_out.as_deref(),
            Some(
                "1 ignored entries are not listed; with them: read_tree \
                 {\"path\":\"cache\",\"ignored\":true}"
            )
        );
    }

    #[test]
    fn a_large_tree_is_paged_and_counted() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        for n in 0..40 {
            let path = directory.path().join(format!("package_{n:02}"));
            fs::create_dir(&path).unwrap();
            for n in 0..50 {
                fs::write(path.join(format!("a_module_of_the_package_{n:02}.py")), "").unwrap();
            }
        }
        let (mut next, mut seen) = (args(serde_json::json!({"ignored": true})), Vec::new());
        loop {
            let output = run(&next, &context, &list).unwrap();
            assert!(serde_json::to_string(&output).unwrap().len() <= 32 * 1024);
            assert_eq!(output.total, 40 * 51);
            seen.extend(output.entries.into_iter().map(|entry| entry.path));
            let Some(left_out) = output.left_out else { break };
            let call = left_out.split_once("read_tree ").unwrap().1;
            next = serde_json::from_str(call.split_once("; or").unwrap().0).unwrap();
        }
        assert_eq!(seen.len(), 40 * 51);
        assert!(seen[..40].iter().all(|path| !path.contains('/')), "directories first");
    }
}
