//! What `git diff` writes, `apply_patch` applies: random trees, random changes, many options.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use cofferdam_edit::patch::{ApplyPatch, apply_patch};
use cofferdam_sdk::Context;
use cofferdam_sdk::changes::Change;

/// A file's content and whether it is executable.
type File = (Vec<u8>, bool);
type Tree = BTreeMap<String, File>;

/// Numbers that are random enough and the same on every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }

    fn line(&mut self) -> String {
        // Among them lines that look like the parts of a patch.
        let start = self.pick(&[
            "",
            "",
            "",
            "\t",
            "-- ",
            "++ b/x",
            "@@ -1 +1 @@",
            "diff --git",
            "\\ No",
            "ä ",
            " ",
        ]);
        if self.chance(15) { start.to_owned() } else { format!("{start}{:x}", self.below(1 << 30)) }
    }

    fn content(&mut self) -> Vec<String> {
        let count = if self.chance(10) { 0 } else { 1 + self.below(40) };
        (0..count).map(|_| self.line()).collect()
    }

    fn name(&mut self) -> String {
        let directory = self.pick(&["", "", "src/", "a/", "b/", "with blank/", "déjà/"]);
        let stem = self.pick(&[
            "x",
            "main file",
            "naïve",
            "tab\there",
            "quote\"d",
            "back\\slash",
            "日本",
            "dev",
        ]);
        format!("{directory}{stem}{}", self.below(1000))
    }

    fn encode(&mut self, lines: &[String]) -> Vec<u8> {
        let end = self.pick(&["\n", "\n", "\r\n"]);
        let mut text = lines.join(end);
        if !text.is_empty() && self.chance(75) {
            text.push_str(end);
        }
        text.into_bytes()
    }

    fn tree(&mut self) -> Tree {
        (0..3 + self.below(6))
            .map(|_| {
                let lines = self.content();
                let content = self.encode(&lines);
                let executable = self.chance(30);
                (self.name(), (content, executable))
            })
            .collect()
    }

    /// Some lines of a file changed, some added, some gone; perhaps the newline at its end.
    fn edit(&mut self, content: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> =
            content.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..1 + self.below(4) {
            let at = self.below(lines.len() + 1);
            let line = format!("{}\n", self.line()).into_bytes();
            match self.below(3) {
                0 if at < lines.len() => lines[at] = line,
                1 if at < lines.len() => drop(lines.remove(at)),
                _ => lines.insert(at, line),
            }
        }
        let mut content = lines.concat();
        if self.chance(20) && content.ends_with(b"\n") {
            content.pop();
        }
        content
    }

    fn change(&mut self, tree: &Tree) -> Tree {
        let mut changed = Tree::new();
        for (name, (content, executable)) in tree {
            let (mut name, mut content, mut executable) =
                (name.clone(), content.clone(), *executable);
            match self.below(8) {
                0 => continue,
                1 => executable = !executable,
                2 => name = self.name(),
                3 => {
                    name = self.name();
                    content = self.edit(&content);
                }
                4 => {
                    let copy = self.edit(&content);
                    changed.insert(self.name(), (copy, executable));
                }
                5 => {}
                _ => content = self.edit(&content),
            }
            changed.insert(name, (content, executable));
        }
        for _ in 0..self.below(3) {
            let lines = self.content();
            let content = self.encode(&lines);
            let executable = self.chance(30);
            changed.insert(self.name(), (content, executable));
        }
        changed
    }
}

#[expect(clippy::disallowed_methods, reason = "the program that the patches must come from")]
fn git(directory: &Path, arguments: &[&str]) -> String {
    let fixed =
        ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "core.autocrlf=false"];
    let output = Command::new("git")
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .args(fixed)
        .args(arguments)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "git {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn write(directory: &Path, tree: &Tree) {
    for (name, (content, executable)) in tree {
        write_file(&directory.join(name), content, *executable);
    }
}

fn write_file(path: &Path, content: &[u8], executable: bool) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))
        .unwrap();
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0
}

fn clear(directory: &Path) {
    for entry in fs::read_dir(directory)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.file_name() != ".git")
    {
        if entry.file_type().unwrap().is_dir() {
            fs::remove_dir_all(entry.path()).unwrap();
        } else {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn read(root: &Path, directory: &Path, tree: &mut Tree) {
    for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            read(root, &path, tree);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            tree.insert(name, (fs::read(&path).unwrap(), is_executable(&path)));
        }
    }
}

