//! Splits a build command, written as for a shell, into words.
//!
//! Quotes and backslashes have the meaning that they have in a shell. Everything else that only a
//! shell can interpret is an error, since the program would get other arguments than intended.

use cofferdam_sdk::ToolError;

/// Splits a command into the program and its arguments.
///
/// # Errors
/// `InvalidCommand` for an empty command, a missing closing quote, or syntax that needs a shell.
pub fn words(command: &str) -> Result<Vec<String>, ToolError> {
    let invalid = |message: String| Err(ToolError::invalid_args("InvalidCommand", message));
    if let Some((column, meaning)) = needs_shell(command) {
        return invalid(format!(
            "build_command is run without a shell, so it can't have {meaning} (character \
             {column}); quote what is meant as it is, or use run_command where the operator has \
             granted a shell"
        ));
    }
    let Some(words) = shlex::split(command) else {
        return invalid("build_command has a quote or a backslash without its end".to_owned());
    };
    match words.first() {
        None => invalid("build_command is empty".to_owned()),
        Some(program) if program.is_empty() || program.contains('=') => invalid(format!(
            "build_command must start with a program, not with '{program}': variables can't be set"
        )),
        Some(_) => Ok(words),
    }
}

/// The position (from 1) and the name of the first character that needs a shell.
fn needs_shell(command: &str) -> Option<(usize, &'static str)> {
    let mut quote: Option<char> = None;
    let mut is_start = true;
    let mut characters = (1..).zip(command.chars());
    while let Some((column, character)) = characters.next() {
        let meaning = match (quote, character) {
            (None | Some('"'), '\\') => {
                let escaped = characters.next();
                (escaped.map(|(_, c)| c) == Some('\n')).then_some("several lines")
            }
            (Some(open), _) if open == character => {
                quote = None;
                None
            }
            (Some('\''), _) => None,
            (_, '$' | '`') => Some("variables or commands in place of text ($, `)"),
            (Some(_), _) => None,
            (None, '\'' | '"') => {
                quote = Some(character);
                None
            }
            (None, '&' | '|' | ';') => Some("several commands (&, |, ;)"),
            (None, '<' | '>') => Some("redirections (<, >)"),
            (None, '(' | ')') => Some("groups of commands"),
            (None, '*' | '?' | '[') => Some("patterns of file names (*, ?, [)"),
            (None, '~') if is_start => Some("a home directory (~)"),
            (None, '#') if is_start => Some("comments"),
            (None, '\n' | '\r') => Some("several lines"),
            (None, _) => None,
        };
        if meaning.is_some() {
            return meaning.map(|meaning| (column, meaning));
        }
        is_start = quote.is_none() && matches!(character, ' ' | '\t');
    }
    None
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn commands_are_split_into_words() {
        for (command, wanted) in [
            ("go build -o myapp ./cmd/app", &["go", "build", "-o", "myapp", "./cmd/app"][..]),
            (
                "go build -v -tags production ./...",
                &["go", "build", "-v", "-tags", "production", "./..."],
            ),
            ("make 'a b' \"c d\" e\\ f", &["make", "a b", "c d", "e f"]),
            ("make 'a && b' \"x > y\" '$(z)' \\;", &["make", "a && b", "x > y", "$(z)", ";"]),
            ("make \"a \\$ b\" ''", &["make", "a $ b", ""]),
            ("  make\tCC=gcc  a~b a#b {a,b}  ", &["make", "CC=gcc", "a~b", "a#b", "{a,b}"]),
        ] {
            assert_eq!(words(command).unwrap(), wanted, "{command}");
        }
    }

    #[test]
    fn shell_syntax_is_refused() {
        for (command, wanted) in [
            ("make && make install", "several commands (&, |, ;) (character 6)"),
            ("make; ls", "several commands"),
            ("make | tee log", "several commands"),
            ("make &", "several commands"),
            ("make > log", "redirections"),
            ("make 2>&1", "redirections"),
            ("make $(nproc)", "variables or commands"),
            ("make -j`nproc`", "variables or commands"),
            ("make \"$HOME\"", "variables or commands"),
            ("(make)", "groups of commands"),
            ("gcc *.c", "patterns of file names"),
            ("make ~/x", "a home directory"),
            ("make # now", "comments"),
            ("make\nls", "several lines"),
            ("make \\\nall", "several lines"),
            ("make 'x", "without its end"),
            ("make x\\", "without its end"),
            ("", "empty"),
            ("  ", "empty"),
            ("GOOS=linux go build", "variables can't be set"),
            ("'' x", "must start with a program"),
        ] {
            let error = words(command).unwrap_err();
            assert_eq!(error.code, "InvalidCommand");
            assert!(error.message.contains(wanted), "{command}: {}", error.message);
        }
    }
}
