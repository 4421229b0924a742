//! The README: every command block is run, in order, in one shell, on the files that the text has made,
//! and prints what the text says. Only `cargo` is a stand-in, which writes down its arguments: the demo
//! is run by the tests of `xtask`, and this test is run by `cargo xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex_lite::Regex;
use serde_json::{Value, json};

use crate::support::{Place, built, project};

/// The largest plugin in the archive of the test, in bytes. The README needs none of the larger ones.
const MAX_PLUGIN_BYTES: u64 = 10 << 20;

/// Commands that the README shows, with what they print; `None`: the text does not say.
struct Step {
    line: usize,
    script: String,
    output: Option<String>,
}

/// The commands of all blocks of a page. A block `sh` is one step; in a block `console`, each `$` begins
/// one, and a here-document is part of it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = page.lines().enumerate().map(|(number, line)| (number + 1, line));
    while let Some((line, fence)) = lines.next() {
        let Some(language) = fence.strip_prefix("```") else { continue };
        let block: Vec<(usize, &str)> = lines.by_ref().take_while(|(_, it)| *it != "```").collect();
        let joined = |block: &[(usize, &str)]| -> String {
            block.iter().map(|(_, line)| format!("{line}\n")).collect()
        };
        match language {
            "sh" => steps.push(Step { line, script: joined(&block), output: None }),
            "console" => {
                let begins = |(_, line): &(usize, &str)| line.starts_with("$ ");
                assert!(block.first().is_some_and(begins), "line {line}: begins without a command");
                let mut document = false;
                for (line, text) in block {
                    match (text.strip_prefix("$ "), steps.last_mut()) {
                        (Some(script), _) => {
                            document = script.ends_with("<<'END'");
                            let (script, output) = (format!("{script}\n"), Some(String::new()));
                            steps.push(Step { line, script, output });
                        }
                        (None, Some(step)) if document => {
                            step.script.push_str(&format!("{text}\n"));
                            document = text != "END";
                        }
                        (None, Some(Step { output: Some(output), .. })) => {
                            output.push_str(&format!("{text}\n"));
                        }
                        (None, _) => unreachable!("a block begins with a command"),
                    }
                }
            }
            "text" => {}
            other => {
                panic!("line {line}: blocks of the README are sh, console or text, not {other}")
            }
        }
    }
    steps
}

/// Makes the archive that the README unpacks, of the built command and its smaller plugins.
#[expect(clippy::disallowed_methods, reason = "starts tar")]
fn archive(directory: &Path) {
    let name = format!("cofferdam-{}-linux-x86_64", env!("CARGO_PKG_VERSION"));
    let plugins = directory.join(&name).join("lib/cofferdam/plugins");
    let commands = directory.join(&name).join("bin");
    fs::create_dir_all(&plugins).unwrap();
    fs::create_dir_all(&commands).unwrap();
    fs::copy(built().join("cofferdam"), commands.join("cofferdam")).unwrap();
    for plugin in fs::read_dir(built().join("plugins")).unwrap() {
        let plugin = plugin.unwrap();
        if plugin.metadata().unwrap().len() <= MAX_PLUGIN_BYTES {
            fs::copy(plugin.path(), plugins.join(plugin.file_name())).unwrap();
        }
    }
    let mut tar = Command::new("tar");
    tar.current_dir(directory).args(["--create", "--file", &format!("{name}.tar.gz"), &name]);
    assert!(tar.status().unwrap().success());
    fs::remove_dir_all(directory.join(name)).unwrap();
}

/// Replaces what differs between two runs: directories, ids and times.
fn comparable(text: &str, home: &Path) -> Value {
    let mut text = text.trim().replace(home.to_str().unwrap(), "/home/ada");
    for (pattern, name) in [
        ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME"),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Runs a script, with the user's home directory and `PATH`.
#[expect(clippy::disallowed_methods, reason = "the shell is what a reader uses")]
fn bash(home: &Path, path: &str, script: &str) -> String {
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(home).env_clear();
    let output = bash.env("HOME", home).env("PATH", path).output().unwrap();
    let (stdout, stderr) = (output.stdout, String::from_utf8_lossy(&output.stderr).into_owned());
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(stdout).unwrap()
}

/// A home directory with the downloaded archive, and the stand-in for `cargo`.
fn user(place: &Place) -> PathBuf {
    place.script("cargo", "echo \"$@\" >> ~/cargo-calls");
    let home = place.home().canonicalize().unwrap();
    archive(&home);
    home
}

#[test]
fn every_command_of_the_readme_is_run_in_order() {
    let readme = fs::read_to_string(project().join("README.md")).unwrap();
    let steps = steps(&readme);
    assert!(steps.len() >= 10, "{} steps", steps.len());
    let place = Place::new();
    let home = user(&place);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", home.display());
    let out = |number: usize| home.join(format!("output-{number}"));
    // A step that prints may be an example of a refusal; each other one has to succeed.
    let script = steps.iter().enumerate().map(|(number, Step { line, script, output })| {
        let (out, failing) = (out(number), if output.is_some() { " || true" } else { "" });
        format!("echo 'line {line}' >&2\n{{\n{script}}} >'{}'{failing}\n", out.display())
    });
    bash(&home, &path, &format!("set -e\n{}", script.collect::<String>()));
    for (number, step) in steps.iter().enumerate() {
        let printed = fs::read_to_string(out(number)).unwrap();
        if let Some(output) = &step.output {
            let (printed, wanted) = (comparable(&printed, &home), comparable(output, &home));
            assert_eq!(printed, wanted, "line {}: {}", step.line, step.script);
        }
    }
    let calls = fs::read_to_string(home.join("cargo-calls")).unwrap();
    assert_eq!(calls, "xtask demo\nxtask test\n");
    assert_tools_of_the_client(&home, &readme);
}

/// Starts the server as the client's configuration says, which the README has made.
fn assert_tools_of_the_client(home: &Path, readme: &str) {
    let config = fs::read_to_string(home.join("try/.mcp.json")).unwrap();
    let config: Value = serde_json::from_str(&config).unwrap();
    let server = &config["mcpServers"]["cofferdam"];
    assert_eq!((&server["command"], &server["args"]), (&json!("cofferdam"), &json!(["serve"])));
    let archive = format!("cofferdam-{}-linux-x86_64/bin", env!("CARGO_PKG_VERSION"));
    let path = format!("{}:/usr/bin:/bin", home.join(archive).display());
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "readme", "version": "1"},
        },
    });
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let lines = format!("{hello}\n{ready}\n{list}\n");
    fs::write(home.join("lines"), lines).unwrap();
    let answers = bash(home, &path, "cd ~/try && cofferdam serve < ~/lines");
    let mut answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let listed = answers.find(|answer| answer["id"] == 2).unwrap();
    let tools = listed["result"]["tools"].as_array().unwrap().len();
    assert!(readme.contains(&format!("It has {tools} more tools")), "{tools} tools are listed");
}

#[test]
fn blocks_are_read_as_steps() {
    let page =
        "```sh\na\nb\n```\n```console\n$ c\n1\n$ d <<'END'\nx\nEND\n$ e\n```\n```text\nno\n```\n";
    let found: Vec<(usize, String, Option<String>)> =
        steps(page).into_iter().map(|step| (step.line, step.script, step.output)).collect();
    let text = |text: &str| text.to_owned();
    assert_eq!(
        found,
        [
            (1, text("a\nb\n"), None),
            (6, text("c\n"), Some(text("1\n"))),
            (8, text("d <<'END'\nx\nEND\n"), Some(text(""))),
            (11, text("e\n"), Some(text(""))),
        ]
    );
}
