//! Derives a manifest from the types of a component's exported functions, so that components made
//! for other hosts can be used as plugins.
//!
//! It maps bytes to a manifest, without I/O. Types come from wasmparser's validator, which reads a
//! component's types and skips the bodies of functions; nothing is compiled or run. [`schema`]
//! defines the JSON form of each type; [`cofferdam_engine::runtime`] converts by the same rules.

pub mod act;
mod beside;
mod docs;
mod generation;
mod schema;
pub mod wit;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, json};
use wasmparser::component_types::{
    ComponentAnyTypeId, ComponentDefinedTypeId, ComponentEntityType, ComponentFuncTypeId,
    ComponentItem,
};
use wasmparser::types::{Types, TypesRef};
use wasmparser::{Parser, Payload, ValidPayload, Validator, WasmFeatures};

use super::manifest::{Manifest, ManifestError, Tool, is_name};
use beside::Texts;
pub use beside::{Beside, ENDINGS};
use cofferdam_core::envelope::Dialect;
use cofferdam_core::policy::{Capabilities, Files, LimitSettings};
use cofferdam_text::shorten;
use docs::{Docs, TypeDocs};
pub use generation::Generation;
use schema::Schemas;
pub use schema::{MAX_NAME_BYTES, MAX_TYPES};

/// The largest number of exported functions.
const MAX_FUNCTIONS: usize = 1_000;

/// The number of unusable functions that an error names.
const MAX_NAMED_FUNCTIONS: usize = 5;

/// The longest description in bytes.
const MAX_DESCRIPTION_BYTES: usize = 4 << 10;

/// The longest exported name of a tool (see [`Manifest::problems`]).
const MAX_EXPORTED_NAME_BYTES: usize = 64;

/// A derived manifest, and what it leaves out.
#[derive(Debug, Clone, PartialEq)]
pub struct Derived {
    /// The derived manifest itself.
    pub manifest: Manifest,
    /// The functions that can't be tools.
    pub left_out: Vec<LeftOut>,
    /// Documentation in the component or beside it that can't be used, and why.
    pub unread: Vec<String>,
}

/// An exported function that can't be a tool.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftOut {
    /// Its name, after that of its interface.
    pub function: String,
    /// The reason in words.
    pub why: String,
}

/// A component from which no manifest can be derived.
#[derive(Debug, thiserror::Error)]
pub enum TypedError {
    /// Not WebAssembly, or cut off.
    #[error("not a WebAssembly component: {0}")]
    Malformed(String),
    /// It is made for this host, or exports no function.
    #[error("the component has no manifest; pack it with `cofferdam plugin pack`")]
    NoManifest,
    /// The derived manifest is invalid.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// None of its functions can be a tool.
    #[error("the component has no manifest, and no function that it exports can be a tool: {}", in_words(.0))]
    NoTool(Vec<LeftOut>),
    /// Two of its functions would be the same tool.
    #[error(
        "the component has no manifest, and its functions '{0}' and '{1}' would both be the tool '{2}'"
    )]
    Clash(String, String, String),
    /// It exports too many functions.
    #[error("the component has no manifest, and exports more than {MAX_FUNCTIONS} functions")]
    TooMany,
    /// It is a component of ACT that can't be used.
    #[error("the component of ACT {0}")]
    Act(String),
    /// It is a component of ACT whose tools are not known yet. Its manifest is complete without them.
    #[error(
        "the component of ACT lists its tools when it runs, and was not asked for them; `cofferdam plugin install` does so, once"
    )]
    Unlisted(Box<Manifest>),
    /// The file name gives no valid plugin name.
    #[error("the component has no manifest, so it is called as its file is; '{}' gives no name: rename it to something that begins with a letter", shorten(.0, 80))]
    Name(String),
}

