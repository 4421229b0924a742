//! One plugin: what its manifest says, and the paths of its files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::crates::{Crate, Crates};
use crate::project::{Project, files_below, read_text};
use crate::toolchain::TARGET;

/// The file that makes a crate a plugin.
pub const MANIFEST: &str = "plugin.toml";

/// The short names of the plugins' tools, each with the name of its plugin. If several plugins have
/// a tool of the same name, the first plugin in the order of directories is taken.
///
/// # Errors
/// If a manifest can't be read.
pub fn tools(project: &Project) -> Result<BTreeMap<String, String>> {
    let mut tools = BTreeMap::new();
    for file in manifests(&project.root.join("plugins"))? {
        let manifest = read_manifest(&file)?;
        let text = |value: Option<&toml::Value>| Some(value?.as_str()?.to_owned());
        let plugin = text(manifest.get("name")).unwrap_or_default();
        for tool in tool_tables(&manifest).filter_map(|tool| text(tool.get("name"))) {
            tools.entry(tool).or_insert_with(|| plugin.clone());
        }
    }
    Ok(tools)
}

/// A plugin's crate, or the directory of a plugin that is not written in Rust.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// The name in its manifest, which is also that of the packed file.
    pub name: String,
    pub package: String,
    /// The name of the file that cargo builds, without its extension.
    pub artifact: String,
    /// Whether building it takes a C compiler.
    pub needs_c: bool,
    pub directory: PathBuf,
    pub workspace: PathBuf,
    /// The manifest and the schemas that it names.
    pub described_by: Vec<PathBuf>,
}

impl Plugin {
    pub fn read(directory: &Path, crates: &Crates) -> Result<Self> {
        let (name, described_by) = described(directory)?;
        let Some(Crate { package, artifact, needs_c }) = crates.by_directory.get(directory) else {
            bail!(
                "{} is no member of the workspace {}, or builds no component (it needs \
                 crate-type \"cdylib\")",
                directory.display(),
                crates.workspace.display()
            );
        };
        Ok(Self {
            name,
            package: package.clone(),
            artifact: artifact.clone(),
            needs_c: *needs_c,
            directory: directory.to_owned(),
            workspace: crates.workspace.clone(),
            described_by,
        })
    }

    /// Reads a plugin that is not written in Rust and belongs to no Cargo package.
    pub fn foreign(directory: &Path) -> Result<Self> {
        let (name, described_by) = described(directory)?;
        Ok(Self {
            name,
            package: String::new(),
            artifact: String::new(),
            needs_c: false,
            directory: directory.to_owned(),
            workspace: directory.to_owned(),
            described_by,
        })
    }

    pub fn manifest(&self) -> PathBuf {
        self.directory.join(MANIFEST)
    }

    /// The component that cargo writes. Another build, with other features of the dependencies or a
    /// plugin of the same name, overwrites it.
    pub fn built(&self, project: &Project) -> PathBuf {
        let built = project.target.join("plugins").join(TARGET).join(project.profile.plugins());
        built.join(format!("{}.wasm", self.artifact))
    }

    /// The copy of the component that belongs to this group's build.
    pub fn component(&self, project: &Project, group: &str) -> PathBuf {
        project.memory("components").join(group).join(format!("{}.wasm", self.name))
    }

    pub fn packed(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.wasm", self.name))
    }

    pub fn compiled(&self, directory: &Path) -> PathBuf {
        directory.join(format!("{}.cwasm", self.name))
    }
}

/// A plugin's name, and the files that describe it.
fn described(directory: &Path) -> Result<(String, Vec<PathBuf>)> {
    let path = directory.join(MANIFEST);
    let manifest = read_manifest(&path)?;
    let name = match manifest.get("name").and_then(toml::Value::as_str) {
        Some(name) if is_file_name(name) => name.to_owned(),
        _ => bail!("{}: 'name' has to be a string of a-z, 0-9, '-' and '_'", path.display()),
    };
    let mut described_by: Vec<PathBuf> =
        schemas(&manifest).iter().map(|schema| directory.join(schema)).collect();
    described_by.push(path);
    Ok((name, described_by))
}

fn is_file_name(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
    !name.is_empty() && name.bytes().all(is_plain)
}

fn read_manifest(path: &Path) -> Result<toml::Table> {
    read_text(path)?.parse().with_context(|| path.display().to_string())
}

fn tool_tables(manifest: &toml::Table) -> impl Iterator<Item = &toml::Table> {
    let tools = manifest.get("tools").and_then(toml::Value::as_array);
    tools.into_iter().flatten().filter_map(toml::Value::as_table)
}

/// The schema files that a manifest names, relative to it.
fn schemas(manifest: &toml::Table) -> Vec<&str> {
    tool_tables(manifest)
        .flat_map(|tool| ["input", "output", "failure"].map(|key| tool.get(key)))
        .filter_map(|schema| schema?.as_str())
        .collect()
}

