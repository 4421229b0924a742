//! Messages with an authentication tag: a server, or a program that may publish there, can lose or repeat
//! them, but not make or change one, nor use it for another workspace.

use std::fmt;

use bytes::Bytes;
use cofferdam_plugin::digest::Digest;
use cofferdam_workspace::Key;
use serde::{Deserialize, Serialize};

use super::error::QueueError;
use crate::keys;

/// The shortest and longest secret of a fleet, in bytes.
const MIN_SECRET_BYTES: usize = 32;
const MAX_SECRET_BYTES: usize = 4096;

/// The longest name of a workspace, in bytes.
const MAX_WORKSPACE_BYTES: usize = 1024;

/// The version of a request's document.
const VERSION: u32 = 1;

/// Distinguishes the keys of the queue from all others that are derived in the same way.
const PURPOSE: &[u8] = b"cofferdam fleet queue";

/// The secret that all hosts and clients of a fleet share.
#[derive(Clone)]
pub struct FleetSecret(Key);

impl FleetSecret {
    /// Takes the text of a secret: 32 to 4096 bytes that others can't guess. White space at its ends is left
    /// out.
    ///
    /// # Errors
    /// [`QueueError::Secret`].
    pub fn new(secret: &[u8]) -> Result<Self, QueueError> {
        let secret = secret.trim_ascii();
        if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.len()) {
            let (least, most) = (MIN_SECRET_BYTES, MAX_SECRET_BYTES);
            return Err(QueueError::Secret { bytes: secret.len(), least, most });
        }
        Ok(Self(Key::of(Digest::of(secret).bytes(), PURPOSE)))
    }

    /// Appends the tag of a message.
    pub(super) fn seal(&self, kind: Kind, place: &str, mut content: Vec<u8>) -> Bytes {
        self.0.append(kind.domain(), place, &mut content);
        content.into()
    }

    /// Returns the content of a message, if it is authentic.
    pub(super) fn open<'a>(&self, kind: Kind, place: &str, sealed: &'a [u8]) -> Option<&'a [u8]> {
        self.0.content(kind.domain(), place, sealed)
    }
}

/// Leaves the secret out.
impl fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FleetSecret")
    }
}

/// The kinds of messages. A tag of one kind is not valid for another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Request,
    Result,
    Lease,
}

impl Kind {
    fn domain(self) -> &'static str {
        match self {
            Self::Request => "fleet-request",
            Self::Result => "fleet-result",
            Self::Lease => "fleet-lease",
        }
    }
}

/// A request for a call in a workspace of the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The idempotency key: 1 to 256 bytes. A workspace has at most one result for it.
    pub key: String,
    /// The name of the workspace: 1 to 1024 bytes.
    pub workspace: String,
    /// What to do. The queue does not look into it.
    pub body: serde_json::Value,
}

/// The content of a request's message.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<T> {
    version: u32,
    request: T,
}

impl Request {
    /// Encodes a request, and seals it for its workspace.
    pub(super) fn encode(&self, secret: &FleetSecret) -> Result<Bytes, QueueError> {
        let document = Document { version: VERSION, request: self };
        let content = serde_json::to_vec(&document).map_err(QueueError::refused)?;
        Ok(secret.seal(Kind::Request, &token(&self.workspace), content))
    }

    /// Decodes a message that was found for a workspace. Returns why it is not a request.
    pub(super) fn decode(
        sealed: &[u8],
        workspace_token: &str,
        secret: &FleetSecret,
    ) -> Result<Self, String> {
        let content = secret.open(Kind::Request, workspace_token, sealed);
        let content = content.ok_or("it is not authentic")?;
        let document: Document<Self> =
            serde_json::from_slice(content).map_err(|error| error.to_string())?;
        if document.version != VERSION {
            return Err(format!("it has the version {}", document.version));
        }
        let request = document.request;
        Place::new(&request.workspace, &request.key).map_err(|error| error.to_string())?;
        if token(&request.workspace) != workspace_token {
            return Err("it is for another workspace".to_owned());
        }
        Ok(request)
    }
}

/// A workspace and a key, as parts of subjects.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) workspace: String,
    key: String,
}

impl Place {
    /// Checks the names of a workspace and of a key.
    pub(super) fn new(workspace: &str, key: &str) -> Result<Self, QueueError> {
        check_name("the name of a workspace", workspace, MAX_WORKSPACE_BYTES)?;
        keys::check(key)?;
        Ok(Self { workspace: token(workspace), key: token(key) })
    }
}

/// Shows both tokens, with a dot between them.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.workspace, self.key)
    }
}

/// Checks that a name is not empty, not too long, and has no control characters.
pub(super) fn check_name(what: &'static str, name: &str, most: usize) -> Result<(), QueueError> {
    if name.is_empty() || name.len() > most || name.chars().any(char::is_control) {
        return Err(QueueError::Name { what, most });
    }
    Ok(())
}

/// The SHA-256 of a name in hexadecimal digits: a valid part of a subject for any name.
pub(super) fn token(name: &str) -> String {
    Digest::of(name.as_bytes()).hex()
}

/// Whether a text can be a token.
pub(super) fn is_token(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
