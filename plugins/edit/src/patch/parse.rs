//! Parses a patch: files and their headers.
//!
//! Other text before, between and after the files (mail headers, signatures) is skipped, but a line
//! that may be a misplaced change is an error.

use super::cursor::Cursor;
use super::name::{self, Mark};
use super::{FilePatch, Hunk, Kind, Operation, Patch, PatchError, Side, codex, hunk};

/// Parses a patch: any number of files, each with or without git's headers; or only hunks without a
/// file header.
///
/// The time is linear in the length of the patch.
///
/// # Errors
/// [`PatchError::Malformed`] for the first line that breaks the format; [`PatchError::Unsupported`]
/// for a change that is not of text.
pub fn parse(patch: &[u8]) -> Result<Patch<'_>, PatchError> {
    let mut cursor = Cursor::new(patch);
    let mut files: Vec<FilePatch> = Vec::new();
    // Whether arbitrary text may follow, as before the first file.
    let mut prose = true;
    while let Some(line) = cursor.header() {
        if cursor.at(codex::BEGIN) {
            files.append(&mut codex::parse(&mut cursor)?);
            prose = true;
        } else if cursor.at("diff --git ") {
            files.push(git_file(&mut cursor)?);
            prose = false;
        } else if cursor.at_marks() {
            files.push(plain_file(&mut cursor)?);
            prose = false;
        } else if cursor.at("@@") {
            if !files.is_empty() {
                return Err(cursor.expected("'diff --git' or '--- ' before more hunks"));
            }
            files.push(unnamed_file(&mut cursor)?);
            prose = false;
        } else if let Some(problem) = unsupported(line) {
            let file = String::from_utf8_lossy(line).into_owned();
            return Err(PatchError::Unsupported {
                line: cursor.number(),
                file,
                problem: problem.to_owned(),
            });
        } else if !prose && !cursor.at_signature() && matches!(line, [b'+' | b'-' | b'\\', ..]) {
            return Err(cursor.expected("a file header or a hunk header before more changed lines"));
        } else {
            prose |= cursor.at_signature() || cursor.at("From ");
            cursor.advance();
        }
    }
    if files.is_empty() {
        cursor.back_to(1);
        return Err(
            cursor.expected("'diff --git', '--- ' and '+++ ', or '@@ -' somewhere in the patch")
        );
    }
    Ok(Patch { files })
}

/// The reason why a line outside of hunks is a change that is not supported.
fn unsupported(line: &[u8]) -> Option<&'static str> {
    let is_binary = line.starts_with(b"Binary files ") && line.ends_with(b" differ");
    [
        (is_binary, BINARY),
        (
            line.starts_with(b"diff --cc ") || line.starts_with(b"diff --combined "),
            "a combined diff (of a merge)",
        ),
        (line == b"***************", "a context diff; only unified diffs are applied"),
    ]
    .into_iter()
    .find_map(|(is, problem)| is.then_some(problem))
}

const BINARY: &str = "a binary file; only changes of text are applied";

/// Parses hunks without a file header.
fn unnamed_file<'a>(cursor: &mut Cursor<'a>) -> Result<FilePatch<'a>, PatchError> {
    let line = cursor.number();
    Ok(plain(line, Operation::Unnamed, hunk::parse_all(cursor)?))
}

fn plain(line: usize, operation: Operation, hunks: Vec<Hunk>) -> FilePatch {
    FilePatch { line, operation, kind: None, executable: None, any_content: false, hunks }
}

