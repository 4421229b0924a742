//! `cofferdam.lock`: the exact plugins of a workspace. It is beside `cofferdam.toml` and should be
//! under version control.
//!
//! The lock is not trusted: it names plugins with their digests, and it grants nothing. What a user
//! has accepted and granted is kept outside of the workspace ([`super::acceptance`], `[grants]` of
//! the user's settings). The lock's statements about a plugin are compared with the plugin, so that
//! reviewers of the lock can rely on them.

use std::collections::BTreeMap;
use std::path::Path;

use semver::VersionReq;
use serde::{Deserialize, Serialize};

use super::digest::Digest;
use super::manifest::{Manifest, NAME_FORM, is_name};
use super::pack::{self, PackError};
use super::provenance::{Attestation, Identity};
use super::signature::Signer;
use super::source::Source;
use super::typed::{Beside, TypedError};
use cofferdam_core::policy::Capabilities;
use cofferdam_text::shorten;

/// The name of the file, in the top directory of the workspace.
pub const FILE: &str = "cofferdam.lock";

/// The version of the file format.
const VERSION: u32 = 1;

/// The comment at the beginning of the file.
const HEADER: &str = "\
# Which plugins this workspace uses. Written by `cofferdam plugin`; `cofferdam plugin install`
# gets what it names. It grants nothing: grants are in the user's own settings.
";

/// The plugins of a workspace, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    version: u32,
    /// The plugins by name.
    #[serde(default)]
    pub plugins: BTreeMap<String, Locked>,
}

/// One plugin of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// The version in its manifest.
    pub version: String,
    /// Where it comes from.
    pub source: Source,
    /// The versions that `plugin update` takes from its repository; none if its tag is no semantic
    /// version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<VersionReq>,
    /// The plugin's own name, if it was installed under another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub called: Option<String>,
    /// The digest of its file.
    pub digest: Digest,
    /// The key that signed it; none if it is not signed, or was not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<Signer>,
    /// The identity that an attestation has to name as its maker; none if none was required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The WIT packages that it imports, such as `wasi:io@0.2.6`.
    pub wit: Vec<String>,
    /// What its manifest requests.
    pub requests: Capabilities,
    /// The capabilities that the author of the lock has granted, for information: they grant
    /// nothing.
    pub granted: Capabilities,
}

/// The file is not a valid lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Not TOML, or with other fields.
    #[error("{FILE}: {0}")]
    Malformed(#[from] Box<toml::de::Error>),
    /// Written by another version of this program.
    #[error("{FILE} has version {0}; this host reads version {VERSION}")]
    Version(u32),
    /// The name of a plugin is invalid.
    #[error("{FILE}: plugin '{}' is not of {NAME_FORM}", shorten(.0, 80))]
    Name(String),
}

impl Default for Lock {
    fn default() -> Self {
        Self { version: VERSION, plugins: BTreeMap::new() }
    }
}

impl Lock {
    /// Parses the text of a lock.
    ///
    /// # Errors
    /// Those of [`LockError`].
    pub fn parse(text: &str) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = toml::from_str(text).map_err(Box::new)?;
        if version != VERSION {
            return Err(LockError::Version(version));
        }
        let lock: Self = toml::from_str(text).map_err(Box::new)?;
        match lock.plugins.keys().find(|name| !is_name(name)) {
            Some(name) => Err(LockError::Name(name.clone())),
            None => Ok(lock),
        }
    }

    /// Serialises the lock as TOML.
    ///
    /// # Errors
    /// Never fails for a lock that was parsed or made from manifests.
    pub fn to_text(&self) -> Result<String, toml::ser::Error> {
        Ok(format!("{HEADER}{}", toml::to_string(self)?))
    }
}

impl Locked {
    /// Creates the entry of a plugin.
    pub fn new(candidate: &Candidate, granted: Capabilities) -> Self {
        Self {
            version: candidate.manifest.version.clone(),
            source: candidate.source.clone(),
            range: candidate.range.clone(),
            called: candidate.called.clone(),
            digest: candidate.digest,
            signer: candidate.signer.clone(),
            identity: candidate.identity.clone(),
            wit: candidate.wit.clone(),
            requests: candidate.manifest.requests.clone(),
            granted,
        }
    }

    /// The plugin's own name, where `name` is the one that the lock has for it.
    pub fn own_name<'a>(&'a self, name: &'a str) -> &'a str {
        self.called.as_deref().unwrap_or(name)
    }

    /// Compares the entry with the plugin; returns the first difference in words.
    pub fn mismatch(&self, manifest: &Manifest, wit: &[String]) -> Option<String> {
        let (said, requests) = (&self.requests, &manifest.requests);
        if said != requests {
            return Some(format!("it requests {requests}, and not {said}"));
        }
        if self.wit != wit {
            return Some(format!("it imports {}, and not {}", wit.join(", "), self.wit.join(", ")));
        }
        (self.version != manifest.version)
            .then(|| format!("its version is {}, and not {}", manifest.version, self.version))
    }
}

/// A plugin that can be installed: read and checked, but not compiled.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Where it comes from, as in the lock.
    pub source: Source,
    /// The source independent of the workspace: the user accepts a plugin for all workspaces.
    pub origin: Source,
    /// The versions that later updates take.
    pub range: Option<VersionReq>,
    /// The bytes of the packed component.
    pub bytes: Vec<u8>,
    /// The digest of the component.
    pub digest: Digest,
    /// The key whose signature was checked.
    pub signer: Option<Signer>,
    /// The identity that was required of its maker, and that an attestation names.
    pub identity: Option<Identity>,
    /// The attestations that were verified.
    pub attestations: Vec<Attestation>,
    /// The plugin's own name, if it is installed under another one.
    pub called: Option<String>,
    /// The manifest in the component, with the name under which the plugin is installed.
    pub manifest: Manifest,
    /// The WIT packages that it imports.
    pub wit: Vec<String>,
    /// What the files beside the component say.
    pub beside: Beside,
}

