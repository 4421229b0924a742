//! Components of ACT (Agent Component Tools, <https://github.com/actcore/act-spec>), which have one function
//! for all tools and return the list of them when they run.
//!
//! Name, version and requests come from the custom section `act:component`. The list of tools is asked for
//! once, when the plugin is installed, and pinned: a file beside the component that says which component it
//! is of. Asking is not part of this module.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::beside::{Beside, Texts};
use super::schema;
use super::{
    Derived, LeftOut, MAX_DESCRIPTION_BYTES, MAX_EXPORTED_NAME_BYTES, MAX_FUNCTIONS, TypedError,
    first_line, is_version, plugin_name,
};
use crate::digest::Digest;
use crate::manifest::{Manifest, Tool, is_name};
use cofferdam_core::cbor;
use cofferdam_core::envelope::{Dialect, KEPT};
use cofferdam_core::policy::{Capabilities, Files, LimitSettings, Origin};
use cofferdam_core::schema::{CONTENT, Schema};
use cofferdam_text::shorten;
use cofferdam_workspace::bounded_text;

/// The custom section with what a component declares.
pub(super) const SECTION: &str = "act:component";

/// The largest size of the section in bytes.
const MAX_SECTION_BYTES: usize = 64 << 10;

/// The largest number of constraints of a capability.
const MAX_CONSTRAINTS: usize = 100;

/// How deep the schema of a tool's arguments may nest.
const MAX_SCHEMA_DEPTH: usize = 64;

/// The argument with which a component's session is opened.
pub const SESSION: &str = "session";

/// The exported interfaces of a component of ACT, by their whole names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Lists and calls tools (`act:tools/tool-provider`).
    pub tools: String,
    /// `act:sessions/session-provider`, if its tools need a session.
    pub sessions: Option<String>,
}

/// The interfaces of ACT 0.2 among the exports of a component; `None` if it has no tools of ACT.
pub fn exported<'a>(exports: impl Iterator<Item = &'a str> + Clone) -> Option<Exported> {
    let find = |interface: &str| {
        let is_it = |name: &&str| {
            name.strip_prefix(interface).is_some_and(|version| version.starts_with("@0.2."))
        };
        exports.clone().find(is_it).map(str::to_owned)
    };
    let tools = find("act:tools/tool-provider")?;
    let sessions = find("act:sessions/session-provider");
    Some(Exported { tools, sessions })
}

/// What a component returns when it is asked for its tools. Nothing of it is checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The tools, in its order.
    pub tools: Vec<AnsweredTool>,
    /// The JSON Schema of what a session is opened with.
    pub session: Option<String>,
}

/// A tool as the component describes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AnsweredTool {
    /// The name that calls use.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: String,
    /// Whether the component says that it changes nothing (`std:read-only`).
    pub reads: bool,
}

/// The list of a component's tools, as it is pinned: checked, with what can't be a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolList {
    /// The component that returned it.
    component: Digest,
    tools: Vec<Listed>,
    /// The schema of what a session is opened with, for components that have sessions.
    session: Option<Value>,
    left_out: Vec<LeftOut>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    name: String,
    description: String,
    schema: Value,
    reads: bool,
}

fn wrong(why: impl Into<String>) -> TypedError {
    TypedError::Act(why.into())
}

impl ToolList {
    /// Checks what a component returned. A tool with a name or a schema that no tool can have is left out.
    ///
    /// # Errors
    /// [`TypedError`] if there are too many tools, two of one name or none, or if they are too large.
    pub fn new(component: &[u8], answer: Answer) -> Result<Self, TypedError> {
        if answer.tools.len() > MAX_FUNCTIONS {
            return Err(wrong(format!("lists more than {MAX_FUNCTIONS} tools")));
        }
        let session = answer.session.map(|text| {
            arguments(&text).map_err(|why| wrong(format!("opens a session with what {why}")))
        });
        let session = session.transpose()?;
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for tool in answer.tools {
            let name = shorten(&tool.name, 80);
            match Listed::new(tool, session.is_some()) {
                Ok(tool) if names.insert(tool.name.clone()) => tools.push(tool),
                Ok(Listed { name, .. }) => {
                    return Err(wrong(format!("lists the tool '{name}' twice")));
                }
                Err(why) => left_out.push(LeftOut { function: name, why }),
            }
        }
        if tools.is_empty() {
            return Err(TypedError::NoTool(left_out));
        }
        Ok(Self { component: Digest::of(component), tools, session, left_out })
    }

