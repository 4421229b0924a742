//! The tree of a commit, and the objects that describe its directories: a Merkle tree, as git's.
//!
//! An object is JSON in one spelling only, so that equal directories have equal digests: what is
//! decoded and encoded again must be the same bytes. That also excludes unknown and duplicate fields.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;

use cofferdam_core::policy::protected;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::path::{MAX_PATH, join, link_target};
use serde::{Deserialize, Serialize};

use crate::error::FleetError;

/// The size of each part of a file but the last, in bytes. Each part is an object.
pub(crate) const PART_BYTES: u64 = 4 << 20;

/// The largest object that describes a directory, in bytes.
pub(crate) const MAX_DIRECTORY_BYTES: u64 = 8 << 20;

/// The largest number of files, links and directories in a tree.
pub(crate) const MAX_ENTRIES: usize = 500_000;

/// The largest depth of nested directories.
pub(crate) const MAX_DEPTH: usize = 256;

/// The longest name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// The longest target of a link, in bytes.
const MAX_TARGET_BYTES: usize = 4095;

/// The version of the format.
const VERSION: u32 = 1;

/// The content of a file: its parts, all but the last of [`PART_BYTES`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// In bytes.
    pub(crate) size: u64,
    pub(crate) parts: Vec<Digest>,
}

/// A file, link or directory of a tree, without the contents of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Item {
    /// A directory.
    Directory,
    /// A file that can't be executed.
    File(Content),
    /// A file with the execute permission.
    Executable(Content),
    /// A symbolic link, with its target.
    Link(String),
}

/// A tree by places. The top directory has no entry.
pub(crate) type Items = BTreeMap<String, Item>;

/// The objects of the directories of a tree by places. The top directory is at the empty place.
pub(crate) type Directories = BTreeMap<String, DirectoryRef>;

/// Names an object that describes a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectoryRef {
    pub(crate) digest: Digest,
    /// In bytes.
    pub(crate) size: u64,
}

/// An object that describes a directory.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectoryObject {
    version: u32,
    entries: Vec<Entry>,
}

/// An entry of a directory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) node: Node,
}

/// What an entry is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Node {
    Directory(DirectoryRef),
    File(Content),
    Executable(Content),
    Link { target: String },
}

/// What differs between two trees.
#[derive(Debug, Default)]
pub(crate) struct Delta {
    /// What is at each place that differs; `None`: nothing.
    pub(crate) items: BTreeMap<String, Option<Item>>,
    /// The objects of the directories that differ.
    pub(crate) directories: BTreeMap<String, Option<DirectoryRef>>,
}

/// The objects of directories by place: their names and bytes.
pub(crate) type Encoded = BTreeMap<String, (DirectoryRef, Bytes)>;

impl Content {
    /// The size of the part with this index, in bytes.
    pub(crate) fn part_size(&self, index: usize) -> u64 {
        self.size.saturating_sub(index as u64 * PART_BYTES).min(PART_BYTES)
    }

    /// Returns the parts with their indices and sizes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (usize, Digest, u64)> {
        self.parts.iter().enumerate().map(|(index, digest)| (index, *digest, self.part_size(index)))
    }
}

impl Item {
    /// The content of a file.
    pub(crate) fn content(&self) -> Option<&Content> {
        match self {
            Self::File(content) | Self::Executable(content) => Some(content),
            Self::Directory | Self::Link(_) => None,
        }
    }
}

/// Changes places of a tree. Returns what was there before.
pub(crate) fn apply<T>(
    tree: &mut BTreeMap<String, T>,
    changes: impl IntoIterator<Item = (String, Option<T>)>,
) -> BTreeMap<String, Option<T>> {
    let change = |(place, value): (String, Option<T>)| {
        let before = match value {
            Some(value) => tree.insert(place.clone(), value),
            None => tree.remove(&place),
        };
        (place, before)
    };
    changes.into_iter().map(change).collect()
}

