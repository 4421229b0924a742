//! Runs a plugin's example calls: those in its manifest, which state the expected result, and those
//! in its input schemas, which only have to succeed. Each runs in a new workspace with the files of
//! the example.
//!
//! Arguments and results refer to the workspace as `/workspace`, wherever it is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use futures_util::FutureExt as _;
use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tempfile::TempDir;

use super::driver::RunError;
use crate::host::{Host, OpenError, RunOptions};
use cofferdam_core::outcome::{DenialCode, Failure, Outcome, Status};
use cofferdam_plugin::manifest::{Example, Manifest, Tool};
use cofferdam_text::shorten;

/// The path of the workspace in examples.
const WORKSPACE: &str = "/workspace";

/// The host's own directory in a workspace.
const OWN_DIRECTORY: &str = ".cofferdam";

/// The result of an example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The example passed its checks.
    Right,
    /// It failed, for this reason.
    Wrong(String),
    /// An example in a schema returned an error of the tool, which may be correct in an empty
    /// workspace.
    Unproven(String),
}

/// An example call and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The tool's short name.
    pub tool: String,
    /// The name of the example.
    pub example: String,
    /// The result of the call.
    pub verdict: Verdict,
}

/// Runs all example calls of a plugin. `open` opens a host on a directory, with the plugin and its
/// grants.
///
/// # Errors
/// See [`RunError`].
pub fn run_examples<'a>(
    open: &'a dyn Fn(&Path) -> Result<Host, OpenError>,
    manifest: &'a Manifest,
) -> LocalBoxFuture<'a, Result<Vec<Tried>, RunError>> {
    async move {
        let mut tried = Vec::new();
        for tool in &manifest.tools {
            let qualified = format!("{}.{}", manifest.name, tool.name);
            for (example, is_exact) in examples(tool) {
                let verdict = run(open, &qualified, &example, is_exact).await?;
                tried.push(Tried { tool: tool.name.clone(), example: example.name, verdict });
            }
        }
        Ok(tried)
    }
    .boxed_local()
}

/// The examples of a tool, and whether each states its expected result. An example in the schema
/// that is also in the manifest is run once.
fn examples(tool: &Tool) -> impl Iterator<Item = (Example, bool)> {
    let of_schema = tool.input["examples"].as_array().into_iter().flatten().enumerate();
    let of_schema = of_schema.filter_map(|(index, arguments)| {
        let arguments = arguments.as_object()?;
        let is_known = tool.examples.iter().any(|example| example.arguments == *arguments);
        (!is_known).then(|| Example {
            name: format!("/examples/{index} of the input schema"),
            arguments: arguments.clone(),
            files: BTreeMap::new(),
            answer: None,
            error: None,
            after: None,
        })
    });
    let of_manifest = tool.examples.iter().cloned().map(|example| (example, true));
    of_manifest.chain(of_schema.map(|example| (example, false)))
}

#[expect(clippy::disallowed_methods, reason = "a directory of the example's own")]
async fn run(
    open: &dyn Fn(&Path) -> Result<Host, OpenError>,
    tool: &str,
    example: &Example,
    is_exact: bool,
) -> Result<Verdict, RunError> {
    let place = TempDir::new()?;
    let path = place.path().canonicalize()?;
    let workspace = Dir::open_ambient_dir(&path, ambient_authority())?;
    for (path, contents) in &example.files {
        if let Some(above) = Path::new(path).parent() {
            workspace.create_dir_all(above)?;
        }
        workspace.write(path, contents)?;
    }
    let path = path.display().to_string();
    let host = open(place.path())?;
    let arguments = renamed(&Value::Object(example.arguments.clone()), WORKSPACE, &path);
    let call = host.call(tool, &arguments.to_string(), &RunOptions::default()).await;
    let outcome = match call {
        Ok((answer, _)) => answer.outcome,
        Err(refusal) => return Ok(Verdict::Wrong(format!("refused: {refusal}"))),
    };
    drop(host);
    let files = files_of(&workspace)?;
    Ok(judge(example, is_exact, &outcome, &files, &path))
}

/// Compares the result of an example with the expected one.
fn judge(
    example: &Example,
    is_exact: bool,
    outcome: &Outcome,
    files: &BTreeMap<String, String>,
    workspace: &str,
) -> Verdict {
    let ended = match (outcome, &example.error) {
        (Outcome::Executed(answer), None) => {
            let answer = renamed(answer, workspace, WORKSPACE);
            match &example.answer {
                Some(wanted) if *wanted != answer => {
                    Err(format!("answered {}, not {}", shown(&answer), shown(wanted)))
                }
                _ => Ok(()),
            }
        }
        (Outcome::Executed(answer), Some(code)) => {
            let answer = renamed(answer, workspace, WORKSPACE);
            Err(format!("answered {}, and did not fail with {code}", shown(&answer)))
        }
        (Outcome::Failed(failure), Some(code)) if failure.code.as_str() == code => Ok(()),
        (Outcome::Failed(failure), _) => {
            let message = failure.message.replace(workspace, WORKSPACE);
            let why = format!("{} {}: {message}", failure.status.as_str(), failure.code);
            if is_the_tools_own(failure) && !is_exact {
                return Verdict::Unproven(shorten(&why, 1_000));
            }
            Err(why)
        }
    };
    // An example in a schema does not state its changes.
    let changes = if is_exact { compare(files, example) } else { Ok(()) };
    match ended.and(changes) {
        Ok(()) => Verdict::Right,
        Err(why) => Verdict::Wrong(shorten(&why, 1_000)),
    }
}

