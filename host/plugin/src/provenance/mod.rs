//! Who built a plugin, by attestations without a key that users would have to know: Sigstore bundles of an OCI
//! artefact, which are verified here, without a network. A bundle has a certificate for a short time,
//! which names an identity (such as a workflow of GitHub) and who vouched for it (the issuer), the
//! signature of an in-toto statement about the artefact, and an entry of a public log.
//!
//! | module | content |
//! |---|---|
//! | [`crypto`] | the cryptography that the verification uses |

mod crypto;

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sigstore_verify::trust_root::{SigstoreInstance, TrustedRoot};
use sigstore_verify::types::{Bundle, Sha256Hash, SignatureContent, Statement};
use sigstore_verify::{VerificationPolicy, VerificationResult, Verifier};

use super::digest::Digest;
use cofferdam_text::{escape_control, shorten};

/// The largest size of a bundle in bytes.
pub const MAX_BUNDLE_BYTES: u64 = 512 << 10;

/// The most bundles of one artefact that are read.
pub const MAX_BUNDLES: usize = 16;

/// The longest identity and issuer, and how much is kept of what a statement says, in bytes.
const MAX_NAME_BYTES: usize = 1_000;
const MAX_TEXT_BYTES: usize = 300;

/// The types of statements that say who made an artefact: provenance of SLSA, and a signature of cosign. Others,
/// such as a list of parts or of vulnerabilities, may be by persons who did not make it.
const MAKERS: [&str; 2] = ["https://slsa.dev/provenance/v", "https://sigstore.dev/cosign/sign/v1"];

/// An identity that has to have made a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The identity in the certificate, such as
    /// `https://github.com/ada/lines/.github/workflows/release.yml@refs/tags/v1.0.0`. With `@*` at its end,
    /// it stands for all branches and tags.
    pub name: String,
    /// Who vouched for it, such as `https://token.actions.githubusercontent.com`.
    pub issuer: String,
}

/// A statement about an artefact that was verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attestation {
    /// The identity that signed it.
    pub identity: String,
    /// Who vouched for the identity.
    pub issuer: String,
    /// When it was signed, as RFC 3339.
    pub signed_at: String,
    /// The type of the statement, such as `https://slsa.dev/provenance/v1`.
    pub predicate: String,
    /// What built the artefact, as the statement says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builder: Option<String>,
    /// The repository that it was built from, as the certificate says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The commit that it was built from, as the certificate says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// What the attestations of one artefact say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Those that were verified.
    pub attestations: Vec<Attestation>,
    /// Why others were not, in words.
    pub unverified: Vec<String>,
}

/// The bundles of one artefact, as its registry returned them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundles {
    /// Their bytes: JSON, if they are valid.
    pub found: Vec<Vec<u8>>,
    /// Why others could not be read, in words.
    pub unread: Vec<String>,
}

/// The trusted root can't be used.
#[derive(Debug, thiserror::Error)]
#[error("the trusted root of Sigstore: {0}")]
pub struct RootError(String);

/// The authorities and logs that are trusted.
pub struct Trust(Verifier);

impl Identity {
    /// Whether one of the attestations is by this identity, and says who made the artefact.
    pub fn is_in(&self, attestations: &[Attestation]) -> bool {
        attestations.iter().any(|attestation| {
            attestation.says_who_made_it()
                && attestation.issuer == self.issuer
                && self.is_name(&attestation.identity)
        })
    }

    fn is_name(&self, found: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) if start.ends_with('@') => {
                found.strip_prefix(start).is_some_and(|rest| !rest.contains('@'))
            }
            _ => self.name == found,
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (by {})", self.name, self.issuer)
    }
}

impl Attestation {
    fn says_who_made_it(&self) -> bool {
        MAKERS.iter().any(|maker| self.predicate.starts_with(maker))
    }

