//! Finds the target file of a call; `read_file`.

use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use serde::{Deserialize, Serialize};

use crate::answer::Failure;

/// The arguments of `read_file` (none).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Args {}

/// The result of `read_file`.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Output {
    /// The whole text of the target.
    pub content: String,
    /// The number of lines.
    pub lines: usize,
}

/// Reads the target file.
///
/// # Errors
/// Those of [`path`] and [`Context::read_text`].
pub fn run(context: &Context) -> Result<Output, Failure> {
    let content = context.read_text(&path(context)?)?;
    let lines = content.lines().count();
    Ok(Output { content, lines })
}

/// The path of the target: the first path of the call's scope.
///
/// # Errors
/// There is no scope, or its first path is not a file.
pub fn path(context: &Context) -> Result<WorkspacePath, Failure> {
    let Some(first) = context.scope.first() else {
        let message = "no target file: the role needs a scope whose first path is the file to lint";
        return Err(Failure(message.to_owned()));
    };
    let path = context.resolve(first)?;
    let local = context.local(&path);
    if local.is_dir() {
        return Err(ToolError::is_a_directory(first).into());
    }
    if !local.is_file() {
        return Err(Failure(format!("file not found: {first}")));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::testing::{Fake, fits};

    #[test]
    fn the_target_is_read_whole() {
        for (contents, lines) in [
            ("", 0),
            ("import os", 1),
            ("import os\n", 1),
            ("a = 1\r\n\r\nb = 2\r\n", 3),
            ("\u{feff}a = 'ä😀'\n", 1),
        ] {
            let fake = Fake::new(contents);
            let answer = fits("read_file", run(&fake.context));
            assert_eq!(answer, json!({"content": contents, "lines": lines}));
        }
    }

    #[test]
    fn binary_and_missing_targets_are_an_error() {
        let mut fake = Fake::new("");
        fake.write("target.py", b"a = '\xe4'\n");
        let answer = fits("read_file", run(&fake.context));
        assert!(answer["error"].as_str().unwrap().contains("not UTF-8 text"), "{answer}");
        fake.context.scope = vec![".".to_owned()];
        let answer = fits("read_file", run(&fake.context));
        assert_eq!(answer, json!({"error": "is a directory, not a file: ."}));
    }
}
