//! The manifest of a plugin: its description and requests, readable without running it.
//!
//! An author writes `plugin.toml`, which names files with schemas; packing puts everything into one
//! JSON document in the component's custom section `cofferdam:manifest`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::document::Document;
use cofferdam_core::envelope::Dialect;
use cofferdam_core::policy::{
    BackendKind, Capabilities, Files, LimitSettings, check_consent_classes,
};
use cofferdam_core::schema::{Schema, escape};

/// The name of the custom section.
pub const SECTION: &str = "cofferdam:manifest";

/// A manifest whose schemas are `S`: documents when packed, file names as written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Manifest<S = Document> {
    /// The plugin's name: lower-case letters, digits, `-` and `_`; the first part of its
    /// tools' qualified names.
    pub name: String,
    /// The version of the plugin (semver).
    pub version: String,
    /// One line on what the plugin is for.
    pub description: String,
    /// The license as an SPDX expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub license: Option<String>,
    /// Whether its tools can only be called by their qualified names, or within a role without
    /// other tools of the same names: for tools with common names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub qualified: bool,
    /// Whether its tools work on one file, the first path of the call's scope: a role without a
    /// scope does not offer them to MCP clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub target: bool,
    /// The capabilities that the plugin requests.
    #[serde(default)]
    pub requests: Capabilities,
    /// Whether its tools work with less access to files and origins than requested, depending on
    /// what is granted: for plugins whose manifest is derived.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub as_granted: bool,
    /// Limits that the plugin sets itself, below those of the host.
    #[serde(default)]
    pub limits: LimitSettings,
    /// The tools that agents can call.
    #[serde(default = "Vec::<Tool<S>>::new")]
    pub tools: Vec<Tool<S>>,
    /// The backends that tools can use through the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backends: Vec<Backend>,
}

/// One backend of a plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Backend {
    /// The kind, which determines the interface of `cofferdam:backend` that it exports.
    pub kind: BackendKind,
    /// Its name, unique among all backends of its kind.
    pub name: String,
    /// The languages that a linter or checker is for, such as `python`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// The programs that it runs, among those that the plugin requests.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub programs: BTreeSet<String>,
}

/// One tool of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tool<S = Document> {
    /// The short name, unique in the plugin.
    pub name: String,
    /// A title of a few words for users.
    pub title: String,
    /// For the model that calls it: what the tool does and returns.
    pub description: String,
    /// The most that a call does to files. A tool that only reads gets a read-only workspace.
    #[serde(default)]
    pub effects: Files,
    /// Whether it gives tasks to agents, which can change anything. Its calls run alone, and never
    /// in a shared transaction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub agents: bool,
    /// The message of a successful call, such as `file read`.
    pub done: String,
    /// The dialect in which `cofferdam call` prints a failure without a failure document.
    #[serde(default)]
    pub dialect: Dialect,
    /// Failure codes after which the caller has to continue without the tool, each with the reason
    /// that the journal records: `TimeoutError = "context7_timeout"`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fallbacks: BTreeMap<String, String>,
    /// How often it may be called with the same argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<Repeats>,
    /// JSON Schema of the arguments.
    pub input: S,
    /// JSON Schema of the answer.
    pub output: S,
    /// JSON Schema of the failure document, for tools that have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<S>,
    /// Example calls with their expected results: `cofferdam plugin test` runs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<Example>,
}

/// An example call in a workspace of its own, and its expected result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Example {
    /// What it demonstrates, in a few words; unique for the tool.
    pub name: String,
    /// The arguments of the call.
    pub arguments: Map<String, Value>,
    /// The text files in the workspace before the call, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// The whole expected answer; by default any answer that matches the output schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// The code of the expected failure, instead of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// All files in the workspace after the call; by default the same as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<BTreeMap<String, String>>,
}

/// How often a tool may be called with the same value of an argument by one host: within an
/// envelope, or while a server runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repeats {
    /// The name of the argument.
    pub argument: String,
    /// The largest number of calls.
    pub most: u32,
}

/// The format of `plugin.toml`, in which schemas are names of files.
pub type ManifestFile = Manifest<PathBuf>;

/// The largest size of a manifest as JSON, including schemas, in bytes.
pub const MAX_MANIFEST_BYTES: usize = 1 << 20;

