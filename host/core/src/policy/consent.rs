//! Consent for actions that no file and no origin shows, such as dropping a table: the classes that a
//! manifest declares, and the rules of the user about their keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::call_pattern::matches;
use cofferdam_text::shorten;

/// The maximum length of a key, in bytes: a user is shown all of it.
pub const MAX_CONSENT_KEY_BYTES: usize = 400;

/// The maximum length of a pattern of keys, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;

/// The maximum length of the name of a class, in bytes.
const MAX_CLASS_BYTES: usize = 64;

/// The maximum length of the description of a class, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 200;

/// The most classes that a plugin declares.
const MAX_CLASSES: usize = 32;

/// The keys of one class that a plugin may act on. In a pattern, `*` stands for any characters; `\*` and
/// `\\` stand for `*` and `\`. What no pattern matches is refused.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConsentSettings {
    /// Patterns of the keys that are allowed.
    pub allow: Vec<String>,
    /// Patterns of the keys that the user is asked about, unless `allow` matches as well.
    pub ask: Vec<String>,
}

/// What the rules say about one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentRule {
    /// A pattern allows the key.
    Allow,
    /// The user has to be asked.
    Ask,
    /// No pattern matches it.
    Refuse,
}

impl ConsentSettings {
    /// The rule for a key.
    pub fn rule(&self, key: &str) -> ConsentRule {
        let has = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, key));
        match () {
            () if has(&self.allow) => ConsentRule::Allow,
            () if has(&self.ask) => ConsentRule::Ask,
            () => ConsentRule::Refuse,
        }
    }

    /// Checks the lengths of the patterns.
    ///
    /// # Errors
    /// What is wrong.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_valid = |pattern: &&String| (1..=MAX_PATTERN_BYTES).contains(&pattern.len());
        match self.allow.iter().chain(&self.ask).find(|pattern| !is_valid(pattern)) {
            None => Ok(()),
            Some(pattern) => Err(format!(
                "the pattern '{}' has {} bytes; a pattern has 1 to {MAX_PATTERN_BYTES}",
                shorten(pattern, 80),
                pattern.len()
            )),
        }
    }
}

/// Whether a text can be the name of a class: lower-case letters, digits and `-`, at most 64.
pub fn is_consent_class(name: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    name.len() <= MAX_CLASS_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_plain)
}

/// Checks the classes that a manifest declares, each with its description.
///
/// # Errors
/// The class, and what is wrong with it or with its description.
pub fn check_consent_classes(classes: &BTreeMap<String, String>) -> Result<(), (String, String)> {
    for (number, (class, description)) in classes.iter().enumerate() {
        let wrong = |why: &str| Err((class.clone(), why.to_owned()));
        if !is_consent_class(class) {
            return wrong("is no name of a class: lower-case letters, digits and '-', at most 64");
        }
        if number >= MAX_CLASSES {
            return wrong("is one class too many: a plugin has at most 32");
        }
        if description.trim().is_empty() || description.len() > MAX_DESCRIPTION_BYTES {
            return wrong("needs a description of 1 to 200 bytes");
        }
        if cofferdam_text::visible::line(description) != *description {
            return wrong("has control characters in its description");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(allow: &[&str], ask: &[&str]) -> ConsentSettings {
        let texts = |patterns: &[&str]| patterns.iter().map(|&text| text.to_owned()).collect();
        ConsentSettings { allow: texts(allow), ask: texts(ask) }
    }

    #[test]
    fn what_no_pattern_matches_is_refused() {
        let rules = settings(&["cache.db: *", "\\*"], &["app.db: *", "cache*"]);
        for (key, wanted) in [
            ("cache.db: a", ConsentRule::Allow),
            ("cache.db: ", ConsentRule::Allow),
            ("cache.db", ConsentRule::Ask),
            ("app.db: users", ConsentRule::Ask),
            ("app.db: a\nb\u{202e}", ConsentRule::Ask),
            ("*", ConsentRule::Allow),
            ("x", ConsentRule::Refuse),
            ("App.db: users", ConsentRule::Refuse),
            (" app.db: users", ConsentRule::Refuse),
            ("", ConsentRule::Refuse),
        ] {
            assert_eq!(rules.rule(key), wanted, "{key:?}");
        }
        assert_eq!(ConsentSettings::default().rule("x"), ConsentRule::Refuse);
        assert_eq!(settings(&[], &["*"]).rule(""), ConsentRule::Ask);
    }

    #[test]
    fn patterns_and_classes_are_bounded() {
        let long = "x".repeat(MAX_PATTERN_BYTES + 1);
        for (rules, is_valid) in [
            (settings(&["*"], &["a"]), true),
            (settings(&[""], &[]), false),
            (settings(&[], &[&long]), false),
        ] {
            assert_eq!(rules.check().is_ok(), is_valid, "{rules:?}");
        }
        let long = "x".repeat(MAX_DESCRIPTION_BYTES + 1);
        for (class, description, is_valid) in [
            ("drop", "Drops a table", true),
            ("drop-2", "D", true),
            ("", "D", false),
            ("Drop", "D", false),
            ("2drop", "D", false),
            ("a_b", "D", false),
            ("drop", " ", false),
            ("drop", "a\u{202e}b", false),
            ("drop", "a\nb", false),
            ("drop", &long, false),
        ] {
            let classes = BTreeMap::from([(class.to_owned(), description.to_owned())]);
            assert_eq!(check_consent_classes(&classes).is_ok(), is_valid, "{class} {description}");
        }
        let many = (0..=MAX_CLASSES).map(|number| (format!("c{number}"), "D".to_owned())).collect();
        assert!(check_consent_classes(&many).is_err());
    }
}
