//! What a plugin says of itself and requests; readable without running it.
//!
//! An author writes `plugin.toml`, in which schemas are named by their files; packing puts
//! everything into one JSON document in the component's custom section `cofferdam:manifest`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::envelope::Dialect;
use crate::policy::{BackendKind, Capabilities, Files, LimitSettings};
use crate::schema::Schema;

/// The name of the custom section.
pub const SECTION: &str = "cofferdam:manifest";

/// A manifest whose schemas are `S`: their documents once packed, their files as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest<S = Value> {
    /// The plugin's name: lower-case letters, digits, `-` and `_`; the first part of its
    /// tools' qualified names.
    pub name: String,
    /// The plugin's version (semver).
    pub version: String,
    /// One line on what the plugin is for.
    pub description: String,
    /// SPDX expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Whether its tools are called by their qualified names only, or within a role that has no
    /// other tools of those names: for tools whose names others have as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub qualified: bool,
    /// The capabilities that the plugin asks for.
    #[serde(default)]
    pub requests: Capabilities,
    /// Limits that the plugin sets itself, below the host's.
    #[serde(default)]
    pub limits: LimitSettings,
    /// What agents can call.
    #[serde(default = "Vec::<Tool<S>>::new")]
    pub tools: Vec<Tool<S>>,
    /// What tools can use through the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
}

/// One backend of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Backend {
    /// What it does, and so which interface of `cofferdam:backend` answers.
    pub kind: BackendKind,
    /// Its name, unique among all backends of its kind.
    pub name: String,
    /// The languages that a linter is for, such as `python`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// The programs that it runs, of those that the plugin requests.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub programs: BTreeSet<String>,
}

/// One tool of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tool<S = Value> {
    /// The short name, unique in the plugin.
    pub name: String,
    /// For people: a few words.
    pub title: String,
    /// For the model that calls it: what the tool does and returns.
    pub description: String,
    /// The most that a call does to files. A tool that only reads gets a read-only workspace.
    #[serde(default)]
    pub effects: Files,
    /// Whether it gives tasks to agents, which can change anything. Its calls run alone, and never
    /// in a transaction that others share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agents: bool,
    /// The message of a call that succeeded, such as `file read`.
    pub done: String,
    /// In whose shape `cofferdam call` prints a failure that has no document of its own.
    #[serde(default)]
    pub dialect: Dialect,
    /// Codes of failures after which whoever called has to do without the tool, each with the
    /// reason that the journal then gives: `TimeoutError = "context7_timeout"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallbacks: BTreeMap<String, String>,
    /// How often it may be called for the same thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// JSON Schema of the arguments.
    pub input: S,
    /// JSON Schema of the answer.
    pub output: S,
    /// JSON Schema of the failure document, for tools whose contract has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<S>,
}

/// How often a tool may be called with the same value of one of its arguments, by one host: in an
/// envelope, or as long as a server runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repeats {
    /// The argument.
    pub argument: String,
    /// How often at most.
    pub most: u32,
}

/// `plugin.toml`, as an author writes it: schemas are files beside it.
pub type ManifestFile = Manifest<PathBuf>;

/// A manifest that can't be one.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// No JSON, or not the fields of a manifest.
    #[error("the manifest is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A field whose value makes no sense.
    #[error("the manifest's {place} {message}")]
    Invalid {
        /// Which field.
        place: String,
        /// What is wrong with it.
        message: String,
    },
}

impl Manifest {
    /// Reads the JSON of the custom section.
    ///
    /// # Errors
    /// See [`ManifestError`]. The schemas are not compiled here: see [`Manifest::check_schemas`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let manifest: Self = serde_json::from_slice(json)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Compiles every schema.
    ///
    /// # Errors
    /// The first one that is no schema.
    pub fn check_schemas(&self) -> Result<(), ManifestError> {
        for tool in &self.tools {
            let schemas = [
                ("input", Some(&tool.input)),
                ("output", Some(&tool.output)),
                ("failure", tool.failure.as_ref()),
            ];
            for (which, schema) in schemas {
                if let Some(schema) = schema {
                    Schema::compile(schema.clone()).map_err(|error| {
                        invalid(
                            format!("{which} schema of the tool '{}'", tool.name),
                            format!("is {error}"),
                        )
                    })?;
                }
            }
        }
        Ok(())
    }
}