    /// The text that is pinned.
    ///
    /// # Errors
    /// [`TypedError`] if it is too long.
    pub fn to_text(&self) -> Result<String, TypedError> {
        let text = serde_json::to_string(self).map_err(|error| wrong(error.to_string()))?;
        match text.len() as u64 <= bounded_text::MAX_BYTES {
            true => Ok(text),
            false => Err(wrong(format!(
                "lists tools that come to more than {} bytes",
                bounded_text::MAX_BYTES
            ))),
        }
    }

    /// Reads a pinned list.
    fn parse(text: &str, component: &[u8]) -> Result<Self, TypedError> {
        let list: Self = serde_json::from_str(text)
            .map_err(|error| wrong(format!("has a damaged list of tools beside it: {error}")))?;
        match list.component == Digest::of(component) {
            true => Ok(list),
            false => Err(wrong("has the list of tools of another component beside it")),
        }
    }
}

impl Listed {
    /// A checked tool, or why it can't be one.
    fn new(tool: AnsweredTool, has_sessions: bool) -> Result<Self, String> {
        let AnsweredTool { name, description, schema, reads } = tool;
        if !is_name(&name) {
            return Err("has a name that no tool can have".to_owned());
        }
        let schema = arguments(&schema).map_err(|why| format!("takes what {why}"))?;
        if has_sessions && !schema["properties"][SESSION].is_null() {
            return Err(format!("takes an argument '{SESSION}', which is what opens its session"));
        }
        let description = shorten(description.trim(), MAX_DESCRIPTION_BYTES);
        Ok(Self { name, description, schema, reads })
    }

    /// The tool of the plugin.
    fn tool(self, files: Files, session: Option<&Value>) -> Tool {
        let words = self.name.replace(['-', '_'], " ");
        // What opens a session may write, such as the file of a database.
        let reads = self.reads && session.is_none();
        Tool {
            title: words.clone(),
            description: self.description,
            name: self.name,
            effects: if reads { files.min(Files::Read) } else { files },
            agents: false,
            done: format!("{words} called"),
            dialect: Dialect::default(),
            fallbacks: BTreeMap::new(),
            repeats: None,
            input: with_session(self.schema, session).into(),
            output: answer_schema().into(),
            failure: None,
            examples: Vec::new(),
        }
    }
}

/// The schema of arguments in a text, or what is wrong with it as the end of a sentence.
fn arguments(text: &str) -> Result<Value, String> {
    let schema: Value = serde_json::from_str(text)
        .map_err(|error| format!("has no JSON as its schema: {error}"))?;
    if depth(&schema) > MAX_SCHEMA_DEPTH {
        return Err(format!("has a schema that nests deeper than {MAX_SCHEMA_DEPTH}"));
    }
    if schema["type"] != "object" {
        return Err("has a schema of something else than an object".to_owned());
    }
    match Schema::compile(schema.clone()) {
        Ok(_) => Ok(schema),
        Err(error) => Err(format!("has {error}")),
    }
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or_default()
}

/// A tool's schema with the argument for its session. What it is opened with may be in the user's settings,
/// so nothing of it is required here; the component decides.
fn with_session(mut schema: Value, session: Option<&Value>) -> Value {
    let Some(session) = session else { return schema };
    let mut of_session = match session.to_string().contains("\"$ref\"") {
        // Its definitions are not where the references would look for them.
        true => json!({"type": "object"}),
        false => session.clone(),
    };
    if let Some(fields) = of_session.as_object_mut() {
        for name in ["$schema", "title", "required"] {
            fields.shift_remove(name);
        }
        let text = "What the component's session is opened with for this call.";
        fields.insert("description".to_owned(), text.into());
    }
    if let Some(schema) = schema.as_object_mut() {
        let properties = schema.entry("properties").or_insert_with(|| Map::new().into());
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(SESSION.to_owned(), of_session);
        }
    }
    schema
}