/// Whether the failure comes from the tool itself, rather than from the host.
fn is_the_tools_own(failure: &Failure) -> bool {
    const HOST: [DenialCode; 3] =
        [DenialCode::NotGranted, DenialCode::ToolNotInRole, DenialCode::UnknownImport];
    match failure.status {
        Status::Error => true,
        Status::Denied => !HOST.iter().any(|code| code.as_str() == failure.code.as_str()),
        _ => false,
    }
}

fn compare(files: &BTreeMap<String, String>, example: &Example) -> Result<(), String> {
    let wanted = example.after.as_ref().unwrap_or(&example.files);
    for (path, contents) in wanted {
        match files.get(path) {
            None => return Err(format!("{path} is not there afterwards")),
            Some(found) if found != contents => {
                return Err(format!("{path} holds {found:?} afterwards, not {contents:?}"));
            }
            Some(_) => {}
        }
    }
    match files.keys().find(|path| !wanted.contains_key(*path)) {
        Some(path) => Err(format!("{path} is there afterwards, and should not be")),
        None => Ok(()),
    }
}

/// The files of a workspace with their contents, without the host's own.
fn files_of(workspace: &Dir) -> io::Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    let mut pending = vec![String::new()];
    while let Some(directory) = pending.pop() {
        let below = if directory.is_empty() { "." } else { &directory };
        for entry in workspace.read_dir(below)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            if path == OWN_DIRECTORY {
                continue;
            }
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else {
                // A dangling link counts as an empty file.
                let contents = workspace.read(&path).unwrap_or_default();
                files.insert(path, String::from_utf8_lossy(&contents).into_owned());
            }
        }
    }
    Ok(files)
}

/// Replaces a path of the workspace in all strings of a document.
fn renamed(document: &Value, from: &str, to: &str) -> Value {
    match document {
        Value::String(text) => {
            let is_path = |rest: &str| rest.is_empty() || rest.starts_with('/');
            match text.strip_prefix(from) {
                Some(rest) if is_path(rest) => format!("{to}{rest}").into(),
                _ => document.clone(),
            }
        }
        Value::Array(items) => items.iter().map(|item| renamed(item, from, to)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), renamed(value, from, to)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

fn shown(value: &Value) -> String {
    shorten(&value.to_string(), 400)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::json;

    fn example(fields: Value) -> Example {
        let mut example = json!({"name": "x", "arguments": {}});
        for (name, value) in fields.as_object().into_iter().flatten() {
            example[name] = value.clone();
        }
        serde_json::from_value(example).unwrap()
    }

    #[test]
    fn a_wrong_example_is_explained() {
        let failed = |status| Outcome::Failed(Failure::of_tool(status, "NotThere", "no /tmp/w/a"));
        let not_granted = Outcome::Failed(Failure::new(DenialCode::NotGranted, "no"));
        let answer = Outcome::Executed(json!({"path": "/tmp/w/a"}));
        let nothing = json!({});
        for (fields, is_exact, outcome, files, wanted) in [
            (json!({}), true, &answer, &nothing, "right"),
            (json!({"answer": {"path": "/workspace/a"}}), true, &answer, &nothing, "right"),
            (
                json!({"answer": {"path": "a"}}),
                true,
                &answer,
                &nothing,
                "answered {\"path\":\"/workspace/a\"}, not {\"path\":\"a\"}",
            ),
            (json!({"error": "NotThere"}), true, &failed(Status::Error), &nothing, "right"),
            (json!({"error": "NotThere"}), true, &answer, &nothing, "did not fail with NotThere"),
            (
                json!({"error": "Other"}),
                true,
                &failed(Status::Error),
                &nothing,
                "error NotThere: no /workspace/a",
            ),
            (json!({}), true, &failed(Status::Error), &nothing, "error NotThere"),
            (json!({}), false, &failed(Status::Error), &nothing, "unproven error NotThere"),
            (json!({}), false, &failed(Status::Trap), &nothing, "trap NotThere"),
            (json!({}), false, &failed(Status::Denied), &nothing, "unproven denied NotThere"),
            (json!({}), false, &not_granted, &nothing, "denied NotGranted"),
            (json!({}), true, &answer, &json!({"b": ""}), "b is there afterwards"),
            (json!({}), false, &answer, &json!({"b": ""}), "right"),
            (json!({"files": {"b": "1"}}), true, &answer, &nothing, "b is not there afterwards"),
            (
                json!({"files": {"b": "1"}}),
                true,
                &answer,
                &json!({"b": "2"}),
                "b holds \"2\" afterwards, not \"1\"",
            ),
            (
                json!({"files": {"b": "1"}, "after": {"b": "2"}}),
                true,
                &answer,
                &json!({"b": "2"}),
                "right",
            ),
            (json!({"files": {"b": "1"}, "after": {}}), true, &answer, &nothing, "right"),
        ] {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let entries = files.as_object().into_iter().flatten();
            let files = entries.map(|(path, value)| (path.clone(), text(value))).collect();
            let said = match judge(&example(fields.clone()), is_exact, outcome, &files, "/tmp/w") {
                Verdict::Right => "right".to_owned(),
                Verdict::Wrong(why) => format!("wrong {why}"),
                Verdict::Unproven(why) => format!("unproven {why}"),
            };
            let is_as_wanted = said.strip_prefix("wrong ").unwrap_or(&said).starts_with(wanted)
                || (said.starts_with("wrong ") && said.contains(wanted));
            assert!(is_as_wanted && (wanted == "right") == (said == "right"), "{fields}: {said}");
        }
    }

    #[test]
    fn only_workspace_paths_are_renamed() {
        let document = json!(["/workspace", "/workspace/a", "/workspaces", "in /workspace", 1]);
        let wanted = json!(["/w", "/w/a", "/workspaces", "in /workspace", 1]);
        assert_eq!(renamed(&document, "/workspace", "/w"), wanted);
    }
}
