//! Revocations: a publisher's signed list of files that must not run any more, with the reasons. It
//! is beside the plugin (`revoked.toml` and `revoked.toml.minisig`), or in its repository under the
//! tag `revoked`. The host fetches it with installations and updates, and checks each plugin before it
//! loads it. A list revokes only what the same key has signed, and nothing takes a revocation back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::signature::Signer;
use cofferdam_text::{escape_control, shorten};

/// The name of the file with a list.
pub const FILE: &str = "revoked.toml";

/// The tag of a list in a registry.
pub const TAG: &str = "revoked";

/// The largest size of a list in bytes.
pub const MAX_LIST_BYTES: usize = 1 << 20;

/// The version of the file format.
const VERSION: u32 = 1;

/// The longest reason that is shown, in bytes.
const MAX_REASON_BYTES: usize = 300;

/// A publisher's list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    version: u32,
    /// The reasons by the digests of revoked files.
    #[serde(default)]
    pub revoked: BTreeMap<Digest, String>,
}

/// The text is not a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It is larger than a list may be.
    #[error("it has more than {MAX_LIST_BYTES} bytes")]
    TooLarge,
    /// It is not TOML of this form.
    #[error("it is no list of revocations: {0}")]
    Malformed(String),
    /// It has another version.
    #[error("it has version {0}; this host reads version {VERSION}")]
    Version(u32),
}

impl List {
    /// Parses a list whose signature has been checked.
    ///
    /// # Errors
    /// Those of [`ListError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ListError> {
        if bytes.len() > MAX_LIST_BYTES {
            return Err(ListError::TooLarge);
        }
        let malformed = |error: &dyn std::fmt::Display| {
            ListError::Malformed(shorten(&escape_control(&error.to_string()), MAX_REASON_BYTES))
        };
        let text = std::str::from_utf8(bytes).map_err(|error| malformed(&error))?;
        let list: Self = toml::from_str(text).map_err(|error| malformed(&error))?;
        if list.version == VERSION { Ok(list) } else { Err(ListError::Version(list.version)) }
    }
}

/// All revocations that a user's host has seen: the reasons, by signer and digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revocations(BTreeMap<Signer, BTreeMap<Digest, String>>);

impl Revocations {
    /// Adds what a list by `signer` revokes. Returns whether anything is new.
    pub fn add(&mut self, signer: &Signer, list: &List) -> bool {
        let known = self.0.entry(signer.clone()).or_default();
        let before = known.len();
        for (digest, reason) in &list.revoked {
            let reason = shorten(&escape_control(reason), MAX_REASON_BYTES);
            known.entry(*digest).or_insert(reason);
        }
        known.len() > before
    }

    /// The reason why a file by `signer` was revoked.
    pub fn reason(&self, signer: Option<&Signer>, digest: &Digest) -> Option<&str> {
        self.0.get(signer?)?.get(digest).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_list_revokes_only_files_of_its_signer() {
        let ada: Signer =
            "RWT1Wfe+ewYn3o8J/9rBd+ue1EtlQN2l8lG+OeSvBjVh50+3lVeDTPDN".parse().unwrap();
        let eve: Signer =
            "RWSIchNbjJXUbPj3AUQLIxFmBLPqw1DvNNXNpvYD3/ccYqew6qidDuX0".parse().unwrap();
        let digest = Digest::of(b"");
        let list = format!("version = 1\n[revoked]\n\"{digest}\" = \"deletes \\u001b files\"\n");
        let list = List::parse(list.as_bytes()).unwrap();
        let mut all = Revocations::default();
        assert!(all.add(&ada, &list));
        assert!(!all.add(&ada, &list));
        let reason = all.reason(Some(&ada), &digest).unwrap();
        assert!(reason.starts_with("deletes ") && !reason.contains('\u{1b}'), "{reason}");
        assert_eq!(all.reason(Some(&eve), &digest), None);
        assert_eq!(all.reason(None, &digest), None);
        // A later list without the entry takes nothing back.
        assert!(!all.add(&ada, &List::parse(b"version = 1\n").unwrap()));
        assert!(all.reason(Some(&ada), &digest).is_some());
        let text = toml::to_string(&all).unwrap();
        assert_eq!(toml::from_str::<Revocations>(&text).unwrap(), all, "{text}");
    }

    #[test]
    fn invalid_lists_are_refused() {
        for (text, why) in [
            ("", "missing field `version`"),
            ("version = 2\n", "version 2"),
            ("version = 1\n[revoked]\n\"sha256:12\" = \"x\"\n", "is no digest"),
            ("version = 1\n[revoke]\n", "unknown field `revoke`"),
        ] {
            let error = List::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(List::parse(&vec![b'#'; MAX_LIST_BYTES + 1]), Err(ListError::TooLarge));
        assert!(List::parse(b"\xff").is_err());
    }
}
