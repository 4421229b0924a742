//! `run_tests` and `build_project` on projects in several languages.

use serde_json::{Value, json};

use super::{configure_programs, executed, is_missing, left_over, project, run};
use crate::projects::break_it;
use crate::support::Place;

/// The entry of a test in a result.
fn test<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let tests = answer["tests"].as_array().unwrap();
    tests
        .iter()
        .find(|test| test["name"].as_str().is_some_and(|found| found.contains(name)))
        .unwrap_or_else(|| panic!("{name}: {answer:#}"))
}

#[test]
fn tests_are_found_run_and_reported_separately() {
    for (language, framework, passing, failing, skipped) in [
        ("go", "go", "TestDescribe", "TestCalculate", "TestDatabase"),
        ("python", "pytest", "test_api_left", "test_api_total", "test_database"),
        ("javascript", "jest", "has a label", "adds up", "is stored"),
        ("rust", "cargo", "a_price_has_a_label", "prices_add_up", "prices_are_stored"),
    ] {
        let place = project(language, "");
        let answer = executed(&place, json!({"type": "run_tests", "verbose": true}));
        assert_eq!(answer["framework"], framework, "{answer:#}");
        assert_eq!(answer["success"], false, "{language}: {answer:#}");
        assert_eq!(answer["timed_out"], false, "{language}: {answer:#}");
        assert_eq!(test(&answer, passing)["status"], "pass", "{language}: {answer:#}");
        let failed = test(&answer, failing);
        assert_eq!(failed["status"], "fail", "{language}: {answer:#}");
        assert!(!failed["error"].as_str().unwrap().is_empty(), "{language}: {failed:#}");
        assert_eq!(test(&answer, skipped)["status"], "skip", "{language}: {answer:#}");
        let summary = &answer["summary"];
        let number = |key: &str| summary[key].as_u64().unwrap();
        assert_eq!(number("total"), number("passed") + number("failed") + number("skipped"));
        assert!(number("passed") > 0 && number("failed") > 0 && number("skipped") > 0);
        assert!(answer["duration"].as_str().unwrap().ends_with('s'));
        let left = left_over(&place, language);
        assert!(left.iter().all(|path| path.starts_with("node_modules")), "{language}: {left:?}");

        // Only one of the tests.
        let one = executed(
            &place,
            json!({"type": "run_tests", "test_pattern": passing, "framework": framework, "timeout_seconds": 300, "verbose": true}),
        );
        assert_eq!(one["success"], true, "{language}: {one:#}");
        assert_eq!(test(&one, passing)["status"], "pass", "{language}: {one:#}");

        // None of the tests.
        let none =
            json!({"type": "run_tests", "test_pattern": "no_such_test", "framework": framework});
        let none = executed(&place, none);
        assert_eq!(none["success"], false, "{language}: {none:#}");
        assert_eq!(
            (&none["summary"]["passed"], &none["summary"]["failed"]),
            (&json!(0), &json!(0))
        );
        let said = none["raw_output"].as_str().unwrap();
        assert!(said.starts_with("no test that matches the pattern 'no_such_test' ran"), "{said}");
    }
}

#[test]
fn an_invalid_package_json_is_reported_with_its_place() {
    let place = Place::new();
    place.write("package.json", "{\n  \"name\": \"a\",\n}\n");
    let result = run(&place, &[json!({"type": "run_tests"})]).remove(0);
    assert_eq!(result["status"], "error", "{result:#}");
    let wanted = "package.json can't be read: trailing comma at line 3 column 1";
    assert!(result["message"].as_str().unwrap().contains(wanted), "{result:#}");
}

/// Debian's programs, without an entry in the settings.
#[test]
fn debians_java_tools_start() {
    let place = Place::new();
    let listed = place.run(&["backend", "list"]).json();
    for (builder, program) in [("maven", "/usr/bin/mvn"), ("gradle", "/usr/bin/gradle")] {
        if !std::path::Path::new(program).exists() {
            super::print_skipped(&format!("there is no {program}"));
            continue;
        }
        let backends = listed["backends"].as_array().unwrap();
        let found = backends.iter().find(|backend| backend["name"] == builder).unwrap();
        assert!(found["version"].is_string(), "{found:#}");
        assert!(!found["version"].as_str().unwrap().starts_with("17."), "Java's: {found:#}");
    }
}

#[test]
fn a_silent_failed_build_has_an_error() {
    let place = Place::new();
    place.write("Makefile", "all:\n");
    let action = json!({"type": "build_project", "framework": "make", "build_command": "make -f /dev/null -s no"});
    let answer = executed(&place, action);
    assert_eq!(answer["success"], false, "{answer:#}");
    assert_eq!(answer["error_count"], 1, "{answer:#}");
}

#[test]
fn npm_runs_the_projects_own_test_script() {
    let place = project("npm", "");
    let answer = executed(&place, json!({"type": "run_tests"}));
    assert_eq!(answer["framework"], "npm", "{answer:#}");
    assert!(answer["summary"]["total"].as_u64().unwrap() > 0, "{answer:#}");
}

#[test]
fn endless_tests_are_stopped_in_time() {
    let place = project("python", "");
    place.write(
        "tests/test_endless.py",
        "import time\n\ndef test_endless():\n    time.sleep(600)\n",
    );
    let started = std::time::Instant::now();
    let answer = executed(
        &place,
        json!({"type": "run_tests", "test_pattern": "endless", "timeout_seconds": 3}),
    );
    assert_eq!(
        (&answer["timed_out"], &answer["success"]),
        (&json!(true), &json!(false)),
        "{answer:#}"
    );
    assert!(started.elapsed().as_secs() < 30);
}