impl Candidate {
    /// Reads a packed component. The caller checks its signature. A component of ACT whose tools are not in
    /// `beside` [lists none](Manifest::is_unlisted).
    ///
    /// # Errors
    /// Returns an error if the bytes are not a packed component, or if the manifest or a schema is
    /// invalid.
    pub fn read(
        source: Source,
        workspace: &Path,
        bytes: Vec<u8>,
        beside: Beside,
    ) -> Result<Self, PackError> {
        let (origin, digest) = (source.absolute(workspace), Digest::of(&bytes));
        let manifest = match pack::manifest_beside(&bytes, &source.called(), &beside) {
            Err(PackError::Typed(TypedError::Unlisted(manifest))) => *manifest,
            manifest => manifest?,
        };
        manifest.check_schemas()?;
        let wit = packages(&pack::imports(&bytes)?);
        let range = source.default_range();
        Ok(Self {
            source,
            origin,
            range,
            bytes,
            digest,
            signer: None,
            identity: None,
            attestations: Vec::new(),
            called: None,
            manifest,
            wit,
            beside,
        })
    }

    /// The plugin's own name.
    pub fn own_name(&self) -> &str {
        self.called.as_deref().unwrap_or(&self.manifest.name)
    }

    /// Gives it the name under which it is installed.
    pub fn rename(&mut self, name: &str) {
        let own = self.own_name().to_owned();
        name.clone_into(&mut self.manifest.name);
        self.called = (own != name).then_some(own);
    }

    /// Pins the list of its tools.
    ///
    /// # Errors
    /// Returns an error if the list is not of this component, or if the manifest with it is invalid.
    pub fn pin(&mut self, list: String) -> Result<(), PackError> {
        self.beside.list = Some(list);
        let manifest = pack::manifest_beside(&self.bytes, &self.source.called(), &self.beside)?;
        let name = std::mem::replace(&mut self.manifest, manifest).name;
        self.called = None;
        self.rename(&name);
        Ok(self.manifest.check_schemas()?)
    }
}

/// The WIT packages of imported interfaces: `wasi:io@0.2.6` for `wasi:io/streams@0.2.6`.
pub fn packages(imports: &[String]) -> Vec<String> {
    let package = |import: &String| match (import.split_once('/'), import.split_once('@')) {
        (Some((package, _)), Some((_, version))) => format!("{package}@{version}"),
        (Some((package, _)), None) => package.to_owned(),
        (None, _) => import.clone(),
    };
    let mut packages: Vec<String> = imports.iter().map(package).collect();
    packages.sort();
    packages.dedup();
    packages
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn lock() -> Lock {
        let requests: Capabilities = ["files=write", "http=https://a.example"]
            .map(|word| word.parse().unwrap())
            .into_iter()
            .collect();
        let locked = Locked {
            version: "0.1.0".to_owned(),
            source: "oci://ghcr.io/ada/lines:1.0.0".parse().unwrap(),
            range: Some("^1.0.0".parse().unwrap()),
            called: None,
            digest: Digest::of(b""),
            signer: None,
            identity: None,
            wit: vec!["wasi:io@0.2.6".to_owned()],
            granted: Capabilities::NONE,
            requests,
        };
        Lock { plugins: [("lines".to_owned(), locked)].into(), ..Lock::default() }
    }

    #[test]
    fn a_lock_round_trips() {
        for lock in [lock(), Lock::default()] {
            let text = lock.to_text().unwrap();
            assert_eq!(Lock::parse(&text).unwrap(), lock, "{text}");
        }
    }

    #[test]
    fn invalid_locks_are_refused() {
        let text = lock().to_text().unwrap();
        for (wrong, why) in [
            (String::new(), "missing field `version`"),
            (text.replace("version = 1", "version = 2"), "has version 2"),
            (text.replace("plugins.lines", "plugins.\"../lines\""), "plugin '../lines' is not"),
            (text.replace("plugins.lines", "plugins.Lines"), "plugin 'Lines' is not"),
            (text.replace("sha256:", "md5:"), "is no digest"),
            (text.replace("oci://ghcr.io", "ftp://ghcr.io"), "files, https:// and oci://"),
            (format!("{text}\n[plugins.lines.more]\n"), "unknown field `more`"),
            (format!("{text}\n[grants.lines]\n"), "unknown field `grants`"),
            (text.replace("files = \"write\"", "files = \"all\""), "unknown variant"),
            (text.replace("^1.0.0", "newest"), "unexpected character"),
            (text.replace("digest", "signer = \"RW\"\ndigest"), "no public key"),
        ] {
            let error = Lock::parse(&wrong).unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}\n{error}");
        }
    }

    #[test]
    fn packages_are_derived_from_interfaces() {
        let imports = ["wasi:io/streams@0.2.6", "wasi:io/poll@0.2.6", "a:b/c", "env"];
        let imports: Vec<String> = imports.map(str::to_owned).into();
        assert_eq!(packages(&imports), ["a:b", "env", "wasi:io@0.2.6"]);
    }
}
