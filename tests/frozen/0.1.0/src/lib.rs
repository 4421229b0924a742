//! Reads a file, asks the host about it, logs, writes a file, answers; and fails in its own words.

// Generated from the WIT files.
wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use std::fs;
use std::path::Path;

use cofferdam::host::log::{Level, emit};
use cofferdam::host::files::is_executable;
use cofferdam::tool::types::{CallContext, ErrorKind, ToolError};

struct Plugin;

#[derive(serde::Deserialize)]
struct Count {
    path: String,
    to: String,
}

impl exports::cofferdam::tool::tools::Guest for Plugin {
    fn call(name: String, args: String, context: CallContext) -> Result<String, ToolError> {
        if name != "count" {
            return Err(error(ErrorKind::NotFound, "UnknownTool", &format!("no tool '{name}'")));
        }
        let args: Count = serde_json::from_str(&args)
            .map_err(|problem| error(ErrorKind::InvalidArgs, "InvalidArguments", &problem.to_string()))?;
        let root = Path::new("/workspace");
        let text = fs::read_to_string(root.join(&args.path))
            .map_err(|problem| error(ErrorKind::NotFound, "FileNotFound", &format!("{}: {problem}", args.path)))?;
        let executable = is_executable(&args.path)
            .map_err(|problem| error(ErrorKind::Failed, "NoFile", &format!("{problem:?}")))?;
        let lines = text.lines().count();
        fs::write(root.join(&args.to), format!("{lines}\n"))
            .map_err(|problem| error(ErrorKind::Denied, "NotWritten", &format!("{}: {problem}", args.to)))?;
        emit(Level::Info, &format!("{} has {lines} lines in {}", args.path, context.workspace));
        Ok(serde_json::json!({ "lines": lines, "executable": executable }).to_string())
    }
}

fn error(kind: ErrorKind, code: &str, message: &str) -> ToolError {
    ToolError { kind, code: code.to_owned(), message: message.to_owned(), detail: None }
}

export!(Plugin);
