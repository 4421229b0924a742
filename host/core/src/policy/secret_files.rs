//! Files of the workspace that the operator marks as secret, and the origins that may receive what was
//! read there.

use std::borrow::Cow;
use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::place::{Place, is_within};
use super::scope::folded_place;
use super::{Origin, PolicyError};
use cofferdam_text::shorten;

/// The maximum length of a pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;

/// A secret: `[secrets.NAME]`. A call that has read one of its files, or whose session has, sends
/// nothing to other origins than these without the approval of the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSettings {
    /// The files and directories, by patterns relative to the workspace: `config/*.key`, `.env*`. A
    /// pattern without `/` means names in all directories, and one for a directory all that is in it.
    pub paths: Vec<String>,
    /// The origins that may receive what was read there; by default none.
    #[serde(default)]
    pub origins: BTreeSet<Origin>,
}

/// The secrets of all settings. Entries of several settings with the same name all count: the patterns
/// of each, and only origins that all of them allow.
#[derive(Debug, Clone, Default)]
pub struct SecretFiles(Vec<SecretFile>);

#[derive(Debug, Clone)]
struct SecretFile {
    name: String,
    settings: SecretSettings,
    patterns: GlobSet,
    /// The directory of each pattern: what is before the first name with a wildcard. `None` for a
    /// pattern of names in all directories.
    directories: Vec<Option<String>>,
}

impl SecretFiles {
    /// Adds the secret `name`.
    ///
    /// # Errors
    /// The first pattern that is not valid.
    pub(super) fn add(&mut self, name: &str, settings: &SecretSettings) -> Result<(), PolicyError> {
        let invalid =
            |message: String| PolicyError { place: format!("secrets.{name}.paths"), message };
        if settings.paths.is_empty() {
            return Err(invalid("it names no files".to_owned()));
        }
        let mut patterns = GlobSetBuilder::new();
        let mut directories = Vec::new();
        for text in &settings.paths {
            let pattern = anchored(text).map_err(invalid)?;
            for glob in [pattern.clone(), format!("{pattern}/**")] {
                // A file system may not distinguish the case of letters.
                let glob = GlobBuilder::new(&glob)
                    .literal_separator(true)
                    .case_insensitive(true)
                    .build()
                    .map_err(|error| invalid(format!("'{text}': {}", error.kind())))?;
                patterns.add(glob);
            }
            directories.push(directory(&pattern));
        }
        let patterns = patterns.build().map_err(|error| invalid(error.to_string()))?;
        let (name, settings) = (name.to_owned(), settings.clone());
        self.0.push(SecretFile { name, settings, patterns, directories });
        Ok(())
    }

    /// Whether nothing is secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of all secrets with their settings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SecretSettings)> {
        self.0.iter().map(|secret| (secret.name.as_str(), &secret.settings))
    }

    /// The names of the secrets that a file belongs to.
    pub fn of<'a>(&'a self, place: &str) -> impl Iterator<Item = &'a str> {
        let place = match place.is_ascii() {
            true => Cow::Borrowed(place),
            false => Cow::Owned(folded_place(place)),
        };
        let matching = self.0.iter().filter(move |secret| secret.patterns.is_match(place.as_ref()));
        matching.map(|secret| secret.name.as_str())
    }

    /// The names of the secrets that may have files in a directory.
    pub fn below<'a>(&'a self, directory: &str) -> impl Iterator<Item = &'a str> {
        let at = folded_place(directory);
        let may_hold = move |secret: &&SecretFile| {
            secret.patterns.is_match(&at)
                || secret.directories.iter().any(|directory| {
                    directory.as_ref().is_none_or(|directory| {
                        is_within(directory, &at) || is_within(&at, directory)
                    })
                })
        };
        self.0.iter().filter(may_hold).map(|secret| secret.name.as_str())
    }

    /// Whether what was read of a secret may be sent to an origin. Nothing allows it for a secret that
    /// the settings do not have, or not any more.
    pub fn allows(&self, name: &str, origin: &Origin) -> bool {
        let mut entries = self.0.iter().filter(|secret| secret.name == name).peekable();
        entries.peek().is_some() && entries.all(|secret| secret.settings.origins.contains(origin))
    }
}

