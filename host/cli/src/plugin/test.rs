//! `cofferdam plugin test`: runs a plugin's example calls, and its linters on the cases of the
//! conformance kit.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::check::MANIFEST;
use crate::args::{Format, Global};
use crate::output::Output;
use crate::{CliError, exit, setup};
use cofferdam_core::policy::{
    BackendKind, Capabilities, ConsentSettings, GrantSettings, OriginSettings, Settings,
};
use cofferdam_engine::conformance::{self, Outcome, Tried, Verdict};
use cofferdam_engine::host::{Config, Host};
use cofferdam_plugin::manifest::Manifest;
use cofferdam_plugin::pack;

pub fn execute(
    global: &Global,
    name: &str,
    grant_requests: bool,
    output: &Output,
) -> Result<u8, CliError> {
    let layers = setup::layers(global, &setup::workspace(global)?)?;
    let runtime = setup::current_thread_runtime()?;
    let _runtime = runtime.enter();
    let file = packed(Path::new(name))?;
    let (manifest, settings) =
        manifest(global, name, file.as_deref(), grant_requests, layers.settings)?;
    let config = |workspace: &Path| -> Result<Config, CliError> {
        let mut config = setup::config(global, workspace, settings.clone())?;
        config.plugins.extend(file.clone());
        Ok(config)
    };
    // Problems of the settings or the plugin are reported here, not as a failed case.
    let known = config(global.workspace())?;
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
    let examples = runtime.block_on(conformance::run_examples(&open, &manifest));
    let examples = examples.map_err(CliError::host)?;
    if tried.is_empty() && examples.is_empty() {
        tracing::warn!("{}: there is nothing to try: no example calls, no linters", manifest.name);
    }
    if output.format() == Format::Text {
        let linters =
            tried.iter().map(|(name, language, outcome)| in_words(name, language, outcome));
        let examples = examples.iter().map(|tried| example_in_words(&manifest, tried));
        output.text(&linters.chain(examples).collect::<String>())?;
    } else {
        let tried: Vec<Value> = tried.iter().map(|(name, language, outcome)| json!({
            "backend": name,
            "language": language,
            "right": outcome.right,
            "wrong": outcome.wrong.iter().map(|(case, why)| json!({"case": case, "why": why})).collect::<Vec<_>>(),
            "unavailable": outcome.unavailable,
        })).collect();
        let examples: Vec<Value> = examples.iter().map(example_as_json).collect();
        output.json(&json!({ "plugin": manifest.name, "tried": tried, "examples": examples }))?;
    }
    let is_wrong = tried.iter().any(|(_, _, outcome)| !outcome.wrong.is_empty())
        || examples.iter().any(|tried| matches!(tried.verdict, Verdict::Wrong(_)));
    Ok(if is_wrong { exit::ERROR } else { exit::OK })
}

/// The packed component at a path: the file itself, or that of a project's folder. `None` if the
/// path does not exist.
fn packed(path: &Path) -> Result<Option<PathBuf>, CliError> {
    if !path.join(MANIFEST).is_file() {
        return Ok(path.is_file().then(|| path.to_owned()));
    }
    let manifest = pack::read_manifest_file(&path.join(MANIFEST));
    let manifest = manifest.map_err(|error| CliError::usage(error.to_string()))?;
    let packed = path.join(format!("{}.wasm", manifest.name));
    if packed.is_file() {
        return Ok(Some(packed));
    }
    let missing = CliError::usage(format!("{} is not there", packed.display()));
    Err(missing.with_hint("build the project first"))
}

fn example_in_words(manifest: &Manifest, tried: &Tried) -> String {
    let what = format!("{}.{}, {}", manifest.name, tried.tool, tried.example);
    match &tried.verdict {
        Verdict::Right => format!("{what}: right\n"),
        Verdict::Wrong(why) => format!("{what}: wrong: {why}\n"),
        Verdict::Unproven(why) => format!(
            "{what}: unproven: {why}\n  [[tools.examples]] of the manifest can give it files\n"
        ),
    }
}

fn example_as_json(tried: &Tried) -> Value {
    let (verdict, why) = match &tried.verdict {
        Verdict::Right => ("right", None),
        Verdict::Wrong(why) => ("wrong", Some(why)),
        Verdict::Unproven(why) => ("unproven", Some(why)),
    };
    json!({ "tool": tried.tool, "example": tried.example, "verdict": verdict, "why": why })
}

/// The plugin's manifest, and the settings under which it is tested.
fn manifest(
    global: &Global,
    name: &str,
    file: Option<&Path>,
    grant_requests: bool,
    mut settings: Vec<Settings>,
) -> Result<(Manifest, Vec<Settings>), CliError> {
    let Some(file) = file else {
        let (host, _runtime) = setup::host(global, Some(1))?;
        let plugin = host.registry().plugins().iter().find(|plugin| plugin.manifest.name == name);
        let plugin = plugin.ok_or_else(|| {
            CliError::usage(format!(
                "{name}: neither a plugin's name (`cofferdam plugin list`) nor a file"
            ))
        })?;
        return Ok((plugin.manifest.clone(), settings));
    };
    let usage = |error: &dyn std::fmt::Display| CliError::usage(format!("{name}: {error}"));
    let bytes = std::fs::read(file).map_err(|error| usage(&error))?;
    let manifest =
        pack::manifest(&bytes, &pack::called(file), Some(file)).map_err(|error| usage(&error))?;
    let is_granted = settings.iter().any(|layer| layer.grants.contains_key(&manifest.name));
    if !is_granted {
        // No option grants agents, which run without a sandbox, programs that are left running, which
        // need a session, or all origins.
        let Capabilities {
            files,
            scan,
            process,
            backends,
            cache,
            history,
            git_commit,
            background: _,
            tools,
            agents: _,
            http,
            any_origin: _,
            consent,
            questions,
        } = manifest.requests.clone();
        let mut grant = GrantSettings {
            files,
            scan,
            backends,
            cache,
            history,
            git_commit,
            tools,
            questions,
            ..GrantSettings::default()
        };
        if grant_requests {
            grant.process = process;
            grant.http = http.into_iter().map(OriginSettings::new).collect();
            let every = || ConsentSettings { allow: vec!["*".to_owned()], ask: Vec::new() };
            grant.consent = consent.into_keys().map(|class| (class, every())).collect();
        }
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
