//! All files of a patch against the workspace: checked first, changed together.

use std::collections::BTreeSet;
use std::io;

use cofferdam_sdk::changes::Change;
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use super::failure::Failures;
use super::{FilePatch, Hunk, Operation, PatchError, Side, apply, parse};
use crate::plan::{Plan, editable};

/// What `edit_code` is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditCode {
    /// The file that the patch is for.
    pub path: String,
    /// A unified diff of that file, or its hunks alone.
    pub patch: String,
}

/// What `apply_patch` is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyPatch {
    /// A unified diff of any number of files.
    pub patch: String,
}

/// What both tools answer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// What was done, a line each for files and hunks.
    pub output: String,
}

/// Checks a patch of one file and says what the file becomes.
///
/// # Errors
/// As [`apply_patch`], and `PatchPathMismatch` for a patch of another file or of several.
pub fn edit_code(args: &EditCode, context: &Context) -> Result<Plan<Output>, ToolError> {
    let mismatch = |problem: String| {
        Err(ToolError::invalid_args("PatchPathMismatch", format!("patch failed: {problem}")))
    };
    let path = editable(context, &args.path)?;
    let mut patch = parse(args.patch.as_bytes())?;
    let [file] = patch.files.as_mut_slice() else {
        return mismatch(format!(
            "the patch changes {} files, not only {path}; use apply_patch",
            patch.files.len()
        ));
    };
    match &file.operation {
        Operation::Unnamed => file.operation = Operation::Modify(path.as_str().to_owned()),
        Operation::Modify(name) | Operation::Create(name) | Operation::Delete(name) => {
            if context.resolve(name)? != path {
                return mismatch(format!("the patch is for {name:?}, not for {path}"));
            }
        }
        Operation::Rename { from, to } => {
            return mismatch(format!("the patch renames {from:?} to {to:?}; use apply_patch"));
        }
        Operation::Copy { from, to } => {
            return mismatch(format!("the patch copies {from:?} to {to:?}; use apply_patch"));
        }
    }
    plan(patch.files, context)
}

/// Checks a patch and says what its files become.
///
/// # Errors
/// `MalformedPatch`, `UnsupportedPatch`; `PathNotAllowed` for a file that a patch may not
/// change; `PatchFailed` with everything that does not fit the workspace; the errors of
/// reading the files.
pub fn apply_patch(args: &ApplyPatch, context: &Context) -> Result<Plan<Output>, ToolError> {
    plan(parse(args.patch.as_bytes())?.files, context)
}

fn plan(files: Vec<FilePatch>, context: &Context) -> Result<Plan<Output>, ToolError> {
    let mut planner = Planner {
        context,
        touched: BTreeSet::new(),
        failures: Failures::default(),
        removals: Vec::new(),
        others: Vec::new(),
        output: String::new(),
    };
    for file in files {
        planner.file(file)?;
    }
    planner.failures.into_result()?;
    // Removals first: a file may take the place of a directory, or the other way round.
    let mut changes = planner.removals;
    changes.append(&mut planner.others);
    Ok(Plan { changes, output: Output { output: planner.output.trim_end().to_owned() } })
}

struct Planner<'a> {
    context: &'a Context,
    /// Files that the patch changes, creates or removes. Those it only copies are not.
    touched: BTreeSet<WorkspacePath>,
    failures: Failures,
    removals: Vec<Change>,
    others: Vec<Change>,
    output: String,
}

