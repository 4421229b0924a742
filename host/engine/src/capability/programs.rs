//! Finds native programs by name, and opens the sandbox that they run in.

use std::collections::HashMap;
use std::fmt::Display;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cofferdam_sandbox::{Helper, Sandbox, Tier};

use super::bindings::cofferdam::host::process::Error;
use crate::toolchains::{SYSTEM_DIRECTORIES, Toolchains, remedy_with};
use cofferdam_core::policy::{ProgramSettings, SandboxTier};
use cofferdam_workspace::Workspace;
use cofferdam_workspace::path::by_names;

/// Finds native programs on this machine. The sandbox is opened for the first program.
pub struct Programs {
    helper: Option<Helper>,
    pub(super) settings: ProgramSettings,
    pub(super) environment: HashMap<String, String>,
    sandbox: OnceLock<Sandbox>,
}

impl Programs {
    /// Programs that `helper` starts; without a helper, none runs. The operator can grant the
    /// variables in `environment`.
    pub fn new(
        helper: Option<Helper>,
        settings: ProgramSettings,
        environment: HashMap<String, String>,
    ) -> Self {
        Self { helper, settings, environment, sandbox: OnceLock::new() }
    }

    /// A value that runs no programs.
    pub fn none() -> Self {
        Self::new(None, ProgramSettings::default(), HashMap::new())
    }

    /// The sandbox. If it can't be opened, the next run tries again: the missing parts may have
    /// been installed.
    pub(super) fn sandbox(&self) -> Result<&Sandbox, Error> {
        if let Some(sandbox) = self.sandbox.get() {
            return Ok(sandbox);
        }
        let Some(helper) = self.helper.clone() else {
            let why = "this host was opened without a way to start one";
            return Err(Error::Unavailable(why.to_owned()));
        };
        let tier = self.settings.tier.map(|tier| match tier {
            SandboxTier::A => Tier::A,
            SandboxTier::B => Tier::B,
        });
        let sandbox =
            Sandbox::open(helper, tier).map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(self.sandbox.get_or_init(|| sandbox))
    }

    /// The toolchains of the operator's account for programs that run in `directory`, which is
    /// relative to the workspace.
    pub(crate) fn toolchains(&self, workspace: &Workspace, directory: &str) -> Toolchains {
        let directory = match by_names("", directory) {
            Ok(Some(place)) => workspace.path().join(&*place),
            _ => workspace.path().to_owned(),
        };
        Toolchains::find(&self.environment, &self.settings.path, workspace.path(), &directory)
    }

    /// The search path of programs: the operator's directories, those of toolchains, the system's.
    pub(super) fn path(&self, toolchains: &Toolchains) -> Vec<PathBuf> {
        let own = self.settings.path.iter().cloned();
        let account = toolchains.programs().map(Path::to_owned);
        own.chain(account).chain(SYSTEM_DIRECTORIES.map(PathBuf::from)).collect()
    }

    /// Finds the file of a program. A file in the workspace is denied, since an agent may have
    /// planted it.
    #[expect(
        clippy::disallowed_methods,
        reason = "programs are looked up in the operator's directories"
    )]
    pub(crate) fn find(
        &self,
        name: &str,
        workspace: &Workspace,
        toolchains: &Toolchains,
    ) -> Result<PathBuf, Error> {
        let path = self.path(toolchains);
        let Some(found) = cofferdam_sandbox::find_program(name, &path) else {
            return Err(Error::NotFound(not_found(name, &path)));
        };
        if workspace.holds(&found) {
            return Err(Error::Denied(format!(
                "the program '{name}' is {}, in the workspace itself, where anybody could have \
                 planted it",
                found.display()
            )));
        }
        // The link itself, not its target: some programs depend on the name by which they are
        // started.
        let directory = found.parent().unwrap_or(Path::new("/"));
        let directory =
            fs::canonicalize(directory).map_err(|error| failure(&directory.display(), &error))?;
        Ok(directory.join(name))
    }
}

/// Says where a program was looked for, and how to install it: with a program that is there.
fn not_found(name: &str, path: &[PathBuf]) -> String {
    let exists = |program: &str| cofferdam_sandbox::find_program(program, path).is_some();
    let install = match remedy_with(name, exists) {
        Some(line) => format!("install it ({line})"),
        None => "install it".to_owned(),
    };
    let path: Vec<String> = path.iter().map(|dir| dir.display().to_string()).collect();
    let path = path.join(", ");
    format!(
        "there is no program '{name}' in {path}; {install}, or name its directory in [programs] path \
         of cofferdam.toml"
    )
}

/// Converts an I/O error of the host into an error of the run.
pub(super) fn failure(what: &dyn Display, error: &io::Error) -> Error {
    Error::Failed(format!("{what}: {error}"))
}
