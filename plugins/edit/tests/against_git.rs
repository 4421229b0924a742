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
/// and without context, the patch may be refused if git refuses it too.
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
        Err(error) if patch.contains("@@ -0,0 ") && !git_accepts(root, &copy, patch) => {
            assert!(
                error.message.contains("'-0,0' says that the file is empty"),
                "{error}\n{patch}"
            );
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

/// Some lines that occur once, with line ends, and their number.
fn numbered_lines(random: &mut Random, end: &str) -> Vec<String> {
    let count = 30 + random.below(60);
    (0..count).map(|number| format!("{number} {:x}{end}", random.below(1 << 30))).collect()
}

/// Changes, adds and removes a few lines that are at least `distance` lines apart.
fn changed_lines(random: &mut Random, lines: &[String], distance: usize) -> Vec<String> {
    let mut changed = Vec::new();
    let mut next = random.below(distance);
    for (index, line) in lines.iter().enumerate() {
        if index != next {
            changed.push(line.clone());
            continue;
        }
        next += distance + random.below(distance);
        match random.below(3) {
            0 => {}
            1 => changed.push(format!("changed {line}")),
            _ => changed.extend([line.clone(), format!("added {line}")]),
        }
    }
    changed
}

/// Makes a patch of `from` and `to` with git, with `context` lines of context.
fn diff(from: &str, to: &str, context: usize) -> String {
    let directory = tempfile::tempdir().unwrap();
    git(directory.path(), &["init", "--quiet"]).unwrap();
    fs::write(directory.path().join("x"), from).unwrap();
    git(directory.path(), &["add", "x"]).unwrap();
    fs::write(directory.path().join("x"), to).unwrap();
    git(directory.path(), &["diff", &format!("-U{context}")]).unwrap()
}

/// Applies a patch to a file with this tool, and with git; `None` where it is refused.
fn applied_by_both(file: &str, patch: &str) -> [Option<String>; 2] {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x");
    fs::write(&path, file).unwrap();
    let context = Context::for_directory(directory.path());
    let args = ApplyPatch { patch: patch.to_owned(), path: None };
    let own = apply_patch(&args, &context).ok().map(|_| fs::read_to_string(&path).unwrap());
    fs::write(&path, file).unwrap();
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("patch"), patch).unwrap();
    let name = place.path().join("patch");
    let by_git = git(directory.path(), &["apply", name.to_str().unwrap()]).ok();
    [own, by_git.map(|_| fs::read_to_string(&path).unwrap())]
}

#[test]
fn hunks_of_a_changed_file_apply_where_git_applies_them() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut hunks, mut moved, mut refused_by_git) = (0, 0, 0);
    for round in 0..40 {
        let end = if round % 3 == 0 { "\r\n" } else { "\n" };
        let original = numbered_lines(&mut random, end);
        let changed = changed_lines(&mut random, &original, 8);
        let patch = diff(&original.concat(), &changed.concat(), 3);
        // Lines before the hunks, and perhaps after them, that the patch does not know.
        let added: String = (0..random.below(9)).map(|n| format!("before {n}{end}")).collect();
        let after = if random.chance(50) { format!("after{end}") } else { String::new() };
        let around = |lines: &[String]| format!("{added}{}{after}", lines.concat());
        let [own, by_git] = applied_by_both(&around(&original), &patch);
        assert_eq!(own.unwrap(), around(&changed), "{patch}");
        // git requires that a hunk without context at its end is at the end of the file.
        match by_git {
            Some(by_git) => assert_eq!(by_git, around(&changed), "{patch}"),
            None => refused_by_git += 1,
        }
        hunks += patch.matches("\n@@ ").count();
        moved += usize::from(!added.is_empty());
    }
    assert!(hunks > 120 && moved > 25 && refused_by_git < 25, "{hunks} {moved} {refused_by_git}");
}

#[test]
fn repeated_lines_apply_as_with_git_or_are_refused() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut applied, mut refused) = (0, 0);
    for _ in 0..50 {
        let count = 20 + random.below(20);
        let original: Vec<String> =
            (0..count).map(|_| format!("{}\n", random.pick(&["", "}", "a"]))).collect();
        let changed = changed_lines(&mut random, &original, 7);
        let patch = diff(&original.concat(), &changed.concat(), 1 + random.below(3));
        if patch.is_empty() {
            continue;
        }
        let added: String = (0..random.below(3)).map(|n| format!("before {n}\n")).collect();
        let file = format!("{added}{}", original.concat());
        let wanted = format!("{added}{}", changed.concat());
        let [own, by_git] = applied_by_both(&file, &patch);
        match own {
            Some(own) => {
                applied += 1;
                // At its line number a hunk may fit by accident: there git applies it too.
                assert!(
                    own == wanted || by_git.is_none_or(|by_git| by_git == own),
                    "{patch}\n{file}"
                );
            }
            None => refused += 1,
        }
    }
    assert!(applied > 20 && refused > 10, "{applied} {refused}");
}

