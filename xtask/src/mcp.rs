//! A client of the MCP server on standard input and output, for measurements.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// The revision of the protocol that needs no session.
const REVISION: &str = "2026-07-28";

/// A server in a process of its own, which ends with this value.
pub struct Client {
    server: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    id: u64,
}

impl Client {
    /// Starts a server by its command line.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        let mut server = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the server; run `cargo xtask build`")?;
        let requests = server.stdin.take().context("the server has no input")?;
        let answers = BufReader::new(server.stdout.take().context("the server has no output")?);
        Ok(Self { server, requests, answers, id: 0 })
    }

    /// The tools that the server lists, as JSON.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn tools(&mut self) -> Result<Value> {
        Ok(self.request("tools/list", json!({}))?["result"]["tools"].take())
    }

    /// Calls a tool; returns the result, or the error of the protocol.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let mut answer =
            self.request("tools/call", json!({"name": tool, "arguments": arguments}))?;
        let result = answer["result"].take();
        Ok(if result.is_null() { answer["error"].take() } else { result })
    }

    /// Reads a resource of text.
    ///
    /// # Errors
    /// If the server does not answer, or has no such text.
    pub fn read(&mut self, uri: &str) -> Result<String> {
        let answer = self.request("resources/read", json!({"uri": uri}))?;
        let text = answer["result"]["contents"][0]["text"].as_str();
        Ok(text.with_context(|| format!("{uri}: {answer}"))?.to_owned())
    }

    fn request(&mut self, method: &str, mut params: Value) -> Result<Value> {
        self.id += 1;
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": "xtask", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let id = self.id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.requests, "{request}")?;
        let mut line = String::new();
        while self.answers.read_line(&mut line)? > 0 {
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == id {
                return Ok(answer);
            }
            // A notification.
            line.clear();
        }
        bail!("the server has ended without an answer to {method}")
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// What a model gets: the text of all content blocks, links included.
pub fn shown(result: &Value) -> String {
    let Some(blocks) = result["content"].as_array() else { return result.to_string() };
    let text = |block: &Value| block["text"].as_str().map_or_else(|| block.to_string(), Into::into);
    blocks.iter().map(text).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_shown_the_text_of_all_blocks() {
        let link = json!({"type": "resource_link", "uri": "cofferdam://results/1"});
        let result = json!({"content": [{"type": "text", "text": "a\n"}, link]});
        assert_eq!(shown(&result), format!("a\n\n{link}"));
        let error = json!({"code": -32602, "message": "no tool"});
        assert_eq!(shown(&error), error.to_string());
    }
}
