//! Roles and agent definitions: which calls an agent can make under them.

use serde_json::{Value, json};

use crate::support::{Ended, Place, project};

const LINT: &str = "examples/agents/lint/lint_subagent.yaml";

fn lint() -> String {
    project().join(LINT).to_str().unwrap().to_owned()
}

/// A workspace with the files that the examples of the tool schemas name.
fn place(settings: &str) -> Place {
    let place = Place::new();
    for path in [
        "src/models/user.py",
        "src/api/client.py",
        "src/handlers/complex_handler.py",
        "src/validators/input_validator.py",
    ] {
        let lines: String = (1..=60).map(|line| format!("httpx.get({line})  # token\n")).collect();
        place.write(path, format!("from typing import List\n{lines}"));
    }
    place.write("cofferdam.toml", settings);
    place
}

fn run(place: &Place, role: &str, call: &Value) -> Ended {
    place.run_with(&["run", "--trust-workspace", "--role", role], &call.to_string())
}

fn report(agent: &str) -> Value {
    json!({"tool": "save_agent_report", "agent_name": agent, "phase": 3, "findings": [], "summary": {"total": 0, "critical": 0, "high": 0, "medium": 0, "low": 0}})
}

/// The tool schemas, "Agent-Specific Tool Usage": every call of every agent, including relative
/// paths.
#[test]
fn the_verification_agents_can_make_the_sources_calls() {
    let read = |path: &str| json!({"tool": "read", "file_path": path});
    let bash = |command: &str| json!({"tool": "bash", "command": command});
    let grep =
        |pattern: &str| json!({"tool": "grep", "pattern": pattern, "path": "src", "type": "py"});
    let mut page = read("src/api/client.py");
    (page["offset"], page["limit"]) = (json!(10), json!(30));
    let mut secrets = grep("hardcoded\\|password\\|secret\\|api\\.?key\\|token");
    secrets["output_mode"] = json!("content");
    let mut usage = grep("httpx\\.");
    usage["output_mode"] = json!("files_with_matches");
    let context7 = [
        json!({"tool": "context7_resolve_library_id", "libraryName": "httpx", "query": "AsyncClient timeout parameter"}),
        json!({"tool": "context7_query_docs", "libraryId": "/httpx/httpx", "query": "How to set timeout in AsyncClient?"}),
    ];
    let place = place("");
    let installed = place.run(&["plugin", "list"]).stdout.contains("\"docs\"");
    for (agent, calls) in [
        (
            "best-practices-enforcer",
            vec![
                grep("from typing import.*List|Dict|Optional|Union"),
                read("src/models/user.py"),
                bash("uv run ruff check src/"),
            ],
        ),
        (
            "security-auditor",
            vec![
                secrets,
                grep("SELECT.*\\{|execute.*f\"|sql.*%.*%"),
                bash("bandit -r src/ -f json"),
            ],
        ),
        ("hallucination-detector", [vec![usage, page], context7.to_vec()].concat()),
        ("code-reviewer", vec![read("src/handlers/complex_handler.py"), bash("radon cc src/ -a")]),
        (
            "test-generator",
            vec![
                bash("pytest tests/ --cov=src --cov-report=json"),
                read("src/validators/input_validator.py"),
            ],
        ),
    ] {
        for call in calls.into_iter().chain([report(agent)]) {
            let ended = run(&place, agent, &call);
            let wanted = match call["tool"].as_str().unwrap() {
                // A role does not enable what the operator has not granted.
                "bash" => 3,
                tool if tool.starts_with("context7") && !installed => 2,
                tool if tool.starts_with("context7") => continue,
                _ => 0,
            };
            // The source escapes this pattern for another grep; ripgrep finds nothing with it.
            let nothing = call["tool"] == "grep" && ended.json()["error"]["code"] == "NoMatches";
            let wanted = if nothing { 1 } else { wanted };
            assert_eq!(ended.status, wanted, "{agent} {call}: {ended:?}");
        }
    }
}

#[test]
fn the_verification_agents_have_only_their_tools() {
    let place = place("");
    let grep = json!({"tool": "grep", "pattern": "x", "path": "src", "type": "py"});
    let calls = [
        ("code-reviewer", grep.clone()),
        ("test-generator", grep),
        ("hallucination-detector", json!({"tool": "bash", "command": "true"})),
        ("security-auditor", json!({"tool": "write_file", "path": "a", "content": ""})),
    ];
    for (agent, call) in calls {
        let ended = run(&place, agent, &call);
        assert_eq!(ended.status, 3, "{agent} {call}: {ended:?}");
        assert_eq!(ended.json()["error"]["code"], "ToolNotInRole", "{ended:?}");
    }
}

#[test]
fn a_role_can_use_what_the_operator_grants() {
    let place = place("[grants.shell]\nfiles = 'write'\nprocess = ['bash', 'sh']\n");
    let call = json!({"tool": "bash", "command": "echo reviewed"});
    for (agent, status) in
        [("code-reviewer", 0), ("security-auditor", 0), ("hallucination-detector", 3)]
    {
        let ended = run(&place, agent, &call);
        assert_eq!(ended.status, status, "{agent}: {ended:?}");
    }
}

