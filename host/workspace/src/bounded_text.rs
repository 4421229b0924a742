//! Reading whole text files that users write, such as settings, locks and manifests. Parsers need
//! many times the file's size in memory, so the size is bounded.
#![expect(clippy::disallowed_methods, reason = "the files are named by paths")]

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The largest text file that is read, in bytes.
pub const MAX_BYTES: u64 = 256 << 10;

/// Reads a text file.
///
/// # Errors
/// A file that is longer than [`MAX_BYTES`], is not UTF-8 or can't be read.
pub fn read(path: &Path) -> io::Result<String> {
    read_from(File::open(path)?)
}

/// Reads a text from its start.
///
/// # Errors
/// As for [`read`].
pub fn read_from(source: impl Read) -> io::Result<String> {
    let mut text = Vec::new();
    source.take(MAX_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        let why = format!("it has more than {MAX_BYTES} bytes, the most that such a file may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_text_has_a_bound() {
        let text = "x".repeat(MAX_BYTES as usize);
        assert_eq!(read_from(text.as_bytes()).unwrap(), text);
        let error = read_from(format!("{text}x").as_bytes()).unwrap_err();
        assert!(error.to_string().contains("more than 262144 bytes"), "{error}");
        // An endless source is not read to its end.
        assert_eq!(read_from(io::repeat(b'x')).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_from(&b"\xff"[..]).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
