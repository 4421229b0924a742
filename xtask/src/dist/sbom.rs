//! The list of what packages are made of (SBOM): CycloneDX 1.6 in JSON
//! (<https://cyclonedx.org/docs/1.6/json/>). The crates of the command and of each packaged plugin, with
//! their licences and checksums, from `cargo metadata` and the lock files. It has no time and no random
//! number, so that two builds of one commit give the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Release;
use super::architecture::Name;
use crate::ci::APART;
use crate::process::{cargo, output};
use crate::project::{Project, read_text, write};
use crate::toolchain;

/// The reference of the whole release in the list.
const RELEASE: &str = "cofferdam";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
    workspace_members: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    description: Option<String>,
    license: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Deserialize)]
struct DependencyKind {
    /// `dev`, `build`, or neither.
    kind: Option<String>,
}

/// Components and their dependencies, by reference.
#[derive(Default)]
struct Sbom {
    components: BTreeMap<String, Value>,
    dependencies: BTreeMap<String, BTreeSet<String>>,
}

/// Writes the list and returns its path.
///
/// # Errors
/// If a lock file is out of date, or a crate has not been downloaded.
pub fn make(project: &Project, release: &Release, architectures: &[Name]) -> Result<PathBuf> {
    let mut sbom = Sbom::default();
    for name in architectures {
        sbom.add(&project.root, name.architecture().target, |package| {
            package.manifest_path.ends_with("host/cli/Cargo.toml")
        })?;
    }
    let workspaces = ["."].into_iter().chain(APART).map(|name| project.root.join(name));
    // Others are members of one of these.
    for workspace in workspaces.filter(|workspace| workspace.join("Cargo.lock").is_file()) {
        sbom.add(&workspace, toolchain::TARGET, |package| {
            let is_ours = package.manifest_path.starts_with(project.root.join("plugins"));
            is_ours && package.manifest_path.with_file_name("plugin.toml").is_file()
        })?;
    }
    let file = release.directory.join(format!("cofferdam-{}.cdx.json", release.version));
    write(&file, format!("{:#}\n", sbom.document(&release.version)))?;
    Ok(file)
}

impl Sbom {
    /// Adds the packages of a workspace that are part of a release, with all that they depend on.
    fn add(
        &mut self,
        workspace: &Path,
        target: &str,
        is_part: impl Fn(&Package) -> bool,
    ) -> Result<()> {
        let manifest = workspace.join("Cargo.toml");
        let mut command = cargo();
        command
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(["--filter-platform", target, "--manifest-path"])
            .arg(&manifest);
        let metadata: Metadata = serde_json::from_str(&output(&mut command)?)?;
        let checksums = checksums(&read_text(&workspace.join("Cargo.lock"))?)?;
        let packages: BTreeMap<&str, &Package> =
            metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
        let nodes: BTreeMap<&str, &Node> =
            metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let package = |id: &str| packages.get(id).context("cargo lists no such package");
        let mut open = Vec::new();
        for id in &metadata.workspace_members {
            if is_part(package(id)?) {
                let roots = self.dependencies.entry(RELEASE.to_owned()).or_default();
                roots.insert(package(id)?.reference());
                open.push(id.as_str());
            }
        }
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            let reference = package(id)?.reference();
            self.components.entry(reference.clone()).or_insert(package(id)?.component(&checksums));
            for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
                if dependency.dep_kinds.iter().any(|of| of.kind.is_none()) {
                    let dependencies = self.dependencies.entry(reference.clone()).or_default();
                    dependencies.insert(package(&dependency.pkg)?.reference());
                    open.push(&dependency.pkg);
                }
            }
        }
        Ok(())
    }

    fn document(&self, version: &str) -> Value {
        let dependencies = self
            .dependencies
            .iter()
            .map(|(reference, on)| json!({"ref": reference, "dependsOn": on}));
        json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": {
                "type": "application",
                "bom-ref": RELEASE,
                "name": "cofferdam",
                "version": version,
                "licenses": [{"expression": "Apache-2.0 OR MIT"}],
            }},
            "components": self.components.values().collect::<Vec<_>>(),
            "dependencies": dependencies.collect::<Vec<_>>(),
        })
    }
}

impl Package {
    /// The package's URL (<https://github.com/package-url/purl-spec>).
    fn reference(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    fn component(&self, checksums: &BTreeMap<(String, String), String>) -> Value {
        let mut component = json!({
            "type": "library",
            "bom-ref": self.reference(),
            "name": self.name,
            "version": self.version,
            "purl": self.reference(),
        });
        if let Some(description) = &self.description {
            component["description"] =
                description.split_whitespace().collect::<Vec<_>>().join(" ").into();
        }
        if let Some(license) = &self.license {
            // Older crates separate licences by a slash.
            let expression = license.replace('/', " OR ").replace("  ", " ");
            component["licenses"] = json!([{"expression": expression}]);
        }
        if let Some(checksum) = checksums.get(&(self.name.clone(), self.version.clone())) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        component
    }
}

/// The checksums in a lock file, by name and version. Crates of this project have none.
fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    #[derive(Deserialize)]
    struct Lock {
        package: Vec<Locked>,
    }
    #[derive(Deserialize)]
    struct Locked {
        name: String,
        version: String,
        checksum: Option<String>,
    }
    let lock: Lock = toml::from_str(lock)?;
    let with_checksum =
        |package: Locked| Some(((package.name, package.version), package.checksum?));
    Ok(lock.package.into_iter().filter_map(with_checksum).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::dist::formats::tests::{client, release};

    #[test]
    fn all_that_is_packaged_is_listed_once_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let (project, release, _) = release(scratch.path());
        let file = make(&project, &release, &[Name::X86_64]).unwrap();
        let text = read_text(&file).unwrap();
        assert!(!text.contains(project.root.to_str().unwrap()), "a path of this machine");
        assert_eq!(read_text(&make(&project, &release, &[Name::X86_64]).unwrap()).unwrap(), text);
        let document: Value = serde_json::from_str(&text).unwrap();
        let components = document["components"].as_array().unwrap();
        let names: BTreeSet<&str> =
            components.iter().map(|component| component["name"].as_str().unwrap()).collect();
        for part in
            ["cofferdam", "wasmtime", "cofferdam-files", "ruff_linter", "ty_python_semantic"]
        {
            assert!(names.contains(part), "{part} is missing");
        }
        for other in ["xtask", "cofferdam-tests", "cofferdam-smith", "wasm-smith", "tempdir", "wat"]
        {
            assert!(!names.contains(other), "{other} is in no package");
        }
        let references: BTreeSet<&str> =
            components.iter().map(|component| component["bom-ref"].as_str().unwrap()).collect();
        assert_eq!(references.len(), components.len());
        for dependency in document["dependencies"].as_array().unwrap() {
            for on in dependency["dependsOn"].as_array().unwrap() {
                assert!(references.contains(on.as_str().unwrap()), "{on}");
            }
        }
        for component in components {
            let is_ours = component["name"].as_str().unwrap().contains("cofferdam");
            assert!(is_ours || component["hashes"].is_array(), "{component:#}");
            assert!(component["licenses"].is_array(), "{component:#}");
        }
        let Some(mut python) = client("packages/bin/python") else { return };
        let check = "import sys\n\
            from cyclonedx.schema import SchemaVersion\n\
            from cyclonedx.validation.json import JsonStrictValidator\n\
            found = JsonStrictValidator(SchemaVersion.V1_6).validate_str(open(sys.argv[1]).read())\n\
            sys.exit(str(found) if found else 0)";
        output(python.args(["-c", check]).arg(&file)).unwrap();
    }
}
