//! Sets up what authors of plugins have on their machines, for the tests that go from `cofferdam
//! plugin new` to a successful call in each language.
//!
//! Rust and Python are installed already: the project's own plugins are built with them. For C,
//! Debian's clang is installed if it is missing, and for JavaScript the packages of the templates.
//! The result is `target/programs/authors.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::plugins;
use crate::process::{announce, ask, native, run};
use crate::project::{Project, read_text, write};
use crate::stamp::{Inputs, Stamp};
use crate::toolchain::{Toolchain, clang};

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
    let tools = BTreeMap::from([
        ("rust", Tools { variables: toolchain.for_authors(), ..Tools::default() }),
        ("c", c(project, &toolchain).unwrap_or_else(|why| Tools::missing(format!("{why:#}")))),
        ("python", python),
        (
            "javascript",
            javascript(project).unwrap_or_else(|why| Tools::missing(format!("{why:#}"))),
        ),
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
    clang::provide(project)?;
    let variables =
        [("COMPONENT_LD".to_owned(), component_linker.display().to_string())].into_iter().collect();
    Ok(Tools { variables, ..Tools::default() })
}

/// Installs the packages of the templates, twice: a second `npm install`, with the lock file that the
/// first one wrote, must leave everything that a build needs.
fn javascript(project: &Project) -> Result<Tools> {
    let version = ask(native("npm").arg("--version"))
        .context("there is no node of version 20.19 or later with npm")?;
    let templates = project.root.join("host/cli/templates");
    let directory = project.memory("authors-javascript");
    let packages = directory.join("node_modules");
    let required = [
        (templates.join("typescript-tool/package.json"), "package.json"),
        (templates.join("script/.npmrc"), ".npmrc"),
    ];
    let stamp = Stamp::new(
        project,
        "authors-javascript",
        Inputs::new()
            .value("npm", &version)
            .files(required.iter().map(|(from, _)| from.clone()))?,
    );
    if !stamp.is_fresh([&packages]) {
        for (from, to) in &required {
            write(&directory.join(to), read_text(from)?.replace("{{name}}", "authors"))?;
        }
        for _ in 0..2 {
            let mut npm = native("npm");
            npm.current_dir(&directory).args(["install", "--no-audit", "--no-fund"]);
            npm.args(["--loglevel", "error"]);
            run("installing what builds plugins in JavaScript", &mut npm)?;
        }
        stamp.set()?;
    }
    Ok(Tools { packages: Some(packages.display().to_string()), ..Tools::default() })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

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
        // The packages of TypeScript are installed, so they have to contain those of JavaScript.
        let [javascript, typescript] = ["javascript-tool", "typescript-tool"].map(|template| {
            let package = text(&format!("host/cli/templates/{template}/package.json"));
            let package: serde_json::Value = serde_json::from_str(&package).unwrap();
            package["devDependencies"].clone()
        });
        for (name, version) in javascript.as_object().unwrap() {
            assert_eq!(&typescript[name], version, "{name}");
        }
    }

    #[test]
    fn the_readme_names_the_packages_that_the_tests_install() {
        let readme = read_text(&root().join("host/cli/templates/c-tool/README.md")).unwrap();
        assert!(readme.contains(&clang::PACKAGES.join(" ")));
    }
}