    fn new(verified: &VerificationResult, statement: &Statement) -> Result<Self, String> {
        let (Some(identity), Some(issuer)) = (verified.identity(), verified.issuer()) else {
            return Err("its certificate names no identity with an issuer".to_owned());
        };
        if identity.as_str().len() > MAX_NAME_BYTES || issuer.len() > MAX_NAME_BYTES {
            return Err(format!("its identity has more than {MAX_NAME_BYTES} bytes"));
        }
        let time = verified.integrated_time();
        let time = time.or_else(|| verified.verified_timestamps().iter().min().copied());
        let time = time.ok_or("no verified time says when it was signed")?;
        let claims = verified.certificate().map(|certificate| &certificate.ci_claims);
        let text = |text: &str| shorten(text, MAX_TEXT_BYTES);
        Ok(Self {
            identity: identity.as_str().to_owned(),
            issuer: issuer.to_owned(),
            signed_at: time.to_string(),
            predicate: text(&statement.predicate_type),
            builder: builder(&statement.predicate).map(text),
            repository: claims.and_then(|its| its.source_repository_uri.as_deref()).map(text),
            commit: claims.and_then(|its| its.source_repository_digest.as_deref()).map(text),
        })
    }
}

impl fmt::Display for Attestation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { identity, issuer, signed_at, predicate, builder, repository, commit } = self;
        write!(f, "{predicate} by {identity} (by {issuer}), {signed_at}")?;
        if let Some(repository) = repository {
            write!(f, ", from {repository}")?;
        }
        if let Some(commit) = commit {
            write!(f, " {commit}")?;
        }
        builder.as_ref().map_or(Ok(()), |builder| write!(f, ", built by {builder}"))
    }
}

/// The builder that a provenance of SLSA names: version 1, and 0.2.
fn builder(predicate: &Value) -> Option<&str> {
    let new = predicate.pointer("/runDetails/builder/id");
    new.or_else(|| predicate.pointer("/builder/id"))?.as_str()
}

impl Trust {
    /// The public Sigstore, as it was when this program was built.
    ///
    /// # Errors
    /// [`RootError`] if the root that is compiled in can't be used.
    pub fn embedded() -> Result<Self, RootError> {
        Self::new(TrustedRoot::from_embedded(SigstoreInstance::PublicGood))
    }

    /// The authorities and logs of a `trusted_root.json`.
    ///
    /// # Errors
    /// [`RootError`] if the text is no trusted root.
    pub fn parse(json: &str) -> Result<Self, RootError> {
        Self::new(TrustedRoot::from_json(json))
    }

    fn new(
        root: Result<TrustedRoot, sigstore_verify::trust_root::Error>,
    ) -> Result<Self, RootError> {
        crypto::install();
        let wrong =
            |error: &dyn fmt::Display| RootError(shorten(&error.to_string(), MAX_TEXT_BYTES));
        Ok(Self(Verifier::new(&root.map_err(|e| wrong(&e))?).map_err(|error| wrong(&error))?))
    }

    /// Verifies the bundles of the artefact with this digest.
    pub fn verify(&self, artefact: &Digest, bundles: Bundles) -> Provenance {
        let mut provenance = Provenance { unverified: bundles.unread, ..Provenance::default() };
        for bundle in bundles.found {
            match self.attestation(artefact, &bundle) {
                Ok(attestation) => provenance.attestations.push(attestation),
                Err(why) => {
                    provenance.unverified.push(shorten(&escape_control(&why), MAX_TEXT_BYTES));
                }
            }
        }
        provenance
    }

    /// Verifies one bundle: its certificate and the time of it, its entry of the log, its signature, and that its
    /// statement is about the artefact.
    fn attestation(&self, artefact: &Digest, bundle: &[u8]) -> Result<Attestation, String> {
        let text = std::str::from_utf8(bundle).map_err(|error| error.to_string())?;
        let bundle = Bundle::from_json(text).map_err(|error| error.to_string())?;
        let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
            return Err("it signs a digest, and only signed statements are read".to_owned());
        };
        let digest = Sha256Hash::new(*artefact.bytes());
        let policy = VerificationPolicy::any_identity();
        let verified =
            self.0.verify(digest, &bundle, &policy).map_err(|error| error.to_string())?;
        let is_whole =
            verified.certificate_verified() && verified.sct_verified() && verified.tlog_verified();
        if !is_whole {
            return Err("not all of it was verified".to_owned());
        }
        let statement: Statement = serde_json::from_slice(envelope.payload.as_bytes())
            .map_err(|error| error.to_string())?;
        Attestation::new(&verified, &statement)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// An attestation from the log of the public Sigstore, of the package of an example.
    const PUBLIC: &str = include_str!("public.sigstore.json");
    const SUBJECT: &str = "sha256:54303491a8418fbed24344b513546182c29b43bf282ceb433af65e2299f9271f";

