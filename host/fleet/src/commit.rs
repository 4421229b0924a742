//! The documents in a store besides the tree: its marker, and its commits.

use cofferdam_plugin::digest::Digest;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::error::FleetError;
use crate::tree::{DirectoryRef, MAX_DIRECTORY_BYTES};

/// The largest commit, in bytes.
pub(crate) const MAX_COMMIT_BYTES: u64 = 1 << 20;

/// The largest marker, in bytes.
pub(crate) const MAX_MARKER_BYTES: u64 = 1 << 10;

/// The longest message and the longest id, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// The version of the format.
const VERSION: u32 = 1;

/// The document that makes a place a store.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Marker {
    version: u32,
    /// Random: tells two stores at one address apart.
    pub(crate) id: String,
}

impl Marker {
    pub(crate) fn new() -> Self {
        Self { version: VERSION, id: uuid::Uuid::new_v4().to_string() }
    }

    /// Parses the marker.
    ///
    /// # Errors
    /// [`FleetError::Invalid`].
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, FleetError> {
        let invalid = |why: String| FleetError::invalid("the marker", why);
        let marker: Self =
            serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        check_version(marker.version).map_err(invalid)?;
        Ok(marker)
    }
}

/// A commit in a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCommit {
    version: u32,
    /// Counted from 1.
    pub number: u64,
    /// Random: tells apart who has created the number.
    pub id: String,
    /// The digest of the document of the commit before; none for the first one.
    pub parent: Option<Digest>,
    /// The top directory.
    pub tree: DirectoryRef,
    /// When it was created, by the clock of the host that created it.
    pub time: Timestamp,
    /// What the user said about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The commits of the workspace that it contains, the oldest first.
    pub commits: Vec<CommitSource>,
    /// How many further commits it contains, older ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub further_commits: usize,
    /// The call with a key whose result it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<KeyedCall>,
}

/// The result of a call with a key. A call that has failed has a commit as well, without changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyedCall {
    /// The key, which the caller has chosen.
    pub key: String,
    /// The digest of the object with the result.
    pub result: Digest,
    /// Its size, in bytes.
    pub size: u64,
}

/// What a commit says besides its tree.
#[derive(Debug, Default)]
pub(crate) struct About {
    pub(crate) message: Option<String>,
    /// The commits of the workspace, and how many further ones there are.
    pub(crate) sources: (Vec<CommitSource>, usize),
    pub(crate) call: Option<KeyedCall>,
}

/// A commit of a workspace that a commit of the store contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitSource {
    /// Its id in the journal of that workspace.
    pub id: String,
    /// The calls whose changes it contains.
    pub calls: Vec<SourceCall>,
}

/// A call whose changes a commit contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceCall {
    /// Its id in the journal of that workspace.
    pub id: String,
    /// The qualified name of its tool, if the journal has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn check_version(version: u32) -> Result<(), String> {
    match version {
        VERSION => Ok(()),
        other => Err(format!("its version is {other}; this host knows {VERSION}")),
    }
}

impl StoredCommit {
    /// Creates the commit after `last`. Older commits of the workspace are only counted if the document
    /// would be too large.
    ///
    /// # Errors
    /// [`FleetError::Unsupported`] for a message that is too long.
    pub(crate) fn after(
        last: Option<(u64, Digest)>,
        tree: DirectoryRef,
        about: About,
    ) -> Result<(Self, Vec<u8>), FleetError> {
        let About { message, sources: (commits, further_commits), call } = about;
        if message.as_ref().is_some_and(|message| message.len() > MAX_TEXT_BYTES) {
            let why = format!("has more than {MAX_TEXT_BYTES} bytes");
            return Err(FleetError::unsupported("the message", why));
        }
        let mut commit = Self {
            version: VERSION,
            number: last.map_or(1, |(number, _)| number + 1),
            id: uuid::Uuid::new_v4().to_string(),
            parent: last.map(|(_, digest)| digest),
            tree,
            time: Timestamp::now(),
            message,
            commits,
            further_commits,
            call,
        };
        loop {
            let bytes = serde_json::to_vec(&commit)
                .map_err(|error| FleetError::unsupported("the commit", error))?;
            if bytes.len() as u64 <= MAX_COMMIT_BYTES {
                return Ok((commit, bytes));
            }
            let left_out = commit.commits.len().div_ceil(2);
            commit.commits.drain(..left_out);
            commit.further_commits += left_out;
        }
    }

