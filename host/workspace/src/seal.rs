//! Authentication of the files that the host keeps in a workspace: a `.cofferdam` may have come with
//! a repository, and a file that a tool wrote there must not be mistaken for one of the host.
//!
//! Each file has a tag, an HMAC-SHA-256 with a key that is kept outside of the workspace. The tag
//! binds the file to its workspace, its purpose (the domain) and its name.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The length of a tag, in bytes.
pub const TAG: usize = 32;

/// The length of the part of a tag that is in a mark, in bytes.
const MARK: usize = 16;

/// The length of the user's secret, in bytes.
pub const SECRET: usize = 32;

/// The key of one workspace.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// Derives the key of a workspace from the user's secret and the identity of the workspace.
    pub fn of(secret: &[u8; SECRET], workspace: &[u8]) -> Self {
        let derived = with(secret).chain_update(workspace).finalize().into_bytes();
        Self(with(&derived.into()))
    }

    /// Returns the tag of a file's content.
    pub fn seal(&self, domain: &str, name: &str, content: &[u8]) -> [u8; TAG] {
        self.mac(domain, name, content).finalize().into_bytes().into()
    }

    /// Whether a tag matches a content. Takes constant time.
    pub fn verify(&self, domain: &str, name: &str, content: &[u8], tag: &[u8]) -> bool {
        self.mac(domain, name, content).verify_slice(tag).is_ok()
    }

    /// Appends the tag to a content.
    pub fn append(&self, domain: &str, name: &str, content: &mut Vec<u8>) {
        let tag = self.seal(domain, name, content);
        content.extend_from_slice(&tag);
    }

    /// Returns the content before the tag, if the tag matches.
    pub fn content<'a>(&self, domain: &str, name: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
        let (content, tag) = sealed.split_last_chunk::<TAG>()?;
        self.verify(domain, name, content, tag).then_some(content)
    }

    /// Returns a mark: a shorter tag for a line of text or a file name, as text, which can be verified
    /// without opening the file.
    pub fn mark(&self, domain: &str, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(&self.seal(domain, text, b"")[..MARK])
    }

    /// Whether a mark matches a text.
    pub fn is_mark(&self, domain: &str, text: &str, mark: &str) -> bool {
        let is_its = |mark: Vec<u8>| {
            mark.len() == MARK && self.mac(domain, text, b"").verify_truncated_left(&mark).is_ok()
        };
        URL_SAFE_NO_PAD.decode(mark).is_ok_and(is_its)
    }

    /// Prefixes the lengths, so that no two triples have the same bytes.
    fn mac(&self, domain: &str, name: &str, content: &[u8]) -> Hmac<Sha256> {
        let length = |text: &str| (text.len() as u64).to_le_bytes();
        self.0
            .clone()
            .chain_update(length(domain))
            .chain_update(length(name))
            .chain_update(domain)
            .chain_update(name)
            .chain_update(content)
    }
}

/// Does not show the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

fn with(key: &[u8; SECRET]) -> Hmac<Sha256> {
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    Hmac::<Sha256>::new_from_slice(key).expect("a key of any length")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_tag_fits_one_content_only() {
        let key = Key::of(&[7; SECRET], b"/home/ada/project");
        let mut sealed = b"content".to_vec();
        key.append("manifest", "name", &mut sealed);
        assert_eq!(key.content("manifest", "name", &sealed).unwrap(), b"content");
        let other_secret = Key::of(&[8; SECRET], b"/home/ada/project");
        let other_workspace = Key::of(&[7; SECRET], b"/home/ada/other");
        for other in [other_secret, other_workspace] {
            assert!(other.content("manifest", "name", &sealed).is_none());
        }
        for (domain, name) in [("kept", "name"), ("manifest", "other"), ("manifestn", "ame")] {
            assert!(key.content(domain, name, &sealed).is_none(), "{domain} {name}");
        }
        let mark = key.mark("history", "1.id.0");
        assert!(key.is_mark("history", "1.id.0", &mark));
        for (domain, text, mark) in [
            ("history", "2.id.0", mark.as_str()),
            ("manifest", "1.id.0", &mark),
            ("history", "1.id.0", ""),
            ("history", "1.id.0", &mark[..8]),
        ] {
            assert!(!key.is_mark(domain, text, mark), "{domain} {text} {mark}");
        }
        for length in 0..sealed.len() {
            assert!(key.content("manifest", "name", &sealed[..length]).is_none());
        }
        for index in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[index] ^= 1;
            assert!(key.content("manifest", "name", &damaged).is_none());
        }
    }
}
