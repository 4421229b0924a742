//! `cofferdam:host/git-commit`: prepares a commit to the git repository of the workspace, and takes it
//! over. [`cofferdam_workspace`] checks and changes the repository; this module decides who may, and
//! finds the user's name and address.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_sandbox as sandbox;
use wasmtime::Result;

use super::bindings::cofferdam::host::git_commit::{Error, Host, Preparation};
use super::bindings::cofferdam::host::process;
use super::state::CallState;
use crate::toolchains::Toolchains;
use cofferdam_core::policy::Files;
use cofferdam_workspace::{GitCommit, GitCommitError, Repository, RepositoryError};

/// The variables that say where the user's configuration of git is.
const CONFIGURATION: [&str; 5] =
    ["HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];

/// The configuration of the machine.
const SYSTEM_CONFIGURATION: &str = "/etc/gitconfig";

/// The settings with the user's name and address.
const IDENTITY: &str = r"^(user|author|committer)\.(name|email)$";

/// The time in which git lists the user's settings.
const TIMEOUT: Duration = Duration::from_secs(10);

type Outcome<T> = std::result::Result<T, Error>;

impl Host for CallState {
    fn prepare(&mut self) -> Result<Outcome<Preparation>> {
        Ok(self.prepare_commit())
    }

    fn finish(&mut self, id: String) -> Result<Outcome<()>> {
        Ok(self.finish_commit(&id))
    }
}

impl CallState {
    fn prepare_commit(&mut self) -> Outcome<Preparation> {
        self.allow_commit()?;
        let found = self.locate().map_err(|error| match error {
            RepositoryError::NotFound(why) | RepositoryError::NotConfirmed(why) => {
                Error::Denied(why)
            }
        })?;
        self.git_commit = None;
        let identity = self.identity(&found)?;
        let workspace = &self.context.services.workspace;
        let plugin = self.context.permissions.plugin();
        let commit = GitCommit::prepare(workspace, &found, plugin, &identity).map_err(failure)?;
        let preparation = Preparation {
            directory: commit.path().display().to_string(),
            objects: commit.objects().display().to_string(),
            branch: commit.branch().to_owned(),
            parent: commit.parent().map(str::to_owned),
        };
        self.git_commit = Some(commit);
        Ok(preparation)
    }

    fn finish_commit(&mut self, id: &str) -> Outcome<()> {
        self.allow_commit()?;
        let commit = self.git_commit.take();
        let commit = commit.ok_or_else(|| Error::Invalid("no commit was prepared".to_owned()))?;
        commit.finish(id, &|| self.control().stop().is_some()).map_err(failure)
    }

    /// Checks whether the call may commit: everything that it could name, since the host does not
    /// compare trees.
    fn allow_commit(&self) -> Outcome<()> {
        let permissions = &self.context.permissions;
        let (plugin, capabilities) = (permissions.plugin(), &permissions.capabilities);
        if !capabilities.git_commit {
            return Err(Error::Denied(format!(
                "the plugin '{plugin}' may not commit to git; a person can grant it by git-commit = \
                 true under [grants.{plugin}] in cofferdam.toml"
            )));
        }
        self.allow_name(super::process::GIT).map_err(|error| match error {
            process::Error::Denied(why) => Error::Denied(why),
            error => Error::Failed(error.to_string()),
        })?;
        if capabilities.files != Files::Write {
            return Err(Error::Denied("the call may only read".to_owned()));
        }
        if !permissions.sight.is_everything() || !permissions.scope.is_everything() {
            let why = "the call's scope is only a part of the workspace, but a commit could hold \
                       other paths; commits are made only where the scope is the whole workspace";
            return Err(Error::Denied(why.to_owned()));
        }
        if self.context.tree.is_changed() {
            let why = "the call has changed files, which are not on the disk before it ends; commit \
                       them by a later call";
            return Err(Error::Invalid(why.to_owned()));
        }
        Ok(())
    }

    /// Returns the names and addresses of the user's own settings, as a configuration. Git lists them
    /// in the sandbox, where it can read the home directory but has no network and writes nothing.
    /// The repository is shown only because settings can depend on its place (`includeIf`).
    fn identity(&self, found: &Repository) -> Outcome<String> {
        let services = &self.context.services;
        let failed = |error: process::Error| Error::Failed(error.to_string());
        let sandbox = services.programs.sandbox().map_err(failed)?;
        let none = Toolchains::default();
        let program = services.programs.find(super::process::GIT, &services.workspace, &none);
        let program = program.map_err(failed)?;
        let mut command = sandbox::Command::new(program, &found.own);
        let own = found.own.display().to_string();
        let arguments = ["--git-dir", &own, "config", "--show-scope", "--includes", "-z"];
        command.arguments = arguments.map(str::to_owned).into();
        command.arguments.extend(["--get-regexp", IDENTITY].map(str::to_owned));
        let variables = &services.programs.environment;
        for name in CONFIGURATION {
            let Some(value) = variables.get(name) else { continue };
            command.environment.push((name.to_owned(), value.clone()));
            let path = Path::new(value);
            if path.is_absolute() && path.parent().is_some() {
                command.readable.push(path.to_owned());
            }
        }
        command.readable.push(SYSTEM_CONFIGURATION.into());
        command.environment.push(("LC_ALL".to_owned(), "C".to_owned()));
        command.readable.extend([&found.own, &found.common].map(PathBuf::clone));
        command.limits.wall = TIMEOUT;
        let report = sandbox.start(command).and_then(sandbox::Running::wait);
        let report = report.map_err(|error| Error::Failed(error.to_string()))?;
        Ok(configuration(&report.stdout.bytes))
    }
}

/// Converts what `git config --show-scope -z` lists to a configuration. The repository's own settings
/// are left out: git finds them itself, and they override these.
fn configuration(listed: &[u8]) -> String {
    let text = String::from_utf8_lossy(listed);
    let mut parts = text.split('\0');
    let mut configuration = String::new();
    while let (Some(scope), Some(setting)) = (parts.next(), parts.next()) {
        let key_and_value = setting.split_once('\n');
        let Some((key, value)) = key_and_value else { continue };
        let Some((section, name)) = key.split_once('.') else { continue };
        if matches!(scope, "system" | "global") {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            configuration += &format!("[{section}]\n\t{name} = \"{value}\"\n");
        }
    }
    configuration
}

fn failure(error: GitCommitError) -> Error {
    match error {
        GitCommitError::Denied(why) => Error::Denied(why),
        GitCommitError::Invalid(why) => Error::Invalid(why),
        GitCommitError::Changed(why) => Error::Changed(why),
        error @ GitCommitError::Io { .. } => Error::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::configuration;

    #[test]
    fn settings_of_the_repository_are_not_the_users() {
        let listed =
            b"system\0user.name\nSystem\0global\0user.name\nA \"B\" \\ C\0local\0user.name\nX\0\
            global\0user.email\na@b\0worktree\0user.email\nX\0global\0user.novalue\0";
        let wanted = "[user]\n\tname = \"System\"\n[user]\n\tname = \"A \\\"B\\\" \\\\ C\"\n\
            [user]\n\temail = \"a@b\"\n";
        assert_eq!(configuration(listed), wanted);
        assert_eq!(configuration(b"global"), "");
    }
}