/// The table in the tool schemas says of `read`: "Relative paths rejected", but its agents use
/// relative ones.
#[test]
fn relative_paths_are_only_allowed_for_the_agents() {
    let place = place(
        "[roles.own]\ntools = ['files.*']\nscope = ['src/api']\npaths = {'files.read' = 'file_path'}\n",
    );
    let read = |path: &str| json!({"tool": "read", "file_path": path});
    let absolute = place.workspace().join("src/api/client.py");
    let absolute = absolute.to_str().unwrap();
    for (role, path, code) in [
        ("code-reviewer", "src/api/client.py", "-"),
        ("code-reviewer", "./src//api/client.py", "-"),
        ("code-reviewer", absolute, "-"),
        ("own", "src/api/client.py", "-"),
        ("reader", absolute, "-"),
        ("reader", "src/api/client.py", "RelativePathError"),
        ("main", "src/api/client.py", "RelativePathError"),
        ("code-reviewer", "../outside.py", "PathNotAllowed"),
        ("code-reviewer", "/etc/passwd", "PathNotAllowed"),
        ("code-reviewer", "src/none.py", "FileNotFoundError"),
        ("own", "src/models/user.py", "PermissionError"),
    ] {
        let ended = run(&place, role, &read(path));
        let found = ended.json()["error"]["code"].as_str().unwrap_or("-").to_owned();
        assert_eq!(found, code, "{role} {path}: {ended:?}");
    }
}

/// The allow-lists of the pipeline commands.
#[test]
fn designer_and_qa_have_only_their_tools() {
    let place = place("");
    for tool in ["locate_symbol", "get_source", "discover_api"] {
        let shown = place.run(&["role", "show", "qa"]).json();
        let qualified = format!("symbols.{tool}");
        let missing = shown["not_installed"].as_array().unwrap().contains(&json!(qualified));
        let there = shown["tools"].as_array().unwrap().iter().any(|one| one["tool"] == qualified);
        assert!(missing != there, "{shown:#}");
    }
    // "QA should NOT use: trace_calls, trace_endpoint, read_file".
    for tool in ["read_file", "trace_calls", "trace_endpoint"] {
        let ended = run(&place, "qa", &json!({"tool": tool, "path": "src/api/client.py"}));
        assert!(matches!(ended.status, 2 | 3), "{tool}: {ended:?}");
    }
    let ended = run(&place, "designer", &json!({"tool": "read_file", "path": "src/api/client.py"}));
    assert_eq!(ended.status, 3, "{ended:?}");
}

fn python() -> Place {
    let place = Place::new();
    place.write("src/app.py", "left = 1\nright =2\nprint(left, right)\n");
    place.write("src/other.py", "x =1\n");
    place.write("pyproject.toml", "[tool.ruff.lint]\npreview = true\nselect = [\"E\"]\n");
    place
}

/// The integration test of the lint agent, under its definition: `run_linter`, `apply_fix`,
/// `submit`.
#[test]
fn a_definition_binds_its_tools_to_its_target() {
    let place = python();
    let lint = lint();
    let under = |call: &Value| {
        let envelope = json!({ "actions": [call] }).to_string();
        let ended = place.run_with(&["run", "--role", &lint, "--target", "src/app.py"], &envelope);
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()["results"][0]["metadata"].clone()
    };
    let found = under(&json!({"type": "run_linter", "check_only": true}));
    assert_eq!(found["issues"][0]["code"], "E225", "{found}");
    let fixed = under(&json!({"type": "apply_fix", "issue_code": "E225", "line_number": 2}));
    assert_eq!(fixed["success"], true, "{fixed}");
    assert_eq!(under(&json!({"type": "read_file"}))["lines"], 3);
    let result = under(
        &json!({"type": "submit_result", "summary": "s", "issues_fixed": 1, "issues_remaining": 0, "changed_files": ["src/app.py"]}),
    );
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(place.read("src/app.py"), "left = 1\nright = 2\nprint(left, right)\n");
    assert_eq!(place.read("src/other.py"), "x =1\n");
}

