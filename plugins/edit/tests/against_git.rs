//! Applies patches that `git diff` wrote: random trees, random changes, many options.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use cofferdam_edit::patch::{ApplyPatch, apply_patch};
use cofferdam_sdk::Context;
use tempfile::TempDir;

/// An entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// The content of a file, and whether it is executable.
    File(Vec<u8>, bool),
    /// The target of a symbolic link.
    Link(String),
}

type Tree = BTreeMap<String, Entry>;

/// Adds an entry, and removes those that would be above or below it.
fn put(tree: &mut Tree, name: String, entry: Entry) {
    let is_below = |name: &str, above: &str| {
        name.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
    };
    tree.retain(|other, _| !is_below(other, &name) && !is_below(&name, other));
    tree.insert(name, entry);
}

/// Above this size, in bytes, git treats a file with mostly new content as a rewrite.
const MIN_REWRITE_BYTES: usize = 400;

/// Pseudorandom numbers, the same in every run (xorshift).
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
        // Some of the lines look like parts of a patch.
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
        let most = if self.chance(70) { 200 } else { 40 };
        let count = if self.chance(10) { 0 } else { 1 + self.below(most) };
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

    fn entry(&mut self) -> Entry {
        if self.chance(15) {
            return Entry::Link(self.name());
        }
        let lines = self.content();
        let content = self.encode(&lines);
        Entry::File(content, self.chance(30))
    }

    fn tree(&mut self) -> Tree {
        let mut tree = Tree::new();
        for _ in 0..3 + self.below(6) {
            let entry = self.entry();
            put(&mut tree, self.name(), entry);
        }
        tree
    }

    fn edit(&mut self, entry: &Entry) -> Entry {
        match entry {
            Entry::File(content, executable) => Entry::File(self.edit_text(content), *executable),
            Entry::Link(_) => Entry::Link(self.name()),
        }
    }

    /// Changes, adds and removes some lines of a file; may remove the newline at its end.
    fn edit_text(&mut self, content: &[u8]) -> Vec<u8> {
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

    /// Exchanges the contents of the large files, in most cases.
    fn exchange(&mut self, tree: &Tree) -> Tree {
        let mut exchanged = tree.clone();
        if self.chance(80) {
            let large = |entry: &Entry| matches!(entry, Entry::File(content, _) if content.len() > MIN_REWRITE_BYTES);
            let names: Vec<&String> =
                tree.iter().filter(|(_, entry)| large(entry)).map(|(name, _)| name).collect();
            for (old, new) in names.iter().zip(names.iter().cycle().skip(1)) {
                exchanged.insert((*new).clone(), tree[*old].clone());
            }
        }
        exchanged
    }

    fn change(&mut self, tree: &Tree) -> Tree {
        let mut changed = Tree::new();
        for (name, entry) in &self.exchange(tree) {
            let (mut name, mut entry) = (name.clone(), entry.clone());
            match self.below(11) {
                0 => continue,
                1 => {
                    if let Entry::File(_, executable) = &mut entry {
                        *executable = !*executable;
                    }
                }
                2 => name = self.name(),
                3 => {
                    name = self.name();
                    entry = self.edit(&entry);
                }
                4 => {
                    let copy = self.edit(&entry);
                    put(&mut changed, self.name(), copy);
                }
                5 => {}
                // An entry of a possibly different kind.
                6 => entry = self.entry(),
                // A file is replaced by a directory, or a directory by a file.
                7 => name = format!("{name}/{}", self.pick(&["below", "deep/below"])),
                8 => {
                    if let Some((directory, _)) = name.split_once('/') {
                        name = directory.to_owned();
                    }
                }
                _ => entry = self.edit(&entry),
            }
            put(&mut changed, name, entry);
        }
        for _ in 0..self.below(3) {
            let entry = self.entry();
            put(&mut changed, self.name(), entry);
        }
        changed
    }
}