    /// Parses the commit with a number.
    ///
    /// # Errors
    /// [`FleetError::Invalid`].
    pub fn parse(number: u64, bytes: &[u8]) -> Result<Self, FleetError> {
        let invalid = |why: String| FleetError::invalid(format!("the commit {number}"), why);
        if bytes.len() as u64 > MAX_COMMIT_BYTES {
            return Err(invalid(format!("it has more than {MAX_COMMIT_BYTES} bytes")));
        }
        let commit: Self =
            serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        check_version(commit.version).map_err(invalid)?;
        if commit.number != number {
            return Err(invalid(format!("it says that it is commit {}", commit.number)));
        }
        if commit.parent.is_none() != (number == 1) {
            return Err(invalid("only the first commit has none before it".to_owned()));
        }
        if commit.tree.size > MAX_DIRECTORY_BYTES {
            return Err(invalid(format!(
                "its top directory has a description of more than {MAX_DIRECTORY_BYTES} bytes"
            )));
        }
        if commit.id.len() > MAX_TEXT_BYTES
            || commit.message.as_ref().is_some_and(|message| message.len() > MAX_TEXT_BYTES)
        {
            return Err(invalid(format!("a text in it has more than {MAX_TEXT_BYTES} bytes")));
        }
        Ok(commit)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn tree() -> DirectoryRef {
        DirectoryRef { digest: Digest::of(b"tree"), size: 4 }
    }

    #[test]
    fn commits_round_trip_and_damaged_ones_are_refused() {
        let source = || CommitSource {
            id: "c".repeat(1000),
            calls: vec![SourceCall { id: "call".to_owned(), tool: Some("edit.edit".to_owned()) }],
        };
        let few = (vec![source()], 0);
        let about = About { sources: few, ..About::default() };
        let (first, bytes) = StoredCommit::after(None, tree(), about).unwrap();
        assert_eq!((first.number, first.parent), (1, None));
        assert_eq!(StoredCommit::parse(1, &bytes).unwrap(), first);
        StoredCommit::parse(2, &bytes).unwrap_err();
        for length in 0..bytes.len() {
            StoredCommit::parse(1, &bytes[..length]).unwrap_err();
        }
        let text = String::from_utf8(bytes.clone()).unwrap();
        let changes = [
            (r#""version":1"#, r#""version":2"#),
            (r#""parent":null"#, r#""parent":"sha256:00""#),
            (r#""size":4"#, r#""size":9999999999"#),
            (r#""number":1"#, r#""number":1,"more":1"#),
        ];
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            StoredCommit::parse(1, text.replacen(from, to, 1).as_bytes()).unwrap_err();
        }
        let last = (1, Digest::of(&bytes));
        let many = (vec![source(); 5000], 7);
        let (next, bytes) = StoredCommit::after(
            Some(last),
            tree(),
            About { message: Some("m".to_owned()), sources: many, call: None },
        )
        .unwrap();
        assert_eq!((next.number, next.parent), (2, Some(last.1)));
        assert!(bytes.len() as u64 <= MAX_COMMIT_BYTES && !next.commits.is_empty());
        assert_eq!(next.commits.len() + next.further_commits, 5007);
        let long = Some("m".repeat(5000));
        let about = About { message: long, ..About::default() };
        StoredCommit::after(None, tree(), about).unwrap_err();
    }

    #[test]
    fn markers_of_other_versions_are_refused() {
        let marker = Marker::new();
        let bytes = serde_json::to_vec(&marker).unwrap();
        assert_eq!(Marker::parse(&bytes).unwrap().id, marker.id);
        for wrong in [&b"{}"[..], br#"{"version":2,"id":"x"}"#, b"", b"null"] {
            Marker::parse(wrong).unwrap_err();
        }
    }
}