/// The manifest is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// It is too large: it would take many times its size in memory.
    #[error("the manifest has more than {MAX_MANIFEST_BYTES} bytes")]
    TooLarge,
    /// Not JSON, or with other fields.
    #[error("the manifest is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A field has an invalid value.
    #[error("the manifest's {place} {message}")]
    Invalid {
        /// JSON Pointer to the field.
        pointer: String,
        /// The field in words.
        place: String,
        /// What is wrong with the value.
        message: String,
    },
}

impl Manifest {
    /// Parses the JSON of the custom section.
    ///
    /// # Errors
    /// Those of [`ManifestError`]. Schemas are not compiled here: see [`Manifest::check_schemas`].
    pub fn parse(json: &[u8]) -> Result<Self, ManifestError> {
        let manifest = Self::parse_lazily(json)?;
        for (_, schema) in manifest.tools.iter().flat_map(Tool::schemas) {
            schema.parse()?;
        }
        Ok(manifest)
    }

    /// Parses the JSON of the custom section, but the schemas only when they are used.
    ///
    /// # Errors
    /// Those of [`Manifest::parse`].
    pub(super) fn parse_lazily(json: &[u8]) -> Result<Self, ManifestError> {
        if json.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLarge);
        }
        let manifest: Self = serde_json::from_slice(json)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Whether this is a component of ACT that was not asked for its tools yet. Any other plugin has tools or
    /// backends.
    pub fn is_unlisted(&self) -> bool {
        self.tools.is_empty() && self.backends.is_empty()
    }

    /// Checks that every schema compiles.
    ///
    /// # Errors
    /// [`ManifestError::Invalid`] for the first invalid schema.
    pub fn check_schemas(&self) -> Result<(), ManifestError> {
        for (index, tool) in self.tools.iter().enumerate() {
            for (which, schema) in tool.schemas() {
                Schema::compile((**schema).clone()).map_err(|error| {
                    Field::new(format!("/tools/{index}/{which}{}", error.pointer))
                        .named(format!("{which} schema of the tool '{}'", tool.name))
                        .invalid(format!("is {error}"))
                })?;
            }
        }
        Ok(())
    }
}

impl<S> Manifest<S> {
    /// Checks everything except the schemas.
    ///
    /// # Errors
    /// [`ManifestError::Invalid`]: the first of [`Manifest::problems`].
    pub fn check(&self) -> Result<(), ManifestError> {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// Returns all problems that can be found without the schemas.
    pub fn problems(&self) -> Vec<ManifestError> {
        let mut problems = Vec::new();
        problems.extend(check_name(Field::new("/name").named("name"), &self.name));
        let parts = self.version.split(['-', '+']).next().unwrap_or_default();
        if parts.split('.').count() != 3
            || !parts.split('.').all(|part| part.parse::<u64>().is_ok())
        {
            let message = format!("'{}' is no semantic version such as 0.1.0", self.version);
            problems.push(Field::new("/version").named("version").invalid(message));
        }
        if self.tools.is_empty() && self.backends.is_empty() {
            let message = "are empty; a plugin has at least one, or a backend";
            problems.push(Field::new("/tools").named("tools").invalid(message));
        }
        for (index, program) in self.requests.process.iter().enumerate() {
            problems.extend(check_program(index, program));
        }
        let mut names = BTreeSet::new();
        for (index, tool) in self.tools.iter().enumerate() {
            let field = Field::new(format!("/tools/{index}"));
            problems.extend(check_name(field.at("/name").named("tool name"), &tool.name));
            if !names.insert(&tool.name) {
                let twice = format!("hold '{}' twice", tool.name);
                problems.push(field.at("/name").named("tools").invalid(twice));
            }
            if self.name.len() + "__".len() + tool.name.len() > 64 {
                let exported = format!("{}__{}", self.name, tool.name);
                problems.push(field.at("/name").named(format!("tool '{}'", tool.name)).invalid(
                    format!("would be '{exported}' for clients, who take at most 64 characters"),
                ));
            }
            if tool.effects > self.requests.files {
                problems.push(field.at("/effects").named(format!("tool '{}'", tool.name)).invalid(
                    format!(
                        "has the effect '{}' on files, but the plugin requests files = '{}'",
                        tool.effects, self.requests.files
                    ),
                ));
            }
            problems.extend(tool.problems(&field));
        }
        let agents = self.requests.agents.iter().enumerate();
        problems.extend(agents.filter_map(|(index, agent)| check_agent(index, agent)));
        problems.extend(check_classes(&self.requests.consent));
        for (index, tool) in self.tools.iter().enumerate().filter(|(_, tool)| tool.agents) {
            if self.requests.agents.is_empty() {
                let field = Field::new(format!("/tools/{index}/agents"));
                let what = "gives tasks to agents, but the plugin requests none (agents)";
                problems.push(field.named(format!("tool '{}'", tool.name)).invalid(what));
            }
        }
        let mut names = BTreeSet::new();
        for (index, backend) in self.backends.iter().enumerate() {
            let field = Field::new(format!("/backends/{index}"));
            problems.extend(backend.problems(&field, &self.requests));
            if !names.insert((backend.kind, &backend.name)) {
                let twice = format!("hold the {} '{}' twice", backend.kind, backend.name);
                problems.push(field.at("/name").named("backends").invalid(twice));
            }
        }
        problems
    }
}

impl Tool {
    /// The schemas, by the names of their fields.
    pub fn schemas(&self) -> impl Iterator<Item = (&'static str, &Document)> {
        let always = [("input", &self.input), ("output", &self.output)];
        always.into_iter().chain(self.failure.iter().map(|failure| ("failure", failure)))
    }
}

impl<S> Tool<S> {
    /// Whether a call changes nothing, so that it may run concurrently with others.
    pub fn only_reads(&self) -> bool {
        self.effects < Files::Write && !self.agents
    }

