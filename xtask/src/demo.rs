//! The main job on real input: an envelope of many calls, run on a copy of this project's own
//! sources with a small shop beside them (`xtask/demo/`), which the calls repair.
//!
//! The result document goes to stdout, a summary to stderr. The demo fails unless the calls
//! did what they should: the shop has to be, byte for byte, what `xtask/demo/after/` holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::plugins;
use crate::process::{announce, native};
use crate::project::{Project, files_below, read, read_text, write};

/// What is copied from the project, relative to its root.
const SOURCES: &[&str] = &[
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.toml",
    "README.md",
    "docs",
    "host",
    "plugins",
    "wit",
];

/// The directory of the shop, in `xtask/demo/before`, in `xtask/demo/after` and in the
/// workspace.
const SHOP: &str = "shop";

/// How many calls the envelope must have executed, at least.
const MIN_EXECUTED: usize = 12;
const MIN_PLUGINS: usize = 4;

/// Runs the envelope on a copy of the sources and checks the result.
///
/// # Errors
/// If the host refuses the envelope, or the calls did not do what they should.
pub fn run(project: &Project) -> Result<()> {
    let scratch = project.target.join("demo");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).with_context(|| format!("removing {}", scratch.display()))?;
    }
    let workspace = scratch.join("workspace");
    for source in SOURCES {
        copy(&project.root.join(source), &workspace.join(source))?;
    }
    let material = project.root.join("xtask/demo");
    copy(&material.join("before").join(SHOP), &workspace.join(SHOP))?;
    let before = contents(&workspace)?;

    // Some tools require absolute paths, so the envelope is filled in.
    let envelope = scratch.join("envelope.json");
    let template = read_text(&material.join("envelope.json"))?;
    write(&envelope, fill_in(&template, &workspace)?)?;

    announce(&format!("running {} on {} files", project.shown(&envelope), before.len()));
    let output = native(project.binary())
        .arg("run")
        .arg(&envelope)
        .arg("--workspace")
        .arg(&workspace)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("starting {}", project.binary().display()))?;
    let document = String::from_utf8(output.stdout).context("the result is no UTF-8")?;
    println!("{}", document.trim_end());

    let summary = Summary::of(&document, &plugins::tools(project)?)?;
    let after = contents(&workspace)?;
    let changes = changes(&before, &after);
    eprintln!("{summary}");
    eprintln!("{} files changed:", changes.len());
    for change in &changes {
        eprintln!("  {change}");
    }
    ensure!(output.status.success(), "`cofferdam run` ended with {}", output.status);
    ensure!(
        summary.executed() >= MIN_EXECUTED && summary.by_plugin.len() >= MIN_PLUGINS,
        "expected at least {MIN_EXECUTED} executed calls of {MIN_PLUGINS} plugins"
    );
    check_shop(&after, &contents(&material.join("after"))?)
}

/// The names of the plugins whose tools the envelope calls.
///
/// # Errors
/// If the envelope or a manifest can't be read.
pub fn plugins(project: &Project) -> Result<BTreeSet<String>> {
    let envelope = read_text(&project.root.join("xtask/demo/envelope.json"))?;
    let envelope: Value = serde_json::from_str(&envelope).context("the demo's envelope")?;
    let tools = plugins::tools(project)?;
    let calls = envelope["actions"].as_array().into_iter().flatten();
    let called = calls.filter_map(|call| tools.get(call["type"].as_str()?).cloned());
    Ok(called.collect())
}

/// Replaces `${WORKSPACE}` by the workspace's path, escaped for a JSON string.
fn fill_in(template: &str, workspace: &Path) -> Result<String> {
    let path = workspace.to_str().context("the build directory's path is no UTF-8")?;
    let quoted = Value::from(path).to_string();
    Ok(template.replace("${WORKSPACE}", quoted.trim_matches('"')))
}

/// Copies a file or a directory, if it exists.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in files_below(from)? {
        let target = match file.strip_prefix(from)? {
            name if name.as_os_str().is_empty() => to.to_owned(),
            name => to.join(name),
        };
        write(&target, read(&file)?)?;
    }
    Ok(())
}

/// Reads all files below a directory, by relative path. Hidden directories, such as the host's own,
/// are left out.
fn contents(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let relative = |file: &Path| -> Result<String> {
        Ok(file.strip_prefix(directory)?.to_string_lossy().into_owned())
    };
    files_below(directory)?.iter().map(|file| Ok((relative(file)?, read(file)?))).collect()
}

/// Describes each file that differs, on one line each.
fn changes(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    paths
        .into_iter()
        .filter_map(|path| match (before.get(path), after.get(path)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(_), Some(_)) => Some(format!("changed  {path}")),
            (Some(_), None) => Some(format!("removed  {path}")),
            (None, _) => Some(format!("created  {path}")),
        })
        .collect()
}

