//! Checks which files may be edited.

use cofferdam_sdk::{Context, ToolError, WorkspacePath};

/// Directories of git and of the host. The host protects them too, but this check can name the path
/// as the caller wrote it.
const CONTROL_DIRECTORIES: [&str; 2] = [".git", ".cofferdam"];

/// Resolves the path of a file that a caller wants to change.
///
/// # Errors
/// Those of [`Context::resolve`]; `PathNotAllowed` for a path into `.git` or `.cofferdam`.
pub(crate) fn editable(context: &Context, name: &str) -> Result<WorkspacePath, ToolError> {
    let path = context.resolve(name)?;
    // Case is ignored because some file systems ignore it.
    let control = path.as_str().split('/').find(|part| {
        CONTROL_DIRECTORIES.iter().any(|directory| part.eq_ignore_ascii_case(directory))
    });
    match control {
        Some(part) => Err(ToolError::denied(
            "PathNotAllowed",
            format!("'{name}': {part} holds control data and is not edited"),
        )),
        None => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::path::Path;

    use super::*;

    #[test]
    fn control_directories_are_not_editable() {
        let context = Context::for_directory(Path::new("/w"));
        for name in [
            ".git/config",
            ".GIT/hooks/x",
            "vendor/lib/.git/HEAD",
            ".cofferdam/journal",
            "a/../.git",
            "../x",
        ] {
            assert_eq!(editable(&context, name).unwrap_err().code, "PathNotAllowed", "{name}");
        }
        for name in [".gitignore", ".github/x.yml", "a.git/x", "git"] {
            assert_eq!(editable(&context, name).unwrap().as_str(), name);
        }
    }
}
