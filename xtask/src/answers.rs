//! Runs the built command and parses its output as JSON, for the pages that are generated from it.

use std::fs;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::process::{native, output};
use crate::project::Project;

/// Runs the built command in an empty directory that is both workspace and home, so that the
/// developer's settings have no effect, and parses its standard output.
///
/// # Errors
/// If the command fails, or its output is not JSON.
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

/// Returns the array in the field `key` of `answer`.
///
/// # Errors
/// If the field is not an array: the command's output has changed, and this program has to follow.
pub fn list<'a>(answer: &'a Value, key: &str) -> Result<&'a [Value]> {
    let list = answer[key].as_array();
    list.map(Vec::as_slice).with_context(|| format!("the command's answer has no list '{key}'"))
}

/// Returns the string in the field `key` of `answer`.
///
/// # Errors
/// If the field is not a string.
pub fn text<'a>(answer: &'a Value, key: &str) -> Result<&'a str> {
    answer[key].as_str().with_context(|| format!("the command's answer has no text '{key}'"))
}
