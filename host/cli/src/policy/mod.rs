//! `cofferdam policy`: the subcommands, and `show` and `accept` themselves.

mod explain;
mod grant;

use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{Global, PolicyCommand};
use super::output::Output;
use super::{CliError, exit, plugin, setup};
use crate::config;
use cofferdam_core::policy::{BundleName, NetworkSettings, Policy, SecretSettings};
use cofferdam_engine::host::Host;
use cofferdam_plugin::registry::Plugin;

pub fn execute(global: &Global, command: &PolicyCommand, output: &Output) -> Result<u8, CliError> {
    match command {
        PolicyCommand::Show => show(global, output),
        PolicyCommand::Accept => accept(global, output),
        PolicyCommand::Explain { name, role } => {
            explain::execute(global, name, role.as_deref(), output)
        }
        PolicyCommand::Grant { name, capabilities } => {
            grant::grant(global, name, capabilities, output)
        }
        PolicyCommand::Revoke { name, capabilities } => {
            grant::revoke(global, name, capabilities, output)
        }
    }
}

/// What an entry for the network of programs grants, without its secrets.
fn network(entry: &NetworkSettings) -> Value {
    let origins: Vec<String> =
        entry.origins.iter().map(|settings| settings.origin.to_string()).collect();
    json!({
        "programs": entry.programs,
        "bundle": entry.bundle.map(BundleName::as_str),
        "description": entry.bundle.map(|bundle| bundle.bundle().description.as_str()),
        "origins": origins,
        "methods": entry.methods,
        "paths": entry.paths,
        "bytes": entry.bytes,
        "requests": entry.requests,
    })
}

/// The files that are secret, and the origins that may receive what was read there.
fn secrets(policy: &Policy) -> Vec<Value> {
    let document = |(name, secret): (&str, &SecretSettings)| json!({"secret": name, "paths": secret.paths, "origins": secret.origins});
    policy.secrets().iter().map(document).collect()
}

fn show(global: &Global, output: &Output) -> Result<u8, CliError> {
    let (host, _runtime) = setup::host(global, Some(1))?;
    output.document(&document(&host))?;
    Ok(exit::OK)
}

/// What plugins, roles and agents may do.
fn document(host: &Host) -> Value {
    let policy = host.policy();
    let grants: Vec<Value> = host
        .registry()
        .plugins()
        .iter()
        .map(|plugin| {
            let manifest = &plugin.manifest;
            let mut grant = json!({
                "plugin": manifest.name,
                "requests": manifest.requests,
                "granted": policy.capabilities(&manifest.name, plugin.built_in, &manifest.requests),
            });
            let network: Vec<Value> = policy.network(&manifest.name).iter().map(network).collect();
            if !network.is_empty() {
                grant["network"] = network.into();
            }
            grant
        })
        .collect();
    let roles: Vec<Value> = policy
        .roles()
        .map(|role| {
            let tools: Vec<String> = host.registry().tools(Some(role)).map(|tool| tool.qualified_name().into()).collect();
            json!({"role": role.name(), "description": role.description(), "tools": tools, "contract": role.contract(), "scope": if role.scope().is_everything() { "everything".into() } else { json!(role.scope()) }})
        })
        .collect();
    let agents: Vec<Value> = policy
        .agents()
        .map(|agent| {
            let command = agent.command();
            let words = std::iter::once(command.program())
                .chain(command.arguments().iter().map(String::as_str));
            json!({
                "agent": agent.name(),
                "command": words.collect::<Vec<_>>(),
                "role": agent.role(),
                "contract": agent.contract(),
                "max-turns": agent.max_turns(),
                "timeout-s": agent.timeout().as_secs(),
            })
        })
        .collect();
    let (limits, retention) = (policy.limits(), policy.retention());
    json!({
        "grants": grants,
        "roles": roles,
        "agents": agents,
        "ask": policy.ask().collect::<Vec<_>>(),
        "executed": policy.executed(None),
        "secrets": secrets(policy),
        "limits": limits.settings(),
        "history": {
            "commits": retention.commits,
            "days": retention.age.as_secs() / (24 * 60 * 60),
            "mb": retention.bytes >> 20,
        },
    })
}

/// What plugins, roles and agents may do, and why: as `policy show`, and for each plugin as `plugin list`
/// and `policy explain`.
pub fn permissions(global: &Global) -> Result<Value, CliError> {
    let (host, _runtime) = setup::host(global, Some(1))?;
    let layers = setup::layers(global, host.workspace())?;
    let lock = crate::install::lock(host.workspace())?;
    let of_plugin = |plugin: &Arc<Plugin>| -> Result<Value, CliError> {
        let mut entry = plugin::entry(&host, &lock, plugin);
        let explained = explain::of_plugin(global, &host, &layers, plugin)?;
        if let (Some(entry), Value::Object(explained)) = (entry.as_object_mut(), explained) {
            entry.extend(explained);
        }
        Ok(entry)
    };
    let plugins: Vec<Value> =
        host.registry().plugins().iter().map(of_plugin).collect::<Result<_, _>>()?;
    Ok(json!({ "policy": document(&host), "plugins": plugins }))
}

fn accept(global: &Global, output: &Output) -> Result<u8, CliError> {
    let directories = setup::Directories::find()
        .ok_or_else(|| CliError::host("there is no home directory to remember it in".to_owned()))?;
    let workspace = setup::workspace(global)?;
    let accepted = config::accept(&workspace, &directories.accepted)?;
    // Opening a host with the settings shows what is wrong with them.
    let warnings = match setup::host(global, Some(1)) {
        Ok((host, _runtime)) => host.unknown().to_vec(),
        Err(error) => vec![error.to_string()],
    };
    output.document(&json!({
        "workspace": workspace.name(),
        "accepted": accepted.is_some(),
        "grants": accepted.iter().flat_map(|settings| settings.grants.keys()).collect::<Vec<_>>(),
        "roles": accepted.iter().flat_map(|settings| settings.roles.keys()).collect::<Vec<_>>(),
        // Programs that may be started as the user's agents are shown in full.
        "agents": accepted
            .iter()
            .flat_map(|settings| &settings.agents)
            .map(|(name, agent)| json!({"agent": name, "command": agent.command}))
            .collect::<Vec<_>>(),
        "warnings": warnings,
    }))?;
    Ok(exit::OK)
}
