//! `write_file`: creates or replaces a whole file.

use cofferdam_sdk::{Context, ToolError};
use serde::{Deserialize, Serialize};

/// The arguments of `write_file`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The file to write.
    pub path: String,
    /// The whole text of the file.
    pub content: String,
}

/// The result of `write_file`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The absolute path of the file.
    pub path: String,
    /// The new size in bytes.
    pub bytes_written: usize,
}

/// Creates or replaces a file.
///
/// # Errors
/// Those of [`Context::resolve`] and [`Context::write`]; `IsADirectoryError` if the path can only
/// be that of a directory.
pub fn run(args: &Args, context: &Context) -> Result<Output, ToolError> {
    let path = context.resolve(&args.path)?;
    if args.path.ends_with('/') {
        return Err(ToolError::is_a_directory(&args.path));
    }
    context.write(&path, args.content.as_bytes())?;
    Ok(Output { path: context.absolute(&path), bytes_written: args.content.len() })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn args(path: &str, content: &str) -> Args {
        Args { path: path.to_owned(), content: content.to_owned() }
    }

    #[test]
    fn content_is_written_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        for content in ["", "{\"key\": \"value\"}", "\u{feff}a\r\nb"] {
            let output = run(&args("new/deep/f.json", content), &context).unwrap();
            assert_eq!(output.path, format!("{}/new/deep/f.json", directory.path().display()));
            assert_eq!(output.bytes_written, content.len());
            let written = std::fs::read_to_string(directory.path().join("new/deep/f.json"));
            assert_eq!(written.unwrap(), content);
        }
    }

    #[test]
    fn directories_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let context = Context::for_directory(directory.path());
        std::fs::create_dir(directory.path().join("src")).unwrap();
        for path in ["src", "src/", "new/", "."] {
            let error = run(&args(path, "x"), &context).unwrap_err();
            assert_eq!(error.code, "IsADirectoryError", "{path}");
        }
        assert_eq!(run(&args("../x", "x"), &context).unwrap_err().code, "PathNotAllowed");
    }
}