#[expect(clippy::disallowed_methods, reason = "the program that the patches must come from")]
fn git(directory: &Path, arguments: &[&str]) -> Result<String, String> {
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
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(format!("git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn write(directory: &Path, tree: &Tree) {
    for (name, entry) in tree {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match entry {
            Entry::File(content, executable) => {
                fs::write(&path, content).unwrap();
                let mode = if *executable { 0o755 } else { 0o644 };
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            Entry::Link(target) => symlink(target, path).unwrap(),
        }
    }
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
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            read(root, &path, tree);
            continue;
        }
        let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        let entry = if kind.is_symlink() {
            Entry::Link(fs::read_link(&path).unwrap().to_str().unwrap().to_owned())
        } else {
            let mode = entry.metadata().unwrap().permissions().mode();
            Entry::File(fs::read(&path).unwrap(), mode & 0o111 != 0)
        };
        tree.insert(name, entry);
    }
}

const BREAK_REWRITES: &[&str] = &["diff", "--cached", "HEAD", "--break-rewrites", "-M"];

const OPTIONS: [&[&str]; 10] = [
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
    // Files with little in common become a new file, and the old content may be renamed.
    BREAK_REWRITES,
    // A mail with headers before and a signature after the patch.
    &["format-patch", "--stdout", "-M", "HEAD~1"],
];

/// Whether git itself would apply a patch. The patch is written into the repository for this.
fn git_accepts(repository: &Path, tree: &TempDir, patch: &str) -> bool {
    let file = repository.join(".git/patch");
    fs::write(&file, patch).unwrap();
    git(tree.path(), &["apply", "--check", file.to_str().unwrap()]).is_ok()
}

/// Whether a file is renamed to a path that another file is renamed from.
fn renames_take_names(patch: &str) -> bool {
    let names = |prefix| {
        patch.lines().filter_map(move |line| line.strip_prefix(prefix)).collect::<Vec<&str>>()
    };
    let given_up = names("rename from ");
    names("rename to ").iter().any(|name| given_up.contains(name))
}

/// Counts in `seen` which unusual parts a patch has.
fn count_unusual_parts(patch: &str, seen: &mut BTreeMap<&str, usize>) {
    for kind in [
        "new file mode 100755",
        "deleted file",
        "new file mode 120000",
        "deleted file mode 120000",
        " 120000\n--- ",
        "rename from",
        "copy from",
        "\nold mode",
        "\n\\ No",
        "\r\n",
        "\"a/",
    ] {
        *seen.entry(kind).or_insert(0) += usize::from(patch.contains(kind));
    }
    *seen.entry("a renamed file's name is taken").or_insert(0) +=
        usize::from(renames_take_names(patch));
}

/// Makes a repository whose commit is `before` and whose index is `after`.
fn repository(before: &Tree, after: &Tree) -> TempDir {
    let repository = tempfile::tempdir().unwrap();
    let root = repository.path();
    git(root, &["init", "--quiet"]).unwrap();
    write(root, before);
    git(root, &["add", "--all"]).unwrap();
    git(root, &["commit", "--quiet", "--allow-empty", "--message=before"]).unwrap();
    clear(root);
    write(root, after);
    git(root, &["add", "--all"]).unwrap();
    repository
}

/// Runs git with one of [`OPTIONS`]; returns the patch. `format-patch` needs a commit first.
fn patch_from(root: &Path, arguments: &[&str]) -> String {
    if arguments[0] == "format-patch" {
        let message = "--message=after\n\n- one\n+ two\n @@ three";
        git(root, &["commit", "--quiet", "--allow-empty", message]).unwrap();
    }
    git(root, arguments).unwrap()
}

/// Applies a patch to `before` and checks that the result is `after`. With `--break-rewrites`
/// the patch may be refused if git refuses it too.
fn check_applied(root: &Path, [before, after]: [&Tree; 2], arguments: &[&str], patch: &str) {
    let copy = tempfile::tempdir().unwrap();
    write(copy.path(), before);
    let context = Context::for_directory(copy.path());
    let answer = match apply_patch(&ApplyPatch { patch: patch.to_owned(), path: None }, &context) {
        Ok(answer) => answer,
        Err(error) if arguments == BREAK_REWRITES && !git_accepts(root, &copy, patch) => {
            assert!(error.message.ends_with("it exists already"), "{error}\n{patch}");
            return;
        }
        Err(error) => unreachable!("git {arguments:?}: {error}\n{patch}"),
    };
    assert!(!answer.output.contains("recounted"), "{patch}");
    let mut result = Tree::new();
    read(copy.path(), copy.path(), &mut result);
    let differing: Vec<&String> = result
        .keys()
        .chain(after.keys())
        .filter(|name| result.get(*name) != after.get(*name))
        .collect();
    assert!(differing.is_empty(), "git {arguments:?}: {differing:?}\n{patch}");
}

#[test]
fn patches_of_git_apply() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut seen = BTreeMap::new();
    for _ in 0..30 {
        let before = random.tree();
        let after = random.change(&before);
        let repository = repository(&before, &after);
        for arguments in OPTIONS {
            let patch = patch_from(repository.path(), arguments);
            if before != after {
                count_unusual_parts(&patch, &mut seen);
                check_applied(repository.path(), [&before, &after], arguments, &patch);
            }
        }
    }
    assert!(seen.values().all(|count| *count > 5), "the random changes are too tame: {seen:?}");
}
