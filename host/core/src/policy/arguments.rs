//! Rules about single programs of a grant: the arguments that they may get, and the programs that
//! they may start themselves. Pure decisions: the capability `process` of the engine asks them before
//! it starts a program, and the sandbox enforces what a program may start.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::capabilities::is_shell;

/// The most words of a pattern.
const MAX_WORDS: usize = 64;

/// The longest pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1024;

/// The longest command line that a message quotes, in bytes.
const MAX_QUOTED_BYTES: usize = 200;

/// The most patterns that a message lists.
const MAX_LISTED_PATTERNS: usize = 12;

/// Stands for any number of arguments.
const ANY_ARGUMENTS: &str = "**";

/// A pattern of all arguments of a program: one word for each argument, separated by spaces. In a
/// word, `*` stands for any characters; the word `**` stands for any number of arguments. Quotes
/// (`'` or `"`) enclose a word with spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgumentPattern {
    text: String,
    words: Vec<String>,
}

/// The text is not a pattern of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentPatternError {
    /// A quote is not closed.
    #[error("a pattern of arguments has a quote without its end")]
    OpenQuote,
    /// It has a control character.
    #[error("a pattern of arguments holds a control character")]
    Control,
    /// It has too many bytes or words.
    #[error("a pattern of arguments is longer than {MAX_PATTERN_BYTES} bytes or {MAX_WORDS} words")]
    TooLong,
}

impl FromStr for ArgumentPattern {
    type Err = ArgumentPatternError;

    fn from_str(text: &str) -> Result<Self, ArgumentPatternError> {
        if text.chars().any(char::is_control) {
            return Err(ArgumentPatternError::Control);
        }
        let words = split(text)?;
        if text.len() > MAX_PATTERN_BYTES || words.len() > MAX_WORDS {
            return Err(ArgumentPatternError::TooLong);
        }
        Ok(Self { text: text.trim().to_owned(), words })
    }
}

/// Splits a pattern into words.
fn split(text: &str) -> Result<Vec<String>, ArgumentPatternError> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(ArgumentPatternError::OpenQuote);
    }
    words.extend(word);
    Ok(words)
}

impl ArgumentPattern {
    /// Whether it matches all of these arguments. Takes time in proportion to the bytes of
    /// the pattern times those of the arguments, at most.
    fn matches(&self, arguments: &[String]) -> bool {
        let is_any = |word: &String| word == ANY_ARGUMENTS;
        wildcard(&self.words, arguments, is_any, |word, argument| {
            let (word, argument) = (word.as_bytes(), argument.as_bytes());
            wildcard(word, argument, |byte| *byte == b'*', |one, other| one == other)
        })
    }
}

/// Whether a pattern matches all items. An element for which `is_any` holds stands for any number of
/// items, each other one for an item for which `fits` holds.
pub(super) fn wildcard<P, T>(
    pattern: &[P],
    items: &[T],
    is_any: impl Fn(&P) -> bool,
    fits: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut item) = (0, 0);
    // After the latest element that stands for any number: where to go on if it takes one more.
    let mut retry: Option<(usize, usize)> = None;
    while item < items.len() {
        match pattern.get(at) {
            Some(any) if is_any(any) => {
                at += 1;
                retry = Some((at, item));
            }
            Some(one) if fits(one, &items[item]) => {
                at += 1;
                item += 1;
            }
            _ => match &mut retry {
                Some((after, taken)) => {
                    *taken += 1;
                    (at, item) = (*after, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(is_any)
}

impl fmt::Display for ArgumentPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ArgumentPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for ArgumentPattern {
    fn schema_name() -> Cow<'static, str> {
        "ArgumentPattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "maxLength": MAX_PATTERN_BYTES,
            "description": "All arguments of a program, separated by spaces. `*` in a word stands \
                            for any characters, the word `**` for any number of arguments.",
        })
    }
}

/// The arguments that a program may get. What is denied is not allowed, even if `allow` has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArgumentSettings {
    /// Patterns of which one has to match all arguments: `"status"`, `"diff **"`. Without this list,
    /// all that is not denied is allowed.
    pub allow: Option<Vec<ArgumentPattern>>,
    /// Patterns of which none may match all arguments: `"** --output*"`.
    pub deny: Vec<ArgumentPattern>,
}

