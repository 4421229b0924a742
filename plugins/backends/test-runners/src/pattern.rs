//! Patterns by which tests are chosen. Each runner has its own language; a pattern with `*` and
//! nothing else that a regular expression would treat specially is a glob in all of them, since
//! that is what is meant by `TestFoo*`.

use cofferdam_sdk::backend::Error;

/// What sets a regular expression apart from a name or a glob.
const REGEX: [char; 13] = ['.', '^', '$', '|', '(', ')', '[', ']', '{', '}', '+', '?', '\\'];

/// Whether a pattern is a glob.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains('*') && !pattern.contains(REGEX)
}

/// The parts of a glob between its stars that are not empty.
pub fn parts(glob: &str) -> impl Iterator<Item = &str> {
    glob.split('*').filter(|part| !part.is_empty())
}

/// A pattern that can stand among a program's arguments, where one that starts with `-` would be
/// an option.
///
/// # Errors
/// It would be one.
pub fn as_argument(pattern: &str) -> Result<&str, Error> {
    if pattern.starts_with('-') {
        return Err(Error::Invalid(format!(
            "the pattern '{pattern}' starts with '-', so it would be an option; a pattern is a \
             part of a test's name"
        )));
    }
    Ok(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_told_from_regular_expressions() {
        for (pattern, glob) in [
            ("TestFoo*", true),
            ("*", true),
            ("*Foo*Bar", true),
            ("should handle * errors", true),
            ("TestFoo", false),
            ("TestFoo.*", false),
            ("^TestFoo*", false),
            ("(a|b)*", false),
            ("", false),
        ] {
            assert_eq!(is_glob(pattern), glob, "{pattern}");
        }
        assert_eq!(parts("*a**b").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(parts("*").count(), 0);
    }

    #[test]
    fn an_option_is_no_pattern() {
        assert!(matches!(as_argument("--config=x"), Err(Error::Invalid(_))));
        assert_eq!(as_argument("a-b").ok(), Some("a-b"));
    }
}