/// Returns the places below a directory, in order.
pub(crate) fn below<'a, T>(
    tree: &'a BTreeMap<String, T>,
    directory: &str,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    let begin = match directory {
        "" => String::new(),
        directory => format!("{directory}/"),
    };
    tree.range(begin.clone()..).take_while(move |(place, _)| place.starts_with(&begin))
}

/// Returns the entries of a directory with their names, without what is below them.
pub(crate) fn children<'a>(
    items: &'a Items,
    directory: &str,
) -> impl Iterator<Item = (&'a str, &'a Item)> {
    let begin = match directory {
        "" => String::new(),
        directory => format!("{directory}/"),
    };
    let mut next = Some(begin.clone());
    std::iter::from_fn(move || {
        loop {
            let (place, item) = items.range(next.take()?..).next()?;
            let name = place.strip_prefix(&begin)?;
            // '0' is the character after '/'.
            match name.split_once('/') {
                Some((above, _)) => next = Some(format!("{begin}{above}0")),
                None => {
                    next = Some(format!("{place}\0"));
                    return Some((name, item));
                }
            }
        }
    })
}

/// Encodes directories of a tree. `known` has those below them that are not in `changed`.
///
/// # Errors
/// [`FleetError::Unsupported`] for a directory with too many entries.
pub(crate) fn encode(
    items: &Items,
    known: &Directories,
    changed: &BTreeSet<String>,
) -> Result<Encoded, FleetError> {
    let depth = |place: &str| if place.is_empty() { 0 } else { place.matches('/').count() + 1 };
    let mut order: Vec<&String> = changed.iter().collect();
    order.sort_by_key(|place| Reverse(depth(place)));
    let mut encoded = Encoded::new();
    for place in order {
        let mut entries = Vec::new();
        for (name, item) in children(items, place) {
            let node = match item {
                Item::File(content) => Node::File(content.clone()),
                Item::Executable(content) => Node::Executable(content.clone()),
                Item::Link(target) => Node::Link { target: target.clone() },
                Item::Directory => {
                    let below = join(place, name);
                    let found = encoded.get(&below).map(|(found, _)| found);
                    let found = found.or_else(|| known.get(&below)).copied();
                    let missing = || FleetError::unsupported(place, "has no entry for a directory");
                    Node::Directory(found.ok_or_else(missing)?)
                }
            };
            entries.push(Entry { name: name.to_owned(), node });
        }
        let bytes = encode_directory(place, entries)?;
        encoded.insert(place.clone(), (reference(&bytes), bytes.into()));
    }
    Ok(encoded)
}

/// Returns the places of all directories of a tree.
pub(crate) fn directories(items: &Items) -> BTreeSet<String> {
    let below = items.iter().filter(|(_, item)| **item == Item::Directory);
    below.map(|(place, _)| place.clone()).chain([String::new()]).collect()
}

fn encode_directory(place: &str, mut entries: Vec<Entry>) -> Result<Vec<u8>, FleetError> {
    entries.sort_by(|left, right| left.name.cmp(&right.name));
    let object = DirectoryObject { version: VERSION, entries };
    let bytes =
        serde_json::to_vec(&object).map_err(|error| FleetError::unsupported(place, error))?;
    if bytes.len() as u64 > MAX_DIRECTORY_BYTES {
        let why = format!(
            "a directory with too many entries: its description has more than {MAX_DIRECTORY_BYTES} bytes"
        );
        return Err(FleetError::unsupported(place, why));
    }
    Ok(bytes)
}

fn reference(bytes: &[u8]) -> DirectoryRef {
    DirectoryRef { digest: Digest::of(bytes), size: bytes.len() as u64 }
}

