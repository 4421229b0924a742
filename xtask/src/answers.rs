//! Runs the built command and parses its output as JSON, for the pages that are generated from it.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::{native, output};
use crate::project::Project;

/// Runs the command in an empty directory that is both workspace and home, so that no settings of
/// the developer's take part, and parses its standard output.
///
/// # Errors
/// The command fails, or prints something else than JSON.
pub fn ask(project: &Project, arguments: &[&str]) -> Result<Value> {
    let nowhere = project.memory("nowhere");
    fs::create_dir_all(&nowhere).with_context(|| format!("creating {}", nowhere.display()))?;
    let mut command = native(project.binary());
    command.args(arguments);
    for variable in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"] {
        command.env_remove(variable);
    }
    let text = output(command.current_dir(&nowhere).env("HOME", &nowhere))?;
    Ok(serde_json::from_str(&text)?)
}

/// The elements of the list in the field `key` of `answer`.
///
/// # Errors
/// There is no such list: the command's documents have another form than this program knows.
pub fn list<'a>(answer: &'a Value, key: &str) -> Result<&'a [Value]> {
    let list = answer[key].as_array();
    list.map(Vec::as_slice).with_context(|| format!("the command's answer has no list '{key}'"))
}

/// The text of the field `key` of `answer`.
///
/// # Errors
/// There is no such text.
pub fn text<'a>(answer: &'a Value, key: &str) -> Result<&'a str> {
    answer[key].as_str().with_context(|| format!("the command's answer has no text '{key}'"))
}
