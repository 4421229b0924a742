//! Finds everything that is wrong with a plugin's manifest, schemas, examples and exports, each
//! with its place and how to fix it. It runs nothing of the plugin; [`cofferdam_engine::runtime`]
//! decides whether the engine accepts its component.

use std::fmt;
use std::path::Path;

use schemars::schema_for;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::manifest::{self, Manifest, ManifestError, ManifestFile};
use super::pack::{self, PackError};
use super::typed::{self, Beside, Derived, LeftOut, TypedError};
use cofferdam_core::policy::BackendKind;
use cofferdam_core::schema::{Problem, Schema};
use cofferdam_workspace::bounded_text;

/// The interface that a component with tools exports.
pub const TOOLS: &str = "cofferdam:tool/tools@0.1.0";

/// The interface that a component with backends of a kind exports.
pub fn backend_interface(kind: BackendKind) -> &'static str {
    match kind {
        BackendKind::Linter => "cofferdam:backend/linter@0.1.0",
        BackendKind::TestRunner => "cofferdam:backend/test-runner@0.1.0",
        BackendKind::Builder => "cofferdam:backend/builder@0.1.0",
        BackendKind::Checker => "cofferdam:backend/checker@0.1.0",
    }
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The plugin is not loaded, or its calls can't succeed.
    Error,
    /// It works, but could be better.
    Warning,
}

/// The place of a finding.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file, as named on the command line or in the manifest.
    pub file: String,
    /// The line in a text file, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// JSON Pointer (RFC 6901) into the document that the file holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The name of the import that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import: Option<String>,
    /// The name of the export that is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub export: Option<String>,
}

impl Place {
    /// Refers to a whole file.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// Refers to an import of a component.
    pub fn import(file: &str, import: impl Into<String>) -> Self {
        Self { import: Some(import.into()), ..Self::file(file) }
    }

    /// Refers to an export of a component.
    pub fn export(file: &str, export: impl Into<String>) -> Self {
        Self { export: Some(export.into()), ..Self::file(file) }
    }

    fn below(&self, pointer: &str) -> Self {
        let above = self.pointer.as_deref().unwrap_or_default();
        Self { pointer: Some(format!("{above}{pointer}")), ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(pointer) = self.pointer.as_deref().filter(|pointer| !pointer.is_empty()) {
            write!(f, " at {pointer}")?;
        }
        if let Some(import) = &self.import {
            write!(f, ", import {import}")?;
        }
        if let Some(export) = &self.export {
            write!(f, ", export {export}")?;
        }
        Ok(())
    }
}

/// A mistake in a plugin, or a possible improvement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How severe it is.
    pub severity: Severity,
    /// Where the problem is.
    pub place: Place,
    /// What the problem is.
    pub problem: String,
    /// How to fix the problem.
    pub cure: String,
}

impl Finding {
    /// A finding that keeps the plugin from working.
    pub fn error(place: Place, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { severity: Severity::Error, place, problem: problem.into(), cure: cure.into() }
    }

    /// A finding that is a possible improvement.
    pub fn warning(place: Place, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(place, problem, cure) }
    }
}

/// The findings of a check, and the manifest if it could be read.
#[derive(Debug, Default)]
pub struct Checked {
    /// The findings in the order of the manifest.
    pub findings: Vec<Finding>,
    /// `None` if there is no manifest, or one of another shape.
    pub manifest: Option<Manifest>,
}

/// Checks `plugin.toml` and the schemas that it names.
pub fn manifest_file(path: &Path) -> Checked {
    let place = Place::file(path.display().to_string());
    let text = match bounded_text::read(path) {
        Ok(text) => text,
        Err(error) => {
            let cure = "write one: `cofferdam plugin new` creates a project that has it, and \
                        `cofferdam schema plugin` prints its format";
            return Checked::only(Finding::error(place, error.to_string(), cure));
        }
    };
    let document: Value = match toml::from_str(&text) {
        Ok(document) => document,
        Err(error) => {
            let line = error.span().map(|span| line_of(&text, span.start));
            let place = Place { line, ..place };
            let cure = "correct the TOML; see `cofferdam schema plugin` for the format";
            return Checked::only(Finding::error(place, error.message(), cure));
        }
    };
    let lines = Lines::new(&text);
    let mut findings = shape::<ManifestFile>(&document, &place, "plugin");
    if findings.is_empty()
        && let Err(error) = toml::from_str::<ManifestFile>(&text)
    {
        let line = error.span().map(|span| line_of(&text, span.start));
        let cure = "see `cofferdam schema plugin` for the format";
        findings.push(Finding::error(Place { line, ..place.clone() }, error.message(), cure));
    }
    let mut packed = document;
    let directory = path.parent().unwrap_or(Path::new("."));
    findings.extend(insert_schemas(&mut packed, directory, &place));
    let mut checked = Checked { findings, manifest: None };
    checked.meaning(packed.to_string().as_bytes(), &place);
    for finding in &mut checked.findings {
        let is_manifest = finding.place.file == place.file && finding.place.line.is_none();
        if let Some(pointer) = finding.place.pointer.as_deref().filter(|_| is_manifest) {
            finding.place.line = lines.of(pointer);
        }
    }
    checked
}