#[test]
fn patches_fit_files_with_other_line_ends() {
    let mut random = Random(0xda94_2042_e4dd_58b5);
    for _ in 0..20 {
        let original = numbered_lines(&mut random, "\n");
        let changed = changed_lines(&mut random, &original, 8);
        let (original, changed) = (original.concat(), changed.concat());
        let crlf = |text: &str| text.replace('\n', "\r\n");
        let patch = diff(&original, &changed, 3);
        let [own, _] = applied_by_both(&crlf(&original), &patch);
        assert_eq!(own.unwrap(), crlf(&changed), "{patch}");
        for patch in [crlf(&patch), diff(&crlf(&original), &crlf(&changed), 3)] {
            let [own, _] = applied_by_both(&original, &patch);
            assert_eq!(own.unwrap(), changed, "{patch}");
        }
    }
}

#[test]
fn no_patch_applies_twice() {
    let mut random = Random(0xbf58_476d_1ce4_e5b9);
    for _ in 0..30 {
        let original = numbered_lines(&mut random, "\n");
        let mut changed = changed_lines(&mut random, &original, 8);
        if random.chance(50) {
            changed.push("the end\n".to_owned());
        }
        let (context, changed) = (random.below(4), changed.concat());
        let patch = diff(&original.concat(), &changed, context.max(1));
        let [own, _] = applied_by_both(&changed, &patch);
        assert_eq!(own, None, "{patch}");
    }
}

/// Which of the two tools apply a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    ByBoth,
    ByNone,
    ByGit,
    Here,
}

/// A tree of files (`*` in front of the name: executable) and links (`@`).
fn tree_of(entries: &[(&str, &str)]) -> Tree {
    let entry = |(name, content): &(&str, &str)| match name.split_at_checked(1) {
        Some(("@", name)) => (name.to_owned(), Entry::Link((*content).to_owned())),
        Some(("*", name)) => (name.to_owned(), Entry::File(content.as_bytes().to_vec(), true)),
        _ => ((*name).to_owned(), Entry::File(content.as_bytes().to_vec(), false)),
    };
    entries.iter().map(entry).collect()
}

/// Applies a patch to a tree with this tool and with git. If both apply it, the trees have to be the
/// same; what is refused may change nothing.
fn compare_with_git(before: &Tree, options: &[&str], patch: &str) -> Applied {
    let [own, by_git] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let after = |place: &TempDir, applied: bool| {
        let mut after = Tree::new();
        read(place.path(), place.path(), &mut after);
        assert!(applied || after == *before, "{patch}");
        applied.then_some(after)
    };
    write(own.path(), before);
    let args = ApplyPatch { patch: patch.to_owned(), path: None };
    let applied = apply_patch(&args, &Context::for_directory(own.path())).is_ok();
    let own = after(&own, applied);
    write(by_git.path(), before);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("patch");
    fs::write(&file, patch).unwrap();
    let arguments = [&["apply"], options, &[file.to_str().unwrap()]].concat();
    let applied = git(by_git.path(), &arguments).is_ok();
    match (own, after(&by_git, applied)) {
        (Some(own), Some(by_git)) => {
            assert_eq!(own, by_git, "{patch}");
            Applied::ByBoth
        }
        (None, None) => Applied::ByNone,
        (None, Some(_)) => Applied::ByGit,
        (Some(_), None) => Applied::Here,
    }
}

