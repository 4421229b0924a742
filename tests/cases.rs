//! Folder cases: each folder of `tests/cases` is one run of the command, from the agent's text to
//! the printed document and the resulting files.
//!
//! | in the folder | what it is |
//! |---|---|
//! | `input/` | the files of the workspace, the later ones by path being the newer ones |
//! | `envelope.json`, `envelope.txt` | what `cofferdam run` reads, or |
//! | `call.toml` | `tool` and `args` of a `cofferdam call` |
//! | `args` | more of the command line, one argument a line |
//! | `expected.json` | the document on standard output |
//! | `error` | lines of which each is in the refusal or on standard error |
//! | `status` | the exit status; 0 where the file is missing |
//! | `expected/` | files that are new or changed afterwards; those in `.absent` are gone |
//!
//! Files that `expected/` does not name must be as in `input/`: nothing else may have changed.
//! `${WORKSPACE}` stands for the workspace's absolute path. `${ANY}` in an expectation matches any
//! text, or a whole number, that differs from run to run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{Place, project};

const KNOWN: [&str; 9] = [
    "args",
    "call.toml",
    "envelope.json",
    "envelope.txt",
    "error",
    "expected",
    "expected.json",
    "input",
    "status",
];

/// The file with the paths that must not exist afterwards, one per line.
const ABSENT: &str = ".absent";

const ANY: &str = "${ANY}";

#[test]
fn every_case_has_the_expected_result() {
    let folder = project().join("tests/cases");
    let names = names(&folder);
    assert!(!names.is_empty(), "{} is empty", folder.display());
    let mut failed = Vec::new();
    for name in &names {
        let problems = problems(&folder.join(name));
        if !problems.is_empty() {
            failed.push(format!("{name}:\n{}", problems.join("\n")).replace('\n', "\n    "));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} cases failed\n\n{}\n",
        failed.len(),
        names.len(),
        failed.join("\n\n")
    );
}

/// Runs the case in `folder` and returns a description of each difference.
fn problems(folder: &Path) -> Vec<String> {
    let unknown: Vec<String> =
        names(folder).into_iter().filter(|name| !KNOWN.contains(&name.as_str())).collect();
    if !unknown.is_empty() {
        return vec![format!("unknown files: {}", unknown.join(", "))];
    }
    let place = Place::new();
    let workspace = place.workspace();
    let fill = |text: String| text.replace("${WORKSPACE}", workspace.to_str().unwrap());
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok().map(&fill);

    let before = tree(&folder.join("input"));
    lay_out(&before, &workspace);
    let (mut args, input) =
        match (text("envelope.json").or(text("envelope.txt")), text("call.toml")) {
            (Some(envelope), None) => (vec!["run".to_owned()], envelope),
            (None, Some(call)) => {
                let call: Call = toml::from_str(&call).unwrap_or_else(|error| panic!("{error}"));
                let args = Value::Object(call.args).to_string();
                (vec!["call".to_owned(), call.tool, "-".to_owned()], args)
            }
            _ => return vec!["expected either an envelope or call.toml".to_owned()],
        };
    args.extend(text("args").iter().flat_map(|args| args.lines()).map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = place.run_with(&args, &input);

    let status: i32 = text("status").map_or(0, |status| status.trim().parse().unwrap());
    let (document, error) = (text("expected.json"), text("error"));
    if (document.is_none() && error.is_none()) || (error.is_some() && status == 0) {
        return vec!["expected `expected.json`, or `error` with a `status`".to_owned()];
    }
    let mut problems = Vec::new();
    let found = serde_json::from_str(&ended.stdout).unwrap_or(Value::Null);
    if let Some(document) = document {
        compare(&serde_json::from_str(&document).unwrap(), &found, "", &mut problems);
    }
    let feedback = found["refused"]["feedback"].as_str().unwrap_or_default();
    for line in error.iter().flat_map(|error| error.lines()) {
        if !ended.stderr.contains(line) && !feedback.contains(line) {
            problems.push(format!("nothing says: {line}"));
        }
    }
    if ended.status != status {
        problems.push(format!("status {}, expected {status}", ended.status));
    }
    if !problems.is_empty() {
        problems.push(format!("standard output: {}", ended.stdout.trim_end()));
        problems.push(format!("standard error: {}", ended.stderr.trim_end()));
    }

    let mut after = before;
    let mut changes = tree(&folder.join("expected"));
    if let Some(absent) = changes.remove(ABSENT) {
        for path in String::from_utf8(absent.contents).unwrap().lines() {
            assert!(after.remove(path).is_some(), "{}: {path} was never there", folder.display());
        }
    }
    after.extend(changes);
    compare_trees(&after, &tree(&workspace), fill, &mut problems);
    problems
}

/// The contents of `call.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    args: Map<String, Value>,
}