/// The schema of every answer: one value, or several parts.
fn answer_schema() -> Value {
    let mut part = schema::object(
        [
            ("text".to_owned(), json!({"type": "string"})),
            ("value".to_owned(), json!({})),
            ("mime-type".to_owned(), json!({"type": "string"})),
            ("data".to_owned(), json!({"type": "string", "description": "base64"})),
        ]
        .into_iter()
        .collect(),
        Vec::new(),
    );
    part[CONTENT] = KEPT.into();
    let fields = [
        ("result".to_owned(), json!({})),
        ("content".to_owned(), json!({"type": "array", "items": part})),
    ];
    schema::object(fields.into_iter().collect(), Vec::new())
}

/// The manifest of a component of ACT.
pub(super) fn derive(
    component: &[u8],
    sections: &HashMap<&str, &[u8]>,
    called: &str,
    beside: &Beside,
) -> Result<Derived, TypedError> {
    let missing = || wrong("has no section act:component; `act-build pack` writes it");
    let section = sections.get(SECTION).ok_or_else(missing)?;
    let mut manifest = Declared::read(section)?.manifest(called)?;
    let Some(list) = &beside.list else { return Err(TypedError::Unlisted(Box::new(manifest))) };
    let ToolList { tools, session, left_out, .. } = ToolList::parse(list, component)?;
    let (mut tools, too_long): (Vec<Listed>, Vec<Listed>) = tools.into_iter().partition(|tool| {
        manifest.name.len() + "__".len() + tool.name.len() <= MAX_EXPORTED_NAME_BYTES
    });
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    let too_long = too_long.into_iter().map(|tool| LeftOut {
        why: format!("has, with the plugin's, a name above {MAX_EXPORTED_NAME_BYTES} characters"),
        function: tool.name,
    });
    let left_out: Vec<LeftOut> = left_out.into_iter().chain(too_long).collect();
    let files = manifest.requests.files;
    manifest.tools = tools.into_iter().map(|tool| tool.tool(files, session.as_ref())).collect();
    if manifest.tools.is_empty() {
        return Err(TypedError::NoTool(left_out));
    }
    let mut unread = beside.unread.clone();
    let texts = beside.texts().unwrap_or_else(|why| {
        unread.push(why);
        Texts::default()
    });
    texts.describe(&mut manifest.tools, &mut unread);
    if let Some(text) = &texts.description {
        manifest.description = first_line(text);
    }
    manifest.check()?;
    Ok(Derived { manifest, left_out, unread })
}

/// The section `act:component`. Other namespaces and keys are ignored.
#[derive(Debug, Deserialize)]
struct Declared {
    std: Standard,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Standard {
    name: String,
    version: String,
    description: Option<Localized>,
    default_language: Option<String>,
    license: Option<String>,
    #[serde(default)]
    capabilities: BTreeMap<String, Class>,
}

/// A text in one language, or in several by their tags.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Localized {
    Plain(String),
    Tagged(BTreeMap<String, String>),
}

/// What a component asks for of one class; nothing if there are no constraints.
#[derive(Debug, Default, Deserialize)]
struct Class {
    #[serde(default, alias = "allow")]
    constraints: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct FileConstraint {
    mode: Mode,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Ro,
    Rw,
}

#[derive(Debug, Deserialize)]
struct HttpConstraint {
    host: String,
    scheme: Option<String>,
    ports: Option<Vec<u16>>,
}

impl Declared {
    fn read(section: &[u8]) -> Result<Self, TypedError> {
        let damaged = |why: String| wrong(format!("has a section act:component that {why}"));
        if section.len() > MAX_SECTION_BYTES {
            return Err(damaged(format!("is larger than {MAX_SECTION_BYTES} bytes")));
        }
        let document =
            cbor::decode(section).map_err(|error| damaged(format!("is wrong: {error}")))?;
        serde_json::from_value(document).map_err(|error| damaged(format!("is wrong: {error}")))
    }