/// Parses a file that begins with `---` and `+++`, without `diff --git`.
fn plain_file<'a>(cursor: &mut Cursor<'a>) -> Result<FilePatch<'a>, PatchError> {
    let line = cursor.number();
    let (old, new) = marks(cursor)?;
    let hunks = hunk::parse_all(cursor)?;
    if hunks.is_empty() {
        return Err(cursor.expected("a hunk ('@@ -') after the file header"));
    }
    let is_empty =
        |side: Side| hunks.iter().all(|hunk| hunk.lines.iter().all(|line| line.side == side));
    let operation = match (old, new) {
        (
            Mark::Name { name: old, is_epoch: created },
            Mark::Name { name: new, is_epoch: deleted },
        ) => match name::common(&old, &new) {
            Some(name) if deleted && is_empty(Side::Old) => Operation::Delete(name.to_owned()),
            Some(name) if created && is_empty(Side::New) => Operation::Create(name.to_owned()),
            Some(name) => Operation::Modify(name.to_owned()),
            None => Operation::Different { old, new },
        },
        (Mark::Absent, Mark::Name { name, .. }) => {
            Operation::Create(name.strip_prefix("b/").unwrap_or(&name).to_owned())
        }
        (Mark::Name { name, .. }, Mark::Absent) => {
            Operation::Delete(name.strip_prefix("a/").unwrap_or(&name).to_owned())
        }
        (Mark::Absent, Mark::Absent) => return Err(both_absent(line)),
    };
    Ok(plain(line, operation, hunks))
}

/// Parses a file that begins with `diff --git`.
fn git_file<'a>(cursor: &mut Cursor<'a>) -> Result<FilePatch<'a>, PatchError> {
    let line = cursor.number();
    let names = cursor.after("diff --git ").unwrap_or_default();
    let mut header =
        GitHeader { line, names, common: name::common_in_git_line(names), ..GitHeader::default() };
    cursor.advance();
    while header.take(cursor)? {
        cursor.advance();
    }
    if cursor.at("GIT binary patch") || cursor.header().and_then(unsupported) == Some(BINARY) {
        return Err(header.unsupported(cursor.number(), BINARY));
    }
    let marks = if cursor.at("--- ") { Some(marks(cursor)?) } else { None };
    let hunks = hunk::parse_all(cursor)?;
    if hunks.is_empty() && marks.is_some() {
        return Err(cursor.expected("a hunk ('@@ -') after the file header"));
    }
    if !hunks.is_empty() && marks.is_none() {
        return Err(PatchError::Malformed {
            line: hunks[0].line,
            problem: "expected '--- ' and '+++ ' before the hunk".to_owned(),
        });
    }
    let operation = header.operation(marks)?;
    let executable = match operation {
        _ if header.kind == Some(Kind::Link) => None,
        _ => header.new_mode,
    };
    if matches!(operation, Operation::Modify(_)) && hunks.is_empty() && executable.is_none() {
        return Err(header.malformed("expected a change of the file's content, name or mode"));
    }
    Ok(FilePatch { line, operation, kind: header.kind, executable, any_content: false, hunks })
}

/// The header lines from `diff --git` to `---`.
#[derive(Default)]
struct GitHeader<'a> {
    line: usize,
    /// The text after `diff --git`.
    names: &'a [u8],
    /// The name in `names`, if both sides have the same.
    common: Option<String>,
    /// The kind of file in all modes.
    kind: Option<Kind>,
    /// Whether the file is executable after the patch; `None` if the mode is not changed or set.
    new_mode: Option<bool>,
    creates: bool,
    deletes: bool,
    rename_from: Option<String>,
    rename_to: Option<String>,
    copy_from: Option<String>,
    copy_to: Option<String>,
}

