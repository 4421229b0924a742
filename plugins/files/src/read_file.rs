//! `read_file`: returns a whole text file, unchanged.

use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

use crate::text;

/// The arguments of `read_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file to read.
    pub path: String,
}

/// The result of `read_file`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The absolute path of the file.
    pub path: String,
    /// The whole text of the file.
    pub content: String,
    /// The size in bytes.
    pub size: usize,
}

/// Reads a whole text file.
///
/// # Errors
/// Those of [`Context::resolve`] and [`text::read_exact`].
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = context.resolve(&args.path)?;
    let content = text::read_exact(&path, context)?;
    Ok(Output { path: context.absolute(&path), size: content.len(), content })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::fs;

    use super::*;

    #[test]
    fn the_text_is_returned_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::create_dir(directory.path().join("src")).unwrap();
        fs::write(directory.path().join("src/a"), "\u{feff}h\u{e9}\r\n\tx").unwrap();
        let output = run(&Args { path: "src/../src/a".to_owned() }, &context).unwrap();
        assert_eq!(
            output,
            Output {
                path: format!("{}/src/a", directory.path().display()),
                content: "\u{feff}h\u{e9}\r\n\tx".to_owned(),
                size: 10,
            }
        );
    }

    #[test]
    fn refusals_have_their_codes() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        fs::write(directory.path().join("binary"), b"\x7fELF\x02\x01\0").unwrap();
        for (path, code) in [
            ("none", "FileNotFoundError"),
            ("binary", "UnicodeDecodeError"),
            (".", "IsADirectoryError"),
            ("../x", "PathNotAllowed"),
            ("/etc/passwd", "PathNotAllowed"),
        ] {
            assert_eq!(run(&Args { path: path.to_owned() }, &context).unwrap_err().code, code);
        }
        let error = run(&Args { path: "none".to_owned() }, &context).unwrap_err();
        assert!(error.message.starts_with("file not found"), "{error}");
    }
}
