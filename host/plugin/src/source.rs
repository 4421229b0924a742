//! The source of a plugin, as named on the command line and in a lock: a file, an https address, or
//! a reference to an OCI registry. [`crate::distribution`] downloads it.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use semver::VersionReq;
use serde::{Deserialize, Serialize};

use super::digest::{Digest, DigestError};
use super::revocation;
use cofferdam_core::policy::{Origin, OriginError};
use cofferdam_text::shorten;

/// The longest name of a source in bytes.
const MAX_SOURCE_BYTES: usize = 2_048;

/// The longest name of a repository in bytes (distribution-spec, "Pulling manifests").
const MAX_REPOSITORY_BYTES: usize = 255;

/// Where a plugin comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Source {
    /// A file: an absolute path, or one that begins with `./` and is relative to the workspace.
    File(PathBuf),
    /// An address such as `https://example.org/lines.wasm`.
    Web(Address),
    /// A reference such as `oci://registry.example/lines:1.0`.
    Registry(Reference),
}

/// Who named a source. Only the user's sources may have private addresses: a lock comes with a
/// repository, and would otherwise make the host connect to this machine and its network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceOrigin {
    /// The user: on the command line, or by accepting the plugin from this source.
    User,
    /// The lock of a workspace, and not the user.
    Lock,
}

/// An address on the web.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The scheme, host and port.
    pub origin: Origin,
    /// The path and the query; begins with a slash.
    pub path: String,
}

/// A reference to an OCI registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The origin of the registry: https, except for this machine.
    pub registry: Origin,
    /// The repository, such as `tools/lines`.
    pub repository: String,
    /// The tag or the digest.
    pub version: Version,
}

/// Selects content in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Version {
    /// The content that the tag names now.
    Tag(String),
    /// The manifest with this digest.
    Digest(Digest),
}

/// The text is not a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' names no plugin: {why}")]
pub struct SourceError {
    text: String,
    why: String,
}

impl Source {
    /// Creates a source from a path that is relative to `directory`. A file in the workspace is
    /// stored relative to it, so that it is found in clones as well. Both directories are absolute.
    pub fn file(path: &Path, directory: &Path, workspace: &Path) -> Self {
        let mut absolute = PathBuf::new();
        for part in directory.join(path).components() {
            match part {
                Component::ParentDir => {
                    absolute.pop();
                }
                Component::CurDir => {}
                part => absolute.push(part),
            }
        }
        match absolute.strip_prefix(workspace) {
            Ok(inside) => Self::File(Path::new(".").join(inside)),
            Err(_) => Self::File(absolute),
        }
    }

    /// The source independent of the workspace: a file with its absolute path.
    #[must_use]
    pub fn absolute(&self, workspace: &Path) -> Self {
        match self {
            Self::File(path) => Self::File(workspace.join(path.strip_prefix(".").unwrap_or(path))),
            other => other.clone(),
        }
    }