impl GitHeader<'_> {
    /// Parses the next line; returns `false` if it is not a header line.
    fn take(&mut self, cursor: &Cursor) -> Result<bool, PatchError> {
        if let Some(mode) = cursor.after("old mode ") {
            self.mode(cursor, mode)?;
        } else if let Some(mode) = cursor.after("new mode ") {
            self.new_mode = Some(self.mode(cursor, mode)?);
        } else if let Some(mode) = cursor.after("new file mode ") {
            self.new_mode = Some(self.mode(cursor, mode)?);
            self.creates = true;
        } else if let Some(mode) = cursor.after("deleted file mode ") {
            self.mode(cursor, mode)?;
            self.deletes = true;
        } else if let Some(index) = cursor.after("index ") {
            if let Some(blank) = index.iter().position(|byte| *byte == b' ') {
                self.mode(cursor, &index[blank + 1..])?;
            }
        } else if let Some(from) = cursor.after("rename from ") {
            self.rename_from = Some(whole(cursor, from)?);
        } else if let Some(to) = cursor.after("rename to ") {
            self.rename_to = Some(whole(cursor, to)?);
        } else if let Some(from) = cursor.after("copy from ") {
            self.copy_from = Some(whole(cursor, from)?);
        } else if let Some(to) = cursor.after("copy to ") {
            self.copy_to = Some(whole(cursor, to)?);
        } else {
            return Ok(cursor.at("similarity index ") || cursor.at("dissimilarity index "));
        }
        Ok(true)
    }

    /// Parses a mode; returns whether it is that of an executable file.
    fn mode(&mut self, cursor: &Cursor, mode: &[u8]) -> Result<bool, PatchError> {
        let digits = std::str::from_utf8(mode).ok();
        let bits = digits.and_then(|digits| u32::from_str_radix(digits, 8).ok());
        // Of the permissions, git keeps only whether the user may execute the file.
        let kind = match bits.map(|bits| bits & 0o770_000) {
            Some(0o100_000) => Kind::File,
            Some(0o120_000) => Kind::Link,
            Some(0o160_000) => {
                return Err(self.unsupported(
                    cursor.number(),
                    "a submodule; only files and symbolic links are changed",
                ));
            }
            _ => return Err(cursor.expected("a mode such as 100644, 100755 or 120000")),
        };
        if *self.kind.get_or_insert(kind) != kind {
            return Err(cursor.expected(
                "the mode of the same kind of file; git deletes a file and creates a link",
            ));
        }
        Ok(bits.is_some_and(|bits| bits & 0o100 != 0))
    }

    fn operation(&mut self, marks: Option<(Mark, Mark)>) -> Result<Operation, PatchError> {
        let moves = [&self.rename_from, &self.rename_to, &self.copy_from, &self.copy_to];
        if moves.into_iter().any(Option::is_some) {
            return self.renamed_or_copied(marks);
        }
        let (old, new) = match marks {
            Some((Mark::Absent, Mark::Absent)) => return Err(both_absent(self.line)),
            Some((Mark::Name { name: old, .. }, Mark::Name { name: new, .. })) => {
                (Some(old), Some(new))
            }
            Some((Mark::Name { name, .. }, Mark::Absent)) => (Some(name), None),
            Some((Mark::Absent, Mark::Name { name, .. })) => (None, Some(name)),
            None if self.creates => (None, self.common.clone()),
            None if self.deletes => (self.common.clone(), None),
            None => (self.common.clone(), self.common.clone()),
        };
        let (creates, deletes) = (old.is_none(), new.is_none());
        if (self.creates && !creates) || (self.deletes && !deletes) {
            let what = if self.creates { "new" } else { "deleted" };
            return Err(
                self.malformed(format!("expected /dev/null beside the name of a {what} file"))
            );
        }
        let name = match (&self.common, &old, &new) {
            (Some(common), ..) => {
                if [&old, &new].into_iter().flatten().any(|mark| !name::is(mark, common)) {
                    return Err(self
                        .malformed(format!("expected the name {common:?} in '--- ' and '+++ '")));
                }
                Some(common.as_str())
            }
            (None, Some(old), Some(new)) => name::common(old, new),
            (None, Some(old), None) => Some(old.strip_prefix("a/").unwrap_or(old)),
            (None, None, Some(new)) => Some(new.strip_prefix("b/").unwrap_or(new)),
            (None, None, None) => None,
        };
        let Some(name) = name.map(str::to_owned) else {
            return Err(self
                .malformed("expected the same file name twice, or 'rename from' and 'rename to'"));
        };
        Ok(if creates {
            Operation::Create(name)
        } else if deletes {
            Operation::Delete(name)
        } else {
            Operation::Modify(name)
        })
    }

    fn renamed_or_copied(&mut self, marks: Option<(Mark, Mark)>) -> Result<Operation, PatchError> {
        let taken = (
            self.rename_from.take(),
            self.rename_to.take(),
            self.copy_from.take(),
            self.copy_to.take(),
        );
        let (from, to, copies) = match taken {
            (Some(from), Some(to), None, None) => (from, to, false),
            (None, None, Some(from), Some(to)) => (from, to, true),
            _ => {
                return Err(self.malformed(
                    "expected 'rename from' and 'rename to', or 'copy from' and 'copy to'",
                ));
            }
        };
        if self.creates || self.deletes {
            return Err(self.malformed(
                "expected a file that is renamed or copied to be neither new nor deleted",
            ));
        }
        if let Some((old, new)) = marks {
            let is = |mark: Mark, wanted: &str| matches!(mark, Mark::Name { name, .. } if name::is(&name, wanted));
            if !is(old, &from) || !is(new, &to) {
                return Err(self.malformed(format!(
                    "expected the names {from:?} and {to:?} in '--- ' and '+++ '"
                )));
            }
        }
        Ok(if copies { Operation::Copy { from, to } } else { Operation::Rename { from, to } })
    }

    fn malformed(&self, problem: impl Into<String>) -> PatchError {
        PatchError::Malformed { line: self.line, problem: problem.into() }
    }

    fn unsupported(&self, line: usize, problem: &str) -> PatchError {
        let file = match (&self.common, &self.rename_to, &self.copy_to) {
            (Some(name), ..) | (_, Some(name), _) | (.., Some(name)) => name.clone(),
            (None, None, None) => String::from_utf8_lossy(self.names).into_owned(),
        };
        PatchError::Unsupported { line, file, problem: problem.to_owned() }
    }
}

