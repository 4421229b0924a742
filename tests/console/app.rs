//! The app of MCP that shows held changes, in Chromium, driven by `tests/browser/app.mjs`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::json;

use super::browser::modules;
use super::{Console, proposal};
use crate::mcp::server::{Request, Server};
use crate::programs;
use crate::support::{Place, built, project};

#[test]
#[expect(clippy::disallowed_methods, reason = "the browser is not a part of the host")]
fn held_changes_are_shown_inside_of_a_client() {
    let Some(chromium) = programs::find("chromium") else { return };
    let place = Place::new();
    place.write("a.txt", "one\n");
    let given = json!({
        "modules": modules(),
        "chromium": chromium,
        "command": [built().join("cofferdam"), "serve", "--hold", "--quiet"],
        "directory": place.workspace(),
        "environment": {"HOME": place.home()},
        "files": [
            ["a.txt", "two\n"],
            [".envrc", "export A=1\n"],
            ["<img src=x onerror=alert(1)>\u{202e}.txt", "<script>alert(1)</script>\u{202e}\n"],
        ],
    });
    let mut browser = Command::new(programs::find("node").unwrap())
        .arg(project().join("tests/browser/app.mjs"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = browser.stdin.take().unwrap();
    writeln!(to, "{given}").unwrap();
    let mut console = None;
    for line in BufReader::new(browser.stdout.take().unwrap()).lines() {
        assert_eq!(place.read("a.txt"), "one\n");
        let id = proposal(&place);
        if line.unwrap() == r#"{"want":"console"}"# {
            let open = console.insert(Console::open(&place));
            writeln!(to, "http://{}/open?proposal={id}", open.address).unwrap();
            continue;
        }
        let shown = place.run(&["review", "show", &id]).json();
        let view = shown["view"].as_str().unwrap();
        let accepted = place.run(&["review", "accept", &id, "--view", view]);
        assert_eq!(accepted.status, 0, "{}", accepted.stderr);
        writeln!(to).unwrap();
    }
    assert!(browser.wait().unwrap().success());
    assert_eq!(place.read("a.txt"), "two\n");
}

#[test]
fn a_client_without_a_session_is_not_shown_the_page() {
    let place = Place::new();
    let server = Server::new(&place, &["--hold"]);
    let knows_apps = json!({
        "extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
    });
    let list = Request::post("/mcp", "tools/list", &json!({}))
        .with_meta("io.modelcontextprotocol/clientCapabilities", &knows_apps);
    let (status, _, body) = server.ask(&list);
    assert!(status == 200 && body.contains("write_file") && !body.contains("ui://"), "{body}");
}