impl<S> Manifest<S> {
    /// Checks everything that can be checked without the schemas.
    ///
    /// # Errors
    /// [`ManifestError::Invalid`].
    pub fn check(&self) -> Result<(), ManifestError> {
        check_name("name", &self.name)?;
        let parts = self.version.split(['-', '+']).next().unwrap_or_default();
        if parts.split('.').count() != 3
            || !parts.split('.').all(|part| part.parse::<u64>().is_ok())
        {
            return Err(invalid(
                "version",
                format!("'{}' is no semantic version such as 0.1.0", self.version),
            ));
        }
        if self.tools.is_empty() && self.backends.is_empty() {
            return Err(invalid("tools", "are empty; a plugin has at least one, or a backend"));
        }
        for program in &self.requests.process {
            check_program(program)?;
        }
        let mut names = BTreeSet::new();
        for tool in &self.tools {
            check_name("tool name", &tool.name)?;
            if !names.insert(&tool.name) {
                return Err(invalid("tools", format!("hold '{}' twice", tool.name)));
            }
            if self.name.len() + "__".len() + tool.name.len() > 64 {
                let exported = format!("{}__{}", self.name, tool.name);
                return Err(invalid(
                    format!("tool '{}'", tool.name),
                    format!("would be '{exported}' for clients, who take at most 64 characters"),
                ));
            }
            if tool.effects > self.requests.files {
                return Err(invalid(
                    format!("tool '{}'", tool.name),
                    format!(
                        "has the effect '{}' on files, but the plugin requests files = '{}'",
                        tool.effects, self.requests.files
                    ),
                ));
            }
        }
        for agent in &self.requests.agents {
            check_agent(agent)?;
        }
        if let Some(tool) = self.tools.iter().find(|tool| tool.agents)
            && self.requests.agents.is_empty()
        {
            let what = "gives tasks to agents, but the plugin requests none (agents)";
            return Err(invalid(format!("tool '{}'", tool.name), what));
        }
        self.tools.iter().try_for_each(Tool::check)?;
        let mut names = BTreeSet::new();
        for backend in &self.backends {
            backend.check(&self.requests)?;
            if !names.insert((backend.kind, &backend.name)) {
                let twice = format!("hold the {} '{}' twice", backend.kind, backend.name);
                return Err(invalid("backends", twice));
            }
        }
        Ok(())
    }
}

impl<S> Tool<S> {
    /// Whether a call changes nothing, so that it may run beside others.
    pub fn only_reads(&self) -> bool {
        self.effects < Files::Write && !self.agents
    }

    fn check(&self) -> Result<(), ManifestError> {
        let place = |what: &str| format!("{what} of the tool '{}'", self.name);
        for reason in self.fallbacks.values() {
            check_name(&place("reason of a fallback"), reason)?;
        }
        if self.repeats.as_ref().is_some_and(|repeats| repeats.most == 0) {
            return Err(invalid(place("repeats"), "allow no call at all"));
        }
        Ok(())
    }
}

impl Backend {
    fn check(&self, requests: &Capabilities) -> Result<(), ManifestError> {
        check_name("backend name", &self.name)?;
        let place = || format!("backend '{}'", self.name);
        for language in &self.languages {
            check_name("language", language)?;
        }
        if (self.kind == BackendKind::Linter) == self.languages.is_empty() {
            return Err(invalid(place(), "needs 'languages' if it is a linter, and only then"));
        }
        match self.programs.difference(&requests.process).next() {
            Some(program) => {
                let what = format!("runs '{program}', which the plugin does not request (process)");
                Err(invalid(place(), what))
            }
            None => Ok(()),
        }
    }
}

/// A program is a name, not a path.
fn check_program(name: &str) -> Result<(), ManifestError> {
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'))
        && !name.starts_with(['.', '-']);
    if is_name {
        return Ok(());
    }
    let name = crate::outcome::shorten(name, 80);
    Err(invalid("requests.process", format!("holds '{name}', which is no program's name")))
}

/// An agent is `*` or a name of the settings.
fn check_agent(name: &str) -> Result<(), ManifestError> {
    if name == "*" || crate::policy::is_agent_name(name) {
        return Ok(());
    }
    let name = crate::outcome::shorten(name, 80);
    Err(invalid("requests.agents", format!("holds '{name}', which is no agent's name")))
}

