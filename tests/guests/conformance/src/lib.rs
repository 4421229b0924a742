//! The tools that the MCP conformance suite calls by name, as far as this host can have them: they
//! return JSON, fail, report progress, log, ask the user. That a call needs approval first is the operator's
//! setting and not a tool's. Some work for a second or longer, so that their calls become tasks. Two more tools: one never
//! ends, for calls that are cancelled, and one ends when a file exists.

use std::path::Path;
use std::time::Duration;

use cofferdam_sdk::questions::{Answer, Question, ask, ask_all};
use cofferdam_sdk::{Context, ToolError, log, plugin, progress};
use serde::Deserialize;
use serde_json::{Value, json};

struct Conformance;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wait {
    how: How,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum How {
    Compute,
    Sleep,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Greet {
    name: String,
}

#[derive(Deserialize)]
struct Slow {
    seconds: u64,
}

/// Longer than a request waits before its call becomes a task.
const A_WHILE: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Until {
    file: String,
}

impl Conformance {
    fn say(_: Value, _: &Context) -> Result<Value, ToolError> {
        Ok(json!({"text": "This is a simple text response for testing."}))
    }

    fn test_error_handling(_: Value, _: &Context) -> Result<Value, ToolError> {
        Err(ToolError::failed("Told", "This tool intentionally returns an error for testing"))
    }

    fn test_tool_with_progress(args: Value, context: &Context) -> Result<Value, ToolError> {
        for done in [0, 50, 100] {
            progress::report(done, Some(100), "testing");
        }
        Self::say(args, context)
    }

    fn test_logging_tool(args: Value, context: &Context) -> Result<Value, ToolError> {
        log::emit(log::Level::Error, "This is for the operator, and for no client");
        Self::say(args, context)
    }

    fn greet(args: Greet, _: &Context) -> Result<Value, ToolError> {
        Ok(json!(format!("Hello, {}!", args.name)))
    }

    fn slow_compute(args: Slow, context: &Context) -> Result<Value, ToolError> {
        progress::report(1, None, "computing");
        std::thread::sleep(Duration::from_secs(args.seconds));
        Self::say(Value::Null, context)
    }

    fn failing_job(args: Value, context: &Context) -> Result<Value, ToolError> {
        std::thread::sleep(A_WHILE);
        Self::test_error_handling(args, context)
    }

    #[expect(clippy::disallowed_methods, reason = "a plugin that crashes")]
    fn protocol_error_job(_: Value, _: &Context) -> Result<Value, ToolError> {
        std::thread::sleep(A_WHILE);
        std::process::abort()
    }

    fn test_tool_with_task(_: Value, _: &Context) -> Result<Value, ToolError> {
        let answer = ask::<Value>("What is your name?", name_form())?;
        std::thread::sleep(A_WHILE);
        Ok(told(&[answer]))
    }

    fn multi_input(_: Value, _: &Context) -> Result<Value, ToolError> {
        let both = ["What is your first name?", "What is your second name?"];
        let both = both.map(|message| Question::new(message, name_form()));
        Ok(told(&ask_all(&both)?))
    }

    fn test_elicitation(args: Message, _: &Context) -> Result<Value, ToolError> {
        let form = json!({
            "type": "object",
            "properties": {
                "username": {"type": "string", "description": "User's response"},
                "email": {"type": "string", "description": "User's email address"},
            },
            "required": ["username", "email"],
        });
        Ok(told(&[ask::<Value>(&args.message, form)?]))
    }

    fn test_elicitation_sep1034_defaults(_: Value, _: &Context) -> Result<Value, ToolError> {
        let form = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {
                    "type": "string",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": {"type": "boolean", "default": true},
            },
        });
        Ok(told(&[ask::<Value>("Is this right?", form)?]))
    }