/// The manifests below a directory, sorted.
fn manifests(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = files_below(directory)?;
    files.retain(|file| file.file_name() == Some(OsStr::new(MANIFEST)));
    Ok(files)
}

/// Finds the plugins below a directory that have a `Cargo.toml`.
pub fn find(directory: &Path, crates: &Crates) -> Result<Vec<Plugin>> {
    manifests(directory)?
        .iter()
        .filter_map(|file| file.parent())
        .filter(|directory| directory.join("Cargo.toml").is_file())
        .map(|directory| match is_apart(directory)? {
            true => Plugin::read(directory, &Crates::of(directory)?),
            false => Plugin::read(directory, crates),
        })
        .collect()
}

/// Whether a crate has a Cargo workspace of its own, or names the one that it belongs to.
fn is_apart(directory: &Path) -> Result<bool> {
    let path = directory.join("Cargo.toml");
    let manifest: toml::Table =
        read_text(&path)?.parse().with_context(|| path.display().to_string())?;
    let named = manifest.get("package").and_then(|package| package.get("workspace"));
    Ok(manifest.contains_key("workspace") || named.is_some())
}

/// The directories below this one that contain a plugin without a `Cargo.toml`.
pub fn foreign_manifests(directory: &Path) -> Result<Vec<PathBuf>> {
    let manifests = manifests(directory)?;
    let directories = manifests.iter().filter_map(|file| file.parent());
    Ok(directories
        .filter(|directory| !directory.join("Cargo.toml").is_file())
        .map(Path::to_owned)
        .collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;
    use crate::project::write;

    #[test]
    fn plugins_are_found_read_and_refused() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let manifest = "name = \"files\"\n[[tools]]\nname = \"t\"\ninput = \"../i.json\"\noutput = \"o.json\"\n";
        write(&root.join("files/Cargo.toml"), "").unwrap();
        write(&root.join("files/plugin.toml"), manifest).unwrap();
        write(&root.join("sdk/Cargo.toml"), "").unwrap();
        write(&root.join("in-python/plugin.toml"), "").unwrap();
        let known = Crate { package: "p".into(), artifact: "a".into(), needs_c: false };
        let crates = Crates {
            workspace: root.to_owned(),
            by_directory: BTreeMap::from([(root.join("files"), known)]),
        };
        let plugins = find(root, &crates).unwrap();
        assert_eq!(plugins.len(), 1);
        let files = &plugins[0];
        assert_eq!((files.name.as_str(), files.package.as_str()), ("files", "p"));
        let described_by =
            ["../i.json", "o.json", "plugin.toml"].map(|file| root.join("files").join(file));
        assert_eq!(files.described_by, described_by);

        for (broken, wanted) in [
            ("name = \"../files\"", "'name' has to be"),
            ("name = \"\"", "'name' has to be"),
            ("version = \"1\"", "'name' has to be"),
            ("name =", "plugin.toml"),
        ] {
            write(&root.join("files/plugin.toml"), broken).unwrap();
            let error = find(root, &crates).unwrap_err().to_string();
            assert!(error.contains(wanted), "{broken}: {error}");
        }
        write(&root.join("files/plugin.toml"), manifest).unwrap();
        let nothing = Crates { workspace: root.to_owned(), by_directory: BTreeMap::new() };
        assert!(find(root, &nothing).unwrap_err().to_string().contains("is no member"));
    }

    #[test]
    fn a_plugin_can_belong_to_another_workspace() {
        let directory = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(directory.path()).unwrap();
        let heavy = root.join("heavy");
        let manifest = |name: &str, package: &str, workspace: &str| {
            format!(
                "{workspace}\n[package]\nname = \"{name}\"\nedition = \"2024\"\n{package}\n\
                 [lib]\ncrate-type = [\"cdylib\"]\n"
            )
        };
        let second = root.join("second");
        let own = "[workspace]\nmembers = [\"../second\"]";
        for (directory, name, package, workspace) in
            [(&heavy, "heavy", "", own), (&second, "second", "workspace = \"../heavy\"", "")]
        {
            write(&directory.join("Cargo.toml"), manifest(name, package, workspace)).unwrap();
            write(&directory.join("src/lib.rs"), "").unwrap();
            write(&directory.join("plugin.toml"), format!("name = \"{name}\"")).unwrap();
        }
        let others = Crates { workspace: root.clone(), by_directory: BTreeMap::new() };
        let plugins = find(&root, &others).unwrap();
        let found: Vec<(&str, &Path)> = plugins
            .iter()
            .map(|plugin| (plugin.package.as_str(), plugin.workspace.as_path()))
            .collect();
        assert_eq!(found, [("heavy", heavy.as_path()), ("second", heavy.as_path())]);
    }
}
