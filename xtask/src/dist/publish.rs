//! Checks that what authors of plugins build with can be published as it is: the SDK as a crate, the
//! WIT packages, and templates that name released versions.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;

use crate::process::{cargo, output};
use crate::project::{Project, files_below, read_text};

#[test]
fn the_sdk_is_a_complete_crate() {
    let project = Project::find().unwrap();
    let mut package = cargo();
    package.current_dir(&project.root).args([
        "package",
        "--package",
        "cofferdam-sdk",
        "--list",
        "--allow-dirty",
        "--offline",
    ]);
    let listed = output(&mut package).unwrap();
    let files: Vec<&str> = listed.lines().collect();
    for needed in ["Cargo.toml", "README.md", "src/lib.rs", "src/bindings.rs"] {
        assert!(files.contains(&needed), "{needed} is missing in {files:?}");
    }
    let mut metadata = cargo();
    metadata.current_dir(&project.root).args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--offline",
    ]);
    let metadata: Value = serde_json::from_str(&output(&mut metadata).unwrap()).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let sdk = packages.iter().find(|package| package["name"] == "cofferdam-sdk").unwrap();
    for key in ["description", "license", "readme", "rust_version"] {
        assert!(sdk[key].is_string(), "{key}");
    }
    // The registry takes at most five of each.
    for key in ["keywords", "categories"] {
        assert!((1..=5).contains(&sdk[key].as_array().unwrap().len()), "{key}");
    }
    assert!(sdk["publish"].is_null(), "it may not be published");
    for dependency in sdk["dependencies"].as_array().unwrap() {
        let (name, kind) = (&dependency["name"], &dependency["kind"]);
        assert!(dependency["path"].is_null() || kind == "dev", "{name} is not in a registry");
    }
}

#[test]
fn wit_packages_are_described() {
    let root = Project::find().unwrap().root.join("wit");
    let config: toml::Table = read_text(&root.join("wkg.toml")).unwrap().parse().unwrap();
    let described = config["overrides"].as_table().unwrap();
    assert!(config["metadata"]["description"].is_str() && config["metadata"]["licenses"].is_str());
    let mut packages: Vec<String> = Vec::new();
    for file in files_below(&root.join("deps")).unwrap() {
        let text = read_text(&file).unwrap();
        let line = text.lines().find(|line| line.starts_with("package ")).unwrap();
        let (name, version) =
            line["package ".len()..].trim_end_matches(';').split_once('@').unwrap();
        assert_eq!(
            version, "0.1.0",
            "another version stands beside the old one (docs/upgrading.md)"
        );
        let path = described[name]["path"].as_str().unwrap();
        assert_eq!(root.join(path), file.parent().unwrap());
        packages.push(name.to_owned());
    }
    assert_eq!(packages.len(), described.len());
}

/// What `cofferdam plugin new` writes needs nothing of this project but the command.
#[test]
fn templates_name_released_versions() {
    let templates = Project::find().unwrap().root.join("host/cli/templates");
    let mut count = 0;
    for file in files_below(&templates).unwrap() {
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = read_text(&file).unwrap_or_default();
        match name {
            "Cargo.toml.template" => {
                // The command writes what it knows of the SDK.
                let text = text.replace("{{sdk}}", "").replace("{{", "").replace("}}", "");
                let manifest: toml::Table = text.parse().unwrap();
                for (name, dependency) in manifest["dependencies"].as_table().unwrap() {
                    let version = dependency.get("version").unwrap_or(dependency);
                    assert!(is_release(version.as_str().unwrap()), "{name} = {dependency}");
                    assert!(dependency.get("path").or(dependency.get("git")).is_none(), "{name}");
                }
            }
            "package.json" => {
                let manifest: Value = serde_json::from_str(&text).unwrap();
                for kind in ["dependencies", "devDependencies"] {
                    for (name, version) in manifest[kind].as_object().into_iter().flatten() {
                        assert!(is_release(version.as_str().unwrap()), "{name} {version}");
                    }
                }
            }
            "requirements.txt" => {
                let (_, version) = text.trim().split_once("==").unwrap();
                assert!(is_release(version), "{text}");
            }
            _ => continue,
        }
        count += 1;
    }
    assert!(count >= 6, "{count} manifests");
}

/// Whether a text is one version, and not a range or an address.
fn is_release(version: &str) -> bool {
    version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_digit() || c == '.')
}