pub(super) fn check_name(place: &str, name: &str) -> Result<(), ManifestError> {
    let right = name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
        // `__` stands between a plugin's name and a tool's.
        && !name.contains("__");
    if right {
        return Ok(());
    }
    Err(invalid(
        place,
        format!(
            "'{}' is not of the form [a-z][a-z0-9_-]*, at most 64 characters, no '__'",
            crate::outcome::shorten(name, 80)
        ),
    ))
}

fn invalid(place: impl Into<String>, message: impl Into<String>) -> ManifestError {
    ManifestError::Invalid { place: place.into(), message: message.into() }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn manifest() -> Value {
        json!({
            "name": "hello", "version": "0.1.0", "description": "Greets",
            "requests": {"files": "read", "process": []},
            "backends": [],
            "tools": [{
                "name": "greet", "title": "Greet", "description": "Says hello", "done": "greeted",
                "fallbacks": {}, "repeats": null, "agents": false,
                "input": {"type": "object"}, "output": {"type": "object"}
            }]
        })
    }

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let parsed = Manifest::parse(manifest().to_string().as_bytes()).unwrap();
        parsed.check_schemas().unwrap();
        let again = Manifest::parse(serde_json::to_string(&parsed).unwrap().as_bytes()).unwrap();
        assert_eq!(parsed, again);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (pointer, value, wanted) in [
            ("/name", json!("Hello"), "name 'Hello' is not of the form"),
            ("/name", json!("a.b"), "name 'a.b' is not of the form"),
            ("/name", json!("a__b"), "name 'a__b' is not of the form"),
            ("/tools/0/name", json!("x".repeat(60)), "for clients, who take at most 64 characters"),
            ("/version", json!("1"), "version '1' is no semantic version"),
            ("/tools", json!([]), "tools are empty"),
            (
                "/requests/process",
                json!(["/bin/sh"]),
                "holds '/bin/sh', which is no program's name",
            ),
            ("/backends", json!([{"kind": "oracle", "name": "a"}]), "unknown variant `oracle`"),
            (
                "/backends",
                json!([{"kind": "linter", "name": "a"}]),
                "backend 'a' needs 'languages' if it is a linter",
            ),
            (
                "/backends",
                json!([{"kind": "builder", "name": "a", "languages": ["go"]}]),
                "backend 'a' needs 'languages' if it is a linter, and only then",
            ),
            (
                "/backends",
                json!([{"kind": "builder", "name": "a", "programs": ["make"]}]),
                "backend 'a' runs 'make', which the plugin does not request",
            ),
            (
                "/backends",
                json!([{"kind": "builder", "name": "a"}, {"kind": "builder", "name": "a"}]),
                "backends hold the builder 'a' twice",
            ),
            ("/tools/0/name", json!("../x"), "tool name '../x' is not of the form"),
            (
                "/tools/0/effects",
                json!("write"),
                "has the effect 'write' on files, but the plugin requests files = 'read'",
            ),
            ("/requests/files", json!("all"), "unknown variant `all`"),
            ("/requests", json!({"sockets": true}), "unknown field `sockets`"),
            ("/requests", json!({"agents": ["a b"]}), "holds 'a b', which is no agent's name"),
            (
                "/tools/0/agents",
                json!(true),
                "gives tasks to agents, but the plugin requests none (agents)",
            ),
            ("/requests", json!({"http": ["http://a.example"]}), "'http://a.example' is no origin"),
            ("/tools/0/fallbacks", json!({"Code": "A reason"}), "'A reason' is not of the form"),
            (
                "/tools/0/repeats",
                json!({"argument": "name", "most": 0}),
                "repeats of the tool 'greet' allow no call at all",
            ),
            (
                "/tools/0/input",
                json!({"type": "objekt"}),
                "input schema of the tool 'greet' is no valid JSON Schema",
            ),
        ] {
            let mut document = manifest();
            *document.pointer_mut(pointer).unwrap_or(&mut Value::Null) = value.clone();
            if pointer == "/tools/0/effects" {
                document["tools"][0]["effects"] = value;
            }
            let error = Manifest::parse(document.to_string().as_bytes())
                .and_then(|manifest| manifest.check_schemas())
                .unwrap_err();
            assert!(error.to_string().contains(wanted), "{pointer}: {error}");
        }
    }

    #[test]
    fn a_tool_name_stands_once() {
        let mut document = manifest();
        let tool = document["tools"][0].clone();
        document["tools"].as_array_mut().unwrap().push(tool);
        let error = Manifest::parse(document.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("hold 'greet' twice"), "{error}");
    }
}
