//! Compiles a plugin's sources to its component.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::plugin::Plugin;
use crate::process::run;
use crate::project::{Project, files_below, read, read_text, write};
use crate::stamp::{Inputs, Stamp};
use crate::toolchain::Toolchain;

/// Builds the components of one group with one cargo.
pub fn compile(
    project: &Project,
    toolchain: &Toolchain,
    group: &str,
    plugins: &[Plugin],
) -> Result<()> {
    let Some(Plugin { workspace, .. }) = plugins.first() else {
        return Ok(());
    };
    // All plugins of the project get the same flags, so that they share compiled dependencies.
    let mut sources = vec![project.root.as_path()];
    if !workspace.starts_with(&project.root) {
        sources.push(workspace);
    }
    let mut command = toolchain.cargo_build(project, &sources);
    command.current_dir(workspace);
    if *workspace != project.root {
        let manifest = read_text(&project.root.join("Cargo.toml"))?;
        command.args(profile_arguments(&manifest, project.profile.plugins())?);
    }
    for plugin in plugins {
        command.args(["--package", &plugin.package]);
    }
    let stamp = Stamp::new(
        project,
        &format!("build-{group}"),
        Inputs::new()
            .value("toolchain", toolchain.identity())
            .value("command", command_line(&command))
            .files(files(project, workspace, plugins)?)?,
    );
    let components: Vec<PathBuf> =
        plugins.iter().map(|plugin| plugin.component(project, group)).collect();
    if stamp.is_fresh(&components) {
        return Ok(());
    }
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    run(&format!("building {} with {}", names.join(", "), toolchain.name()), &mut command)?;
    for (plugin, component) in plugins.iter().zip(&components) {
        write(component, read(&plugin.built(project))?)?;
    }
    stamp.set()
}

/// The files that a build of these plugins reads: their workspace's, their own, and the SDK
/// with the interfaces.
fn files(project: &Project, workspace: &Path, plugins: &[Plugin]) -> Result<Vec<PathBuf>> {
    let shared = ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"];
    let own = plugins.iter().map(|plugin| plugin.directory.clone());
    let of_project = if workspace == project.root {
        ["plugins", "schemas", "wit"].as_slice()
    } else {
        // The SDK inherits from the project's Cargo.toml. Nothing else of the project is an input,
        // so that other changes don't rebuild plugins that take minutes.
        &["Cargo.toml", "plugins/sdk", "wit"]
    };
    let roots = of_project
        .iter()
        .map(|root| project.root.join(root))
        .chain(own)
        .chain(shared.map(|file| workspace.join(file)));
    let mut files = Vec::new();
    for root in roots {
        files.extend(files_below(&root)?);
    }
    if workspace != project.root {
        files.extend(files_below(workspace)?);
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// The command as text, with the environment variables that it sets.
fn command_line(command: &Command) -> String {
    let words: Vec<_> = command.get_args().collect();
    let variables: Vec<_> = command.get_envs().filter(|(_, value)| value.is_some()).collect();
    format!("{words:?} {variables:?}")
}

/// Arguments that give another workspace one of this project's cargo profiles for plugins, and
/// those of the project that it inherits from.
fn profile_arguments(workspace_manifest: &str, name: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = workspace_manifest.parse()?;
    let profile = manifest
        .get("profile")
        .and_then(|profiles| profiles.get(name))
        .and_then(toml::Value::as_table)
        .with_context(|| format!("the workspace's Cargo.toml has no [profile.{name}]"))?;
    let settings = profile.iter().map(|(key, value)| format!("profile.{name}.{key}={value}"));
    let own = settings.flat_map(|setting| ["--config".to_owned(), setting]);
    // Cargo itself has `release`, on which all others are based.
    let parent = profile.get("inherits").and_then(toml::Value::as_str);
    let inherited = match parent.filter(|parent| *parent != "release") {
        Some(parent) => profile_arguments(workspace_manifest, parent)?,
        None => Vec::new(),
    };
    Ok(own.chain(inherited).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn other_workspaces_get_the_profile() {
        let manifest = "[profile.plugin]\ninherits = \"release\"\npanic = \"abort\"\n";
        let wanted = [
            "--config",
            "profile.plugin.inherits=\"release\"",
            "--config",
            "profile.plugin.panic=\"abort\"",
        ];
        assert_eq!(profile_arguments(manifest, "plugin").unwrap(), wanted);
        let inheriting = format!("{manifest}[profile.quick]\ninherits = \"plugin\"\n");
        let of_quick = ["--config", "profile.quick.inherits=\"plugin\""];
        assert_eq!(
            profile_arguments(&inheriting, "quick").unwrap(),
            [&of_quick[..], &wanted[..]].concat()
        );
        assert!(profile_arguments(manifest, "release").is_err());
        let missing = "[profile.quick]\ninherits = \"plugin\"\n";
        assert!(profile_arguments(missing, "quick").is_err());
    }
}
