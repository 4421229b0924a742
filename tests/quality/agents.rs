//! The lint agent: one file, from the first look to the report.

use serde_json::{Value, json};

use super::project;
use crate::support::Place;

const BEFORE: &str =
    "\u{feff}\"\"\"A file.\"\"\"\r\n\r\nleft = 1\r\nright =2\r\nprint(left, right)\r\n";
const AFTER: &str =
    "\u{feff}\"\"\"A file.\"\"\"\r\n\r\nleft = 1\r\nright = 2\r\nprint(left, right)\r\n";

const CONFIG: &str = "[project]\nname = \"x\"\nversion = \"1\"\n\n[tool.ruff.lint]\npreview = true\nselect = [\"E\"]\n";

fn place(settings: &str) -> Place {
    let place = project("npm", settings);
    place.write("src/app.py", BEFORE);
    place.write("pyproject.toml", CONFIG);
    place
}

/// Runs the agent's calls and returns their results, each in the form of its contract.
fn play(place: &Place, actions: &[Value]) -> Vec<Value> {
    let envelope = json!({ "actions": actions }).to_string();
    let scope = ["src/app.py", "pyproject.toml", "ruff.toml", ".ruff.toml"];
    let scope = scope.iter().flat_map(|path| ["--scope", path]);
    let arguments: Vec<&str> = ["run", "--role", "lint"].into_iter().chain(scope).collect();
    let ended = place.run_with(&arguments, &envelope);
    let results =
        ended.json()["results"].as_array().cloned().unwrap_or_else(|| panic!("{ended:?}"));
    results
        .iter()
        .map(|result| {
            assert_eq!(result["status"], "executed", "{result:#}");
            result["metadata"].clone()
        })
        .collect()
}

#[test]
fn an_agent_lints_fixes_and_submits() {
    for settings in ["", "[linters]\npython = 'native-ruff'"] {
        let place = place(settings);
        let results = play(
            &place,
            &[
                json!({"type": "run_linter", "check_only": true}),
                json!({"type": "ruff_config"}),
                json!({"type": "read_file"}),
                json!({"type": "apply_fix", "issue_code": "E225", "line_number": 4}),
                json!({"type": "apply_fix", "issue_code": "E225", "line_number": 4}),
                json!({"type": "run_linter"}),
                json!({"type": "submit_result", "summary": "Spaces around operators", "issues_fixed": 1, "issues_remaining": 0, "changed_files": ["src/app.py"]}),
            ],
        );
        let issue = &results[0]["issues"][0];
        assert_eq!(issue["code"], "E225", "{settings}: {results:#?}");
        assert_eq!((&issue["line"], &issue["fixable"]), (&json!(4), &json!(true)), "{issue}");
        assert_eq!((&results[0]["total"], &results[0]["fixable_count"]), (&json!(1), &json!(1)));
        assert_eq!(results[1], json!("[tool.ruff.lint]\npreview = true\nselect = [\"E\"]\n"));
        assert_eq!(results[2], json!({"content": BEFORE, "lines": 5}));
        assert_eq!(
            results[3],
            json!({"success": true, "message": "Applied fix for E225 at line 4"})
        );
        assert_eq!(
            results[4],
            json!({"success": false, "message": "No fixable issue at that location"})
        );
        assert_eq!(results[5], json!({"issues": [], "total": 0, "fixable_count": 0}));
        assert_eq!(results[6]["status"], "success", "{results:#?}");
        assert_eq!(results[6]["changed_files"], json!(["src/app.py"]));
        assert_eq!(results[6]["error"], Value::Null);
        // One byte differs in the workspace; BOM and line endings are unchanged.
        assert_eq!(place.read("src/app.py"), AFTER, "{settings}");
        let diff = place.run(&["log", "--commits"]);
        let commits = diff.json()["records"].as_array().unwrap().len();
        assert_eq!(commits, 1, "{diff:?}");
    }
}

#[test]
fn the_agent_never_raises_and_stays_in_its_file() {
    let place = place("");
    let envelope = json!({"actions": [
        {"type": "run_linter"},
        {"type": "read_file"},
        {"type": "apply_fix", "issue_code": "E225", "line_number": 4},
        {"type": "ruff_config"},
    ]})
    .to_string();
    for scope in [&["--scope", "src"][..], &["--scope", "src/no-such.py"], &[]] {
        let arguments = [&["run", "--role", "lint"], scope].concat();
        let ended = place.run_with(&arguments, &envelope);
        for result in ended.json()["results"].as_array().unwrap() {
            assert_eq!(result["status"], "executed", "{scope:?}: {result:#}");
            if result["action_type"] != "ruff_config" {
                assert!(result["metadata"]["error"].is_string(), "{scope:?}: {result:#}");
            }
        }
    }
    assert_eq!(place.read("src/app.py"), BEFORE);
    // Without the role, the name means the other tool.
    let ended = place.run(&["call", "read_file", r#"{"path": "pyproject.toml"}"#]);
    assert_eq!(ended.json()["content"], CONFIG, "{ended:?}");
}

#[test]
fn a_missing_configuration_is_empty() {
    let place = place("");
    std::fs::remove_file(place.workspace().join("pyproject.toml")).unwrap();
    assert_eq!(play(&place, &[json!({"type": "ruff_config"})]), [json!("")]);
}
