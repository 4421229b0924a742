//! Agents of Python frameworks, each with a model that follows a script: the same session for all,
//! by the framework's example in `docs/mcp.md` and over HTTP.

use std::process::Command;

use serde_json::{Value, json};

use super::server::{SERVE, Server};
use super::{installed, script};
use crate::support::{Ended, Place, built};

/// The file that the session edits, before and after.
const BEFORE: &str = "import os\nx = 1\n";
const AFTER: &str = "x = 1\n";

/// The response to the request that ends a session, in revisions that have them.
const ENDED: &str = "HTTP/1.1 204 No Content";

#[test]
fn fastmcp_follows_the_script() {
    follow_the_script("fastmcp", "python", &[]);
}

#[test]
fn pydantic_ai_follows_the_script() {
    follow_the_script("pydantic_ai", "python", &[]);
}

#[test]
fn openai_agents_follow_the_script() {
    follow_the_script("openai_agents", "python", &[]);
}

#[test]
fn langchain_follows_the_script() {
    follow_the_script("langchain", "langchain", &[ENDED]);
}

/// A call and its answer.
struct Step {
    tool: &'static str,
    arguments: Value,
    /// The text that a model gets.
    text: String,
    /// The structured answer; null if the call fails.
    structured: Value,
}

impl Step {
    /// A call whose text is its structured answer.
    fn plain(tool: &'static str, arguments: Value, structured: Value) -> Self {
        Self { tool, arguments, text: structured.to_string(), structured }
    }

    /// Two errors of one tool would end the run of pydantic-ai, so no match is none.
    fn without_a_match(pattern: &str) -> Self {
        let why = format!(
            "no match for '{pattern}' in 1 file(s) below '.'. Try a broader pattern, or other files"
        );
        Self::plain(
            "grep",
            json!({"pattern": pattern, "output_mode": "content"}),
            json!({
                "output_mode": "content",
                "matches": [],
                "total_files": 0,
                "total_matches": 0,
                "notice": {"code": "NoMatches", "message": why},
            }),
        )
    }

    fn read(place: &Place, content: &str) -> Self {
        let path = place.workspace().join("project/a.py");
        let size = content.len();
        Self {
            tool: "read_file",
            arguments: json!({"path": "a.py"}),
            text: format!("{}\n{content}", json!({"path": path, "size": size})),
            structured: json!({"path": path, "content": content, "size": size}),
        }
    }

    /// Checks the parts of the answer that the framework shows.
    fn check(&self, answer: &Value) {
        let text = answer["text"].as_str().unwrap();
        let fails = self.structured.is_null();
        // pydantic-ai gives its model the structured answer, the others give the text.
        let is_structured = serde_json::from_str(text).is_ok_and(|json: Value| {
            json == if fails { json!({"error": self.text}) } else { self.structured.clone() }
        });
        assert!(text == self.text || is_structured, "{} {}: {answer}", self.tool, self.arguments);
        for (shown, wanted) in
            [(&answer["failed"], &json!(fails)), (&answer["structured"], &self.structured)]
        {
            assert!(shown.is_null() || shown == wanted, "{} {}: {answer}", self.tool, wanted);
        }
    }
}

fn steps(place: &Place) -> Vec<Step> {
    vec![
        Step::without_a_match("nothing_like_this"),
        Step::without_a_match("nor_like_this"),
        Step::read(place, BEFORE),
        Step::plain(
            "atomic_replace",
            json!({"path": "a.py", "replacements": [{"old_string": "import os\n", "new_string": ""}]}),
            json!({
                "path": "a.py",
                "changed": true,
                "replacements_applied": 1,
                "details": [{"old_string_preview": "import os", "status": "applied"}],
            }),
        ),
        Step {
            tool: "read_file",
            arguments: json!({"path": "missing.py"}),
            text: "FileNotFoundError: file not found: missing.py".to_owned(),
            structured: Value::Null,
        },
        Step::read(place, AFTER),
    ]
}

/// Starts the framework's client from `environment`; `ended` are the responses to its requests that
/// end a session.
#[expect(clippy::disallowed_methods, reason = "clients are not a part of the host")]
fn follow_the_script(framework: &str, environment: &str, ended: &[&str]) {
    let places = [Place::new(), Place::new()];
    for place in &places {
        place.write("project/a.py", BEFORE);
    }
    let [piped, served] = &places;
    let server = Server::started(served.command(SERVE).args(["-C", "project"]));
    let calls = steps(piped).into_iter().map(|step| {
        let Step { tool, arguments, .. } = step;
        json!({"tool": tool, "arguments": arguments})
    });
    let wanted = json!({"calls": calls.collect::<Vec<_>>(), "url": server.url("/mcp")});
    let mut command = Command::new(installed(environment).join("bin/python"));
    command.arg(script("frameworks.py")).args([framework, &wanted.to_string()]);
    command.current_dir(piped.workspace()).env_clear();
    let ended_with = Ended::of(command.env("HOME", piped.home()).env("PATH", built()));
    assert_eq!(ended_with.status, 0, "{ended_with:?}");
    let said = ended_with.json();
    // The libraries have nothing to complain about, not even at the end of a session.
    assert_eq!(said["logged"], json!([]), "{said}");
    assert_eq!(said["ended"], json!(ended), "{said}");
    for (session, place) in said["sessions"].as_array().unwrap().iter().zip(&places) {
        check_session(session, place);
    }
}

fn check_session(session: &Value, place: &Place) {
    assert_eq!(sorted(&session["tools"]), offered(place));
    let answers = session["answers"].as_array().unwrap();
    let steps = steps(place);
    assert_eq!(answers.len(), steps.len(), "{session}");
    for (step, answer) in steps.iter().zip(answers) {
        step.check(answer);
    }
    assert_eq!(place.read("project/a.py"), AFTER);
    let undone = place.run(&["undo", "-C", "project"]);
    assert_eq!((undone.status, place.read("project/a.py").as_str()), (0, BEFORE), "{undone:?}");
}

/// The names of the tools that the command lists for the default role.
fn offered(place: &Place) -> Vec<String> {
    let listed =
        place.run(&["tools", "-C", "project", "--role", "coder", "--format", "mcp"]).json();
    let tools = listed["tools"].as_array().unwrap().iter();
    sorted(&json!(tools.map(|tool| tool["name"].clone()).collect::<Vec<_>>()))
}

fn sorted(names: &Value) -> Vec<String> {
    let names = names.as_array().unwrap().iter();
    let mut names: Vec<String> = names.map(|name| name.as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}
