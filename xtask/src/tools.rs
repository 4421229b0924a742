//! Developer tools that are not dependencies: an installed one is used, or it is built once into
//! the build directory.

use std::env;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

use crate::process::{cargo, run};
use crate::project::Project;

/// Checks licences, sources and advisories of all dependencies.
pub const CARGO_DENY: Tool =
    Tool { name: "cargo-deny", package: "cargo-deny", version: "0.20.2", profile: DEBUG };

/// Runs fuzz targets with libFuzzer.
pub const CARGO_FUZZ: Tool =
    Tool { name: "cargo-fuzz", package: "cargo-fuzz", version: "0.13.2", profile: DEBUG };

/// Turns a linked module into a component.
pub const WASM_COMPONENT_LD: Tool = Tool {
    name: "wasm-component-ld",
    package: "wasm-component-ld",
    version: "0.5.31",
    profile: &[],
};

/// Generates the bindings of the SDK. Its version is that of the SDK's `wit-bindgen`.
pub const WIT_BINDGEN: Tool =
    Tool { name: "wit-bindgen", package: "wit-bindgen-cli", version: "0.61.1", profile: DEBUG };

/// The profile for tools that run for seconds, for which a short build matters more than speed.
const DEBUG: &[&str] = &["--debug", "--config", "profile.dev.debug=false"];

/// A program from a crate.
pub struct Tool {
    name: &'static str,
    package: &'static str,
    /// The version that is built if the program is not installed.
    version: &'static str,
    /// Arguments that select cargo's profile; none for a release build.
    profile: &'static [&'static str],
}

impl Tool {
    /// The version that is built if the program is not installed.
    pub fn version(&self) -> &'static str {
        self.version
    }

    /// Finds the program on `PATH`, or builds it from its crate on first use, which takes minutes
    /// for some.
    ///
    /// # Errors
    /// If it is not installed and can't be built, for example without a network.
    pub fn provide(&self, project: &Project) -> Result<PathBuf> {
        let file = format!("{}{}", self.name, env::consts::EXE_SUFFIX);
        let built = project.target.join("tools/bin").join(&file);
        let search_path = env::var_os("PATH").unwrap_or_default();
        let installed = env::split_paths(&search_path).map(|directory| directory.join(&file));
        if let Some(program) = installed.chain([built.clone()]).find(|program| program.is_file()) {
            return Ok(program);
        }
        let mut install = cargo();
        install
            .args(["install", "--locked", "--version", self.version, "--root"])
            .arg(project.target.join("tools"))
            .arg("--target-dir")
            .arg(project.target.join("tools/build"))
            .args(self.profile)
            .arg(self.package);
        run(&format!("building {} {} (once)", self.name, self.version), &mut install)
            .with_context(|| format!("install it with: cargo install --locked {}", self.package))?;
        Ok(built)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::project::{Profile, write};

    #[test]
    fn a_tool_that_was_built_before_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().to_owned();
        let project = Project { target: root.join("target"), root, profile: Profile::Release };
        let tool = Tool {
            name: "cofferdam-test-tool",
            package: "cofferdam-test-tool",
            version: "0.0.0",
            profile: &[],
        };
        let program = project.target.join("tools/bin").join(format!(
            "{}{}",
            tool.name,
            env::consts::EXE_SUFFIX
        ));
        write(&program, "").unwrap();
        assert_eq!(tool.provide(&project).unwrap(), program);
    }
}