#[test]
fn whole_files_change_as_with_git() {
    let before = tree_of(&[
        ("x", "a\n"),
        ("*run", "b\n"),
        ("d/only", "c\n"),
        ("@link", "x"),
        ("tab\there", "t\n"),
        ("empty", ""),
    ]);
    let hunk = "@@ -1 +1 @@\n-a\n+A\n";
    let link = "@@ -0,0 +1 @@\n+run\n\\ No newline at end of file\n";
    let gone = "deleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n";
    let git = "diff --git a/x b/x\n";
    let epoch = "1970-01-01 01:00:00.000000000 +0100";
    for (patch, wanted) in [
        (format!("{git}{gone}{git}new file mode 120000\n--- /dev/null\n+++ b/x\n{link}"), Applied::ByBoth),
        ("diff --git a/d/only b/d/only\ndeleted file mode 100644\n--- a/d/only\n+++ /dev/null\n@@ -1 +0,0 @@\n-c\n".to_owned(), Applied::ByBoth),
        ("diff --git a/x b/run\nrename from x\nrename to run\ndiff --git a/run b/x\nrename from run\nrename to x\n".to_owned(), Applied::ByBoth),
        (format!("diff --git a/x b/n/y\ncopy from x\ncopy to n/y\n--- a/x\n+++ b/n/y\n{hunk}"), Applied::ByBoth),
        (format!("{git}old mode 100660\nnew mode 100770\n"), Applied::ByBoth),
        (format!("--- x.orig\t2020-01-01 00:00:00 +0000\n+++ x\t{epoch}\n@@ -1 +0,0 @@\n-a\n"), Applied::ByBoth),
        (format!("--- a/x\t2020-01-01 00:00:00 +0000\n+++ b/x\t{epoch}\n@@ -1 +0,0 @@\n-a\n"), Applied::ByBoth),
        (format!("--- a/new\t{epoch}\n+++ b/new\t2020-01-01 00:00:00 +0000\n@@ -0,0 +1 @@\n+n\n"), Applied::ByBoth),
        ("diff --git \"a/tab\\there\" \"b/tab\\there\"\n--- \"a/tab\\there\"\n+++ \"b/tab\\there\"\n@@ -1 +1 @@\n-t\n+T\n".to_owned(), Applied::ByBoth),
        ("diff --git a/empty b/empty\ndeleted file mode 100644\n".to_owned(), Applied::ByBoth),
        // Refused by both.
        (format!("{git}new file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+n\n"), Applied::ByNone),
        ("--- a/link/y\n+++ b/link/y\n@@ -0,0 +1 @@\n+y\n".to_owned(), Applied::ByNone),
        ("--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+y\n".to_owned(), Applied::ByNone),
        ("diff --git a/.git/x b/.git/x\nnew file mode 100644\n--- /dev/null\n+++ b/.git/x\n@@ -0,0 +1 @@\n+y\n".to_owned(), Applied::ByNone),
        ("diff --git a/run b/run\ndeleted file mode 100755\n--- a/run\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-b\n-c\n".to_owned(), Applied::ByNone),
        // The differences that docs/patches.md lists.
        (format!("{git}rename from x\nrename to y\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n{hunk}"), Applied::ByGit),
        ("diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n+lost\n".to_owned(), Applied::ByGit),
        ("diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit 0123456789012345678901234567890123456789\n".to_owned(), Applied::ByGit),
    ] {
        assert_eq!(compare_with_git(&before, &[], &patch), wanted, "{patch}");
    }
    assert_eq!(compare_with_git(&before, &["--allow-empty"], ""), Applied::ByGit);
}

#[test]
fn hunks_apply_as_with_git_or_as_documented() {
    let zero: &[&str] = &["--unidiff-zero"];
    for (file, options, hunks, wanted) in [
        // The beginning, the end, and lines without a line end.
        ("a\nb\nc\n", &[][..], "@@ -1,2 +1,3 @@\n+x\n a\n b\n", Applied::ByBoth),
        ("a\nb\nc\n", &[], "@@ -2,2 +2,3 @@\n b\n c\n+x\n", Applied::ByBoth),
        (
            "a\nb",
            &[],
            "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
            Applied::ByBoth,
        ),
        ("a\n\nb\n", &[], "@@ -1,3 +1,3 @@\n a\n\n-b\n+B\n", Applied::ByBoth),
        ("a\nb\n", zero, "@@ -1,0 +2 @@\n+x\n", Applied::ByBoth),
        ("a\nb\nc\nd\n", &["--recount"], "@@ -2,9 +2,9 @@\n b\n-c\n+C\n d\n", Applied::ByBoth),
        ("a\nb\n", &[], "@@ -1,2 +1,2 @@\n a\n-c\n+C\n", Applied::ByNone),
        ("a\nB\nc\n", &[], "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", Applied::ByNone),
        ("a\n", &[], "@@ -0,0 +1 @@\n+x\n", Applied::ByNone),
        // The differences that docs/patches.md lists.
        ("a\n", zero, "@@ -0,0 +1 @@\n+x\n", Applied::ByGit),
        ("1\na\nb\na\nb\n", &[], "@@ -1,2 +1,3 @@\n a\n+x\n b\n", Applied::ByNone),
        ("1\n2\na\nb\nc\na\nb\nc\n", &[], "@@ -2,3 +2,3 @@\n a\n-b\n+B\n c\n", Applied::ByGit),
        ("0\na\nb\n", &[], "@@ -1,2 +1,2 @@\n-a\n+A\n b\n", Applied::Here),
        ("a\r\nb\r\n", &[], "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", Applied::Here),
        ("a\nb\n", &[], "@@ -1,5 +1,5 @@\n a\n-b\n+B\n", Applied::Here),
        ("a\nb\n", &[], "@@ ... @@\n a\n-b\n+B\n", Applied::Here),
    ] {
        let patch = format!("--- a/x\n+++ b/x\n{hunks}");
        assert_eq!(compare_with_git(&tree_of(&[("x", file)]), options, &patch), wanted, "{patch}");
    }
}