/// The place of a pointer in `plugin.toml`, with its line if the file can be read.
pub fn manifest_place(path: &Path, pointer: &str) -> Place {
    let line = bounded_text::read(path).ok().and_then(|text| Lines::new(&text).of(pointer));
    Place { line, ..Place::file(path.display().to_string()).below(pointer) }
}

/// Replaces the names of schema files in a manifest by the schemas; returns what is wrong with
/// them.
fn insert_schemas(manifest: &mut Value, directory: &Path, place: &Place) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, tool) in tools(manifest).enumerate() {
        for which in ["input", "output", "failure"] {
            let Some(name) = tool[which].as_str() else { continue };
            let path = directory.join(name);
            let file = Place::file(path.display().to_string());
            match read_schema(&path) {
                Ok(schema) => {
                    findings.extend(schema_findings(&schema, which, &file));
                    tool[which] = schema;
                }
                Err(ReadError::Unreadable(why)) => {
                    let problem = format!("the schema {name} can't be read: {why}");
                    let cure = "name a JSON Schema file relative to the manifest, and write it";
                    let pointer = format!("/tools/{index}/{which}");
                    findings.push(Finding::error(place.below(&pointer), problem, cure));
                }
                Err(ReadError::Malformed(error)) => {
                    let place = Place { line: Some(error.line()), ..file };
                    findings.push(Finding::error(place, error.to_string(), "correct the JSON"));
                }
            }
        }
    }
    findings
}

/// Checks the manifest in a component and whether it covers the component's exports. `file` is the
/// name of the component in findings.
pub fn packed(file: &str, component: &[u8]) -> Checked {
    let place = Place::file(file);
    let json = match pack::section(component) {
        Ok(Some(json)) => json,
        Ok(None) => return derived(place, component),
        Err(error) => return Checked::only(unusable(place, &error)),
    };
    if json.len() > manifest::MAX_MANIFEST_BYTES {
        return Checked::only(unusable(place, &ManifestError::TooLarge.into()));
    }
    let document: Value = match serde_json::from_slice(json) {
        Ok(document) => document,
        Err(error) => return Checked::only(unusable(place, &ManifestError::from(error).into())),
    };
    let findings = shape::<Manifest<Value>>(&document, &place, "manifest");
    let mut checked = Checked { findings, manifest: None };
    for (index, tool) in document["tools"].as_array().into_iter().flatten().enumerate() {
        for which in ["input", "output", "failure"] {
            if let Some(schema) = tool.get(which).filter(|schema| !schema.is_null()) {
                let place = place.below(&format!("/tools/{index}/{which}"));
                checked.findings.extend(schema_findings(schema, which, &place));
            }
        }
    }
    checked.meaning(json, &place);
    if let Some(manifest) = &checked.manifest {
        checked.findings.extend(exports(file, component, manifest));
    }
    checked
}

/// Checks a component without a manifest: whether one can be derived, and what it leaves out.
fn derived(place: Place, component: &[u8]) -> Checked {
    let called = pack::called(Path::new(&place.file));
    match typed::derive(component, &called, &Beside::read(Path::new(&place.file))) {
        Err(TypedError::Unlisted(manifest)) => {
            Checked { findings: Vec::new(), manifest: Some(*manifest) }
        }
        Err(error) => Checked::only(unusable(place, &error.into())),
        Ok(Derived { manifest, left_out, unread }) => {
            let left_out = left_out.into_iter().map(|LeftOut { function, why }| {
                let cure = "it can't be called; the other functions are tools";
                Finding::warning(Place::export(&place.file, function), why, cure)
            });
            let unread = unread.iter().map(|why| {
                let problem = format!("a description can't be used: {why}");
                let cure = "tools have none without it; write it anew";
                Finding::warning(place.clone(), problem, cure)
            });
            Checked { findings: left_out.chain(unread).collect(), manifest: Some(manifest) }
        }
    }
}