    /// The path, if it is a file.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            _ => None,
        }
    }

    /// The name of a plugin that has none in a manifest: the last component of the path or
    /// repository.
    pub fn called(&self) -> String {
        let path = match self {
            Self::File(path) => return super::pack::called(path),
            Self::Web(address) => address.path.split('?').next().unwrap_or_default(),
            Self::Registry(reference) => &reference.repository,
        };
        path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The origin that it is downloaded from; `None` for a file.
    pub fn host(&self) -> Option<&Origin> {
        match self {
            Self::File(_) => None,
            Self::Web(address) => Some(&address.origin),
            Self::Registry(reference) => Some(&reference.registry),
        }
    }

    /// The command that installs a plugin from this source, to be copied into a shell.
    pub fn install_command(&self) -> String {
        format!("cofferdam plugin install '{}'", self.to_string().replace('\'', r"'\''"))
    }

    /// The reference to a registry by a tag that is a semantic version, with the version.
    pub fn release(&self) -> Option<(&Reference, semver::Version)> {
        match self {
            Self::Registry(reference) => match &reference.version {
                Version::Tag(tag) => Some((reference, release(tag)?)),
                Version::Digest(_) => None,
            },
            _ => None,
        }
    }

    /// The versions that `plugin update` takes unless the user has named others: those that are
    /// compatible with the version of the tag. `None` if the tag is no semantic version.
    pub fn default_range(&self) -> Option<VersionReq> {
        self.release().and_then(|(_, version)| VersionReq::parse(&format!("^{version}")).ok())
    }

    /// Where the list of revocations for a plugin from this source is.
    #[must_use]
    pub fn revocations(&self) -> Self {
        let version = Version::Tag(revocation::TAG.to_owned());
        match self {
            Self::File(path) => Self::File(path.with_file_name(revocation::FILE)),
            Self::Web(address) => Self::Web(address.sibling(revocation::FILE)),
            Self::Registry(reference) => Self::Registry(Reference { version, ..reference.clone() }),
        }
    }

    /// The file of this name in the directory of a file or address. `None` if the name is not one, or in
    /// a registry, which has no directories.
    pub fn sibling(&self, name: &str) -> Option<Self> {
        match self {
            Self::File(path) => Some(Self::File(path.with_file_name(name))),
            Self::Web(address) => address.sibling(name).to_string().parse().ok(),
            Self::Registry(_) => None,
        }
    }

    /// Whether both name one plugin, perhaps in different versions: the same source, or tags of one
    /// repository.
    pub fn is_same_place(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Registry(a), Self::Registry(b)) => {
                a.registry == b.registry && a.repository == b.repository
            }
            _ => self == other,
        }
    }

    /// Whether an unsigned plugin from `other` counts as another version of one from here: the same
    /// source, or another release of the same repository. Other tags, such as those of pull requests, and
    /// digests may be of anybody who can write to the repository.
    pub fn has_version(&self, other: &Self) -> bool {
        let are_releases = self.release().is_some() && other.release().is_some();
        self == other || (are_releases && self.is_same_place(other))
    }

    /// Whether its content can never change.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Registry(Reference { version: Version::Digest(_), .. }))
    }
}

/// The semantic version that a tag is, such as `1.2.0` or `v1.2.0`.
pub fn release(tag: &str) -> Option<semver::Version> {
    semver::Version::parse(tag.strip_prefix('v').unwrap_or(tag)).ok()
}

/// The tag with the highest version that is higher than `current` and in `range`.
pub fn newest<'a>(
    tags: impl IntoIterator<Item = &'a String>,
    range: &VersionReq,
    current: &semver::Version,
) -> Option<&'a String> {
    let versions = tags.into_iter().filter_map(|tag| Some((release(tag)?, tag)));
    let newer = versions.filter(|(version, _)| version > current && range.matches(version));
    newer.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, tag)| tag)
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Web(address) => write!(f, "{address}"),
            Self::Registry(reference) => write!(f, "{reference}"),
        }
    }
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        parse(text).map_err(|why| SourceError { text: shorten(text, 120), why })
    }
}

fn parse(text: &str) -> Result<Source, String> {
    if text.len() > MAX_SOURCE_BYTES || text.chars().any(char::is_control) {
        return Err(format!(
            "it is longer than {MAX_SOURCE_BYTES} bytes, or has control characters"
        ));
    }
    if text.starts_with("oci://") {
        return text.parse().map(Source::Registry).map_err(|error: SourceError| error.why);
    }
    if text.starts_with("https://") || text.starts_with("http://") {
        return text.parse().map(Source::Web).map_err(|error: SourceError| error.why);
    }
    if text.contains("://") {
        return Err("there are files, https:// and oci://".to_owned());
    }
    let path = Path::new(text);
    let leads_out = path.components().any(|part| part == Component::ParentDir);
    if !path.is_absolute() && !text.starts_with("./") || leads_out {
        return Err("a file has an absolute path, or one in the workspace that begins with ./ \
                    and has no '..'"
            .to_owned());
    }
    Ok(Source::File(path.to_owned()))
}

impl FromStr for Address {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let error = |why: String| SourceError { text: shorten(text, 120), why };
        let host = text.find("://").map_or(0, |at| at + 3);
        let path = text[host..].find('/').map_or(text.len(), |at| host + at);
        let (origin, path) = text.split_at(path);
        let origin = origin.parse().map_err(|wrong: OriginError| error(wrong.to_string()))?;
        let is_plain =
            |b: u8| b.is_ascii_graphic() && !matches!(b, b'#' | b'\\' | b'"' | b'<' | b'>');
        if path.is_empty() || path.len() > MAX_SOURCE_BYTES || !path.bytes().all(is_plain) {
            return Err(error(
                "after the host there is a path of printable ASCII characters; others are \
                 written as %XX"
                    .to_owned(),
            ));
        }
        Ok(Self { origin, path: path.to_owned() })
    }
}