/// The glob of a pattern, from the top of the workspace.
fn anchored(text: &str) -> Result<String, String> {
    let shown = shorten(text, 80);
    if text.len() > MAX_PATTERN_BYTES {
        return Err(format!("'{shown}' has more than {MAX_PATTERN_BYTES} bytes"));
    }
    let trimmed = text.trim_end_matches('/');
    let is_anchored = trimmed.contains('/');
    let pattern = trimmed.trim_start_matches("./");
    if text.starts_with('/') || pattern.split('/').any(|name| ["", ".", ".."].contains(&name)) {
        return Err(format!("'{shown}' is no pattern of paths relative to the workspace"));
    }
    Ok(if is_anchored { pattern.to_owned() } else { format!("**/{pattern}") })
}

/// The directory of a pattern, folded; `None` if it may be any.
fn directory(pattern: &str) -> Option<String> {
    let is_plain = |name: &&str| !name.contains(['*', '?', '[', '{', '\\']);
    let names: Vec<&str> = pattern.split('/').take_while(is_plain).collect();
    let place = Place::new(&names.join("/")).ok()?;
    (!names.is_empty()).then(|| folded_place(&place))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn files(entries: &[(&str, &[&str], &[&str])]) -> SecretFiles {
        let mut files = SecretFiles::default();
        for (name, paths, origins) in entries {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            let origins = origins.iter().map(|origin| origin.parse().unwrap()).collect();
            files.add(name, &SecretSettings { paths, origins }).unwrap();
        }
        files
    }

    #[test]
    fn files_belong_to_the_secrets_whose_patterns_match() {
        let files = files(&[
            ("keys", &["config/*.key"], &[]),
            ("environment", &[".env*", "private/"], &[]),
            ("top", &["./token"], &[]),
        ]);
        for (place, wanted) in [
            ("config/prod.key", &["keys"][..]),
            ("CONFIG/Prod.KEY", &["keys"]),
            ("config/p\u{200d}rod.k\u{200c}ey", &["keys"]),
            ("config/deep/prod.key", &[]),
            ("other/config/prod.key", &[]),
            ("prod.key", &[]),
            (".env", &["environment"]),
            ("app/.env.local", &["environment"]),
            ("app/env", &[]),
            ("a/private/b/c", &["environment"]),
            ("private", &["environment"]),
            ("config/.env.key", &["keys", "environment"]),
            ("token", &["top"]),
            ("a/token", &[]),
        ] {
            assert_eq!(files.of(place).collect::<Vec<_>>(), wanted, "{place}");
        }
    }

    #[test]
    fn directories_may_hold_secrets() {
        let files = files(&[("keys", &["config/live/*.key"], &[]), ("all", &["x/**/y"], &[])]);
        for (directory, wanted) in [
            ("config", &["keys"][..]),
            ("Config/live", &["keys"]),
            ("config/live/a.key", &["keys"]),
            ("config/other", &[]),
            ("conf", &[]),
            ("x/z", &["all"]),
            ("src", &[]),
            ("", &["keys", "all"]),
        ] {
            assert_eq!(files.below(directory).collect::<Vec<_>>(), wanted, "{directory}");
        }
        let anywhere = self::files(&[("environment", &[".env"], &[])]);
        assert_eq!(anywhere.below("src").count(), 1);
    }

    #[test]
    fn only_origins_that_every_entry_of_a_name_allows_receive_a_secret() {
        let files = files(&[
            ("a", &["a"], &["https://one.example", "https://two.example"]),
            ("b", &["b"], &[]),
            ("a", &["c"], &["https://two.example"]),
        ]);
        let allows = |name, origin: &str| files.allows(name, &origin.parse().unwrap());
        assert!(allows("a", "https://two.example"));
        assert!(!allows("a", "https://one.example"));
        assert!(!allows("a", "http://localhost:1"));
        assert!(!allows("b", "https://two.example"));
        assert!(!allows("unknown", "https://two.example"));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for (paths, wanted) in [
            (&[][..], "secrets.x.paths: it names no files"),
            (&["/etc/passwd"], "'/etc/passwd' is no pattern of paths relative to the workspace"),
            (&["../a"], "'../a' is no pattern"),
            (&["a/../b"], "'a/../b' is no pattern"),
            (&["a//b"], "'a//b' is no pattern"),
            (&[""], "'' is no pattern"),
            (&["/"], "'/' is no pattern"),
            (&["a[b"], "'a[b': unclosed character class"),
            (&["{a,b"], "'{a,b': unclosed alternate group"),
            (&[&*"x".repeat(1025)], "has more than 1024 bytes"),
        ] {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            let settings = SecretSettings { paths, ..SecretSettings::default() };
            let error = SecretFiles::default().add("x", &settings).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
