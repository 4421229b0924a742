//! Sets up what authors of plugins have on their machines, for the tests that go from `cofferdam
//! plugin new` to a successful call in each language.
//!
//! Rust, Python and JavaScript are installed already: the project's own plugins are built with
//! them. For C, Debian's clang is installed if it is missing. The result is
//! `target/programs/authors.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Serialize;

use crate::apt::Apt;
use crate::plugins;
use crate::process::{announce, ask, native};
use crate::project::{Project, write};
use crate::toolchain::Toolchain;

/// Debian's packages for C, as the README of the template names them.
const C: [&str; 4] = ["clang", "lld", "wasi-libc", "libclang-rt-dev-wasm32"];

/// The entry for a language in `authors.toml`.
#[derive(Debug, Default, Serialize)]
struct Tools {
    /// Environment variables for a build.
    variables: BTreeMap<String, String>,
    /// A directory that is added to `PATH`.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// A directory of JavaScript packages.
    #[serde(skip_serializing_if = "Option::is_none")]
    packages: Option<String>,
    /// The reason, if the language is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing: Option<String>,
}

impl Tools {
    fn missing(why: impl Into<String>) -> Self {
        Self { missing: Some(why.into()), ..Self::default() }
    }
}

/// Installs the tools, after the project's own plugins have been built. A language that is not
/// available is listed with the reason.
///
/// # Errors
/// If there is no toolchain for components, or the file can't be written.
pub fn provide(project: &Project) -> Result<()> {
    let toolchain = Toolchain::find(project)?;
    let path = |path: &Path| path.display().to_string();
    let python = match plugins::tools_of(project, "pyflakes") {
        Some(environment) => {
            Tools { path: Some(path(&environment.join("bin"))), ..Tools::default() }
        }
        None => Tools::missing("there is no python3 of version 3.10 or later with venv and pip"),
    };
    let javascript = match plugins::tools_of(project, "eslint") {
        Some(packages) => Tools { packages: Some(path(&packages)), ..Tools::default() },
        None => Tools::missing("there is no node of version 20.19 or later with npm"),
    };
    let tools = BTreeMap::from([
        ("rust", Tools { variables: toolchain.for_authors(), ..Tools::default() }),
        ("c", c(project, &toolchain).unwrap_or_else(|why| Tools::missing(format!("{why:#}")))),
        ("python", python),
        ("javascript", javascript),
    ]);
    for (language, Tools { missing, .. }) in &tools {
        if let Some(why) = missing {
            announce(&format!("tests have to do without plugins in {language}: {why}"));
        }
    }
    write(&project.target.join("programs/authors.toml"), toml::to_string(&tools)?)
}

fn c(project: &Project, toolchain: &Toolchain) -> Result<Tools> {
    let component_linker = toolchain.component_linker(project)?;
    if !links(project)? {
        let apt = Apt::find().with_context(|| format!("packages {}", C.join(", ")))?;
        apt.update()?;
        apt.install(&C)?;
        if !links(project)? {
            bail!("clang can't link for wasm32-wasi, although {} are installed", C.join(", "));
        }
    }
    let variables =
        [("COMPONENT_LD".to_owned(), component_linker.display().to_string())].into_iter().collect();
    Ok(Tools { variables, ..Tools::default() })
}

/// Whether clang can link a module for WASI.
fn links(project: &Project) -> Result<bool> {
    let directory = project.memory("authors-c");
    fs::create_dir_all(&directory).with_context(|| format!("creating {}", directory.display()))?;
    let mut clang = native("clang");
    clang.current_dir(&directory).args(["--target=wasm32-wasi", "-mexec-model=reactor"]);
    clang.args(["-x", "c", "/dev/null", "-o", "empty.wasm"]);
    Ok(ask(&mut clang).is_some())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::project::read_text;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn the_templates_name_the_versions_that_the_tests_have() {
        let text = |file: &str| read_text(&root().join(file)).unwrap();
        let installed = text("plugins/backends/pyflakes/requirements.txt");
        for line in text("host/cli/templates/python-tool/requirements.txt").lines() {
            assert!(installed.lines().any(|installed| installed == line), "{line}");
        }
        let lock = text("plugins/backends/eslint/package-lock.json");
        let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
        for template in ["javascript-tool", "typescript-tool"] {
            let package = text(&format!("host/cli/templates/{template}/package.json"));
            let package: serde_json::Value = serde_json::from_str(&package).unwrap();
            for (name, version) in package["devDependencies"].as_object().unwrap() {
                let locked = &lock["packages"][format!("node_modules/{name}")]["version"];
                assert_eq!(locked, version, "{template}: {name}");
            }
        }
    }

    #[test]
    fn the_readme_names_the_packages_that_the_tests_install() {
        let readme = read_text(&root().join("host/cli/templates/c-tool/README.md")).unwrap();
        assert!(readme.contains(&C.join(" ")));
    }
}
