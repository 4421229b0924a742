//! Real tools, which find the proxy and its authority by variables, against registries of the test.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{ended, ran, runner};
use crate::http::server::{Server, answer};

/// What each tool installs and prints: a package and the one that it depends on.
const WORDS: &str = "colder and warmer";

/// Programs and their commands.
const TOOLS: [(&str, &str); 4] = [
    (
        "npm",
        "echo '{}' > package.json && npm install --registry https://test.example/npm/ colder >&2 && \
         node -p 'require(\"colder\")'",
    ),
    (
        "pip3",
        "pip3 install -q --target here --index-url https://test.example/simple/ colder >&2 && \
         PYTHONPATH=here python3 -c 'import colder; print(colder.words)'",
    ),
    (
        "cargo",
        "mkdir src .cargo && echo 'fn main() { println!(\"{}\", colder::words()) }' > src/main.rs && \
         printf '[source.crates-io]\\nreplace-with = \"own\"\\n[source.own]\\nregistry = \
         \"sparse+https://test.example/index/\"\\n' > .cargo/config.toml && \
         printf '[package]\\nname = \"a\"\\nversion = \"1.0.0\"\\nedition = \"2021\"\\n' > Cargo.toml && \
         cargo add colder && cargo fetch && cargo run -q",
    ),
    ("git", "git clone -q https://test.example/git/a.git && cat a/words"),
];

/// A server of the files that `registry.py` writes.
#[expect(clippy::disallowed_methods, reason = "runs a script of the tests")]
fn registries(directory: &Path) -> Server {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/egress/registry.py");
    let mut python = Command::new("python3");
    let status =
        python.args([script.as_ref(), directory, "https://test.example".as_ref()]).status();
    assert!(status.unwrap().success());
    let directory = directory.to_owned();
    Server::new(move |head| {
        let path = head.split([' ', '?']).nth(1).unwrap_or_default();
        let place = directory.join(path.trim_matches('/'));
        let place = if place.is_dir() { place.join("index") } else { place };
        let kind = match path {
            path if path.starts_with("/simple/") => "text/html",
            path if path.starts_with("/npm/") => "application/json",
            _ => "application/octet-stream",
        };
        match std::fs::read(place) {
            Ok(bytes) => answer(200, &format!("Content-Type: {kind}\r\n"), &bytes),
            Err(_) => answer(404, "", path.as_bytes()),
        }
    })
}

#[test]
fn tools_install_packages_with_their_dependencies() {
    let directory = tempfile::tempdir().unwrap();
    let server = registries(directory.path());
    let trial = runner(&ended(&server, "methods = ['GET', 'HEAD']"));
    for (program, command) in TOOLS {
        let command = format!(
            "command -v {program} >/dev/null || {{ echo absent; exit 0; }}; cd $(mktemp -d) && {command}"
        );
        let output = ran(&trial, json!({"program": "bash", "arguments": ["-c", command]}));
        let stdout = output["stdout"].as_str().unwrap_or_default();
        assert!(stdout == format!("{WORDS}\n") || stdout == "absent\n", "{program}: {output}");
    }
    assert!(server.lines().iter().all(|line| line.starts_with("GET ")), "{:?}", server.lines());
}

/// A registry that the machine reaches, if the environment names one: `COFFERDAM_NPM_REGISTRY`, an
/// origin, with `COFFERDAM_NPM_ADDRESS` and `COFFERDAM_NPM_AUTHORITIES` where it is reached by another
/// address or has a certificate of an authority that is not public.
#[test]
#[expect(clippy::disallowed_methods, reason = "the registry that the machine reaches")]
fn a_real_registry_is_reached() {
    let variable = |name: &str| std::env::var(format!("COFFERDAM_NPM_{name}")).ok();
    let Some(origin) = variable("REGISTRY") else { return };
    let key = |name: &str, key: &str| {
        variable(name).map_or(String::new(), |value| format!(", {key} = '{value}'"))
    };
    let (address, authorities) = (key("ADDRESS", "address"), key("AUTHORITIES", "ca-file"));
    let trial = runner(&format!(
        "[[grants.runner.network]]\nprograms = ['bash']\nmethods = ['GET']\norigins = [{{ origin = \
         '{origin}'{address}{authorities} }}]\n"
    ));
    let command = format!(
        "cd $(mktemp -d) && echo '{{}}' > package.json && npm install --registry {origin}/ express >&2 && \
         node -p 'typeof require(\"express\")'"
    );
    let output = ran(&trial, json!({"program": "bash", "arguments": ["-c", command]}));
    assert_eq!(output["stdout"], "function\n", "{output}");
}
