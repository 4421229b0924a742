//! Runs the built command on a directory, with functions for `apply_patch` and `undo`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result};

use crate::process::native;
use crate::project::Project;

/// The built command in a directory without the developer's settings.
pub struct Workspace {
    binary: PathBuf,
    home: PathBuf,
    directory: PathBuf,
}

impl Workspace {
    /// Uses `directory` as a workspace, and `home` for the user's files of the command.
    ///
    /// # Errors
    /// If the directory `home` can't be created.
    pub fn new(project: &Project, directory: &Path, home: &Path) -> Result<Self> {
        Self::of(project.binary(), directory, home)
    }

    /// The same with another build of the command.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(binary: PathBuf, directory: &Path, home: &Path) -> Result<Self> {
        fs::create_dir_all(home).with_context(|| format!("creating {}", home.display()))?;
        Ok(Self { binary, home: home.to_owned(), directory: directory.to_owned() })
    }

    /// Applies a patch; returns why it was refused, if it was.
    ///
    /// # Errors
    /// If the command can't be started.
    pub fn apply(&self, patch: &[u8]) -> Result<Option<String>> {
        let Ok(patch) = std::str::from_utf8(patch) else {
            return Ok(Some("not UTF-8: the arguments are JSON".to_owned()));
        };
        let arguments = serde_json::json!({ "patch": patch }).to_string();
        let mut command = self.command();
        let mut child = command
            .args(["call", "edit.apply_patch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting the built command; run `cargo xtask build`")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(arguments.as_bytes())?;
        }
        Ok(refusal(&child.wait_with_output()?))
    }

    /// Undoes the last commit; returns why that failed, if it did.
    ///
    /// # Errors
    /// If the command can't be started.
    pub fn undo(&self) -> Result<Option<String>> {
        Ok(refusal(&self.command().arg("undo").output()?))
    }

    /// The command with the options that select the directory.
    pub fn command(&self) -> Command {
        let mut command = native(&self.binary);
        for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", &self.home).arg("--quiet").arg("-C").arg(&self.directory);
        command
    }
}

/// What a failed command wrote: the failures of a patch, the message of its JSON, or all of it.
fn refusal(output: &Output) -> Option<String> {
    if output.status.success() {
        return None;
    }
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let failures = answer["failures"].as_array().filter(|failures| !failures.is_empty());
    let shown = match (failures, answer["message"].as_str()) {
        (Some(failures), _) => {
            let shown = |failure: &serde_json::Value| {
                format!("{} {}: {}", failure["file"], failure["line"], failure["reason"])
            };
            failures.iter().map(shown).collect::<Vec<_>>().join("; ")
        }
        (None, Some(message)) => message.to_owned(),
        (None, None) => text,
    };
    Some(shown)
}
