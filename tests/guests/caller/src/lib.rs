//! A guest that sends the requests in its arguments and returns the results. [`misuse`] uses the
//! interface in ways that no honest plugin does.

#[cfg(target_family = "wasm")]
mod misuse;

use std::time::Duration;

use cofferdam_sdk::http::{Error, Request};
use cofferdam_sdk::{Context, ToolError, plugin};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Send {
    url: String,
    #[serde(default = "get")]
    method: String,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    timeout_ms: Option<u64>,
    most: Option<usize>,
    #[serde(default = "once")]
    times: usize,
    #[serde(default, rename = "question")]
    _question: String,
    #[serde(default)]
    fail: bool,
}

fn get() -> String {
    "GET".to_owned()
}

fn once() -> usize {
    1
}

#[derive(Deserialize)]
struct Misuse {
    how: String,
    url: String,
}

struct Caller;

impl Caller {
    fn send(args: Send, _: &Context) -> Result<Value, ToolError> {
        let mut request = Request::get(args.url);
        request.method = args.method;
        request.headers = args.headers;
        request.body = args.body.into_bytes();
        request.timeout = args.timeout_ms.map(Duration::from_millis);
        request.most = args.most.unwrap_or(request.most);
        let mut sent = request.send();
        for _ in 1..args.times {
            sent = sent.and_then(|_| request.send());
        }
        match sent {
            Ok(response) => {
                let headers: Vec<(&str, String)> = response
                    .headers
                    .iter()
                    .map(|(name, value)| {
                        (name.as_str(), String::from_utf8_lossy(value).into_owned())
                    })
                    .collect();
                Ok(json!({
                    "status": response.status, "headers": headers, "body": response.text(),
                    "size": response.body.len(),
                }))
            }
            Err(error) if args.fail => Err(error.into()),
            Err(error) => {
                let kind = match &error {
                    Error::Denied(_) => "denied",
                    Error::Invalid(_) => "invalid",
                    Error::Timeout => "timeout",
                    Error::Unreachable(_) => "unreachable",
                    Error::TooLarge => "too large",
                    Error::Setup(_) => "setup",
                    Error::Failed(_) => "failed",
                };
                Ok(json!({"error": kind, "message": error.to_string()}))
            }
        }
    }

    #[cfg(target_family = "wasm")]
    fn misuse(args: Misuse, _: &Context) -> Result<Value, ToolError> {
        Ok(json!({ "got": misuse::run(&args.how, &args.url) }))
    }

    #[cfg(not(target_family = "wasm"))]
    fn misuse(args: Misuse, _: &Context) -> Result<Value, ToolError> {
        Err(ToolError::failed("NotHere", format!("{} {}", args.how, args.url)))
    }
}

plugin!(Caller { send, misuse });
