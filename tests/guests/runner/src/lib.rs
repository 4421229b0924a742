//! A guest that runs the programs in its arguments and returns the results.

use std::collections::BTreeMap;

use cofferdam_sdk::process::{self, Changes, Command, End, Error};
use cofferdam_sdk::{Context, ToolError, plugin};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Args {
    program: String,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    directory: String,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    #[serde(default)]
    stdin: String,
    #[serde(default)]
    timeout_ms: u32,
    #[serde(default)]
    changes: Kept,
    /// Path and content of a file that is written before.
    write: Option<(String, String)>,
    /// Whether the call fails at the end, even if the program succeeded.
    #[serde(default)]
    fail: bool,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum Kept {
    #[default]
    None,
    Discard,
    Keep,
}

struct Runner;

impl Runner {
    fn run(args: Args, context: &Context) -> Result<Value, ToolError> {
        if let Some((path, content)) = &args.write {
            context.write(&context.resolve(path)?, content.as_bytes())?;
        }
        let command = Command {
            program: args.program,
            arguments: args.arguments,
            directory: args.directory,
            environment: args.environment.into_iter().collect(),
            stdin: args.stdin.into_bytes(),
            timeout_ms: args.timeout_ms,
            changes: match args.changes {
                Kept::None => Changes::None,
                Kept::Discard => Changes::Discard,
                Kept::Keep => Changes::Keep,
            },
        };
        let answer = match process::run(&command, context) {
            Ok(output) => json!({
                "end": match &output.end {
                    End::Exited(code) => json!({ "exited": code }),
                    End::Signalled(signal) => json!({ "signalled": signal }),
                    End::TimedOut => json!("timed out"),
                    End::Limit(limit) => json!({ "limit": limit }),
                },
                "stdout": shown(&output.end, output.stdout_text()),
                "stderr": shown(&output.end, output.stderr_text()),
                "total": output.stdout.total,
                "workspace": output.workspace,
                "cache": process::cache_directory(context),
            }),
            Err(error) => {
                let (kind, message) = match error {
                    Error::Denied(message) => ("denied", message),
                    Error::NotFound(message) => ("not found", message),
                    Error::Unavailable(message) => ("unavailable", message),
                    Error::Invalid(message) => ("invalid", message),
                    Error::Changes(message) => ("changes", message),
                    Error::Failed(message) => ("failed", message),
                };
                json!({ "error": kind, "message": message })
            }
        };
        if args.fail {
            return Err(ToolError::failed("Told", answer.to_string()));
        }
        Ok(answer)
    }
}

/// The output; only its beginning if the program was stopped, since it may be longer than an answer
/// may be.
fn shown(end: &End, text: String) -> String {
    match end {
        End::Exited(_) => text,
        End::Signalled(_) | End::TimedOut | End::Limit(_) => text.chars().take(1_000).collect(),
    }
}

plugin!(Runner { run, run_read = run });
