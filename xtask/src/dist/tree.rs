//! The files of a package, in the layout of a Unix prefix: `bin`, `lib`, `share`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Release;
use super::architecture::Architecture;
use crate::process::{native, output};
use crate::project::{Project, copy, files_below, write};

/// Plugins that bring the engine of a language, and are larger than all others together. They are
/// installed by `cofferdam plugin install`.
pub const APART: [&str; 2] = ["eslint", "pyflakes"];

/// Shells, with the place where each looks for completions.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/cofferdam"),
    ("fish", "share/fish/vendor_completions.d/cofferdam.fish"),
    ("zsh", "share/zsh/site-functions/_cofferdam"),
];

const DOCUMENTS: [&str; 5] =
    ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "SECURITY.md"];

/// The built-in plugins, without those that packages leave out.
///
/// # Errors
/// They can't be listed.
pub fn built_in(project: &Project) -> Result<Vec<PathBuf>> {
    let mut plugins = files_below(&project.built("plugins"))?;
    plugins.retain(|plugin| {
        let name = plugin.file_stem().unwrap_or_default().to_string_lossy();
        plugin.extension().is_some_and(|suffix| suffix == "wasm") && !APART.contains(&&*name)
    });
    Ok(plugins)
}

/// A directory with the files of a package.
pub struct Tree {
    pub root: PathBuf,
    pub architecture: &'static Architecture,
}

impl Tree {
    /// Collects the files, with `binary` as the command. The project's own build writes its manual, since
    /// this machine may not run the packaged one.
    ///
    /// # Errors
    /// If a file is missing, or the manual can't be written.
    pub fn make(
        project: &Project,
        release: &Release,
        architecture: &'static Architecture,
        binary: &Path,
    ) -> Result<Self> {
        let name = format!("cofferdam-{}-linux-{}", release.version, architecture.name);
        let root = project.memory("dist").join(name);
        if root.exists() {
            fs::remove_dir_all(&root).with_context(|| format!("removing {}", root.display()))?;
        }
        let tree = Self { root, architecture };
        tree.add(binary, "bin/cofferdam")?;
        for plugin in built_in(project)? {
            let name = plugin.file_name().unwrap_or_default().to_string_lossy().into_owned();
            tree.add(&plugin, &format!("lib/cofferdam/plugins/{name}"))?;
        }
        for document in DOCUMENTS {
            tree.add(&project.root.join(document), &format!("share/doc/cofferdam/{document}"))?;
        }
        for recipe in files_below(&project.root.join("deploy"))? {
            let name = recipe.file_name().unwrap_or_default().to_string_lossy().into_owned();
            tree.add(&recipe, &format!("share/doc/cofferdam/deploy/{name}"))?;
        }
        for schema in files_below(&project.root.join("schemas"))? {
            if schema.extension().is_some_and(|suffix| suffix == "json") {
                let name = schema.strip_prefix(project.root.join("schemas"))?.display().to_string();
                tree.add(&schema, &format!("share/cofferdam/schemas/{name}"))?;
            }
        }
        let command = || native(project.binary());
        for (shell, path) in SHELLS {
            let completions = output(command().args(["completions", shell]))?;
            write(&tree.root.join(path), completions)?;
        }
        let manual = tree.root.join("share/man/man1");
        fs::create_dir_all(&manual).with_context(|| format!("creating {}", manual.display()))?;
        output(command().arg("man").arg(&manual))?;
        Ok(tree)
    }

    fn add(&self, from: &Path, to: &str) -> Result<()> {
        copy(from, &self.root.join(to))
    }

    /// Copies the tree into a directory.
    ///
    /// # Errors
    /// I/O errors; the message names the file.
    pub fn copy_to(&self, directory: &Path) -> Result<()> {
        for file in files_below(&self.root)? {
            copy(&file, &directory.join(file.strip_prefix(&self.root)?))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::dist::architecture::Name;
    use crate::dist::formats::tests::release;

    /// A script in place of the command, which writes its manual and its completions.
    const COMMAND: &str = "#!/bin/sh\ncase $1 in\n\
        completions) echo \"completions of $2\" ;;\n\
        man) echo manual >\"$2/cofferdam.1\" ;;\nesac\n";

    #[test]
    fn packages_have_all_that_belongs_to_a_command() {
        let scratch = tempfile::tempdir().unwrap();
        let (project, release, _) = release(scratch.path());
        write(&project.binary(), COMMAND).unwrap();
        fs::set_permissions(project.binary(), fs::Permissions::from_mode(0o755)).unwrap();
        for plugin in ["files.wasm", "files.cwasm", "eslint.wasm"] {
            write(&project.built("plugins").join(plugin), "\0asm").unwrap();
        }
        let architecture = Name::Aarch64.architecture();
        let tree = Tree::make(&project, &release, architecture, &project.binary()).unwrap();
        assert!(tree.root.ends_with(format!("cofferdam-{}-linux-aarch64", release.version)));
        for file in [
            "bin/cofferdam",
            "lib/cofferdam/plugins/files.wasm",
            "share/man/man1/cofferdam.1",
            "share/bash-completion/completions/cofferdam",
            "share/fish/vendor_completions.d/cofferdam.fish",
            "share/zsh/site-functions/_cofferdam",
            "share/doc/cofferdam/SECURITY.md",
            "share/doc/cofferdam/deploy/cofferdam.service",
            "share/cofferdam/schemas/settings.json",
            "share/cofferdam/schemas/tools/files.glob.input.json",
        ] {
            assert!(tree.root.join(file).is_file(), "{file}");
        }
        let plugins = files_below(&tree.root.join("lib")).unwrap();
        assert_eq!(plugins.len(), 1, "{plugins:?}");
    }
}
