//! The tools as a script sees them: modules and functions, keywords for arguments, failures.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::Finding;
use cofferdam_sdk::tools::{Failure, Request};
use monty_types::{
    DictPairs, ExcType, MontyClassInstance, MontyClassType, MontyException, MontyObject, MontyUuid,
};
use serde_json::{Map, Value};

use crate::Host;
use crate::types::{self, Field, python_name};
use crate::value::{from_json, to_json};

/// The largest distance of a name that is suggested.
const MAX_DISTANCE: usize = 3;

/// The exception that stands for a failure of a tool ([`crate::source`]).
const TOOL_ERROR: ExcType = ExcType::RuntimeError;

/// The arguments of a tool.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    /// The arguments, by their names in Python. Other names that the tool takes are there as well.
    pub fields: BTreeMap<String, Field>,
    /// The argument that another name stands for.
    pub aliases: BTreeMap<String, String>,
    /// The arguments that a call of a script gets unless it gives them itself, by their names in JSON:
    /// without them, the tool returns a short result for a model, and a script needs all of it.
    pub defaults: Map<String, Value>,
    /// Whether the tool takes any others.
    pub is_open: bool,
    /// The JSON Schema of the result.
    pub output: String,
}

impl Signature {
    /// The arguments of a tool with these schemas.
    pub fn new(input: &Value, output: String) -> Self {
        let (fields, is_open) = types::fields(input);
        let (mut all, mut other) = (BTreeMap::new(), BTreeMap::new());
        for field in fields {
            let aliases = input["properties"][&field.name]["x-aliases"].as_array();
            let aliases = aliases.into_iter().flatten().filter_map(Value::as_str);
            for alias in aliases {
                let field = field.clone();
                other.insert(python_name(alias), field.name.clone());
                let field = Field { name: alias.to_owned(), is_required: false, ..field };
                all.insert(python_name(alias), field);
            }
            all.insert(python_name(&field.name), field);
        }
        let defaults = input["x-scripts"].as_object().cloned().unwrap_or_default();
        Self { fields: all, aliases: other, defaults, is_open, output }
    }

    /// The name in JSON of the argument that a keyword stands for.
    pub fn own_name(&self, keyword: &str) -> Option<&str> {
        let field = self.fields.get(keyword)?;
        Some(self.aliases.get(keyword).unwrap_or(&field.name))
    }

    /// The keywords of the arguments that are not other names of one: `path=..., text=...`.
    pub fn keywords(&self) -> String {
        let names = self.fields.keys().filter(|name| !self.aliases.contains_key(*name));
        names.map(|name| format!("{name}=...")).collect::<Vec<_>>().join(", ")
    }
}

/// The tools of a script, and the calls that it has made.
pub struct Calls<'a> {
    host: &'a dyn Host,
    /// Functions by module and name, with the tool's qualified name. Read once a name is used.
    modules: Option<BTreeMap<String, BTreeMap<String, String>>>,
    /// The arguments of the tools that were used.
    signatures: HashMap<String, Signature>,
    /// The failures that scripts can ask about, by the text of their exceptions.
    failures: HashMap<String, Failure>,
    counts: BTreeMap<String, u32>,
    /// The tools that returned only a part of what there is.
    partial: BTreeSet<String>,
}

impl<'a> Calls<'a> {
    /// The tools of `host`.
    pub fn new(host: &'a dyn Host) -> Self {
        Self {
            host,
            modules: None,
            signatures: HashMap::new(),
            failures: HashMap::new(),
            counts: BTreeMap::new(),
            partial: BTreeSet::new(),
        }
    }

    /// The number of calls by tool.
    pub fn into_counts(self) -> BTreeMap<String, u32> {
        self.counts
    }

