//! Agent definitions: a role and the agent's initial prompt in one YAML file (the lint agent,
//! `lint_subagent.yaml`). docs/agents.md describes the format.
//!
//! A definition names tools, defines its own names for them, may restrict their arguments, and is
//! bound to one file, its target, when it is used. Like every role it can only restrict. This
//! module does not read the file and does not run context providers.

mod prompt;
mod size;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

pub use prompt::Prompt;

use crate::name::ToolNameError;
use crate::policy::{PolicyError, Role, RoleSettings};
use crate::schema::Schema;

/// The template variable with the target, relative to the workspace (the lint agent: the runner
/// injects the `node_id`, which determines the file).
pub const NODE_ID: &str = "node_id";

/// An agent definition as written in the file.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Agent definition")]
pub struct Definition {
    /// The name of the agent and of its role: letters, digits, `_` and `-`, at most 64.
    pub name: String,
    /// What the agent is for.
    #[serde(default)]
    pub description: String,
    /// The model that it is made for; passed on unchanged.
    #[serde(default)]
    pub model: Option<String>,
    /// The largest number of model turns; passed on unchanged.
    #[serde(default)]
    pub max_turns: Option<NonZeroU32>,
    /// The files and directories that it may access, relative to the workspace, as templates with
    /// the variable `node_id`. Tools bound to one file work on the first.
    #[serde(default = "the_target")]
    pub scope: Vec<String>,
    /// The initial prompt of the agent.
    pub initial_context: InitialContext,
    /// Template variables besides `node_id`: the answers of read-only tools.
    #[serde(default)]
    pub context_providers: BTreeMap<String, Provider>,
    /// The tools of the agent.
    pub tools: Vec<AgentTool>,
}

fn the_target() -> Vec<String> {
    vec!["{{ node_id }}".to_owned()]
}

/// The initial prompt of an agent. Templates in Jinja's syntax with the variables `node_id` and the
/// context providers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitialContext {
    /// How the agent should work.
    pub system_prompt: String,
    /// What the agent should work on.
    #[serde(default)]
    pub node_context: String,
}

/// The source of a template variable.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// The qualified name of the tool that is called.
    pub tool: String,
    /// The arguments of the call.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// The field of its answer that is used; by default the whole answer.
    #[serde(default)]
    pub field: Option<String>,
}

/// A tool of an agent.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentTool {
    /// The agent's name for the tool.
    pub name: String,
    /// The qualified name of the tool.
    pub tool: String,
    /// A JSON Schema that arguments must match in addition to the tool's own.
    #[serde(default)]
    pub parameters: Option<Value>,
    /// The context providers whose values the agent's runner shows with each answer.
    #[serde(default)]
    pub context_providers: Vec<String>,
}

/// The agent definition is invalid.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    /// Not YAML, or with other fields.
    #[error("{0}")]
    Malformed(String),
    /// A field has an invalid value.
    #[error("{place}: {message}")]
    Invalid {
        /// The field, such as `tools.submit_result.tool`.
        place: String,
        /// What is wrong with it, and what is expected.
        message: String,
    },
    /// It does not make a valid role.
    #[error(transparent)]
    Role(#[from] PolicyError),
}

fn invalid(place: impl Into<String>, message: impl Into<String>) -> DefinitionError {
    DefinitionError::Invalid { place: place.into(), message: message.into() }
}

/// A definition that was checked as far as possible without knowing the tools.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedDefinition(Definition);

impl CheckedDefinition {
    /// Parses the text of a definition.
    ///
    /// # Errors
    /// Returns the first error, with its line or field.
    pub fn parse(yaml: &str) -> Result<Self, DefinitionError> {
        let malformed = |error: serde_norway::Error| DefinitionError::Malformed(error.to_string());
        size::check(yaml).map_err(malformed)?;
        // Parsed as plain YAML first, which refuses duplicate keys at any depth.
        serde_norway::from_str::<serde_norway::Value>(yaml).map_err(malformed)?;
        let definition: Definition = serde_norway::from_str(yaml).map_err(malformed)?;
        check(&definition)?;
        // The rules of roles are checked here as well.
        let agent = Self(definition);
        agent.role(None)?;
        agent.provider_role(None)?;
        Ok(agent)
    }

    /// The definition as it was written.
    pub fn definition(&self) -> &Definition {
        &self.0
    }

    /// Whether it can only be used on a target.
    pub fn needs_target(&self) -> bool {
        let templates =
            [&self.0.initial_context.system_prompt, &self.0.initial_context.node_context];
        let uses =
            |text: &String| prompt::variables(text).is_ok_and(|names| names.contains(NODE_ID));
        self.0.scope.iter().chain(templates).any(uses)
    }

    /// The role of an agent on this target. Without a target, its scope is the unrendered
    /// templates, which match no file.
    ///
    /// # Errors
    /// Returns an error if the target or the scope leaves the workspace.
    pub fn role(&self, target: Option<&str>) -> Result<Role, DefinitionError> {
        let tools = &self.0.tools;
        let names = tools.iter().map(|tool| (tool.name.clone(), tool.tool.clone())).collect();
        let included = tools.iter().map(|tool| tool.tool.clone()).collect();
        let role = self.role_with(&self.0.name, included, names, target)?;
        let mut all = BTreeMap::new();
        for AgentTool { tool, parameters, .. } in tools {
            if let Some(parameters) = parameters {
                let tool = tool
                    .parse()
                    .map_err(|error: ToolNameError| invalid("tools", error.to_string()))?;
                all.insert(tool, parameters.clone());
            }
        }
        Ok(role.with_parameters(all))
    }

