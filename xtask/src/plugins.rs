//! Building plugins and packing them.
//!
//! A plugin is a crate with a `plugin.toml` beside its `Cargo.toml`. All plugins of a group are
//! built by one cargo, but for those that are a workspace of their own, which take minutes: each
//! of these has its own. Then the host's own command packs each with its manifest and its
//! compiled code. Both steps are left out where nothing that they read has changed.
//!
//! A plugin without a `Cargo.toml` is not written in Rust: see `foreign`.

mod compile;
mod crates;
mod foreign;
mod pack;
mod plugin;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use self::crates::Crates;
use self::plugin::{MANIFEST, Plugin};
use crate::project::Project;
use crate::toolchain::Toolchain;

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

/// A plugin whose component was built.
#[derive(Debug)]
pub struct Compiled {
    plugin: Plugin,
    build: String,
    /// The directory for the packed file.
    packed: PathBuf,
}

/// Builds the components of groups of plugins. Nothing of that needs the host.
///
/// # Errors
/// A plugin does not compile, is not well-formed, or there is no toolchain for components.
pub fn compile(project: &Project, groups: &[Group]) -> Result<Vec<Compiled>> {
    let toolchain = Toolchain::find(project)?;
    let crates = Crates::of(&project.root)?;
    let mut compiled = Vec::new();
    for group in groups {
        let plugins = plugin::find(&project.root.join(group.sources), &crates)?;
        let packed = project.release(group.packed);
        let foreign = foreign::find(&project.root.join(group.sources))?;
        pack::remove_leftovers(&packed, plugins.iter().chain(&foreign))?;
        for (build, plugins) in builds(project, group.packed, plugins) {
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

/// Packs components with the host's command.
///
/// # Errors
/// The command refuses a component or its manifest.
pub fn pack(project: &Project, compiled: &[Compiled]) -> Result<()> {
    compiled.iter().try_for_each(|Compiled { plugin, build, packed }| {
        pack::pack(project, plugin, build, packed)
    })
}

/// The builds of a group: what one cargo builds together, and what the build is called.
fn builds(project: &Project, group: &str, plugins: Vec<Plugin>) -> Vec<(String, Vec<Plugin>)> {
    let (members, others): (Vec<Plugin>, Vec<Plugin>) =
        plugins.into_iter().partition(|plugin| plugin.workspace == project.root);
    let others =
        others.into_iter().map(|plugin| (format!("{group}-{}", plugin.name), vec![plugin]));
    std::iter::once((group.to_owned(), members)).chain(others).collect()
}

/// Builds and packs the plugin in one directory, inside or outside of this project, and says
/// where the packed file is.
///
/// # Errors
/// As [`compile`] and [`pack()`], and where the directory is no plugin.
pub fn build_one(project: &Project, directory: &Path) -> Result<PathBuf> {
    let directory = fs::canonicalize(directory)
        .with_context(|| format!("no plugin in {}", directory.display()))?;
    let packed = project.release("packed");
    if foreign::is_foreign(&directory) && !directory.join("Cargo.toml").is_file() {
        let plugin = Plugin::foreign(&directory)?;
        let group = format!("single-{}", plugin.name);
        if !foreign::build(project, &group, &plugin)? {
            bail!("{} can't be built on this machine", plugin.name);
        }
        pack::pack(project, &plugin, &group, &packed)?;
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
    pack::pack(project, &plugin, &group, &packed)?;
    Ok(plugin.packed(&packed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workspaces_of_their_own_are_builds_of_their_own() {
        let project = Project { root: "/p".into(), target: "/p/target".into() };
        let plugin = |name: &str, workspace: &str| Plugin {
            name: name.to_owned(),
            package: String::new(),
            artifact: String::new(),
            directory: PathBuf::new(),
            workspace: workspace.into(),
            described_by: Vec::new(),
        };
        let plugins =
            vec![plugin("a", "/p"), plugin("heavy", "/p/plugins/heavy"), plugin("b", "/p")];
        let found: Vec<(String, Vec<String>)> = builds(&project, "plugins", plugins)
            .into_iter()
            .map(|(name, plugins)| (name, plugins.into_iter().map(|plugin| plugin.name).collect()))
            .collect();
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let wanted: [(String, Vec<String>); 2] = [
            ("plugins".to_owned(), names(&["a", "b"])),
            ("plugins-heavy".to_owned(), names(&["heavy"])),
        ];
        assert_eq!(found, wanted);
    }
}