    /// Functions by module and name, with the tool's qualified name.
    pub fn modules(&mut self) -> &BTreeMap<String, BTreeMap<String, String>> {
        let host = self.host;
        self.modules.get_or_insert_with(|| {
            let mut modules: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
            for name in host.names() {
                if let Some((plugin, tool)) = name.split_once('.') {
                    let functions = modules.entry(python_name(plugin)).or_default();
                    functions.insert(python_name(tool), name.clone());
                }
            }
            modules
        })
    }

    /// The module of this name, as an object whose functions are the tools of one plugin.
    pub fn module(&mut self, name: &str) -> Option<MontyObject> {
        let index = self.modules().keys().position(|own| own == name)?;
        let id = MontyUuid::from_u128(index as u128 + 1);
        Some(MontyObject::ClassInstance(Box::new(MontyClassInstance {
            class_type: MontyClassType {
                name: name.to_owned(),
                id,
                host_defined: true,
                is_dataclass: false,
                attrs: DictPairs::from(Vec::new()),
            },
            instance_id: id,
            attrs: DictPairs::from(Vec::new()),
        })))
    }

    /// The tool that a function of a module stands for.
    ///
    /// # Errors
    /// `AttributeError` with the nearest function.
    pub fn tool(&mut self, module: MontyUuid, function: &str) -> Result<String, MontyException> {
        let index = u128::from_be_bytes(*module.as_bytes()).saturating_sub(1);
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let module = self.modules().keys().nth(index).cloned().unwrap_or_default();
        let found = self.function(&module, function);
        found.map_err(|message| exception(ExcType::AttributeError, message))
    }

    /// The tool that a function of a module stands for.
    ///
    /// # Errors
    /// What is wrong, with the nearest function.
    pub fn function(&mut self, module: &str, function: &str) -> Result<String, String> {
        let none = BTreeMap::new();
        let functions = self.modules().get(module).unwrap_or(&none);
        functions.get(function).cloned().ok_or_else(|| {
            let all = functions.keys().map(String::as_str);
            match nearest(function, all.clone()) {
                Some(near) => {
                    format!("'{module}' has no tool '{function}'; did you mean {module}.{near}?")
                }
                None => {
                    let all: Vec<&str> = all.collect();
                    format!("'{module}' has no tool '{function}'; it has {}", all.join(", "))
                }
            }
        })
    }

    /// The `NameError` of an undefined name, with a tool that may be meant.
    pub fn undefined(&mut self, name: &str) -> MontyException {
        let modules = self.modules();
        let of_function = modules.iter().find_map(|(module, functions)| {
            functions.contains_key(name).then(|| format!("{module}.{name}"))
        });
        let near = of_function
            .or_else(|| nearest(name, modules.keys().map(String::as_str)).map(str::to_owned));
        let message = match near {
            Some(near) => format!("name '{name}' is not defined; did you mean {near}?"),
            None => format!("name '{name}' is not defined"),
        };
        exception(ExcType::NameError, message)
    }

    /// The request of a call by a script.
    ///
    /// # Errors
    /// `TypeError` for arguments that are not keywords or not JSON.
    pub fn request(
        &mut self,
        tool: String,
        args: &[MontyObject],
        keywords: &[(MontyObject, MontyObject)],
    ) -> Result<Request, MontyException> {
        if !args.is_empty() {
            let keywords = self.signature(&tool).keywords();
            let message = format!("{tool} takes keywords only: {tool}({keywords})");
            return Err(exception(ExcType::TypeError, message));
        }
        let mut arguments = Map::new();
        for (name, value) in keywords {
            let MontyObject::String(name) = name else {
                return Err(exception(ExcType::TypeError, "keywords must be strings"));
            };
            let value = to_json(value).map_err(|what| {
                exception(ExcType::TypeError, format!("{tool}: the argument {name}: {what}"))
            })?;
            let fields = &self.signature(&tool).fields;
            let name = fields.get(name).map_or(name, |field| &field.name).clone();
            arguments.insert(name, value);
        }
        for (name, value) in &self.signature(&tool).defaults {
            if !arguments.contains_key(name) {
                arguments.insert(name.clone(), value.clone());
            }
        }
        Ok(Request { tool, args: Value::Object(arguments).to_string() })
    }

