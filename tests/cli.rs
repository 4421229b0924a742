//! The command line as users type it: options, exit statuses, standard output and error, and the
//! files that a run leaves.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Ended, Place, built, copy_command, project};

/// An envelope of the dialect `actions`.
fn actions(actions: impl IntoIterator<Item = Value>) -> String {
    json!({ "actions": actions.into_iter().collect::<Vec<_>>() }).to_string()
}

fn read(path: &str) -> Value {
    json!({"type": "read_file", "path": path})
}

fn write(path: &str, content: &str) -> Value {
    json!({"type": "write_file", "path": path, "content": content})
}

impl Place {
    /// Runs an envelope of these actions with `options`.
    fn act(&self, options: &[&str], envelope: impl IntoIterator<Item = Value>) -> Ended {
        self.run_with(&[&["run"], options].concat(), &actions(envelope))
    }

    /// The names of everything in the workspace except the host's own directory.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.workspace()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".cofferdam").collect();
        names.sort();
        names
    }

    /// The records that `cofferdam log` prints with these options.
    fn log(&self, options: &[&str]) -> Vec<Value> {
        let ended = self.run(&[&["log"], options].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()["records"].as_array().unwrap().clone()
    }
}

/// The values of a field of each element.
fn each<'a>(elements: &'a [Value], field: &str) -> Vec<&'a str> {
    elements.iter().map(|element| element[field].as_str().unwrap_or("-")).collect()
}

fn array<'a>(document: &'a Value, pointer: &str) -> &'a [Value] {
    document.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("{document:#}"))
}

/// Asserts that `document` is valid by `schema`.
fn assert_valid(schema: &Value, document: &Value) {
    let validator =
        jsonschema::validator_for(schema).unwrap_or_else(|error| panic!("{error}: {schema}"));
    let errors: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
}