    fn test_elicitation_sep1330_enums(_: Value, _: &Context) -> Result<Value, ToolError> {
        let titled = |value: &str, title: &str| json!({"const": value, "title": title});
        let options = ["option1", "option2", "option3"];
        let titles =
            [titled("value1", "First"), titled("value2", "Second"), titled("value3", "Third")];
        let form = json!({
            "type": "object",
            "properties": {
                "untitledSingle": {"type": "string", "enum": options},
                "titledSingle": {"type": "string", "oneOf": titles},
                "legacyEnum": {
                    "type": "string",
                    "enum": ["opt1", "opt2", "opt3"],
                    "enumNames": ["Option One", "Option Two", "Option Three"],
                },
                "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
                "titledMulti": {"type": "array", "items": {"anyOf": titles}},
            },
        });
        Ok(told(&[ask::<Value>("Which ones?", form)?]))
    }

    fn test_input_required_result_multi_round(_: Value, _: &Context) -> Result<Value, ToolError> {
        let color = json!({"type": "object", "properties": {"color": {"type": "string"}}});
        let first = ask::<Value>("Step 1: What is your name?", name_form())?;
        let second = ask::<Value>("Step 2: What is your favorite color?", color)?;
        Ok(told(&[first, second]))
    }

    /// Asks what the arguments say.
    fn ask_user(args: Asking, _: &Context) -> Result<Value, ToolError> {
        let question = |of: Asked| Question::new(of.message, of.form);
        let questions: Vec<Question> = args.questions.into_iter().map(question).collect();
        Ok(told(&ask_all(&questions)?))
    }

    fn test_image_content(_: Value, _: &Context) -> Result<Value, ToolError> {
        Ok(json!({"content": content("image/png")}))
    }

    fn test_audio_content(_: Value, _: &Context) -> Result<Value, ToolError> {
        Ok(json!({"content": content("audio/wav")}))
    }

    fn test_embedded_resource(_: Value, _: &Context) -> Result<Value, ToolError> {
        Ok(json!({"content": content("application/octet-stream")}))
    }

    fn test_multiple_content_types(_: Value, _: &Context) -> Result<Value, ToolError> {
        Ok(json!({"parts": [content("image/png"), content("text/csv")]}))
    }

    fn wait(args: Wait, _: &Context) -> Result<Value, ToolError> {
        progress::report(1, None, "waiting");
        loop {
            match args.how {
                How::Compute => std::hint::spin_loop(),
                How::Sleep => std::thread::sleep(Duration::from_secs(60)),
            }
        }
    }

    fn until(args: Until, _: &Context) -> Result<Value, ToolError> {
        progress::report(1, None, "waiting");
        let file = Path::new("/workspace").join(args.file);
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(json!({"text": "The guest that waited."}))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message {
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asking {
    questions: Vec<Asked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    message: String,
    form: Value,
}

fn name_form() -> Value {
    json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
}

/// The answers as text.
fn told(answers: &[Answer<Value>]) -> Value {
    let one = |answer: &Answer<Value>| match answer {
        Answer::Accepted(content) => format!("action=accept, content={content}"),
        Answer::Declined => "action=decline".to_owned(),
        Answer::Cancelled => "action=cancel".to_owned(),
    };
    json!({"text": answers.iter().map(one).collect::<Vec<_>>().join("; ")})
}

/// Content of a type; the bytes are as good as any.
fn content(mime_type: &str) -> Value {
    json!({"mime_type": mime_type, "data": "iVBORw0KGgo="})
}

plugin!(Conformance {
    test_simple_text = say,
    test_error_handling,
    test_tool_with_progress,
    test_logging_tool,
    test_reconnection = say,
    test_elicitation,
    test_elicitation_sep1034_defaults,
    test_elicitation_sep1330_enums,
    test_input_required_result_multi_round,
    multi_input,
    ask_user,
    test_streaming_elicitation = test_tool_with_progress,
    test_input_required_result_elicitation = say,
    test_input_required_result_request_state = say,
    test_input_required_result_tampered_state = say,
    test_missing_capability = say,
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete = say,
    test_tool_with_task,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    wait,
    until,
});
