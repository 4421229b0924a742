//! Patterns that select tests. Each runner has its own syntax, but a pattern with `*` and no other
//! special character of regular expressions is a glob for all of them, as is usually meant by
//! `TestFoo*`.

use cofferdam_sdk::backend::Error;

/// Characters that occur in regular expressions, but not in names or globs.
const REGEX_CHARACTERS: [char; 13] =
    ['.', '^', '$', '|', '(', ')', '[', ']', '{', '}', '+', '?', '\\'];

/// Whether a pattern is a glob.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains('*') && !pattern.contains(REGEX_CHARACTERS)
}

/// The parts of a glob between its stars, without empty ones.
pub fn parts(glob: &str) -> impl Iterator<Item = &str> {
    glob.split('*').filter(|part| !part.is_empty())
}

/// Checks that a pattern can be an argument of a program: it must not start with `-`, like an
/// option.
///
/// # Errors
/// [`Error::Invalid`] for such a pattern.
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
    fn globs_and_regular_expressions_are_distinguished() {
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
    fn a_pattern_must_not_be_an_option() {
        assert!(matches!(as_argument("--config=x"), Err(Error::Invalid(_))));
        assert_eq!(as_argument("a-b").ok(), Some("a-b"));
    }
}