fn in_words(left_out: &[LeftOut]) -> String {
    let mut words: Vec<String> = left_out
        .iter()
        .take(MAX_NAMED_FUNCTIONS)
        .map(|LeftOut { function, why }| format!("{function} {why}"))
        .collect();
    if left_out.len() > MAX_NAMED_FUNCTIONS {
        words.push(format!("and {} more", left_out.len() - MAX_NAMED_FUNCTIONS));
    }
    words.join("; ")
}

/// The tool names for all functions of a component, each the name of its interface, if any, and its
/// own: `add`, or `calculator_add` for one of the interface `docs:example/calculator@0.1.0`. No words
/// are doubled: the interface is left out if the function's name has its words (`weather` and
/// `get-weather`), or if it is called as the plugin is, unless two functions would have one name then.
///
/// `None` if there is no valid name: methods, and names that are not WIT.
pub fn tool_names(plugin: &str, functions: &[(Option<&str>, &str)]) -> Vec<Option<String>> {
    let shortest = |&(interface, function): &(Option<&str>, &str)| match interface {
        Some(interface) if !says_it(plugin, short(interface), function) => {
            tool_name(Some(interface), function)
        }
        _ => tool_name(None, function),
    };
    let names: Vec<Option<String>> = functions.iter().map(shortest).collect();
    let mut uses: HashMap<&Option<String>, usize> = HashMap::new();
    for name in &names {
        *uses.entry(name).or_default() += 1;
    }
    let is_alone = |name: &Option<String>| uses.get(name) == Some(&1);
    let whole = |(name, (interface, function)): (&Option<String>, &(Option<&str>, &str))| {
        if is_alone(name) { name.clone() } else { tool_name(*interface, function) }
    };
    names.iter().zip(functions).map(whole).collect()
}

/// Whether the name of a plugin or a function has the words of an interface already.
fn says_it(plugin: &str, interface: &str, function: &str) -> bool {
    let words: Vec<&str> = interface.split('-').collect();
    let of_function: Vec<&str> = function.split('-').collect();
    plugin.replace('_', "-") == interface
        || of_function.windows(words.len()).any(|window| window == words)
}

/// The whole tool name for a function. WIT's own names have no `_`.
///
/// `None` if there is no valid name.
pub fn tool_name(interface: Option<&str>, function: &str) -> Option<String> {
    let name = match interface {
        None => function.to_owned(),
        Some(interface) => format!("{}_{function}", short(interface)),
    };
    Some(name.to_ascii_lowercase()).filter(|name| is_name(name))
}

/// The name of an interface without its package and version.
fn short(interface: &str) -> &str {
    let name = interface.rsplit_once('/').map_or(interface, |(_, name)| name);
    name.split('@').next().unwrap_or(name)
}

/// The plugin name for a file name: its valid characters up to the first dot, `@` or `:`.
fn plugin_name(called: &str) -> Result<String, TypedError> {
    let stem = called.split(['.', '@', ':']).next().unwrap_or_default();
    let mut name = String::new();
    for c in stem.chars() {
        let c = c.to_ascii_lowercase();
        let is_sign = !(c.is_ascii_lowercase() || c.is_ascii_digit());
        if is_sign && (name.is_empty() || name.ends_with(['-', '_'])) {
            continue;
        }
        name.push(if is_sign && c != '_' { '-' } else { c });
    }
    let name = name.trim_end_matches(['-', '_']).to_owned();
    if is_name(&name) { Ok(name) } else { Err(TypedError::Name(called.to_owned())) }
}