impl Address {
    /// Resolves a reference in a response from this address: another address, or a path on this
    /// host.
    pub fn join(&self, reference: &str) -> Option<Self> {
        match reference.strip_prefix('/') {
            Some(rest) if rest.starts_with('/') => None,
            Some(_) => format!("{}{reference}", self.origin).parse().ok(),
            None => reference.parse().ok(),
        }
    }

    /// The address of another file in the same directory.
    fn sibling(&self, name: &str) -> Self {
        let path = self.path.split('?').next().unwrap_or_default();
        let directory = path.rfind('/').map_or("/", |at| &path[..=at]);
        Self { origin: self.origin.clone(), path: format!("{directory}{name}") }
    }

    /// The address of a file whose name is that of this one and a suffix.
    #[must_use]
    pub fn beside(&self, suffix: &str) -> Self {
        let (path, query) = self.path.split_at(self.path.find('?').unwrap_or(self.path.len()));
        Self { origin: self.origin.clone(), path: format!("{path}{suffix}{query}") }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

impl FromStr for Reference {
    type Err = SourceError;

    /// Parses a reference, with or without `oci://`.
    fn from_str(text: &str) -> Result<Self, SourceError> {
        reference(text).map_err(|why| SourceError { text: shorten(text, 120), why })
    }
}

fn reference(text: &str) -> Result<Reference, String> {
    let name = text.strip_prefix("oci://").unwrap_or(text);
    let (host, rest) = name
        .split_once('/')
        .ok_or("a reference has a registry and a repository, as in oci://ghcr.io/ada/lines:1.0")?;
    let local = host == "localhost" || host.starts_with("localhost:") || is_loopback(host);
    let scheme = if local { "http" } else { "https" };
    let registry: Origin =
        format!("{scheme}://{host}").parse().map_err(|error: OriginError| error.to_string())?;
    let (repository, version) = match rest.split_once('@') {
        Some((repository, digest)) => {
            let digest = digest.parse().map_err(|error: DigestError| error.to_string())?;
            // With a digest, a tag is ignored.
            let repository = repository.split_once(':').map_or(repository, |(name, _)| name);
            (repository, Version::Digest(digest))
        }
        None => match rest.split_once(':') {
            Some((repository, tag)) => (repository, Version::Tag(tag.to_owned())),
            None => {
                return Err("it needs a tag or a digest: NAME:TAG or NAME@sha256:...".to_owned());
            }
        },
    };
    if let Version::Tag(tag) = &version
        && !is_tag(tag)
    {
        return Err(format!("'{tag}' is no tag: letters, digits, '.', '_' and '-', at most 128"));
    }
    if repository.len() > MAX_REPOSITORY_BYTES || !repository.split('/').all(is_repository_part) {
        return Err(format!(
            "'{repository}' is no repository: lower-case letters and digits, with '.', '_', '-' \
             and '/' between them"
        ));
    }
    Ok(Reference { registry, repository: repository.to_owned(), version })
}

fn is_loopback(host: &str) -> bool {
    let address = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(address, _)| address),
    };
    address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whether it matches `[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}` (distribution-spec).
fn is_tag(tag: &str) -> bool {
    (1..=128).contains(&tag.len())
        && !tag.starts_with(['.', '-'])
        && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Whether it matches `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*` (distribution-spec).
fn is_repository_part(part: &str) -> bool {
    let is_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let between: Vec<&str> =
        part.split(|c: char| c.is_ascii() && is_word(c as u8)).filter(|s| !s.is_empty()).collect();
    part.as_bytes().first().copied().is_some_and(is_word)
        && part.as_bytes().last().copied().is_some_and(is_word)
        && between.iter().all(|s| matches!(*s, "." | "_" | "__") || s.bytes().all(|b| b == b'-'))
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}/{}", self.registry.authority(), self.repository)?;
        match &self.version {
            Version::Tag(tag) => write!(f, ":{tag}"),
            Version::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

impl TryFrom<String> for Source {
    type Error = SourceError;

    fn try_from(text: String) -> Result<Self, SourceError> {
        text.parse()
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.to_string()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn other_versions_of_an_unsigned_plugin_are_releases_of_its_repository() {
        let digest = format!("oci://a.example/lines@sha256:{}", "0".repeat(64));
        for (one, other, wanted) in [
            ("oci://a.example/lines:1.0.0", "oci://a.example/lines:v1.1.0", true),
            ("oci://a.example/lines:1.0.0", "oci://a.example/lines:pr-123", false),
            ("oci://a.example/lines:1.0.0", "oci://a.example/other:1.1.0", false),
            ("oci://a.example/lines:1.0.0", &digest, false),
            ("oci://a.example/lines:latest", "oci://a.example/lines:latest", true),
            ("oci://a.example/lines:latest", "oci://a.example/lines:1.0.0", false),
            (&digest, &digest, true),
            ("./lines.wasm", "./lines.wasm", true),
        ] {
            let [one, other] = [one, other].map(|text| text.parse::<Source>().unwrap());
            assert_eq!(one.has_version(&other), wanted, "{one} {other}");
        }
    }

    #[test]
    fn sources_round_trip() {
        let digest = Digest::of(b"");
        let by_digest = format!("oci://ghcr.io/ada/lines@{digest}");
        for (text, wanted) in [
            ("/home/ada/lines.wasm", "/home/ada/lines.wasm"),
            ("./tools/lines.wasm", "./tools/lines.wasm"),
            ("https://Example.org/a/lines.wasm?v=1", "https://example.org/a/lines.wasm?v=1"),
            ("http://localhost:8080/lines.wasm", "http://localhost:8080/lines.wasm"),
            ("oci://ghcr.io/ada/lines:1.0", "oci://ghcr.io/ada/lines:1.0"),
            ("oci://localhost:5000/a/b__c-d.e:x_1", "oci://localhost:5000/a/b__c-d.e:x_1"),
            ("oci://127.0.0.1:5000/lines:1", "oci://127.0.0.1:5000/lines:1"),
            ("oci://[::1]:5000/lines:1", "oci://[::1]:5000/lines:1"),
            (&by_digest, &by_digest),
        ] {
            let source: Source = text.parse().unwrap();
            assert_eq!(source.to_string(), wanted);
            assert_eq!(wanted.parse::<Source>().unwrap(), source);
        }
        let reference: Reference = "ghcr.io/ada/lines:1.0".parse().unwrap();
        assert_eq!(reference.to_string(), "oci://ghcr.io/ada/lines:1.0");
        assert!(reference.registry.is_secure());
        let tagged = format!("ghcr.io/ada/lines:1.0@{digest}").parse::<Reference>().unwrap();
        assert_eq!(tagged.to_string(), by_digest);
    }

    #[test]
    fn plugin_names_come_from_sources() {
        for (text, wanted) in [
            ("/home/ada/lines.wasm", "lines.wasm"),
            ("./lines.wasm", "lines.wasm"),
            ("https://example.org/a/lines.wasm?v=/1", "lines.wasm"),
            ("oci://ghcr.io/ada/tools/lines:1.0", "lines"),
            ("oci://localhost:5000/lines:1", "lines"),
        ] {
            assert_eq!(text.parse::<Source>().unwrap().called(), wanted);
        }
    }

    #[test]
    fn references_are_resolved() {
        let address: Address = "https://a.example/x/y.wasm?v=1".parse().unwrap();
        assert_eq!(
            address.beside(".minisig").to_string(),
            "https://a.example/x/y.wasm.minisig?v=1"
        );
        for (to, wanted) in [
            ("/z", Some("https://a.example/z")),
            ("https://b.example/z?a=b", Some("https://b.example/z?a=b")),
            ("http://b.example/z", None),
            ("//b.example/z", None),
            ("z", None),
            ("/z\nx", None),
        ] {
            let found = address.join(to).map(|address| address.to_string());
            assert_eq!(found.as_deref(), wanted, "{to}");
        }
    }

    #[test]
    fn invalid_sources_are_refused() {
        for (text, why) in [
            ("", "absolute path"),
            ("lines.wasm", "absolute path"),
            ("./../lines.wasm", "no '..'"),
            ("/a/../b.wasm", "no '..'"),
            ("../lines.wasm", "no '..'"),
            ("./a\nb", "control"),
            ("ftp://example.org/a", "files, https:// and oci://"),
            ("http://example.org/a.wasm", "this machine itself only"),
            ("https://example.org", "there is a path"),
            ("https://example.org/a b", "printable"),
            ("https://example.org/a#b", "printable"),
            ("https://ada@example.org/a", "user name"),
            ("oci://ghcr.io", "a registry and a repository"),
            ("oci://ghcr.io/ada/lines", "needs a tag or a digest"),
            ("oci://ghcr.io/ada/lines:", "no tag"),
            ("oci://ghcr.io/ada/lines:-x", "no tag"),
            ("oci://ghcr.io/ada/lines@sha256:12", "no digest"),
            ("oci://ghcr.io/Ada/lines:1", "no repository"),
            ("oci://ghcr.io/ada//lines:1", "no repository"),
            ("oci://ghcr.io/../lines:1", "no repository"),
            ("oci://ghcr.io/a..b:1", "no repository"),
            ("oci://ada@ghcr.io/lines:1", "user name"),
        ] {
            let error = text.parse::<Source>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_of_revocations_is_beside_the_plugin() {
        for (text, wanted) in [
            ("./tools/lines.wasm", "./tools/revoked.toml"),
            ("https://a.example/x/lines.wasm?v=/1", "https://a.example/x/revoked.toml"),
            ("oci://ghcr.io/ada/lines:1.0.0", "oci://ghcr.io/ada/lines:revoked"),
        ] {
            assert_eq!(text.parse::<Source>().unwrap().revocations().to_string(), wanted);
        }
    }

    #[test]
    fn the_newest_tag_of_a_range_is_found() {
        let tags = ["latest", "1.0.0", "v1.2.0", "1.10.0", "1.11.0-rc.1", "2.0.0", "1.9", "x"];
        let tags = tags.map(str::to_owned);
        for (range, current, wanted) in [
            ("^1.0.0", "1.0.0", Some("1.10.0")),
            ("~1.0", "1.0.0", None),
            (">=1, <1.3", "1.0.0", Some("v1.2.0")),
            ("*", "1.0.0", Some("2.0.0")),
            ("^1.0.0", "1.10.0", None),
            ("*", "3.0.0", None),
        ] {
            let found = newest(&tags, &range.parse().unwrap(), &current.parse().unwrap());
            assert_eq!(found.map(String::as_str), wanted, "{range} {current}");
        }
        let source = |text: &str| text.parse::<Source>().unwrap();
        let range = source("oci://ghcr.io/ada/lines:0.2.1").default_range();
        assert_eq!(range, Some("^0.2.1".parse().unwrap()));
        assert_eq!(source("oci://ghcr.io/ada/lines:1.0").default_range(), None);
        assert!(source("oci://a.example/x:1.0.0").is_same_place(&source("oci://a.example/x:2")));
        assert!(
            !source("oci://a.example/x:1.0.0").is_same_place(&source("oci://a.example/y:1.0.0"))
        );
    }

    #[test]
    fn files_in_the_workspace_are_relative_to_it() {
        let (here, workspace) = (Path::new("/home/ada/work/src"), Path::new("/home/ada/work"));
        for (path, wanted) in [
            ("a.wasm", "./src/a.wasm"),
            ("../tools/a.wasm", "./tools/a.wasm"),
            ("./b/../a.wasm", "./src/a.wasm"),
            ("../../a.wasm", "/home/ada/a.wasm"),
            ("/tmp/a.wasm", "/tmp/a.wasm"),
        ] {
            let source = Source::file(Path::new(path), here, workspace);
            assert_eq!(source.to_string(), wanted);
            assert_eq!(wanted.parse::<Source>().unwrap(), source);
        }
        let inside: Source = "./tools/a.wasm".parse().unwrap();
        assert_eq!(inside.absolute(workspace).to_string(), "/home/ada/work/tools/a.wasm");
        let outside: Source = "/tmp/a.wasm".parse().unwrap();
        assert_eq!(outside.absolute(workspace), outside);
    }
}