/// Decodes the object of the directory at `place` and checks everything in it.
///
/// # Errors
/// [`FleetError::Invalid`] for bytes in another format or spelling, names that are not in order or occur
/// twice, places that a workspace may not contain, links that leave the workspace.
pub fn decode_directory(place: &str, bytes: &[u8]) -> Result<Vec<Entry>, FleetError> {
    let invalid = |why: String| FleetError::invalid(format!("the directory '{place}'"), why);
    if bytes.len() as u64 > MAX_DIRECTORY_BYTES {
        return Err(invalid(format!("it has more than {MAX_DIRECTORY_BYTES} bytes")));
    }
    let object: DirectoryObject =
        serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    if object.version != VERSION {
        return Err(invalid(format!("its version is {}, not {VERSION}", object.version)));
    }
    let mut last: Option<&str> = None;
    for entry in &object.entries {
        let wrong = |why: &str| invalid(format!("'{}' {why}", entry.name));
        if last.is_some_and(|last| last >= entry.name.as_str()) {
            return Err(wrong("occurs twice, or is not in order"));
        }
        check_entry(place, entry).map_err(|why| wrong(&why))?;
        last = Some(&entry.name);
    }
    let again = serde_json::to_vec(&object).map_err(|error| invalid(error.to_string()))?;
    if again != bytes {
        return Err(invalid("it is not in its only spelling".to_owned()));
    }
    Ok(object.entries)
}

fn check_entry(directory: &str, entry: &Entry) -> Result<(), String> {
    let name = entry.name.as_str();
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) || name.len() > MAX_NAME_BYTES
    {
        return Err("is not the name of a file".to_owned());
    }
    let place = join(directory, name);
    if place.len() > MAX_PATH {
        return Err(format!("has a path of more than {MAX_PATH} bytes"));
    }
    if let Some(why) = protected(&place) {
        return Err(format!("is protected: {why}"));
    }
    match &entry.node {
        Node::Directory(directory) if directory.size > MAX_DIRECTORY_BYTES => {
            Err(format!("has a description of more than {MAX_DIRECTORY_BYTES} bytes"))
        }
        Node::Directory(_) => Ok(()),
        Node::File(content) | Node::Executable(content) => {
            let parts = content.size.div_ceil(PART_BYTES);
            let fits = content.parts.len() as u64 == parts;
            if fits { Ok(()) } else { Err("has another number of parts than its size".to_owned()) }
        }
        Node::Link { target } => check_target(&place, target),
    }
}

/// Checks the target of a link.
///
/// # Errors
/// Why a workspace can't contain the link, as the end of a sentence.
pub(crate) fn check_target(place: &str, target: &str) -> Result<(), String> {
    if target.is_empty() || target.contains('\0') || target.len() > MAX_TARGET_BYTES {
        return Err("is a link without a valid target".to_owned());
    }
    link_target(place, target)
        .map(drop)
        .map_err(|_| "is a link that leaves the workspace".to_owned())
}