impl Planner<'_> {
    /// Adds one file. What does not fit is collected; what may not be done at all ends it.
    fn file(&mut self, mut patch: FilePatch) -> Result<(), ToolError> {
        match std::mem::replace(&mut patch.operation, Operation::Unnamed) {
            Operation::Unnamed => {
                let problem =
                    "expected 'diff --git' or '--- ' and '+++ ' before the hunk".to_owned();
                Err(PatchError::Malformed { line: patch.line, problem }.into())
            }
            Operation::Modify(name) => {
                let Some(path) = self.touch(&name)? else { return Ok(()) };
                if adds_a_whole_file(&patch.hunks) && !self.exists(&path)? {
                    return self.create(&path, &patch);
                }
                self.modify(&path, patch)
            }
            Operation::Create(name) => {
                let Some(path) = self.touch_new(&name)? else { return Ok(()) };
                self.create(&path, &patch)
            }
            Operation::Delete(name) => {
                let Some(path) = self.touch(&name)? else { return Ok(()) };
                self.say(format_args!("deleting file {path}"));
                if let Some(versions) = self.changed(&path, patch)? {
                    if !versions.after.is_empty() {
                        self.failures.add(&path, "the file has more in it than the patch deletes");
                    }
                    self.removals.push(Change::Remove(path));
                }
                Ok(())
            }
            Operation::Rename { from, to } => {
                let (source, target) = (self.touch(&from)?, self.touch_new(&to)?);
                let (Some(source), Some(target)) = (source, target) else { return Ok(()) };
                self.rename(source, target, patch)
            }
            Operation::Copy { from, to } => {
                let source = self.allowed(&from)?;
                let Some(target) = self.touch_new(&to)? else { return Ok(()) };
                self.say(format_args!("copying file {source} to {target}"));
                let executable = patch.executable;
                if let Some(Versions { after, .. }) = self.changed(&source, patch)? {
                    self.others.push(Change::Write {
                        path: target,
                        contents: after,
                        like: Some(source),
                        executable,
                        create_new: true,
                    });
                }
                Ok(())
            }
        }
    }

    fn modify(&mut self, path: &WorkspacePath, patch: FilePatch) -> Result<(), ToolError> {
        self.say(format_args!("patching file {path}"));
        let executable = patch.executable;
        if let Some(Versions { before, after }) = self.changed(path, patch)?
            && (executable.is_some() || after != before)
        {
            self.others.push(Change::Write {
                path: path.clone(),
                contents: after,
                like: None,
                executable,
                create_new: false,
            });
        }
        Ok(())
    }

    fn create(&mut self, path: &WorkspacePath, patch: &FilePatch) -> Result<(), ToolError> {
        self.say(format_args!("creating file {path}"));
        if let Some(contents) = self.applied(path, b"", &patch.hunks) {
            self.say_mode(patch.executable.filter(|executable| *executable));
            self.others.push(Change::Write {
                path: path.clone(),
                contents,
                like: None,
                executable: patch.executable,
                create_new: true,
            });
        }
        Ok(())
    }

    fn rename(
        &mut self,
        source: WorkspacePath,
        target: WorkspacePath,
        patch: FilePatch,
    ) -> Result<(), ToolError> {
        self.say(format_args!("renaming file {source} to {target}"));
        let executable = patch.executable;
        let Some(Versions { before, after }) = self.changed(&source, patch)? else {
            return Ok(());
        };
        if executable.is_none() && after == before {
            self.others.push(Change::Rename { source, target });
        } else {
            self.removals.push(Change::Remove(source.clone()));
            self.others.push(Change::Write {
                path: target,
                contents: after,
                like: Some(source),
                executable,
                create_new: true,
            });
        }
        Ok(())
    }

    /// An existing file before and after the patch; nothing where the patch does not apply.
    fn changed(
        &mut self,
        path: &WorkspacePath,
        mut patch: FilePatch,
    ) -> Result<Option<Versions>, ToolError> {
        let before = self.context.read(path)?;
        if patch.crlf && !before.windows(2).any(|pair| pair == b"\r\n") {
            self.say(format_args!("the patch has CRLF line ends, the file has not: read as LF"));
            for line in patch.hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
                line.text = line.text.strip_suffix(b"\r").unwrap_or(line.text);
            }
        }
        let after = self.applied(path, &before, &patch.hunks);
        self.say_mode(patch.executable);
        Ok(after.map(|after| Versions { before, after }))
    }

    fn applied(
        &mut self,
        path: &WorkspacePath,
        original: &[u8],
        hunks: &[Hunk],
    ) -> Option<Vec<u8>> {
        for (index, hunk) in hunks.iter().enumerate() {
            let recounted =
                if hunk.recounted { " (wrong line counts in its header, recounted)" } else { "" };
            let (removed, added) = (hunk.count(Side::Old), hunk.count(Side::New));
            self.say(format_args!(
                "hunk {}: line {}, -{removed} +{added}{recounted}",
                index + 1,
                hunk.start + 1
            ));
        }
        let file = apply::lines(original);
        match apply::apply(&file, hunks) {
            Ok(contents) => Some(contents),
            Err(mismatches) => {
                self.failures.add_hunks(path, &file, hunks, &mismatches);
                None
            }
        }
    }

    /// A file that the patch changes; nothing where another part of it does so already.
    fn touch(&mut self, name: &str) -> Result<Option<WorkspacePath>, ToolError> {
        let path = self.allowed(name)?;
        if self.touched.insert(path.clone()) {
            return Ok(Some(path));
        }
        self.failures.add(&path, "the patch names it more than once");
        Ok(None)
    }

    /// A file that the patch makes; nothing where there is one.
    fn touch_new(&mut self, name: &str) -> Result<Option<WorkspacePath>, ToolError> {
        let Some(path) = self.touch(name)? else { return Ok(None) };
        if !self.exists(&path)? {
            return Ok(Some(path));
        }
        self.failures.add(&path, "it exists already");
        Ok(None)
    }

    /// A file that a patch may name: none behind a symbolic link, so that what a patch says
    /// it changes is what it changes.
    fn allowed(&self, name: &str) -> Result<WorkspacePath, ToolError> {
        let path = editable(self.context, name)?;
        let mut way = self.context.local(&self.context.resolve(".")?);
        for part in path.as_str().split('/') {
            way.push(part);
            if way.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink()) {
                return Err(ToolError::denied(
                    "PathNotAllowed",
                    format!(
                        "patch failed: {path}: {part} is a symbolic link, which no patch may follow or change"
                    ),
                ));
            }
        }
        Ok(path)
    }

    fn exists(&self, path: &WorkspacePath) -> Result<bool, ToolError> {
        match self.context.local(path).symlink_metadata() {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(ToolError::io(path.as_str(), &error)),
        }
    }

    fn say(&mut self, line: std::fmt::Arguments) {
        // A name may hold line feeds and worse; nothing else here does.
        let line = line.to_string();
        for character in line.chars() {
            if character.is_control() {
                self.output.extend(character.escape_default());
            } else {
                self.output.push(character);
            }
        }
        self.output.push('\n');
    }

    fn say_mode(&mut self, executable: Option<bool>) {
        if let Some(executable) = executable {
            self.say(format_args!("mode: {}executable", if executable { "" } else { "not " }));
        }
    }
}

