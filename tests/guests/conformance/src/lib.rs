//! The tools that the MCP conformance suite calls by name, as far as this host can have them: they
//! return JSON, fail, report progress, log. Asking the user first is the operator's setting and not
//! a tool's. Some work for a second or longer, so that their calls become tasks. Two more tools: one never
//! ends, for calls that are cancelled, and one ends when a file exists.

use std::path::Path;
use std::time::Duration;

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

    fn say_slowly(args: Value, context: &Context) -> Result<Value, ToolError> {
        std::thread::sleep(A_WHILE);
        Self::say(args, context)
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
    test_elicitation = say,
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
    test_tool_with_task = say_slowly,
    test_image_content,
    test_audio_content,
    test_embedded_resource,
    test_multiple_content_types,
    wait,
    until,
});