    /// The arguments of a tool. For a tool that can't be called, any arguments are accepted: the call fails.
    pub fn signature(&mut self, tool: &str) -> &Signature {
        let host = self.host;
        self.signatures.entry(tool.to_owned()).or_insert_with(|| {
            let found = host.get(tool).and_then(|tool| {
                let input = serde_json::from_str::<Value>(&tool.input).ok()?;
                Some(Signature::new(&input, tool.output))
            });
            found.unwrap_or(Signature { is_open: true, ..Signature::default() })
        })
    }

    /// Checks a script together with stubs. `None` if there is no checker.
    pub fn check(&self, sources: &[(String, String)]) -> Option<Result<Vec<Finding>, Error>> {
        self.host.check(sources)
    }

    /// Makes calls, and counts them.
    pub fn make(&mut self, requests: &[Request]) -> Vec<Result<MontyObject, MontyException>> {
        for request in requests {
            *self.counts.entry(request.tool.clone()).or_default() += 1;
        }
        let results = requests.iter().zip(self.host.call(requests));
        results.map(|(request, result)| self.result(&request.tool, result)).collect()
    }

    /// A note about results that were only a part of what there is.
    pub fn note(&self) -> Option<String> {
        let tools: Vec<&str> = self.partial.iter().map(String::as_str).collect();
        let tools = (!tools.is_empty()).then(|| tools.join(", "))?;
        Some(format!(
            "{tools} returned only a part (`truncated`, `left_out`): narrow it, or get the rest"
        ))
    }

    fn result(
        &mut self,
        tool: &str,
        result: Result<String, Failure>,
    ) -> Result<MontyObject, MontyException> {
        match result {
            Ok(text) => match serde_json::from_str::<Value>(&text) {
                Ok(value) => {
                    if value["truncated"] == true || value["left_out"].is_string() {
                        self.partial.insert(tool.to_owned());
                    }
                    Ok(from_json(value))
                }
                Err(error) => Err(exception(ExcType::ValueError, format!("the result: {error}"))),
            },
            Err(failure) => {
                let text = format!("{}: {}", failure.code, failure.message);
                self.failures.insert(text.clone(), failure);
                Err(exception(TOOL_ERROR, text))
            }
        }
    }

    /// Whether this is the text of a failure of a tool.
    pub fn is_failure(&self, text: &str) -> bool {
        self.failures.contains_key(text)
    }

    /// An attribute of an exception: `code`, `message` or `detail`.
    ///
    /// # Errors
    /// `AttributeError` if it is not that of a tool.
    pub fn attribute(
        &self,
        of: Option<&MontyObject>,
        name: &str,
    ) -> Result<MontyObject, MontyException> {
        let (kind, text) = match of {
            Some(MontyObject::Exception { exc_type, arg }) => {
                (exc_type.to_string(), arg.as_deref().unwrap_or_default())
            }
            _ => ("object".to_owned(), ""),
        };
        let Some(failure) = self.failures.get(text) else {
            let message = format!("'{kind}' object has no attribute '{name}'");
            return Err(exception(ExcType::AttributeError, message));
        };
        Ok(match name {
            "code" => MontyObject::String(failure.code.clone()),
            "message" => MontyObject::String(failure.message.clone()),
            _ => {
                let detail = failure.detail.as_deref();
                let detail = detail.and_then(|detail| serde_json::from_str(detail).ok());
                detail.map_or(MontyObject::None, from_json)
            }
        })
    }
}

/// An exception without a traceback.
pub fn exception(kind: ExcType, message: impl Into<String>) -> MontyException {
    MontyException::new(kind, Some(message.into()))
}

/// The name that is most like `name`.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |other: &str| strsim::damerau_levenshtein(name, other);
    let near = names.map(|other| (distance(other), other)).min()?;
    (near.0 <= MAX_DISTANCE.min(name.len() / 2)).then_some(near.1)
}
