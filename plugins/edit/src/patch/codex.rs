//! Parses the format of the agent Codex: `*** Begin Patch`, `*** Update File: NAME` and so on.
//!
//! Its hunks begin with `@@`, without line numbers; the first one of a file needs no `@@`. They do
//! not say whether the last line of a file has a newline.

use super::cursor::Cursor;
use super::hunk::{self, Start};
use super::{FilePatch, Hunk, Line, Operation, PatchError, Position, Side};

pub(super) const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// Parses all files from `*** Begin Patch` to `*** End Patch`.
pub(super) fn parse<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<FilePatch<'a>>, PatchError> {
    cursor.advance();
    let mut files = Vec::new();
    loop {
        cursor.skip_blank();
        let line = cursor.number();
        let (operation, hunks) = if let Some(name) = cursor.after("*** Add File: ") {
            let operation = Operation::Create(text(cursor, name)?);
            (operation, added(cursor, line))
        } else if let Some(name) = cursor.after("*** Delete File: ") {
            let operation = Operation::Delete(text(cursor, name)?);
            cursor.advance();
            (operation, Vec::new())
        } else if let Some(name) = cursor.after("*** Update File: ") {
            let name = text(cursor, name)?;
            cursor.advance();
            updated(cursor, name)?
        } else if cursor.at(END) && !files.is_empty() {
            cursor.advance();
            return Ok(files);
        } else {
            return Err(cursor.expected(format!(
                "'*** Add File: ', '*** Delete File: ', '*** Update File: ' or '{END}'"
            )));
        };
        let any_content = matches!(operation, Operation::Delete(_));
        files.push(FilePatch { line, operation, kind: None, executable: None, any_content, hunks });
    }
}

fn text(cursor: &Cursor, name: &[u8]) -> Result<String, PatchError> {
    match std::str::from_utf8(name.trim_ascii()) {
        Ok(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => Err(cursor.expected("a file name in UTF-8")),
    }
}

/// The lines of a file to add, as a hunk; none for an empty file.
fn added<'a>(cursor: &mut Cursor<'a>, line: usize) -> Vec<Hunk<'a>> {
    let mut lines = Vec::new();
    cursor.advance();
    while let Some([b'+', text @ ..]) = cursor.raw() {
        lines.push(Line { side: Side::New, text, newline: true });
        cursor.advance();
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let position = Position::Empty;
    vec![Hunk { line, position, old_count: 0, recounted: false, open_end: false, lines }]
}

/// The operation and the hunks below `*** Update File: `.
fn updated<'a>(
    cursor: &mut Cursor<'a>,
    name: String,
) -> Result<(Operation, Vec<Hunk<'a>>), PatchError> {
    let operation = match cursor.after("*** Move to: ") {
        Some(to) => {
            let to = text(cursor, to)?;
            cursor.advance();
            Operation::Rename { from: name, to }
        }
        None => Operation::Modify(name),
    };
    // Some models mix the formats.
    if cursor.at_marks() {
        cursor.advance();
        cursor.advance();
    }
    let mut hunks: Vec<Hunk> = Vec::new();
    loop {
        let end = cursor.number();
        cursor.skip_blank();
        if cursor.header().is_none() || (cursor.at("*** ") && !cursor.at(END_OF_FILE)) {
            break;
        }
        // Blank lines before a line of a hunk belong to it.
        if !cursor.at("@@") {
            cursor.back_to(end);
        }
        let start = if hunks.is_empty() { Start::Line } else { Start::Header };
        let mut hunk = hunk::parse(cursor, start)?;
        hunk.open_end = true;
        if cursor.at(END_OF_FILE) {
            cursor.advance();
            if let Position::Unnumbered { at_end, .. } = &mut hunk.position {
                *at_end = true;
            }
        }
        hunks.push(hunk);
    }
    if hunks.is_empty() && matches!(operation, Operation::Modify(_)) {
        return Err(cursor.expected("a hunk ('@@') after '*** Update File: '"));
    }
    Ok((operation, hunks))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::super::parse;
    use super::*;

    #[test]
    fn files_and_hunks_are_parsed() {
        let text = "Done:\n*** Begin Patch\n*** Add File: new.py\n+a\n+\n*** Update File: x.py\n*** Move to: y.py\n@@ class A\n@@   def f(self):\n a\n-b\n\n+c\n*** End of File\n*** Update File: z\n-a\n+b\n@@\n c\n-d\n*** Delete File: gone\n*** End Patch\nbye\n";
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let files = parse(text.as_bytes()).unwrap().files;
            let shown: Vec<(&Operation, usize, bool)> = files
                .iter()
                .map(|file| (&file.operation, file.hunks.len(), file.any_content))
                .collect();
            assert_eq!(
                shown,
                [
                    (&Operation::Create("new.py".to_owned()), 1, false),
                    (
                        &Operation::Rename { from: "x.py".to_owned(), to: "y.py".to_owned() },
                        1,
                        false
                    ),
                    (&Operation::Modify("z".to_owned()), 2, false),
                    (&Operation::Delete("gone".to_owned()), 0, true),
                ]
            );
            let hunk = &files[1].hunks[0];
            assert_eq!((hunk.old_count, hunk.lines.len(), hunk.open_end), (3, 4, true));
            assert_eq!(
                hunk.position,
                Position::Unnumbered { headings: vec![b"class A", b"def f(self):"], at_end: true }
            );
        }
    }

    #[test]
    fn malformed_patches_are_reported() {
        for (text, wanted) in [
            (
                "*** Begin Patch\n*** End Patch\n",
                "line 2 of the patch: expected '*** Add File: ', '*** Delete File: ', '*** Update File: ' or '*** End Patch', found \"*** End Patch\"",
            ),
            // A patch that was cut off is not applied in part.
            (
                "*** Begin Patch\n*** Delete File: x\n",
                "line 3 of the patch: expected '*** Add File: ', '*** Delete File: ', '*** Update File: ' or '*** End Patch', but the patch ends",
            ),
            (
                "*** Begin Patch\n*** Update File: x\n*** End Patch\n",
                "line 3 of the patch: expected a hunk ('@@') after '*** Update File: ', found \"*** End Patch\"",
            ),
            (
                "*** Begin Patch\n*** Update File: x\n@@\nno sign\n*** End Patch\n",
                "line 4 of the patch: expected a line that begins with ' ', '+', '-' or '\\', found \"no sign\"",
            ),
            (
                "*** Begin Patch\n*** Add File: x\nno sign\n*** End Patch\n",
                "line 3 of the patch: expected '*** Add File: ', '*** Delete File: ', '*** Update File: ' or '*** End Patch', found \"no sign\"",
            ),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), wanted, "{text}");
        }
    }
}
