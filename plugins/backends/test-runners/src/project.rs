//! The project whose tests are run: what lies in its directory, and programs that run there.
//!
//! Files are only looked at to recognise a project, so one that can't be read is one that is not
//! there.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::PathBuf;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::process::{self, Changes, Command, Output};
use cofferdam_sdk::{Context, WorkspacePath};
use serde::Deserialize;

/// How many entries of directories are looked at in search of a file.
const MOST_ENTRIES: usize = 5_000;

/// Directories whose files are others' work, or made.
const NOT_OURS: [&str; 5] = ["node_modules", "site-packages", "target", "vendor", "venv"];

/// The directory of a project.
pub struct Project<'a> {
    context: &'a Context,
    root: WorkspacePath,
}

/// What matters here of a `package.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Package {
    pub scripts: BTreeMap<String, String>,
    pub dependencies: BTreeMap<String, serde_json::Value>,
    pub dev_dependencies: BTreeMap<String, serde_json::Value>,
    pub jest: Option<serde_json::Value>,
}

impl<'a> Project<'a> {
    /// The project in the directory `root` of the workspace.
    ///
    /// # Errors
    /// `root` leads out of the workspace.
    pub fn open(root: &str, context: &'a Context) -> Result<Self, Error> {
        let root = if root.is_empty() { "." } else { root };
        let root = context.resolve(root).map_err(|error| Error::Invalid(error.message))?;
        Ok(Self { context, root })
    }

    fn local(&self, name: &str) -> PathBuf {
        self.context.local(&self.root).join(name)
    }

    /// Whether there is such a file.
    pub fn has(&self, name: &str) -> bool {
        self.local(name).is_file()
    }

    /// Whether there is a file or a directory at a path that stays in the workspace.
    pub fn exists(&self, path: &str) -> bool {
        let path = format!("{}/{path}", self.root);
        self.context.resolve(&path).is_ok_and(|path| self.context.local(&path).exists())
    }

    /// The text of a file, if there is one.
    pub fn text(&self, name: &str) -> Option<String> {
        fs::read(self.local(name)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The `package.json`, if there is one.
    ///
    /// # Errors
    /// It makes no sense: what is wrong, and where.
    pub fn package(&self) -> Result<Option<Package>, Error> {
        let Some(text) = self.text("package.json") else { return Ok(None) };
        serde_json::from_str(text.trim_start_matches('\u{feff}'))
            .map(Some)
            .map_err(|error| Error::Invalid(format!("package.json can't be read: {error}")))
    }

    /// Whether a file's name is wanted, anywhere in the project. Directories that are hidden or
    /// hold what is not the project's own are left out, and a very large tree's depths.
    pub fn any_file(&self, wanted: impl Fn(&str) -> bool) -> bool {
        let mut left = MOST_ENTRIES;
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

    /// A run of a program in the project's directory. It can write there, and nothing of it is
    /// kept: test runners leave caches and reports behind.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        Command {
            directory: self.root.as_str().to_owned(),
            changes: Changes::Discard,
            ..process::command(program, arguments)
        }
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// It was not run.
    pub fn run(&self, command: &Command) -> Result<Output, Error> {
        Ok(process::run(command, self.context)?)
    }

    /// What a program prints when it is asked for its version.
    ///
    /// # Errors
    /// It was not run, or failed.
    pub fn ask_version(&self, program: &str, arguments: &[&str]) -> Result<String, Error> {
        let command = Command { changes: Changes::None, ..self.command(program, arguments) };
        let output = self.run(&command)?;
        match output.exit_code() {
            Some(0) => Ok(output.stdout_text().trim().to_owned()),
            _ => Err(Error::Failed(format!(
                "{program} {} failed: {}",
                arguments.join(" "),
                output.stderr_text().trim()
            ))),
        }
    }

    /// The absolute path of a cache that a later run finds again.
    pub fn cache(&self, name: &str) -> String {
        format!("{}/{name}", process::cache_directory(self.context))
    }
}

fn is_ours(directory: &str) -> bool {
    !directory.starts_with('.') && !NOT_OURS.contains(&directory)
}

/// Adds variables to a command's environment.
pub fn set(command: &mut Command, variables: &[(&str, &str)]) {
    let owned = variables.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    command.environment.extend(owned);
}
