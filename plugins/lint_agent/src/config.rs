//! `ruff_config`: returns the ruff configuration of the target, as text.

use cofferdam_sdk::{Context, ErrorKind, ToolError, WorkspacePath};
use serde::Deserialize;
use toml_edit::{DocumentMut, TableLike};

use crate::answer::Failure;
use crate::target;

/// The names of ruff's own configuration files, in the order in which it looks for them.
const OWN_FILES: [&str; 2] = [".ruff.toml", "ruff.toml"];

/// The file in which a project may configure all of its tools.
const PROJECT_FILE: &str = "pyproject.toml";

/// The arguments of `ruff_config` (none).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// The text of the configuration nearest to the target; empty if there is none.
///
/// Directories between the workspace and the target that are outside of the call's scope are
/// skipped: ruff has the same scope and can't read a configuration there either.
///
/// # Errors
/// A file in the workspace's own directory can't be read, or a `pyproject.toml` is not valid TOML.
pub fn run(context: &Context) -> Result<String, Failure> {
    nearest(context, &|path| context.read_text(path))
}

/// Reads a file as text.
type Read<'a> = &'a dyn Fn(&WorkspacePath) -> Result<String, ToolError>;

fn nearest(context: &Context, read: Read<'_>) -> Result<String, Failure> {
    for directory in directories(context) {
        match in_directory(&directory, context, read) {
            Ok(Some(text)) => return Ok(text),
            Ok(None) => {}
            Err(error) if error.kind == ErrorKind::Denied && !directory.is_empty() => {}
            Err(error) if error.kind == ErrorKind::Denied => {
                let [first, second] = OWN_FILES;
                let scope =
                    format!("the role's scope must hold {first}, {second} and {PROJECT_FILE}");
                return Err(Failure(format!("{}; {scope}", error.message)));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(String::new())
}

/// The directories from the target's up to the workspace, each with a `/` at its end. Without a
/// target, only the workspace.
fn directories(context: &Context) -> Vec<String> {
    let above = target::path(context)
        .map(|target| target.parents().map(|path| format!("{path}/")).collect::<Vec<_>>())
        .unwrap_or_default();
    above.into_iter().rev().chain([String::new()]).collect()
}

fn in_directory(
    directory: &str,
    context: &Context,
    read: Read<'_>,
) -> Result<Option<String>, ToolError> {
    for name in OWN_FILES {
        let path = context.resolve(&format!("{directory}{name}"))?;
        if let Some(text) = existing(read(&path))? {
            return Ok(Some(text));
        }
    }
    let path = context.resolve(&format!("{directory}{PROJECT_FILE}"))?;
    let Some(text) = existing(read(&path))? else { return Ok(None) };
    section(&text)
        .map_err(|error| ToolError::invalid_args("InvalidConfig", format!("{path}: {error}")))
}

/// The text of a file; `None` if the file does not exist.
fn existing(text: Result<String, ToolError>) -> Result<Option<String>, ToolError> {
    match text {
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        text => text.map(Some),
    }
}

/// The sections of a `pyproject.toml` that configure ruff, unchanged except for line ends.
fn section(text: &str) -> Result<Option<String>, toml_edit::TomlError> {
    let mut document: DocumentMut = text.parse()?;
    keep_only(document.as_table_mut(), "tool");
    let tools = document.get_mut("tool").and_then(|tools| tools.as_table_like_mut());
    let Some(tools) = tools.filter(|tools| tools.contains_key("ruff")) else { return Ok(None) };
    keep_only(tools, "ruff");
    document.set_trailing("");
    let section = document.to_string();
    Ok(Some(section.trim_start_matches(['\r', '\n']).to_owned()))
}

fn keep_only(table: &mut dyn TableLike, key: &str) {
    let others: Vec<String> =
        table.iter().map(|(name, _)| name.to_owned()).filter(|name| name != key).collect();
    for name in others {
        table.remove(&name);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use serde_json::json;

    use super::*;
    use crate::testing::{Fake, fits};

    const PROJECT: &str = "[project]\nname = \"x\"\n\n[tool.ruff]\nline-length = 88 # as black\n\n\
                           [tool.mypy]\nstrict = true\n\n[tool.ruff.lint]\nselect = [\n    \"E\",\n]\n";

    fn config(files: &[(&str, &str)], target: &str) -> serde_json::Value {
        let mut fake = Fake::new("");
        for (path, text) in files {
            fake.write(path, text.as_bytes());
        }
        fake.write(target, b"");
        fake.context.scope = vec![target.to_owned()];
        fits("ruff_config", run(&fake.context))
    }

    #[test]
    fn the_nearest_configuration_is_used() {
        let own = "line-length = 100\r\n";
        let project = "[tool.ruff]\nline-length = 88 # as black\n\n[tool.ruff.lint]\nselect = [\n    \"E\",\n]\n";
        for (files, wanted) in [
            (vec![], ""),
            (vec![("ruff.toml", own)], own),
            (vec![(".ruff.toml", own), ("ruff.toml", "# other")], own),
            (vec![("ruff.toml", own), ("pyproject.toml", PROJECT)], own),
            (vec![("pyproject.toml", PROJECT)], project),
            (vec![("pyproject.toml", "[tool.mypy]\nstrict = true\n")], ""),
            (vec![("pyproject.toml", "tool = 3\n")], ""),
            (vec![("pyproject.toml", "")], ""),
            (vec![("src/pyproject.toml", "[tool.mypy]\n"), ("ruff.toml", own)], own),
            (vec![("src/ruff.toml", own), ("ruff.toml", "# other")], own),
            (vec![("src/pkg/ruff.toml", "# nearest"), ("src/ruff.toml", own)], "# nearest"),
            (vec![("lib/ruff.toml", own)], ""),
        ] {
            assert_eq!(config(&files, "src/pkg/a.py"), json!(wanted), "{files:?}");
        }
    }

    #[test]
    fn every_form_of_the_section_is_kept() {
        for (text, wanted) in [
            (
                "[tool]\nruff = { line-length = 88 }\nblack = {}\n",
                "[tool]\nruff = { line-length = 88 }\n",
            ),
            ("tool.ruff.line-length = 88\nx = 1\n", "tool.ruff.line-length = 88\n"),
            ("[tool]\nruff.line-length = 88\n", "[tool]\nruff.line-length = 88\n"),
            ("[a]\n\n# Ours.\n[tool.ruff]\r\nfix = true\r\n", "# Ours.\n[tool.ruff]\nfix = true\n"),
        ] {
            assert_eq!(config(&[("pyproject.toml", text)], "a.py"), json!(wanted));
        }
    }

    #[test]
    fn unreadable_files_are_an_error() {
        let answer = config(&[("pyproject.toml", "[tool.ruff\n")], "a.py");
        assert!(answer["error"].as_str().unwrap().starts_with("pyproject.toml: "), "{answer}");
        let fake = Fake::new("");
        fs::create_dir(fake.at("ruff.toml")).unwrap();
        let answer = fits("ruff_config", run(&fake.context));
        assert_eq!(answer, json!({"error": "is a directory, not a file: ruff.toml"}));
    }

    #[test]
    fn denied_files_in_the_workspace_root_are_an_error() {
        let mut fake = Fake::new("");
        fake.write("src/a.py", b"");
        fake.write("src/ruff.toml", b"fix = false\n");
        fake.write("ruff.toml", b"fix = true\n");
        fake.context.scope = vec!["src/a.py".to_owned()];
        let closed = |scope: &'static [&str]| {
            let read = |path: &WorkspacePath| match scope.contains(&path.as_str()) {
                true => fake.context.read_text(path),
                false => {
                    let message = format!("permission denied: {path} is out of scope");
                    Err(ToolError::denied("PermissionError", message))
                }
            };
            fits("ruff_config", nearest(&fake.context, &read))
        };
        let all = &[".ruff.toml", "ruff.toml", "pyproject.toml"];
        assert_eq!(closed(all), json!("fix = true\n"));
        assert_eq!(
            closed(&["ruff.toml"]),
            json!({
                "error": "permission denied: .ruff.toml is out of scope; the role's scope must \
                          hold .ruff.toml, ruff.toml and pyproject.toml"
            })
        );
    }
}
