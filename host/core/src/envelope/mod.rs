//! Converts text to calls and answers to text: the formats in which agents submit calls.
//!
//! Each dialect has a file for both directions. This module recognises the dialect of a document;
//! [`lenient`] finds the document in the text of a model. It does not know which tools exist:
//! [`cofferdam_engine::dispatch`] checks names and arguments.

mod actions;
mod content;
mod json;
mod lenient;
mod mistakes;
mod tool;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use content::{KEPT, Media, MediaKind, Parts, drop_parts, take_parts};
pub use json::MAX_VALUES;
pub use json::parse;
pub use json::{count, parse_answer, parse_counted, size};

use crate::outcome::{Failure, Outcome};
use crate::schema::{Problem, nearest};

/// How strictly the text around the document is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// The text is exactly one JSON document.
    Strict,
    /// The text is a JSON document within prose, code fences and reasoning. The document itself
    /// must be strict JSON.
    Lenient,
}

/// A recognised envelope format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// The actions reference: `{"actions": [{"type": ...}], "notes": ...}`.
    Actions,
    /// The tool schemas: `{"tool": ..., ...arguments}`.
    #[default]
    Tool,
}

/// The calls of one document.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope {
    /// The envelope without its calls.
    pub header: Header,
    /// The calls, at least one.
    pub calls: Vec<Call>,
}

/// An envelope without its calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The format of the envelope and of its answer.
    pub dialect: Dialect,
    /// The agent's remarks about its calls.
    pub notes: Option<String>,
    /// What lenient decoding removed.
    pub repairs: Vec<String>,
}

/// One tool call as written: only its shape is checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// JSON Pointer to the call in its envelope; empty if the envelope is the call.
    pub pointer: String,
    /// The tool's name as the agent wrote it.
    pub tool: String,
    /// The arguments of the call.
    pub args: Value,
}

/// The answer to one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The tool's name as the agent wrote it.
    pub tool: String,
    /// The message for a success in the actions reference, such as `file read`.
    pub done: String,
    /// How the call ended.
    pub outcome: Outcome,
    /// Warnings of the host about a successful call.
    pub warnings: Vec<String>,
}

/// The text is not an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct DecodeError {
    /// Everything that is wrong with it.
    pub problems: Vec<Problem>,
}

impl DecodeError {
    fn one(expected: &str, found: impl Into<String>) -> Self {
        let problem = Problem {
            pointer: String::new(),
            expected: expected.to_owned(),
            found: Some(found.into()),
            did_you_mean: None,
        };
        Self { problems: vec![problem] }
    }
}

/// A JSON document that was found in text.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The document as a value.
    pub value: Value,
    /// What lenient decoding removed around it.
    pub repairs: Vec<String>,
}

/// The description of a response with an output contract in place of an envelope. It has no calls,
/// so nothing runs.
const CONTRACT: &str = "a response with an ---OUTPUT--- block, of the dialect `contract`: `cofferdam contract parse AGENT` reads it";

/// The fields by which an envelope is recognised, and that of a pipeline's document, so that no
/// draft before it is used instead.
const KEYS: [&str; 3] = [actions::KEY, tool::KEY, "commands"];

/// Decodes an envelope from text.
///
/// # Errors
/// Returns an error if the text has no document, or if the document is not JSON, has no known
/// dialect, or does not have its dialect's shape.
pub fn decode(text: &str, mode: Mode) -> Result<Envelope, DecodeError> {
    let Document { value, repairs } = document(text, mode, &KEYS)?;
    let mut envelope = from_value(value)?;
    envelope.header.repairs = repairs;
    Ok(envelope)
}

