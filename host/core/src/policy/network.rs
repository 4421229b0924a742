//! The origins that programs in the sandbox can reach through the host's proxy, and the decision
//! about each connection and request.

mod bundle;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{HeaderPart, Origin, OriginSettings, header_parts};
use cofferdam_text::shorten;

pub use bundle::{Bundle, BundleName};

/// What programs of a plugin can reach: one entry of `[[grants.NAME.network]]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NetworkSettings {
    /// The programs, by the names that the plugin starts them by. What such a program starts itself
    /// shares its network: for a command of the plugin `shell`, the program is `bash` or `sh`.
    pub programs: BTreeSet<String>,
    /// Origins that come with Cofferdam: `npm`, `pypi`, `crates`, `go`, `maven` or `debian`.
    #[serde(default)]
    pub bundle: Option<BundleName>,
    /// Origins: `"https://registry.example"`, or a table with further settings. One that the bundle
    /// has as well only changes the bundle's settings for it.
    #[serde(default)]
    pub origins: Vec<OriginSettings>,
    /// Methods that requests to `origins` may have, such as `GET`; by default all.
    #[serde(default)]
    pub methods: BTreeSet<String>,
    /// What the paths of requests to `origins` begin with, such as `/simple/`; by default all.
    #[serde(default)]
    pub paths: Vec<String>,
    /// How many bytes one run of a program may send and receive by this entry.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// How many requests one run of a program may send by this entry.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Secrets for the headers of origins, by the name that stands in `${NAME}`; a name that is not
    /// here is that of an environment variable of the host. Programs never see them.
    #[serde(default)]
    pub credentials: BTreeMap<String, CredentialSettings>,
}

/// Where a secret is. Exactly one of the keys is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CredentialSettings {
    /// An environment variable of the host.
    pub variable: Option<String>,
    /// An absolute path; white space at the end of the file is left out.
    pub file: Option<PathBuf>,
    /// A program and its arguments, such as a keyring's: it prints the secret. It runs as a program
    /// of the user, outside of the sandbox, when a program with this grant starts.
    pub command: Vec<String>,
}

/// What one program can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkRules(Vec<NetworkRule>);

/// Some origins, and the requests that they may get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkRule {
    /// The index of the entry in the settings that the rule comes from. Rules of one entry share
    /// its limits.
    pub entry: usize,
    /// The origins with their settings.
    pub origins: Vec<OriginSettings>,
    /// The methods, in upper case; empty for all.
    pub methods: BTreeSet<String>,
    /// What paths begin with; empty for all.
    pub paths: Vec<String>,
    /// How many bytes one run may send and receive by the rules of this entry.
    pub bytes: Option<u64>,
    /// How many requests one run may send by the rules of this entry.
    pub requests: Option<u64>,
}

/// What happens to a connection for TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tunnel<'a> {
    /// It passes as it is, after its server name was compared.
    Passed(&'a NetworkRule, &'a OriginSettings),
    /// It ends at the proxy, which decides about each request.
    Ended,
}

/// The reason why a connection or a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkRefusal {
    /// No rule has the origin.
    #[error("{0} is not granted")]
    Origin(Origin),
    /// No rule of the origin has the method.
    #[error("the method {1} is not granted for {0}")]
    Method(Origin, String),
    /// No rule of the origin has the path.
    #[error("the path {1} is not granted for {0}")]
    Path(Origin, String),
    /// The path has more than one meaning.
    #[error("the path {1} for {0} holds '.', '..', '\\' or a control character as a part")]
    Ambiguous(Origin, String),
}

impl NetworkSettings {
    /// Checks what the types of the entry do not say.
    ///
    /// # Errors
    /// Returns the first problem.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.programs.is_empty() {
            return Err("programs names no program".to_owned());
        }
        if self.origins.is_empty() && self.bundle.is_none() {
            return Err("it needs origins or a bundle".to_owned());
        }
        if let Some(method) = self.methods.iter().find(|method| !is_method(method)) {
            return Err(format!(
                "'{}' is no method in capital letters, such as GET, or one that is never sent",
                shorten(method, 80)
            ));
        }
        let is_wrong = |path: &&String| !path.starts_with('/') || ambiguous(path);
        if let Some(path) = self.paths.iter().find(is_wrong) {
            return Err(format!("'{}' is no path that begins with '/'", shorten(path, 80)));
        }
        if self.bytes == Some(0) || self.requests == Some(0) {
            return Err("bytes and requests have to be 1 or more".to_owned());
        }
        for (name, credential) in &self.credentials {
            credential.check().map_err(|why| format!("credentials.{name} {why}"))?;
            let used = |value: &String| {
                let parts = header_parts(value).unwrap_or_default();
                parts.contains(&HeaderPart::Variable(name))
            };
            if !self.origins.iter().any(|origin| origin.headers.values().any(used)) {
                return Err(format!("credentials.{name} is used by no header as ${{{name}}}"));
            }
        }
        Ok(())
    }

    /// The rules of the entry: those of its bundle, and one for the origins that only it has.
    fn rules(&self, entry: usize) -> impl Iterator<Item = NetworkRule> {
        let Self { origins, methods, paths, bytes, requests, .. } = self;
        let (bytes, requests) = (*bytes, *requests);
        let bundle = self.bundle.map(BundleName::bundle);
        let in_bundle = |settings: &OriginSettings| {
            bundle.is_some_and(|bundle| bundle.origins.contains(&settings.origin))
        };
        let own: Vec<_> = origins.iter().filter(|own| !in_bundle(own)).cloned().collect();
        let (methods, paths) = (methods.clone(), paths.clone());
        let own = NetworkRule { entry, origins: own, methods, paths, bytes, requests };
        let settings_of = |origin: &Origin| {
            let own = origins.iter().find(|own| own.origin == *origin);
            own.cloned().unwrap_or_else(|| OriginSettings::new(origin.clone()))
        };
        let bundled = bundle.map(|bundle| NetworkRule {
            entry,
            origins: bundle.origins.iter().map(settings_of).collect(),
            methods: bundle.methods.clone(),
            paths: bundle.paths.clone(),
            bytes,
            requests,
        });
        bundled.into_iter().chain([own]).filter(|rule| !rule.origins.is_empty())
    }
}