/// The rules about the programs of one grant, by program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramRules {
    arguments: BTreeMap<String, ArgumentSettings>,
    starts: BTreeMap<String, BTreeSet<String>>,
}

/// A program that is not started, because of a rule about its arguments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentDenial {
    /// No pattern of the list of allowed ones matches.
    #[error(
        "`{command}` is not allowed: the settings allow {allowed} (arguments.{program}.allow under \
         [grants.{plugin}] in cofferdam.toml, which a person can change)"
    )]
    NotAllowed {
        /// The name of the plugin that is granted the program.
        plugin: String,
        /// The name of the program.
        program: String,
        /// The program with its arguments, shortened.
        command: String,
        /// The command lines that are allowed.
        allowed: String,
    },
    /// A pattern of the list of denied ones matches.
    #[error(
        "`{command}` is not allowed: the settings deny `{pattern}` (arguments.{program}.deny under \
         [grants.{plugin}] in cofferdam.toml, which a person can change)"
    )]
    Denied {
        /// The name of the plugin that is granted the program.
        plugin: String,
        /// The name of the program.
        program: String,
        /// The program with its arguments, shortened.
        command: String,
        /// The program with the pattern that matches.
        pattern: String,
    },
}

impl ProgramRules {
    /// The rules of a grant.
    pub(super) fn new(
        arguments: &BTreeMap<String, ArgumentSettings>,
        starts: &BTreeMap<String, BTreeSet<String>>,
    ) -> Self {
        Self { arguments: arguments.clone(), starts: starts.clone() }
    }

    /// Decides whether a program of the plugin may be started with these arguments.
    ///
    /// # Errors
    /// [`ArgumentDenial`] names the rule.
    pub fn check(
        &self,
        plugin: &str,
        program: &str,
        arguments: &[String],
    ) -> Result<(), ArgumentDenial> {
        let Some(rules) = self.arguments.get(program) else { return Ok(()) };
        let (plugin, name) = (plugin.to_owned(), program.to_owned());
        if let Some(pattern) = rules.deny.iter().find(|pattern| pattern.matches(arguments)) {
            let (command, pattern) = (command(program, arguments), line(program, pattern));
            return Err(ArgumentDenial::Denied { plugin, program: name, command, pattern });
        }
        let Some(allow) = &rules.allow else { return Ok(()) };
        if allow.iter().any(|pattern| pattern.matches(arguments)) {
            return Ok(());
        }
        let (command, allowed) = (command(program, arguments), listed(program, allow));
        Err(ArgumentDenial::NotAllowed { plugin, program: name, command, allowed })
    }

    /// The only programs that a program may start itself; `None` if it may start any.
    pub fn starts(&self, program: &str) -> Option<&BTreeSet<String>> {
        self.starts.get(program)
    }

    /// The keys of the settings that have a rule about a program: `arguments`, `starts`.
    pub fn keys(&self, program: &str) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("arguments", self.arguments.contains_key(program)),
            ("starts", self.starts.contains_key(program)),
        ];
        keys.into_iter().filter_map(|(key, has_rule)| has_rule.then_some(key))
    }

    /// Finds what is wrong with the rules of a grant of the programs `process`: the key below the
    /// grant, and why.
    ///
    /// A rule that another granted program evades is refused: a shell that may start anything can
    /// start the program of the rule with any arguments.
    pub(super) fn check_grant(&self, process: &BTreeSet<String>) -> Result<(), (String, String)> {
        let keys = self.arguments.keys().map(|program| ("arguments", program));
        let keys = keys.chain(self.starts.keys().map(|program| ("starts", program)));
        for (key, program) in keys {
            let place = format!("{key}.{program}");
            if !process.contains(program) {
                let why = format!("'{program}' is not in `process` of this grant");
                return Err((place, why));
            }
            let may_start = |shell: &&String| match self.starts.get(*shell) {
                None => *shell != program && is_shell(shell),
                Some(named) => named.contains(program) && (*shell != program || key != "starts"),
            };
            if let Some(shell) = process.iter().find(may_start) {
                let why = format!(
                    "'{shell}' is granted as well, and can start '{program}' without this rule; \
                     narrow it by starts.{shell}, without '{program}'"
                );
                return Err((place, why));
            }
        }
        let named = self.starts.iter().flat_map(|(of, named)| named.iter().map(move |it| (of, it)));
        for (program, name) in named {
            if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
                let place = format!("starts.{program}");
                return Err((place, format!("'{name}' is not the name of a program")));
            }
        }
        Ok(())
    }
}