    /// The manifest without its tools.
    fn manifest(self, called: &str) -> Result<Manifest, TypedError> {
        let requests = self.std.requests()?;
        let Standard { name, version, description, default_language, license, .. } = self.std;
        let language = default_language.as_deref().unwrap_or("en");
        let description = description.map(|text| text.text(language)).unwrap_or_default();
        Ok(Manifest {
            name: if is_name(&name) { name } else { plugin_name(called)? },
            version: if is_version(&version) { version } else { "0.0.0".to_owned() },
            description: first_line(&description),
            license: license.map(|text| shorten(&text, MAX_DESCRIPTION_BYTES)),
            qualified: false,
            target: false,
            requests,
            as_granted: true,
            limits: LimitSettings::default(),
            tools: Vec::new(),
            backends: Vec::new(),
        })
    }
}

impl Standard {
    /// The constraints of a class.
    fn constraints<T: for<'de> Deserialize<'de>>(&self, class: &str) -> Result<Vec<T>, TypedError> {
        let all = self.capabilities.get(class).map(|class| class.constraints.as_slice());
        let all = all.unwrap_or_default();
        if all.len() > MAX_CONSTRAINTS {
            return Err(wrong(format!(
                "asks for {class} with more than {MAX_CONSTRAINTS} constraints"
            )));
        }
        let read = |value: &Value| T::deserialize(value);
        all.iter()
            .map(read)
            .collect::<Result<_, _>>()
            .map_err(|error| wrong(format!("asks for {class} by a wrong constraint: {error}")))
    }

