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

/// What a finding says about the use of tools, with its place in the script. Types that the checker
/// follows less well than the interpreter are let through, and so is what the script handles.
fn problem(finding: &Finding, look: &Check<'_, '_>, stubs: &Stubs) -> Option<(TextSize, String)> {
    let place = offset(look.code, finding.line.checked_sub(1)?, finding.column)?;
    let is_handled = look.handled.iter().any(|body| body.contains(place));
    if is_handled || look.rebinds || look.code.contains('\r') {
        return None;
    }
    let message = finding.message.as_str();
    if finding.code == "invalid-argument-type" {
        return argument(message, place, look);
    }
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let of_async = quoted.iter().any(|kind| kind.starts_with("CoroutineType"));
    let is_async = ["invalid-await", "not-iterable", "not-subscriptable", "unresolved-attribute"];
    if of_async && (is_async.contains(&&*finding.code) || finding.code == "unsupported-operator") {
        return Some((place, not_awaited()));
    }
    if message.contains(" in union") || message.contains(" may not ") {
        return None;
    }
    if quoted.iter().any(|kind| *kind == "|=" || is_uncertain(kind)) {
        return None;
    }
    let said = match (finding.code.as_str(), quoted.as_slice()) {
        ("invalid-key", [dict, ..]) if message.starts_with("Unknown key ") => {
            let key = message.split('"').nth(1)?;
            let dict = stubs.dicts.get(*dict)?;
            (!look.stored.contains(key)).then(|| no_key(key, dict))?
        }
        ("unresolved-attribute", [of, name]) if message.starts_with("Object of type") => {
            if OF_FAILURES.contains(name) || OF_DICTS.contains(name) {
                return None;
            }
            match stubs.dicts.get(*of) {
                Some(dict) if dict.keys.iter().any(|key| key == name) => {
                    format!("a result of {} is a dict: write [\"{name}\"]", dict.tool)
                }
                Some(dict) => no_key(name, dict),
                None => of_a_call(finding, place, look).then(|| message.to_owned())?,
            }
        }
        ("unsupported-operator" | "not-iterable", _) => {
            of_a_call(finding, place, look).then(|| message.to_owned())?
        }
        _ => return None,
    };
    Some((place, said))
}

/// Whether a finding is about an expression in which a tool is called, whose type is exact.
fn of_a_call(finding: &Finding, start: TextSize, look: &Check<'_, '_>) -> bool {
    let end = || {
        let line = finding.end_line?.checked_sub(1)?;
        offset(look.code, line, finding.end_column?)
    };
    let Some(range) = end().filter(|end| *end > start).map(|end| TextRange::new(start, end)) else {
        return false;
    };
    look.tool_calls.iter().any(|call| range.contains_range(*call))
}

/// Whether a value of a type may be of several, or is of a type whose values become JSON of another.
fn is_uncertain(kind: &str) -> bool {
    const OTHER: [&str; 10] = [
        "Path",
        "PosixPath",
        "PurePath",
        "PurePosixPath",
        "dict_",
        "enumerate[",
        "filter[",
        "map[",
        "reversed[",
        "zip[",
    ];
    let has_word = |word: &str| {
        kind.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
    };
    kind.contains(" | ")
        || has_word("object")
        || has_word("Unknown")
        || has_word("Any")
        || OTHER.iter().any(|other| kind.starts_with(other))
        || kind.starts_with("tuple[")
        || is_choice(kind)
}

/// Whether a type is one of several constants: `Literal["a", 1]`.
fn is_choice(kind: &str) -> bool {
    let Some((_, constants)) = kind.split_once("Literal[") else { return false };
    let mut quote = None;
    let mut is_escaped = false;
    constants.chars().any(|c| {
        match (quote, c) {
            _ if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ',') => return true,
            _ => {}
        }
        false
    })
}

/// What a finding says about an argument of a tool.
fn argument(message: &str, place: TextSize, look: &Check<'_, '_>) -> Option<(TextSize, String)> {
    let argument = look.arguments.iter().find(|argument| argument.range.start() == place)?;
    let (expected, found) = message.split_once("Expected `")?.1.split_once("`, found `")?;
    let found = found.trim_end_matches('`');
    if found.starts_with("CoroutineType") {
        return Some((argument.value, not_awaited()));
    }
    // A text or a number of which nothing more is known may be one of the constants.
    let has_constants = expected.contains("Literal[");
    if is_uncertain(found) || (has_constants && !found.starts_with("Literal[")) {
        return None;
    }
    let found = if has_constants { found } else { of_literal(found) };
    Some((argument.value, format!("{} is {}, and not {found}", argument.name, argument.wanted)))
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