/// Does what the host does with changes, one after the other.
fn apply(directory: &Path, changes: Vec<Change>) {
    let local = |path: &cofferdam_sdk::WorkspacePath| directory.join(path.as_str());
    let mut originals = Tree::new();
    read(directory, directory, &mut originals);
    for change in changes {
        match change {
            Change::Write { path, contents, like, executable, create_new } => {
                let original = originals.get(like.as_ref().unwrap_or(&path).as_str());
                let path = local(&path);
                assert!(!(create_new && path.exists()), "{path:?} exists");
                let executable = executable
                    .unwrap_or_else(|| original.is_some_and(|(_, executable)| *executable));
                write_file(&path, &contents, executable);
            }
            Change::Remove(path) => fs::remove_file(local(&path)).unwrap(),
            Change::Rename { source, target } => {
                fs::create_dir_all(local(&target).parent().unwrap()).unwrap();
                fs::rename(local(&source), local(&target)).unwrap();
            }
        }
    }
}

const OPTIONS: [&[&str]; 9] = [
    &["diff", "--cached", "HEAD"],
    &["diff", "--cached", "HEAD", "--find-renames", "--find-copies"],
    &["diff", "--cached", "HEAD", "--find-renames=30%", "--find-copies-harder"],
    &["diff", "--cached", "HEAD", "--no-renames", "-U0"],
    &["diff", "--cached", "HEAD", "-M", "-U1", "--no-prefix"],
    &["diff", "--cached", "HEAD", "-M", "-U20", "--full-index", "--patch-with-stat"],
    &["-c", "diff.mnemonicPrefix=true", "diff", "--cached", "HEAD", "-M"],
    &[
        "-c",
        "core.quotePath=false",
        "diff",
        "--cached",
        "HEAD",
        "-M",
        "--inter-hunk-context=2",
        "-p",
        "--stat",
    ],
    // A mail with a header, and a signature after the patch.
    &["format-patch", "--stdout", "-M", "HEAD~1"],
];

#[test]
fn patches_of_git_apply() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut seen = BTreeMap::new();
    for round in 0..25 {
        let (before, repository) = (random.tree(), tempfile::tempdir().unwrap());
        let after = random.change(&before);
        let root = repository.path();
        git(root, &["init", "--quiet"]);
        write(root, &before);
        git(root, &["add", "--all"]);
        git(root, &["commit", "--quiet", "--allow-empty", "--message=before"]);
        clear(root);
        write(root, &after);
        git(root, &["add", "--all"]);
        for arguments in OPTIONS {
            if arguments[0] == "format-patch" {
                git(
                    root,
                    &[
                        "commit",
                        "--quiet",
                        "--allow-empty",
                        "--message=after\n\n- one\n+ two\n @@ three",
                    ],
                );
            }
            let patch = git(root, arguments);
            if before == after {
                continue;
            }
            for kind in [
                "new file mode 100755",
                "deleted file",
                "rename from",
                "copy from",
                "\nold mode",
                "\n\\ No",
                "\r\n",
                "\"a/",
            ] {
                *seen.entry(kind).or_insert(0) += usize::from(patch.contains(kind));
            }
            let copy = tempfile::tempdir().unwrap();
            write(copy.path(), &before);
            let context = Context::for_directory(copy.path());
            let plan = apply_patch(&ApplyPatch { patch: patch.clone() }, &context).unwrap_or_else(
                |error| unreachable!("round {round}, git {arguments:?}: {error}\n{patch}"),
            );
            assert!(!plan.output.output.contains("recounted"), "{patch}");
            apply(copy.path(), plan.changes);
            let mut result = Tree::new();
            read(copy.path(), copy.path(), &mut result);
            let differing: Vec<&String> = result
                .keys()
                .chain(after.keys())
                .filter(|name| result.get(*name) != after.get(*name))
                .collect();
            assert!(
                differing.is_empty(),
                "round {round}, git {arguments:?}: {differing:?}\n{patch}"
            );
        }
    }
    assert!(seen.values().all(|count| *count > 5), "the random changes are too tame: {seen:?}");
}