    fn problems(&self, field: &Field) -> Vec<ManifestError> {
        let place = |what: &str| format!("{what} of the tool '{}'", self.name);
        let mut problems = Vec::new();
        for (code, reason) in &self.fallbacks {
            let field = field.at(&format!("/fallbacks/{}", escape(code)));
            problems.extend(check_name(field.named(place("reason of a fallback")), reason));
        }
        if self.repeats.as_ref().is_some_and(|repeats| repeats.most == 0) {
            let field = field.at("/repeats/most").named(place("repeats"));
            problems.push(field.invalid("allow no call at all"));
        }
        let mut names = BTreeSet::new();
        for (index, example) in self.examples.iter().enumerate() {
            let field = field.at(&format!("/examples/{index}"));
            let named = place(&format!("example '{}'", example.name));
            if !names.insert(&example.name) {
                let field = field.at("/name").named(place("examples"));
                problems.push(field.invalid(format!("hold '{}' twice", example.name)));
            }
            if example.answer.is_some() && example.error.is_some() {
                let message = "has both an answer and an error; a call ends with one of them";
                problems.push(field.at("/error").named(&named).invalid(message));
            }
            let before = example.files.keys().map(|path| ("files", path));
            let after = example.after.iter().flat_map(BTreeMap::keys).map(|path| ("after", path));
            for (which, path) in before.chain(after).filter(|(_, path)| !stays_inside(path)) {
                let message = format!("has the file '{path}', which is no path in a workspace");
                let field = field.at(&format!("/{which}/{}", escape(path)));
                problems.push(field.named(&named).invalid(message));
            }
        }
        problems
    }
}

/// Whether a path is relative and has no empty, `.` or `..` components.
fn stays_inside(path: &str) -> bool {
    !path.contains(['\\', '\0']) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

impl Backend {
    fn problems(&self, field: &Field, requests: &Capabilities) -> Vec<ManifestError> {
        let mut problems = Vec::new();
        problems.extend(check_name(field.at("/name").named("backend name"), &self.name));
        let place = format!("backend '{}'", self.name);
        for (index, language) in self.languages.iter().enumerate() {
            let field = field.at(&format!("/languages/{index}")).named("language");
            problems.extend(check_name(field, language));
        }
        let is_of_languages = matches!(self.kind, BackendKind::Linter | BackendKind::Checker);
        if is_of_languages == self.languages.is_empty() {
            let message = "needs 'languages' if it is a linter or checker, and only then";
            problems.push(field.at("/languages").named(&place).invalid(message));
        }
        for program in self.programs.difference(&requests.process) {
            let what = format!("runs '{program}', which the plugin does not request (process)");
            problems.push(field.at("/programs").named(&place).invalid(what));
        }
        problems
    }
}

/// Checks that a program is a name, not a path.
fn check_program(index: usize, name: &str) -> Option<ManifestError> {
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '+'))
        && !name.starts_with(['.', '-']);
    let name = cofferdam_text::shorten(name, 80);
    let field = Field::new(format!("/requests/process/{index}")).named("requests.process");
    (!is_name).then(|| field.invalid(format!("holds '{name}', which is no program's name")))
}

