//! Packs a component into the file that the host loads, with its compiled code beside it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::plugin::Plugin;
use crate::process::{announce, native, output};
use crate::project::{Project, files_below};
use crate::stamp::{Inputs, Stamp};

/// Packs the component of a group's plugin with its manifest, and compiles it, by the command of `project`.
pub fn pack(
    project: &Project,
    plugin: &Plugin,
    (group, component): (&str, &Path),
    directory: &Path,
) -> Result<()> {
    let packed = plugin.packed(directory);
    let stamp = Stamp::new(
        project,
        &format!("pack-{group}-{}", plugin.name),
        Inputs::new()
            .files([component.to_owned()])?
            .files(plugin.described_by.iter().cloned())?
            .large_file(&project.binary())?,
    );
    if stamp.is_fresh([&packed, &plugin.compiled(directory)]) {
        return Ok(());
    }
    announce(&format!("packing {}", project.shown(&packed)));
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    // The command's output is meant for a user who packs one plugin by hand.
    output(
        native(project.binary())
            .args(["plugin", "pack", "--compile", "--manifest"])
            .arg(plugin.manifest())
            .arg("--component")
            .arg(component)
            .arg("--output")
            .arg(&packed),
    )?;
    stamp.set()
}

/// Removes packed files whose plugin no longer exists: the host would still load them.
pub fn remove_leftovers<'a>(
    directory: &Path,
    plugins: impl IntoIterator<Item = &'a Plugin>,
) -> Result<()> {
    let kept: Vec<PathBuf> = plugins
        .into_iter()
        .flat_map(|plugin| [plugin.packed(directory), plugin.compiled(directory)])
        .collect();
    for file in files_below(directory)? {
        if !kept.contains(&file) {
            fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::project::write;

    #[test]
    fn packed_files_without_a_plugin_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let plugin = Plugin {
            name: "files".to_owned(),
            package: String::new(),
            artifact: String::new(),
            needs_c: false,
            directory: PathBuf::new(),
            workspace: PathBuf::new(),
            described_by: Vec::new(),
        };
        for file in ["files.wasm", "files.cwasm", "old.wasm", "old.cwasm"] {
            write(&root.join(file), "").unwrap();
        }
        remove_leftovers(root, [&plugin]).unwrap();
        assert_eq!(
            files_below(root).unwrap(),
            ["files.cwasm", "files.wasm"].map(|file| root.join(file))
        );
    }
}
