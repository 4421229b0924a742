//! What agents are told about the tools: listings for each client, their token counts, searches,
//! and the checklist of the tool schemas over all schemas.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::support::{Place, project};

/// The tokens of the prose in which the tool schemas describe their own tools: the sections of
/// `bash`, `read`, `glob`, `grep` and `save_agent_report` (xtask/src/tokens.rs).
const PROSE: u64 = 681 + 647 + 643 + 817 + 878;

/// The schemas of all built-in tools, by file name.
fn schemas() -> Vec<(String, Value)> {
    let entries = fs::read_dir(project().join("schemas/tools")).unwrap();
    let mut schemas: Vec<(String, Value)> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // The checklist: all JSON schemas pass `json.loads()`.
            (name.clone(), serde_json::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}")))
        })
        .collect();
    schemas.sort_by(|left, right| left.0.cmp(&right.0));
    assert!(schemas.len() > 50);
    schemas
}

/// Calls `show` for every object of a document, with its place.
fn each(document: &Value, place: &str, show: &mut impl FnMut(&str, &Value)) {
    match document {
        Value::Object(fields) => {
            show(place, document);
            for (name, inner) in fields {
                // Examples and the like are data, not schemas.
                if !matches!(name.as_str(), "examples" | "enum" | "const" | "default") {
                    each(inner, &format!("{place}/{name}"), show);
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                each(inner, &format!("{place}/{index}"), show);
            }
        }
        _ => {}
    }
}

/// The tool schemas, "Validation Checklist", for every schema of every tool.
#[test]
fn schemas_pass_the_checklist() {
    for (name, schema) in schemas() {
        // No circular references and no invalid schemas: the host refuses those.
        cofferdam_core::schema::Schema::compile(schema.clone())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        each(&schema, "", &mut |place, part| {
            let Some(required) = part.get("required").and_then(Value::as_array) else { return };
            // Required fields are marked correctly: each of them is a defined property.
            for field in required.iter().filter_map(Value::as_str) {
                let defined = part.get("properties").and_then(|all| all.get(field)).is_some();
                let in_branch =
                    place.contains("Of/") || place.contains("/if") || place.contains("/then");
                assert!(defined || in_branch, "{name}{place}: '{field}' is required, not defined");
            }
        });
        // All properties are defined: each has a type or the like.
        each(&schema, "", &mut |place, part| {
            let Some(properties) = part.get("properties").and_then(Value::as_object) else {
                return;
            };
            if place.ends_with("/properties") {
                return;
            }
            for (property, says) in properties {
                let keys = ["type", "enum", "const", "$ref", "anyOf", "oneOf", "allOf", "not"];
                let defined = says.is_boolean() || keys.iter().any(|key| says.get(key).is_some());
                assert!(defined, "{name}{place}: '{property}' says nothing of its type");
            }
        });
        if !name.ends_with(".input.json") {
            continue;
        }
        assert_eq!(schema["additionalProperties"], false, "{name}");
        // Examples match the schema.
        let examples = schema["examples"].as_array().unwrap_or_else(|| panic!("{name}"));
        assert!(!examples.is_empty(), "{name}");
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        for example in examples {
            assert!(validator.is_valid(example), "{name}: {example}");
        }
    }
}

/// The checklist: enums match the actual agent names, and each agent can save its report.
#[test]
fn the_agents_of_the_report_are_roles() {
    let place = Place::new();
    let report = place.run(&["tools", "save_agent_report"]).json();
    let agents: BTreeSet<&str> = report["input"]["properties"]["agent_name"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let roles = place.run(&["role", "list"]).json();
    let of_s4: BTreeSet<&str> = roles["roles"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|role| role["description"].as_str().unwrap().starts_with("Verification agent:"))
        .filter_map(|role| role["role"].as_str())
        .collect();
    assert_eq!(agents, of_s4);
    assert_eq!(agents.len(), 5);
    for agent in agents {
        let shown = place.run(&["role", "show", agent]).json();
        let tools = shown["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["called"] == "save_agent_report"), "{agent}");
    }
}

/// Every description, by its place.
fn descriptions(schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    each(schema, "", &mut |_, part| {
        found.extend(part.get("description").and_then(Value::as_str).map(str::to_owned));
    });
    found
}

#[test]
fn clients_get_compact_schemas_under_valid_names() {
    let place = Place::new();
    for role in [None, Some("main"), Some("reader"), Some("lint"), Some("code-reviewer")] {
        let options = role.map_or(vec![], |role| vec!["--role", role]);
        let list = |format: &str| {
            place.run(&[&["tools", "--format", format][..], &options].concat()).json()
        };
        let (mcp, openai, anthropic) = (list("mcp"), list("openai"), list("anthropic"));
        let mcp = mcp["tools"].as_array().unwrap();
        let mut names = BTreeSet::new();
        for (index, tool) in mcp.iter().enumerate() {
            let name = tool["name"].as_str().unwrap();
            assert!(names.insert(name), "{role:?} {name} twice");
            assert!((1..=64).contains(&name.len()), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)), "{name}");
            // The listed name calls this tool.
            let whole = place.run(&[&["tools", name][..], &options].concat()).json();
            assert_eq!(whole["description"], tool["description"], "{role:?} {name}");
            let input = &tool["inputSchema"];
            assert_eq!(input["type"], "object", "{name}");
            for gone in ["$schema", "$id", "title", "examples"] {
                assert!(input.get(gone).is_none(), "{name}: {gone}");
            }
            assert_eq!(descriptions(input), descriptions(&whole["input"]), "{name}");
            let function = &openai[index]["function"];
            assert_eq!(
                (&openai[index]["type"], &function["name"]),
                (&json!("function"), &json!(name))
            );
            assert_eq!(&function["parameters"], input, "{name}");
            // Strict mode requires every property to be required, so it is not set.
            assert!(function.get("strict").is_none(), "{name}");
            assert_eq!(
                anthropic[index],
                json!({"name": name, "description": tool["description"], "input_schema": input})
            );
            // Anthropic accepts only these characters in properties.
            for property in input["properties"].as_object().unwrap().keys() {
                let fits = property.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
                assert!(fits && property.len() <= 64, "{name}: {property}");
            }
        }
    }
    // Short names in a role; qualified names if the short name is ambiguous.
    let called = |role: &str| {
        let shown = place.run(&["role", "show", role]).json();
        let tools = shown["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["called"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(called("code-reviewer"), ["read", "save_agent_report", "bash"]);
    assert_eq!(
        called("lint"),
        ["apply_fix", "read_file", "ruff_config", "run_linter", "submit_result"]
    );
    assert!(called("main").contains(&"lint_agent__run_linter".to_owned()));
}

fn tokens(place: &Place, options: &[&str]) -> Value {
    let ended = place.run(&[&["tools", "--tokens"], options].concat());
    assert_eq!(ended.status, 0, "{ended:?}");
    ended.json()
}

/// The tool schemas, "Token Impact Analysis": tool descriptions need at least 70 % fewer tokens
/// than prose.
#[test]
fn the_tool_schemas_cost_seventy_percent_less_than_their_prose() {
    let place = Place::new();
    let counted = tokens(&place, &["--role", "main", "--format", "anthropic"]);
    assert_eq!(
        (&counted["encoding"], &counted["format"]),
        (&json!("o200k_base"), &json!("anthropic"))
    );
    let all = counted["tools"].as_array().unwrap();
    let sum: u64 = all.iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum();
    assert_eq!(counted["total"], sum);
    let of_s4 = ["shell.bash", "files.read", "files.glob", "grep.grep", "report.save_agent_report"];
    let cost: u64 = all
        .iter()
        .filter(|tool| of_s4.contains(&tool["tool"].as_str().unwrap()))
        .map(|tool| tool["tokens"].as_u64().unwrap())
        .sum();
    assert!(cost > 500 && cost * 100 <= PROSE * 30, "{cost} of {PROSE}");
}

/// First only the names, then everything about one tool.
#[test]
fn listings_come_in_stages() {
    let place = Place::new();
    let total = |options: &[&str]| tokens(&place, options)["total"].as_u64().unwrap();
    let stages = [
        total(&["--format", "text", "--brief"]),
        total(&["--format", "json", "--brief"]),
        total(&["--format", "json"]),
        total(&["--format", "anthropic"]),
        total(&["--format", "mcp"]),
        total(&["--format", "markdown"]),
    ];
    assert!(stages.is_sorted_by(|less, more| less < more), "{stages:?}");
    let brief = place.run(&["tools", "--brief"]).json();
    assert_eq!(brief["tools"][0], json!({"name": "beads.approve_bead", "title": "Approve a bead"}));
    let brief = place.run(&["tools", "--brief", "--format", "markdown"]).stdout;
    assert!(brief.starts_with("- `beads.approve_bead`: Approve a bead\n"), "{brief}");
    for (arguments, wanted) in [
        (&["tools", "--brief", "--format", "mcp"][..], "mcp has no short form"),
        (&["tools", "--brief", "read"], "cannot be used with"),
        (&["tools", "--search", "x", "read"], "cannot be used with"),
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains(wanted), "{ended:?}");
    }
}

#[test]
fn search_results_are_sorted_by_relevance() {
    let place = Place::new();
    let found = |arguments: &[&str]| -> Vec<String> {
        let ended = place.run(&[&["tools", "--format", "json", "--search"], arguments].concat());
        let tools = ended.json()["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(found(&["apply a patch"])[0], "edit.apply_patch");
    assert_eq!(found(&["GREP"])[0], "grep.grep");
    assert_eq!(found(&["read"])[0], "files.read");
    assert_eq!(found(&["run tests"])[0], "tests.run_tests");
    assert_eq!(found(&["report"])[0], "report.save_agent_report");
    assert_eq!(found(&["zzzz"]), Vec::<String>::new());
    assert_eq!(found(&[""]), Vec::<String>::new());
    let of_role = found(&["file", "--role", "reader"]);
    assert!(
        !of_role.is_empty() && of_role.iter().all(|name| !name.contains("write")),
        "{of_role:?}"
    );
    assert_eq!(found(&["file"]), found(&["file"]));
}

/// Editors, registries and other schemas refer to a schema by its id.
#[test]
fn every_schema_has_an_id() {
    let mut count = 0;
    for folder in ["schemas", "schemas/tools"] {
        for file in fs::read_dir(project().join(folder)).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_none_or(|suffix| suffix != "json") {
                continue;
            }
            let schema: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            let name = file.file_stem().unwrap().to_str().unwrap();
            assert_eq!(
                schema["$id"],
                format!("urn:cofferdam:schema:{name}:1"),
                "{}",
                file.display()
            );
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}
