//! What a server offers: the tools of a role or an agent definition, and the host's contracts.

use std::fs;

use serde_json::{Value, json};

use super::http::{call, list, result};
use super::server::{Request, SERVE, Server};
use crate::support::{Place, project};
use crate::trial::configure;

/// The lint agent's definition, which is bound to a file.
fn lint() -> String {
    let file = project().join("examples/agents/lint/lint_subagent.yaml");
    file.to_str().unwrap().to_owned()
}

fn names(server: &Server, path: &str) -> Vec<String> {
    let (status, _, body) = server.ask(&list(path));
    assert_eq!(status, 200, "{body}");
    let tools = result(&body)["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_agent_definition_is_a_role() {
    let place = Place::new();
    place.write("src/app.py", "left = 1\n");
    place.write("src/other.py", "x = 1\n");
    let server = Server::new(&place, &["--role", &lint(), "--target", "src/app.py"]);
    assert_eq!(names(&server, "/mcp"), ["apply_fix", "read_file", "run_linter", "submit_result"]);
    let (_, _, body) = server.ask(&call("/mcp", "read_file", &json!({})));
    assert_eq!(result(&body)["structuredContent"]["content"], "left = 1\n", "{body}");
    let (_, _, body) =
        server.ask(&call("/mcp", "files.read_file", &json!({"path": "src/other.py"})));
    assert_eq!(result(&body)["isError"], true, "{body}");
    // No other role can be selected.
    assert_eq!(server.ask(&list("/mcp/reader")).0, 404);
    for (arguments, wanted) in [
        (&["--role", &*lint()][..], "is for one file: name it with --target"),
        (&["--role", "reader", "--target", "a"], "--target binds an agent definition"),
        (&["--role", "nobody"], "expected one of the roles"),
        (&["--role", "nothing.yaml"], "nothing.yaml: No such file"),
    ] {
        let ended = place.run(&[&["serve"], arguments].concat());
        assert_eq!(ended.status, 2, "{ended:?}");
        // Standard output is reserved for the protocol.
        assert_eq!(ended.stdout, "");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
    place.write("agent.yaml", fs::read(lint()).unwrap());
    let ended = place.run(&["serve", "--role", "agent.yaml", "--target", "src/app.py"]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.stderr.contains("is in the workspace"), "{ended:?}");
}

/// An agent that was given a role can't start a server with another one.
#[test]
fn the_role_in_the_environment_applies_to_the_server() {
    let place = Place::new();
    configure(&place, "[roles.lister]\ntools = ['files.glob']\n");
    let server = Server::started(place.command(SERVE).env("COFFERDAM_ROLE", "lister"));
    assert_eq!(names(&server, "/mcp"), ["glob"]);
    assert_eq!(server.ask(&list("/mcp/main")).0, 404);
    let ended =
        place.command(&["serve", "--role", "main"]).env("COFFERDAM_ROLE", "lister").output();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("the role here is 'lister'"));
}

#[test]
fn contracts_of_the_settings_are_prompts() {
    let place = Place::new();
    let folder = place.home_file("contracts");
    fs::create_dir(&folder).unwrap();
    let contract = "agent = 'writer'\npurpose = 'Write'\n[[fields]]\nname = 'pages'\n\
                    type = 'list'\nhint = '[page.md]'\nexample = '[guide.md]'\n\
                    [[next]]\nthen = 'proceed'\nreason = 'publish'\n";
    fs::write(folder.join("writer.toml"), contract).unwrap();
    let role = "[roles.author]\ntools = ['files.glob']\ncontract = 'writer'\n";
    configure(&place, &format!("contracts = [{folder:?}]\n{role}"));
    let server = Server::new(&place, &[]);
    let ask_under = |path: &str, method: &str, params: &Value| {
        let (status, _, body) = server.ask(&Request::post(path, method, params));
        assert_eq!(status, 200, "{body}");
        result(&body)
    };
    let ask = |method: &str, params: &Value| ask_under("/mcp/author", method, params);
    // A role without a contract has no prompts.
    for path in ["/mcp", "/mcp/main"] {
        assert_eq!(ask_under(path, "prompts/list", &json!({}))["prompts"], json!([]), "{path}");
    }
    let prompts = ask("prompts/list", &json!({}));
    let prompts: Vec<&str> = prompts["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["name"].as_str().unwrap())
        .collect();
    assert_eq!(prompts, ["writer"]);
    let prompt = ask("prompts/get", &json!({"name": "writer", "arguments": {"task": "Do this."}}));
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("Do this.\n\n") && text.contains("[page.md]"), "{text}");
}

/// The default role costs a model few tokens, whatever else there is.
#[test]
fn the_default_role_lists_few_tokens() {
    let place = Place::new();
    let count = |arguments: &[&str]| {
        let tools = [&["tools", "--format", "mcp", "--tokens"], arguments].concat();
        place.run(&tools).json()["total"].as_u64().unwrap()
    };
    let coder = count(&["--role", "coder"]);
    assert!(coder <= 3500, "{coder}");
    assert!(count(&["--role", "coder", "--output-schemas"]) > coder);
    let server = Server::started(&mut place.command(SERVE));
    let (_, _, body) = server.ask(&list("/mcp"));
    let tools = result(&body)["tools"].take();
    let shown = place.run(&["tools", "--role", "coder", "--format", "mcp"]).json();
    let sorted = |tools: &Value| {
        let mut tools = tools.as_array().unwrap().clone();
        tools.sort_by_key(|tool| tool["name"].to_string());
        tools
    };
    assert_eq!(sorted(&tools), sorted(&shown["tools"]));
    assert!(tools.as_array().unwrap().iter().all(|tool| tool["outputSchema"].is_null()));
}

/// The tools of the lint agent work on the file that its role is bound to.
#[test]
fn tools_without_a_target_file_are_not_offered() {
    let place = Place::new();
    place.write("a.py", "x = 1\n");
    configure(&place, "[roles.bound]\ntools = ['lint_agent.*']\nscope = ['a.py']\n");
    let server = Server::new(&place, &[]);
    assert_eq!(names(&server, "/mcp/lint"), [""; 0]);
    assert!(!names(&server, "/mcp/main").iter().any(|name| name.contains("apply_fix")));
    assert!(names(&server, "/mcp/bound").contains(&"apply_fix".to_owned()));
}
