//! `cofferdam policy explain`: says why something is allowed or not, with the line of the setting.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::args::Global;
use crate::config::{Layers, grants};
use crate::output::Output;
use crate::{CliError, exit, setup};
use cofferdam_core::policy::{
    Capability, ConsentSettings, NetworkRules, Policy, ProgramRules, SecretSettings,
};
use cofferdam_engine::host::Host;
use cofferdam_engine::journal::{Entry, Journal};
use cofferdam_plugin::registry::{Plugin, ToolEntry};

/// How many calls with refused origins are shown.
const MAX_CALLS: usize = 100;

pub fn execute(
    global: &Global,
    name: &str,
    role: Option<&str>,
    output: &Output,
) -> Result<u8, CliError> {
    let (host, _runtime) = setup::host(global, Some(1))?;
    let layers = setup::layers(global, host.workspace())?;
    let role = host.role(role)?;
    let plugins = host.registry().plugins();
    let plugin = plugins.iter().find(|plugin| plugin.manifest.name == name);
    let entry = match (plugin, host.registry().resolve(name, role)) {
        (Some(_), _) => None,
        (None, Ok(entry)) => Some(entry),
        (None, Err(_)) => {
            return Err(CliError::usage(format!(
                "{name}: neither a plugin (`cofferdam plugin list`) nor one tool \
                 (`cofferdam tools`)"
            )));
        }
    };
    let plugin = entry.map_or(plugin, |entry| Some(&entry.plugin));
    let Some(plugin) = plugin else { return Ok(exit::REFUSED) };
    let tool = entry.map(|entry| decision(host.policy(), entry, role));
    let mut document = of_plugin(global, &host, &layers, plugin)?;
    if let (Some(tool), Some(fields)) = (tool, document.as_object_mut()) {
        fields.insert("tool".to_owned(), tool);
    }
    output.document(&document)?;
    Ok(exit::OK)
}

/// What a plugin may do, and why.
pub fn of_plugin(
    global: &Global,
    host: &Host,
    layers: &Layers,
    plugin: &Plugin,
) -> Result<Value, CliError> {
    Ok(json!({
        "plugin": plugin.manifest.name,
        "came_with_the_host": plugin.built_in,
        "entry": entry_of(layers, plugin),
        "capabilities": capabilities(host.policy(), layers, plugin),
        "secrets": secrets(host.policy(), plugin),
        "config": host.policy().config(name_of(plugin)).into_keys().collect::<Vec<_>>(),
        "refused_origins": refused_origins(global, host.policy(), plugin)?,
        "limits": host.policy().limits().lowered(&plugin.manifest.limits).settings(),
    }))
}

/// The latest calls in which a plugin tried to send requests to origins that it is still not granted,
/// by origin, with the command that grants it.
fn refused_origins(
    global: &Global,
    policy: &Policy,
    plugin: &Plugin,
) -> Result<Vec<Value>, CliError> {
    let name = name_of(plugin);
    let is_of_plugin = |entry: &Entry| match entry {
        Entry::Call(record) => record.refused_hosts.contains_key(name),
        _ => false,
    };
    let journal = Journal::new(Arc::new(setup::workspace(global)?));
    let (calls, _) = journal.latest(MAX_CALLS, is_of_plugin)?;
    let granted = policy.capabilities(name, plugin.built_in, &plugin.manifest.requests);
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for entry in &calls {
        let Entry::Call(record) = entry else { continue };
        for origin in record.refused_hosts.get(name).into_iter().flatten() {
            let of_origin = found.entry(origin.clone()).or_default();
            *of_origin = (of_origin.0 + 1, record.timestamp.to_string());
        }
    }
    let is_granted =
        |origin: &str| origin.parse().is_ok_and(|origin| granted.http.contains(&origin));
    let refused = found.into_iter().filter(|(origin, _)| !is_granted(origin));
    Ok(refused
        .map(|(origin, (calls, last))| {
            let why = format!("`cofferdam policy grant {name} http={origin}` grants it");
            json!({ "origin": origin, "calls": calls, "last": last, "why": why })
        })
        .collect())
}

fn name_of(plugin: &Plugin) -> &str {
    &plugin.manifest.name
}

/// The secrets of the settings that not all origins of a plugin may receive: a call that has read one,
/// or whose session has, asks the user before it sends anything to the others.
fn secrets(policy: &Policy, plugin: &Plugin) -> Vec<Value> {
    let name = &plugin.manifest.name;
    let granted = policy.capabilities(name, plugin.built_in, &plugin.manifest.requests);
    let mut origins = granted.http;
    let network = policy.network(name);
    for program in network.iter().flat_map(|entry| &entry.programs) {
        let rules = NetworkRules::new(network, program);
        origins.extend(rules.origins().map(|settings| settings.origin.clone()));
    }
    let asks = |(secret, _): (&str, &SecretSettings)| {
        let asks: Vec<String> = origins
            .iter()
            .filter(|origin| !policy.secrets().allows(secret, origin))
            .map(ToString::to_string)
            .collect();
        (!asks.is_empty()).then(|| json!({ "secret": secret, "asks_before_sending_to": asks }))
    };
    policy.secrets().iter().filter_map(asks).collect()
}

