//! What a person has accepted of the plugins that they installed: from where, signed by whom,
//! asking for what. Kept outside of every workspace, for all of them, since grants stand under
//! names and hold in all of them, too: one name is one plugin.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::lock::{Candidate, Locked};
use super::signature::Signer;
use super::source::Source;
use cofferdam_core::policy::Capabilities;

/// Everything that a person has accepted, by the plugins' names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptances {
    /// By name.
    #[serde(default)]
    pub plugins: BTreeMap<String, Acceptance>,
}

/// What a person has accepted of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acceptance {
    /// Where the latest file came from.
    pub source: Source,
    /// Who signs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// The most that it was accepted to ask for.
    pub requests: Capabilities,
    /// The files that were accepted; the latest is the last.
    pub files: Vec<AcceptedFile>,
}

/// One file that was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcceptedFile {
    /// Its digest.
    pub digest: Digest,
    /// Whose signature was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
}

/// Why a plugin is not simply the next version of what was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustChange {
    /// Another key has signed it.
    OtherSigner {
        /// Who has signed what was accepted.
        accepted: Signer,
        /// Who has signed this.
        found: Signer,
    },
    /// What was accepted is signed, and this is not.
    SignatureLost(Signer),
    /// It comes from elsewhere, and what was accepted is not signed: nothing says that it is the
    /// same plugin.
    OtherSource {
        /// Where what was accepted comes from.
        accepted: Source,
        /// Where this comes from.
        found: Source,
    },
    /// It asks for more.
    Wider(Capabilities),
}

impl TrustChange {
    /// The option by which a person accepts it.
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

/// Why a lock's plugin does not load here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAccepted {
    /// Another file of the plugin was accepted.
    #[error("{0} is another file than those that you have installed")]
    Digest(Digest),
    /// The lock names another signer than the file had when it was accepted.
    #[error("it would be {}, and was {} when you installed it", by(.said.as_ref()), by(.accepted.as_ref()))]
    Signer {
        /// What the lock says.
        said: Option<Signer>,
        /// What was accepted.
        accepted: Option<Signer>,
    },
}

/// Who has signed something, in words.
pub fn by(signer: Option<&Signer>) -> String {
    signer.map_or_else(|| "unsigned".to_owned(), |signer| format!("signed by {signer}"))
}

impl Acceptances {
    /// Why a candidate is not simply the next version of what was accepted under its name; none
    /// where nothing was.
    pub fn trust_changes(&self, candidate: &Candidate) -> Vec<TrustChange> {
        let Some(accepted) = self.plugins.get(&candidate.manifest.name) else { return Vec::new() };
        let mut changes = Vec::new();
        match (&accepted.signer, &candidate.signer) {
            (Some(old), Some(new)) if old != new => {
                changes.push(TrustChange::OtherSigner { accepted: old.clone(), found: new.clone() })
            }
            (Some(old), None) => changes.push(TrustChange::SignatureLost(old.clone())),
            (None, _)
                if accepted.source != candidate.origin
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

    /// Remembers that a person has accepted a candidate, with all that it asks for. `is_known`: it
    /// is the next version of what was accepted, which stays so; otherwise it takes its place.
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

    /// Whose signature a file had when it was accepted.
    pub fn signer(&self, digest: &Digest) -> Option<&Signer> {
        let mut files = self.plugins.values().flat_map(|accepted| &accepted.files);
        files.find(|file| file.digest == *digest)?.signer.as_ref()
    }

    /// Whether the plugin that a lock names was accepted.
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
