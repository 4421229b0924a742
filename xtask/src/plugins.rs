//! Building plugins and packing them.
//!
//! A plugin is a crate with a `plugin.toml` beside its `Cargo.toml`. All plugins of a group are
//! built by one cargo; then the host's own command packs each with its manifest and its
//! compiled code. Both steps are left out where nothing that they read has changed.

mod compile;
mod crates;
mod pack;
mod plugin;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use self::crates::Crates;
use self::plugin::{MANIFEST, Plugin};
use crate::project::Project;
use crate::toolchain::Toolchain;

pub use self::plugin::tools;

/// Plugins that are built and packed together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// The directory that holds the crates.
    pub sources: &'static str,
    /// The directory of the release build for the packed files.
    pub packed: &'static str,
}

/// Builds and packs groups of plugins.
///
/// # Errors
/// A plugin does not compile, is not well-formed, or there is no toolchain for components.
pub fn build(project: &Project, groups: &[Group]) -> Result<()> {
    let toolchain = Toolchain::find(project)?;
    let crates = Crates::of(&project.root)?;
    for group in groups {
        let plugins = plugin::find(&project.root.join(group.sources), &crates)?;
        let packed = project.release(group.packed);
        pack::remove_leftovers(&packed, &plugins)?;
        compile::compile(project, &toolchain, group.packed, &plugins)?;
        for plugin in &plugins {
            pack::pack(project, plugin, group.packed, &packed)?;
        }
    }
    Ok(())
}

/// Builds and packs the plugin in one directory, inside or outside of this project, and says
/// where the packed file is.
///
/// # Errors
/// As [`build`], and where the directory is no plugin.
pub fn build_one(project: &Project, directory: &Path) -> Result<PathBuf> {
    let directory = fs::canonicalize(directory)
        .with_context(|| format!("no plugin in {}", directory.display()))?;
    for file in ["Cargo.toml", MANIFEST] {
        if !directory.join(file).is_file() {
            bail!("no plugin in {}: it holds no {file}", directory.display());
        }
    }
    let plugin = Plugin::read(&directory, &Crates::of(&directory)?)?;
    let group = format!("single-{}", plugin.name);
    compile::compile(project, &Toolchain::find(project)?, &group, std::slice::from_ref(&plugin))?;
    let packed = project.release("packed");
    pack::pack(project, &plugin, &group, &packed)?;
    Ok(plugin.packed(&packed))
}