/// Reads the `---` and `+++` lines.
fn marks(cursor: &mut Cursor) -> Result<(Mark, Mark), PatchError> {
    Ok((mark(cursor, "--- ")?, mark(cursor, "+++ ")?))
}

fn mark(cursor: &mut Cursor, prefix: &str) -> Result<Mark, PatchError> {
    let text = cursor.after(prefix).ok_or_else(|| cursor.expected(format!("'{prefix}'")))?;
    let mark = name::mark(text).map_err(|problem| malformed_name(cursor, problem))?;
    cursor.advance();
    Ok(mark)
}

fn whole(cursor: &Cursor, text: &[u8]) -> Result<String, PatchError> {
    name::whole(text).map_err(|problem| malformed_name(cursor, problem))
}

fn malformed_name(cursor: &Cursor, problem: String) -> PatchError {
    PatchError::Malformed { line: cursor.number(), problem }
}

fn both_absent(line: usize) -> PatchError {
    PatchError::Malformed {
        line,
        problem: "expected a file name, found /dev/null on both sides".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const HUNK: &str = "@@ -1 +1 @@\n-a\n+b\n";

    /// The files of a patch, each with its operation, new mode and number of hunks.
    fn read(text: &str) -> Vec<(Operation, Option<bool>, usize)> {
        let patch = parse(text.as_bytes()).unwrap_or_else(|error| unreachable!("{error}\n{text}"));
        patch
            .files
            .into_iter()
            .map(|file| (file.operation, file.executable, file.hunks.len()))
            .collect()
    }

    fn modify(name: &str) -> Operation {
        Operation::Modify(name.to_owned())
    }

    fn create(name: &str) -> Operation {
        Operation::Create(name.to_owned())
    }

    fn delete(name: &str) -> Operation {
        Operation::Delete(name.to_owned())
    }

    fn rename(from: &str, to: &str) -> Operation {
        Operation::Rename { from: from.to_owned(), to: to.to_owned() }
    }

    fn copy(from: &str, to: &str) -> Operation {
        Operation::Copy { from: from.to_owned(), to: to.to_owned() }
    }

    /// Checks the parsed operation of a header followed by one hunk, with LF and with CRLF.
    fn check_with_hunk(header: &str, operation: &Operation, executable: Option<bool>) {
        let text = format!("{header}{HUNK}");
        for text in [text.replace('\n', "\r\n"), text] {
            assert_eq!(read(&text), [(operation.clone(), executable, 1)], "{text}");
        }
    }

    #[test]
    fn headers_with_or_without_git_give_the_operation() {
        for (header, operation, executable) in [
            ("", Operation::Unnamed, None),
            ("--- a/x y\n+++ b/x y\n", modify("x y"), None),
            ("--- x\t2024-01-01\n+++ x\t2024-01-02\n", modify("x"), None),
            ("--- a/x\n+++ a/x\n", modify("a/x"), None),
            ("--- old/x\n+++ new/x\n", modify("x"), None),
            ("--- d/x.orig\t2024-01-01\n+++ d/x\n", modify("d/x"), None),
            (
                "--- a/x\n+++ b/y\n",
                Operation::Different { old: "a/x".to_owned(), new: "b/y".to_owned() },
                None,
            ),
            ("--- /dev/null\n+++ b/x\n", create("x"), None),
            ("--- a/x\n+++ /dev/null\n", delete("x"), None),
            ("Index: x\n=====\n--- x\n+++ x\n", modify("x"), None),
            ("diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n", modify("x"), None),
            (
                "diff --git a/x b/x\nold mode 100644\nnew mode 100755\nindex 1..2\n--- a/x\n+++ b/x\n",
                modify("x"),
                Some(true),
            ),
            ("diff --git i/x w/x\n--- i/x\n+++ w/x\n", modify("x"), None),
            (
                "diff --git b/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n",
                create("b/x"),
                Some(false),
            ),
            (
                "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n",
                create("x"),
                Some(true),
            ),
            ("diff --git a/x b/x\n--- /dev/null\n+++ b/x\n", create("x"), None),
            (
                "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n",
                delete("x"),
                None,
            ),
        ] {
            check_with_hunk(header, &operation, executable);
        }
    }

    #[test]
    fn a_file_whose_time_is_the_epoch_is_new_or_deleted() {
        let (stamp, epoch) = ("2024-05-06 07:08:09.0 +0200", "1970-01-01 01:00:00.000000000 +0100");
        for (old, new, hunk, wanted) in [
            (stamp, epoch, "@@ -1 +0,0 @@\n-a\n", delete("x")),
            (epoch, stamp, "@@ -0,0 +1 @@\n+a\n", create("x")),
            (stamp, epoch, HUNK, modify("x")),
            (epoch, stamp, HUNK, modify("x")),
            (stamp, stamp, "@@ -1 +0,0 @@\n-a\n", modify("x")),
        ] {
            let text = format!("diff -urN old/x new/x\n--- old/x\t{old}\n+++ new/x\t{new}\n{hunk}");
            assert_eq!(read(&text), [(wanted, None, 1)], "{text}");
        }
    }

    #[test]
    fn names_are_unquoted_and_headers_rename_and_copy() {
        for (header, operation, executable) in [
            (
                "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n",
                modify("ä"),
                None,
            ),
            (
                "diff --git a/x b/y z\nsimilarity index 90%\nrename from x\nrename to y z\nindex 1..2 100755\n--- a/x\n+++ b/y z\t\n",
                rename("x", "y z"),
                None,
            ),
            (
                "diff --git a/x b/y\nold mode 100755\nnew mode 100644\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n",
                rename("x", "y"),
                Some(false),
            ),
            (
                "diff --git a/x b/y\nsimilarity index 90%\ncopy from x\ncopy to y\nindex 1..2 100755\n--- a/x\n+++ b/y\n",
                copy("x", "y"),
                None,
            ),
        ] {
            check_with_hunk(header, &operation, executable);
        }
    }

    #[test]
    fn git_headers_need_no_hunk() {
        for (text, operation, executable) in [
            ("diff --git a/x b/x\nold mode 100644\nnew mode 100755\n", modify("x"), Some(true)),
            (
                "diff --git a/x y b/x y\nnew file mode 100644\nindex 0000000..e69de29\n",
                create("x y"),
                Some(false),
            ),
            (
                "diff --git a/x b/x\ndeleted file mode 100644\nindex e69de29..0000000\n",
                delete("x"),
                None,
            ),
            (
                "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n",
                rename("x", "y"),
                None,
            ),
            (
                "diff --git a/x b/y\nsimilarity index 100%\ncopy from \"x\\t\"\ncopy to y\n",
                copy("x\t", "y"),
                None,
            ),
        ] {
            assert_eq!(read(text), [(operation, executable, 0)], "{text}");
        }
    }

    #[test]
    fn modes_say_what_kind_of_file_it_is() {
        for (header, kind, executable) in [
            ("index 1..2\n", None, None),
            ("index 1..2 100644\n", Some(Kind::File), None),
            ("index 1..2 100755\n", Some(Kind::File), None),
            ("index 1..2 120000\n", Some(Kind::Link), None),
            ("new file mode 100755\n", Some(Kind::File), Some(true)),
            ("new file mode 120000\n", Some(Kind::Link), None),
            // git keeps only whether the user may execute a file.
            ("new file mode 100600\n", Some(Kind::File), Some(false)),
            ("new file mode 100775\n", Some(Kind::File), Some(true)),
            ("new file mode 100611\n", Some(Kind::File), Some(false)),
            ("deleted file mode 120000\n", Some(Kind::Link), None),
        ] {
            let (old, new) = match header.split_once(' ') {
                Some(("new", _)) => ("/dev/null", "b/x"),
                Some(("deleted", _)) => ("a/x", "/dev/null"),
                _ => ("a/x", "b/x"),
            };
            let text = format!("diff --git a/x b/x\n{header}--- {old}\n+++ {new}\n{HUNK}");
            let patch = parse(text.as_bytes()).unwrap();
            let file = &patch.files[0];
            assert_eq!((file.kind, file.executable), (kind, executable), "{text}");
        }
    }

    #[test]
    fn many_files_and_the_text_around_them() {
        let mail = format!(
            "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] x\n\n- a point\n+ another\n---\n x | 2 +-\n\n\
             diff --git a/x b/x\n--- a/x\n+++ b/x\n{HUNK}-- \n2.47.3\n\n"
        );
        let text = format!("{mail}{mail}--- y\n+++ y\n{HUNK}\nbye\n");
        assert_eq!(
            read(&text),
            [(modify("x"), None, 1), (modify("x"), None, 1), (modify("y"), None, 1)]
        );
        assert_eq!(parse(text.as_bytes()).unwrap().files[0].line, 9);
        let sample =
            "--- a/src/main.go\n+++ b/src/main.go\n@@ -10,7 +10,7 @@\n-\told code\n+\tnew code";
        assert_eq!(read(sample), [(modify("src/main.go"), None, 1)]);
    }

    const GIT: &str = "diff --git a/x b/x\n";

    fn assert_error(text: &str, wanted: &str) {
        assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), wanted, "{text}");
    }

    #[test]
    fn malformed_patches_are_reported() {
        for (text, wanted) in [
            (
                String::new(),
                "line 1 of the patch: expected 'diff --git', '--- ' and '+++ ', or '@@ -' somewhere in the patch, but the patch ends",
            ),
            (
                "hello\n".to_owned(),
                "line 1 of the patch: expected 'diff --git', '--- ' and '+++ ', or '@@ -' somewhere in the patch, found \"hello\"",
            ),
            (
                "--- a/x\n+++ b/x\nhello".to_owned(),
                "line 3 of the patch: expected a hunk ('@@ -') after the file header, found \"hello\"",
            ),
            (
                format!("--- /dev/null\n+++ /dev/null\n{HUNK}"),
                "line 1 of the patch: expected a file name, found /dev/null on both sides",
            ),
            (
                format!("--- a/x\n+++ b/x\n{HUNK}text\n@@ -5 +5 @@\n-a\n+b\n"),
                "line 7 of the patch: expected 'diff --git' or '--- ' before more hunks, found \"@@ -5 +5 @@\"",
            ),
            (
                format!("--- a/x\n+++ b/x\n{HUNK}text\n+lost\n"),
                "line 7 of the patch: expected a file header or a hunk header before more changed lines, found \"+lost\"",
            ),
        ] {
            assert_error(&text, wanted);
        }
    }

    #[test]
    fn malformed_git_headers_are_reported() {
        let git = GIT;
        for (text, wanted) in [
            (
                git.to_owned(),
                "line 1 of the patch: expected a change of the file's content, name or mode",
            ),
            (format!("{git}--- a/x\nx"), "line 3 of the patch: expected '+++ ', found \"x\""),
            (
                format!("{git}--- a/x\n+++ b/x\n"),
                "line 4 of the patch: expected a hunk ('@@ -') after the file header, but the patch ends",
            ),
            (
                format!("{git}{HUNK}"),
                "line 2 of the patch: expected '--- ' and '+++ ' before the hunk",
            ),
            (
                format!("{git}--- a/y\n+++ b/y\n{HUNK}"),
                "line 1 of the patch: expected the name \"x\" in '--- ' and '+++ '",
            ),
            (
                format!("{git}new file mode 100644\n--- a/x\n+++ b/x\n{HUNK}"),
                "line 1 of the patch: expected /dev/null beside the name of a new file",
            ),
            (
                format!("{git}deleted file mode 100644\n--- /dev/null\n+++ b/x\n{HUNK}"),
                "line 1 of the patch: expected /dev/null beside the name of a deleted file",
            ),
        ] {
            assert_error(&text, wanted);
        }
    }

    #[test]
    fn malformed_modes_renames_and_names_are_reported() {
        let git = GIT;
        for (text, wanted) in [
            (
                format!("{git}new file mode 040000\n"),
                "line 2 of the patch: expected a mode such as 100644, 100755 or 120000, found \"new file mode 040000\"",
            ),
            (
                format!("{git}new file mode 10064x\n"),
                "line 2 of the patch: expected a mode such as 100644, 100755 or 120000, found \"new file mode 10064x\"",
            ),
            (
                format!("{git}rename from x\n"),
                "line 1 of the patch: expected 'rename from' and 'rename to', or 'copy from' and 'copy to'",
            ),
            (
                format!("{git}rename from x\nrename to y\nnew file mode 100644\n"),
                "line 1 of the patch: expected a file that is renamed or copied to be neither new nor deleted",
            ),
            (
                format!("{git}rename from x\nrename to y\n--- a/x\n+++ b/z\n{HUNK}"),
                "line 1 of the patch: expected the names \"x\" and \"y\" in '--- ' and '+++ '",
            ),
            (
                "diff --git a/x b/y\nold mode 100644\nnew mode 100755\n".to_owned(),
                "line 1 of the patch: expected the same file name twice, or 'rename from' and 'rename to'",
            ),
            (
                format!("{git}--- \"a/x\n+++ b/x\n"),
                "line 2 of the patch: the file name \"\\\"a/x\" has no closing quote",
            ),
            (
                format!("{git}old mode 100644\nnew mode 120000\n"),
                "line 3 of the patch: expected the mode of the same kind of file; git deletes a file and creates a link, found \"new mode 120000\"",
            ),
        ] {
            assert_error(&text, wanted);
        }
    }

    #[test]
    fn unsupported_patches_are_reported() {
        let git = GIT;
        for (text, wanted) in [
            (
                format!("{git}index 1..2\nGIT binary patch\nliteral 1\n"),
                "line 3 of the patch: x: a binary file; only changes of text are applied",
            ),
            (
                format!("{git}index 1..2\nBinary files a/x and b/x differ\n"),
                "line 3 of the patch: x: a binary file; only changes of text are applied",
            ),
            (
                "Binary files x and y differ\n".to_owned(),
                "line 1 of the patch: Binary files x and y differ: a binary file; only changes of text are applied",
            ),
            (
                format!("{git}deleted file mode 160000\n"),
                "line 2 of the patch: x: a submodule; only files and symbolic links are changed",
            ),
            (
                "diff --cc x\n".to_owned(),
                "line 1 of the patch: diff --cc x: a combined diff (of a merge)",
            ),
            (
                "*** x\n--- y\n***************\n".to_owned(),
                "line 3 of the patch: ***************: a context diff; only unified diffs are applied",
            ),
        ] {
            assert_error(&text, wanted);
        }
    }
}