/// How the policy would decide a call of this tool.
fn decision(
    policy: &Policy,
    entry: &ToolEntry,
    role: Option<&cofferdam_core::policy::Role>,
) -> Value {
    let mut document = json!({
        "name": entry.qualified_name(),
        "effects": entry.tool().effects,
        "role": role.map(cofferdam_core::policy::Role::name),
    });
    match policy.decide(&entry.subject(), role) {
        Ok(grant) => {
            document["decision"] = "allowed".into();
            let gets: Vec<String> =
                grant.capabilities.each().map(|each| each.to_string()).collect();
            document["gets"] = gets.into();
            document["limits"] = json!(grant.limits.settings());
        }
        Err(denial) => {
            document["decision"] = "denied".into();
            document["code"] = denial.code().as_str().into();
            document["why"] = denial.to_string().into();
        }
    }
    document
}

/// The settings file whose entry for a plugin takes effect, and its text.
fn effective_entry<'a>(
    layers: &'a Layers,
    plugin: &str,
) -> Option<(&'a crate::config::SettingsFile, &'a cofferdam_core::policy::GrantSettings)> {
    let files = layers.files.iter().zip(&layers.settings).rev();
    files.filter_map(|(file, settings)| Some((file, settings.grants.get(plugin)?))).next()
}

fn entry_of(layers: &Layers, plugin: &Plugin) -> Option<String> {
    let name = &plugin.manifest.name;
    effective_entry(layers, name).map(|(file, _)| place(file, &["grants", name]))
}

fn place(file: &crate::config::SettingsFile, keys: &[&str]) -> String {
    let path = file.path.display();
    grants::line(&file.text, keys).map_or_else(|| path.to_string(), |line| format!("{path}:{line}"))
}

/// The rules about a granted program, for an explanation.
fn narrowed(rules: &ProgramRules, capability: &Capability) -> String {
    let Capability::Process(program) = capability else { return String::new() };
    let keys: Vec<String> = rules.keys(program).map(|key| format!("{key}.{program}")).collect();
    if keys.is_empty() { String::new() } else { format!(", narrowed by {}", keys.join(", ")) }
}

/// The patterns of a class that is granted, for an explanation.
fn patterns(consent: &BTreeMap<String, ConsentSettings>, capability: &Capability) -> String {
    let Capability::Consent { class, .. } = capability else { return String::new() };
    let Some(ConsentSettings { allow, ask }) = consent.get(class) else { return String::new() };
    format!(": allow = {allow:?}, ask = {ask:?}; other keys are refused")
}

fn capabilities(policy: &Policy, layers: &Layers, plugin: &Plugin) -> Vec<Value> {
    let name = &plugin.manifest.name;
    let requests = &plugin.manifest.requests;
    let granted = policy.capabilities(name, plugin.built_in, requests);
    let said = effective_entry(layers, name);
    let at = |capability: &Capability| {
        said.map(|(file, _)| place(file, &["grants", name, capability.key()])).unwrap_or_default()
    };
    let (rules, consent) = (policy.program_rules(name), policy.consent(name));
    let explain = |capability: &Capability| -> String {
        let grant = format!("`cofferdam policy grant {name} {}` grants it", capability.to_grant());
        match (&said, granted.holds(capability)) {
            (Some((_, settings)), true) if !settings.capabilities().holds(capability) => {
                "it came with the host, and nothing says otherwise".to_owned()
            }
            (Some(_), true) => {
                let narrowed = narrowed(&rules, capability);
                format!("{} grants it{narrowed}{}", at(capability), patterns(&consent, capability))
            }
            (None, true) => "it came with the host, and nothing says otherwise".to_owned(),
            (Some((_, settings)), false) if settings.capabilities().holds(capability) => {
                format!("{} grants it, but it gives nothing without files", at(capability))
            }
            (Some(_), false) => format!(
                "{} is what the plugin is granted, and does not name it; {grant}",
                at(capability)
            ),
            (None, false) if plugin.built_in => {
                format!(
                    "shells, agents, the network and consent are granted by a person only; {grant}"
                )
            }
            (None, false) => format!("nothing grants it; {grant}"),
        }
    };
    let document = |capability: Capability, requested: bool, why: String| {
        json!({
            "capability": capability.to_string(),
            "allows": capability.in_words(),
            "requested": requested,
            "granted": requested && granted.holds(&capability),
            "why": why,
        })
    };
    // A request without names (any origin) is shown as the origins that are granted.
    let by_name = granted.each().filter(|capability| {
        matches!(capability, Capability::Agent(_) | Capability::Http(_))
            && requests.each().all(|asked| asked != *capability)
    });
    let asked = requests.each().chain(by_name).map(|capability| {
        let why = explain(&capability);
        document(capability, true, why)
    });
    let unasked = said.map(|(_, settings)| settings.capabilities().beyond(requests));
    let unasked = unasked.iter().flat_map(|unasked| unasked.each()).map(|capability| {
        let why = format!("{} grants it, and the plugin does not ask for it", at(&capability));
        document(capability, false, why)
    });
    asked.chain(unasked.collect::<Vec<_>>()).collect()
}
