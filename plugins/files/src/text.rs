//! Decodes text files.

use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::Serialize;

/// The encoding of a text file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub enum Encoding {
    /// UTF-8 without a byte order mark.
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    /// UTF-8 with a byte order mark.
    #[serde(rename = "utf-8-bom")]
    Utf8Bom,
    /// UTF-16 little-endian, with a byte order mark.
    #[serde(rename = "utf-16le")]
    Utf16le,
    /// UTF-16 big-endian, with a byte order mark.
    #[serde(rename = "utf-16be")]
    Utf16be,
}

impl Encoding {
    /// Detects the encoding by the byte order mark; the default is UTF-8. Returns the bytes after
    /// the mark too.
    fn detect(bytes: &[u8]) -> (Self, &[u8]) {
        for (mark, encoding) in [
            (&b"\xef\xbb\xbf"[..], Self::Utf8Bom),
            (b"\xff\xfe", Self::Utf16le),
            (b"\xfe\xff", Self::Utf16be),
        ] {
            if let Some(rest) = bytes.strip_prefix(mark) {
                return (encoding, rest);
            }
        }
        (Self::Utf8, bytes)
    }
}

/// The maximum size of an answer's content whose caller gave no limit, as JSON, in bytes.
pub const PAGE_BYTES: usize = 30 * 1024;

/// Returns the text of a UTF-8 file unchanged, including a byte order mark.
///
/// # Errors
/// `UnicodeDecodeError` for a file that is not UTF-8 or contains a NUL, with its bytes.
pub fn exact(bytes: Vec<u8>, path: &WorkspacePath) -> Result<String, (ToolError, Vec<u8>)> {
    let text = String::from_utf8(bytes)
        .map_err(|error| (bad_byte(path, error.utf8_error().valid_up_to()), error.into_bytes()))?;
    match refuse_nul(&text, path) {
        Ok(()) => Ok(text),
        Err(error) => Err((error, text.into_bytes())),
    }
}

/// Reads a file in any [`Encoding`]; the byte order mark is removed.
///
/// # Errors
/// Those of [`Context::read`]; `UnicodeDecodeError` for a file in another encoding or with a NUL.
pub fn read_detected(
    path: &WorkspacePath,
    context: &Context,
) -> Result<(String, Encoding), ToolError> {
    let bytes = context.read(path)?;
    let (encoding, body) = Encoding::detect(&bytes);
    let text = match encoding {
        Encoding::Utf8 => utf8(bytes, path)?,
        Encoding::Utf8Bom => utf8(body.to_vec(), path)?,
        Encoding::Utf16le => utf16(body, u16::from_le_bytes, path)?,
        Encoding::Utf16be => utf16(body, u16::from_be_bytes, path)?,
    };
    refuse_nul(&text, path)?;
    Ok((text, encoding))
}

fn utf8(bytes: Vec<u8>, path: &WorkspacePath) -> Result<String, ToolError> {
    String::from_utf8(bytes).map_err(|error| bad_byte(path, error.utf8_error().valid_up_to()))
}

fn bad_byte(path: &WorkspacePath, offset: usize) -> ToolError {
    not_text(path, &format!("not UTF-8 text (bad byte after {offset} good ones)"))
}

fn utf16(
    bytes: &[u8],
    unit: fn([u8; 2]) -> u16,
    path: &WorkspacePath,
) -> Result<String, ToolError> {
    let (pairs, rest) = bytes.as_chunks();
    if !rest.is_empty() {
        return Err(not_text(path, "marked as UTF-16, but with an odd number of bytes"));
    }
    char::decode_utf16(pairs.iter().map(|&pair| unit(pair)))
        .collect::<Result<_, _>>()
        .map_err(|_| not_text(path, "marked as UTF-16, but with half of a surrogate pair"))
}

fn refuse_nul(text: &str, path: &WorkspacePath) -> Result<(), ToolError> {
    if text.contains('\0') { Err(not_text(path, "holds a NUL character")) } else { Ok(()) }
}

fn not_text(path: &WorkspacePath, why: &str) -> ToolError {
    let message = format!("{path}: {why}; it may be a binary file");
    ToolError::invalid_args("UnicodeDecodeError", message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn with_file<T>(bytes: &[u8], read: impl Fn(&WorkspacePath, &Context) -> T) -> T {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), bytes).unwrap();
        let context = Context::for_directory(directory.path());
        read(&context.resolve("file").unwrap(), &context)
    }

    #[test]
    fn encodings_are_detected() {
        for (bytes, text, encoding) in [
            (&b""[..], "", Encoding::Utf8),
            ("h\u{e9}".as_bytes(), "h\u{e9}", Encoding::Utf8),
            (b"\xef\xbb\xbfa", "a", Encoding::Utf8Bom),
            (b"\xff\xfea\0\x3d\xd8\x00\xde", "a\u{1f600}", Encoding::Utf16le),
            (b"\xfe\xff\0a", "a", Encoding::Utf16be),
            (b"\xff\xfe", "", Encoding::Utf16le),
        ] {
            let found = with_file(bytes, read_detected).unwrap();
            assert_eq!(found, (text.to_owned(), encoding), "{bytes:?}");
        }
    }

    #[test]
    fn binary_files_are_refused() {
        for bytes in [
            &b"\x89PNG\r\n"[..],
            b"a\0b",
            b"\xff\xfea",           // odd
            b"\xff\xfe\x3d\xd8",    // half a pair
            b"\xff\xfe\0\0a\0\0\0", // UTF-32
            b"\xef\xbb\xbf\xff",
        ] {
            let error = with_file(bytes, read_detected).unwrap_err();
            assert_eq!(error.code, "UnicodeDecodeError", "{bytes:?}");
        }
        for bytes in [&b"\xff\xfea\0"[..], b"a\0"] {
            let (error, kept) =
                with_file(bytes, |path, _| exact(bytes.to_vec(), path)).unwrap_err();
            assert_eq!((error.code.as_str(), &*kept), ("UnicodeDecodeError", bytes));
        }
    }

    #[test]
    fn an_exact_read_keeps_the_byte_order_mark() {
        let bytes = b"\xef\xbb\xbfa\r\n";
        assert_eq!(
            with_file(bytes, |path, _| exact(bytes.to_vec(), path)).unwrap(),
            "\u{feff}a\r\n"
        );
    }
}
