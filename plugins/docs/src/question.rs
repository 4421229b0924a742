//! Rejects vague queries.
//!
//! The tool schemas require 10 to 100 words, but their examples have 6 and 8. So the number of
//! specific words is checked instead of the length.

use cofferdam_sdk::ToolError;

use crate::library::LibraryId;

/// The maximum number of words in a query.
const MAX_WORDS: usize = 100;

/// The minimum number of specific words.
const MIN_SPECIFIC_WORDS: usize = 2;

/// Words that are not specific to a question.
const UNSPECIFIC_WORDS: &[&str] = &[
    "a",
    "about",
    "all",
    "an",
    "and",
    "any",
    "anything",
    "api",
    "are",
    "be",
    "basics",
    "can",
    "code",
    "describe",
    "do",
    "docs",
    "documentation",
    "does",
    "everything",
    "example",
    "examples",
    "explain",
    "for",
    "get",
    "give",
    "guide",
    "help",
    "how",
    "i",
    "in",
    "info",
    "information",
    "introduction",
    "is",
    "it",
    "know",
    "learn",
    "library",
    "me",
    "more",
    "my",
    "need",
    "of",
    "on",
    "overview",
    "package",
    "please",
    "show",
    "should",
    "some",
    "something",
    "started",
    "tell",
    "that",
    "the",
    "this",
    "to",
    "tutorial",
    "usage",
    "use",
    "used",
    "using",
    "want",
    "we",
    "what",
    "with",
    "work",
    "works",
    "you",
];

/// Checks that a query is specific enough.
///
/// # Errors
/// `VagueQuery`, with the reason.
pub fn check(query: &str, library: &LibraryId) -> Result<(), ToolError> {
    let vague = |why: String| Err(ToolError::invalid_args("VagueQuery", why));
    let count = query.split_whitespace().count();
    if count > MAX_WORDS {
        return vague(format!(
            "the query has {count} words; rephrase it as one specific question of at most {MAX_WORDS}"
        ));
    }
    let name = library.project().to_lowercase();
    let meaning = words(query)
        .filter(|word| !UNSPECIFIC_WORDS.contains(&word.as_str()))
        .filter(|word| !name.split(|c: char| !c.is_alphanumeric()).any(|part| part == word))
        .filter(|word| *word != name)
        .count();
    if meaning < MIN_SPECIFIC_WORDS {
        return vague(format!(
            "'{}' is too broad; rephrase it as a specific question, such as \"How to set the \
             timeout of a client?\"",
            cofferdam_sdk::shorten(query, 80)
        ));
    }
    Ok(())
}

/// The words of a text, in lower case.
pub fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

/// The words that are specific to a question.
pub fn specific_words(text: &str) -> impl Iterator<Item = String> {
    words(text).filter(|word| !UNSPECIFIC_WORDS.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn asked(library: &str, query: &str) -> Option<String> {
        check(query, &library.parse().unwrap()).err().map(|error| error.code)
    }

    #[test]
    fn questions_of_the_source_are_specific() {
        for (library, query) in [
            ("/encode/httpx", "How to set timeout parameter in AsyncClient constructor?"),
            (
                "/pydantic/pydantic",
                "What is the correct decorator for field validation in Pydantic v2?",
            ),
            (
                "/hynek/structlog",
                "Recommended way to configure structlog for production JSON logging",
            ),
            ("/httpx/httpx", "How to set timeout in AsyncClient?"),
        ] {
            assert_eq!(asked(library, query), None, "{query}");
        }
    }

    #[test]
    fn vague_questions_are_refused() {
        let long = "word ".repeat(101);
        for query in [
            "tell me about httpx",
            "Tell me about X",
            "httpx",
            "How do I use httpx?",
            "documentation",
            "auth",
            "What is httpx and how does it work?",
            "???",
            &long,
        ] {
            assert_eq!(asked("/encode/httpx", query).as_deref(), Some("VagueQuery"), "{query}");
        }
        assert_eq!(asked("/encode/httpx", &"word other ".repeat(50)), None);
    }
}