/// Finds the document in text. In strict mode it is the whole text; in lenient mode it may also be
/// the last complete object with one of the fields `keys`.
///
/// # Errors
/// Returns an error if the text has none.
pub fn document(text: &str, mode: Mode, keys: &[&str]) -> Result<Document, DecodeError> {
    let strict = match parse(text) {
        Ok(value) => return Ok(Document { value, repairs: Vec::new() }),
        // The text begins with a document that exceeds a limit.
        Err(error) if json::is_beyond(&error) => return Err(not_json(text, &error)),
        Err(error) => not_json(text, &error),
    };
    match mode {
        Mode::Strict if lenient::has_contract_block(text) => {
            Err(DecodeError::one("an envelope", CONTRACT))
        }
        Mode::Strict => Err(strict),
        Mode::Lenient => lenient::find(text, keys, strict),
    }
}

/// Converts a JSON document to an envelope.
///
/// # Errors
/// Returns an error if it has no known dialect, or not its dialect's shape.
pub fn from_value(value: Value) -> Result<Envelope, DecodeError> {
    let Value::Object(object) = value else {
        return Err(no_object(&value));
    };
    match dialect(&object) {
        Some(Dialect::Actions) => actions::decode(object),
        Some(Dialect::Tool) => tool::decode(object),
        None if let Some(what) = pipeline_document(&object) => {
            let expected = "an envelope that runs by itself";
            Err(DecodeError::one(
                expected,
                format!(
                    "{what}, which runs only as part of a pipeline: `cofferdam pipeline \
                     --work-order FILE --designer FILE --qa FILE`"
                ),
            ))
        }
        None => {
            let keys: Vec<&str> = object.keys().map(String::as_str).take(8).collect();
            let mut error = DecodeError::one(
                r#"an envelope: {"actions": [{"type": "<tool>", ...}]} or {"tool": "<tool>", ...}"#,
                match keys.as_slice() {
                    [] => "an empty object".to_owned(),
                    keys => format!("an object with the fields {}", keys.join(", ")),
                },
            );
            error.problems[0].did_you_mean =
                keys.iter().find_map(|key| nearest(key, [actions::KEY, tool::KEY].into_iter()));
            Err(error)
        }
    }
}

/// Explains why a text is not one JSON document.
fn not_json(text: &str, error: &serde_json::Error) -> DecodeError {
    let document = text.trim_start();
    let start = text.len() - document.len();
    match json::parse_prefix(document) {
        Err(error) if document.starts_with(['{', '[']) => mistakes::explain(text, start, &error),
        _ => DecodeError::one("one JSON document", error.to_string()),
    }
}

/// Explains why a document is not an object.
fn no_object(value: &Value) -> DecodeError {
    match value {
        Value::Array(items) if lenient::is_list(value, &KEYS) => DecodeError::one(
            r#"one envelope; several calls go into {"actions": [{"type": "<tool>", ...}, ...]}"#,
            format!("an array of {} documents", items.len()),
        ),
        Value::String(text) if text.trim_start().starts_with('{') => DecodeError::one(
            "an envelope, which is a JSON object",
            "a string with one escaped into it",
        ),
        value => DecodeError::one("an envelope, which is a JSON object", kind(value)),
    }
}

/// Parses the arguments of a call without an envelope.
///
/// # Errors
/// Returns an error if the text is not one JSON object.
pub fn arguments(text: &str) -> Result<Value, DecodeError> {
    match parse(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(other) => Err(DecodeError::one("arguments, which are a JSON object", kind(&other))),
        Err(error) => {
            Err(DecodeError::one("arguments, which are one JSON object", error.to_string()))
        }
    }
}

/// Converts arguments that were parsed elsewhere. The other parser has to handle duplicate keys.
pub fn parsed_arguments(args: Map<String, Value>) -> Value {
    json::normal(Value::Object(args))
}

fn dialect(object: &Map<String, Value>) -> Option<Dialect> {
    if object.contains_key(actions::KEY) {
        Some(Dialect::Actions)
    } else if object.contains_key(tool::KEY) {
        Some(Dialect::Tool)
    } else {
        None
    }
}

