//! What a user has accepted of the plugins that they installed: the source, the signer, the
//! requested capabilities. It is kept outside of every workspace and applies to all of them, since
//! grants also apply to names in all workspaces: one name is one plugin.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::lock::{Candidate, Locked};
use super::signature::Signer;
use super::source::{Source, SourceOrigin};
use cofferdam_core::policy::Capabilities;

/// Everything that a user has accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptances {
    /// The acceptances by plugin name.
    #[serde(default)]
    pub plugins: BTreeMap<String, Acceptance>,
}

/// What a user has accepted of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// The source of the latest file.
    pub source: Source,
    /// The key that signs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// The most capabilities that it was accepted to request.
    pub requests: Capabilities,
    /// The files that were accepted, the latest last.
    pub files: Vec<AcceptedFile>,
}

/// One file that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedFile {
    /// The digest of the file.
    pub digest: Digest,
    /// The key whose signature was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
}

/// A difference from what was accepted that makes a plugin more than just the next version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustChange {
    /// It is signed with another key.
    OtherSigner {
        /// The key that signed what was accepted.
        accepted: Signer,
        /// The key that signed this one.
        found: Signer,
    },
    /// What was accepted is signed, and this is not.
    SignatureLost(Signer),
    /// It comes from another source, and what was accepted is not signed: nothing proves that it is
    /// the same plugin.
    OtherSource {
        /// The source of what was accepted.
        accepted: Source,
        /// The source of this one.
        found: Source,
    },
    /// It requests more capabilities.
    Wider(Capabilities),
}

impl TrustChange {
    /// The command-line option by which a user accepts the change.
    pub fn option(&self) -> &'static str {
        match self {
            Self::OtherSigner { .. } | Self::SignatureLost(_) => "--accept-signer",
            Self::OtherSource { .. } => "--accept-source",
            Self::Wider(_) => "--grant CAPABILITY, or --deny",
        }
    }
}

impl fmt::Display for TrustChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherSigner { accepted, found } => {
                write!(f, "it is signed by {found}, and what was accepted by {accepted}")
            }
            Self::SignatureLost(accepted) => {
                write!(f, "it is not signed, and what was accepted is, by {accepted}")
            }
            Self::OtherSource { accepted, found } => write!(
                f,
                "it comes from {found}, and what was accepted from {accepted}; that was not \
                 signed, so nothing says that this is the same plugin"
            ),
            Self::Wider(more) => {
                let more: Vec<String> = more.each().map(|each| each.to_string()).collect();
                write!(f, "it asks for more than was accepted: {}", more.join(", "))
            }
        }
    }
}

/// Why a plugin of a lock is not loaded here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// Another file of the plugin was accepted.
    #[error("{0} is another file than those that you have installed")]
    Digest(Digest),
    /// The lock names another signer than the file had when it was accepted.
    #[error("it would be {}, and was {} when you installed it", by(.said.as_ref()), by(.accepted.as_ref()))]
    Signer {
        /// The signer that the lock names.
        said: Option<Signer>,
        /// The signer when it was accepted.
        accepted: Option<Signer>,
    },
}

/// Describes a signer in words.
pub fn by(signer: Option<&Signer>) -> String {
    signer.map_or_else(|| "unsigned".to_owned(), |signer| format!("signed by {signer}"))
}

impl Acceptances {
    /// How a candidate differs from what was accepted under its name; empty if nothing was
    /// accepted.
    pub fn trust_changes(&self, candidate: &Candidate) -> Vec<TrustChange> {
        let Some(accepted) = self.plugins.get(&candidate.manifest.name) else { return Vec::new() };
        let mut changes = Vec::new();
        match (&accepted.signer, &candidate.signer) {
            (Some(old), Some(new)) if old != new => {
                changes.push(TrustChange::OtherSigner { accepted: old.clone(), found: new.clone() })
            }
            (Some(old), None) => changes.push(TrustChange::SignatureLost(old.clone())),
            (None, _)
                if !accepted.source.has_version(&candidate.origin)
                    && accepted.files.iter().all(|file| file.digest != candidate.digest) =>
            {
                changes.push(TrustChange::OtherSource {
                    accepted: accepted.source.clone(),
                    found: candidate.origin.clone(),
                });
            }
            _ => {}
        }
        let wider = candidate.manifest.requests.beyond(&accepted.requests);
        if wider != Capabilities::NONE {
            changes.push(TrustChange::Wider(wider));
        }
        changes
    }

