//! What a user's approval covers: the inputs of the call must not have changed since, and it must
//! be made under the role for which the user was asked.

use std::fs::{self, FileTimes};
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use super::http::{document, result};
use super::server::{Request, Server};
use crate::support::Place;
use crate::trial::configure;

const SETTINGS: &str = "ask = ['shell.*', 'build.*', 'files.write_file', 'files.read_file']
[grants.shell]
files = 'write'
process = ['bash']
[grants.builders]
files = 'write'
process = ['make']
[roles.coder]
tools = ['*']
[roles.one]
tools = ['shell.*', 'files.*']
[roles.two]
tools = ['shell.*', 'files.*']
";

/// A project with a script and a Makefile, each part of which appends to the file `ran` when it
/// runs.
fn place(tier: &str) -> Place {
    let place = Place::new();
    configure(&place, &format!("{SETTINGS}[programs]\ntier = '{tier}'\n"));
    place.write("script.sh", ". ./lib/part.sh; echo shown >> ran\n");
    place.write("lib/part.sh", "true\n");
    place.write("other.sh", "echo unseen >> ran\n");
    place.write("Makefile", "include lib/more.mk\nall:\n\techo shown >> ran\n");
    place.write("lib/more.mk", "X = 1\n");
    symlink("script.sh", place.workspace().join("link.sh")).unwrap();
    place
}

/// A tool call by a client that can ask the user, with the state of an earlier question and the
/// user's answer.
fn call(path: &str, tool: &str, arguments: &Value, answer: Option<(&str, &str)>) -> Request {
    let mut params = json!({"name": tool, "arguments": arguments});
    if let Some((state, action)) = answer {
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"approval": {"action": action, "content": {}}});
    }
    let can = json!({"elicitation": {}});
    Request::post(path, "tools/call", &params)
        .with_meta("io.modelcontextprotocol/clientCapabilities", &can)
}

/// Makes a call that needs approval, and returns the state of the question.
fn question(server: &Server, path: &str, tool: &str, arguments: &Value) -> String {
    let (_, _, body) = server.ask(&call(path, tool, arguments, None));
    let state = result(&body)["requestState"].take();
    state.as_str().unwrap_or_else(|| panic!("{body}")).to_owned()
}

/// The result of approving a question.
fn yes(server: &Server, path: &str, tool: &str, arguments: &Value, state: &str) -> Value {
    let (_, _, body) = server.ask(&call(path, tool, arguments, Some((state, "accept"))));
    document(&body)
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

fn calls() -> [(&'static str, Value); 3] {
    [
        ("shell__run_command", json!({"command": "sh link.sh"})),
        ("shell__bash", json!({"command": "sh script.sh"})),
        ("build__build_project", json!({"framework": "make"})),
    ]
}

/// A path, and a change of it while the question is open.
type Meanwhile = (&'static str, fn(&Path));

const CHANGES: [Meanwhile; 7] = [
    ("script.sh", |root| fs::write(root.join("script.sh"), "echo unseen >> ran\n").unwrap()),
    ("Makefile", |root| {
        fs::write(root.join("Makefile"), "all:\n\techo unseen >> ran\n").unwrap();
    }),
    ("lib/part.sh", |root| {
        // The new content has the same size, and the file gets its old time of change.
        let path = root.join("lib/part.sh");
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "fals\n").unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(modified)).unwrap();
    }),
    ("lib/more.mk", |root| {
        let fresh = root.join("fresh");
        fs::write(&fresh, "X = 2\n").unwrap();
        fs::rename(fresh, root.join("lib/more.mk")).unwrap();
    }),
    ("sitecustomize.py", |root| fs::write(root.join("sitecustomize.py"), "").unwrap()),
    ("link.sh", |root| {
        fs::remove_file(root.join("link.sh")).unwrap();
        symlink("other.sh", root.join("link.sh")).unwrap();
    }),
    (".git/config", |root| {
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join(".git/config"), "[core]\n").unwrap();
    }),
];