/// Derives the manifest of a component without one. `called` is the name of its file or repository,
/// `beside` what the files beside it say.
///
/// # Errors
/// Those of [`TypedError`].
pub fn derive(component: &[u8], called: &str, beside: &Beside) -> Result<Derived, TypedError> {
    let Component { types, imports, exports, sections } =
        Component::read(component, WasmFeatures::all())?;
    let types = types.as_ref();
    let is_ours = |name: &String| name.starts_with("cofferdam:");
    if exports.iter().any(is_ours) {
        return Err(TypedError::NoManifest);
    }
    if act::exported(exports.iter().map(String::as_str)).is_some() {
        return act::derive(component, &sections, called, beside);
    }
    let name = plugin_name(called)?;
    let (docs, texts, mut unread) = descriptions(beside, sections.get(docs::SECTION).copied());
    let functions = functions(types, &exports);
    if functions.is_empty() {
        return Err(TypedError::NoManifest);
    }
    if functions.len() > MAX_FUNCTIONS {
        return Err(TypedError::TooMany);
    }
    let requests = requests(&imports);
    let mut schemas = Schemas::new(types, type_docs(types, &imports, &exports, &docs));
    let called: Vec<_> =
        functions.iter().map(|function| (function.interface, function.name)).collect();
    let mut names = tool_names(&name, &called).into_iter();
    let tool = |function: &Function<'_>| {
        let tool_name = names.next().flatten();
        let tool = function.tool((&name, tool_name), &docs, &mut schemas)?;
        Ok(Tool { effects: requests.files, ..tool })
    };
    let (mut tools, left_out) = tools(&functions, tool)?;
    texts.describe(&mut tools, &mut unread);
    let said = |name: &str| {
        let section = sections.get(name)?;
        let text = str::from_utf8(section).ok()?.trim();
        (!text.is_empty()).then(|| shorten(text, MAX_DESCRIPTION_BYTES))
    };
    let described = texts.description.as_deref().map(first_line);
    let described = described
        .or_else(|| said("description"))
        .or_else(|| docs.component().map(first_line))
        .unwrap_or_else(|| named(&tools));
    let manifest = Manifest {
        name,
        version: said("version")
            .filter(|text| is_version(text))
            .unwrap_or_else(|| version(&exports)),
        description: described,
        license: said("licenses"),
        qualified: false,
        target: false,
        requests,
        as_granted: true,
        limits: LimitSettings::default(),
        tools,
        backends: Vec::new(),
    };
    manifest.check()?;
    Ok(Derived { manifest, left_out, unread })
}

/// A description by the names of the tools.
fn named(tools: &[Tool]) -> String {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    shorten(&format!("A component that exports {}.", names.join(", ")), 200)
}

/// What is written about a component: in the files beside it, or its section with comments. Also
/// returns what can't be read of it.
fn descriptions(beside: &Beside, section: Option<&[u8]>) -> (Docs, Texts, Vec<String>) {
    let mut unread = beside.unread.clone();
    let mut readable = |docs: Result<Docs, String>| docs.map_err(|why| unread.push(why)).ok();
    let of_section = section.map(|section| {
        Docs::read(section).map_err(|why| format!("its section package-docs: {why}"))
    });
    let docs = beside.docs().and_then(&mut readable);
    let docs = docs.or_else(|| of_section.and_then(readable)).unwrap_or_default();
    let texts = beside.texts().unwrap_or_else(|why| {
        unread.push(why);
        Texts::default()
    });
    (docs, texts, unread)
}