/// A finding for a file that is not a packed component, with how to make it one.
fn unusable(place: Place, error: &PackError) -> Finding {
    let cure = match error {
        PackError::Typed(TypedError::NoManifest) => {
            "`cofferdam plugin pack --manifest plugin.toml --component THIS --output NAME.wasm`"
        }
        PackError::CoreModule => {
            "build it for wasm32-wasip2, or turn it into a component with `wasm-tools component new`, then pack it"
        }
        PackError::Typed(TypedError::Name(_)) => "rename the file",
        PackError::Manifest(_) | PackError::Typed(TypedError::Manifest(_)) => {
            "pack the component that the compiler wrote with a manifest that `cofferdam plugin check DIR` finds right"
        }
        PackError::Typed(error) if !matches!(error, TypedError::Malformed(_)) => {
            "export functions whose types JSON has (docs/plugins.md lists them), each with a name of its own"
        }
        _ => "build the component anew, and pack it",
    };
    Finding::error(place, error.to_string(), cure)
}

impl Checked {
    fn only(finding: Finding) -> Self {
        Self { findings: vec![finding], manifest: None }
    }

    /// Checks a document of the right shape for contradictions, and for examples that don't match
    /// their schemas.
    fn meaning(&mut self, json: &[u8], place: &Place) {
        let manifest: Manifest = match serde_json::from_slice(json) {
            Ok(manifest) => manifest,
            Err(error) => {
                // A wrong shape is reported already.
                if self.findings.is_empty() {
                    let cure = "see `cofferdam schema manifest` for the format";
                    self.findings.push(Finding::error(place.clone(), error.to_string(), cure));
                }
                return;
            }
        };
        self.findings.extend(manifest.problems().into_iter().map(|problem| match problem {
            ManifestError::Invalid { pointer, place: field, message } => {
                let cure = cure(&pointer);
                Finding::error(place.below(&pointer), format!("{field} {message}"), cure)
            }
            error => Finding::error(place.clone(), error.to_string(), "pack it anew"),
        }));
        for (index, tool) in manifest.tools.iter().enumerate() {
            let place = place.below(&format!("/tools/{index}"));
            let schemas =
                (Schema::compile((*tool.input).clone()), Schema::compile((*tool.output).clone()));
            for (index, example) in tool.examples.iter().enumerate() {
                let place = place.below(&format!("/examples/{index}"));
                if let Ok(input) = &schemas.0 {
                    let arguments = Value::Object(example.arguments.clone());
                    let problems = input.problems(&arguments, "/arguments");
                    self.findings.extend(mismatches(&place, &problems, "the tool's input schema"));
                }
                if let (Ok(output), Some(answer)) = (&schemas.1, &example.answer) {
                    let problems = output.problems(answer, "/answer");
                    self.findings.extend(mismatches(&place, &problems, "the tool's output schema"));
                }
            }
            let is_silent = tool.input.get("examples").is_none_or(is_empty);
            if schemas.0.is_ok() && tool.examples.is_empty() && is_silent {
                let problem = format!("the tool '{}' has no example call", tool.name);
                let cure = "give its input schema `examples`, or write [[tools.examples]] with the answer: `cofferdam plugin test` makes these calls, and models learn from those of the schema";
                self.findings.push(Finding::warning(place.below(""), problem, cure));
            }
        }
        self.manifest = Some(manifest);
    }
}

fn tools(manifest: &mut Value) -> impl Iterator<Item = &mut Value> {
    manifest.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten()
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty)
}

/// How to fix a contradiction or a broken rule in a manifest.
fn cure(pointer: &str) -> &'static str {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    match parts.as_slice() {
        ["name"] => "choose another name; grants and calls use it",
        ["version"] => "write MAJOR.MINOR.PATCH",
        ["tools"] => "describe a tool in [[tools]], or a backend in [[backends]]",
        ["requests", "process", ..] => "name the program as it is looked up, without a path",
        ["tools", _, "effects"] => {
            "state lower `effects`, or request as much in `files` under [requests]"
        }
        ["tools", _, "name"] | ["backends", _, "name"] => "choose another name",
        ["tools", _, "repeats", ..] => {
            "write how often it may be called, at least 1, or leave it out"
        }
        ["tools", _, "examples", _, "name"] => "give each example a name of its own",
        ["tools", _, "examples", _, "error"] => "leave one of them out",
        ["tools", _, "examples", ..] => {
            "write a path relative to the workspace, with `/` between names"
        }
        ["tools", _, "fallbacks", ..] => "write a stable word that the journal can count",
        ["backends", _, "languages", ..] => {
            "write `languages = [...]` for a linter, and only there"
        }
        ["backends", _, "programs"] => "add the program to `process` under [requests]",
        _ => "see `cofferdam schema plugin` for the format",
    }
}

