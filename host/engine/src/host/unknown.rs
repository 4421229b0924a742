//! Finds names in the settings that do not exist and would silently have no effect.

use cofferdam_core::policy::{BackendKind, Policy, Settings};
use cofferdam_core::schema::nearest;
use cofferdam_plugin::registry::Registry;

/// Finds names in layers of settings that do not exist. Returns one sentence for each, with its
/// place and the names that exist. The user's settings apply to all workspaces, so what they say about
/// the plugins `installed`, which other workspaces use, is no mistake.
pub(super) fn names(
    layers: &[Settings],
    policy: &Policy,
    registry: &Registry,
    installed: &[String],
) -> Vec<String> {
    let tools = registry.names();
    let is_elsewhere = |pattern: &str| {
        let plugin = pattern.split_once('.').map_or(pattern, |(plugin, _)| plugin);
        installed.iter().any(|name| name == plugin)
    };
    let mut unknown: Vec<String> = policy
        .ask_without_tools(&tools)
        .iter()
        .filter(|pattern| !is_elsewhere(pattern))
        .map(|pattern| {
            format!("nobody is asked for '{pattern}' (`ask`): there is no such tool here")
        })
        .collect();
    let held = policy.hold_without_tools(&tools).into_iter().filter(|name| !is_elsewhere(name));
    unknown.extend(
        held.map(|pattern| {
            format!("nothing is held of '{pattern}' (`hold`): there is no such tool")
        }),
    );
    let tasks = policy.tasks_without_tools(&tools).into_iter().filter(|name| !is_elsewhere(name));
    unknown
        .extend(tasks.map(|pattern| format!("'{pattern}' (`tasks`): there is no such tool here")));
    for settings in layers {
        unknown.extend(linters(settings, registry));
        for (place, kind, names) in [
            ("test-runners", BackendKind::TestRunner, &settings.test_runners),
            ("builders", BackendKind::Builder, &settings.builders),
        ] {
            let there: Vec<&str> =
                registry.backends(kind).map(|backend| backend.name.as_str()).collect();
            let names = names.iter().flatten().filter(|name| !there.contains(&name.as_str()));
            unknown.extend(names.map(|name| {
                format!("{place}: there is no {kind} '{name}'; there are {}", listed(&there))
            }));
        }
        let plugins = || registry.plugins().iter().map(|plugin| plugin.manifest.name.as_str());
        let is_unknown = |name: &&String| !plugins().any(|plugin| plugin == *name);
        let grants = settings.grants.keys().filter(|name| !is_elsewhere(name));
        for name in grants.filter(is_unknown) {
            let meant = meant(name, plugins());
            unknown.push(format!("grants.{name}: there is no plugin '{name}' here{meant}"));
        }
        for name in settings.roles.keys() {
            let missing = policy.role(name).map(|role| role.without_tools(&tools));
            let missing = missing.into_iter().flatten().filter(|pattern| !is_elsewhere(pattern));
            unknown.extend(missing.map(|pattern| {
                let known = registry.tools(None).map(|tool| tool.qualified_name().to_string());
                let known: Vec<String> = known.collect();
                let meant = meant(&pattern, known.iter().map(String::as_str));
                format!("roles.{name}.tools: there is no such tool here as '{pattern}'{meant}")
            }));
        }
    }
    unknown.dedup();
    unknown
}

/// Finds languages without a linter, and names of linters that do not exist for their language.
fn linters(settings: &Settings, registry: &Registry) -> Vec<String> {
    let mut unknown = Vec::new();
    for (language, chosen) in &settings.linters {
        let mut there: Vec<&str> = registry.linters(language).collect();
        there.sort_unstable();
        if there.is_empty() {
            let linters = registry.backends(BackendKind::Linter);
            let mut languages: Vec<&str> =
                linters.flat_map(|linter| &linter.languages).map(String::as_str).collect();
            languages.sort_unstable();
            languages.dedup();
            unknown.push(format!(
                "linters.{language}: there is no linter for '{language}' here; there are some for {}",
                listed(&languages)
            ));
            continue;
        }
        let names = chosen.names().iter().filter(|name| !there.contains(&name.as_str()));
        unknown.extend(names.map(|name| {
            format!(
                "linters.{language}: there is no linter '{name}' for {language}; there are {}",
                listed(&there)
            )
        }));
    }
    unknown
}

fn meant<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |near| format!("; did you mean '{near}'?"))
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