#[test]
fn an_approval_covers_everything_that_a_program_could_read() {
    for tier in ["A", "B"] {
        for (tool, arguments) in calls() {
            for (named, change) in CHANGES {
                let place = place(tier);
                let server = Server::new(&place, &[]);
                let state = question(&server, "/mcp", tool, &arguments);
                change(&place.workspace());
                let answer = yes(&server, "/mcp", tool, &arguments, &state);
                let said = text(&answer);
                assert!(said.starts_with("ApprovalOutdated: "), "{tier} {tool} {named}: {said}");
                assert!(said.contains(named), "{tier} {tool} {named}: {said}");
                assert!(!place.workspace().join("ran").exists(), "{tier} {tool} {named}");
                // Each question can be answered only once.
                let again = yes(&server, "/mcp", tool, &arguments, &state);
                assert_eq!(again["error"]["code"], -32602, "{again}");
            }
        }
    }
}

#[test]
fn an_approved_program_runs_if_nothing_changed() {
    for tier in ["A", "B"] {
        for (tool, arguments) in calls() {
            let place = place(tier);
            let server = Server::new(&place, &[]);
            let state = question(&server, "/mcp", tool, &arguments);
            // Neither reads nor the host's own files are changes.
            place.read("script.sh");
            let list = Request::post(
                "/mcp",
                "tools/call",
                &json!({"name": "files__glob", "arguments": {"pattern": "**"}}),
            );
            assert_eq!(server.ask(&list).0, 200);
            let answer = yes(&server, "/mcp", tool, &arguments, &state);
            assert_eq!(answer["result"]["isError"], false, "{tier} {tool}: {answer}");
            assert_eq!(place.read("ran"), "shown\n", "{tier} {tool}");
        }
    }
}

/// The change happens while the program is running.
#[test]
fn a_change_while_an_approved_program_runs_discards_its_work() {
    for tier in ["A", "B"] {
        let place = place(tier);
        let server = Server::new(&place, &[]);
        let arguments = json!({"command": "echo begun >&2; sleep 3; sh script.sh"});
        let state = question(&server, "/mcp", "shell__run_command", &arguments);
        let script = place.workspace().join("script.sh");
        let editor = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(1500));
            fs::write(script, "echo unseen >> ran\n").unwrap();
        });
        let answer = yes(&server, "/mcp", "shell__run_command", &arguments, &state);
        editor.join().unwrap();
        assert!(text(&answer).starts_with("ApprovalOutdated: "), "{tier}: {answer}");
        assert!(!place.workspace().join("ran").exists(), "{tier}");
    }
}

/// For a tool that only reads, the user sees its arguments; the approval is outdated if the file has
/// changed since.
#[test]
fn an_approved_read_is_refused_after_a_change() {
    let place = place("A");
    let server = Server::new(&place, &[]);
    let arguments = json!({"path": "script.sh"});
    let state = question(&server, "/mcp", "files__read_file", &arguments);
    let answer = yes(&server, "/mcp", "files__read_file", &arguments, &state);
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let state = question(&server, "/mcp", "files__read_file", &arguments);
    place.write("script.sh", "other");
    let answer = yes(&server, "/mcp", "files__read_file", &arguments, &state);
    assert!(text(&answer).starts_with("ApprovalOutdated: "), "{answer}");
}