/// The findings of checking a document against the schema of a manifest, which is generated from
/// its type.
fn shape<T: DeserializeOwned + schemars::JsonSchema>(
    document: &Value,
    place: &Place,
    name: &str,
) -> Vec<Finding> {
    let Ok(schema) = Schema::compile(schema_for!(T).to_value()) else { return Vec::new() };
    let finding = |problem: Problem| {
        let cure = match &problem.did_you_mean {
            Some(name) => format!("write '{name}'"),
            None => format!("see `cofferdam schema {name}` for the format"),
        };
        Finding::error(place.below(&problem.pointer), words(&problem), cure)
    };
    schema.problems(document, "").into_iter().map(finding).collect()
}

fn words(problem: &Problem) -> String {
    match &problem.found {
        Some(found) => format!("expected {}, found {found}", problem.expected),
        None => format!("expected {}", problem.expected),
    }
}

fn mismatches<'a>(
    place: &'a Place,
    problems: &'a [Problem],
    what: &'a str,
) -> impl Iterator<Item = Finding> + 'a {
    problems.iter().map(move |problem| {
        let cure = match &problem.did_you_mean {
            Some(name) => format!("write '{name}', or change {what}"),
            None => format!("correct the example, or {what}"),
        };
        let text = format!("does not fit {what}: {}", words(problem));
        Finding::error(place.below(&problem.pointer), text, cure)
    })
}

/// The findings about one schema and its own examples.
fn schema_findings(document: &Value, which: &str, place: &Place) -> Vec<Finding> {
    let schema = match Schema::compile(document.clone()) {
        Ok(schema) => schema,
        Err(error) => {
            let cure = "correct it: JSON Schema draft 2020-12, with references into the same document only";
            let problem = format!("no valid JSON Schema: {}", error.message);
            return vec![Finding::error(place.below(&error.pointer), problem, cure)];
        }
    };
    let mut findings = Vec::new();
    let is_object = document.get("type").and_then(Value::as_str) == Some("object");
    if which == "input" && !is_object {
        let problem = "arguments are an object, and the schema does not say so";
        let cure =
            "write \"type\": \"object\" at the top: clients of models refuse a tool without it";
        findings.push(Finding::warning(place.below("/type"), problem, cure));
    }
    for (index, example) in document["examples"].as_array().into_iter().flatten().enumerate() {
        let problems = schema.problems(example, &format!("/examples/{index}"));
        findings.extend(mismatches(place, &problems, "its own schema"));
    }
    findings
}

/// Warnings for exports that the manifest does not mention. Missing exports are found when the
/// component is linked.
fn exports(file: &str, component: &[u8], manifest: &Manifest) -> Vec<Finding> {
    let Ok(exports) = pack::exports(component) else { return Vec::new() };
    let has = |kind| manifest.backends.iter().any(|backend| backend.kind == kind);
    let backends = BackendKind::ALL.map(|kind| {
        (backend_interface(kind), has(kind), format!("[[backends]] with kind = \"{kind}\""))
    });
    let tools = (TOOLS, !manifest.tools.is_empty(), "[[tools]]".to_owned());
    let unmentioned = |(interface, is_mentioned, table): (&str, bool, String)| {
        let is_exported = exports.iter().any(|export| export == interface);
        (is_exported && !is_mentioned).then(|| {
            let problem = "the manifest does not mention it, so it can't be used";
            let cure = format!("describe it in {table}, or build it for a world without it");
            Finding::warning(Place::export(file, interface), problem, cure)
        })
    };
    [tools].into_iter().chain(backends).filter_map(unmentioned).collect()
}

enum ReadError {
    Unreadable(std::io::Error),
    Malformed(serde_json::Error),
}

fn read_schema(file: &Path) -> Result<Value, ReadError> {
    let text = bounded_text::read(file).map_err(ReadError::Unreadable)?;
    serde_json::from_str(&text).map_err(ReadError::Malformed)
}

/// Maps the values of a TOML document to lines.
struct Lines<'a> {
    text: &'a str,
    table: Option<toml::Spanned<DeTable<'a>>>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, table: DeTable::parse(text).ok() }
    }

    /// The line of the value at a JSON Pointer, or of its nearest parent.
    fn of(&self, pointer: &str) -> Option<usize> {
        let table = self.table.as_ref()?;
        let mut parts =
            pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~"));
        let first = parts.next()?;
        let (key, mut value) = table.get_ref().get_key_value(first.as_str())?;
        let mut start = key.span().start;
        for part in parts {
            let next = match value.get_ref() {
                DeValue::Table(table) => {
                    table.get_key_value(part.as_str()).map(|(key, value)| (key.span().start, value))
                }
                DeValue::Array(items) => part
                    .parse()
                    .ok()
                    .and_then(|index: usize| items.get(index))
                    .map(|item| (item.span().start, item)),
                _ => None,
            };
            let Some((at, below)) = next else { break };
            (start, value) = (at, below);
        }
        Some(line_of(self.text, start))
    }
}

/// The line of a byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