/// The content of a file.
struct Versions {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Whether the hunks are those of a new file, though no header says that it is new.
fn adds_a_whole_file(hunks: &[Hunk]) -> bool {
    matches!(hunks, [hunk] if hunk.start == 0 && hunk.old_count == 0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use cofferdam_sdk::ErrorKind;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;

    fn workspace(files: &[(&str, &str)]) -> TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        directory
    }

    fn apply(directory: &TempDir, patch: &str) -> Result<Plan<Output>, ToolError> {
        apply_patch(
            &ApplyPatch { patch: patch.to_owned() },
            &Context::for_directory(directory.path()),
        )
    }

    fn edit(directory: &TempDir, path: &str, patch: &str) -> Result<Plan<Output>, ToolError> {
        let args = EditCode { path: path.to_owned(), patch: patch.to_owned() };
        edit_code(&args, &Context::for_directory(directory.path()))
    }

    /// Changes as a test writes them: `w`rite, `c`reate, `x` and `-x` for the mode.
    fn shown(plan: &Plan<Output>) -> Vec<String> {
        let one = |change: &Change| match change {
            Change::Write { path, contents, like, executable, create_new } => format!(
                "{}{}{} {path}: {}",
                if *create_new { "c" } else { "w" },
                like.as_ref().map_or(String::new(), |like| format!(" like {like}")),
                executable.map_or("", |executable| if executable { " x" } else { " -x" }),
                String::from_utf8(contents.clone()).unwrap()
            ),
            Change::Remove(path) => format!("rm {path}"),
            Change::Rename { source, target } => format!("mv {source} {target}"),
        };
        plan.changes.iter().map(one).collect()
    }

    const EDIT_X: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn the_documented_example_works() {
        let lines: String = (1..10).map(|line| format!("{line}\n")).collect();
        let directory = workspace(&[("src/main.go", &format!("{lines}\told code\nend\n"))]);
        let patch =
            "--- a/src/main.go\n+++ b/src/main.go\n@@ -10,7 +10,7 @@\n-\told code\n+\tnew code";
        let plan = edit(&directory, "src/main.go", patch).unwrap();
        assert_eq!(shown(&plan), [format!("w src/main.go: {lines}\tnew code\nend\n")]);
        assert_eq!(
            plan.output.output,
            "patching file src/main.go\nhunk 1: line 10, -1 +1 (wrong line counts in its header, recounted)"
        );
    }

    #[test]
    fn every_kind_of_entry() {
        let directory =
            workspace(&[("x", "a\n"), ("dir/y", "1\n2\n"), ("empty", ""), ("crlf", "a\r\n")]);
        for (patch, changes, output) in [
            (EDIT_X, &["w x: b\n"][..], "patching file x\nhunk 1: line 1, -1 +1"),
            (
                "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n",
                &["w x x: a\n"],
                "patching file x\nmode: executable",
            ),
            (
                "diff --git a/new b/new\nnew file mode 100755\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
                &["c x new: a\n"],
                "creating file new\nhunk 1: line 1, -0 +1\nmode: executable",
            ),
            (
                "diff --git a/n/e b/n/e\nnew file mode 100644\nindex 0..0\n",
                &["c -x n/e: "],
                "creating file n/e",
            ),
            (
                "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
                &["c new: a\n"],
                "creating file new\nhunk 1: line 1, -0 +1",
            ),
            // No header says that the file is new, but it can be nothing else.
            (
                "--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+a\n",
                &["c new: a\n"],
                "creating file new\nhunk 1: line 1, -0 +1",
            ),
            (
                "--- a/empty\n+++ b/empty\n@@ -0,0 +1 @@\n+a\n",
                &["w empty: a\n"],
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
            (
                "diff --git a/x b/z\nrename from x\nrename to z\n",
                &["mv x z"],
                "renaming file x to z",
            ),
            (
                "diff --git a/x b/z\nold mode 100755\nnew mode 100644\nrename from x\nrename to z\n--- a/x\n+++ b/z\n@@ -1 +1 @@\n-a\n+b\n",
                &["rm x", "c like x -x z: b\n"],
                "renaming file x to z\nhunk 1: line 1, -1 +1\nmode: not executable",
            ),
            (
                "diff --git a/x b/z\ncopy from x\ncopy to z\n",
                &["c like x z: a\n"],
                "copying file x to z",
            ),
            // What is copied is the file as it was.
            (
                "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\ndiff --git a/x b/z\ncopy from x\ncopy to z\n",
                &["w x: b\n", "c like x z: a\n"],
                "patching file x\nhunk 1: line 1, -1 +1\ncopying file x to z",
            ),
            ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n a\n", &[], "patching file x\nhunk 1: line 1, -0 +0"),
            (
                "--- a/crlf\n+++ b/crlf\n@@ -1 +1 @@\n-a\r\n+b\r\n",
                &["w crlf: b\r\n"],
                "patching file crlf\nhunk 1: line 1, -1 +1",
            ),
            // The whole patch has CRLF line ends; whose they are is up to the file.
            (
                "--- a/crlf\r\n+++ b/crlf\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
                &["w crlf: b\r\n"],
                "patching file crlf\nhunk 1: line 1, -1 +1",
            ),
            (
                "--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
                &["w x: b\n"],
                "patching file x\nthe patch has CRLF line ends, the file has not: read as LF\nhunk 1: line 1, -1 +1",
            ),
        ] {
            let plan =
                apply(&directory, patch).unwrap_or_else(|error| unreachable!("{error}\n{patch}"));
            assert_eq!(shown(&plan), changes, "{patch}");
            assert_eq!(plan.output.output, output, "{patch}");
        }
    }

    #[test]
    fn removals_come_first() {
        let directory = workspace(&[("x", "a\n")]);
        let patch = "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
        assert_eq!(shown(&apply(&directory, patch).unwrap()), ["rm x", "c new: a\n"]);
    }

    #[test]
    fn everything_that_does_not_fit_is_said_at_once() {
        let directory = workspace(&[("x", "a\nb\nc\n"), ("y", "1\n"), ("z", "")]);
        let patch = "\
diff --git a/x b/x
--- a/x
+++ b/x
@@ -1 +1 @@
-b
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
            "patch failed: x: hunk 1, line 1: the line differs; expected \"b\", found \"a\"; it would apply at line 2\n\
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
                "hunk": 1, "line": 1, "expected": "b", "found": "a", "would_apply_at": 2,
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

    #[test]
    fn refusals() {
        let directory = workspace(&[("x", "a\n"), ("y", "1\n2\n"), (".git/config", "a\n")]);
        std::os::unix::fs::symlink("x", directory.path().join("link")).unwrap();
        std::os::unix::fs::symlink(".", directory.path().join("loop")).unwrap();
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
                "patch failed: link: link is a symbolic link, which no patch may follow or change",
            ),
            (
                of("loop/x"),
                "PathNotAllowed",
                "patch failed: loop/x: loop is a symbolic link, which no patch may follow or change",
            ),
            (of("none"), "FileNotFoundError", "file not found: none"),
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
                "patch failed: y: hunk 1, line 1: the line differs; expected \"2\", found \"1\"; it would apply at line 2",
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
                "patch failed: x: the patch names it more than once",
            ),
        ] {
            let error = apply(&directory, &patch).unwrap_err();
            assert_eq!((error.code.as_str(), error.message.as_str()), (code, message), "{patch}");
        }
    }

    #[test]
    fn edit_code_patches_the_file_it_names() {
        let directory = workspace(&[("x", "a\n"), ("src/x", "a\n")]);
        let absolute = format!("{}/x", directory.path().display());
        for (path, patch) in [
            ("x", EDIT_X.to_owned()),
            ("./src/../x", EDIT_X.to_owned()),
            (absolute.as_str(), EDIT_X.to_owned()),
            ("x", EDIT_X.replace("a/x", "x").replace("b/x", "x")),
            ("x", "@@ -1 +1 @@\n-a\n+b\n".to_owned()),
            ("x", "Here it is:\n\n@@ -1 +1 @@\n-a\n+b\n".to_owned()),
        ] {
            assert_eq!(
                shown(&edit(&directory, path, &patch).unwrap()),
                ["w x: b\n"],
                "{path} {patch}"
            );
        }
        assert_eq!(
            shown(&edit(&directory, "x", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n").unwrap()),
            ["rm x"]
        );
        assert_eq!(shown(&edit(&directory, "new", "@@ -0,0 +1 @@\n+a\n").unwrap()), ["c new: a\n"]);
        for (patch, message) in [
            (EDIT_X.to_owned(), "patch failed: the patch is for \"x\", not for src/x"),
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
