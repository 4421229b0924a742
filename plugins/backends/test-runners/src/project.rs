//! The project to test: files in its directory, and running programs there.
//!
//! Files are read only to detect runners, so a file that can't be read counts as missing.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::process::{self, Changes, Command, Output};
use cofferdam_sdk::{Context, WorkspacePath};
use serde::Deserialize;

/// The maximum number of directory entries visited when searching for a file.
const MAX_ENTRIES: usize = 5_000;

/// Directories with third-party or generated files.
const SKIPPED_DIRECTORIES: [&str; 5] =
    ["node_modules", "site-packages", "target", "vendor", "venv"];

/// A directory with a project.
pub struct Project<'a> {
    context: &'a Context,
    root: WorkspacePath,
}

/// The fields of a `package.json` that are used.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Package {
    pub scripts: BTreeMap<String, String>,
    pub dependencies: BTreeMap<String, serde_json::Value>,
    pub dev_dependencies: BTreeMap<String, serde_json::Value>,
    pub jest: Option<serde_json::Value>,
}

impl<'a> Project<'a> {
    /// Opens the project in the directory `root` of the workspace.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `root` is outside of the workspace.
    pub fn open(root: &str, context: &'a Context) -> Result<Self, Error> {
        let root = if root.is_empty() { "." } else { root };
        let root = context.resolve(root).map_err(|error| Error::Invalid(error.message))?;
        Ok(Self { context, root })
    }

    fn local(&self, name: &str) -> PathBuf {
        self.context.local(&self.root).join(name)
    }

    /// Whether a file of this name exists in the directory.
    pub fn has(&self, name: &str) -> bool {
        self.local(name).is_file()
    }

    /// Whether a path exists that stays in the workspace.
    pub fn exists(&self, path: &str) -> bool {
        let path = format!("{}/{path}", self.root);
        self.context.resolve(&path).is_ok_and(|path| self.context.local(&path).exists())
    }

    /// The text of a file; `None` if it can't be read.
    pub fn text(&self, name: &str) -> Option<String> {
        fs::read(self.local(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads `package.json`; `None` if it does not exist.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the position if it can't be parsed.
    pub fn package(&self) -> Result<Option<Package>, Error> {
        let Some(text) = self.text("package.json") else { return Ok(None) };
        serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map(Some)
            .map_err(|error| Error::Invalid(format!("package.json can't be read: {error}")))
    }

    /// Whether any file in the project has a name for which `wanted` is true. Skips hidden
    /// directories and those in [`SKIPPED_DIRECTORIES`]; very large trees are searched only partly.
    pub fn any_file(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let mut left = MAX_ENTRIES;
        let mut directories = VecDeque::from([self.local("")]);
        while let Some(directory) = directories.pop_front() {
            let Ok(entries) = fs::read_dir(directory) else { continue };
            for entry in entries.flatten() {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let name = entry.file_name();
                let name = name.to_string_lossy();
                match entry.file_type() {
                    Ok(kind) if kind.is_file() && wanted(&name) => return true,
                    Ok(kind) if kind.is_dir() && is_ours(&name) => {
                        directories.push_back(entry.path());
                    }
                    _ => {}
                }
            }
        }
        false
    }

    /// A command in the project's directory. It can write there, and its changes are discarded:
    /// test runners create caches and reports.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        Command {
            directory: self.root.as_str().to_owned(),
            changes: Changes::Discard,
            ..process::command(program, arguments)
        }
    }

    /// Runs a program until it exits.
    ///
    /// # Errors
    /// See [`Error`]: the program was not run.
    pub fn run(&self, command: &Command) -> Result<Output, Error> {
        Ok(process::run(command, self.context)?)
    }

    /// The output of a program that prints its version.
    ///
    /// # Errors
    /// See [`Error`]: the program was not run, or it failed.
    pub fn ask_version(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let command = Command { changes: Changes::None, ..self.command(program, arguments) };
        let output = self.run(&command)?;
        match output.exit_code() {
            Some(0) => Ok(output.stdout_text().trim().to_owned()),
            _ => Err(Error::Failed(format!(
                "{program} {} failed: {}",
                arguments.join(" "),
                output.telling()
            ))),
        }
    }

    /// The absolute path of a cache directory that later runs can use.
    pub fn cache(&self, name: &str) -> String {
        format!("{}/{name}", process::cache_directory(self.context))
    }
}

fn is_ours(directory: &str) -> bool {
    !directory.starts_with('.') && !SKIPPED_DIRECTORIES.contains(&directory)
}

/// Adds variables to the environment of a command.
pub fn set(command: &mut Command, variables: &[(&str, &str)]) {
    let owned = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    command.environment.extend(owned);
}