#[test]
fn a_question_is_answered_under_its_own_role_only() {
    let place = place("A");
    let token = place.home_file("token");
    fs::write(&token, "a-long-secret\n").unwrap();
    let server = Server::new(&place, &["--token-file", token.to_str().unwrap()]);
    let post = |path: &str, tool: &str, arguments: &Value, answer: Option<(&str, &str)>| {
        let request = call(path, tool, arguments, answer);
        document(&server.ask(&request.with("Authorization", "Bearer a-long-secret")).2)
    };
    let run = json!({"command": "sh script.sh"});
    let write = json!({"path": "new", "content": "x"});
    for (short, whole, arguments) in
        [("run_command", "shell__run_command", &run), ("write_file", "files__write_file", &write)]
    {
        for (asked, others) in
            [("/mcp/one", ["/mcp/two", "/mcp"]), ("/mcp", ["/mcp/one", "/mcp/two"])]
        {
            let tool = |path: &str| if path == "/mcp" { whole } else { short };
            let asking = post(asked, tool(asked), arguments, None);
            let state = &asking["result"]["requestState"];
            let state = state.as_str().unwrap_or_else(|| panic!("{asking}"));
            for other in others {
                for action in ["accept", "decline"] {
                    let answer = post(other, tool(other), arguments, Some((state, action)));
                    assert_eq!(answer["error"]["code"], -32602, "{other}: {answer}");
                    let message = answer["error"]["message"].as_str().unwrap();
                    assert!(message.contains("open question"), "{message}");
                }
            }
            assert!(
                !place.workspace().join("ran").exists() && !place.workspace().join("new").exists()
            );
            // The question is still open.
            let answer = post(asked, tool(asked), arguments, Some((state, "accept")));
            assert_eq!(answer["result"]["isError"], false, "{asked}: {answer}");
            for made in ["ran", "new"] {
                let _ = fs::remove_file(place.workspace().join(made));
            }
        }
    }
}

/// In a session, the answer is a separate message; a session of another role can't answer.
#[test]
fn a_session_of_one_role_can_not_answer_another_roles_question() {
    let place = place("A");
    let server = Server::new(&place, &[]);
    let begin = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let old = |path: &str, body: &Value| {
        let request = Request::post(path, "x", &json!({})).with_body(&body.to_string());
        request.without("Mcp-Method").with("MCP-Protocol-Version", "2025-06-18")
    };
    let (_, head, _) = server.ask(&old("/mcp/one", &begin));
    let id = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {}}});
    for path in ["/mcp/two", "/mcp"] {
        let (status, _, body) = server.ask(&old(path, &answer).with("Mcp-Session-Id", id));
        assert_eq!(status, 404, "{path}: {body}");
    }
}

/// The client of a revision without sessions makes the call again with each answer.
#[test]
fn consent_is_asked_by_the_result_of_the_call() {
    let place = Place::new();
    let create =
        json!({"path": "a.db", "create": true, "sql": "CREATE TABLE t (a); CREATE TABLE u (a)"});
    assert_eq!(place.run(&["call", "sqlite.execute_sql", &create.to_string()]).status, 0);
    configure(
        &place,
        "[grants.sqlite.consent]\ndrop = { ask = ['*'] }\n[roles.coder]\ntools = ['*']\n",
    );
    let before = fs::read(place.workspace().join("a.db")).unwrap();
    let server = Server::new(&place, &[]);
    let args = json!({"path": "a.db", "sql": "DROP TABLE t; DROP TABLE u"});
    let tool = "sqlite__execute_sql";
    let first = question(&server, "/mcp", tool, &args);
    let again = |state: &str, action: &str| {
        let (_, _, body) = server.ask(&call("/mcp", tool, &args, Some((state, action))));
        result(&body)
    };
    let mut second = again(&first, "accept");
    let state = second["requestState"].take();
    let asked = second["inputRequests"].to_string();
    assert!(asked.contains("a.db: u") && !asked.contains("a.db: t"), "{asked}");
    assert!(fs::read(place.workspace().join("a.db")).unwrap() == before);
    let done = again(state.as_str().unwrap(), "accept");
    assert_eq!(done["isError"], false, "{done}");
    assert!(fs::read(place.workspace().join("a.db")).unwrap() != before);

    let args = json!({"path": "a.db", "create": true, "sql": "CREATE TABLE t (a); DROP TABLE t"});
    let state = question(&server, "/mcp", tool, &args);
    let (_, _, body) = server.ask(&call("/mcp", tool, &args, Some((&state, "decline"))));
    let refused = result(&body);
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused.to_string().contains("the person said no"), "{refused}");
}
