//! `cofferdam submit`: submits an envelope to a fleet, and waits for its result.

use std::time::{Duration, Instant};

use hyper::Method;
use hyper::header::AUTHORIZATION;
use serde_json::Value;

use super::args::Submit;
use super::output::Output;
use super::{CliError, exit, fleet, setup};
use cofferdam_core::outcome::Status;
use cofferdam_fleet::queue::{QueueError, Request as QueueRequest};
use cofferdam_mcp::Submitted;
use cofferdam_plugin::http::{Client, Request};
use cofferdam_plugin::source::Address;

/// The largest result that is read, in bytes.
const MAX_RESULT_BYTES: u64 = 8 << 20;

/// The pause before an envelope is submitted again.
const PAUSE: Duration = Duration::from_millis(500);

/// How long to wait for a message of the queue before the connection is looked at again.
const QUEUE_WAIT: Duration = Duration::from_secs(10);

pub fn execute(args: &Submit, output: &Output) -> Result<u8, CliError> {
    let envelope = setup::read_input(&args.file)?;
    let key = args.key.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let deadline = Instant::now() + Duration::from_secs(args.wait);
    let runtime = setup::current_thread_runtime()?;
    let result = match &args.url {
        Some(url) => runtime.block_on(by_http(url, args, (&key, envelope), deadline)),
        None => runtime.block_on(by_queue(args, (&key, envelope), deadline)),
    };
    let result = result?;
    output.document(&result)?;
    Ok(status(&result))
}

/// Puts the envelope to a host, again and again until there is a result.
async fn by_http(
    url: &str,
    args: &Submit,
    (key, envelope): (&str, String),
    deadline: Instant,
) -> Result<Value, CliError> {
    let wrong = || CliError::usage(format!("'{url}' is no address such as http://127.0.0.1:8080"));
    let mut address = url::Url::parse(url).map_err(|_| wrong())?;
    let mut path = address.path_segments_mut().map_err(|()| wrong())?;
    path.pop_if_empty().extend(["workspaces", &args.name, "calls", key]);
    drop(path);
    if let Some(role) = &args.role {
        address.query_pairs_mut().append_pair("role", role);
    }
    let origin = address.origin().ascii_serialization().parse().map_err(CliError::usage)?;
    let address = Address { origin, path: address[url::Position::BeforePath..].to_owned() };
    let token = args.token_file.as_deref().map(setup::read_input).transpose()?;
    let client: Client = setup::client()?;
    loop {
        let mut request = Request::new(Method::PUT, address.clone());
        request.body = envelope.clone().into();
        if let Some(token) = &token {
            let value = format!("Bearer {}", token.trim());
            request = request.with(AUTHORIZATION, value);
        }
        let failed = match client.send(request, MAX_RESULT_BYTES).await {
            Ok(answer) if answer.status.is_success() => return parse(&answer.body),
            Ok(answer) => {
                let text = String::from_utf8_lossy(&answer.body).trim().to_owned();
                let error = CliError::call(format!("{}: {text}", answer.status));
                // Others do not go away.
                if !matches!(answer.status.as_u16(), 429 | 502 | 503 | 504) {
                    return Err(error);
                }
                error
            }
            Err(error) => CliError::call(error),
        };
        if Instant::now() + PAUSE >= deadline {
            return Err(failed.with_hint(again(key)));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Adds the envelope to the queue, and waits for the result.
async fn by_queue(
    args: &Submit,
    (key, envelope): (&str, String),
    deadline: Instant,
) -> Result<Value, CliError> {
    let missing = || CliError::usage("--queue or --url names the fleet");
    let settings = fleet::settings(&args.queue)?.ok_or_else(missing)?;
    let queue = fleet::connect(settings).await.map_err(CliError::call)?;
    let body = Submitted { envelope, role: args.role.clone() };
    let body = serde_json::to_value(body).map_err(CliError::host)?;
    let request = QueueRequest { key: key.to_owned(), workspace: args.name.clone(), body };
    let failed = |error| CliError::call(error).with_hint(again(key));
    queue.submit(&request).await.map_err(failed)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).min(QUEUE_WAIT);
        match queue.result(&args.name, key, left).await {
            Ok(Some(result)) => return parse(&result),
            Ok(None) => {}
            Err(error @ QueueError::TooLarge { .. }) => {
                let hint =
                    format!("a host returns it: submit the envelope with --key {key} --url URL");
                return Err(CliError::call(error).with_hint(hint));
            }
            Err(error) => return Err(failed(error)),
        }
        if left.is_zero() {
            let error = CliError::call(format!("there is no result after {} s", args.wait));
            return Err(error.with_hint(again(key)));
        }
    }
}

/// What to do if it is not known how the calls have ended.
fn again(key: &str) -> String {
    format!("they are made once only: submit the envelope again with --key {key}")
}

fn parse(result: &[u8]) -> Result<Value, CliError> {
    serde_json::from_slice(result)
        .map_err(|error| CliError::call(format!("the answer is no result document: {error}")))
}

/// The exit status of a result document: that of its most serious outcome.
fn status(result: &Value) -> u8 {
    if result.get("refused").is_some() {
        return exit::REFUSED;
    }
    let outcome = |failure: &Value| {
        let outcome = serde_json::from_value(failure["outcome"].clone());
        exit::of_status(outcome.unwrap_or(Status::Failed))
    };
    match result["results"].as_array() {
        Some(results) => {
            let failed = results.iter().filter(|result| result["status"] != "executed");
            failed.map(|result| outcome(&result["metadata"])).max().unwrap_or(exit::OK)
        }
        None if result["status"] == "success" => exit::OK,
        None => outcome(&result["error"]),
    }
}
