//! Unified diffs as `git diff --find-renames` prints them. No I/O: the caller passes both
//! contents, finds the renames, orders the paths, and escapes control characters for a terminal.
//!
//! Source of the format: git-diff(1), "Generating patch text with -p". If there are several shortest
//! diffs, git may show a different one, since it also considers indentation.

use std::ops::Range;
use std::time::Instant;

use sha1::{Digest as _, Sha1};
use similar::{Algorithm, DiffOp, DiffTag, capture_diff_slices_deadline, group_diff_ops};

/// The number of unchanged lines around each change.
const CONTEXT_LINES: usize = 3;

/// A file with a NUL byte among its first bytes, up to this many, is binary, as for git.
const BINARY_PREFIX_BYTES: usize = 8_000;

/// Larger files are treated as binary: a diff would need too much memory.
pub(crate) const TEXT_LIMIT_BYTES: usize = 8 * 1024 * 1024;

/// The longest heading behind the line numbers of a hunk, in bytes.
const HEADING_BYTES: usize = 80;

/// The file at a path before or after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side<'a> {
    /// The path does not exist.
    Nothing,
    /// A regular file, with its content.
    File {
        /// Whether its owner may execute it.
        executable: bool,
        /// The content, in any encoding.
        content: &'a [u8],
    },
    /// A symbolic link, with its target.
    Link {
        /// The target path, which is not interpreted.
        target: &'a [u8],
    },
}

impl<'a> Side<'a> {
    fn mode(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::File { executable: false, .. } => Some("100644"),
            Self::File { executable: true, .. } => Some("100755"),
            Self::Link { .. } => Some("120000"),
        }
    }

    fn content(self) -> &'a [u8] {
        match self {
            Self::Nothing => &[],
            Self::File { content, .. } => content,
            Self::Link { target } => target,
        }
    }

    /// Returns git's abbreviated object id of the content (git-hash-object(1)).
    fn blob(self) -> String {
        if self == Self::Nothing {
            return "0".repeat(7);
        }
        let content = self.content();
        let hash = Sha1::new().chain_update(format!("blob {}\0", content.len()));
        let [first, second, third, fourth, ..]: [u8; 20] =
            hash.chain_update(content).finalize().into();
        format!("{:07x}", u32::from_be_bytes([first, second, third, fourth]) >> 4)
    }

    pub(crate) fn is_binary(self) -> bool {
        let content = self.content();
        content.len() > TEXT_LIMIT_BYTES
            || content[..content.len().min(BINARY_PREFIX_BYTES)].contains(&0)
    }
}

/// Appends the diff of one path to `out`; nothing if both sides are equal.
///
/// `path` is relative, with `/` between names. A file that becomes a link, or a link that becomes
/// a file, is shown as deleted and created. The content of a file that is binary or larger than 8
/// MiB is not shown; `git apply` refuses such a patch as a whole, and `patch` skips the file.
///
/// After `deadline`, the search for the shortest diff stops: more lines are shown as replaced, but
/// the diff is still correct. Callers pass one deadline for all paths, to bound the total time.
pub fn render(path: &str, before: Side<'_>, after: Side<'_>, deadline: Instant, out: &mut Vec<u8>) {
    use Side::{File, Link, Nothing};
    if before == after {
        return;
    }
    if let (File { .. }, Link { .. }) | (Link { .. }, File { .. }) = (before, after) {
        render(path, before, Nothing, deadline, out);
        render(path, Nothing, after, deadline, out);
        return;
    }

    let (old_name, new_name) = (quoted(format!("a/{path}")), quoted(format!("b/{path}")));
    put_line(out, &format!("diff --git {old_name} {new_name}"));
    match (before.mode(), after.mode()) {
        (None, Some(mode)) => put_line(out, &format!("new file mode {mode}")),
        (Some(mode), None) => put_line(out, &format!("deleted file mode {mode}")),
        (Some(old), Some(new)) if old != new => {
            put_line(out, &format!("old mode {old}\nnew mode {new}"));
        }
        _ => {}
    }
    put_content((&old_name, before), (&new_name, after), deadline, out);
}