    /// The role for calls of its context providers: only their tools.
    ///
    /// # Errors
    /// Those of [`Self::role`].
    pub fn provider_role(&self, target: Option<&str>) -> Result<Role, DefinitionError> {
        let tools = self.0.context_providers.values().map(|provider| provider.tool.clone());
        let name = format!("{} (context)", self.0.name);
        self.role_with(&name, tools.collect(), BTreeMap::new(), target)
    }

    fn role_with(
        &self,
        name: &str,
        tools: Vec<String>,
        names: BTreeMap<String, String>,
        target: Option<&str>,
    ) -> Result<Role, DefinitionError> {
        let scope = match target {
            None => self.0.scope.clone(),
            Some(target) => {
                let variables = BTreeMap::from([(NODE_ID.to_owned(), target.to_owned())]);
                let paths = self.0.scope.iter();
                paths
                    .map(|path| prompt::render("scope", path, &variables))
                    .collect::<Result<_, _>>()?
            }
        };
        // An empty scope would mean everything.
        if scope.is_empty() || scope.iter().any(|path| path.trim_matches(['/', '.']).is_empty()) {
            return Err(invalid(
                "scope",
                "is the whole workspace; name files and directories of it",
            ));
        }
        let settings = RoleSettings {
            description: self.0.description.clone(),
            tools,
            installed: false,
            scripts: None,
            names,
            paths: BTreeMap::new(),
            scope,
            limits: crate::policy::LimitSettings::default(),
            contract: None,
            hold: false,
            executed: crate::policy::Executed::default(),
        };
        Ok(Role::new(name, &settings)?)
    }

    /// The initial prompt of the agent; `values` are those of the context providers.
    ///
    /// # Errors
    /// Returns an error if a template can't be rendered.
    pub fn prompt(
        &self,
        target: &str,
        values: &BTreeMap<String, String>,
    ) -> Result<Prompt, DefinitionError> {
        let mut variables = values.clone();
        variables.insert(NODE_ID.to_owned(), target.to_owned());
        let context = &self.0.initial_context;
        Ok(Prompt {
            system: prompt::render("system_prompt", &context.system_prompt, &variables)?,
            user: prompt::render("node_context", &context.node_context, &variables)?,
        })
    }
}

fn check(definition: &Definition) -> Result<(), DefinitionError> {
    check_name("name", &definition.name)?;
    let providers = &definition.context_providers;
    for (name, provider) in providers {
        let place = format!("context_providers.{name}");
        let is_variable = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit());
        if !is_variable || name.is_empty() || name == NODE_ID {
            return Err(invalid(place, "is not a valid name of a variable, or it is reserved"));
        }
        check_tool(&place, &provider.tool)?;
    }
    if definition.tools.is_empty() {
        return Err(invalid("tools", "are empty; an agent has at least one"));
    }
    let (mut names, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for tool in &definition.tools {
        let place = format!("tools.{}", tool.name);
        check_name(&place, &tool.name)?;
        check_tool(&format!("{place}.tool"), &tool.tool)?;
        if !names.insert(&tool.name) || !targets.insert(&tool.tool) {
            return Err(invalid(
                place,
                format!("'{}' or '{}' is there twice", tool.name, tool.tool),
            ));
        }
        if let Some(parameters) = &tool.parameters {
            let place = format!("{place}.parameters");
            if parameters.get("type").is_none_or(|kind| kind != "object") {
                return Err(invalid(place, "describe no object; begin with `type: object`"));
            }
            Schema::compile(parameters.clone())
                .map_err(|error| invalid(place, error.to_string()))?;
        }
        for name in &tool.context_providers {
            if !providers.contains_key(name) {
                let message = format!("'{name}' is none of the definition's context_providers");
                return Err(invalid(format!("{place}.context_providers"), message));
            }
        }
    }
    let context = &definition.initial_context;
    let target = BTreeSet::from([NODE_ID]);
    let known: BTreeSet<&str> = providers.keys().map(String::as_str).chain([NODE_ID]).collect();
    let of_prompt = [
        ("initial_context.system_prompt", &context.system_prompt, &known),
        ("initial_context.node_context", &context.node_context, &known),
    ];
    let of_scope = definition.scope.iter().map(|path| ("scope", path, &target));
    for (place, template, known) in of_prompt.into_iter().chain(of_scope) {
        let names = prompt::variables(template).map_err(|message| invalid(place, message))?;
        if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
            let known: Vec<&str> = known.iter().copied().collect();
            let message = format!("'{unknown}' is no variable here; there is {}", known.join(", "));
            return Err(invalid(place, message));
        }
    }
    Ok(())
}

fn check_name(place: &str, name: &str) -> Result<(), DefinitionError> {
    let right = (1..=64).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if right {
        return Ok(());
    }
    Err(invalid(place, format!("'{name}' is not 1 to 64 letters, digits, '_' and '-'")))
}

fn check_tool(place: &str, name: &str) -> Result<(), DefinitionError> {
    match name.split_once('.') {
        Some((plugin, tool)) if !plugin.is_empty() && !tool.is_empty() && tool != "*" => Ok(()),
        _ => Err(invalid(place, format!("'{name}' is no tool; write 'plugin.tool'"))),
    }
}

#[cfg(test)]
mod tests;
