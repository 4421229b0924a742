//! `write_file`: a whole file, created or replaced.

use cofferdam_sdk::changes::Change;
use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

/// Arguments of `write_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Which file.
    pub path: String,
    /// All of its text.
    pub content: String,
}

/// Answer of `write_file`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The file's absolute path.
    pub path: String,
    /// How many bytes it now has.
    pub bytes_written: usize,
}

/// What to change, and what to answer once that is done.
///
/// # Errors
/// As [`Context::resolve`], and `IsADirectoryError` where the path is, or can only be, a
/// directory.
pub fn plan(args: Args, context: &Context) -> Result<(Change, Output), ToolError> {
    let path = context.resolve(&args.path)?;
    if args.path.ends_with('/') || context.local(&path).is_dir() {
        return Err(ToolError::is_a_directory(&args.path));
    }
    let output = Output { path: context.absolute(&path), bytes_written: args.content.len() };
    Ok((Change::write(&path, args.content.into_bytes()), output))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn args(path: &str, content: &str) -> Args {
        Args { path: path.to_owned(), content: content.to_owned() }
    }

    #[test]
    fn content_is_written_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        for content in ["", "{\"key\": \"value\"}", "\u{feff}a\r\nb"] {
            let (change, output) = plan(args("new/deep/f.json", content), &context).unwrap();
            let path = context.resolve("new/deep/f.json").unwrap();
            assert_eq!(output.path, context.absolute(&path));
            assert_eq!(output.bytes_written, content.len());
            assert_eq!(change, Change::write(&path, content.as_bytes().to_vec()));
        }
    }

    #[test]
    fn directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        std::fs::create_dir(directory.path().join("src")).unwrap();
        for path in ["src", "src/", "new/", "."] {
            let error = plan(args(path, "x"), &context).unwrap_err();
            assert_eq!(error.code, "IsADirectoryError", "{path}");
        }
        assert_eq!(plan(args("../x", "x"), &context).unwrap_err().code, "PathNotAllowed");
    }
}
