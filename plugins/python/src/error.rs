//! Why a script failed, for the model that wrote it.

use std::fmt::Write as _;

use cofferdam_sdk::{ToolError, shorten};
use monty_types::{ExcType, MontyException, StackFrame};

use crate::calls::Calls;
use crate::printed::{MAX_PRINTED_BYTES, Printed};

/// The largest number of frames that are shown.
const MAX_FRAMES: usize = 8;

/// The largest size of a source line that is shown, in bytes.
const MAX_LINE_BYTES: usize = 200;

/// The largest size of an exception's text, in bytes.
const MAX_TEXT_BYTES: usize = 4_000;

/// How much is shown of what the script had printed, in bytes.
const MAX_PRINTED_SHOWN: usize = 1_000;

/// The code of a script that ends with an exception.
pub const SCRIPT_ERROR: &str = "ScriptError";

/// The code of a script that is not run, since it calls tools wrongly.
pub const SCRIPT_REFUSED: &str = "ScriptRefused";

/// What every message ends with.
const UNCHANGED: &str = "Nothing was changed.";

/// The error of a script that ends with an exception. `code` is the script as it was written.
pub fn of_exception(
    error: &MontyException,
    code: &str,
    calls: &Calls<'_>,
    printed: &Printed,
) -> ToolError {
    if printed.is_full() {
        return too_much_printed();
    }
    let text = error.message().unwrap_or_default();
    let kind = match calls.is_failure(text) {
        true => "ToolError".to_owned(),
        false => error.exc_type().to_string(),
    };
    let mut message = frames(error.traceback(), code);
    let _ = match text.is_empty() {
        true => writeln!(message, "{kind}"),
        false => writeln!(message, "{kind}: {}", shorten(text, MAX_TEXT_BYTES)),
    };
    if let Some(hint) = hint(error.exc_type(), text) {
        let _ = writeln!(message, "{hint}");
    }
    if !printed.text().is_empty() {
        let _ = writeln!(message, "It had printed: {}", tail(printed.text(), MAX_PRINTED_SHOWN));
    }
    message.push_str(UNCHANGED);
    ToolError::failed(SCRIPT_ERROR, message)
}

/// The error of a script that calls tools wrongly.
pub fn refused(problems: &[String]) -> ToolError {
    let message = format!("{}\nNothing was run.", problems.join("\n"));
    ToolError::invalid_args(SCRIPT_REFUSED, message)
}

/// The error of a script that printed too much.
pub fn too_much_printed() -> ToolError {
    let message = format!(
        "the script printed more than {} KiB; print less, or return what matters as the value of the \
         last line. {UNCHANGED}",
        MAX_PRINTED_BYTES >> 10
    );
    ToolError::limit("PrintLimit", message)
}

/// The error of a script whose value can't be returned.
pub fn no_json(what: &str) -> ToolError {
    let message = format!(
        "the value of the last line is no JSON: {what}. Return dicts, lists, strings, numbers, booleans \
         and None. {UNCHANGED}"
    );
    ToolError::failed(SCRIPT_ERROR, message)
}

/// The error of a script that made calls without awaiting them.
pub fn not_awaited(tool: &str, count: usize) -> ToolError {
    let others = match count {
        0 | 1 => String::new(),
        count => format!(" and {} more calls", count - 1),
    };
    let message = format!(
        "{tool}{others} was called without `await`, and so never made: a script that uses `await` \
         awaits every call of a tool. {UNCHANGED}"
    );
    ToolError::failed(SCRIPT_ERROR, message)
}

fn frames(frames: &[StackFrame], code: &str) -> String {
    let mut text = String::new();
    let left_out = frames.len().saturating_sub(MAX_FRAMES);
    for (index, frame) in frames.iter().enumerate() {
        if index == 1 && left_out > 0 {
            let _ = writeln!(text, "  ({left_out} more frames)");
        }
        if index > 0 && index <= left_out {
            continue;
        }
        let number = frame.start.line;
        let place = match &frame.frame_name {
            Some(name) if !frame.hide_frame_name => format!("line {number}, in {name}"),
            _ => format!("line {number}"),
        };
        let line = (number as usize).checked_sub(1).and_then(|index| code.lines().nth(index));
        let line = shorten(line.unwrap_or_default().trim(), MAX_LINE_BYTES);
        let _ = writeln!(text, "{place}: {line}");
    }
    text
}

/// What would be right, where the exception does not say it.
fn hint(kind: ExcType, text: &str) -> Option<&'static str> {
    match kind {
        ExcType::ModuleNotFoundError | ExcType::ImportError => Some(
            "Tools are not imported: files.read_file(path=...) works as it is. Of the standard library \
             there are json, re, math, datetime, collections, itertools, functools, dataclasses, \
             asyncio, base64 and typing.",
        ),
        ExcType::TypeError
            if ["coroutine", "awaitable", "future", "Future"]
                .iter()
                .any(|it| text.contains(it)) =>
        {
            Some(
                "A script that uses `await` awaits every call of a tool: \
                 (await files.read_file(path=...))[\"content\"].",
            )
        }
        ExcType::RecursionError => Some("At most 1,000 calls of functions nest."),
        _ => None,
    }
}

/// The end of a text.
fn tail(text: &str, most: usize) -> &str {
    let mut start = text.len().saturating_sub(most);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