/// Recognises a document of a pipeline, in the dialects `commands` and `decision`: its calls run
/// only together and after their checks ([`cofferdam_engine::pipeline`]). Source: the pipeline
/// commands.
fn pipeline_document(object: &Map<String, Value>) -> Option<&'static str> {
    object.get("commands").filter(|commands| commands.is_array())?;
    Some(if object.contains_key("decision") {
        "QA's output (the dialect 'decision')"
    } else {
        "a Designer's output (the dialect 'commands')"
    })
}

/// The result document of an envelope, in its own dialect.
pub fn results(header: &Header, answers: &[Answer]) -> Value {
    let mut document = match header.dialect {
        Dialect::Actions => actions::results(answers),
        Dialect::Tool => tool::results(answers),
    };
    if !header.repairs.is_empty() {
        document.insert("repairs".to_owned(), header.repairs.clone().into());
    }
    Value::Object(document)
}

/// The answer to a call without an envelope: the tool's own document for success or failure, or the
/// failure format of `dialect` if the tool has no failure document.
pub fn single(dialect: Dialect, has_failure_document: bool, answer: &Answer) -> Value {
    match &answer.outcome {
        Outcome::Executed(output) => output.clone(),
        Outcome::Failed(Failure { detail: Some(detail), .. }) if has_failure_document => {
            detail.clone()
        }
        Outcome::Failed(_) => match dialect {
            Dialect::Actions => actions::result(answer),
            Dialect::Tool => Value::Object(tool::results(std::slice::from_ref(answer))),
        },
    }
}

/// Makes the answer of a dialect: in the dialect `tool`, a search that found nothing or too much is a
/// failure, as the tool schemas say; elsewhere it has a result.
pub fn in_dialect(dialect: Dialect, answer: Answer) -> Answer {
    match dialect {
        Dialect::Actions => answer,
        Dialect::Tool => Answer { outcome: tool::adapted(answer.outcome), ..answer },
    }
}

