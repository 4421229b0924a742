//! The tools: arguments, results, and the functions that run them.

use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use super::plan::plan;
use super::{FilePatch, Operation, name, parse};
use crate::paths::editable;

/// The arguments of `edit_code`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditCode {
    /// The file to change.
    pub path: String,
    /// A unified diff of that file, or only its hunks.
    pub patch: String,
}

/// The arguments of `apply_patch`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyPatch {
    /// A patch of any number of files.
    pub patch: String,
    /// The file of the patch if that has one file; a file or directory of it otherwise.
    #[serde(default)]
    pub path: Option<String>,
}

/// The result of both tools.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// What was done: one line for each file and hunk.
    pub output: String,
}

/// Checks a patch of one file, then applies it.
///
/// # Errors
/// Those of [`apply_patch`]; `PatchPathMismatch` for a patch of another file or of several.
pub fn edit_code(args: &EditCode, context: &Context) -> Result<Output, ToolError> {
    let path = editable(context, &args.path)?;
    let mut patch = parse(args.patch.as_bytes())?;
    let [file] = patch.files.as_mut_slice() else {
        return Err(mismatch(format!(
            "the patch changes {} files, not only {path}; use apply_patch",
            patch.files.len()
        )));
    };
    match &file.operation {
        Operation::Rename { from, to } => {
            Err(mismatch(format!("the patch renames {from:?} to {to:?}; use apply_patch")))
        }
        Operation::Copy { from, to } => {
            Err(mismatch(format!("the patch copies {from:?} to {to:?}; use apply_patch")))
        }
        _ => name_by(&path, file, context),
    }?;
    apply_files(patch.files, context)
}

fn mismatch(problem: String) -> ToolError {
    ToolError::invalid_args("PatchPathMismatch", format!("patch failed: {problem}"))
}

/// Gives a file of a patch the path that the caller named, which may complete or replace what the
/// header says.
///
/// # Errors
/// `PatchPathMismatch` if the header names another file.
fn name_by(path: &WorkspacePath, file: &mut FilePatch, context: &Context) -> Result<(), ToolError> {
    let fits = |name: &str| {
        context.resolve(name).is_ok_and(|name| name == *path) || name::may_be(name, path.as_str())
    };
    let other = |name: &str| Err(mismatch(format!("the patch is for {name:?}, not for {path}")));
    let own = path.as_str().to_owned();
    file.operation = match &file.operation {
        Operation::Unnamed => Operation::Modify(own),
        Operation::Different { old, new } if fits(old) || fits(new) => Operation::Modify(own),
        Operation::Modify(name) if fits(name) => Operation::Modify(own),
        Operation::Create(name) if fits(name) => Operation::Create(own),
        Operation::Delete(name) if fits(name) => Operation::Delete(own),
        Operation::Rename { from, to } | Operation::Copy { from, to } if fits(from) || fits(to) => {
            return Ok(());
        }
        Operation::Modify(name)
        | Operation::Create(name)
        | Operation::Delete(name)
        | Operation::Different { new: name, .. }
        | Operation::Rename { to: name, .. }
        | Operation::Copy { to: name, .. } => return other(name),
    };
    Ok(())
}

/// Checks a patch of any number of files, then applies it.
///
/// # Errors
/// `MalformedPatch`, `UnsupportedPatch`; `PathNotAllowed` for a file that a patch may not change;
/// `PatchPathMismatch` if the argument `path` is another file; `PatchFailed` with all reasons why
/// the patch does not fit the workspace; the errors of reading and writing the files.
pub fn apply_patch(args: &ApplyPatch, context: &Context) -> Result<Output, ToolError> {
    let mut files = parse(args.patch.as_bytes())?.files;
    if let Some(path) = &args.path {
        let path = context.resolve(path)?;
        match files.as_mut_slice() {
            files if files.iter().any(|file| is_at_or_below(&path, file, context)) => {}
            [file] => name_by(&path, file, context)?,
            files => {
                let problem = format!("none of the patch's {} files is {path}", files.len());
                return Err(mismatch(problem));
            }
        }
    }
    apply_files(files, context)
}

/// Whether `path` is a file that the patch names, or a directory above it.
fn is_at_or_below(path: &WorkspacePath, file: &FilePatch, context: &Context) -> bool {
    let names = match &file.operation {
        Operation::Unnamed | Operation::Different { .. } => [None, None],
        Operation::Modify(name) | Operation::Create(name) | Operation::Delete(name) => {
            [Some(name), None]
        }
        Operation::Rename { from, to } | Operation::Copy { from, to } => [Some(from), Some(to)],
    };
    names.into_iter().flatten().any(|name| {
        let named = context.resolve(name).ok();
        let rest = named.as_ref().and_then(|named| named.as_str().strip_prefix(path.as_str()));
        rest.is_some_and(|rest| {
            rest.is_empty() || rest.starts_with('/') || path.as_str().is_empty()
        })
    })
}