/// The subcommands that the help of `command` lists.
fn subcommands(place: &Place, command: &[&str]) -> Vec<String> {
    let help = place.run(&[command, &["--help"]].concat()).stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// All commands and subcommands.
const COMMANDS: [&str; 73] = [
    "",
    "backend",
    "backend compare",
    "backend list",
    "beads",
    "beads list",
    "beads show",
    "cache",
    "cache clear",
    "cache list",
    "call",
    "completions",
    "console",
    "contract",
    "contract check",
    "contract list",
    "contract parse",
    "contract prompt",
    "contract show",
    "doctor",
    "health",
    "inbox",
    "log",
    "man",
    "mcp",
    "mcp config",
    "pipeline",
    "plugin",
    "plugin catalogue",
    "plugin check",
    "plugin fetch",
    "plugin inspect",
    "plugin install",
    "plugin list",
    "plugin new",
    "plugin pack",
    "plugin push",
    "plugin remove",
    "plugin search",
    "plugin test",
    "plugin update",
    "policy",
    "policy accept",
    "policy explain",
    "policy grant",
    "policy revoke",
    "policy show",
    "report",
    "report summary",
    "review",
    "review accept",
    "review answer",
    "review interactive",
    "review reject",
    "review show",
    "role",
    "role list",
    "role prompt",
    "role show",
    "run",
    "schema",
    "script",
    "serve",
    "stats",
    "submit",
    "tools",
    "undo",
    "validate",
    "workspace",
    "workspace clone",
    "workspace log",
    "workspace pull",
    "workspace push",
];

#[test]
fn every_command_has_help_with_examples() {
    let place = Place::new();
    let mut seen = Vec::new();
    let mut pending = vec![Vec::new()];
    while let Some(command) = pending.pop() {
        let names: Vec<&str> = command.iter().map(String::as_str).collect();
        let ended = place.run(&[&names, &["--help"][..]].concat());
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{names:?}");
        let below = subcommands(&place, &names);
        // Commands with subcommands have their examples there.
        let is_group = !names.is_empty() && !below.is_empty();
        let example = format!("\nExamples:\n  cofferdam {}", names.join(" "));
        assert!(
            is_group || ended.stdout.contains(example.trim_end()),
            "{names:?}: {}",
            ended.stdout
        );
        seen.push(names.join(" "));
        pending.extend(below.into_iter().map(|name| [&command[..], &[name]].concat()));
    }
    seen.sort();
    assert_eq!(seen, COMMANDS);
}

#[test]
fn the_version_is_printed() {
    let ended = Place::new().run(&["--version"]);
    assert_eq!(
        (ended.status, ended.stdout),
        (0, format!("cofferdam {}\n", env!("CARGO_PKG_VERSION")))
    );
}

#[test]
fn the_exit_status_is_that_of_the_most_serious_outcome() {
    let place = Place::new();
    place.write("a", "A".repeat(2048));
    place.write("cofferdam.toml", "[limits]\noutput-kb = 1\n");
    let missing = || read("missing");
    for (options, envelope, status, outcomes) in [
        (&[][..], vec![read("a")], 0, &["-"][..]),
        (&[], vec![missing(), read("a")], 1, &["error", "-"]),
        (&["--role", "reader"], vec![missing(), write("b", "B")], 3, &["error", "denied"]),
        (&["--trust-workspace"], vec![missing(), read("a")], 4, &["error", "limit"]),
        (
            &["--trust-workspace", "--role", "reader"],
            vec![write("b", "B"), read("a")],
            4,
            &["denied", "limit"],
        ),
    ] {
        let ended = place.act(options, envelope);
        let results = ended.json();
        let found: Vec<Value> =
            array(&results, "/results").iter().map(|result| result["metadata"].clone()).collect();
        assert_eq!(each(&found, "outcome"), outcomes, "{options:?}");
        assert_eq!(ended.status, status, "{options:?}");
    }
    for args in [
        &["run", "--role", "nobody"][..],
        &["run", "none.json"],
        &["run", "--unknown-option"],
        &["unknown-command"],
        &[],
        &["run", "--quiet", "--verbose"],
        &["call"],
        &["call", "read_file", "{path: 1}"],
        &["tools", "reed_file"],
        &["schema", "nothing"],
        &["contract", "prompt", "nobody"],
        &["contract", "parse", "code-reviewer", "none.txt"],
        &["contract", "parse", "code-reviewer", "--attempt", "3"],
        &["contract", "parse", "code-reviewer", "--round", "0"],
        &["contract", "check", "nothing"],
        &["contract", "list", "--contracts", "none"],
        &["plugin", "inspect", "nothing"],
    ] {
        let ended = place.run_with(args, &actions([write("b", "B")]));
        assert_eq!(ended.status, 2, "{args:?}: {ended:?}");
    }
    assert_eq!(place.names(), ["a", "cofferdam.toml"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a copy of the command is what is tested")]
fn a_host_without_its_plugins_fails_as_a_host() {
    let place = Place::new();
    let binary = place.workspace().join("cofferdam");
    copy_command(&binary);
    let output = Command::new(&binary).arg("tools").env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: the built-in plugins are missing: looked in "), "{stderr}");
}

#[test]
fn an_envelope_comes_from_a_file_or_from_standard_input() {
    let place = Place::new();
    place.write("a", "A");
    let envelope = actions([read("a")]);
    place.write("below/envelope.json", &envelope);
    let wanted = place.run_with(&["run"], &envelope).json();
    assert_eq!(wanted["results"][0]["metadata"]["content"], "A");
    let workspace = place.workspace();
    let workspace = workspace.to_str().unwrap();
    for args in [
        &["run", "-"][..],
        &["run", "below/envelope.json"],
        &["-C", workspace, "run"],
        &["run", "--workspace", "below/..", "-"],
    ] {
        assert_eq!(place.run_with(args, &envelope).json(), wanted, "{args:?}");
    }
    let below = place.run_with(&["run", "-C", "below"], &actions([read("envelope.json")])).json();
    assert_eq!(below["results"][0]["metadata"]["content"], json!(envelope));
    place.write("latin1.json", b"{\"tool\": \"\xe9\"}");
    let ended = place.run(&["run", "latin1.json"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (2, ""));
    assert_eq!(ended.stderr, "error: latin1.json: not UTF-8 (first bad byte at offset 10)\n");
    let ended = place.run(&["run", "none.json"]);
    assert!(ended.stderr.starts_with("error: none.json: "), "{ended:?}");
}

#[test]
fn arguments_of_a_call_come_from_the_command_line_or_from_standard_input() {
    let place = Place::new();
    place.write("a", "A");
    let wanted = json!({"path": place.workspace().join("a"), "content": "A", "size": 1});
    let args = r#"{"path": "a"}"#;
    assert_eq!(place.run(&["call", "read_file", args]).json(), wanted);
    assert_eq!(place.run(&["call", "files.read_file", args]).json(), wanted);
    assert_eq!(place.run_with(&["call", "read_file", "-"], args).json(), wanted);
    assert_eq!(array(&place.run(&["call", "read_tree"]).json(), "/entries").len(), 1);
    for (args, found) in [
        ("[]", "an array"),
        ("", "EOF while parsing"),
        (r#"{"path": "a"} x"#, "trailing characters"),
    ] {
        let ended = place.run(&["call", "read_file", args]);
        let problem = ended.json()["refused"]["problems"][0].clone();
        assert_eq!((ended.status, &problem["code"]), (2, &json!("InvalidEnvelope")), "{args}");
        assert!(problem["found"].as_str().unwrap().starts_with(found), "{problem}");
    }
}

#[test]
fn strict_mode_refuses_text_around_the_document() {
    let place = Place::new();
    let fenced = format!("```json\n{}\n```\n", actions([write("a", "A")]));
    for command in ["run", "validate"] {
        let ended = place.run_with(&[command, "--strict"], &fenced);
        let problem = ended.json()["refused"]["problems"][0].clone();
        assert_eq!((ended.status, &problem["code"]), (2, &json!("InvalidEnvelope")), "{ended:?}");
    }
    assert_eq!(place.names(), Vec::<String>::new());
    let ended = place.run_with(&["run"], &fenced);
    assert_eq!((ended.status, &ended.json()["repairs"]), (0, &json!(["removed a code fence"])));
    assert_eq!(place.read("a"), "A");
    assert_eq!(place.run_with(&["run", "--strict"], &actions([read("a")])).status, 0);
}

#[test]
fn text_output_is_readable_and_escaped() {
    let place = Place::new();
    let hostile = "\u{1b}[31mred\u{7}\r\u{9b}2J \u{202e}back\nnext \u{e0041}line";
    place.write("a", hostile);
    let ended = place.act(&["--format", "text"], [read("a"), read("\u{1b}]52;c;\u{7}")]);
    let wanted = format!(
        "\
results:
  -
    action_type: read_file
    status: executed
    message: file read
    metadata:
      path: {}/a
      content:
        | \\u{{1b}}[31mred\\u{{7}}\\u{{d}}\\u{{9b}}2J \\u{{202e}}back
        | next \\u{{e0041}}line
      size: {}
  -
    action_type: read_file
    status: error
    message: file not found
    metadata:
      outcome: error
      code: FileNotFoundError
      reason: file not found: \\u{{1b}}]52;c;\\u{{7}}
",
        place.workspace().display(),
        hostile.len()
    );
    assert_eq!(ended.stdout, wanted);
    let ended = place.act(&[], [read("a")]);
    assert!(
        !ended.stdout.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}', '\u{e0041}']),
        "{ended:?}"
    );
    assert_eq!(ended.json()["results"][0]["metadata"]["content"], hostile);
    // Error messages are escaped as well.
    let ended = place.run(&["run", "\u{1b}[31m.json"]);
    assert!(ended.stderr.starts_with("error: \\u{1b}[31m.json: "), "{ended:?}");
}

#[test]
fn validate_prints_every_problem_and_changes_nothing() {
    let place = Place::new();
    place.write("a", "A");
    let envelope = actions([
        write("a", "changed"),
        json!({"type": "reed_file", "path": "a"}),
        json!({"type": "write_file", "path": 1, "contents": "x"}),
        json!({"type": "grep", "pattern": "x", "output_mode": "lines", "-A": -1}),
        json!({"type": "read_tree", "limit": 0}),
    ]);
    let ended = place.run_with(&["validate", "-"], &envelope);
    assert_eq!(ended.status, 2, "{ended:?}");
    let document = ended.json();
    let problems = array(&document, "/refused/problems");
    let mut found: Vec<(&str, &str, u64)> = problems
        .iter()
        .map(|problem| {
            let text = |field: &str| problem[field].as_str().unwrap();
            (text("pointer"), text("code"), problem["call"].as_u64().unwrap())
        })
        .collect();
    found.sort_unstable();
    let wanted = [
        ("/actions/1", "UnknownTool", 1),
        ("/actions/2/content", "InvalidArguments", 2),
        ("/actions/2/contents", "InvalidArguments", 2),
        ("/actions/2/path", "InvalidArguments", 2),
        ("/actions/3/-A", "InvalidArguments", 3),
        ("/actions/3/output_mode", "InvalidArguments", 3),
        ("/actions/4/limit", "InvalidArguments", 4),
    ];
    assert_eq!(found, wanted);
    let feedback = document["refused"]["feedback"].as_str().unwrap();
    assert!(feedback.contains("\n- and 2 more\n"), "{feedback}");
    assert_eq!(place.run_with(&["run"], &envelope).json(), document);

    let ended = place.run_with(
        &["validate"],
        &format!("Here:\n{}", actions([write("a", "changed"), write("b", "B")])),
    );
    let valid = json!({
        "valid": true, "dialect": "actions", "calls": 2, "denied": [],
        "repairs": ["removed text before the document"],
    });
    assert_eq!((ended.status, ended.json()), (0, valid));
    let ended =
        place.run_with(&["validate", "--role", "reader"], &actions([read("a"), write("b", "B")]));
    let denied = json!([{
        "call": 1, "tool": "files.write_file", "code": "ToolNotInRole",
        "message": "the role 'reader' does not include the tool 'files.write_file'",
    }]);
    let document = ended.json();
    assert_eq!(
        (ended.status, &document["valid"], &document["denied"]),
        (3, &json!(false), &denied)
    );
    assert_eq!((place.read("a").as_str(), place.names()), ("A", vec!["a".to_owned()]));
}

#[test]
fn tools_are_listed_in_the_format_of_each_client() {
    let place = Place::new();
    let tools = |format: &str| place.run(&["tools", "--format", format]);
    let mcp = tools("mcp").json();
    let mcp = array(&mcp, "/tools");
    let names = each(mcp, "name");
    assert_eq!(names, TOOLS.map(|tool| tool.replace('.', "__")));
    for tool in mcp {
        let name = tool["name"].as_str().unwrap();
        assert!((1..=64).contains(&name.len()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
        for field in ["title", "description"] {
            assert!(!tool[field].as_str().unwrap().is_empty(), "{name}");
        }
        let whole = place.run(&["tools", name]).json();
        let examples = array(&whole["input"], "/examples");
        assert!(!examples.is_empty(), "{name} has no examples");
        examples.iter().for_each(|example| assert_valid(&tool["inputSchema"], example));
        // It is listed only if it is asked for.
        assert_eq!(tool["outputSchema"], Value::Null, "{name}");
        let writers = ["beads__", "build__", "edit__", "report__", "shell__", "team__"];
        let reads_only = !writers.iter().any(|plugin| name.starts_with(plugin))
            && !OTHER_WRITERS.contains(&name);
        // What MCP assumes without a hint is not said: a tool may write, and reach other systems.
        assert_eq!(tool["annotations"]["readOnlyHint"] == true, reads_only, "{name}");
        // The plugin `web` reaches nothing here, since it is granted no origin.
        let asks_others =
            name.starts_with("docs__") || ["team__task", "python__run_python"].contains(&name);
        assert_eq!(tool["annotations"]["openWorldHint"] != false, asks_others, "{name}");
    }
    let with_output = place.run(&["tools", "--format", "mcp", "--output-schemas"]).json();
    for tool in array(&with_output, "/tools") {
        jsonschema::validator_for(&tool["outputSchema"]).unwrap();
    }
    let ended = place.run(&["tools", "--output-schemas"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    let schema_of =
        |name: &str| &mcp.iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"];
    for (format, name, schema) in [
        ("openai", "/function/name", "/function/parameters"),
        ("anthropic", "/name", "/input_schema"),
    ] {
        let listed = tools(format).json();
        let listed = listed.as_array().unwrap();
        let found: Vec<&str> =
            listed.iter().map(|tool| tool.pointer(name).unwrap().as_str().unwrap()).collect();
        assert_eq!(found, names, "{format}");
        for (tool, name) in listed.iter().zip(&names) {
            assert_eq!(tool.pointer(schema).unwrap(), schema_of(name), "{format} {name}");
        }
    }
    let summary = tools("json").json();
    assert_eq!(each(array(&summary, "/tools"), "name"), TOOLS);
    let text = tools("text").stdout;
    let lines: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(lines, TOOLS);
    let markdown = tools("markdown").stdout;
    let headings: Vec<&str> =
        markdown.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(headings, TOOLS);
}

/// The tools that write, of plugins that have others as well.
const OTHER_WRITERS: [&str; 11] = [
    "git_commit__git_commit",
    "history__undo",
    "files__copy_path",
    "files__delete_path",
    "files__move_path",
    "files__write_file",
    "lint_agent__apply_fix",
    // What they start or stop is no file.
    "processes__start_process",
    "processes__stop_process",
    "python__run_python",
    "sqlite__execute_sql",
];

/// All built-in tools.
const TOOLS: [&str; 58] = [
    "beads.approve_bead",
    "beads.ask_followup",
    "beads.close_bead",
    "beads.create_bead",
    "beads.escalate_ceo",
    "beads.reject_bead",
    "build.build_project",
    "docs.context7_query_docs",
    "docs.context7_resolve_library_id",
    "edit.apply_patch",
    "edit.atomic_replace",
    "edit.edit_code",
    "edit.move_text",
    "files.copy_path",
    "files.delete_path",
    "files.glob",
    "files.move_path",
    "files.read",
    "files.read_code",
    "files.read_file",
    "files.read_tree",
    "files.write_file",
    "git.git_diff",
    "git.git_status",
    "git_commit.git_commit",
    "grep.grep",
    "grep.search_text",
    "history.history",
    "history.undo",
    "lint.lint_backend",
    "lint.run_linter",
    "lint_agent.apply_fix",
    "lint_agent.read_file",
    "lint_agent.ruff_config",
    "lint_agent.run_linter",
    "lint_agent.submit",
    "pdf.read_pdf",
    "processes.list_processes",
    "processes.read_output",
    "processes.start_process",
    "processes.stop_process",
    "python.run_python",
    "python.search_tools",
    "report.save_agent_report",
    "shell.bash",
    "shell.run_command",
    "sqlite.describe_database",
    "sqlite.execute_sql",
    "sqlite.query_database",
    "symbols.discover_api",
    "symbols.get_source",
    "symbols.locate_symbol",
    "symbols.trace_calls",
    "symbols.trace_endpoint",
    "team.send_message",
    "team.task",
    "tests.run_tests",
    "web.fetch_url",
];

#[test]
fn one_tool_is_shown_with_its_schemas() {
    let place = Place::new();
    let whole = place.run(&["tools", "atomic_replace"]).json();
    assert_eq!(
        (&whole["name"], &whole["effects"]),
        (&json!("edit.atomic_replace"), &json!("write"))
    );
    for schema in ["input", "output", "failure"] {
        jsonschema::validator_for(&whole[schema]).unwrap();
    }
    assert_eq!(place.run(&["tools", "edit__atomic_replace"]).json(), whole);
    let text = place.run(&["tools", "atomic_replace", "--format", "text"]);
    assert!(text.stdout.starts_with("name: edit.atomic_replace\ntitle: "), "{text:?}");
    let ended = place.run(&["tools", "readfile"]);
    assert_eq!(
        ended.stderr,
        "error: there is no tool 'readfile'\nhint: did you mean 'read_file'?\n"
    );
    let of_role = place.run(&["tools", "--role", "designer"]).json();
    assert_eq!(each(array(&of_role, "/tools"), "name"), ["edit.atomic_replace", "edit.move_text"]);
}

#[test]
fn answers_fit_the_published_schemas() {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\nthree\n");
    place.write("b.txt", "b\n");
    let absolute = place.workspace().join("a.txt");
    let calls = [
        ("edit.apply_patch", json!({"patch": "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-b\n+B\n"})),
        (
            "edit.atomic_replace",
            json!({"path": "a.txt", "replacements": [{"old_string": "one", "new_string": "1"}]}),
        ),
        ("edit.edit_code", json!({"path": "a.txt", "patch": "@@ -2 +2 @@\n-two\n+2\n"})),
        (
            "edit.move_text",
            json!({"file_path": "a.txt", "source_start": 1, "source_end": 1, "target_line": 4}),
        ),
        ("files.copy_path", json!({"path": "a.txt", "to": "new/d.txt"})),
        ("files.delete_path", json!({"path": "new", "recursive": true})),
        ("files.glob", json!({"pattern": "*.txt"})),
        ("files.move_path", json!({"path": "b.txt", "to": "e.txt"})),
        ("files.read", json!({"file_path": absolute})),
        ("files.read_code", json!({"path": "a.txt"})),
        ("files.read_file", json!({"path": "a.txt"})),
        ("files.read_tree", json!({})),
        ("files.write_file", json!({"path": "c.txt", "content": "c"})),
        ("grep.grep", json!({"pattern": ".", "output_mode": "content", "-C": 1})),
        ("grep.search_text", json!({"query": "."})),
        (
            "report.save_agent_report",
            json!({
                "agent_name": "code-reviewer", "phase": 3.5, "findings": [],
                "summary": {"total": 0, "critical": 0, "high": 0, "medium": 0, "low": 0},
            }),
        ),
    ];
    // Tools that run programs are called in `quality`.
    let here = |tool: &&str| {
        ["edit.", "files.", "grep.", "report."].iter().any(|plugin| tool.starts_with(plugin))
    };
    let wanted: Vec<&str> = TOOLS.into_iter().filter(here).collect();
    assert_eq!(Vec::from(calls.each_ref().map(|(tool, _)| *tool)), wanted);
    for (tool, args) in calls {
        let ended = place.run(&["call", tool, &args.to_string()]);
        assert_eq!(ended.status, 0, "{tool}: {ended:?}");
        let schemas = place.run(&["tools", tool]).json();
        assert_valid(&schemas["input"], &args);
        assert_valid(&schemas["output"], &ended.json());
        if let Some(failure) = schemas.get("failure") {
            assert_failure_is_valid(&place, tool, args, failure);
        }
    }
    assert_eq!(
        (place.read("a.txt").as_str(), place.read("e.txt").as_str()),
        ("2\nthree\n1\n", "B\n")
    );
}

/// Changes the arguments of an edit so that it fails, and asserts that the result is valid by the
/// failure schema.
fn assert_failure_is_valid(place: &Place, tool: &str, mut args: Value, failure: &Value) {
    match tool {
        "edit.atomic_replace" => args["replacements"][0]["old_string"] = json!("nowhere"),
        "edit.move_text" => args["target_line"] = json!(99),
        _ => args["patch"] = json!(args["patch"].as_str().unwrap().replace("\n-", "\n-not ")),
    }
    let ended = place.run(&["call", tool, &args.to_string()]);
    assert_eq!(ended.status, 1, "{tool}: {ended:?}");
    assert_valid(failure, &ended.json());
}

#[test]
fn plugins_are_listed_and_inspected() {
    let place = Place::new();
    let listed = place.run(&["plugin", "list"]).json();
    let listed = array(&listed, "/plugins");
    let mut names = each(listed, "name");
    // Only built if their languages are available.
    names.retain(|name| !["eslint", "pyflakes"].contains(name));
    let wanted = "beads build builders deno_lint docs edit files git git_commit grep history lint \
                  lint_agent native-linters pdf processes python report ruff shell sqlite symbols team test-runners tests ty web";
    assert_eq!(names.join(" "), wanted);
    let granted = |name: &str| {
        listed.iter().find(|plugin| plugin["name"] == name).unwrap()["granted"].clone()
    };
    assert_eq!(granted("grep"), json!({"files": "read", "scan": true}));
    assert_eq!(granted("git"), json!({"files": "read", "scan": false, "process": ["git"]}));
    // A shell and the network are granted by the user, never by default.
    assert_eq!(granted("docs"), json!({"files": "none", "scan": false}));
    assert_eq!(granted("shell"), json!({"files": "write", "scan": false}));
    let text = place.run(&["plugin", "list", "--format", "text"]).stdout;
    assert_eq!(text.lines().count(), listed.len(), "{text}");
    assert!(text.contains("\nedit           0.1.0      4 tools   0 backends  "), "{text}");
    assert!(text.contains("\ntest-runners   0.1.0      0 tools   5 backends  "), "{text}");

    let by_name = place.run(&["plugin", "inspect", "grep"]).json();
    assert_eq!(
        by_name["asks_for"],
        json!(["reading files of the workspace", "reading whole trees of the workspace in bulk"])
    );
    assert_eq!(each(array(&by_name, "/tools"), "name"), ["grep", "search_text"]);
    let file = built().join("plugins/grep.wasm");
    assert_eq!(by_name["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(place.run(&["plugin", "inspect", file.to_str().unwrap()]).json(), by_name);
    let stranger = place.run(&["plugin", "inspect", hello().to_str().unwrap()]).json();
    assert_eq!(
        (&stranger["name"], &stranger["asks_for"]),
        (&json!("hello"), &json!(["no access to files"]))
    );
}

fn hello() -> PathBuf {
    let file = built().join("examples/hello.wasm");
    assert!(file.is_file(), "{} is missing; run `cargo xtask test`", file.display());
    file
}

#[test]
fn a_plugin_from_elsewhere_runs_without_a_grant() {
    let place = Place::new();
    let hello = hello();
    let plugin = ["--plugin", hello.to_str().unwrap()];
    for tool in ["greet", "hello.greet", "hello__greet"] {
        let ended = place.run(&[&["call", tool, r#"{"name": "Ada"}"#], &plugin[..]].concat());
        assert_eq!((ended.status, ended.json()), (0, json!({"text": "Hello, Ada!"})), "{tool}");
    }
    let ended =
        place.run_with(&[&["run"], &plugin[..]].concat(), r#"{"tool": "greet", "name": "Ada"}"#);
    let wanted = json!({"tool": "greet", "status": "success", "result": {"text": "Hello, Ada!"}});
    assert_eq!(ended.json(), wanted);
    let ended = place.run(&["call", "greet", r#"{"name": "Ada"}"#]);
    assert_eq!(
        (ended.status, &ended.json()["refused"]["problems"][0]["code"]),
        (2, &json!("UnknownTool"))
    );
    let twice = place.run(&[&["tools"], &plugin[..], &plugin].concat());
    assert_eq!(twice.status, 2);
    assert!(twice.stderr.contains("there is a plugin 'hello' already"), "{twice:?}");
}

#[test]
fn a_file_that_is_not_a_plugin_is_refused() {
    let place = Place::new();
    place.write("prose.wasm", "not WebAssembly");
    place.write("core.wasm", wat::parse_str("(module)").unwrap());
    place.write("bare.wasm", wat::parse_str("(component)").unwrap());
    for (file, wanted) in [
        ("prose.wasm", "not a WebAssembly component"),
        ("core.wasm", "a core WebAssembly module, not a component"),
        ("bare.wasm", "the component has no manifest; pack it with `cofferdam plugin pack`"),
        ("none.wasm", "No such file"),
    ] {
        let ended = place.run(&["tools", "--plugin", file]);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{file}");
        let start = format!("error: {file}: ");
        assert!(ended.stderr.starts_with(&start) && ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn packing_puts_the_manifest_into_the_component() {
    let place = Place::new();
    place.write("bare.wasm", wat::parse_str("(component)").unwrap());
    let manifest = project().join("examples/hello/plugin.toml");
    let pack = |manifest: &str, component: &str| {
        let args = ["--manifest", manifest, "--component", component, "--output", "new/hello.wasm"];
        place.run(&[&["plugin", "pack"], &args[..]].concat())
    };
    let packed = pack(manifest.to_str().unwrap(), "bare.wasm");
    assert_eq!(packed.status, 0, "{packed:?}");
    let inspected = place.run(&["plugin", "inspect", "new/hello.wasm"]).json();
    for field in ["bytes", "sha256"] {
        assert_eq!(packed.json()[field], inspected[field]);
    }
    assert_eq!(each(array(&inspected, "/tools"), "name"), ["greet"]);
    let schema = "examples/hello/schemas/greet.input.json";
    let schema = fs::read_to_string(project().join(schema)).unwrap();
    let tool = place.run(&["tools", "greet", "--plugin", "new/hello.wasm"]).json();
    assert_eq!(tool["input"], serde_json::from_str::<Value>(&schema).unwrap());

    let line_3 = "name = \"x\"\nversion = \"1.0.0\"\nsurprise = 1\n";
    place.write("unknown.toml", line_3);
    let text = fs::read_to_string(&manifest).unwrap();
    place.write("schemas.toml", &text);
    place.write(
        "name.toml",
        text.replace("\"hello\"", "\"Hello World\"")
            .replace("schemas/", &format!("{}/examples/hello/schemas/", project().display())),
    );
    for (manifest, component, wanted) in [
        (
            manifest.to_str().unwrap(),
            "new/hello.wasm",
            "new/hello.wasm: the component has a manifest already",
        ),
        (manifest.to_str().unwrap(), "none.wasm", "none.wasm: No such file"),
        ("none.toml", "bare.wasm", "none.toml: No such file"),
        ("unknown.toml", "bare.wasm", "unknown.toml: TOML parse error at line 3"),
        ("schemas.toml", "bare.wasm", "schemas/greet.input.json: No such file"),
        ("name.toml", "bare.wasm", "the manifest's name"),
    ] {
        let ended = pack(manifest, component);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{manifest} {component}");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn a_workspace_that_does_not_exist_is_refused() {
    let place = Place::new();
    place.write("file", "");
    for workspace in ["none", "file"] {
        for command in ["tools", "log", "run"] {
            let ended = place.run(&[command, "-C", workspace]);
            assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{command} {workspace}");
            let start = format!("error: the workspace {workspace}: ");
            assert!(ended.stderr.starts_with(&start), "{ended:?}");
        }
    }
}

#[test]
fn the_log_shows_how_calls_ended() {
    let place = Place::new();
    assert_eq!(place.log(&[]), Vec::<Value>::new());
    place.write("a", "A");
    // In several envelopes, because read-only calls of one envelope run in parallel and end in any
    // order.
    place.act(&[], [read("a")]);
    place.act(&[], [read("missing")]);
    place.act(&["--role", "reader"], [write("b", "B")]);
    place.act(&["--fail-fast"], [read("missing"), read("a")]);
    place.act(&[], [json!({"type": "nonsense"})]);
    place.act(&[], [json!({"type": "read_file"})]);
    place.run_with(&["run"], "prose");
    place.run(&["call", "glob", r#"{"pattern": "*"}"#]);
    place.run(&["call", "glob", "{}"]);
    place.run(&["call", "glob", r#"{"pattern": "*"}"#, "--role", "nobody"]);

    let records = place.log(&[]);
    let wanted = [
        ("files.read_file", "executed", "-", "-"),
        ("files.read_file", "error", "FileNotFoundError", "-"),
        ("files.write_file", "denied", "ToolNotInRole", "reader"),
        ("files.read_file", "error", "FileNotFoundError", "-"),
        ("files.read_file", "skipped", "Skipped", "-"),
        ("nonsense", "error", "UnknownTool", "-"),
        ("files.read_file", "error", "InvalidArguments", "-"),
        ("-", "error", "InvalidEnvelope", "-"),
        ("files.glob", "executed", "-", "-"),
        ("files.glob", "error", "InvalidArguments", "-"),
        ("files.glob", "error", "UnknownRole", "nobody"),
    ];
    for ((field, wanted), number) in [
        (("tool", wanted.map(|row| row.0)), 0),
        (("outcome", wanted.map(|row| row.1)), 1),
        (("code", wanted.map(|row| row.2)), 2),
        (("role", wanted.map(|row| row.3)), 3),
    ] {
        assert_eq!(each(&records, field), wanted, "column {number}");
    }
    let schema = place.run(&["schema", "journal"]).json();
    let lines = place.read(".cofferdam/journal.jsonl");
    assert_eq!(lines.lines().count(), records.len());
    for (line, record) in lines.lines().zip(&records) {
        let mut line: Value = serde_json::from_str(line).unwrap();
        assert_valid(&schema, &line);
        // The seal authenticates the line and is not part of the record.
        line.as_object_mut().unwrap().remove("seal").unwrap();
        assert_eq!(&line, record);
        let success = record["outcome"] == "executed";
        assert_eq!(record["status"], if success { "success" } else { "error" });
        assert_eq!(success, record["output_bytes"].as_u64().unwrap() > 0, "{record}");
    }
    let calls: BTreeSet<&str> = each(&records, "call").into_iter().collect();
    assert_eq!(calls.len(), records.len());

    assert_log_is_filtered(&place, &records);
    place.write(".cofferdam/journal.jsonl", format!("{lines}{{\"broken\n"));
    let ended = place.run(&["log"]).json();
    assert_eq!(
        (array(&ended, "/records").len(), &ended["unreadable_lines"]),
        (records.len(), &json!(1))
    );
}

/// Asserts what `log` prints of these records with filters, and as text.
fn assert_log_is_filtered(place: &Place, records: &[Value]) {
    assert_eq!(place.log(&["--failed"]).len(), 9);
    assert_eq!(place.log(&["--limit", "2"]), records[9..]);
    assert_eq!(place.log(&["--failed", "-n", "3"]), [&records[7..8], &records[9..]].concat());
    assert_eq!(place.log(&["--tool", "files.glob"]), records[8..]);
    let text = place.run(&["log", "--format", "text", "-n", "1"]).stdout;
    assert!(
        text.contains("  error  ")
            && text.ends_with(" ms  files.glob  UnknownRole  client cli  role nobody\n"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn doctor_succeeds_on_this_machine() {
    let place = Place::new();
    let ended = place.run(&["doctor"]);
    assert_eq!(ended.status, 0, "{ended:?}");
    let document = ended.json();
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    let findings = array(&document, "/findings");
    let names = [
        "engine",
        "built-in plugins",
        "cache of compiled code",
        "workspace",
        "kept in the workspace",
        "interrupted commit",
        "settings",
        "sandbox for native programs",
    ];
    assert_eq!(each(findings, "what"), names);
    assert_eq!(each(findings, "verdict"), ["ok"; 8], "{document:#}");
    place.write("cofferdam.toml", "");
    let document = place.run(&["doctor"]).json();
    assert_eq!(each(array(&document, "/findings"), "verdict")[6], "warning");
}

#[test]
fn completions_and_manual_pages_are_written() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let ended = place.run(&["completions", shell]);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{shell}");
        for word in ["validate", "trust-workspace", "inspect"] {
            assert!(ended.stdout.contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(place.run(&["man", "pages"]).status, 0);
    let pages = fs::read_dir(place.workspace().join("pages")).unwrap();
    let pages: BTreeSet<String> =
        pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    for page in
        ["cofferdam.1", "cofferdam-run.1", "cofferdam-plugin-pack.1", "cofferdam-policy-accept.1"]
    {
        assert!(pages.contains(page), "{pages:?}");
        let text = place.read(&format!("pages/{page}"));
        assert!(text.contains(".SH NAME") && text.contains("Examples:"), "{page}");
    }
}

#[test]
fn every_document_has_a_schema() {
    let place = Place::new();
    let help = place.run(&["schema", "--help"]).stdout;
    let documents: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("- ")?.split(':').next())
        .take(16)
        .collect();
    let wanted = [
        "envelope-actions",
        "envelope-tool",
        "results-actions",
        "results-tool",
        "refusal",
        "manifest",
        "plugin",
        "settings",
        "role",
        "agent",
        "contract",
        "journal",
        "pipeline-work-order",
        "pipeline-designer",
        "pipeline-qa",
        "pipeline-result",
    ];
    assert_eq!(documents, wanted);
    documents.iter().for_each(|document| drop(schema(&place, document)));
    let plugin = schema(&place, "plugin");
    for manifest in
        ["plugins/edit", "plugins/files", "plugins/grep", "plugins/report", "examples/hello"]
    {
        let text = fs::read_to_string(project().join(manifest).join("plugin.toml")).unwrap();
        assert_valid(&plugin, &toml::from_str(&text).unwrap());
    }
    let settings: Value = toml::from_str(
        "[grants.x]\nfiles = 'read'\nscan = true\n[roles.r]\ntools = ['*']\nscope = ['src/']\n[limits]\ncall-ms = 1\n",
    )
    .unwrap();
    assert_valid(&schema(&place, "settings"), &settings);
    assert_valid(&schema(&place, "role"), &settings["roles"]["r"]);
}

/// The schema of a document, which has to be a valid schema.
fn schema(place: &Place, document: &str) -> Value {
    let schema = place.run(&["schema", document]).json();
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{document}: {error}"));
    schema
}

#[test]
fn envelopes_results_and_refusals_fit_their_schemas() {
    let place = Place::new();
    place.write("a", "A");
    for dialect in ["actions", "tool"] {
        let envelope = schema(&place, &format!("envelope-{dialect}"));
        let examples = array(&envelope, "/examples");
        assert!(!examples.is_empty());
        for example in examples {
            assert_valid(&envelope, example);
            let ended = place.run_with(&["validate", "--strict"], &example.to_string());
            assert_eq!((ended.status, &ended.json()["dialect"]), (0, &json!(dialect)), "{example}");
        }
    }
    let results = schema(&place, "results-actions");
    let fails = json!({"type": "edit_code", "path": "a", "patch": "@@ -1 +1 @@\n-B\n+C\n"});
    for (options, text) in [
        (&[][..], actions([read("a"), read("missing"), fails])),
        (&["--role", "reader"], format!("so: {}", actions([write("b", "B")]))),
        (&["--fail-fast"], actions([read("missing"), read("a")])),
    ] {
        assert_valid(&results, &place.run_with(&[&["run"], options].concat(), &text).json());
    }
    let results = schema(&place, "results-tool");
    for (text, status) in [
        (r#"{"tool": "glob", "pattern": "*"}"#, "success"),
        (r#"so: {"tool": "glob", "pattern": "none"}"#, "error"),
        (
            r#"{"tool": "atomic_replace", "file_path": "a", "replacements": [{"old_string": "B", "new_string": "C"}]}"#,
            "error",
        ),
    ] {
        let document = place.run_with(&["run"], text).json();
        assert_eq!(document["status"], status);
        assert_valid(&results, &document);
    }
    let refusal = schema(&place, "refusal");
    for (options, text) in [
        (&[][..], "prose".to_owned()),
        (&[], actions([])),
        (&[], actions([json!({"type": "grpe"}), json!({"type": "grep", "patern": 1})])),
        (&["--role", "nobody"], actions([read("a")])),
        (&[], actions(std::iter::repeat_n(read("a"), 10_001))),
    ] {
        assert_valid(&refusal, &place.run_with(&[&["run"], options].concat(), &text).json());
    }
}

#[test]
fn the_workspaces_settings_apply_after_they_are_accepted() {
    let place = Place::new();
    let two = || place.act(&[], [write("a", "A"), read("a")]);
    let trusted = || place.act(&["--trust-workspace"], [write("a", "A"), read("a")]);
    place.write("cofferdam.toml", "[limits]\ncalls = 1\n[roles.mine]\ntools = ['*']\n");
    let ended = two();
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.contains("cofferdam.toml of the workspace does not count"), "{ended:?}");
    assert_eq!(trusted().status, 2);
    let ended = place.run_with(&["run", "--quiet"], &actions([read("a"), read("a")]));
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));

    let ended = place.run(&["policy", "accept"]);
    let accepted = json!({
        "workspace": place.workspace(), "accepted": true, "grants": [], "roles": ["mine"],
        "agents": [], "warnings": []
    });
    assert_eq!((ended.status, ended.json()), (0, accepted));
    let ended = two();
    assert_eq!((ended.status, ended.stderr.as_str()), (2, ""));
    assert_eq!(
        ended.json()["refused"]["problems"][0],
        json!({
            "code": "TooLarge", "pointer": "", "expected": "at most 1 calls (limits.calls)",
            "found": "an envelope of 2 calls",
        })
    );

    place.write("cofferdam.toml", "[limits]\ncalls = 2\n");
    let ended = two();
    assert_eq!((ended.status, ended.stdout.as_str()), (3, ""));
    assert!(
        ended
            .stderr
            .contains("cofferdam.toml has changed since it was accepted; look at it and run"),
        "{ended:?}"
    );
    assert_eq!(trusted().status, 0);
    assert_eq!(two().status, 3);
    fs::remove_file(place.workspace().join("cofferdam.toml")).unwrap();
    let ended = two();
    assert_eq!(ended.status, 3);
    assert!(ended.stderr.contains("cofferdam.toml was removed since it was accepted"), "{ended:?}");
    assert_eq!(place.run(&["policy", "accept"]).json()["accepted"], false);
    assert_eq!(two().status, 0);
    assert!(!fs::exists(place.workspace().join(".cofferdam/accepted")).unwrap());
}

#[test]
fn malformed_settings_name_the_line() {
    let place = Place::new();
    for (text, wanted) in [
        ("[limits]\ncalls = \"many\"\n", "line 2"),
        ("[limits]\n\ncall = 1\n", "line 3"),
        ("[limits\n", "line 1"),
        ("[limits]\ncalls = 0\n", "limits.calls: 0 is too little"),
        ("[roles.r]\ntools = [\"read\"]\n", "roles.r.tools: 'read' is no tool"),
    ] {
        place.write("cofferdam.toml", text);
        let ended = place.run(&["tools", "--trust-workspace"]);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{text}");
        assert!(ended.stderr.contains(wanted), "{text}: {ended:?}");
    }
    place.write("cofferdam.toml", "[limits]\ncall = 1\n");
    let ended = place.run(&["policy", "accept"]);
    assert_eq!(ended.status, 2);
    assert!(
        ended.stderr.contains("cofferdam.toml: ") && ended.stderr.contains("line 2"),
        "{ended:?}"
    );
}

#[test]
fn the_users_own_settings_apply_to_every_workspace() {
    let place = Place::new();
    place.write("a", "A");
    let folder = place.home().join(".config/cofferdam");
    fs::create_dir_all(&folder).unwrap();
    let settings =
        "[grants.edit]\nfiles = 'read'\n[grants.grep]\nfiles = 'read'\n[limits]\ncalls = 3\n";
    fs::write(folder.join("cofferdam.toml"), settings).unwrap();
    let patch = "@@ -1 +1 @@\n-A\n+B\n";
    let ended = place.act(
        &[],
        [
            read("a"),
            json!({"type": "edit_code", "path": "a", "patch": patch}),
            json!({"type": "search_text", "query": "A"}),
        ],
    );
    assert_eq!(ended.status, 3);
    let results = ended.json();
    let results = array(&results, "/results");
    assert_eq!(results[0]["metadata"]["content"], "A");
    for (result, wanted) in results[1..].iter().zip([
        "'edit.edit_code' needs files = \"write\", and the plugin 'edit' is granted files = \"read\"; \
         a person can grant it under [grants.edit] in cofferdam.toml",
        "the plugin 'grep' imports cofferdam:host/scan@0.1.0, which needs the grant scan = true; \
         a person can grant it under [grants.grep] in cofferdam.toml",
    ]) {
        assert_eq!(
            result["metadata"],
            json!({"outcome": "denied", "code": "NotGranted", "reason": wanted})
        );
    }
    assert_eq!(place.act(&[], std::iter::repeat_n(read("a"), 4)).status, 2);
    let policy = place.run(&["policy", "show"]).json();
    assert_eq!(policy["limits"]["calls"], 3);
    // All limits, under the names that the settings use.
    assert_eq!(policy["limits"]["program-call-ms"], 600_000);
    let grants = array(&policy, "/grants");
    let of = |plugin: &str| grants.iter().find(|grant| grant["plugin"] == plugin).unwrap();
    assert_eq!(of("grep")["requests"], json!({"files": "read", "scan": true}));
    assert_eq!(of("grep")["granted"], json!({"files": "read", "scan": false}));
    assert_eq!(of("files")["granted"], of("files")["requests"]);
    let roles = each(array(&policy, "/roles"), "role");
    for role in ["designer", "lint", "main", "qa", "reader", "code-reviewer"] {
        assert!(roles.contains(&role), "{roles:?}");
    }
    assert_eq!((place.read("a").as_str(), place.names()), ("A", vec!["a".to_owned()]));
}

#[test]
fn limits_in_the_settings_are_enforced() {
    let place = Place::new();
    place.write("cofferdam.toml", "[limits]\nenvelope-mb = 1\ncalls = 3\n");
    place.run(&["policy", "accept"]);
    let filler = "x".repeat(1 << 20);
    let refusal = |ended: Ended| {
        assert_eq!(ended.status, 2);
        ended.json()["refused"]["problems"][0].clone()
    };
    let problem = refusal(place.act(&[], [write("a", &filler)]));
    assert_eq!(
        (&problem["code"], &problem["expected"]),
        (&json!("TooLarge"), &json!("at most 1048576 bytes (limits.envelope-mb)"))
    );
    let problem = refusal(place.run_with(
        &["call", "write_file", "-"],
        &json!({"path": "a", "content": filler}).to_string(),
    ));
    assert_eq!(problem["code"], "TooLarge");
    let problem = refusal(place.act(&[], std::iter::repeat_n(write("a", "A"), 4)));
    assert_eq!(
        (&problem["code"], &problem["found"]),
        (&json!("TooLarge"), &json!("an envelope of 4 calls"))
    );
    assert_eq!(place.names(), ["cofferdam.toml"]);
    assert_eq!(place.act(&[], [write("a", &filler[..1_000_000])]).status, 0);
    assert_eq!(place.act(&[], std::iter::repeat_n(read("a"), 3)).status, 0);
}

#[test]
fn large_envelopes_work_up_to_the_limits() {
    let place = Place::new();
    let content = "0123456789abcdef\n".repeat(10 * (1 << 20) / 17);
    let ended = place.act(&[], [write("large", &content)]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    assert_eq!(place.read("large"), content);
    let refused = place.act(&[], [write("larger", &"x".repeat(16 << 20))]);
    assert_eq!(refused.status, 2);
    assert_eq!(refused.json()["refused"]["problems"][0]["code"], "TooLarge");

    place.write("a", "A");
    let many = place.act(&[], std::iter::repeat_n(read("a"), 10_000));
    assert_eq!(many.status, 0, "{}", many.stderr);
    let results = many.json();
    let results = array(&results, "/results");
    assert_eq!(results.len(), 10_000);
    assert!(results.iter().all(|result| result["metadata"]["content"] == "A"));
    let refused = place.act(&[], std::iter::repeat_n(write("b", "B"), 10_001));
    assert_eq!(refused.status, 2);
    assert_eq!(refused.json()["refused"]["problems"][0]["found"], "an envelope of 10001 calls");
    assert_eq!(place.names(), ["a", "large"]);
}

#[test]
fn results_come_in_the_order_of_the_calls() {
    let place = Place::new();
    let states = ["one", "two", "three"];
    let reads = || std::iter::repeat_n(read("a"), 4);
    let envelope =
        states.iter().flat_map(|state| std::iter::once(write("a", state)).chain(reads()));
    let results = place.act(&[], envelope).json();
    for (state, group) in states.iter().zip(array(&results, "/results").chunks(5)) {
        assert_eq!(group[0]["metadata"]["bytes_written"], state.len());
        for result in &group[1..] {
            assert_eq!(result["metadata"]["content"], *state);
        }
    }
    // Reads run in parallel; those of the first files take longest.
    let sizes: Vec<usize> = (0..40).map(|index| (40 - index) * 20_000).collect();
    for size in &sizes {
        place.write(&size.to_string(), "x".repeat(*size));
    }
    let results = place.act(&[], sizes.iter().map(|size| read(&size.to_string()))).json();
    let found: Vec<u64> = array(&results, "/results")
        .iter()
        .map(|result| result["metadata"]["size"].as_u64().unwrap())
        .collect();
    assert_eq!(found, sizes.iter().map(|size| *size as u64).collect::<Vec<_>>());
}

/// Waits until the condition holds, at most half a minute.
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(30), "waited in vain: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn interrupt(child: &Child) {
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn an_interrupted_run_ends_soon_and_leaves_no_partial_change() {
    let place = Place::new();
    let names: Vec<String> = (0..10_000).map(|number| format!("out/{number:05}")).collect();
    let envelope = place.workspace().with_file_name("envelope.json");
    fs::write(&envelope, actions(names.iter().map(|name| write(name, name)))).unwrap();
    let child = place.command(&["run", envelope.to_str().unwrap()]).spawn().unwrap();
    let first = place.workspace().join(&names[0]);
    wait_until("the first file", || first.exists());
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("stopping; what is being written is finished first"), "{stderr}");

    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let results = array(&results, "/results");
    assert_eq!(results.len(), names.len());
    let done = results.iter().take_while(|result| result["status"] == "executed").count();
    assert!(done < names.len(), "the run was not interrupted");
    for result in &results[done..] {
        assert_eq!(result["metadata"]["outcome"], "skipped", "{result}");
    }
    let entries = fs::read_dir(place.workspace().join("out")).unwrap();
    let mut written: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    written.sort();
    // The call that was running may have been finished, without its answer.
    assert!(written.len() == done || written.len() == done + 1, "{} of {done}", written.len());
    for (name, wanted) in written.iter().zip(&names) {
        assert_eq!(format!("out/{name}"), *wanted);
        assert_eq!(place.read(wanted), *wanted);
    }
}

#[test]
fn broken_pipe_is_not_an_error() {
    let place = Place::new();
    place.write("a", "A".repeat(1 << 20));
    for args in
        [&["tools", "--format", "mcp"][..], &["call", "read_file", r#"{"path": "a"}"#], &["--help"]]
    {
        let mut child = place.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn a_file_without_permission_is_a_permission_error() {
    let place = with_a_secret();
    let ended = place.act_as_nobody(&read("secret"));
    assert_eq!(
        (ended.status, &ended.json()["results"][0]["metadata"]["code"]),
        (3, &json!("PermissionError"))
    );
}

#[test]
fn unreadable_files_of_a_search_are_reported() {
    let place = with_a_secret();
    place.write("open", "S");
    for tool in ["grep", "search_text"] {
        let key = if tool == "grep" { "pattern" } else { "query" };
        let ended = place.act_as_nobody(&json!({"type": tool, key: "S"}));
        let result = ended.json()["results"][0].to_string();
        assert!(result.contains("open") && !result.contains("secret"), "{ended:?}");
        assert!(ended.stderr.contains("files that can't be read: 1"), "{ended:?}");
    }
}

/// A place with a file that only root may read.
fn with_a_secret() -> Place {
    let place = Place::new();
    place.write("secret", "S");
    let mode = fs::Permissions::from_mode(0o000);
    fs::set_permissions(place.workspace().join("secret"), mode).unwrap();
    place
}

#[test]
fn too_many_files_for_one_answer_are_an_error() {
    let place = Place::new();
    let folder = place.workspace().join("many");
    fs::create_dir(&folder).unwrap();
    for number in 0..10_001 {
        fs::write(folder.join(number.to_string()), "x").unwrap();
    }
    for (tool, args, code) in [
        ("glob", json!({"pattern": "many/*"}), "TooManyResults"),
        ("grep", json!({"pattern": "x"}), "TooManyMatches"),
    ] {
        let ended = place.run(&["call", tool, &args.to_string()]);
        let error = ended.json()["error"].clone();
        assert_eq!(
            (ended.status, &error["outcome"], &error["code"]),
            (4, &json!("limit"), &json!(code))
        );
        assert!(error["message"].as_str().unwrap().contains("10000"), "{error}");
    }
    fs::remove_file(folder.join("0")).unwrap();
    assert_eq!(place.run(&["call", "glob", r#"{"pattern": "many/*"}"#]).json()["total"], 10_000);
}

#[test]
fn default_answers_about_a_large_tree_are_bounded_with_exact_totals() {
    const MAX_BYTES: usize = 32 * 1024;
    let place = Place::new();
    for number in 0..6_000 {
        place.write(&format!("package_{}/module_{number}.py", number % 60), "value = 1\n");
    }
    let large: String = (0..20_000).map(|line| format!("value = \"{line}\"\n")).collect();
    place.write("large.py", &large);
    place.write(".ignore", "ignored\n");
    place.write("ignored/module.py", "value = 1\n");
    let path = place.workspace().join("large.py");
    let calls = [
        (json!({"type": "grep", "pattern": "value"}), "/total_files", 6_001),
        (
            json!({"type": "grep", "pattern": "value", "output_mode": "count"}),
            "/total_matches",
            26_000,
        ),
        (
            json!({"type": "grep", "pattern": "value", "output_mode": "content"}),
            "/total_matches",
            26_000,
        ),
        (json!({"type": "search_text", "query": "value"}), "", 0),
        (json!({"type": "glob", "pattern": "**/module_*.py"}), "/total", 6_000),
        (json!({"type": "read", "file_path": path}), "/total_lines", 20_000),
        (json!({"type": "read_file", "path": "large.py"}), "/total_lines", 20_000),
        // The files, their directories, and .ignore.
        (json!({"type": "read_tree"}), "/total", 6_062),
    ];
    let actions: Vec<Value> = calls.iter().map(|(action, ..)| action.clone()).collect();
    let ended = place.act(&[], actions);
    assert_eq!(ended.status, 0, "{ended:?}");
    let document = ended.json();
    for ((action, pointer, total), result) in calls.iter().zip(array(&document, "/results")) {
        let answer = &result["metadata"];
        let size = answer.to_string().len();
        assert!((1_000..=MAX_BYTES).contains(&size), "{action}: {size} bytes");
        let rest = answer.get("left_out").or(answer.get("next"));
        assert!(rest.is_some(), "{action}: {answer}");
        if !pointer.is_empty() {
            assert_eq!(answer.pointer(pointer), Some(&json!(total)), "{action}");
        }
    }
}

#[test]
fn a_search_that_takes_too_long_is_a_timeout() {
    let place = Place::new();
    place.write("cofferdam.toml", "[limits]\ncall-ms = 3000\n");
    place.write("tree/0", "äb ".repeat(100_000));
    let first = place.workspace().join("tree/0");
    for number in 1..1000 {
        fs::hard_link(&first, place.workspace().join(format!("tree/{number}"))).unwrap();
    }
    // The pattern has no literal to search for, and Unicode word boundaries rule out a DFA.
    let args = json!({"pattern": r"\b\w+\W\d", "path": "tree"});
    let ended = place.run(&["call", "grep", &args.to_string(), "--trust-workspace"]);
    let error = ended.json()["error"].clone();
    assert_eq!(
        (ended.status, &error["outcome"], &error["code"]),
        (4, &json!("limit"), &json!("TimeoutError")),
        "{ended:?}"
    );
}

/// Runs the command in a directory of the workspace.
fn run_below(place: &Place, directory: &str, args: &[&str]) -> Ended {
    let directory = place.workspace().join(directory);
    Ended::of(place.command(args).current_dir(directory))
}

#[test]
fn below_the_root_of_a_workspace_the_root_is_found() {
    let place = Place::new();
    place.write("src/deep/a.txt", "one\n");
    fs::create_dir_all(place.home()).unwrap();
    let root = place.workspace().display().to_string();
    let list = ["call", "read_tree", r#"{"max_depth": 1}"#];
    let listed = |ended: &Ended| -> Vec<String> {
        let document = ended.json();
        each(array(&document, "/entries"), "path").into_iter().map(str::to_owned).collect()
    };
    // So far, this is no workspace of the user's.
    assert_eq!(run_below(&place, "src", &["tools"]).stderr, "");
    place.works(&["call", "write_file", r#"{"path": "b.txt", "content": "x"}"#]);
    let ended = run_below(&place, "src/deep", &list);
    assert_eq!(listed(&ended), ["b.txt", "src"], "{ended:?}");
    assert!(ended.stderr.contains(&format!("the workspace is {root}")), "{ended:?}");
    // At the root nothing is said.
    assert_eq!(place.run(&list).stderr, "");
    // A repository below is a project of its own.
    fs::create_dir(place.workspace().join("src/.git")).unwrap();
    assert_eq!(run_below(&place, "src/deep", &["tools"]).stderr, "");
    fs::remove_dir(place.workspace().join("src/.git")).unwrap();
    // A directory that is named is used.
    let ended = run_below(&place, "src/deep", &[&["-C", "."][..], &list].concat());
    assert_eq!((listed(&ended), ended.stderr.as_str()), (vec!["a.txt".to_owned()], ""));
}

/// What an archive or another user has put above does not widen what a command works on.
#[test]
fn a_planted_workspace_above_is_ignored() {
    let place = Place::new();
    let other = Place::new();
    fs::create_dir_all(place.home()).unwrap();
    fs::create_dir_all(other.home()).unwrap();
    other.works(&["call", "write_file", r#"{"path": "b.txt", "content": "x"}"#]);
    place.write("secret.txt", "s");
    place.write("src/a.txt", "one\n");
    place.write("lib/a.txt", "one\n");
    place.write("cofferdam.toml", "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n");
    fs::create_dir(place.workspace().join(".cofferdam")).unwrap();
    let mark = other.workspace().join(".cofferdam/owner");
    fs::copy(mark, place.workspace().join(".cofferdam/owner")).unwrap();
    let read = ["call", "files.read_file", r#"{"path": "secret.txt"}"#];
    let ended = run_below(&place, "src", &read);
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(!ended.stderr.contains("the workspace is"), "{ended:?}");
    // Settings that the user has accepted make it a workspace.
    assert_eq!(place.run(&["policy", "accept"]).status, 0);
    let ended = run_below(&place, "lib", &read);
    assert_eq!((ended.status, &ended.json()["content"]), (0, &json!("s")), "{ended:?}");
}

#[test]
fn configurations_of_clients_have_no_paths_of_this_machine() {
    let place = Place::new();
    let folder = place.home_file("bin");
    fs::create_dir(&folder).unwrap();
    let config = |path: &Path, args: &[&str]| {
        let args = [&["mcp", "config"], args].concat();
        let ended = Ended::of(place.command(&args).env("PATH", path));
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{ended:?}");
        ended.stdout
    };
    // Not in PATH, the command is named by its path.
    let plain: Value = serde_json::from_str(&config(&folder, &["claude"])).unwrap();
    let command = plain["mcpServers"]["cofferdam"]["command"].as_str().unwrap().to_owned();
    assert_eq!(Path::new(&command), built().join("cofferdam").canonicalize().unwrap());
    std::os::unix::fs::symlink(command, folder.join("cofferdam")).unwrap();
    for (client, key, kind, arguments) in [
        ("claude", "mcpServers", json!("stdio"), json!(["serve"])),
        (
            "cursor",
            "mcpServers",
            Value::Null,
            json!(["serve", "--workspace", "${workspaceFolder}"]),
        ),
        (
            "vscode",
            "servers",
            json!("stdio"),
            json!(["serve", "--workspace", "${workspaceFolder}"]),
        ),
    ] {
        let text = config(&folder, &[client]);
        let document: Value = serde_json::from_str(&text).unwrap();
        let server = &document[key]["cofferdam"];
        assert_eq!((&server["command"], &server["type"]), (&json!("cofferdam"), &kind), "{text}");
        assert_eq!(server["args"], arguments, "{text}");
    }
    let codex = config(&folder, &["codex", "--role", "reader"]);
    assert!(codex.contains("command = \"cofferdam\""), "{codex}");
    assert!(codex.contains("args = [\"serve\", \"--role\", \"reader\"]"), "{codex}");
    let root = place.workspace().display().to_string();
    assert!(config(&folder, &["claude", "--workspace", "."]).contains(&root));
}