/// A program with a pattern, as one would type it.
fn line(program: &str, pattern: &ArgumentPattern) -> String {
    format!("{program} {pattern}").trim_end().to_owned()
}

/// A program with its arguments, shortened.
fn command(program: &str, arguments: &[String]) -> String {
    let mut text = program.to_owned();
    for argument in arguments {
        if text.len() > MAX_QUOTED_BYTES {
            break;
        }
        text.push(' ');
        if argument.is_empty() || argument.contains(' ') {
            text.extend(["'", argument, "'"]);
        } else {
            text.push_str(argument);
        }
    }
    cofferdam_text::shorten(&text, MAX_QUOTED_BYTES)
}

/// The command lines that patterns allow, for a message.
fn listed(program: &str, allow: &[ArgumentPattern]) -> String {
    if allow.is_empty() {
        return "none".to_owned();
    }
    let shown = allow.iter().take(MAX_LISTED_PATTERNS);
    let lines = shown.map(|pattern| format!("`{}`", line(program, pattern)));
    let text = lines.collect::<Vec<_>>().join(", ");
    match allow.len().saturating_sub(MAX_LISTED_PATTERNS) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::policy::{Policy, Settings};

    fn words(text: &str) -> Vec<String> {
        split(text).unwrap()
    }

    #[test]
    fn patterns_match_all_arguments() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["status", "''"][..]),
            ("status", &["status"], &["", "status -s", "Status", "statuses", "-C x status"]),
            ("status *", &["status -s", "status ''"], &["status", "status -s -b"]),
            ("status **", &["status", "status -s", "status -s -b"], &["", "-c a=b status"]),
            ("diff --stat* **", &["diff --stat", "diff --stat=5 a b"], &["diff", "diff a --stat"]),
            ("** push **", &["push", "-C x push origin", "push push"], &["pushes", "pull"]),
            ("** --output*", &["log --output=x", "--output"], &["log --output x", "log"]),
            ("** a ** b", &["a b", "x a a b a b", "a x b"], &["a", "b a", "a b x"]),
            (
                "-c -- 'make test'",
                &["-c -- 'make test'"],
                &["-c -- make test", "-c -- 'make  test'"],
            ),
            ("a*b*c", &["abc", "axxbxxc", "a'b c'c"], &["ab", "abcd", "acb"]),
            ("**", &["", "a", "a b"], &[]),
            ("a***", &["a", "abc"], &["b"]),
        ] {
            let parsed: ArgumentPattern = pattern.parse().unwrap();
            for text in yes {
                assert!(parsed.matches(&words(text)), "{pattern:?} {text:?}");
            }
            for text in no {
                assert!(!parsed.matches(&words(text)), "{pattern:?} {text:?}");
            }
        }
    }

    #[test]
    fn hostile_arguments_are_matched_in_bounded_time() {
        let pattern: ArgumentPattern = "** a*a*a*a*a*a*b ** a*a*a*b **".parse().unwrap();
        let arguments = vec!["a".repeat(2_000); 200];
        assert!(!pattern.matches(&arguments));
    }

    #[test]
    fn invalid_patterns_are_refused_with_their_line() {
        let long = format!("\"{}\"", "a".repeat(MAX_PATTERN_BYTES + 1));
        let many = format!("\"{}\"", "a ".repeat(MAX_WORDS + 1));
        for (pattern, why) in [
            ("\"it's\"", "a quote without its end"),
            ("\"a\\nb\"", "control character"),
            ("7", "expected"),
            (long.as_str(), "is longer than"),
            (many.as_str(), "is longer than"),
        ] {
            let text = format!(
                "[grants.a]\nprocess = ['git']\narguments.git = {{ allow = [{pattern}] }}\n"
            );
            let error = Settings::parse(&text).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("line 3"), "{pattern}: {error}");
        }
    }

    fn rules(text: &str) -> Result<ProgramRules, String> {
        let settings = Settings::parse(&format!("[grants.a]\n{text}")).unwrap();
        let policy = Policy::new(&[settings]).map_err(|error| error.to_string())?;
        Ok(policy.program_rules("a"))
    }

    #[test]
    fn arguments_are_decided_and_the_rule_is_named() {
        let rules = rules(
            "process = ['git', 'npm', 'ls', 'cat']\n\
             [grants.a.arguments]\n\
             git = { allow = ['status **', 'diff **'], deny = ['** --output*'] }\n\
             npm = { allow = [] }\nls = { deny = ['-R **'] }\n",
        )
        .unwrap();
        let check = |line: &str| {
            let mut words = words(line);
            let program = words.remove(0);
            rules.check("a", &program, &words).map_err(|denial| denial.to_string())
        };
        for allowed in ["git status", "git status -s", "git diff HEAD", "ls", "ls -l", "cat x"] {
            assert_eq!(check(allowed), Ok(()), "{allowed}");
        }
        for (line, wanted) in [
            (
                "git push origin",
                "`git push origin` is not allowed: the settings allow `git status **`, `git diff \
                 **` (arguments.git.allow under [grants.a] in cofferdam.toml, which a person can \
                 change)",
            ),
            ("git", "`git` is not allowed: the settings allow"),
            ("git -c a=b status", "`git -c a=b status` is not allowed"),
            (
                "git diff --output=x",
                "`git diff --output=x` is not allowed: the settings deny `git ** --output*` \
                 (arguments.git.deny under [grants.a] in cofferdam.toml, which a person can change)",
            ),
            ("npm ci", "`npm ci` is not allowed: the settings allow none (arguments.npm.allow"),
            ("ls -R 'a b'", "`ls -R 'a b'` is not allowed: the settings deny `ls -R **`"),
        ] {
            let message = check(line).unwrap_err();
            assert!(message.starts_with(wanted), "{line}: {message}");
        }
        let long = check(&format!("git {}", "x".repeat(100_000))).unwrap_err();
        assert!(long.len() < 600, "{}", long.len());
        // Another plugin has no rules, and is granted nothing by these.
        let policy = Policy::new(&[]).unwrap();
        assert_eq!(policy.program_rules("a"), ProgramRules::default());
    }

    #[test]
    fn long_lists_are_shortened_in_messages() {
        let patterns: Vec<ArgumentPattern> =
            (0..20).map(|number| number.to_string().parse().unwrap()).collect();
        let text = listed("git", &patterns);
        assert!(text.starts_with("`git 0`, ") && text.ends_with("`git 11` and 8 more"), "{text}");
    }

    #[test]
    fn rules_that_can_not_hold_are_refused() {
        for (text, wanted) in [
            (
                "process = ['ls']\narguments.git = { allow = ['status'] }",
                "grants.a.arguments.git: 'git' is not in `process` of this grant",
            ),
            ("process = ['ls']\nstarts.bash = ['ls']", "grants.a.starts.bash: 'bash' is not in"),
            (
                "process = ['bash', 'git']\narguments.git = { allow = ['status'] }",
                "grants.a.arguments.git: 'bash' is granted as well, and can start 'git' without \
                 this rule; narrow it by starts.bash, without 'git'",
            ),
            (
                "process = ['bash', 'git']\narguments.git = { allow = ['status'] }\n\
                 starts.bash = ['git', 'ls']",
                "'bash' is granted as well",
            ),
            (
                "process = ['bash', 'sh']\nstarts.bash = ['ls']",
                "grants.a.starts.bash: 'sh' is granted as well",
            ),
            (
                "process = ['bash']\narguments.bash = { deny = ['-i'] }\nstarts.bash = ['bash']",
                "grants.a.arguments.bash: 'bash' is granted as well",
            ),
            ("process = ['bash']\nstarts.bash = ['/bin/ls']", "'/bin/ls' is not the name"),
            ("process = ['bash']\nstarts.bash = ['']", "'' is not the name"),
            ("process = ['bash']\nstarts.bash = ['..']", "'..' is not the name"),
        ] {
            let error = rules(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        for text in [
            "process = ['bash', 'git']\narguments.git = { allow = ['status'] }\nstarts.bash = ['ls']",
            "process = ['bash', 'sh']\nstarts.bash = ['ls']\nstarts.sh = []",
            "process = ['bash']\nstarts.bash = ['bash', 'ls']",
            "process = ['make', 'git']\narguments.git = { allow = ['status'] }",
        ] {
            let rules = rules(text).unwrap();
            assert!(rules.starts("ls").is_none(), "{text}");
        }
    }
}
