//! Checks by the type checker: values of the wrong type, keys that a result does not have, calls that are
//! not awaited. The checker is a backend of the host, which runs it in an instance of its own.
//!
//! Of what it finds, only what fails in any case counts: a value that may be of several types, of which
//! one is right, is let through.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::linting::Finding;
use ruff_text_size::{TextRange, TextSize};

use crate::calls::nearest;
use crate::check::Check;
use crate::stubs::{Dict, Stubs};

/// The module of the stubs.
const STUBS: &str = "tools__";

/// The note about a machine without the checker.
const NO_CHECKER: &str =
    "types were not checked: no plugin here has a checker for Python (ty has one)";

/// The attributes of failures, which a handler of any exception may read.
const OF_FAILURES: [&str; 3] = ["code", "message", "detail"];

/// What every dict has besides its keys.
const OF_DICTS: [&str; 6] = ["clear", "pop", "popitem", "setdefault", "update", "copy"];

/// An argument of a call of a tool.
#[derive(Debug)]
pub struct Argument {
    /// The keyword with its value.
    pub range: TextRange,
    /// Where the value begins.
    pub value: TextSize,
    /// The tool and the keyword: `files.read_file: path`.
    pub name: String,
    /// The type that it has to have.
    pub wanted: String,
}

/// Checks the types of a script that uses tools. Returns each problem with its place, and a note if the
/// script could not be checked.
pub fn check(
    look: &mut Check<'_, '_>,
    variables: &[String],
) -> (Vec<(TextSize, String)>, Option<String>) {
    let mut stubs = Stubs::default();
    for (module, functions) in &look.used {
        let signature = |tool: &str| look.calls.signature(tool).clone();
        stubs.add_module(module, functions, look.is_async, signature);
    }
    let script = format!("from {STUBS} import *\n{}", look.code);
    let sources =
        [("script.py".to_owned(), script), (format!("{STUBS}.pyi"), stubs.text(variables.iter()))];
    match look.calls.check(&sources) {
        None => (Vec::new(), Some(NO_CHECKER.to_owned())),
        Some(Err(error)) => {
            let (Error::Unavailable(why)
            | Error::Invalid(why)
            | Error::Limit(why)
            | Error::Failed(why)) = error;
            (Vec::new(), Some(format!("types were not checked: {why}")))
        }
        Some(Ok(findings)) => {
            let problem = |finding: &Finding| problem(finding, look, &stubs);
            (findings.iter().filter_map(problem).collect(), None)
        }
    }
}

/// What a finding says about the use of tools, with its place in the script.
fn problem(finding: &Finding, look: &Check<'_, '_>, stubs: &Stubs) -> Option<(TextSize, String)> {
    let place = offset(look.code, finding.line.checked_sub(1)?, finding.column)?;
    let message = finding.message.as_str();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let may_be_right = message.contains(" | ") || message.contains(" in union");
    let said = match finding.code.as_str() {
        "invalid-argument-type" => return argument(message, place, look),
        "invalid-key" => {
            let key = message.split('"').nth(1)?;
            let dict = stubs.dicts.get(quoted.next()?)?;
            (!look.stored.contains(key)).then(|| no_key(key, dict))?
        }
        _ if may_be_right => return None,
        "unresolved-attribute" => {
            let (of, name) = (quoted.next()?, quoted.next()?);
            if OF_FAILURES.contains(&name) || OF_DICTS.contains(&name) {
                return None;
            }
            match stubs.dicts.get(of) {
                Some(dict) if dict.keys.iter().any(|key| key == name) => {
                    format!("a result of {} is a dict: write [\"{name}\"]", dict.tool)
                }
                Some(dict) => no_key(name, dict),
                None if of.starts_with("CoroutineType") => not_awaited(),
                None => message.to_owned(),
            }
        }
        "not-subscriptable" | "unsupported-operator" | "not-iterable" | "invalid-await" => {
            match message.contains("`CoroutineType") {
                true => not_awaited(),
                false => message.to_owned(),
            }
        }
        _ => return None,
    };
    Some((place, said))
}

/// What a finding says about an argument of a tool.
fn argument(message: &str, place: TextSize, look: &Check<'_, '_>) -> Option<(TextSize, String)> {
    let argument =
        look.arguments.iter().rfind(|argument| argument.range.contains_inclusive(place))?;
    let found = message.rsplit("found ").next()?.trim_matches('`');
    // A text or a number of which nothing more is known may be one of the constants.
    let is_known = !argument.wanted.contains('"') || found.starts_with("Literal[");
    let is_certain = is_known && !found.contains(" | ") && !found.contains("Unknown");
    let said = match found.starts_with("CoroutineType") {
        true => not_awaited(),
        false => {
            let found = if argument.wanted.contains('"') { found } else { of_literal(found) };
            format!("{} is {}, and not {found}", argument.name, argument.wanted)
        }
    };
    is_certain.then_some((argument.value, said))
}

/// The type of a constant, `Literal[1]`; other types as they are.
fn of_literal(found: &str) -> &str {
    match found.strip_prefix("Literal[").and_then(|constant| constant.chars().next()) {
        None => found,
        Some('"' | '\'') => "str",
        Some('b') => "bytes",
        Some('T' | 'F') => "bool",
        Some(_) => "int",
    }
}

fn no_key(key: &str, dict: &Dict) -> String {
    let Dict { tool, keys } = dict;
    match nearest(key, keys.iter().map(String::as_str)) {
        Some(near) => format!("a result of {tool} has no key '{key}'; did you mean '{near}'?"),
        None => format!("a result of {tool} has no key '{key}'; it has {}", keys.join(", ")),
    }
}

fn not_awaited() -> String {
    "the call is not awaited: a script that uses `await` anywhere awaits every call of a tool, as in \
     (await files.read_file(path=...))[\"content\"]"
        .to_owned()
}

/// The offset of a line and a column, both counted from 1, the column in characters.
fn offset(code: &str, line: u32, column: u32) -> Option<TextSize> {
    let (line, column) = (usize::try_from(line).ok()?, usize::try_from(column).ok()?);
    let text = code.split_inclusive('\n').nth(line.checked_sub(1)?)?;
    let start: usize = code.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let within = text.char_indices().nth(column.checked_sub(1)?).map_or(text.len(), |(at, _)| at);
    TextSize::try_from(start + within).ok()
}
