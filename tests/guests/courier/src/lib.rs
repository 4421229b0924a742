//! A guest that takes the steps in its arguments, each a word with its arguments, and returns what
//! came of each: it reads files in all ways that there are, and sends requests.

#[cfg(target_family = "wasm")]
mod late;

use std::fs;

use cofferdam_sdk::http::Request;
use cofferdam_sdk::questions::{Answer, ask};
use cofferdam_sdk::scan::{Scanner, query};
use cofferdam_sdk::{Context, ToolError, cache, consent, plugin, process};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Args {
    steps: Vec<Vec<String>>,
}

struct Courier;

impl Courier {
    fn go(args: Args, context: &Context) -> Result<Value, ToolError> {
        let take = |step: &Vec<String>| {
            let words: Vec<&str> = step.iter().map(String::as_str).collect();
            match take(&words, context) {
                Ok(text) => text,
                Err(error) => format!("error: {error}"),
            }
        };
        Ok(json!({ "results": args.steps.iter().map(take).collect::<Vec<_>>() }))
    }
}

/// Takes one step.
fn take(step: &[&str], context: &Context) -> Result<String, String> {
    let own = |path: &str| format!("/workspace/{path}");
    let io = |error: std::io::Error| error.to_string();
    let tool = |error: ToolError| error.to_string();
    match *step {
        ["read", path] => fs::read_to_string(own(path)).map_err(io),
        ["write", path, text] => {
            fs::write(own(path), text).map(|()| "written".to_owned()).map_err(io)
        }
        ["rename", from, to] => {
            fs::rename(own(from), own(to)).map(|()| "renamed".to_owned()).map_err(io)
        }
        ["copy", from, to] => {
            let (from, to) =
                (context.resolve(from).map_err(tool)?, context.resolve(to).map_err(tool)?);
            context.copy(&from, &to).map(|()| "copied".to_owned()).map_err(tool)
        }
        ["list", path] => {
            let entries = fs::read_dir(own(path)).map_err(io)?;
            let names =
                entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
            Ok(names.collect::<Vec<_>>().join(" "))
        }
        ["scan", root, how] => scan(root, how == "following", context),
        ["put", key, value] => cache::put(key, value.as_bytes())
            .map(|()| "put".to_owned())
            .map_err(|error| format!("{error:?}")),
        ["get", key] => Ok(cache::get(key)
            .map_or("nothing".to_owned(), |value| String::from_utf8_lossy(&value).into_owned())),
        ["send", url, body] => send(url, body),
        ["consent", class, key] => {
            let answer = consent::request(class, key).map(|()| "yes".to_owned());
            Ok(answer.unwrap_or_else(|error| error.code))
        }
        // What the user types.
        ["ask", message] => Ok(typed(message)),
        ["write-answer", path, message] => {
            let typed = typed(message);
            fs::write(own(path), &typed).map_err(io)?;
            Ok(typed)
        }
        // Counts how many of these keys are granted.
        ["consents", class, count] => {
            let count: usize = count.parse().unwrap_or(0);
            let is_granted = |number| consent::request(class, &format!("key {number}")).is_ok();
            Ok((0..count).filter(|number| is_granted(*number)).count().to_string())
        }
        ["long-consent", class, bytes] => {
            let key = "x".repeat(bytes.parse().unwrap_or(0));
            Ok(consent::request(class, &key).map_or("no", |()| "yes").to_owned())
        }
        ["run", program, ref arguments @ ..] => {
            let output = process::run(&process::command(program, arguments), context);
            output
                .map(|output| output.stdout_text() + &output.stderr_text())
                .map_err(|error| format!("{error:?}"))
        }
        #[cfg(target_family = "wasm")]
        ["late", url, path] => late::send(url, &own(path)),
        _ => Err(format!("no step: {step:?}")),
    }
}

/// What the user types when asked; the code, if they can't be asked.
fn typed(message: &str) -> String {
    let form = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    match ask::<Value>(message, form) {
        Ok(Answer::Accepted(content)) => content["text"].as_str().unwrap_or("").to_owned(),
        Ok(Answer::Declined) => "declined".to_owned(),
        Ok(Answer::Cancelled) => "cancelled".to_owned(),
        Err(error) => error.code,
    }
}

/// The contents of all files below a directory.
fn scan(root: &str, follow_links: bool, context: &Context) -> Result<String, String> {
    let root = context.resolve(root).map_err(|error| error.to_string())?;
    let mut query = query(&root);
    (query.hidden, query.ignore_files, query.follow_links) = (true, false, follow_links);
    let scan = Scanner::open(&query).map_err(|error| error.to_string())?;
    let mut text = String::new();
    scan.each(|_, bytes| {
        text.push_str(&String::from_utf8_lossy(bytes));
        true
    });
    Ok(text)
}

/// Posts a text, and follows redirects.
fn send(url: &str, body: &str) -> Result<String, String> {
    let mut request = Request::get(url);
    request.method = "POST".to_owned();
    request.body = body.as_bytes().to_vec();
    let response = request.send().map_err(|error| error.to_string())?;
    match response.header("location") {
        Some(other) if response.status == 302 => send(other, body),
        _ => Ok(response.status.to_string()),
    }
}

plugin!(Courier { go });
