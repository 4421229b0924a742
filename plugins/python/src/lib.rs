//! The `python` plugin: runs Python scripts that call the other tools, and finds tools for them.
//!
//! | module | is for |
//! |---|---|
//! | [`check`] | how a script calls tools, before it runs |
//! | [`typed`], [`stubs`] | the types of what it uses, by a type checker |
//! | [`source`] | what is looked at in a script, and changed, before it runs |
//! | [`script`] | running a script: names, calls, results |
//! | [`calls`] | the tools as a script sees them: names, arguments, failures |
//! | [`value`] | values of Python as JSON, and back |
//! | [`printed`] | what a script prints |
//! | [`error`] | why a script failed, for the model that wrote it |
//! | [`types`], [`signature`] | JSON Schemas as types of Python |
//!
//! The interpreter is Monty. It has no access to anything: a call of a tool pauses it, and this plugin
//! makes the call through the host, which decides about it. Nothing here is trusted by the host.

mod calls;
mod check;
mod error;
mod printed;
mod script;
mod signature;
mod source;
mod stubs;
mod typed;
mod types;
mod value;

use std::collections::BTreeMap;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::checkers;
use cofferdam_sdk::backend::linting::Finding;
use cofferdam_sdk::tools::{self, Changes, Failure, Request, Tool};
use cofferdam_sdk::{Context, ToolError, plugin};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The number of tools that a search returns by default.
const DEFAULT_LIMIT: u32 = 5;

/// The tools of the host. Tests have others.
pub trait Host {
    /// Calls tools, and returns their results in the same order.
    fn call(&self, requests: &[Request]) -> Vec<Result<String, Failure>>;
    /// The qualified names of all tools, sorted.
    fn names(&self) -> Vec<String>;
    /// The best tools for a query.
    fn search(&self, query: &str, max: u32) -> Vec<Tool>;
    /// A tool by its qualified name.
    fn get(&self, name: &str) -> Option<Tool>;
    /// The files that were changed.
    fn changed(&self) -> Changes;
    /// Checks the first of some texts of Python, each with its path. `None` if there is no checker.
    fn check(&self, sources: &[(String, String)]) -> Option<Result<Vec<Finding>, Error>>;
}

/// The host that runs this plugin.
struct Outside;

impl Host for Outside {
    fn call(&self, requests: &[Request]) -> Vec<Result<String, Failure>> {
        tools::call(requests)
    }

    fn names(&self) -> Vec<String> {
        tools::names()
    }

    fn search(&self, query: &str, max: u32) -> Vec<Tool> {
        tools::search(query, max)
    }

    fn get(&self, name: &str) -> Option<Tool> {
        tools::get(name)
    }

    fn changed(&self) -> Changes {
        tools::changed()
    }

    fn check(&self, sources: &[(String, String)]) -> Option<Result<Vec<Finding>, Error>> {
        checkers::check("python", sources)
    }
}

/// The arguments of `run_python`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunArgs {
    /// The script.
    pub code: String,
    /// Variables of the script.
    #[serde(default)]
    pub inputs: Map<String, Value>,
    /// Whether the script is checked, and whether it runs.
    #[serde(default)]
    pub check: CheckMode,
}

/// Whether a script is checked, and whether it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckMode {
    /// It is checked before it runs.
    #[default]
    Before,
    /// It is checked and does not run.
    Only,
    /// It runs without a check.
    No,
}

/// The result of `run_python`.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct RunOutput {
    /// The value of the last line.
    pub value: Value,
    /// What the script printed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub printed: String,
    /// The number of calls by tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub calls: BTreeMap<String, u32>,
    /// The first changed files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The number of further changed files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_changed: Option<u32>,
    /// What the author may have overlooked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The arguments of `search_tools`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchArgs {
    /// Words; without them, all names are listed.
    #[serde(default)]
    pub query: String,
    /// The largest number of tools.
    pub limit: Option<u32>,
}

/// The result of `search_tools`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct SearchOutput {
    /// Signatures, or names.
    pub tools: String,
}

/// The plugin: each function is a tool.
pub struct Python;

impl Python {
    fn run_python(args: RunArgs, _: &Context) -> Result<RunOutput, ToolError> {
        script::run(args, &Outside)
    }

    fn search_tools(args: SearchArgs, _: &Context) -> Result<SearchOutput, ToolError> {
        Ok(search(&args, &Outside))
    }
}

plugin!(Python { run_python, search_tools });

fn search(args: &SearchArgs, host: &dyn Host) -> SearchOutput {
    let limit = args.limit.unwrap_or(DEFAULT_LIMIT);
    if args.query.trim().is_empty() {
        return SearchOutput { tools: host.names().join("\n") };
    }
    let found = host.search(&args.query, limit);
    if found.is_empty() {
        let names = host.names().join(", ");
        return SearchOutput { tools: format!("No tool matches. There are: {names}") };
    }
    let found: Vec<String> = found.iter().map(signature::of_tool).collect();
    SearchOutput { tools: found.join("\n") }
}

#[cfg(test)]
mod tests;