/// A file, directory or link.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    /// The contents of a file, or the target of a link.
    contents: Vec<u8>,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    File,
    Executable,
    Link,
}

/// The files below `folder`, by path, without the host's own directory.
fn tree(folder: &Path) -> BTreeMap<String, Entry> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(directory) = pending.pop() {
        for name in names(&directory).into_iter().filter(|name| name != ".cofferdam") {
            let path = directory.join(name);
            let metadata = path.symlink_metadata().unwrap();
            let (contents, kind) = if metadata.is_dir() {
                pending.push(path);
                continue;
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                (target.into_os_string().into_encoded_bytes(), Kind::Link)
            } else if metadata.permissions().mode() & 0o100 == 0 {
                (fs::read(&path).unwrap(), Kind::File)
            } else {
                (fs::read(&path).unwrap(), Kind::Executable)
            };
            let path = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            found.insert(path, Entry { contents, kind });
        }
    }
    found
}

/// The names in a directory, sorted; empty if the directory does not exist.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes a tree, with each file one second newer than the one before.
fn lay_out(tree: &BTreeMap<String, Entry>, root: &Path) {
    let mut time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    for (path, Entry { contents, kind }) in tree {
        let path: PathBuf = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if *kind == Kind::Link {
            symlink(String::from_utf8(contents.clone()).unwrap(), path).unwrap();
            continue;
        }
        fs::write(&path, contents).unwrap();
        let mode = if *kind == Kind::Executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        time += Duration::from_secs(1);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

fn compare_trees(
    expected: &BTreeMap<String, Entry>,
    found: &BTreeMap<String, Entry>,
    fill: impl Fn(String) -> String,
    problems: &mut Vec<String>,
) {
    let show = |entry: Option<&Entry>| match entry {
        None => "nothing".to_owned(),
        Some(Entry { contents, kind }) => {
            format!("a {kind:?} of\n{}", String::from_utf8_lossy(contents).escape_debug())
                .replace("\\n", "\n")
        }
    };
    let paths: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    for path in paths {
        let (wanted, found) = (expected.get(path), found.get(path));
        let is_as_expected = match (wanted, found) {
            (Some(wanted), Some(found)) if wanted.kind == found.kind => {
                match (
                    String::from_utf8(wanted.contents.clone()),
                    std::str::from_utf8(&found.contents),
                ) {
                    (Ok(wanted), Ok(found)) => fits(&fill(wanted), found),
                    _ => wanted.contents == found.contents,
                }
            }
            _ => false,
        };
        if !is_as_expected {
            let (wanted, found) = (show(wanted), show(found));
            problems.push(format!("file {path}: expected {wanted}\nfound {found}"));
        }
    }
}

/// Adds a problem for every place where `found` differs from `expected`.
fn compare(expected: &Value, found: &Value, at: &str, problems: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            let names: BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
            for name in names {
                let at = format!("{at}/{name}");
                match (expected.get(name), found.get(name)) {
                    (Some(expected), Some(found)) => compare(expected, found, &at, problems),
                    (Some(expected), None) => {
                        problems.push(format!("{at}: missing; expected {expected}"))
                    }
                    (None, found) => problems.push(format!("{at}: not expected: {found:?}")),
                }
            }
        }
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            for (index, (expected, found)) in expected.iter().zip(found).enumerate() {
                compare(expected, found, &format!("{at}/{index}"), problems);
            }
        }
        (Value::String(any), Value::Number(_)) if any == ANY => {}
        (Value::String(expected), Value::String(found)) if fits(expected, found) => {}
        (expected, found) if expected == found => {}
        _ => problems.push(format!("{at}:\n  expected {expected}\n  found    {found}")),
    }
}

