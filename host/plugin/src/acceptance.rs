//! What a user has accepted of the plugins that they installed: the source, the signer, the
//! requested capabilities. It is kept outside of every workspace and applies to all of them, since
//! grants also apply to names in all workspaces: one name is one plugin.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::lock::{Candidate, Locked};
use super::provenance::{Attestation, Identity};
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
    /// The identity that its attestations have to name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
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
    /// The identity that was required, and that an attestation names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The attestations that were verified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attestations: Vec<Attestation>,
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
    /// Of what was accepted, an identity is required as its maker, and of this another one, or none.
    OtherIdentity {
        /// The identity that is required of what was accepted.
        accepted: Identity,
        /// The identity that is required of this one.
        found: Option<Identity>,
    },
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
            Self::OtherSigner { .. } | Self::SignatureLost(_) | Self::OtherIdentity { .. } => {
                "--accept-signer"
            }
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
            Self::OtherIdentity { accepted, found: Some(found) } => {
                write!(f, "its maker would be {found}, and that of what was accepted is {accepted}")
            }
            Self::OtherIdentity { accepted, found: None } => {
                write!(
                    f,
                    "nothing attests its maker, and what was accepted is attested by {accepted}"
                )
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
    /// The lock names another identity than was required of the file when it was accepted.
    #[error("its maker would be {}, and was {} when you installed it", made_by(.said.as_ref()), made_by(.accepted.as_ref()))]
    Identity {
        /// The identity that the lock names.
        said: Option<Identity>,
        /// The identity when it was accepted.
        accepted: Option<Identity>,
    },
}

fn made_by(identity: Option<&Identity>) -> String {
    identity.map_or_else(|| "anyone".to_owned(), Identity::to_string)
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
                if accepted.identity.is_none()
                    && !accepted.source.has_version(&candidate.origin)
                    && accepted.files.iter().all(|file| file.digest != candidate.digest) =>
            {
                changes.push(TrustChange::OtherSource {
                    accepted: accepted.source.clone(),
                    found: candidate.origin.clone(),
                });
            }
            _ => {}
        }
        if let Some(old) = &accepted.identity
            && candidate.identity.as_ref() != Some(old)
        {
            let found = candidate.identity.clone();
            changes.push(TrustChange::OtherIdentity { accepted: old.clone(), found });
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
        let file = AcceptedFile {
            digest: candidate.digest,
            signer: candidate.signer.clone(),
            identity: candidate.identity.clone(),
            attestations: candidate.attestations.clone(),
        };
        let old = self.plugins.remove(&name).filter(|_| is_known);
        let mut files = old.map_or_else(Vec::new, |old| old.files);
        files.retain(|other| other.digest != file.digest);
        files.push(file);
        let accepted = Acceptance {
            source: candidate.origin.clone(),
            signer: candidate.signer.clone(),
            identity: candidate.identity.clone(),
            requests: candidate.manifest.requests.clone(),
            files,
        };
        self.plugins.insert(name, accepted);
    }

    /// The key whose signature a file had when it was accepted.
    pub fn signer(&self, digest: &Digest) -> Option<&Signer> {
        self.file(digest)?.signer.as_ref()
    }

    /// What was accepted of the file with a digest, under any name.
    pub fn file(&self, digest: &Digest) -> Option<&AcceptedFile> {
        let mut files = self.plugins.values().flat_map(|accepted| &accepted.files);
        files.find(|file| file.digest == *digest)
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
        if file.signer != locked.signer {
            let (said, accepted) = (locked.signer.clone(), file.signer.clone());
            return Err(NotAccepted::Signer { said, accepted });
        }
        if file.identity != locked.identity {
            let (said, accepted) = (locked.identity.clone(), file.identity.clone());
            return Err(NotAccepted::Identity { said, accepted });
        }
        Ok(())
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
            identity: None,
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
                called: None,
                digest: Digest::of(b""),
                signer: None,
                identity: None,
                wit: Vec::new(),
                requests: Capabilities::NONE,
                granted: Capabilities::NONE,
            };
            assert_eq!(acceptances.source_origin(name, &locked), wanted, "{name} {named}");
        }
    }
}
