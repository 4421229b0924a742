//! `cofferdam role`: shows roles, and prints an agent definition's first prompt.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::args::{Global, RoleCommand};
use super::output::Output;
use super::setup::RoleUse;
use super::{CliError, exit, setup};
use cofferdam_core::definition::{CheckedDefinition, Provider};
use cofferdam_core::outcome::Outcome;
use cofferdam_core::policy::{Files, Role};
use cofferdam_engine::host::{Host, RunOptions};
use cofferdam_plugin::export::Exported;

pub fn execute(global: &Global, command: &RoleCommand, output: &Output) -> Result<u8, CliError> {
    match command {
        RoleCommand::List => list(global, output),
        RoleCommand::Show { role } => show(global, role, output),
        RoleCommand::Prompt { file, target } => prompt(global, file, target, output),
    }
}

fn list(global: &Global, output: &Output) -> Result<u8, CliError> {
    let (host, _runtime) = setup::host(global, Some(1))?;
    let roles: Value = host
        .policy()
        .roles()
        .map(|role| {
            let tools = host.registry().tools(Some(role)).count();
            json!({"role": role.name(), "description": role.description(), "tools": tools})
        })
        .collect();
    output.document(&json!({ "roles": roles }))?;
    Ok(exit::OK)
}

fn show(global: &Global, role: &str, output: &Output) -> Result<u8, CliError> {
    let agent = setup::agent(role)?;
    let (host, _runtime, role) = setup::host_under(global, Some(1), Some(role), RoleUse::Show)?;
    if let Some(role) = host.role(role.as_deref())? {
        let mut document = describe(&host, role);
        if let Some(agent) = agent {
            let definition = agent.definition();
            document["model"] = json!(definition.model);
            document["max_turns"] = json!(definition.max_turns);
            let providers = definition.context_providers.iter();
            document["context_providers"] =
                providers.map(|(name, provider)| (name.clone(), json!(provider.tool))).collect();
        }
        output.document(&document)?;
    }
    Ok(exit::OK)
}

/// A role with its tools, as the plugins and the policy of this host allow them.
fn describe(host: &Host, role: &Role) -> Value {
    let (registry, policy) = (host.registry(), host.policy());
    let tools: Value = registry
        .tools(Some(role))
        .map(|entry| {
            let mut tool = json!({"tool": entry.qualified_name()});
            if let Some(exported) = Exported::new(registry, entry, Some(role)) {
                tool["called"] = exported.name.into();
            }
            if let Some(path) = role.path_argument(&entry.qualified_name()) {
                tool["relative_path"] = path.into();
            }
            if let Err(denial) = policy.decide(&entry.subject(), Some(role)) {
                tool["denied"] = denial.to_string().into();
            }
            tool
        })
        .collect();
    json!({
        "role": role.name(),
        "description": role.description(),
        "tools": tools,
        "not_installed": role.without_tools(&registry.names()),
        "scope": if role.scope().is_everything() { json!("everything") } else { json!(role.scope()) },
        "limits": role.limits(),
        "executed": policy.executed(Some(role)),
    })
}

fn prompt(global: &Global, file: &Path, target: &str, output: &Output) -> Result<u8, CliError> {
    let file = file.to_string_lossy();
    let agent = setup::agent(&file)?
        .ok_or_else(|| CliError::usage(format!("{file} is no agent definition (.yaml)")))?;
    let role = agent.role(Some(target)).map_err(|error| setup::in_file(&file, &error))?;
    let (host, runtime, providers) =
        setup::host_under(global, Some(1), Some(&file), RoleUse::Providers { target })?;
    let options = RunOptions {
        role: providers,
        cancel: Some(setup::interruption(&runtime)?),
        ..RunOptions::default()
    };
    let mut values = BTreeMap::new();
    for (name, provider) in &agent.definition().context_providers {
        let value = runtime.block_on(context_value(&host, name, provider, &options))?;
        values.insert(name.clone(), value);
    }
    let prompt = agent.prompt(target, &values).map_err(|error| setup::in_file(&file, &error))?;
    let definition = agent.definition();
    let message = |role: &str, content: String| json!({"role": role, "content": content});
    let mut messages = vec![message("system", prompt.system)];
    if !prompt.user.is_empty() {
        messages.push(message("user", prompt.user));
    }
    output.document(&json!({
        "name": definition.name,
        "model": definition.model,
        "max_turns": definition.max_turns,
        "node_id": target,
        "messages": messages,
        "tools": tools(&host, &agent, &role)?,
        "context": values,
    }))?;
    Ok(exit::OK)
}

/// The agent's tools in the format of Anthropic's API, with the names of their context providers.
fn tools(host: &Host, agent: &CheckedDefinition, role: &Role) -> Result<Value, CliError> {
    let shown = agent.definition().tools.iter().map(|tool| {
        let entry =
            host.registry().resolve(&tool.tool, Some(role)).map_err(|_| missing(&tool.tool))?;
        let exported = Exported::new(host.registry(), entry, Some(role));
        let mut shown = exported.ok_or_else(|| missing(&tool.tool))?.anthropic();
        if !tool.context_providers.is_empty() {
            shown["context_providers"] = json!(tool.context_providers);
        }
        Ok(shown)
    });
    shown.collect()
}

fn missing(tool: &str) -> CliError {
    CliError::usage(format!("the definition names the tool '{tool}', which no plugin here has"))
}

/// Calls a context provider and returns its value: one field of the tool's answer, or all of it. A
/// string is returned as it is, anything else as JSON.
async fn context_value(
    host: &Host,
    name: &str,
    provider: &Provider,
    options: &RunOptions,
) -> Result<String, CliError> {
    let failed = |what: &str| {
        CliError::call(format!("the context provider '{name}' ({}): {what}", provider.tool))
    };
    let role = host.role(options.role.as_deref())?;
    let entry =
        host.registry().resolve(&provider.tool, role).map_err(|_| missing(&provider.tool))?;
    if entry.tool().effects == Files::Write {
        return Err(failed("it changes files; a context provider only reads"));
    }
    let args = Value::Object(provider.args.clone()).to_string();
    let answer = match host.call(&provider.tool, &args, options).await?.0.outcome {
        Outcome::Executed(answer) => answer,
        Outcome::Failed(failure) => {
            return Err(failed(&format!("{}: {}", failure.code, failure.message)));
        }
    };
    // In the lint agent's source document, a tool script never raises an error: failures are in its
    // answer.
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Err(failed(error));
    }
    let value = match &provider.field {
        None => Some(&answer),
        Some(field) => answer.get(field),
    };
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(value) => Ok(value.to_string()),
        None => Err(failed(&format!(
            "its answer has no field '{}'",
            provider.field.as_deref().unwrap_or_default()
        ))),
    }
}