/// Checks that the shop is as expected.
fn check_shop(found: &BTreeMap<String, Vec<u8>>, wanted: &BTreeMap<String, Vec<u8>>) -> Result<()> {
    let of_shop = |path: &String| path.strip_prefix(SHOP).is_some_and(|rest| rest.starts_with('/'));
    let shop = found.iter().filter(|(path, _)| of_shop(path));
    let shop = shop.map(|(path, bytes)| (path.clone(), bytes.clone())).collect();
    match changes(wanted, &shop).as_slice() {
        [] => Ok(()),
        differing => {
            bail!("the shop is not what xtask/demo/after holds:\n  {}", differing.join("\n  "))
        }
    }
}

/// The numbers of executed calls of a result document, by plugin, and the calls that were not
/// executed.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    by_plugin: BTreeMap<String, usize>,
    not_executed: Vec<String>,
}

impl Summary {
    /// Counts the calls of a result document. `tools` maps the names of tools to their plugins.
    fn of(document: &str, tools: &BTreeMap<String, String>) -> Result<Self> {
        let document: Value = serde_json::from_str(document).context("the result is no JSON")?;
        let results = document["results"].as_array().context("the result has no 'results'")?;
        let mut summary = Self { by_plugin: BTreeMap::new(), not_executed: Vec::new() };
        for result in results {
            let text = |key: &str| result[key].as_str().unwrap_or_default();
            if text("status") == "executed" {
                let tool = text("action_type");
                let plugin = tools.get(tool).with_context(|| format!("whose tool is '{tool}'?"))?;
                *summary.by_plugin.entry(plugin.clone()).or_default() += 1;
            } else {
                let (tool, status, message) =
                    (text("action_type"), text("status"), text("message"));
                summary.not_executed.push(format!("{tool}: {status}: {message}"));
            }
        }
        Ok(summary)
    }

    fn executed(&self) -> usize {
        self.by_plugin.values().sum()
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plugins: Vec<String> =
            self.by_plugin.iter().map(|(plugin, calls)| format!("{plugin} {calls}")).collect();
        write!(f, "{} calls executed: {}", self.executed(), plugins.join(", "))?;
        for call in &self.not_executed {
            write!(f, "\n  not executed: {call}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn tree<const N: usize>(files: [(&str, &str); N]) -> BTreeMap<String, Vec<u8>> {
        files.map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec())).into()
    }

    #[test]
    fn calls_are_counted_by_plugin() {
        let tools = BTreeMap::from([("read", "files"), ("glob", "files"), ("grep", "grep")])
            .into_iter()
            .map(|(tool, plugin)| (tool.to_owned(), plugin.to_owned()))
            .collect();
        let document = r#"{"results": [
            {"action_type": "read", "status": "executed", "message": "", "metadata": {}},
            {"action_type": "glob", "status": "executed", "message": "", "metadata": {}},
            {"action_type": "grep", "status": "error", "message": "bad", "metadata": {}}]}"#;
        let summary = Summary::of(document, &tools).unwrap();
        assert_eq!(
            summary.to_string(),
            "2 calls executed: files 2\n  not executed: grep: error: bad"
        );
        for broken in ["", "{}", r#"{"results": [{"action_type": "x", "status": "executed"}]}"#] {
            assert!(Summary::of(broken, &tools).is_err(), "{broken}");
        }
    }

    #[test]
    fn every_difference_of_the_shop_is_named() {
        let wanted = tree([("shop/a", "1"), ("shop/b", "1")]);
        let same = tree([("shop/a", "1"), ("shop/b", "1"), ("shopping", "x"), ("other", "x")]);
        check_shop(&same, &wanted).unwrap();
        let other = tree([("shop/a", "2"), ("shop/c", "1")]);
        let error = check_shop(&other, &wanted).unwrap_err().to_string();
        for line in ["changed  shop/a", "removed  shop/b", "created  shop/c"] {
            assert!(error.contains(line), "{line}: {error}");
        }
    }

    #[test]
    fn paths_are_filled_in_as_json() {
        let filled = fill_in(r#"{"path": "${WORKSPACE}/x"}"#, Path::new(r#"/a "b"\c"#)).unwrap();
        let document: Value = serde_json::from_str(&filled).unwrap();
        assert_eq!(document["path"], r#"/a "b"\c/x"#);
    }

    #[test]
    fn the_envelope_is_one_of_many_calls() {
        let envelope = include_str!("../demo/envelope.json");
        let document: Value = serde_json::from_str(envelope).unwrap();
        assert!(document["actions"].as_array().unwrap().len() >= MIN_EXECUTED + 2);
    }
}
