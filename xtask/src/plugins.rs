//! Builds and packs plugins.
//!
//! A plugin is a crate with a `plugin.toml` beside its `Cargo.toml`. All plugins of a group are
//! built by one cargo, except those in another Cargo workspace, which take minutes: there is one cargo
//! for each workspace, so that the plugins of a workspace share compiled dependencies. Then the host's
//! own command packs each plugin with its manifest and its compiled code. Both steps are skipped if none
//! of their inputs has changed.
//!
//! A plugin without a `Cargo.toml` is not written in Rust: see `foreign`.

mod compile;
mod crates;
mod foreign;
mod pack;
mod plugin;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use self::crates::Crates;
use self::plugin::{MANIFEST, Plugin};
use crate::process::announce;
use crate::project::Project;
use crate::toolchain::{Toolchain, clang};

pub use self::foreign::tools_of;
pub use self::plugin::tools;

/// Plugins that are built and packed together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// The directory that holds the crates.
    pub sources: &'static str,
    /// The directory of the release build for the packed files.
    pub packed: &'static str,
}

/// A plugin and its built component.
#[derive(Debug)]
pub struct Compiled {
    plugin: Plugin,
    build: String,
    /// The directory for the packed file.
    packed: PathBuf,
}

/// Builds the components of groups of plugins, or of the plugins `only`. This does not need the
/// host.
///
/// # Errors
/// If a plugin does not compile or is malformed, or there is no toolchain for components.
pub fn compile(
    project: &Project,
    groups: &[Group],
    only: Option<&BTreeSet<String>>,
) -> Result<Vec<Compiled>> {
    let is_wanted = |plugin: &Plugin| only.is_none_or(|names| names.contains(&plugin.name));
    let toolchain = Toolchain::find(project)?;
    let crates = Crates::of(&project.root)?;
    let mut compiled = Vec::new();
    for group in groups {
        let mut plugins = plugin::find(&project.root.join(group.sources), &crates)?;
        let packed = project.built(group.packed);
        let mut foreign = foreign::find(&project.root.join(group.sources))?;
        pack::remove_leftovers(&packed, plugins.iter().chain(&foreign))?;
        plugins.retain(is_wanted);
        foreign.retain(is_wanted);
        for (build, plugins) in builds(project, group.packed, plugins) {
            if !has_compiler(project, &plugins) {
                continue;
            }
            compile::compile(project, &toolchain, &build, &plugins)?;
            compiled.extend(plugins.into_iter().map(|plugin| Compiled {
                plugin,
                build: build.clone(),
                packed: packed.clone(),
            }));
        }
        for plugin in foreign {
            if foreign::build(project, group.packed, &plugin)? {
                let (build, packed) = (group.packed.to_owned(), packed.clone());
                compiled.push(Compiled { plugin, build, packed });
            }
        }
    }
    Ok(compiled)
}

/// Whether there is a C compiler, if plugins need one.
fn has_compiler(project: &Project, plugins: &[Plugin]) -> bool {
    let Some(plugin) = plugins.iter().find(|plugin| plugin.needs_c) else { return true };
    match clang::provide(project) {
        Ok(()) => true,
        Err(why) => {
            announce(&format!("leaving out {}: it needs a C compiler: {why:#}", plugin.name));
            false
        }
    }
}

/// Packs components with the host's command.
///
/// # Errors
/// If the command refuses a component or its manifest.
pub fn pack(project: &Project, compiled: &[Compiled]) -> Result<()> {
    compiled.iter().try_for_each(|Compiled { plugin, build, packed }| {
        pack::pack(project, plugin, (build, &plugin.component(project, build)), packed)
    })
}