#[test]
fn a_definition_narrows_and_never_widens() {
    let place = python();
    let lint = lint();
    let bound = ["--role", &lint, "--target", "src/app.py"];
    for (tool, args, status, wanted) in [
        // The definition's own parameters apply in addition to the tool's schema.
        ("apply_fix", r#"{"issue_code": "all", "line_number": 2}"#, 2, "^[A-Z]+[0-9]+$"),
        // Tools that the definition does not name.
        ("files.read_file", r#"{"path": "src/other.py"}"#, 3, "ToolNotInRole"),
        ("lint_agent.ruff_config", "{}", 3, "ToolNotInRole"),
        ("grep", r#"{"pattern": "x"}"#, 3, "ToolNotInRole"),
    ] {
        let ended = place.run(&[&["call", tool, args], &bound[..]].concat());
        assert_eq!(ended.status, status, "{tool}: {ended:?}");
        assert!(ended.stdout.contains(wanted), "{tool}: {ended:?}");
    }
    for (arguments, wanted) in [
        (vec!["call", "read_file", "--role", &lint], "is for one file: name it with --target"),
        (vec!["call", "read_file", "--role", &lint, "--target", "../x.py"], "leaves the workspace"),
        (vec!["call", "read_file", "--role", &lint, "--target", "/etc/passwd"], "is absolute"),
        (vec!["call", "read_file", "--role", &lint, "--target", "."], "is the whole workspace"),
        (vec!["call", "read_file", "--role", "reader", "--target", "a"], "--target binds an agent"),
        (vec!["call", "read_file", "--target", "a"], "--role <ROLE|FILE>"),
        (
            vec!["call", "read_file", "--role", "none.yaml", "--target", "a"],
            "none.yaml: No such file",
        ),
    ] {
        let ended = place.run(&arguments);
        assert_eq!(ended.status, 2, "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{arguments:?}: {ended:?}");
    }
    // A definition in the workspace may have been written by an agent, under any name or through a
    // link.
    place.write("agent.yaml", std::fs::read(&lint).unwrap());
    std::os::unix::fs::symlink(place.workspace().join("agent.yaml"), place.home_file("agent.yaml"))
        .unwrap();
    let link = place.home_file("agent.yaml");
    for file in ["agent.yaml", "./src/../agent.yaml", link.to_str().unwrap()] {
        let arguments = ["call", "read_file", "--role", file, "--target", "src/app.py"];
        let ended = place.run(&arguments);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("is in the workspace"), "{ended:?}");
        let ended = place.run(&[&arguments[..], &["--trust-workspace"]].concat());
        assert_eq!(ended.status, 0, "{ended:?}");
        assert_eq!(place.run(&["role", "show", file]).status, 0);
    }
}

#[test]
fn a_definition_becomes_a_prompt() {
    let place = python();
    let prompt = |target: &str| place.run(&["role", "prompt", &lint(), "--target", target]);
    let shown = prompt("src/app.py").json();
    assert_eq!((&shown["name"], &shown["node_id"]), (&json!("lint_agent"), &json!("src/app.py")));
    assert_eq!(shown["context"]["node_text"], place.read("src/app.py"));
    assert_eq!(shown["context"]["ruff_config"], place.read("pyproject.toml"));
    let roles: Vec<&Value> =
        shown["messages"].as_array().unwrap().iter().map(|m| &m["role"]).collect();
    assert_eq!(roles, ["system", "user"]);
    let user = shown["messages"][1]["content"].as_str().unwrap();
    for part in ["`src/app.py`", "right =2\n", "select = [\"E\"]"] {
        assert!(user.contains(part), "{part}: {user}");
    }
    let tools = shown["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["run_linter", "apply_fix", "read_file", "submit_result"]);
    assert_eq!(tools[0]["context_providers"], json!(["ruff_config"]));
    assert_eq!(tools[1]["input_schema"]["properties"]["issue_code"]["pattern"], "^[A-Z]+[0-9]+$");
    // The tools equal those that `tools` lists for the role.
    let listed = place.run(&["tools", "--role", &lint(), "--format", "anthropic"]).json();
    assert_eq!(listed.as_array().unwrap().len(), 4);
    // The lint agent's source: an empty string if there is no configuration.
    std::fs::remove_file(place.workspace().join("pyproject.toml")).unwrap();
    let shown = prompt("src/app.py").json();
    assert_eq!(shown["context"]["ruff_config"], "");
    assert!(shown["messages"][1]["content"].as_str().unwrap().contains("no configuration"));

    let ended = prompt("src/none.py");
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(
        ended.stderr.contains(
            "the context provider 'node_text' (lint_agent.read_file): file not found: src/none.py"
        ),
        "{ended:?}"
    );
}

#[test]
fn invalid_definitions_are_refused_with_the_reason() {
    let place = python();
    let with = |more: &str| {
        let file = place.home_file("bad.yaml");
        let text = format!("name: bad\ninitial_context: {{system_prompt: s}}\n{more}\n");
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    for (more, wanted) in [
        ("tools: [", "line "),
        ("tools: [{name: a, tool: a.b}]\ncolour: red", "unknown field `colour`"),
        ("tools: [{name: a, tool: a.b}]", "names the tool 'a.b', which no plugin here has"),
        (
            "tools: [{name: a, tool: files.read}]\ncontext_providers: {x: {tool: files.write_file}}",
            "it changes files; a context provider only reads",
        ),
        (
            "tools: [{name: a, tool: files.read}]\ncontext_providers: {x: {tool: files.read_file, args: {path: src/app.py}, field: colour}}",
            "its answer has no field 'colour'",
        ),
        (
            "tools: [{name: a, tool: files.read}]\ncontext_providers: {x: {tool: files.read_file, args: {path: src/other.py}}}",
            "PermissionError",
        ),
    ] {
        let ended = place.run(&["role", "prompt", &with(more), "--target", "src/app.py"]);
        assert!(matches!(ended.status, 1 | 2), "{more}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{more}: {ended:?}");
    }
    assert_eq!(place.run(&["role", "prompt", "reader", "--target", "a"]).status, 2);
    assert_eq!(place.run(&["role", "show", "nobody"]).status, 2);
}
