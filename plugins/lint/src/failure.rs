//! Converts the errors of linters to tool errors.

use cofferdam_sdk::ToolError;
use cofferdam_sdk::backend::Error;

/// The message of a linter's error.
pub fn reason(error: &Error) -> &str {
    match error {
        Error::Unavailable(reason)
        | Error::Invalid(reason)
        | Error::Limit(reason)
        | Error::Failed(reason) => reason,
    }
}

/// The error of a call in which all linters failed, with the kind of the first failure. `None`
/// without failures.
pub fn error(failures: &[(&str, &Error)]) -> Option<ToolError> {
    let (_, first) = failures.first()?;
    let message = failures
        .iter()
        .map(|(linter, error)| format!("{linter}: {}", reason(error)))
        .collect::<Vec<_>>()
        .join("; ");
    Some(match first {
        Error::Unavailable(_) => ToolError::unavailable("LinterUnavailable", message),
        Error::Invalid(_) => ToolError::invalid_args("InvalidLintRequest", message),
        Error::Limit(_) => ToolError::limit("LinterLimit", message),
        Error::Failed(_) => ToolError::failed("LinterFailed", message),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use cofferdam_sdk::ErrorKind;

    use super::*;

    #[test]
    fn the_error_has_the_kind_of_the_first_failure_and_names_all() {
        for (first, kind) in [
            (Error::Unavailable("no program".into()), ErrorKind::Unavailable),
            (Error::Invalid("no program".into()), ErrorKind::InvalidArgs),
            (Error::Limit("no program".into()), ErrorKind::Limit),
            (Error::Failed("no program".into()), ErrorKind::Failed),
        ] {
            let second = Error::Failed("broke".into());
            let error = error(&[("mypy", &first), ("ruff", &second)]).unwrap();
            assert_eq!(error.kind, kind);
            assert_eq!(error.message, "mypy: no program; ruff: broke");
        }
        assert!(error(&[]).is_none());
    }
}