    /// Records that a user has accepted a candidate, with all that it requests. `is_known` says
    /// that it is the next version of what was accepted, which stays accepted; otherwise it
    /// replaces it.
    pub fn accept(&mut self, candidate: &Candidate, is_known: bool) {
        let name = candidate.manifest.name.clone();
        let file = AcceptedFile { digest: candidate.digest, signer: candidate.signer.clone() };
        let old = self.plugins.remove(&name).filter(|_| is_known);
        let mut files = old.map_or_else(Vec::new, |old| old.files);
        files.retain(|other| other.digest != file.digest);
        files.push(file);
        let accepted = Acceptance {
            source: candidate.origin.clone(),
            signer: candidate.signer.clone(),
            requests: candidate.manifest.requests.clone(),
            files,
        };
        self.plugins.insert(name, accepted);
    }

    /// The key whose signature a file had when it was accepted.
    pub fn signer(&self, digest: &Digest) -> Option<&Signer> {
        let mut files = self.plugins.values().flat_map(|accepted| &accepted.files);
        files.find(|file| file.digest == *digest)?.signer.as_ref()
    }

    /// Who named the source of a plugin in a lock: the user, if the file that was accepted last
    /// is from there.
    pub fn source_origin(&self, name: &str, locked: &Locked) -> SourceOrigin {
        match self.plugins.get(name) {
            Some(accepted) if accepted.source.is_same_place(&locked.source) => SourceOrigin::User,
            _ => SourceOrigin::Lock,
        }
    }

    /// Checks that the plugin in a lock was accepted.
    ///
    /// # Errors
    /// See [`NotAccepted`].
    pub fn check(&self, name: &str, locked: &Locked) -> Result<(), NotAccepted> {
        let files = self.plugins.get(name).map_or(&[][..], |accepted| &accepted.files);
        let file = files.iter().find(|file| file.digest == locked.digest);
        let file = file.ok_or(NotAccepted::Digest(locked.digest))?;
        if file.signer == locked.signer {
            return Ok(());
        }
        Err(NotAccepted::Signer { said: locked.signer.clone(), accepted: file.signer.clone() })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn only_the_accepted_source_of_a_plugin_is_the_users() {
        let source = |text: &str| text.parse::<Source>().unwrap();
        let accepted = Acceptance {
            source: source("https://10.0.0.1/lines.wasm"),
            signer: None,
            requests: Capabilities::NONE,
            files: Vec::new(),
        };
        let acceptances = Acceptances { plugins: BTreeMap::from([("lines".to_owned(), accepted)]) };
        for (name, named, wanted) in [
            ("lines", "https://10.0.0.1/lines.wasm", SourceOrigin::User),
            ("lines", "https://10.0.0.1/lines.wasm?v=2", SourceOrigin::Lock),
            ("lines", "https://10.0.0.2/lines.wasm", SourceOrigin::Lock),
            ("other", "https://10.0.0.1/lines.wasm", SourceOrigin::Lock),
        ] {
            let locked = Locked {
                version: "0.1.0".to_owned(),
                source: source(named),
                range: None,
                digest: Digest::of(b""),
                signer: None,
                wit: Vec::new(),
                requests: Capabilities::NONE,
                granted: Capabilities::NONE,
            };
            assert_eq!(acceptances.source_origin(name, &locked), wanted, "{name} {named}");
        }
    }
}