/// The functions as tools, by name, and those that can't be tools.
fn tools(
    functions: &[Function<'_>],
    mut tool: impl FnMut(&Function<'_>) -> Result<Tool, String>,
) -> Result<(Vec<Tool>, Vec<LeftOut>), TypedError> {
    let mut tools = BTreeMap::<String, (String, Tool)>::new();
    let mut left_out = Vec::new();
    for function in functions {
        match tool(function) {
            Err(why) => left_out.push(LeftOut { function: function.to_string(), why }),
            Ok(tool) => {
                let clash = tools.insert(tool.name.clone(), (function.to_string(), tool));
                if let Some((other, Tool { name, .. })) = clash {
                    return Err(TypedError::Clash(other, function.to_string(), name));
                }
            }
        }
    }
    if tools.is_empty() {
        return Err(TypedError::NoTool(left_out));
    }
    Ok((tools.into_values().map(|(_, tool)| tool).collect(), left_out))
}

/// The capabilities that follow from its imports. All other capabilities need a manifest.
fn requests(imports: &[String]) -> Capabilities {
    let imports_any = |package: &str| imports.iter().any(|import| import.starts_with(package));
    Capabilities {
        files: if imports_any("wasi:filesystem/") { Files::Write } else { Files::None },
        any_origin: imports_any("wasi:http/"),
        ..Capabilities::NONE
    }
}

/// The common version of all exported interfaces.
fn version(exports: &[String]) -> String {
    let mut versions: Vec<&str> =
        exports.iter().filter_map(|name| Some(name.split_once('@')?.1)).collect();
    versions.dedup();
    match versions.as_slice() {
        [version] if is_version(version) => (*version).to_owned(),
        _ => "0.0.0".to_owned(),
    }
}

fn is_version(text: &str) -> bool {
    let number = text.split(['-', '+']).next().unwrap_or_default();
    text.len() <= 64
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+'))
        && number.split('.').count() == 3
        && number.split('.').all(|part| part.parse::<u64>().is_ok())
}

fn first_line(text: &str) -> String {
    shorten(text.lines().next().unwrap_or_default().trim(), 200)
}

/// An exported function with its type.
struct Function<'a> {
    interface: Option<&'a str>,
    name: &'a str,
    types: TypesRef<'a>,
    id: ComponentFuncTypeId,
}

impl std::fmt::Display for Function<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.interface {
            None => f.write_str(self.name),
            Some(interface) => write!(f, "{interface}#{}", self.name),
        }
    }
}

/// All exported functions: those of the component itself, and of its interfaces.
fn functions<'a>(types: TypesRef<'a>, exports: &'a [String]) -> Vec<Function<'a>> {
    let mut functions = Vec::new();
    for export in exports {
        match types.component_item_for_export(export).map(|item| item.ty) {
            Some(ComponentEntityType::Func(id)) => {
                functions.push(Function { interface: None, name: export, types, id });
            }
            Some(ComponentEntityType::Instance(id)) => {
                for (name, item) in types.get(id).into_iter().flat_map(|instance| &instance.exports)
                {
                    if let ComponentEntityType::Func(id) = item.ty {
                        functions.push(Function { interface: Some(export), name, types, id });
                    }
                }
            }
            _ => {}
        }
    }
    functions
}

impl Function<'_> {
    fn check(&self) -> Result<(), String> {
        let why = if self.interface.is_some_and(|name| name.starts_with("wasi:cli/run@")) {
            "is a command, which has no types but arguments and streams"
        } else if self.interface == Some("exports") && self.name == "init" {
            "is for componentize-py, when it builds the component"
        } else if self.name.contains('[') {
            "belongs to a resource, which would not outlive a call"
        } else {
            return Ok(());
        };
        Err(why.to_owned())
    }

    /// The function as a tool of the plugin, or why it can't be one.
    fn tool(
        &self,
        (plugin, name): (&str, Option<String>),
        docs: &Docs,
        schemas: &mut Schemas<'_>,
    ) -> Result<Tool, String> {
        self.check()?;
        let name = name.ok_or("has a name that no tool can have".to_owned())?;
        if plugin.len() + "__".len() + name.len() > MAX_EXPORTED_NAME_BYTES {
            return Err(format!(
                "would be '{plugin}__{name}' for clients, who take at most {MAX_EXPORTED_NAME_BYTES} characters"
            ));
        }
        let function = self.types.get(self.id).ok_or("has no type".to_owned())?;
        schemas.begin();
        let names = function.params.iter().map(|(name, _)| name.as_str());
        schemas.name(names).map_err(|why| format!("takes {why}"))?;
        let mut properties = Map::new();
        let mut required = Vec::new();
        for (parameter, ty) in &function.params {
            let schema = schemas.of(ty).map_err(|why| format!("takes {why} ('{parameter}')"))?;
            properties.insert(parameter.to_string(), schema);
            if !schemas.is_option(ty) {
                required.push(json!(parameter.as_str()));
            }
        }
        let (answer, failure) = match &function.result {
            None => (None, None),
            Some(ty) => match schemas.result(ty) {
                None => (Some(*ty), None),
                Some((ok, error)) => (ok, Some(error)),
            },
        };
        let answer = answer.map(|ty| schemas.of(&ty)).transpose();
        let failure = failure.flatten().map(|ty| schemas.of(&ty)).transpose();
        let answers = |why: String| format!("answers {why}");
        let documented = docs.function(self.interface.map(short), self.name);
        let whose = match self.interface {
            None => "the component".to_owned(),
            Some(interface) => format!("the interface {interface}"),
        };
        let words = self.name.replace('-', " ");
        Ok(Tool {
            title: words.clone(),
            description: documented.map_or_else(
                || format!("The function {} of {whose}.", self.name),
                |docs| shorten(docs.trim(), MAX_DESCRIPTION_BYTES),
            ),
            name,
            effects: Files::None,
            agents: false,
            done: format!("{words} called"),
            dialect: Dialect::default(),
            fallbacks: BTreeMap::new(),
            repeats: None,
            input: schema::object(properties, required).into(),
            output: schema::with_content(schema::wrapped("result", answer.map_err(answers)?))
                .into(),
            failure: failure
                .map_err(answers)?
                .map(|error| schema::wrapped("error", Some(error)).into()),
            examples: Vec::new(),
        })
    }
}