fn apply_files(files: Vec<FilePatch>, context: &Context) -> Result<Output, ToolError> {
    let (changes, output) = plan(files, context)?;
    changes.apply(context)?;
    Ok(Output { output })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;

    use cofferdam_sdk::ErrorKind;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    /// A workspace with these files; a name that ends in ` ->` is a link, its content the target.
    fn workspace(files: &[(&str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            let path = directory.path().join(name.trim_end_matches(" ->"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if name.ends_with(" ->") {
                symlink(contents, path).unwrap();
            } else {
                fs::write(path, contents).unwrap();
            }
        }
        directory
    }

    fn apply(directory: &TempDir, patch: &str) -> Result<Output, ToolError> {
        apply_patch(
            &ApplyPatch { patch: patch.to_owned(), path: None },
            &Context::for_directory(directory.path()),
        )
    }

    fn edit(directory: &TempDir, path: &str, patch: &str) -> Result<Output, ToolError> {
        let args = EditCode { path: path.to_owned(), patch: patch.to_owned() };
        edit_code(&args, &Context::for_directory(directory.path()))
    }

    /// All files below a directory: with their contents, a `*` if executable, or the target of a
    /// link.
    fn tree(directory: &Path, prefix: &str) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                found.extend(tree(&path, &format!("{name}/")));
            } else if kind.is_symlink() {
                let target = fs::read_link(path).unwrap();
                found.insert(name, format!(" -> {}", target.display()));
            } else {
                let star = if entry.metadata().unwrap().permissions().mode() & 0o111 == 0 {
                    ""
                } else {
                    "*"
                };
                found.insert(name, format!("{star}: {}", fs::read_to_string(path).unwrap()));
            }
        }
        found
    }

    /// The changes of a workspace: removed files, then created and changed ones.
    fn changes(directory: &TempDir, before: &BTreeMap<String, String>) -> Vec<String> {
        let after = tree(directory.path(), "");
        let gone = before.keys().filter(|name| !after.contains_key(*name));
        let new = after.iter().filter(|(name, file)| before.get(*name) != Some(file));
        gone.map(|name| format!("rm {name}"))
            .chain(new.map(|(name, file)| format!("{name}{file}")))
            .collect()
    }

    /// Applies a patch to a workspace with these files. Returns the changes and the result.
    fn applied(files: &[(&str, &str)], patch: &str) -> (Vec<String>, Result<String, ToolError>) {
        let directory = workspace(files);
        let before = tree(directory.path(), "");
        let answer = apply(&directory, patch).map(|output| output.output);
        (changes(&directory, &before), answer)
    }

    const EDIT_X: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn the_documented_example_works() {
        let lines: String = (1..10).map(|line| format!("{line}\n")).collect();
        let directory = workspace(&[("src/main.go", &format!("{lines}\told code\nend\n"))]);
        let patch =
            "--- a/src/main.go\n+++ b/src/main.go\n@@ -10,7 +10,7 @@\n-\told code\n+\tnew code";
        let answer = edit(&directory, "src/main.go", patch).unwrap();
        assert_eq!(
            fs::read_to_string(directory.path().join("src/main.go")).unwrap(),
            format!("{lines}\tnew code\nend\n")
        );
        assert_eq!(
            answer.output,
            "patching file src/main.go\nhunk 1: line 10, -1 +1 (wrong line counts in its header, recounted)"
        );
    }

    /// Applies a patch to a workspace with some files; checks the changes and the answer.
    fn check(patch: &str, changes: &[&str], output: &str) {
        let files =
            [("x", "a\n"), ("dir/y", "1\n2\n"), ("empty", ""), ("crlf", "a\r\n"), ("link ->", "x")];
        let (found, answer) = applied(&files, patch);
        assert_eq!(answer.unwrap(), output, "{patch}");
        assert_eq!(found, changes, "{patch}");
    }

    #[test]
    fn the_output_of_a_large_patch_says_what_is_unusual() {
        let mut files: Vec<(String, String)> = Vec::new();
        let mut patch = String::new();
        for number in 0..1000 {
            let path = format!("directory/file{number:04}.txt");
            // One file has a line more than the patch says.
            let before = if number == 700 { "more\na\n" } else { "a\n" };
            patch += &format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n");
            files.push((path, before.to_owned()));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        let (changes, output) = applied(&files, &patch);
        assert_eq!(changes.len(), 1000);
        assert_eq!(
            output.unwrap(),
            "1000 files, 1000 hunks; all applied exactly as the patch says, but for 1 files\n\
             patching file directory/file0700.txt\nhunk 1: line 2, -1 +1 (offset +1)"
        );
        let crlf: Vec<(&str, &str)> = files.iter().map(|(path, _)| (*path, "a\r\n")).collect();
        let output = applied(&crlf, &patch).1.unwrap();
        assert!(output.len() <= 25_000 && output.contains("but for 1000 files\n"), "{output}");
        assert!(output.contains("file0000.txt\n") && output.contains("file0999.txt\n"));
    }

    #[test]
    fn files_are_changed_created_and_deleted() {
        for (patch, changes, output) in [
            (EDIT_X, &["x: b\n"][..], "patching file x\nhunk 1: line 1, -1 +1"),
            (
                "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
                &["x*: a\n"],
                "patching file x\nmode: executable",
            ),
            (
                "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
                &["new*: a\n"],
                "creating file new\nhunk 1: line 1, -0 +1\nmode: executable",
            ),
            (
                "diff --git a/n/e b/n/e\nnew file mode 100644\nindex 0..0\n",
                &["n/e: "],
                "creating file n/e",
            ),
            (
                "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
                &["new: a\n"],
                "creating file new\nhunk 1: line 1, -0 +1",
            ),
            // No header says that the file is new, but its hunk adds a whole file.
            (
                "--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
                &["new: a\n"],
                "creating file new\nhunk 1: line 1, -0 +1",
            ),
            (
                "--- a/empty\n+++ b/empty\n@@ -0,0 +1 @@\n+a\n",
                &["empty: a\n"],
                "patching file empty\nhunk 1: line 1, -0 +1",
            ),
            (
                "--- a/dir/y\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-1\n-2\n",
                &["rm dir/y"],
                "deleting file dir/y\nhunk 1: line 1, -2 +0",
            ),
            (
                "diff --git a/empty b/empty\ndeleted file mode 100644\n",
                &["rm empty"],
                "deleting file empty",
            ),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", &[], "patching file x\nhunk 1: line 1, -0 +0"),
        ] {
            check(patch, changes, output);
        }
    }

    #[test]
    fn files_are_renamed_and_copied() {
        for (patch, changes, output) in [
            (
                "diff --git a/x b/z\nrename from x\nrename to z\n",
                &["rm x", "z: a\n"][..],
                "renaming file x to z",
            ),
            (
                "diff --git a/x b/z\nold mode 100755\nnew mode 100644\nrename from x\nrename to z\n--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
                &["rm x", "z: b\n"],
                "renaming file x to z\nhunk 1: line 1, -1 +1\nmode: not executable",
            ),
            ("diff --git a/x b/z\ncopy from x\ncopy to z\n", &["z: a\n"], "copying file x to z"),
            // The copy is of the file as it was before the patch.
            (
                "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/x b/z\ncopy from x\ncopy to z\n",
                &["x: b\n", "z: a\n"],
                "patching file x\nhunk 1: line 1, -1 +1\ncopying file x to z",
            ),
        ] {
            check(patch, changes, output);
        }
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        for (patch, changes, output) in [
            (
                "--- a/crlf\n+++ b/crlf\n@@ -1 +1 @@\n-a\r\n+b\r\n",
                &["crlf: b\r\n"],
                "patching file crlf\nhunk 1: line 1, -1 +1",
            ),
            // The whole patch has CRLF line ends; the file decides which ones are written.
            (
                "--- a/crlf\r\n+++ b/crlf\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
                &["crlf: b\r\n"],
                "patching file crlf\nhunk 1: line 1, -1 +1",
            ),
            (
                "--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
                &["x: b\n"],
                "patching file x\nhunk 1: line 1, -1 +1\nline ends: those of the file are kept (the patch has others)",
            ),
        ] {
            check(patch, changes, output);
        }
    }

    /// The end of a patch of a link, whose target has no newline.
    const NO_NEWLINE: &str = "\n\\ No newline at end of file\n";

    #[test]
    fn links_are_created_changed_and_deleted() {
        let end = NO_NEWLINE;
        for (patch, changes, output) in [
            (
                format!(
                    "diff --git a/n/l b/n/l\nnew file mode 120000\n--- /dev/null\n+++ b/n/l\n@@ -0,0 +1 @@\n+../x{end}"
                ),
                &["n/l -> ../x"][..],
                "creating link n/l\nhunk 1: line 1, -0 +1",
            ),
            (
                format!(
                    "diff --git a/link b/link\nindex 1..2 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-x{end}+y{end}"
                ),
                &["link -> y"],
                "patching link link\nhunk 1: line 1, -1 +1",
            ),
            (
                format!(
                    "diff --git a/link b/link\ndeleted file mode 120000\n--- a/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-x{end}"
                ),
                &["rm link"],
                "deleting link link\nhunk 1: line 1, -1 +0",
            ),
            (
                "diff --git a/link b/to\nsimilarity index 100%\nrename from link\nrename to to\n"
                    .to_owned(),
                &["rm link", "to -> x"],
                "renaming link link to to",
            ),
            (
                "diff --git a/link b/to\nsimilarity index 100%\ncopy from link\ncopy to to\n"
                    .to_owned(),
                &["to -> x"],
                "copying link link to to",
            ),
            (
                format!(
                    "diff --git a/link b/to\nrename from link\nrename to to\nindex 1..2 120000\n--- a/link\n+++ b/to\n@@ -1 +1 @@\n-x{end}+y{end}"
                ),
                &["rm link", "to -> y"],
                "renaming link link to to\nhunk 1: line 1, -1 +1",
            ),
        ] {
            check(&patch, changes, output);
        }
    }

    /// git writes such a change as a deletion and a creation.
    #[test]
    fn a_file_becomes_a_link_and_a_link_a_file() {
        let end = NO_NEWLINE;
        for (patch, changes, output) in [
            (
                format!(
                    "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
                     diff --git a/x b/x\nnew file mode 120000\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+y{end}"
                ),
                &["x -> y"][..],
                "deleting file x\nhunk 1: line 1, -1 +0\ncreating link x\nhunk 1: line 1, -0 +1",
            ),
            (
                format!(
                    "diff --git a/link b/link\ndeleted file mode 120000\n--- a/link\n+++ /dev/null\n@@ -1 +0,0 @@\n-x{end}\
                     diff --git a/link b/link\nnew file mode 100755\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+b\n"
                ),
                &["link*: b\n"],
                "deleting link link\nhunk 1: line 1, -1 +0\ncreating file link\nhunk 1: line 1, -0 +1\nmode: executable",
            ),
        ] {
            check(&patch, changes, output);
        }
    }

    #[test]
    fn a_mode_that_does_not_fit_or_an_empty_target_is_refused() {
        let files = [("x", "a\n")];
        for (patch, message) in [
            (
                "diff --git a/x b/x\nindex 1..2 120000\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n",
                "patch failed: x: it is a file, not a symbolic link",
            ),
            (
                "diff --git a/l b/l\nnew file mode 120000\n",
                "patch failed: l: the link's target is empty or not UTF-8",
            ),
        ] {
            let (found, answer) = applied(&files, patch);
            assert_eq!(answer.unwrap_err().message, message);
            assert_eq!(found, [""; 0]);
        }
    }

    fn rename(from: &str, to: &str) -> String {
        format!(
            "diff --git a/{from} b/{to}\nsimilarity index 100%\nrename from {from}\nrename to {to}\n"
        )
    }

    fn create(name: &str) -> String {
        format!(
            "diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+new\n"
        )
    }

    fn delete(name: &str, line: &str) -> String {
        format!(
            "diff --git a/{name} b/{name}\ndeleted file mode 100644\n--- a/{name}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{line}\n"
        )
    }

    #[test]
    fn files_can_swap_names() {
        let files = [("a", "A\n"), ("b", "B\n"), ("d/e/f", "F\n"), ("d/g", "G\n")];
        let edited = "diff --git a/a b/b\nrename from a\nrename to b\n--- a/a\n+++ b/b\n@@ -1 +1 @@\n-A\n+AA\n";
        for (patch, changes) in [
            (rename("a", "b") + &rename("b", "a"), &["a: B\n", "b: A\n"][..]),
            (edited.to_owned() + &rename("b", "a"), &["a: B\n", "b: AA\n"]),
            (rename("a", "b") + &rename("b", "c"), &["rm a", "b: A\n", "c: B\n"]),
            (rename("b", "c") + &rename("a", "b"), &["rm a", "b: A\n", "c: B\n"]),
            (rename("a", "c") + &create("a"), &["a: new\n", "c: A\n"]),
            (create("a") + &rename("a", "c"), &["a: new\n", "c: A\n"]),
            (delete("a", "A") + &create("a"), &["a: new\n"]),
            (create("a") + &delete("a", "A"), &["a: new\n"]),
            (delete("b", "B") + &rename("a", "b"), &["rm a", "b: A\n"]),
            // A file is replaced by a directory, ...
            (create("a/x") + &delete("a", "A"), &["rm a", "a/x: new\n"]),
            (rename("a", "a/x"), &["rm a", "a/x: A\n"]),
            (rename("a", "c") + &create("a/x/y"), &["rm a", "a/x/y: new\n", "c: A\n"]),
            // ... and a directory by a file.
            (
                create("d") + &delete("d/g", "G") + &delete("d/e/f", "F"),
                &["rm d/e/f", "rm d/g", "d: new\n"],
            ),
            (
                rename("d/e/f", "d") + &rename("d/g", "g"),
                &["rm d/e/f", "rm d/g", "d: F\n", "g: G\n"],
            ),
            (rename("d/e/f", "d/e"), &["rm d/e/f", "d/e: F\n"]),
        ] {
            let (found, answer) = applied(&files, &patch);
            answer.unwrap_or_else(|error| unreachable!("{error}\n{patch}"));
            assert_eq!(found, changes, "{patch}");
        }
        for (patch, message) in [
            (create("d") + &delete("d/g", "G"), "patch failed: d: it exists already"),
            (create("a/x"), "patch failed: a/x: a is a file, not a directory"),
            (
                rename("a", "c") + &rename("b", "c"),
                "patch failed: c: the patch names it more than once",
            ),
            (
                delete("a", "A") + &rename("a", "c"),
                "patch failed: a: the patch names it more than once",
            ),
            (
                EDIT_X.replace('x', "a") + &delete("a", "A"),
                "patch failed: a: hunk 1, line 1: the line differs; expected \"a\", found \"A\"\n\
                 a: the patch names it more than once",
            ),
            (rename("a", "b"), "patch failed: b: it exists already"),
        ] {
            let (found, answer) = applied(&files, &patch);
            assert_eq!(answer.unwrap_err().message, message, "{patch}");
            assert_eq!(found, [""; 0], "{patch}");
        }
    }

    #[test]
    fn nothing_is_written_through_a_link_that_the_patch_creates() {
        let directory = workspace(&[("dir/x", "a\n"), ("y", "b\n")]);
        let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+dir\n\\ No newline at end of file\n";
        for patch in [link.to_owned() + &create("l/new"), link.to_owned() + &rename("y", "l/new")] {
            assert_eq!(apply(&directory, &patch).unwrap_err().message, "l exists already");
            assert!(!directory.path().join("dir/new").exists());
            fs::remove_dir_all(directory.path().join("l")).unwrap();
        }
        // Nor through one that it renames.
        let directory = workspace(&[("dir/x", "a\n"), ("l ->", "dir")]);
        let patch = rename("l", "m") + &create("m/new");
        assert_eq!(apply(&directory, &patch).unwrap_err().message, "m exists already");
        assert!(!directory.path().join("dir/new").exists());
    }

    #[test]
    fn renames_and_copies_keep_permissions() {
        let copy = "diff --git a/x b/y\ncopy from x\ncopy to y\n";
        let edited = "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\n";
        let not =
            "diff --git a/x b/y\nold mode 100755\nnew mode 100644\nrename from x\nrename to y\n";
        let all = 0o777;
        // A new file is executable or not; otherwise it has default permissions.
        let executable = 0o100;
        for (patch, before, (name, mask, wanted)) in [
            (EDIT_X.to_owned(), 0o750, ("x", all, 0o750)),
            (rename("x", "y"), 0o750, ("y", all, 0o750)),
            (edited.to_owned(), 0o750, ("y", all, 0o750)),
            (not.to_owned(), 0o750, ("y", all, 0o640)),
            (copy.to_owned(), 0o755, ("y", executable, 0o100)),
            (copy.to_owned(), 0o644, ("y", executable, 0)),
            (rename("x", "z") + &rename("z", "x"), 0o755, ("z", executable, 0o100)),
            (rename("x", "z") + &rename("z", "x"), 0o755, ("x", executable, 0)),
        ] {
            let directory = workspace(&[("x", "a\n"), ("z", "")]);
            let at = |name: &str| directory.path().join(name);
            fs::set_permissions(at("x"), fs::Permissions::from_mode(before)).unwrap();
            apply(&directory, &patch).unwrap();
            let mode = fs::metadata(at(name)).unwrap().permissions().mode();
            assert_eq!(mode & mask, wanted, "{name} {patch}");
        }
    }

    #[test]
    fn all_failures_are_reported_at_once() {
        let directory = workspace(&[("x", "a\nb\nc\n"), ("y", "1\n"), ("z", "")]);
        let patch = "\
diff --git a/x b/x
--- a/x
+++ b/x
@@ -1 +1 @@
-x
+B
@@ -2,2 +2,2 @@
 b
-d
+e
diff --git a/y b/y
new file mode 100644
--- /dev/null
+++ b/y
@@ -0,0 +1 @@
+1
diff --git a/z b/z
deleted file mode 100644
diff --git a/z b/y
rename from z
rename to y
";
        let error = apply(&directory, patch).unwrap_err();
        assert_eq!((error.kind, error.code.as_str()), (ErrorKind::Conflict, "PatchFailed"));
        assert_eq!(
            error.message,
            "patch failed: x: hunk 1, line 1: the line differs; expected \"x\", found \"a\"\n\
             x: hunk 2, line 3: the line differs; expected \"d\", found \"c\"\n\
             y: it exists already\n\
             z: the patch names it more than once\n\
             y: the patch names it more than once"
        );
        let detail = error.detail.unwrap();
        assert_eq!(
            detail["failures"][0],
            json!({
                "file": "x", "reason": "the line differs",
                "hunk": 1, "line": 1, "expected": "x", "found": "a", "would_apply_at": null,
            })
        );
        assert_eq!(detail["failures"][2], json!({ "file": "y", "reason": "it exists already" }));
        assert_eq!(detail["more"], 0);
        let schema = serde_json::from_str(include_str!(
            "../../../../schemas/tools/edit.apply_patch.failure.json"
        ))
        .unwrap();
        jsonschema::validate(&schema, &detail).unwrap();
    }

    #[test]
    fn many_failures_are_counted() {
        let directory = workspace(&[("x", "a\n")]);
        let hunks: String =
            (1..=60).map(|line| format!("@@ -{line} +{line} @@\n-b\n+c\n")).collect();
        let error = apply(&directory, &format!("--- a/x\n+++ b/x\n{hunks}")).unwrap_err();
        assert_eq!(error.detail.unwrap()["more"], 10);
        assert!(error.message.ends_with("\nand 10 more"), "{}", error.message);
    }

    /// Checks with which code and message a patch is refused.
    fn check_refused(patch: &str, code: &str, message: &str) {
        let files = [
            ("x", "a\n"),
            ("y", "1\n2\n"),
            (".git/config", "a\n"),
            ("link ->", "x"),
            ("loop ->", "."),
        ];
        let error = apply(&workspace(&files), patch).unwrap_err();
        assert_eq!((error.code.as_str(), error.message.as_str()), (code, message), "{patch}");
    }

    #[test]
    fn paths_that_a_patch_may_not_change_are_refused() {
        let of = |name: &str| EDIT_X.replace('x', name);
        for (patch, code, message) in [
            (of("../x"), "PathNotAllowed", "'../x' leaves the workspace"),
            (
                of(".git/config"),
                "PathNotAllowed",
                "'.git/config': .git holds control data and is not edited",
            ),
            (
                of("link"),
                "PathNotAllowed",
                "patch failed: link is a symbolic link, which only a patch with mode 120000 changes",
            ),
            (
                of("loop/x"),
                "PathNotAllowed",
                "patch failed: loop/x: loop is a symbolic link, which no patch may follow",
            ),
            (
                create("loop/new"),
                "PathNotAllowed",
                "patch failed: loop/new: loop is a symbolic link, which no patch may follow",
            ),
            (create("link"), "PatchFailed", "patch failed: link: it exists already"),
            (of("none"), "FileNotFoundError", "file not found: none"),
        ] {
            check_refused(&patch, code, message);
        }
    }

    #[test]
    fn patches_that_do_not_fit_the_files_are_refused() {
        for (patch, code, message) in [
            (
                "@@ -1 +1 @@\n-a\n+b\n".to_owned(),
                "MalformedPatch",
                "patch failed: line 1 of the patch: expected 'diff --git' or '--- ' and '+++ ' before the hunk",
            ),
            (
                "diff --git a/x b/x\nGIT binary patch\n".to_owned(),
                "UnsupportedPatch",
                "patch failed: line 2 of the patch: x: a binary file; only changes of text are applied",
            ),
            (
                "--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n".to_owned(),
                "PatchFailed",
                "patch failed: y: the file has more in it than the patch deletes",
            ),
            (
                "--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n-2\n".to_owned(),
                "PatchFailed",
                "patch failed: y: the file has more in it than the patch deletes",
            ),
            (
                "--- a/y\n+++ b/y\n@@ -1 +1 @@\n-3\n+4\n".to_owned(),
                "PatchFailed",
                "patch failed: y: hunk 1, line 1: the line differs; expected \"3\", found \"1\"",
            ),
            (
                "diff --git a/x b/y\ncopy from x\ncopy to y\n".to_owned(),
                "PatchFailed",
                "patch failed: y: it exists already",
            ),
            (
                "diff --git a/x b/x\nrename from x\nrename to x\n".to_owned(),
                "PatchFailed",
                "patch failed: x: the patch names it more than once",
            ),
            (
                format!("{EDIT_X}{EDIT_X}"),
                "PatchFailed",
                "patch failed: x: hunk 1, line 1: the line differs (the file has the hunk's new lines at line 1 already); expected \"a\", found \"b\"",
            ),
        ] {
            check_refused(&patch, code, message);
        }
    }

    /// Two patches that were both made from the original file.
    #[test]
    fn a_second_patch_of_the_original_applies_after_the_first() {
        let lines: String = (1..=9).map(|line| format!("{line}\n")).collect();
        let directory = workspace(&[("x", &lines)]);
        let first = "--- a/x\n+++ b/x\n@@ -1,2 +1,5 @@\n 1\n+a\n+b\n+c\n 2\n";
        let second =
            "--- a/x\n+++ b/x\n@@ -4,3 +4,3 @@\n 4\n-5\n+V\n 6\n@@ -8,2 +8,3 @@\n 8\n 9\n+X\n";
        apply(&directory, first).unwrap();
        let answer = apply(&directory, second).unwrap();
        assert_eq!(
            answer.output,
            "patching file x\nhunk 1: line 7, -1 +1 (offset +3)\nhunk 2: line 11, -0 +1 (offset +3)"
        );
        assert_eq!(
            fs::read_to_string(directory.path().join("x")).unwrap(),
            "1\na\nb\nc\n2\n3\n4\nV\n6\n7\n8\n9\nX\n"
        );
        for again in [first, second] {
            assert_eq!(apply(&directory, again).unwrap_err().code, "PatchFailed");
        }
    }

    #[test]
    fn a_second_part_for_a_file_applies_to_the_result_of_the_first() {
        let mode = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n";
        for (patch, wanted) in [
            (
                EDIT_X.to_owned() + &EDIT_X.replace("-a", "-b").replace("\n+b", "\n+c"),
                &["x: c\n"][..],
            ),
            (mode.to_owned() + EDIT_X, &["x*: b\n"]),
            (EDIT_X.to_owned() + mode, &["x*: b\n"]),
            (create("n") + "--- a/n\n+++ b/n\n@@ -1 +1 @@\n-new\n+newer\n", &["n: newer\n"]),
        ] {
            let (found, answer) = applied(&[("x", "a\n")], &patch);
            answer.unwrap_or_else(|error| unreachable!("{error}\n{patch}"));
            assert_eq!(found, wanted, "{patch}");
        }
    }

    #[test]
    fn a_place_that_is_not_unique_is_refused_with_its_lines() {
        let directory = workspace(&[("x", "b\na\nb\na\n")]);
        let error = apply(&directory, "--- a/x\n+++ b/x\n@@ -3 +3 @@\n-a\n+c\n").unwrap_err();
        assert_eq!(
            error.message,
            "patch failed: x: hunk 1, line 2: it fits at lines 2 and 4; add lines around the change"
        );
        let detail = error.detail.unwrap();
        assert_eq!(detail["failures"][0]["would_apply_at"], 2);
        let schema = serde_json::from_str(include_str!(
            "../../../../schemas/tools/edit.apply_patch.failure.json"
        ))
        .unwrap();
        jsonschema::validate(&schema, &detail).unwrap();
    }

    #[test]
    fn patches_of_gnu_diff_are_understood() {
        let (stamp, epoch) = ("2024-05-06 07:08:09.0 +0200", "1970-01-01 00:00:00.000000000 +0000");
        for (patch, changes, output) in [
            (
                format!(
                    "diff -urN old/dir/y new/dir/y\n--- old/dir/y\t{stamp}\n+++ new/dir/y\t{epoch}\n@@ -1,2 +0,0 @@\n-1\n-2\n"
                ),
                &["rm dir/y"][..],
                "deleting file dir/y\nhunk 1: line 1, -2 +0",
            ),
            (
                format!("--- old/n\t{epoch}\n+++ new/n\t{stamp}\n@@ -0,0 +1 @@\n+a\n"),
                &["n: a\n"],
                "creating file n\nhunk 1: line 1, -0 +1",
            ),
            (
                format!("--- x.orig\t{stamp}\n+++ x\t{stamp}\n@@ -1 +1 @@\n-a\n+b\n"),
                &["x: b\n"],
                "patching file x\nhunk 1: line 1, -1 +1",
            ),
            // The file keeps lines, so it is not deleted.
            (
                format!("--- old/dir/y\t{stamp}\n+++ new/dir/y\t{epoch}\n@@ -1,2 +1 @@\n-1\n 2\n"),
                &["dir/y: 2\n"],
                "patching file dir/y\nhunk 1: line 1, -1 +0",
            ),
        ] {
            check(&patch, changes, output);
        }
        let message = "patch failed: line 1 of the patch: expected one file, found \"a/x\" and \"b/z\"; name it with 'path', or use git's 'rename from' and 'rename to'";
        check_refused("--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n", "MalformedPatch", message);
    }

    #[test]
    fn directories_that_a_patch_empties_are_removed() {
        for (patch, kept) in [
            (delete("d/e/f", "F"), vec!["d", "d/g", "o"]),
            (delete("d/e/f", "F") + &delete("d/g", "G"), vec!["o"]),
            (rename("d/e/f", "o/f") + &delete("d/g", "G"), vec!["o", "o/f"]),
            (rename("d/e/f", "d/h"), vec!["d", "d/g", "d/h", "o"]),
            (delete("d/e/f", "F") + &create("d/e/n"), vec!["d", "d/e", "d/e/n", "d/g", "o"]),
        ] {
            let directory = workspace(&[("d/e/f", "F\n"), ("d/g", "G\n")]);
            fs::create_dir(directory.path().join("o")).unwrap();
            apply(&directory, &patch).unwrap();
            let found: Vec<&str> = ["d", "d/e", "d/e/f", "d/e/n", "d/g", "d/h", "o", "o/f"]
                .into_iter()
                .filter(|name| directory.path().join(name).exists())
                .collect();
            assert_eq!(found, kept, "{patch}");
        }
    }

    #[test]
    fn the_codex_format_is_understood() {
        for (body, changes, output) in [
            (
                "*** Add File: n/new\n+a\n+b\n",
                &["n/new: a\nb\n"][..],
                "creating file n/new\nhunk 1: line 1, -0 +2",
            ),
            ("*** Delete File: dir/y\n", &["rm dir/y"], "deleting file dir/y"),
            (
                "*** Update File: dir/y\n@@\n 1\n-2\n+two\n",
                &["dir/y: 1\ntwo\n"],
                "patching file dir/y\nhunk 1: line 1, -1 +1",
            ),
            (
                "*** Update File: dir/y\n*** Move to: dir/z\n@@ 1\n-2\n+two\n",
                &["rm dir/y", "dir/z: 1\ntwo\n"],
                "renaming file dir/y to dir/z\nhunk 1: line 2, -1 +1",
            ),
            (
                "*** Update File: x\n*** Move to: z\n*** Delete File: empty\n",
                &["rm empty", "rm x", "z: a\n"],
                "renaming file x to z\ndeleting file empty",
            ),
            (
                "*** Update File: crlf\n-a\n+b\n",
                &["crlf: b\r\n"],
                "patching file crlf\nhunk 1: line 1, -1 +1\nline ends: those of the file are kept (the patch has others)",
            ),
        ] {
            check(&format!("*** Begin Patch\n{body}*** End Patch\n"), changes, output);
        }
        for (body, code, message) in [
            ("*** Add File: x\n+a\n", "PatchFailed", "patch failed: x: it exists already"),
            ("*** Delete File: none\n", "FileNotFoundError", "file not found: none"),
            (
                "*** Update File: y\n@@\n-3\n+4\n",
                "PatchFailed",
                "patch failed: y: hunk 1, line 1: the line differs; expected \"3\", found \"1\"",
            ),
            (
                "*** Update File: y\n@@\n-1\n+one\n*** Delete File: y\n",
                "PatchFailed",
                "patch failed: y: the patch names it more than once",
            ),
        ] {
            check_refused(&format!("*** Begin Patch\n{body}*** End Patch\n"), code, message);
        }
    }

    #[test]
    fn the_argument_path_completes_or_agrees_with_the_names_in_the_patch() {
        let hunk = "@@ -1 +1 @@\n-a\n+b\n";
        let (moved, two) = (rename("x", "z"), create("src/n") + &create("m"));
        for (path, patch, changed) in [
            ("x", EDIT_X.to_owned(), &["x: b\n"][..]),
            ("src/x", EDIT_X.to_owned(), &["src/x: b\n"]),
            ("src/x", hunk.to_owned(), &["src/x: b\n"]),
            ("src/x", format!("--- p-1/src/x.orig\n+++ p-2/src/x\n{hunk}"), &["src/x: b\n"]),
            ("src/x", format!("--- /tmp/1/x\n+++ src/x\n{hunk}"), &["src/x: b\n"]),
            (".", EDIT_X.to_owned(), &["x: b\n"]),
            ("x", moved.clone(), &["rm x", "z: a\n"]),
            ("z", moved, &["rm x", "z: a\n"]),
            ("src", two.clone(), &["m: new\n", "src/n: new\n"]),
            ("m", two.clone(), &["m: new\n", "src/n: new\n"]),
        ] {
            let directory = workspace(&[("x", "a\n"), ("src/x", "a\n")]);
            let before = tree(directory.path(), "");
            let args = ApplyPatch { patch: patch.clone(), path: Some(path.to_owned()) };
            apply_patch(&args, &Context::for_directory(directory.path())).unwrap();
            assert_eq!(changes(&directory, &before), changed, "{path} {patch}");
        }
        let directory = workspace(&[("x", "a\n")]);
        for (path, patch, message) in [
            ("y", EDIT_X, "patch failed: the patch is for \"x\", not for y"),
            ("o", &two, "patch failed: none of the patch's 2 files is o"),
        ] {
            let args = ApplyPatch { patch: patch.to_owned(), path: Some(path.to_owned()) };
            let error = apply_patch(&args, &Context::for_directory(directory.path())).unwrap_err();
            assert_eq!(
                (error.code.as_str(), error.message.as_str()),
                ("PatchPathMismatch", message)
            );
        }
    }

    #[test]
    fn edit_code_patches_the_file_it_names() {
        let files = [("x", "a\n"), ("src/x", "a\n")];
        let directory = workspace(&files);
        let absolute = format!("{}/x", directory.path().display());
        let before = tree(directory.path(), "");
        for (path, patch, wanted) in [
            ("x", EDIT_X, &["x: b\n"][..]),
            ("./src/../x", EDIT_X, &["x: b\n"]),
            (&absolute, EDIT_X, &["x: b\n"]),
            ("x", "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", &["x: b\n"]),
            ("x", "@@ -1 +1 @@\n-a\n+b\n", &["x: b\n"]),
            ("x", "Here it is:\n\n@@ -1 +1 @@\n-a\n+b\n", &["x: b\n"]),
            ("x", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", &["rm x"]),
            ("new", "@@ -0,0 +1 @@\n+a\n", &["new: a\n"]),
        ] {
            edit(&directory, path, patch).unwrap();
            assert_eq!(changes(&directory, &before), wanted, "{path} {patch}");
            fs::write(directory.path().join("x"), "a\n").unwrap();
        }
        for (patch, message) in [
            (EDIT_X.replace('x', "y"), "patch failed: the patch is for \"y\", not for src/x"),
            (
                format!("{EDIT_X}{EDIT_X}"),
                "patch failed: the patch changes 2 files, not only src/x; use apply_patch",
            ),
            (
                "diff --git a/src/x b/y\nrename from src/x\nrename to y\n".to_owned(),
                "patch failed: the patch renames \"src/x\" to \"y\"; use apply_patch",
            ),
            (
                "diff --git a/src/x b/y\ncopy from src/x\ncopy to y\n".to_owned(),
                "patch failed: the patch copies \"src/x\" to \"y\"; use apply_patch",
            ),
        ] {
            let error = edit(&directory, "src/x", &patch).unwrap_err();
            assert_eq!(
                (error.code.as_str(), error.message.as_str()),
                ("PatchPathMismatch", message)
            );
        }
    }
}
