//! The JSON examples in the actions reference, "Command Execution" and "Git", word for word, on
//! matching projects.

use serde_json::{Value, json};

use super::linters::with_golangci_lint;
use super::{project, run};
use crate::support::Place;

/// Runs examples, all of which have to succeed.
fn play(place: &Place, actions: &[Value]) -> Vec<Value> {
    let results = run(place, actions);
    assert_eq!(results.len(), actions.len());
    for (action, result) in actions.iter().zip(&results) {
        assert_eq!(result["status"], "executed", "{action}: {result:#}");
        assert_eq!(result["action_type"], action["type"], "{result:#}");
    }
    results.into_iter().map(|result| result["metadata"].clone()).collect()
}

#[test]
fn examples_for_go() {
    let place = project("go", "");
    with_golangci_lint(&place, "");
    place.write("pkg/pkg.go", "// Package pkg holds what others may import.\npackage pkg\n");
    let answers = play(
        &place,
        &[
            json!({"type": "build_project", "build_target": "myapp", "build_command": "go build -o myapp ./cmd/app", "framework": "go", "timeout_seconds": 300}),
            json!({"type": "build_project"}),
            json!({"type": "build_project", "build_target": "myapp", "framework": "go"}),
            json!({"type": "build_project", "build_command": "go build -v -tags production ./...", "timeout_seconds": 600}),
            json!({"type": "run_tests"}),
            json!({"type": "run_tests", "test_pattern": "TestCalculator", "framework": "go", "timeout_seconds": 300}),
            json!({"type": "run_tests", "test_pattern": "TestDatabase", "framework": "go"}),
            json!({"type": "run_linter"}),
            json!({"type": "run_linter", "files": ["internal/*.go", "pkg/*.go"], "framework": "golangci-lint", "timeout_seconds": 300}),
            json!({"type": "run_linter", "files": ["internal/api/*.go"], "framework": "golangci-lint"}),
        ],
    );
    assert!(answers[..4].iter().all(|build| build["success"] == true), "{answers:#?}");
    assert_eq!(answers[6]["summary"]["skipped"], 1, "{:#}", answers[6]);
    // Golangci-lint or its stand-in has the same finding in the first two.
    assert_eq!(answers[7]["violations"][0]["rule"], "unused", "{:#}", answers[7]);
    assert_eq!(answers[9]["violation_count"], 0, "{:#}", answers[9]);
}

#[test]
fn examples_for_javascript() {
    let place = project("javascript", "");
    let answers = play(
        &place,
        &[
            json!({"type": "run_tests", "test_pattern": "should handle errors", "framework": "jest", "timeout_seconds": 600}),
            json!({"type": "run_linter", "framework": "eslint", "timeout_seconds": 600}),
            json!({"type": "build_project", "framework": "npm"}),
        ],
    );
    assert_eq!(answers[0]["summary"]["passed"], 1, "{:#}", answers[0]);
    assert_eq!(answers[2]["framework"], "npm");
}

#[test]
fn examples_for_python() {
    let place = project("python", "");
    let test = json!({"type": "run_tests", "test_pattern": "test_api", "framework": "pytest"});
    let fix = json!({
        "type": "edit_code",
        "path": "shop/counter.py",
        "patch": "--- a/shop/counter.py\n+++ b/shop/counter.py\n@@ -10,1 +10,1 @@\n-    return sum(prices) - 1\n+    return sum(prices)",
    });
    // Test, fix, test again.
    let read = json!({"type": "read_file", "path": "shop/counter.py"});
    let answers = play(&place, &[test.clone(), read, fix, test]);
    assert_eq!(answers[0]["success"], false, "{:#}", answers[0]);
    assert_eq!(answers[3]["success"], true, "{:#}", answers[3]);
}

#[test]
fn examples_for_the_shell_and_git() {
    let place = project("npm", "[grants.shell]\nfiles = 'write'\nprocess = ['bash']\n");
    place.write("frontend/package.json", "{\"name\": \"frontend\", \"version\": \"1.0.0\"}");
    play(
        &place,
        &[json!({"type": "run_command", "command": "npm install", "working_dir": "frontend"})],
    );
    assert!(place.workspace().join("frontend/package-lock.json").exists());
    place.with_git(&["init", "-q"]);
    let answers = play(&place, &[json!({"type": "git_status"}), json!({"type": "git_diff"})]);
    assert!(answers[0]["output"].as_str().unwrap().contains("price.js"), "{answers:#?}");
    assert_eq!(answers[1]["output"], "", "{answers:#?}");
}