/// Checks that an agent is `*` or a name of the settings.
fn check_agent(index: usize, name: &str) -> Option<ManifestError> {
    let is_name = name == "*" || cofferdam_core::policy::is_agent_name(name);
    let name = cofferdam_text::shorten(name, 80);
    let field = Field::new(format!("/requests/agents/{index}")).named("requests.agents");
    (!is_name).then(|| field.invalid(format!("holds '{name}', which is no agent's name")))
}

/// Checks the classes of actions that a plugin asks consent for.
fn check_classes(classes: &BTreeMap<String, String>) -> Option<ManifestError> {
    let (class, why) = check_consent_classes(classes).err()?;
    let field = Field::new(format!("/requests/consent/{}", escape(&class)));
    let class = cofferdam_text::shorten(&class, 80);
    Some(field.named("requests.consent").invalid(format!("holds '{class}', which {why}")))
}

/// Whether this is a valid name of a plugin, a tool, a backend or a language.
pub fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_'))
        // `__` separates the names of plugin and tool.
        && !name.contains("__")
}

/// The rule of [`is_name`], for messages.
pub const NAME_FORM: &str = "the form [a-z][a-z0-9_-]*, at most 64 characters, no '__'";

fn check_name(field: Field, name: &str) -> Option<ManifestError> {
    (!is_name(name)).then(|| {
        field.invalid(format!("'{}' is not of {NAME_FORM}", cofferdam_text::shorten(name, 80)))
    })
}

/// A field of a manifest.
struct Field {
    pointer: String,
    name: String,
}

impl Field {
    fn new(pointer: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), name: String::new() }
    }

    /// A field below this one.
    fn at(&self, pointer: &str) -> Self {
        Self::new(format!("{}{pointer}", self.pointer))
    }

    fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    fn invalid(self, message: impl Into<String>) -> ManifestError {
        ManifestError::Invalid { pointer: self.pointer, place: self.name, message: message.into() }
    }
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
    fn a_manifest_round_trips() {
        let parsed = Manifest::parse(manifest().to_string().as_bytes()).unwrap();
        parsed.check_schemas().unwrap();
        let again = Manifest::parse(serde_json::to_string(&parsed).unwrap().as_bytes()).unwrap();
        assert_eq!(parsed, again);
    }

    #[test]
    fn the_size_of_a_manifest_is_limited() {
        let mut large = manifest();
        large["description"] = "x".repeat(MAX_MANIFEST_BYTES).into();
        let error = Manifest::parse(large.to_string().as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the manifest has more than 1048576 bytes");
    }

    /// Checks that a manifest with this value at a JSON Pointer is refused.
    fn check_refused(pointer: &str, value: Value, wanted: &str) {
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

    #[test]
    fn invalid_manifests_are_refused() {
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
            (
                "/requests",
                json!({"consent": {"Drop": "Drops"}}),
                "holds 'Drop', which is no name of a class",
            ),
            (
                "/requests",
                json!({"consent": {"drop": "a\u{202e}b"}}),
                "control characters in its description",
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
            check_refused(pointer, value, wanted);
        }
    }

    #[test]
    fn invalid_backends_are_refused() {
        for (pointer, value, wanted) in [
            ("/backends", json!([{"kind": "oracle", "name": "a"}]), "unknown variant `oracle`"),
            (
                "/backends",
                json!([{"kind": "linter", "name": "a"}]),
                "backend 'a' needs 'languages' if it is a linter",
            ),
            (
                "/backends",
                json!([{"kind": "builder", "name": "a", "languages": ["go"]}]),
                "backend 'a' needs 'languages' if it is a linter or checker, and only then",
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
        ] {
            check_refused(pointer, value, wanted);
        }
    }

    #[test]
    fn tool_names_are_unique() {
        let mut document = manifest();
        let tool = document["tools"][0].clone();
        document["tools"].as_array_mut().unwrap().push(tool);
        let error = Manifest::parse(document.to_string().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("hold 'greet' twice"), "{error}");
    }
}