    /// What it asks for. Sockets and what this host does not know are no capabilities: an import of them is
    /// refused, or ends a call that uses it.
    fn requests(&self) -> Result<Capabilities, TypedError> {
        let files: Vec<FileConstraint> = self.constraints("wasi:filesystem")?;
        let mode = |constraint: &FileConstraint| match constraint.mode {
            Mode::Ro => Files::Read,
            Mode::Rw => Files::Write,
        };
        let mut requests = Capabilities {
            files: files.iter().map(mode).max().unwrap_or(Files::None),
            ..Capabilities::NONE
        };
        for constraint in self.constraints::<HttpConstraint>("wasi:http")? {
            match constraint.origins() {
                Some(origins) => requests.http.extend(origins),
                None => requests.any_origin = true,
            }
        }
        Ok(requests)
    }
}

impl HttpConstraint {
    /// The origins that it names; `None` if it is a pattern, or not what the user could grant by this name.
    fn origins(&self) -> Option<Vec<Origin>> {
        let scheme = self.scheme.as_deref().unwrap_or("https");
        let origin = |port: String| format!("{scheme}://{}{port}", self.host).parse().ok();
        match self.ports.as_deref().unwrap_or_default() {
            [] => Some(vec![origin(String::new())?]),
            ports => ports.iter().map(|port| origin(format!(":{port}"))).collect(),
        }
    }
}

impl Localized {
    /// The text in a language, or in any.
    fn text(self, language: &str) -> String {
        match self {
            Self::Plain(text) => text,
            Self::Tagged(mut texts) => {
                texts.remove(language).or_else(|| texts.into_values().next()).unwrap_or_default()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
    use wasm_encoder::{ComponentSection as _, CustomSection};

    use super::*;
    use crate::typed;

    /// A component of ACT that declares this, as far as its manifest is concerned.
    fn component(name: &str, capabilities: &Value) -> Vec<u8> {
        let text =
            "(component (instance $i) (export \"act:tools/tool-provider@0.2.0\" (instance $i)))";
        let declared = json!({"std": {
            "name": name, "version": "x", "capabilities": capabilities,
            "description": {"de": "Rechnet.", "en": "Computes.\nAnd more."},
        }});
        let data = cbor::encode(&declared).unwrap();
        let mut bytes = wat::parse_str(text).unwrap();
        CustomSection { name: SECTION.into(), data: data.into() }.append_to_component(&mut bytes);
        bytes
    }

    fn manifest(name: &str, capabilities: &Value) -> Result<Manifest, TypedError> {
        let bytes = component(name, capabilities);
        match typed::derive(&bytes, "called.wasm", &Beside::default()) {
            Err(TypedError::Unlisted(manifest)) => Ok(*manifest),
            Err(error) => Err(error),
            Ok(derived) => panic!("{derived:?}"),
        }
    }

    #[test]
    fn what_a_component_declares_is_its_requests() {
        let path = |mode: &str| json!({"path": "/data/**", "mode": mode});
        let of = |constraints: Value| json!({"wasi:filesystem": {"constraints": constraints}});
        for (capabilities, files) in [
            (json!({"wasi:filesystem": {}}), Files::None),
            (of(json!([path("ro")])), Files::Read),
            (of(json!([path("ro"), path("rw")])), Files::Write),
            (json!({"wasi:sockets": {"constraints": [{"host": "*"}]}}), Files::None),
        ] {
            let found = manifest("acting", &capabilities).unwrap();
            assert_eq!(found.requests, Capabilities { files, ..Capabilities::NONE });
        }
        let found = manifest("Not a name", &json!({})).unwrap();
        assert_eq!(
            (&*found.name, &*found.version, &*found.description),
            ("called", "0.0.0", "Computes.")
        );
        assert!(manifest("acting", &of(json!([path("all")]))).is_err());
        assert!(
            manifest("acting", &json!({"wasi:http": {"constraints": [{"scheme": 1}]}})).is_err()
        );
    }

    #[test]
    fn origins_are_requested_by_name_or_not_at_all() {
        for (constraint, origins) in [
            (json!({"host": "a.example"}), &["https://a.example"][..]),
            (
                json!({"host": "a.example", "scheme": "https", "ports": [443, 8443]}),
                &["https://a.example", "https://a.example:8443"],
            ),
            (
                json!({"host": "127.0.0.1", "scheme": "http", "ports": [8080]}),
                &["http://127.0.0.1:8080"],
            ),
            // Only this machine is asked without TLS.
            (json!({"host": "a.example", "scheme": "http"}), &[]),
            (json!({"host": "*"}), &[]),
            (json!({"host": "*.a.example"}), &[]),
            (json!({"host": "a.example/path"}), &[]),
            (json!({"host": "a.example", "scheme": "ftp"}), &[]),
        ] {
            let capabilities = json!({"wasi:http": {"constraints": [constraint]}});
            let requests = manifest("acting", &capabilities).unwrap().requests;
            let found: Vec<String> = requests.http.iter().map(ToString::to_string).collect();
            assert_eq!(found, origins, "{constraint}");
            assert_eq!(requests.any_origin, origins.is_empty(), "{constraint}");
        }
    }

    fn listed(schema: &str, session: Option<&str>) -> Result<ToolList, TypedError> {
        let tool = AnsweredTool {
            name: "go".to_owned(),
            schema: schema.to_owned(),
            ..AnsweredTool::default()
        };
        let session = session.map(str::to_owned);
        ToolList::new(&component("acting", &json!({})), Answer { tools: vec![tool], session })
    }

    #[test]
    fn the_argument_of_a_session_is_added() {
        let open =
            r#"{"type": "object", "properties": {"of": {"type": "string"}}, "required": ["of"]}"#;
        let list = listed(r#"{"type": "object"}"#, Some(open)).unwrap().to_text().unwrap();
        let bytes = component("acting", &json!({}));
        let beside = Beside { list: Some(list), ..Beside::default() };
        let manifest = typed::derive(&bytes, "called", &beside).unwrap().manifest;
        let session = &manifest.tools[0].input["properties"][SESSION];
        assert_eq!(session["properties"]["of"]["type"], "string");
        assert!(session.get("required").is_none());
        for (schema, open) in [
            ("{", None),
            (r#"{"type": "array"}"#, None),
            (r#"{"type": "object", "properties": {"session": {}}}"#, Some(open)),
            (r#"{"type": "object"}"#, Some("[]")),
        ] {
            assert!(listed(schema, open).is_err(), "{schema} {open:?}");
        }
        assert!(listed(r#"{"type": "object", "properties": {"session": {}}}"#, None).is_ok());
    }
}
