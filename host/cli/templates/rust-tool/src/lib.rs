//! What the host calls: JSON in, JSON or an error out. The tool itself is in `greet.rs`.

mod greet;

// Generated from the WIT files.
wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use cofferdam::tool::types::{CallContext, ErrorKind, ToolError};

struct Plugin;

impl exports::cofferdam::tool::tools::Guest for Plugin {
    /// The host has checked `args` against the tool's input schema.
    fn call(name: String, args: String, _: CallContext) -> Result<String, ToolError> {
        match name.as_str() {
            "greet" => {
                let args = serde_json::from_str(&args).map_err(|error| {
                    error_of(ErrorKind::InvalidArgs, "InvalidArguments", &error.to_string())
                })?;
                let greeting = greet::greet(&args).map_err(|greet::BlankName| {
                    error_of(ErrorKind::InvalidArgs, "BlankName", "the name is blank; say whom to greet")
                })?;
                serde_json::to_string(&greeting)
                    .map_err(|error| error_of(ErrorKind::Failed, "NoJson", &error.to_string()))
            }
            _ => Err(error_of(ErrorKind::NotFound, "UnknownTool", &format!("no tool '{name}'"))),
        }
    }
}

/// `code` is a stable name that agents branch on; the message says what would be right.
fn error_of(kind: ErrorKind, code: &str, message: &str) -> ToolError {
    ToolError { kind, code: code.to_owned(), message: message.to_owned(), detail: None }
}

export!(Plugin);