impl CredentialSettings {
    fn check(&self) -> Result<(), &'static str> {
        let Self { variable, file, command } = self;
        let set = [variable.is_some(), file.is_some(), !command.is_empty()];
        if set.into_iter().filter(|is_set| *is_set).count() != 1 {
            return Err("needs exactly one of variable, file and command");
        }
        if file.as_ref().is_some_and(|file| !file.is_absolute()) {
            return Err("needs an absolute path as file");
        }
        Ok(())
    }
}

/// Whether this is a method that the proxy may send. CONNECT creates a tunnel, and TRACE returns
/// headers that the program must not see.
fn is_method(method: &str) -> bool {
    (1..=32).contains(&method.len())
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        && !["CONNECT", "TRACE"].contains(&method)
}

/// Whether servers may read a path in different ways: parts that are `.` or `..`, also encoded, a
/// backslash, control characters, or spaces.
fn ambiguous(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let (path, _) = lower.split_once('?').unwrap_or((&lower, ""));
    // A server may decode twice.
    let path = path.replace("%25", "%").replace("%25", "%");
    let parts = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    let has_dots = parts.split(['/', ';']).any(|part| part == "." || part == "..");
    has_dots
        || parts.contains('\\')
        || path.contains("%25")
        || lower.contains('#')
        || ["%00", "%0a", "%0d"].iter().any(|code| lower.contains(code) || path.contains(code))
        || lower.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
}

impl NetworkRule {
    /// The settings of an origin, if the rule has it.
    fn settings(&self, origin: &Origin) -> Option<&OriginSettings> {
        self.origins.iter().find(|settings| settings.origin == *origin)
    }

    /// Whether the proxy has to see requests to decide about them, or to add something.
    fn needs_requests(&self, settings: &OriginSettings) -> bool {
        !self.methods.is_empty()
            || !self.paths.is_empty()
            || self.requests.is_some()
            || !settings.headers.is_empty()
            || settings.ca_file.is_some()
            || settings.timeout_ms.is_some()
    }

    fn has_path(&self, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        self.paths.is_empty()
            || self.paths.iter().any(|prefix| {
                // An encoded slash belongs to the name before it.
                let rest = path.strip_prefix(prefix.as_str());
                rest.is_some_and(|rest| {
                    prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/')
                })
            })
    }
}

impl NetworkRules {
    /// The rules of `settings` for a program.
    pub fn new(settings: &[NetworkSettings], program: &str) -> Self {
        let entries = settings.iter().enumerate();
        let own = entries.filter(|(_, entry)| entry.programs.contains(program));
        Self(own.flat_map(|(number, entry)| entry.rules(number)).collect())
    }

    /// Whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All rules, in the order of the settings.
    pub fn iter(&self) -> impl Iterator<Item = &NetworkRule> {
        self.0.iter()
    }

    /// All origins with their settings.
    pub fn origins(&self) -> impl Iterator<Item = &OriginSettings> {
        self.0.iter().flat_map(|rule| &rule.origins)
    }

    /// Decides about a connection for TLS to an origin.
    ///
    /// # Errors
    /// [`NetworkRefusal::Origin`].
    pub fn tunnel(&self, origin: &Origin) -> Result<Tunnel<'_>, NetworkRefusal> {
        let (rule, settings) = match self.of(origin).next() {
            Some(first) if origin.is_secure() => first,
            _ => return Err(NetworkRefusal::Origin(origin.clone())),
        };
        // Where any rule needs the requests, they are all decided one by one.
        match self.of(origin).any(|(rule, settings)| rule.needs_requests(settings)) {
            true => Ok(Tunnel::Ended),
            false => Ok(Tunnel::Passed(rule, settings)),
        }
    }

    /// Decides about a request. `path` is the path with its query. Returns all rules that allow it,
    /// so that another can take over where the limits of one are used up.
    ///
    /// # Errors
    /// [`NetworkRefusal`].
    pub fn request(
        &self,
        origin: &Origin,
        method: &str,
        path: &str,
    ) -> Result<Vec<(&NetworkRule, &OriginSettings)>, NetworkRefusal> {
        let mut rules: Vec<_> = self.of(origin).collect();
        if rules.is_empty() {
            return Err(NetworkRefusal::Origin(origin.clone()));
        }
        if !path.starts_with('/') || ambiguous(path) {
            return Err(NetworkRefusal::Ambiguous(origin.clone(), shorten(path, 80)));
        }
        rules.retain(|(rule, _)| rule.methods.is_empty() || rule.methods.contains(method));
        if rules.is_empty() || !is_method(method) {
            return Err(NetworkRefusal::Method(origin.clone(), shorten(method, 40)));
        }
        rules.retain(|(rule, _)| rule.has_path(path));
        if rules.is_empty() {
            let path = path.split('?').next().unwrap_or_default();
            return Err(NetworkRefusal::Path(origin.clone(), shorten(path, 80)));
        }
        Ok(rules)
    }

    fn of(&self, origin: &Origin) -> impl Iterator<Item = (&NetworkRule, &OriginSettings)> {
        self.0.iter().filter_map(move |rule| Some((rule, rule.settings(origin)?)))
    }
}

#[cfg(test)]
mod tests;