/// Describes the type of a JSON value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Removes and returns a required field that must be a non-empty string.
fn take_name(object: &mut Map<String, Value>, key: &str, at: &str) -> Result<String, Problem> {
    let wrong = |found: String| Problem {
        pointer: format!("{at}/{key}"),
        expected: "the name of a tool".to_owned(),
        found: Some(found),
        did_you_mean: None,
    };
    match object.shift_remove(key) {
        Some(Value::String(name)) if !name.is_empty() => Ok(name),
        Some(Value::String(_)) => Err(wrong("an empty string".to_owned())),
        Some(other) => Err(wrong(kind(&other).to_owned())),
        None => Err(wrong("nothing".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::panic, clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::outcome::Status;
    use serde_json::json;

    fn tools(text: &str, mode: Mode) -> Result<Vec<String>, String> {
        decode(text, mode)
            .map(|envelope| envelope.calls.into_iter().map(|call| call.tool).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn strict_mode_accepts_one_document_of_a_known_dialect() {
        for (text, wanted) in [
            (r#"{"actions":[{"type":"a","x":1},{"type":"b"}],"notes":"n"}"#, vec!["a", "b"]),
            (r#" {"tool":"grep","pattern":"x"} "#, vec!["grep"]),
        ] {
            assert_eq!(tools(text, Mode::Strict).unwrap(), wanted, "{text}");
        }
        for (text, wanted) in [
            (
                "",
                "(root): expected one JSON document, found EOF while parsing a value at line 1 column 0",
            ),
            ("[]", "(root): expected an envelope, which is a JSON object, found an array"),
            (
                "```json\n{\"tool\":\"a\"}\n```",
                "(root): expected one JSON document, found expected value at line 1 column 1",
            ),
            (
                r#"{"action":[]}"#,
                r#"(root): expected an envelope: {"actions": [{"type": "<tool>", ...}]} or {"tool": "<tool>", ...}, found an object with the fields action; did you mean 'actions'?"#,
            ),
            (r#"{"actions":[]}"#, "/actions: expected at least one action, found an empty array"),
            (r#"{"actions":{}}"#, "/actions: expected an array of actions, found an object"),
            (
                r#"{"actions":[{"type":"a"}],"notess":"x"}"#,
                "/notess: expected the fields actions and notes only, found the unknown field 'notess'; did you mean 'notes'?",
            ),
            (
                r#"{"actions":[{"type":"a"}],"notes":1}"#,
                "/notes: expected a string, found a number",
            ),
            (
                r#"{"actions":[7,{"path":"x"},{"type":""}]}"#,
                "/actions/0: expected an action, which is a JSON object, found a number\n/actions/1/type: expected the name of a tool, found nothing\n/actions/2/type: expected the name of a tool, found an empty string",
            ),
            (r#"{"tool":1}"#, "/tool: expected the name of a tool, found a number"),
            (
                r#"{"tool":"a","tool":"b"}"#,
                "(root): expected one JSON document, found the key 'tool' stands here twice at line 1 column 18",
            ),
        ] {
            assert_eq!(tools(text, Mode::Strict).unwrap_err(), wanted, "{text}");
        }
    }

    #[test]
    fn lenient_mode_removes_surrounding_text() {
        let call = r#"{"tool":"a","text":"} </think> ``` {"}"#;
        for (text, repairs) in [
            (call.to_owned(), vec![]),
            (format!("\u{feff}{call}"), vec!["removed a byte order mark"]),
            (format!("```json\n{call}\n```"), vec!["removed a code fence"]),
            (
                format!("Sure:\n```\n{call}\n```\nDone."),
                vec![
                    "removed a code fence",
                    "removed text before the document",
                    "removed text after the document",
                ],
            ),
            (
                format!("<think>hm {{ {{\"tool\":\"draft\"}}</think>{call}"),
                vec!["removed reasoning"],
            ),
            (format!("hm {{\"tool\":\"draft\"}}</think>\n{call}"), vec!["removed reasoning"]),
            (format!("{{\"tool\":\"draft\"}}\n{call}"), vec!["left out 1 earlier document"]),
            (
                format!("{call}\n{{\"note\": \"no envelope\"}}"),
                vec!["removed text after the document"],
            ),
        ] {
            let envelope =
                decode(&text, Mode::Lenient).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(envelope.calls[0].tool, "a", "{text}");
            assert_eq!(envelope.calls[0].args, json!({"text": "} </think> ``` {"}), "{text}");
            assert_eq!(envelope.header.repairs, repairs, "{text}");
        }
    }

    #[test]
    fn lenient_mode_never_falls_back_to_a_draft() {
        for text in [
            "just prose",
            "{\"tool\": \"a\", ",
            "{'tool': 'a'}",
            "{\"tool\": \"a\"} and then {\"actions\": []}",
            "<think>{\"tool\": \"draft\"}</think> sorry, no",
        ] {
            assert!(decode(text, Mode::Lenient).is_err(), "{text}");
        }
    }

    #[test]
    fn nothing_runs_if_the_reasoning_was_cut_off() {
        let call = r#"{"tool": "write_file", "path": "a", "content": "x"}"#;
        for text in [
            format!("<think>I could run {call}"),
            format!("<think>\n{call}\n"),
            format!("<think>\n```json\n{call}\n```"),
            format!("<think>first {{\"tool\": \"draft\"}} so: {call}"),
            format!("<THINKING>{call}"),
            format!("{call}\n<think>no, rather"),
            format!("```json\n{call}\n```\n<think>wait"),
            format!("<think>hm</think>{call}<think>no"),
            format!("<think>hm</think><think>so: {call}"),
            format!("<reasoning>[{call}"),
        ] {
            let error = tools(&text, Mode::Lenient).unwrap_err();
            assert!(error.contains("reasoning without its closing tag"), "{text}: {error}");
        }
        for text in [
            format!("<think>hm</think>{call}"),
            format!("The tag `<think>` is never closed.\n{call}"),
            r#"{"tool": "write_file", "path": "a", "content": "<think>"}"#.to_owned(),
            r#"Sure: {"tool": "write_file", "path": "a", "content": "<think>"}"#.to_owned(),
        ] {
            assert_eq!(tools(&text, Mode::Lenient).unwrap(), ["write_file"], "{text}");
        }
    }

    #[test]
    fn pipeline_documents_are_no_envelopes() {
        let designer = r#"{"touched_files":[],"commands":[],"changed_signatures":[]}"#;
        let qa = r#"{"decision":"REJECTED","commands":[],"verification":null}"#;
        for (text, what) in [
            (designer.to_owned(), "a Designer's output (the dialect 'commands')"),
            (qa.to_owned(), "QA's output (the dialect 'decision')"),
            (format!("{{\"tool\":\"draft\"}} so: {designer}"), "a Designer's output"),
            (format!("```json\n{qa}\n```"), "QA's output"),
        ] {
            let error = tools(&text, Mode::Lenient).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
            assert!(error.contains("cofferdam pipeline --work-order FILE"), "{error}");
        }
        // The arguments of a tool may have any name.
        assert_eq!(tools(r#"{"tool":"a","commands":[]}"#, Mode::Strict).unwrap(), ["a"]);
    }

    #[test]
    fn hostile_text_costs_little() {
        for text in [
            "{".repeat(1 << 20),
            "{\"a\":[".repeat(1 << 17),
            "<think>".repeat(1 << 17),
            "{\"a\":{},".repeat(1 << 17),
        ] {
            assert!(decode(&text, Mode::Lenient).is_err());
        }
    }

    /// The largest allowed envelopes. Without limits, the first ones took 20 s each, and the tree
    /// of the lists 2.3 GB.
    #[test]
    fn no_text_takes_long_to_be_refused() {
        const SIZE: usize = 16 << 20;
        let fill = |before: &str, text: &str| {
            let times = (SIZE - before.len()) / text.len();
            format!("{before}{}", text.repeat(times))
        };
        let deep = format!("{}x ", "{\"tool\":".repeat(120));
        let closed = format!("so: {}1{}", "{\"a\":".repeat(1 << 20), "}".repeat(1 << 20));
        // Independent of the speed of this machine.
        let begun = std::time::Instant::now();
        assert!(json::skip(&fill("[", "{},")).is_err());
        let most = begun.elapsed() * 50 + std::time::Duration::from_secs(1);
        let mut slow = Vec::new();
        for (what, text) in [
            ("nested objects", fill("", "{\"a\":")),
            ("nested envelopes", fill("", "{\"tool\":")),
            ("nested objects after words", fill("so: ", "{\"a\":")),
            ("nested objects that are closed", closed),
            ("nested arrays", fill("", "[[{\"a\":")),
            ("many short attempts", fill("so: ", "{\"a\":[")),
            ("many broken envelopes", fill("so: ", &deep)),
            ("many envelopes", fill("so: ", "{\"tool\":1}\n")),
            ("many objects", fill("so: ", "{\"a\":{}} ")),
            ("one list of small values", fill("{\"tool\":\"a\",\"b\":[", "[],")),
            ("open strings", fill("so: ", "{\"a")),
            ("many fences", fill("", "```json\n{\n")),
            ("reasoning", fill("", "<think>")),
            ("reasoning that ends", fill("", "<think>{}</think>")),
            ("blank", fill("{", " ")),
        ] {
            let begun = std::time::Instant::now();
            assert!(decode(&text, Mode::Lenient).is_err(), "{what}");
            let took = begun.elapsed();
            if took > most {
                slow.push(format!("{what}: {took:?}"));
            }
        }
        assert!(slow.is_empty(), "more than {most:?}: {slow:?}");
    }

    #[test]
    fn values_and_depth_of_documents_are_limited() {
        let list =
            |items: usize| format!(r#"{{"tool":"a","b":[{}]}}"#, vec!["[]"; items].join(","));
        // The object, two names, a string and the list itself.
        assert!(decode(&list(MAX_VALUES - 5), Mode::Strict).is_ok());
        for mode in [Mode::Strict, Mode::Lenient] {
            let error = decode(&list(MAX_VALUES - 4), mode).unwrap_err().to_string();
            assert!(error.contains("more than 200000 values"), "{error}");
            let deep = format!(r#"{{"tool":"a","b":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
            let error = decode(&deep, mode).unwrap_err().to_string();
            assert!(error.contains("at most 127 levels"), "{error}");
        }
        // A large text with few values.
        let text = format!(r#"so: {{"tool":"a","b":"{}"}}"#, "x".repeat(15 << 20));
        assert!(decode(&text, Mode::Lenient).is_ok());
    }

    #[test]
    fn the_search_for_a_document_is_limited() {
        // The last document would be the answer, so no earlier one is used instead.
        let text = format!("{{\"tool\":\"draft\"}}\n{}", "{\"a\":[".repeat(1 << 20));
        let error = tools(&text, Mode::Lenient).unwrap_err();
        assert!(error.contains("too many beginnings"), "{error}");
    }

    #[test]
    fn results_have_the_format_of_the_dialect() {
        let failure = Failure::of_tool(Status::Error, "FileNotFoundError", "file not found: x");
        let answers = [
            Answer {
                tool: "read_file".into(),
                done: "file read".into(),
                outcome: Outcome::Executed(json!({"size": 1})),
                warnings: vec!["wrote .envrc".into()],
            },
            Answer {
                tool: "read_file".into(),
                done: "file read".into(),
                outcome: Outcome::Failed(failure),
                warnings: Vec::new(),
            },
        ];
        let envelope =
            decode(r#"{"actions":[{"type":"read_file"},{"type":"read_file"}]}"#, Mode::Strict)
                .unwrap();
        assert_eq!(
            results(&envelope.header, &answers),
            json!({"results": [
                {"action_type": "read_file", "status": "executed", "message": "file read", "metadata": {"size": 1},
                 "warnings": ["wrote .envrc"]},
                {"action_type": "read_file", "status": "error", "message": "file not found",
                 "metadata": {"outcome": "error", "code": "FileNotFoundError", "reason": "file not found: x"}}
            ]})
        );
        let envelope = decode(r#"{"tool":"read_file"}"#, Mode::Strict).unwrap();
        assert_eq!(
            results(&envelope.header, &answers[..1]),
            json!({"tool": "read_file", "status": "success", "result": {"size": 1},
                   "warnings": ["wrote .envrc"]})
        );
        assert_eq!(
            results(&envelope.header, &answers[1..]),
            json!({"tool": "read_file", "status": "error",
                   "error": {"outcome": "error", "code": "FileNotFoundError", "message": "file not found: x"}})
        );
    }

    #[test]
    fn a_search_without_a_match_is_a_failure_in_the_dialect_tool_only() {
        let searched = |code: &str| Answer {
            tool: "grep".into(),
            done: "files searched".into(),
            outcome: Outcome::Executed(json!({
                "files": [], "total_files": 0, "notice": {"code": code, "message": "no match for 'x'"}
            })),
            warnings: Vec::new(),
        };
        for (code, status) in [
            ("NoMatches", Some(Status::Error)),
            ("NoMatchesFound", Some(Status::Error)),
            ("TooManyMatches", Some(Status::Limit)),
            ("TooManyResults", Some(Status::Limit)),
            ("Other", None),
        ] {
            let answer = searched(code);
            assert_eq!(in_dialect(Dialect::Actions, answer.clone()), answer);
            let adapted = in_dialect(Dialect::Tool, answer.clone());
            match status {
                Some(status) => {
                    let failure = Failure::of_tool(status, code, "no match for 'x'");
                    assert_eq!(adapted.outcome, Outcome::Failed(failure));
                }
                None => assert_eq!(adapted, answer),
            }
        }
        let plain = Answer { outcome: Outcome::Executed(json!({"files": ["a"]})), ..searched("") };
        assert_eq!(in_dialect(Dialect::Tool, plain.clone()), plain);
    }
}