    fn verified(trust: &Trust, subject: &str, bundle: &str) -> Provenance {
        let bundles = Bundles { found: vec![bundle.as_bytes().to_vec()], unread: Vec::new() };
        trust.verify(&subject.parse().unwrap(), bundles)
    }

    #[test]
    fn an_attestation_of_the_public_sigstore_is_verified() {
        let trust = Trust::embedded().unwrap();
        let found = verified(&trust, SUBJECT, PUBLIC);
        let workflow =
            "https://github.com/prefix-dev/sigstore-example/.github/workflows/action.yaml";
        let wanted = Attestation {
            identity: format!("{workflow}@refs/heads/main"),
            issuer: "https://token.actions.githubusercontent.com".to_owned(),
            signed_at: "2025-09-01T12:13:59Z".to_owned(),
            predicate: "https://schemas.conda.org/attestations-publish-1.schema.json".to_owned(),
            builder: None,
            repository: Some("https://github.com/prefix-dev/sigstore-example".to_owned()),
            commit: Some("193b5bd7d3985809503963ae400594ea16df31cf".to_owned()),
        };
        assert_eq!(found.attestations, [wanted], "{:?}", found.unverified);
        let other = format!("sha256:{}", "0".repeat(64));
        assert!(verified(&trust, &other, PUBLIC).attestations.is_empty());
    }

    /// No change of a bundle is verified as something else, and none ends the program.
    #[test]
    fn a_changed_bundle_is_not_verified_as_another() {
        let trust = Trust::embedded().unwrap();
        let whole = verified(&trust, SUBJECT, PUBLIC).attestations;
        for at in (0..PUBLIC.len()).step_by(29) {
            for to in ['A', '"', '0', '}'] {
                let mut changed = PUBLIC.to_owned();
                changed.replace_range(at..=at, &to.to_string());
                let found = verified(&trust, SUBJECT, &changed);
                assert!(found.attestations.is_empty() || found.attestations == whole, "{at} {to}");
            }
            assert!(verified(&trust, SUBJECT, &PUBLIC[..at]).attestations.is_empty(), "{at}");
        }
    }

    #[test]
    fn an_identity_is_the_whole_name_or_all_refs_of_a_workflow() {
        let attestation = |identity: &str, predicate: &str| Attestation {
            identity: identity.to_owned(),
            issuer: "i".to_owned(),
            signed_at: String::new(),
            predicate: predicate.to_owned(),
            builder: None,
            repository: None,
            commit: None,
        };
        let (slsa, cosign) =
            ("https://slsa.dev/provenance/v1", "https://sigstore.dev/cosign/sign/v1");
        for (name, issuer, identity, predicate, wanted) in [
            ("a@b", "i", "a@b", slsa, true),
            ("a@b", "i", "a@b", cosign, true),
            ("a@b", "i", "a@b", "https://spdx.dev/Document", false),
            ("a@b", "j", "a@b", slsa, false),
            ("a@b", "i", "a@bc", slsa, false),
            ("a@*", "i", "a@refs/tags/v1", slsa, true),
            ("a@*", "i", "ab@refs/tags/v1", slsa, false),
            ("a@*", "i", "a@x@y", slsa, false),
            ("a*", "i", "ab", slsa, false),
            ("*", "i", "a", slsa, false),
        ] {
            let identity = attestation(identity, predicate);
            let required = Identity { name: name.to_owned(), issuer: issuer.to_owned() };
            assert_eq!(required.is_in(&[identity]), wanted, "{required}");
        }
    }

    #[test]
    fn a_malformed_root_is_refused() {
        for text in ["", "{}", "[]", &PUBLIC[..900]] {
            assert!(Trust::parse(text).is_err(), "{text}");
        }
    }
}
