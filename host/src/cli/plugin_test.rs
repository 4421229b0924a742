//! `cofferdam plugin test`: a plugin's linters on the cases of the conformance kit.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::runtime::Builder;

use super::args::{Format, Global};
use super::output::Output;
use super::{CliError, exit, setup};
use crate::conformance::{self, Outcome};
use crate::host::{Config, Host};
use crate::plugin::manifest::Manifest;
use crate::plugin::pack;
use crate::policy::{BackendKind, Capabilities, GrantSettings, Settings};

pub fn execute(global: &Global, name: &str, output: &Output) -> Result<u8, CliError> {
    let layers = setup::layers(global, &setup::workspace(global)?)?;
    let timers = Builder::new_current_thread().enable_all().build()?;
    let _timers = timers.enter();
    let file = Path::new(name).is_file().then(|| PathBuf::from(name));
    let (manifest, settings) = manifest(global, name, file.as_deref(), layers.settings)?;
    let config = |workspace: &Path| -> Result<Config, CliError> {
        let mut config = setup::config(global, workspace, settings.clone())?;
        config.plugins.extend(file.clone());
        Ok(config)
    };
    // What is wrong with the settings or the plugin shows here, not in a case.
    let known = config(&global.workspace)?;
    let open = |workspace: &Path| {
        Host::open(Config {
            workspace: workspace.to_owned(),
            built_in: known.built_in.clone(),
            plugins: known.plugins.clone(),
            pinned: known.pinned.clone(),
            settings: known.settings.clone(),
            cache: known.cache.clone(),
            sandbox: known.sandbox.clone(),
            environment: known.environment.clone(),
            ..Config::new(workspace)
        })
    };
    let mut tried = Vec::new();
    for backend in &manifest.backends {
        if backend.kind != BackendKind::Linter {
            tracing::warn!("{}: there are no cases for a {}", backend.name, backend.kind);
            continue;
        }
        for language in &backend.languages {
            let outcome = conformance::run(&open, &backend.name, language);
            tried.push((&backend.name, language, outcome.map_err(CliError::host)?));
        }
    }
    if output.format() == Format::Text {
        let text: String = tried
            .iter()
            .map(|(name, language, outcome)| in_words(name, language, outcome))
            .collect();
        output.text(&text)?;
    } else {
        let tried: Vec<Value> = tried.iter().map(|(name, language, outcome)| json!({
            "backend": name,
            "language": language,
            "right": outcome.right,
            "wrong": outcome.wrong.iter().map(|(case, why)| json!({"case": case, "why": why})).collect::<Vec<_>>(),
            "unavailable": outcome.unavailable,
        })).collect();
        output.json(&json!({ "plugin": manifest.name, "tried": tried }))?;
    }
    let is_wrong = |(_, _, outcome): &(_, _, Outcome)| !outcome.wrong.is_empty();
    Ok(if tried.iter().any(is_wrong) { exit::ERROR } else { exit::OK })
}

/// The plugin's manifest, and the settings under which it is tried.
fn manifest(
    global: &Global,
    name: &str,
    file: Option<&Path>,
    mut settings: Vec<Settings>,
) -> Result<(Manifest, Vec<Settings>), CliError> {
    let Some(file) = file else {
        let (host, _timers) = setup::host(global, Some(1))?;
        let plugin = host.registry().plugins().iter().find(|plugin| plugin.manifest.name == name);
        let plugin = plugin.ok_or_else(|| {
            CliError::Usage(format!(
                "{name}: neither a plugin's name (`cofferdam plugin list`) nor a file"
            ))
        })?;
        return Ok((plugin.manifest.clone(), settings));
    };
    let usage = |error: &dyn std::fmt::Display| CliError::Usage(format!("{name}: {error}"));
    let bytes = std::fs::read(file).map_err(|error| usage(&error))?;
    let manifest = pack::manifest(&bytes).map_err(|error| usage(&error))?;
    let is_granted = settings.iter().any(|layer| layer.grants.contains_key(&manifest.name));
    if !is_granted {
        let Capabilities { files, scan, .. } = manifest.requests;
        let grant = GrantSettings { files, scan, ..GrantSettings::default() };
        let grants = [(manifest.name.clone(), grant)].into();
        settings.push(Settings { grants, ..Settings::default() });
    }
    Ok((manifest, settings))
}

fn in_words(name: &str, language: &str, outcome: &Outcome) -> String {
    if let Some(why) = &outcome.unavailable {
        return format!("{name}, {language}: not tried: {why}\n");
    }
    let wrong: String =
        outcome.wrong.iter().map(|(case, why)| format!("  {case}: {why}\n")).collect();
    format!(
        "{name}, {language}: {} right, {} wrong\n{wrong}",
        outcome.right.len(),
        outcome.wrong.len()
    )
}