/// Appends the diff of a file or link that was renamed. `similarity` is in percent.
pub fn render_rename(
    from: (&str, Side<'_>),
    to: (&str, Side<'_>),
    similarity: u64,
    deadline: Instant,
    out: &mut Vec<u8>,
) {
    let ((old, before), (new, after)) = (from, to);
    let (old_name, new_name) = (quoted(format!("a/{old}")), quoted(format!("b/{new}")));
    put_line(out, &format!("diff --git {old_name} {new_name}"));
    if let (Some(old), Some(new)) = (before.mode(), after.mode())
        && old != new
    {
        put_line(out, &format!("old mode {old}\nnew mode {new}"));
    }
    let (old, new) = (quoted(old.to_owned()), quoted(new.to_owned()));
    put_line(out, &format!("similarity index {similarity}%\nrename from {old}\nrename to {new}"));
    put_content((&old_name, before), (&new_name, after), deadline, out);
}

/// Appends the blobs and the hunks, if the contents differ or one does not exist.
fn put_content(
    (old_name, before): (&str, Side<'_>),
    (new_name, after): (&str, Side<'_>),
    deadline: Instant,
    out: &mut Vec<u8>,
) {
    let same_content = before.content() == after.content();
    if !same_content || before == Side::Nothing || after == Side::Nothing {
        let kept_mode = before.mode().filter(|mode| after.mode() == Some(mode));
        let kept_mode = kept_mode.map(|mode| format!(" {mode}")).unwrap_or_default();
        put_line(out, &format!("index {}..{}{kept_mode}", before.blob(), after.blob()));
    }
    if same_content {
        return;
    }

    let name_of = |side, name| if side == Side::Nothing { "/dev/null" } else { name };
    let (old_name, new_name) = (name_of(before, old_name), name_of(after, new_name));
    if before.is_binary() || after.is_binary() {
        put_line(out, &format!("Binary files {old_name} and {new_name} differ"));
        return;
    }
    put_names(old_name, new_name, out);
    put_hunks(&lines(before.content()), &lines(after.content()), deadline, out);
}

fn put_names(old: &str, new: &str, out: &mut Vec<u8>) {
    // A tab terminates a name with a space, since `patch` parses the rest of the line as a time.
    let end_of = |name: &str| if name.contains(' ') { "\t" } else { "" };
    put_line(out, &format!("--- {old}{}", end_of(old)));
    put_line(out, &format!("+++ {new}{}", end_of(new)));
}

/// Appends the first line of the diff of a file, which exists before and after the change.
pub(crate) fn put_first_line(path: &str, out: &mut Vec<u8>) {
    let (old, new) = (quoted(format!("a/{path}")), quoted(format!("b/{path}")));
    put_line(out, &format!("diff --git {old} {new}"));
}

/// Appends the lines with the names of such a file, which precede its hunks.
pub(crate) fn put_names_of(path: &str, out: &mut Vec<u8>) {
    put_names(&quoted(format!("a/{path}")), &quoted(format!("b/{path}")), out);
}

/// Splits into lines, with their ends. Only a line feed ends a line, not a carriage return.
pub(crate) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}

/// A group of changed lines with the unchanged ones around it.
pub(crate) struct Hunk {
    /// The lines of the old file, counted from 0.
    pub(crate) old: Range<usize>,
    /// The lines of the new file, counted from 0.
    pub(crate) new: Range<usize>,
    heading: String,
    operations: Vec<DiffOp>,
}

impl Hunk {
    /// Appends the hunk, with its header. `start` is the index of its first line in the new file,
    /// which differs from that of `new` if hunks before it are left out.
    pub(crate) fn put(&self, old: &[&[u8]], new: &[&[u8]], start: usize, out: &mut Vec<u8>) {
        let (from, to) = (range(self.old.start, self.old.len()), range(start, self.new.len()));
        put_line(out, &format!("@@ -{from} +{to} @@{}", self.heading));
        for operation in &self.operations {
            let (tag, old_range, new_range) = operation.as_tag_tuple();
            if tag == DiffTag::Equal {
                put_lines(out, b' ', &old[old_range]);
            } else {
                put_lines(out, b'-', &old[old_range]);
                put_lines(out, b'+', &new[new_range]);
            }
        }
    }
}

/// A range of lines in the header of a hunk; `start` is counted from 0.
pub(crate) fn range(start: usize, length: usize) -> String {
    match length {
        0 => format!("{start},0"),
        1 => (start + 1).to_string(),
        length => format!("{},{length}", start + 1),
    }
}

/// Returns the ranges of lines that differ.
pub(crate) fn edits(
    old: &[&[u8]],
    new: &[&[u8]],
    deadline: Instant,
) -> Vec<(Range<usize>, Range<usize>)> {
    let operations = capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline));
    let changed = operations.iter().filter(|operation| operation.tag() != DiffTag::Equal);
    changed.map(|operation| (operation.old_range(), operation.new_range())).collect()
}

/// Returns the hunks of two texts, in order.
pub(crate) fn hunks(old: &[&[u8]], new: &[&[u8]], deadline: Instant) -> Vec<Hunk> {
    let operations = capture_diff_slices_deadline(Algorithm::Myers, old, new, Some(deadline));
    let (mut heading, mut searched, mut hunks) = (String::new(), 0, Vec::new());
    for operations in group_diff_ops(operations, CONTEXT_LINES) {
        let (Some(first), Some(last)) = (operations.first(), operations.last()) else { continue };
        let (from, until) = (first.old_range().start, last.old_range().end);
        let new = first.new_range().start..last.new_range().end;
        if let Some(line) = old[searched..from].iter().rfind(|line| opens_section(line)) {
            heading = format!(" {}", heading_of(line));
        }
        searched = from;
        hunks.push(Hunk { old: from..until, new, heading: heading.clone(), operations });
    }
    hunks
}

fn put_hunks(old: &[&[u8]], new: &[&[u8]], deadline: Instant, out: &mut Vec<u8>) {
    for hunk in hunks(old, new, deadline) {
        hunk.put(old, new, hunk.new.start, out);
    }
}

/// Whether git considers a line the start of a section, such as a function.
fn opens_section(line: &[u8]) -> bool {
    matches!(line, [b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$', ..])
}

/// Returns the part of a line that git repeats in the header of a hunk below it.
fn heading_of(line: &[u8]) -> &str {
    let line = line[..line.len().min(HEADING_BYTES)].trim_ascii_end();
    line.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

fn put_line(out: &mut Vec<u8>, line: &str) {
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

fn put_lines(out: &mut Vec<u8>, mark: u8, lines: &[&[u8]]) {
    for line in lines {
        out.push(mark);
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            put_line(out, "\n\\ No newline at end of file");
        }
    }
}

/// Quotes a name as git does (git-config(1), `core.quotePath`): in double quotes and with escapes
/// as in C, if it contains a quote, a backslash, or a byte that is not printable ASCII.
fn quoted(name: String) -> String {
    let escaped: String = name.bytes().map(escape).collect();
    if escaped == name { name } else { format!("\"{escaped}\"") }
}

fn escape(byte: u8) -> String {
    match byte {
        0x07 => "\\a".to_owned(),
        0x08 => "\\b".to_owned(),
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        0x0b => "\\v".to_owned(),
        0x0c => "\\f".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\{byte:03o}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    #![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "tests")]
    use super::Side::{File, Link, Nothing};
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::Path;
    use std::process::Command;
    use std::time::Duration;

    fn text(content: &str) -> Side<'_> {
        File { executable: false, content: content.as_bytes() }
    }

    fn in_time() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn rendered(path: &str, before: Side<'_>, after: Side<'_>) -> String {
        let mut out = Vec::new();
        render(path, before, after, in_time(), &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Checks the difference of a file that is called `f`, without its first line.
    fn check_headers(before: Side<'_>, after: Side<'_>, wanted: &str) {
        let header = if wanted.is_empty() { "" } else { "diff --git a/f b/f\n" };
        assert_eq!(rendered("f", before, after), format!("{header}{wanted}"), "{after:?}");
    }

    #[test]
    fn each_kind_of_change_has_the_header_lines_of_git() {
        let run = File { executable: true, content: b"a\n" };
        let link = Link { target: b"a" };
        for (before, after, wanted) in [
            (Nothing, Nothing, ""),
            (text("a"), text("a"), ""),
            (link, link, ""),
            (Nothing, text(""), "new file mode 100644\nindex 0000000..e69de29\n"),
            (text(""), Nothing, "deleted file mode 100644\nindex e69de29..0000000\n"),
            (
                Nothing,
                run,
                "new file mode 100755\nindex 0000000..7898192\n--- /dev/null\n+++ b/f\n\
                 @@ -0,0 +1 @@\n+a\n",
            ),
            (
                text("a\n"),
                Nothing,
                "deleted file mode 100644\nindex 7898192..0000000\n--- a/f\n+++ /dev/null\n\
                 @@ -1 +0,0 @@\n-a\n",
            ),
            (text("a\n"), run, "old mode 100644\nnew mode 100755\n"),
            (
                run,
                text("b\n"),
                "old mode 100755\nnew mode 100644\nindex 7898192..6178079\n--- a/f\n+++ b/f\n\
                 @@ -1 +1 @@\n-a\n+b\n",
            ),
            (
                text(""),
                text("a\n"),
                "index e69de29..7898192 100644\n--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n",
            ),
            (
                Nothing,
                link,
                "new file mode 120000\nindex 0000000..2e65efe\n--- /dev/null\n+++ b/f\n\
                 @@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n",
            ),
            (
                text("a\n"),
                link,
                "deleted file mode 100644\nindex 7898192..0000000\n--- a/f\n+++ /dev/null\n\
                 @@ -1 +0,0 @@\n-a\n\
                 diff --git a/f b/f\nnew file mode 120000\nindex 0000000..2e65efe\n\
                 --- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n\\ No newline at end of file\n",
            ),
        ] {
            check_headers(before, after, wanted);
        }
    }

    #[test]
    fn binary_and_large_files_have_no_lines() {
        let large = vec![b'\n'; TEXT_LIMIT_BYTES + 1];
        for (before, after, wanted) in [
            (
                text("\0"),
                text("a"),
                "index f76dd23..2e65efe 100644\nBinary files a/f and b/f differ\n",
            ),
            (
                Nothing,
                text("\0"),
                "new file mode 100644\nindex 0000000..f76dd23\n\
                 Binary files /dev/null and b/f differ\n",
            ),
            (
                File { executable: false, content: &large },
                Nothing,
                "deleted file mode 100644\nindex 4489902..0000000\n\
                 Binary files a/f and /dev/null differ\n",
            ),
        ] {
            check_headers(before, after, wanted);
        }
    }

    #[test]
    fn lines_end_with_a_line_feed_only() {
        for (before, after, wanted) in [
            ("a\r\nb", "a\nb", "-a\r\n+a\n b\n\\ No newline at end of file\n"),
            (
                "a\rb",
                "a\rc",
                "-a\rb\n\\ No newline at end of file\n+a\rc\n\\ No newline at end of file\n",
            ),
            ("a\r", "a\r\n", "-a\r\n\\ No newline at end of file\n+a\r\n"),
            ("a", "a\n", "-a\n\\ No newline at end of file\n+a\n"),
            ("\u{feff}a\n", "a\n", "-\u{feff}a\n+a\n"),
            ("a\u{2028}b\u{85}", "", "-a\u{2028}b\u{85}\n\\ No newline at end of file\n"),
        ] {
            let found = rendered("f", text(before), text(after));
            assert_eq!(found.split_once(" @@\n").unwrap().1, wanted, "{before:?} {after:?}");
        }
    }

    #[test]
    fn a_hunk_has_three_lines_of_context_and_a_heading() {
        let numbers = |changed: &[usize]| -> String {
            let line = |number| match number {
                2 => "fn two()  \n".to_owned(),
                number if changed.contains(&number) => format!("changed {number}\n"),
                number => format!("{number}\n"),
            };
            (1..=20).map(line).collect()
        };
        let before = numbers(&[]);
        for (changed, wanted) in [
            (&[1][..], &["@@ -1,4 +1,4 @@"][..]),
            (&[5], &["@@ -2,7 +2,7 @@"]),
            (&[6], &["@@ -3,7 +3,7 @@ fn two()"]),
            (&[20], &["@@ -17,4 +17,4 @@ fn two()"]),
            (&[6, 13], &["@@ -3,14 +3,14 @@ fn two()"]),
            (&[6, 14], &["@@ -3,7 +3,7 @@ fn two()", "@@ -11,7 +11,7 @@ fn two()"]),
        ] {
            let found = rendered("f", text(&before), text(&numbers(changed)));
            let headers: Vec<&str> = found.lines().filter(|line| line.starts_with("@@")).collect();
            assert_eq!(headers, wanted, "{changed:?}");
        }
    }

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        for (name, wanted) in [
            ("a b/'c'", "a/a b/'c' b/a b/'c'"),
            ("é", r#""a/\303\251" "b/\303\251""#),
            ("\"\\", r#""a/\"\\" "b/\"\\""#),
            ("\u{1}\u{7f}", r#""a/\001\177" "b/\001\177""#),
            ("\u{7}\u{8}\t\n\u{b}\u{c}\r", r#""a/\a\b\t\n\v\f\r" "b/\a\b\t\n\v\f\r""#),
        ] {
            let found = rendered(name, text("a\n"), text("b\n"));
            let header = found.lines().next().unwrap();
            assert_eq!(header, format!("diff --git {wanted}"), "{name:?}");
        }
    }

    #[test]
    fn hostile_contents_end_soon_after_the_deadline() {
        let mut random = Random(7);
        let mut lines =
            || -> String { (0..400_000).map(|_| random.pick(&["a\n", "b\n"])).collect() };
        let (before, after) = (lines(), lines());
        let started = Instant::now();
        let deadline = started + Duration::from_millis(100);
        render("f", text(&before), text(&after), deadline, &mut Vec::new());
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }

    #[test]
    fn git_applies_what_is_rendered() {
        for seed in 1..=60 {
            let mut random = Random(seed);
            let before =
                random.tree(&["a", "b", "", "\r", " x", "-- a/f", "++ b/f", "@@ -1 +1 @@"]);
            let after = random.changed(&before);
            // The diff is correct even if the search was stopped at once.
            let deadline = if seed % 3 == 0 { Instant::now() } else { in_time() };
            let patch = patch(&before, &after, deadline);

            let directory = tempfile::tempdir().unwrap();
            write(&before, directory.path());
            assert!(applies(directory.path(), &patch), "seed {seed}");
            assert_eq!(read(directory.path()), after, "seed {seed}");
        }
    }

    #[test]
    fn git_refuses_a_patch_with_a_binary_change() {
        let file = |content: &[u8]| TestFile::File(false, content.to_vec());
        let tree = |entries: &[(&str, &[u8])]| -> DiffTree {
            entries.iter().map(|(name, content)| ((*name).to_owned(), file(content))).collect()
        };
        let before = tree(&[("a", b"a\n"), ("b", b"\0")]);
        for after in [
            tree(&[("a", b"a\n"), ("b", b"\0\0")]),
            tree(&[("a", b"changed\n"), ("b", b"\0\0")]),
            tree(&[("a", b"changed\n"), ("b", b"text\n")]),
            tree(&[("a", b"changed\n")]),
            tree(&[("a", b"changed\n"), ("b", b"\0"), ("c", b"\0")]),
        ] {
            let directory = tempfile::tempdir().unwrap();
            write(&before, directory.path());
            assert!(!applies(directory.path(), &patch(&before, &after, in_time())), "{after:?}");
            assert_eq!(read(directory.path()), before, "{after:?}");
        }
    }

    #[test]
    fn git_renders_the_same_if_lines_are_unique() {
        for seed in 1..=40 {
            let mut random = Random(seed);
            let mut before = random.tree(&[]);
            let mut after = random.changed(&before);
            let binary = |content: &[u8]| TestFile::File(false, content.to_vec());
            before.insert("binary".to_owned(), binary(b"a\0b"));
            after.insert("binary".to_owned(), binary(b"a\0c"));
            after.insert("new binary".to_owned(), binary(b"\0"));

            let directory = tempfile::tempdir().unwrap();
            let root = directory.path();
            done(git(root).args(["init", "--quiet"]));
            let [old_tree, new_tree] = [&before, &after].map(|tree| {
                done(git(root).args(["rm", "-r", "--quiet", "--force", "--ignore-unmatch", "."]));
                write(tree, root);
                done(git(root).args(["add", "--all"]));
                done(git(root).arg("write-tree")).trim().to_owned()
            });
            let wanted = done(git(root).args(["diff", "--no-renames", &old_tree, &new_tree]));
            let found = patch(&before, &after, in_time());
            assert_eq!(String::from_utf8_lossy(&found), wanted, "seed {seed}");
        }
    }

    /// A file of the tests; `File` contains whether it is executable.
    #[derive(Debug, Clone, PartialEq, Eq)]
    enum TestFile {
        File(bool, Vec<u8>),
        Link(Vec<u8>),
    }

    type DiffTree = BTreeMap<String, TestFile>;

    fn side(entry: Option<&TestFile>) -> Side<'_> {
        match entry {
            None => Nothing,
            Some(TestFile::File(executable, content)) => File { executable: *executable, content },
            Some(TestFile::Link(target)) => Link { target },
        }
    }

    fn patch(before: &DiffTree, after: &DiffTree, deadline: Instant) -> Vec<u8> {
        let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        let mut out = Vec::new();
        for path in paths {
            render(path, side(before.get(path)), side(after.get(path)), deadline, &mut out);
        }
        out
    }

    fn write(tree: &DiffTree, root: &Path) {
        for (name, entry) in tree {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match entry {
                TestFile::File(executable, content) => {
                    fs::write(&path, content).unwrap();
                    let mode = if *executable { 0o755 } else { 0o644 };
                    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
                }
                TestFile::Link(target) => {
                    symlink(std::ffi::OsStr::from_bytes(target), &path).unwrap();
                }
            }
        }
    }

    fn read(root: &Path) -> DiffTree {
        let mut tree = DiffTree::new();
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            for found in fs::read_dir(directory).unwrap() {
                let path = found.unwrap().path();
                let metadata = fs::symlink_metadata(&path).unwrap();
                let entry = if metadata.is_dir() {
                    directories.push(path);
                    continue;
                } else if metadata.is_symlink() {
                    TestFile::Link(fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec())
                } else {
                    let executable = metadata.permissions().mode() & 0o100 != 0;
                    TestFile::File(executable, fs::read(&path).unwrap())
                };
                tree.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), entry);
            }
        }
        tree
    }

    /// Git in `directory`, without settings and without a repository above.
    fn git(directory: &Path) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(directory)
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .env("GIT_CEILING_DIRECTORIES", directory.parent().unwrap())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1");
        command
    }

    /// Returns the output of a command that must succeed.
    fn done(command: &mut Command) -> String {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Applies a patch to the files of `directory`; returns whether git accepted it.
    fn applies(directory: &Path, patch: &[u8]) -> bool {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), patch).unwrap();
        let mut command = git(directory);
        command.args(["apply", "--whitespace=nowarn"]).arg(file.path());
        command.output().unwrap().status.success()
    }

    /// Reproducible pseudo-random numbers (xorshift).
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        pub(crate) fn below(&mut self, bound: usize) -> usize {
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

        /// Returns one of `common`, or a unique line.
        fn line(&mut self, common: &[&str]) -> Vec<u8> {
            let end = self.pick(&["\n", "\n", "\n", "\r\n"]);
            if !common.is_empty() && self.chance(80) {
                return format!("{}{end}", self.pick(common)).into_bytes();
            }
            let long = format!("section {}", "ö".repeat(self.below(80)));
            let start: &[u8] = match self.below(6) {
                0 => b"fn ",
                4 => long.as_bytes(),
                1 => "\u{feff}ä ".as_bytes(),
                2 => b"latin \xe9 \x80 ",
                3 => b"\t\x1b[1m",
                _ => b"",
            };
            [start, format!("{:x}{end}", self.0).as_bytes()].concat()
        }

        fn entry(&mut self, common: &[&str]) -> TestFile {
            if self.chance(15) {
                return TestFile::Link(format!("to/{}", self.below(1000)).into_bytes());
            }
            let count = if self.chance(15) { 0 } else { self.below(60) };
            let mut content: Vec<u8> = (0..count).flat_map(|_| self.line(common)).collect();
            if self.chance(25) {
                content.pop();
            }
            TestFile::File(self.chance(30), content)
        }

        fn tree(&mut self, common: &[&str]) -> DiffTree {
            let names =
                ["x", "with blank", "d/déjà", "d/tab\there", "d/e/quote\"", "b\\s", "日本/f"];
            (0..20)
                .map(|number| (format!("{}{number}", self.pick(&names)), self.entry(common)))
                .collect()
        }

        /// Returns `tree` after changes of all kinds.
        fn changed(&mut self, tree: &DiffTree) -> DiffTree {
            let mut after = DiffTree::new();
            for (name, entry) in tree {
                let entry = match self.below(8) {
                    0 => continue,
                    1 => self.entry(&["a", "b"]),
                    2 => entry.clone(),
                    _ => self.edited(entry),
                };
                after.insert(name.clone(), entry);
            }
            after.insert("new/\u{7f}file".to_owned(), self.entry(&[]));
            after
        }

        fn edited(&mut self, entry: &TestFile) -> TestFile {
            let TestFile::File(executable, content) = entry else {
                return TestFile::Link(format!("other/{}", self.below(1000)).into_bytes());
            };
            let mut after = Vec::new();
            for line in lines(content) {
                match self.below(20) {
                    0 => {}
                    1 => after.extend(self.line(&[])),
                    2 => after.extend([self.line(&[]), line.to_vec()].concat()),
                    _ => after.extend_from_slice(line),
                }
            }
            TestFile::File(*executable != self.chance(20), after)
        }
    }
}