/// Returns two places of a tree that a file system without upper and lower case takes for one.
pub(crate) fn same_but_for_case(items: &Items) -> Option<(&str, &str)> {
    let mut folded: HashMap<String, &str> = HashMap::with_capacity(items.len());
    items.keys().find_map(|place| {
        let other = folded.insert(place.to_lowercase(), place)?;
        Some((other, place.as_str()))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn content(text: &str) -> Content {
        Content { size: text.len() as u64, parts: vec![Digest::of(text.as_bytes())] }
    }

    fn items() -> Items {
        [
            ("a", Item::Directory),
            ("a/empty", Item::Directory),
            ("a/ünicode\n", Item::File(content("x"))),
            ("a-b", Item::Executable(content("y"))),
            ("link", Item::Link("a/empty".to_owned())),
            ("nothing", Item::File(Content { size: 0, parts: Vec::new() })),
        ]
        .map(|(place, item)| (place.to_owned(), item))
        .into()
    }

    #[test]
    fn directories_round_trip_and_equal_trees_have_equal_digests() {
        let whole =
            |items: &Items| encode(items, &Directories::new(), &directories(items)).unwrap();
        let encoded = whole(&items());
        let mut found = Items::new();
        for (place, (reference, bytes)) in &encoded {
            assert_eq!(reference.digest, Digest::of(bytes));
            for entry in decode_directory(place, bytes).unwrap() {
                let item = match entry.node {
                    Node::Directory(_) => Item::Directory,
                    Node::File(content) => Item::File(content),
                    Node::Executable(content) => Item::Executable(content),
                    Node::Link { target } => Item::Link(target),
                };
                found.insert(join(place, &entry.name), item);
            }
        }
        assert_eq!(found, items());
        assert_eq!(whole(&found)[""].0, encoded[""].0);
        found.remove("a/empty");
        assert_ne!(whole(&found)[""].0, encoded[""].0);
        // What has not changed need not be encoded again.
        let known = encoded.into_iter().map(|(place, (known, _))| (place, known)).collect();
        let changed = ["", "a"].map(str::to_owned).into();
        assert_eq!(encode(&found, &known, &changed).unwrap()[""].0, whole(&found)[""].0);
    }

    #[test]
    fn hostile_directories_are_refused() {
        let digest = Digest::of(b"x");
        let file = |name: &str| {
            format!(r#"{{"name":{name:?},"kind":"file","size":1,"parts":["{digest}"]}}"#)
        };
        let link = |target: &str| format!(r#"{{"name":"l","kind":"link","target":"{target}"}}"#);
        let object = |entries: &[String]| {
            format!(r#"{{"version":1,"entries":[{}]}}"#, entries.join(",")).into_bytes()
        };
        decode_directory("", &object(&[file("a"), file("b"), link("a")])).unwrap();
        let long = "n".repeat(256);
        let names = [
            "",
            ".",
            "..",
            "a/b",
            "../a",
            "/a",
            ".git",
            ".GIT",
            "git~1",
            ".git ",
            ".cofferdam",
            ".Cofferdam",
            "cofferdam.toml",
            "cofferdam.lock",
            ".g\u{200c}it",
            &long,
        ];
        for name in names {
            decode_directory("", &object(&[file(name)])).unwrap_err();
        }
        decode_directory("", &object(&[file("a").replace("\"a\"", r#""a\u0000b""#)])).unwrap_err();
        decode_directory("sub", &object(&[file(".git")])).unwrap_err();
        decode_directory("sub", &object(&[file("cofferdam.toml")])).unwrap();
        decode_directory(&"d/".repeat(2047), &object(&[file("name")])).unwrap_err();
        for target in ["", "/etc/passwd", "../x", "a/../../x", "a\\u0000"] {
            decode_directory("", &object(&[link(target)])).unwrap_err();
        }
        for (from, to) in [
            (r#""size":1"#, r#""size":4194305"#),
            (r#""size":1"#, r#""size":-1"#),
            (r#""size":1"#, r#""size":1,"more":1"#),
            (r#""size":1"#, r#""size":1,"size":1"#),
            (r#""kind":"file""#, r#""kind":"device""#),
            (r#""kind":"file""#, r#""kind": "file""#),
            (r#""version":1"#, r#""version":2"#),
            ("sha256:", "md5:"),
        ] {
            let text = String::from_utf8(object(&[file("a")])).unwrap();
            assert!(text.contains(from), "{from}");
            decode_directory("", text.replacen(from, to, 1).as_bytes()).unwrap_err();
        }
        for twice in [["a", "a"], ["b", "a"]] {
            decode_directory("", &object(&twice.map(file))).unwrap_err();
        }
        for bytes in [&b""[..], b"{}", b"[]", b"\xff", br#"{"version":1,"entries":[]} "#] {
            decode_directory("", bytes).unwrap_err();
        }
    }

    #[test]
    fn names_that_differ_by_case_only_are_found() {
        let mut items = items();
        assert_eq!(same_but_for_case(&items), None);
        items.insert("A".to_owned(), Item::Directory);
        assert_eq!(same_but_for_case(&items), Some(("A", "a")));
    }
}