/// The documentation of the named types in all imports and exports of a component.
fn type_docs<'a>(
    types: TypesRef<'a>,
    imports: &[String],
    exports: &[String],
    docs: &'a Docs,
) -> HashMap<ComponentDefinedTypeId, &'a TypeDocs> {
    let mut known = HashMap::new();
    let mut learn = |interface: Option<&str>, name: &str, item: &ComponentItem| {
        if let ComponentEntityType::Type { created: ComponentAnyTypeId::Defined(id), .. } = item.ty
            && let Some(docs) = docs.ty(interface, name)
        {
            known.insert(id, docs);
        }
    };
    let imported = imports.iter().map(|name| (name, types.component_item_for_import(name)));
    let exported = exports.iter().map(|name| (name, types.component_item_for_export(name)));
    for (name, item) in imported.chain(exported) {
        let Some(item) = item else { continue };
        learn(None, name, item);
        if let ComponentEntityType::Instance(id) = item.ty {
            for (of_type, item) in types.get(id).into_iter().flat_map(|instance| &instance.exports)
            {
                learn(Some(short(name)), of_type, item);
            }
        }
    }
    known
}

/// The outermost layer of a component.
struct Component<'a> {
    types: Types,
    imports: Vec<String>,
    exports: Vec<String>,
    /// The first custom section of each name.
    sections: HashMap<&'a str, &'a [u8]>,
}

impl<'a> Component<'a> {
    /// Reads it with these features. The engine itself refuses unsupported ones with a specific
    /// message.
    fn read(component: &'a [u8], features: WasmFeatures) -> Result<Self, TypedError> {
        let malformed =
            |error: wasmparser::BinaryReaderError| TypedError::Malformed(error.to_string());
        let mut validator = Validator::new_with_features(features);
        let (mut imports, mut exports) = (Vec::new(), Vec::new());
        let mut sections = HashMap::new();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(component) {
            let payload = payload.map_err(malformed)?;
            let done = validator.payload(&payload).map_err(malformed)?;
            match payload {
                Payload::Version { .. } => depth += 1,
                Payload::CustomSection(section) if depth == 1 => {
                    sections.entry(section.name()).or_insert(section.data());
                }
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section {
                        imports.push(import.map_err(malformed)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section {
                        exports.push(export.map_err(malformed)?.name.name.to_owned());
                    }
                }
                _ => {}
            }
            if let ValidPayload::End(types) = done {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Ok(Self { types, imports, exports, sections });
                }
            }
        }
        Err(TypedError::Malformed("it is cut off".to_owned()))
    }
}

#[cfg(test)]
mod tests;