/// Packs components that `project` has compiled by the command of `other`, and into its build.
///
/// # Errors
/// As of [`pack()`].
pub fn pack_for(other: &Project, project: &Project, compiled: &[Compiled]) -> Result<()> {
    compiled.iter().try_for_each(|Compiled { plugin, build, packed }| {
        let group = packed.strip_prefix(project.built(""))?.display().to_string();
        let component = plugin.component(project, build);
        pack::pack(other, plugin, (build, &component), &other.built(&group))
    })
}

/// Divides a group into builds: the plugins that one cargo builds together, and the build's name. A
/// workspace of its own is named by its directory.
fn builds(project: &Project, group: &str, plugins: Vec<Plugin>) -> Vec<(String, Vec<Plugin>)> {
    let mut builds: BTreeMap<PathBuf, Vec<Plugin>> = BTreeMap::new();
    builds.insert(project.root.clone(), Vec::new());
    for plugin in plugins {
        builds.entry(plugin.workspace.clone()).or_default().push(plugin);
    }
    let named = |(workspace, plugins): (PathBuf, Vec<Plugin>)| {
        let directory = workspace.file_name().unwrap_or_default().to_string_lossy();
        let is_own = workspace != project.root;
        (if is_own { format!("{group}-{directory}") } else { group.to_owned() }, plugins)
    };
    builds.into_iter().map(named).collect()
}

/// Builds and packs the plugin in one directory, inside or outside of this project, and returns the
/// path of the packed file.
///
/// # Errors
/// If the directory has no plugin, or for the reasons of [`compile`] and [`pack()`].
pub fn build_one(project: &Project, directory: &Path) -> Result<PathBuf> {
    let directory = fs::canonicalize(directory)
        .with_context(|| format!("no plugin in {}", directory.display()))?;
    let packed = project.built("packed");
    if foreign::is_foreign(&directory) && !directory.join("Cargo.toml").is_file() {
        let plugin = Plugin::foreign(&directory)?;
        let group = format!("single-{}", plugin.name);
        if !foreign::build(project, &group, &plugin)? {
            bail!("{} can't be built on this machine", plugin.name);
        }
        pack::pack(project, &plugin, (&group, &plugin.component(project, &group)), &packed)?;
        return Ok(plugin.packed(&packed));
    }
    for file in ["Cargo.toml", MANIFEST] {
        if !directory.join(file).is_file() {
            bail!("no plugin in {}: it holds no {file}", directory.display());
        }
    }
    let plugin = Plugin::read(&directory, &Crates::of(&directory)?)?;
    let group = format!("single-{}", plugin.name);
    compile::compile(project, &Toolchain::find(project)?, &group, std::slice::from_ref(&plugin))?;
    pack::pack(project, &plugin, (&group, &plugin.component(project, &group)), &packed)?;
    Ok(plugin.packed(&packed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Profile;

    #[test]
    fn each_workspace_is_a_build_of_its_own() {
        let project =
            Project { root: "/p".into(), target: "/p/target".into(), profile: Profile::Release };
        let plugin = |name: &str, workspace: &str| Plugin {
            name: name.to_owned(),
            package: String::new(),
            artifact: String::new(),
            needs_c: false,
            directory: PathBuf::new(),
            workspace: workspace.into(),
            described_by: Vec::new(),
        };
        let plugins = vec![
            plugin("a", "/p"),
            plugin("heavy", "/p/plugins/heavy"),
            plugin("b", "/p"),
            plugin("other", "/p/plugins/other"),
            plugin("second", "/p/plugins/heavy"),
        ];
        let found: Vec<(String, Vec<String>)> = builds(&project, "plugins", plugins)
            .into_iter()
            .map(|(name, plugins)| (name, plugins.into_iter().map(|plugin| plugin.name).collect()))
            .collect();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let wanted: [(String, Vec<String>); 3] = [
            ("plugins".to_owned(), names(&["a", "b"])),
            ("plugins-heavy".to_owned(), names(&["heavy", "second"])),
            ("plugins-other".to_owned(), names(&["other"])),
        ];
        assert_eq!(found, wanted);
    }
}
