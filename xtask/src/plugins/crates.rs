//! Reads `cargo metadata` of a workspace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::{cargo, output};

/// A crate that builds a component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    pub package: String,
    pub artifact: String,
    /// Whether it contains C, by `[package.metadata.xtask]`.
    pub needs_c: bool,
}

/// The crates of a workspace that build a component, by directory.
#[derive(Debug)]
pub struct Crates {
    pub workspace: PathBuf,
    pub by_directory: BTreeMap<PathBuf, Crate>,
}

impl Crates {
    /// Reads the metadata of the workspace that a directory belongs to.
    pub fn of(directory: &Path) -> Result<Self> {
        let metadata = output(cargo().current_dir(directory).args([
            "metadata",
            "--no-deps",
            "--format-version=1",
        ]))?;
        Self::parse(&metadata).context("`cargo metadata` answered something unexpected")
    }

    fn parse(metadata: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(metadata)?;
        let workspace = metadata["workspace_root"].as_str().context("no workspace_root")?.into();
        let mut by_directory = BTreeMap::new();
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let name = package["name"].as_str().context("a package without name")?;
            let manifest = package["manifest_path"].as_str().context("no manifest_path")?;
            let directory = Path::new(manifest).parent().context("no directory")?;
            if let Some(artifact) = component_target(&package["targets"]) {
                let needs_c = package["metadata"]["xtask"]["c-compiler"] == true;
                let found = Crate { package: name.to_owned(), artifact, needs_c };
                by_directory.insert(directory.to_owned(), found);
            }
        }
        Ok(Self { workspace, by_directory })
    }
}

/// The name of the target that becomes a component: a library of the type `cdylib`.
fn component_target(targets: &Value) -> Option<String> {
    let is_component = |target: &&Value| {
        target["crate_types"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"))
    };
    let target = targets.as_array()?.iter().find(is_component)?;
    Some(target["name"].as_str()?.replace('-', "_"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/w",
        "packages": [
            {"name": "cofferdam-files", "manifest_path": "/w/plugins/files/Cargo.toml", "targets": [
                {"name": "cofferdam_files", "crate_types": ["cdylib", "rlib"]},
                {"name": "table", "crate_types": ["bin"]}]},
            {"name": "cofferdam-sdk", "manifest_path": "/w/plugins/sdk/Cargo.toml", "targets": [
                {"name": "cofferdam_sdk", "crate_types": ["lib"]}]}]}"#;

    #[test]
    fn crates_that_build_a_component_are_known_by_directory() {
        let crates = Crates::parse(METADATA).unwrap();
        assert_eq!(crates.workspace, Path::new("/w"));
        let files = Crate {
            package: "cofferdam-files".into(),
            artifact: "cofferdam_files".into(),
            needs_c: false,
        };
        assert_eq!(crates.by_directory, BTreeMap::from([("/w/plugins/files".into(), files)]));
        for broken in ["", "{}", r#"{"workspace_root": "/w", "packages": [{}]}"#] {
            assert!(Crates::parse(broken).is_err(), "{broken}");
        }
    }
}