/// Whether `found` matches `expected`, in which each `${ANY}` stands for any text.
fn fits(expected: &str, found: &str) -> bool {
    let Some((start, expected)) = expected.split_once(ANY) else { return expected == found };
    let (middle, end) = expected.rsplit_once(ANY).unwrap_or(("", expected));
    let Some(mut rest) = found.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)) else {
        return false;
    };
    middle.split(ANY).all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn expectations_are_exact_except_for_wildcards() {
    for (expected, found, wanted) in [
        (json!({"a": [1, "x"]}), json!({"a": [1, "x"]}), &[][..]),
        (json!({"a": "${ANY}"}), json!({"a": 7}), &[]),
        (json!({"a": "${ANY}"}), json!({"a": "text"}), &[]),
        (json!({"a": "${ANY}"}), json!({"a": null}), &["/a:"]),
        (json!({"a": "at ${ANY} ms"}), json!({"a": "at 12 ms"}), &[]),
        (json!({"a": "at ${ANY} ms"}), json!({"a": "at 12 s"}), &["/a:"]),
        (json!("${ANY}b${ANY}c${ANY}"), json!("abc"), &[]),
        (json!("${ANY}b${ANY}c${ANY}"), json!("acb"), &[":"]),
        (json!("ab${ANY}bc"), json!("abc"), &[":"]),
        (json!({"a": [1]}), json!({"a": [1, 2]}), &["/a:"]),
        (json!({"a": [1, 2]}), json!({"a": [2, 1]}), &["/a/0:", "/a/1:"]),
        (json!({"a": 1}), json!({"b": 1}), &["/a: missing", "/b: not expected"]),
        (json!({"a": 1}), Value::Null, &[":"]),
    ] {
        let mut problems = Vec::new();
        compare(&expected, &found, "", &mut problems);
        assert_eq!(problems.len(), wanted.len(), "{expected} {found}: {problems:?}");
        for (problem, wanted) in problems.iter().zip(wanted) {
            assert!(problem.starts_with(wanted), "{problem}");
        }
    }
}

#[test]
fn a_folder_that_is_not_a_case_fails() {
    let cases = tempfile::tempdir().unwrap();
    let envelope = r#"{"tool": "glob", "pattern": "*"}"#;
    let files = [("input/a", "A"), ("envelope.json", envelope)];
    for (more, wanted) in [
        (&[("expect.json", "{}")][..], "unknown files: expect.json"),
        (&[("call.toml", "tool = 'glob'\nargs = {}")], "expected either an envelope or call.toml"),
        (&[], "expected `expected.json`, or `error` with a `status`"),
        (&[("error", "no")], "expected `expected.json`, or `error` with a `status`"),
        (&[("error", "no"), ("status", "2")], "nothing says: no\nstatus 0, expected 2\n"),
        (&[("expected.json", "{}")], "/result: not expected"),
        (
            &[("expected.json", r#"{"tool": "glob", "status": "success", "result": "${ANY}"}"#)],
            "/result:\n",
        ),
        (
            &[("expected.json", "{}"), ("expected/a", "B")],
            "file a: expected a File of\nB\nfound a File of\nA",
        ),
        (
            &[("expected.json", "{}"), ("expected/b", "B")],
            "file b: expected a File of\nB\nfound nothing",
        ),
        (
            &[("expected.json", "{}"), ("expected/.absent", "a\n")],
            "file a: expected nothing\nfound a File of\nA",
        ),
    ] {
        let folder = cases.path().join("case");
        for (path, contents) in files.iter().chain(more) {
            let path = folder.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        let problems = problems(&folder).join("\n");
        assert!(problems.contains(wanted), "{more:?}: {problems}");
        fs::remove_dir_all(folder).unwrap();
    }
}