#[test]
fn a_missing_runner_is_reported() {
    let place = Place::new();
    place.write("README", "nothing to test");
    let result = run(&place, &[json!({"type": "run_tests"})]).remove(0);
    assert_eq!(
        (&result["status"], &result["message"]),
        (&json!("error"), &json!("test runner not configured")),
        "{result:#}"
    );
    let result = run(&place, &[json!({"type": "build_project"})]).remove(0);
    assert_eq!(result["status"], "error", "{result:#}");
}

#[test]
fn tests_of_a_project_below_the_root_are_run() {
    let place = Place::new();
    configure_programs(&place, "");
    place.write("README.md", "two services\n");
    place.write("services/api/pyproject.toml", "[tool.pytest.ini_options]\n");
    place.write("services/api/tests/test_a.py", "def test_a():\n    assert 1 == 2\n");
    place.write("services/api/tests/test_b.py", "def test_b():\n    pass\n");
    let answer = executed(&place, json!({"type": "run_tests"}));
    assert_eq!(answer["framework"], "pytest", "{answer:#}");
    assert_eq!(
        answer["summary"],
        json!({"total": 2, "passed": 1, "failed": 1, "skipped": 0}),
        "{answer:#}"
    );
    assert_eq!(answer["tests"][0]["package"], "services/api/tests/test_a.py", "{answer:#}");
    let one = json!({"type": "run_tests", "test_pattern": "services/api/tests/test_b.py"});
    assert_eq!(executed(&place, one)["summary"]["total"], 1);
}

#[test]
fn a_missing_dependency_is_an_error_with_its_cure() {
    let place = Place::new();
    configure_programs(&place, "");
    place.write("pyproject.toml", "[tool.pytest.ini_options]\n");
    place.write("test_a.py", "import no_such_module\n\ndef test_a():\n    pass\n");
    let result = run(&place, &[json!({"type": "run_tests"})]).remove(0);
    assert_eq!(result["status"], "error", "{result:#}");
    assert_eq!(result["metadata"]["code"], "TestSetupFailed", "{result:#}");
    let message = result["message"].as_str().unwrap();
    assert!(message.contains("No module named 'no_such_module'"), "{message}");
    assert!(message.contains("Cure: install"), "{message}");
}

#[test]
fn a_later_page_of_a_run_does_not_run_the_tests_again() {
    let place = Place::new();
    configure_programs(&place, "");
    place.write("pyproject.toml", "[tool.pytest.ini_options]\n");
    place.write(
        "test_many.py",
        "import pytest\n\n@pytest.mark.parametrize('n', range(400))\ndef test_one(n):\n    assert n < 0\n",
    );
    let first = executed(&place, json!({"type": "run_tests"}));
    assert_eq!(first["summary"]["failed"], 400, "{first:#}");
    assert!(first.to_string().len() <= 16 * 1024);
    let offset = first["tests"].as_array().unwrap().len();
    let next = executed(&place, json!({"type": "run_tests", "offset": offset}));
    assert_eq!(next["duration"], first["duration"], "the same run");
    assert_eq!(next["tests"][0]["name"], format!("test_one[{offset}]"), "{next:#}");
}

#[test]
fn build_errors_have_a_place() {
    for (language, framework, program, file, line) in [
        ("go", "go", "go", "internal/foo.go", 10),
        ("rust", "cargo", "cargo", "src/lib.rs", 6),
        ("make", "make", "make", "main.c", 8),
        ("java", "maven", "mvn", "src/main/java/shop/Price.java", 0),
        ("java", "gradle", "gradle", "src/main/java/shop/Price.java", 0),
    ] {
        if is_missing(program) {
            continue;
        }
        let place = project(language, "");
        let build = || executed(&place, json!({"type": "build_project", "framework": framework}));
        let sound = build();
        assert_eq!(sound["framework"], framework, "{sound:#}");
        assert_eq!(
            (&sound["success"], &sound["exit_code"]),
            (&json!(true), &json!(0)),
            "{sound:#}"
        );
        assert_eq!(sound["error_count"], 0, "{sound:#}");
        break_it(&place, language);
        let broken = build();
        assert_eq!(broken["success"], false, "{framework}: {broken:#}");
        let errors = broken["errors"].as_array().unwrap();
        assert_eq!(broken["error_count"].as_u64().unwrap() as usize, errors.len());
        let is_there = |error: &Value| {
            error["file"] == file
                && (line == 0 || error["line"] == line)
                && error["type"] == "error"
        };
        assert!(errors.iter().any(is_there), "{framework}: {broken:#}");
    }
}

#[test]
fn build_output_is_committed_and_can_be_undone() {
    let place = project("go", "");
    let answer = executed(
        &place,
        json!({"type": "build_project", "build_target": "myapp", "build_command": "go build -o myapp ./cmd/app", "framework": "go", "timeout_seconds": 300}),
    );
    assert_eq!(answer["success"], true, "{answer:#}");
    let app = place.workspace().join("myapp");
    #[expect(clippy::disallowed_methods, reason = "runs the built program")]
    let ran = std::process::Command::new(&app).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let undone = place.run(&["undo"]);
    assert_eq!(undone.status, 0, "{undone:?}");
    assert!(!app.exists());
    assert_eq!(left_over(&place, "go"), [""; 0]);

    for command in ["go build ./... && touch x", "go build; touch x", "touch x", "sh -c 'touch x'"]
    {
        let result = run(
            &place,
            &[json!({"type": "build_project", "framework": "go", "build_command": command})],
        )
        .remove(0);
        assert_eq!(result["status"], "error", "{command}: {result:#}");
        assert!(!place.workspace().join("x").exists(), "{command}");
    }
}
