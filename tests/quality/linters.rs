//! `run_linter` and `lint_backend`: every linter, selected by one line of the settings.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use super::{configure_programs, executed, is_missing, left_over, project, run};
use crate::support::Place;

/// The rules of the findings in one file.
fn rules<'a>(answer: &'a Value, file: &str) -> Vec<&'a str> {
    let violations = answer["violations"].as_array().unwrap().iter();
    violations
        .filter(|violation| violation["file"] == file)
        .map(|violation| violation["rule"].as_str().unwrap())
        .collect()
}

#[test]
fn one_setting_changes_pythons_linter() {
    for (settings, framework, rule) in [
        ("", "ruff", "F401"),
        ("[linters]\npython = 'pyflakes'", "pyflakes", "F401"),
        ("[linters]\npython = 'native-ruff'", "native-ruff", "F401"),
        ("[linters]\npython = 'pylint'", "pylint", "unused-import"),
        ("[linters]\npython = ['ruff', 'mypy']", "ruff, mypy", "F401"),
    ] {
        let place = project("python", settings);
        // The rules of the actions reference are the same with any linter.
        let answer = executed(&place, json!({"type": "run_linter"}));
        assert_eq!(answer["framework"], framework, "{answer:#}");
        assert_eq!(answer["success"], false, "{answer:#}");
        assert_ne!(answer["exit_code"], 0, "{answer:#}");
        assert!(rules(&answer, "shop/counter.py").contains(&rule), "{framework}: {answer:#}");
        let count = answer["violation_count"].as_u64().unwrap() as usize;
        assert_eq!(count, answer["violations"].as_array().unwrap().len());
        let fields = ["file", "line", "column", "rule", "severity", "message", "linter"];
        for violation in answer["violations"].as_array().unwrap() {
            assert!(fields.iter().all(|field| !violation[*field].is_null()), "{violation}");
        }
        assert_eq!(left_over(&place, "python"), [""; 0], "{framework}");
    }
}

#[test]
fn one_setting_changes_javascripts_linter() {
    for (settings, framework) in [
        // The framework that is named runs, whatever the operator chose.
        ("", "eslint"),
        ("[linters]\njavascript = 'eslint'\ntypescript = []", "eslint"),
        ("[linters]\njavascript = 'native-eslint'\ntypescript = []", "native-eslint"),
    ] {
        let place = project("javascript", settings);
        let answer = executed(
            &place,
            json!({"type": "run_linter", "framework": "eslint", "files": ["src/*.js"]}),
        );
        assert_eq!(answer["framework"], framework, "{answer:#}");
        let rules = rules(&answer, "src/price.js");
        assert!(rules.contains(&"no-unused-vars") && rules.contains(&"prefer-const"), "{answer:#}");
    }
}

#[test]
fn go_and_rust_are_linted_by_their_own_programs() {
    let place = project("rust", "");
    let answer = executed(&place, json!({"type": "run_linter"}));
    assert_eq!(answer["framework"], "clippy", "{answer:#}");
    let found = rules(&answer, "src/lib.rs");
    assert!(found.contains(&"unused_variables"), "{answer:#}");
    assert!(found.contains(&"clippy::needless_return"), "{answer:#}");
    assert_eq!(left_over(&place, "rust"), [""; 0]);
}

/// The output of golangci-lint 2, for machines without it. The format is the public one; the
/// finding is that of the sample project.
const GOLANGCI: &str = r#"#!/bin/sh
if [ "$1" = version ] || [ "$1" = --version ]; then
  echo 'golangci-lint has version 2.5.0 built with go1.25.1 from ff63786c on 2025-09-21T19:04:19Z'
  exit 0
fi
cat <<'END'
{"Issues":[{"FromLinter":"unused","Text":"var x is unused","Severity":"","SourceLines":["\tx        = 1"],"Pos":{"Filename":"internal/foo.go","Offset":0,"Line":10,"Column":2},"ExpectNoLint":false,"ExpectedNoLintLinter":""}],"Report":{"Linters":[{"Name":"unused","Enabled":true}]}}
END
exit 1
"#;

/// Settings for golangci-lint: the real one, or its stand-in.
pub(super) fn with_golangci_lint(place: &Place, settings: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let mut programs = crate::programs::settings();
    if is_missing("golangci-lint") {
        let bin = place.home().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let program = bin.join("golangci-lint");
        std::fs::write(&program, GOLANGCI).unwrap();
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
        programs = programs.replacen("path = [", &format!("path = [{bin:?}, "), 1);
    }
    crate::trial::configure(place, &format!("{settings}\n{programs}"));
}

#[test]
fn output_of_golangci_lint_is_parsed() {
    let place = project("go", "");
    with_golangci_lint(&place, "");
    let answer = executed(
        &place,
        json!({"type": "run_linter", "files": ["internal/*.go"], "framework": "golangci-lint", "timeout_seconds": 300}),
    );
    assert_eq!(answer["framework"], "golangci-lint", "{answer:#}");
    let violation = &answer["violations"][0];
    assert_eq!(violation["file"], "internal/foo.go", "{answer:#}");
    assert_eq!((&violation["line"], &violation["column"]), (&json!(10), &json!(2)), "{answer:#}");
    assert_eq!((&violation["rule"], &violation["linter"]), (&json!("unused"), &json!("unused")));
}

#[test]
fn unchecked_files_are_not_clean() {
    let place = project("go", "");
    // The program is missing, or can't download its dependencies: in either case the result says
    // so.
    if is_missing("golangci-lint") {
        let result = run(&place, &[json!({"type": "run_linter"})]).remove(0);
        assert_eq!(result["status"], "error", "{result:#}");
        assert!(result["message"].as_str().unwrap().contains("golangci-lint"), "{result:#}");
    }
    for (action, wanted) in [
        (json!({"type": "run_linter", "framework": "no-such"}), "no-such"),
        (json!({"type": "run_linter", "files": ["../outside.py"]}), "outside"),
        (json!({"type": "run_linter", "files": ["nothing/*.py"]}), "nothing/*.py"),
    ] {
        let result = run(&place, std::slice::from_ref(&action)).remove(0);
        assert_eq!(result["status"], "error", "{action}: {result:#}");
        let text = result.to_string();
        assert!(text.contains(wanted), "{action}: {result:#}");
    }
}

#[test]
fn an_unknown_backend_is_reported_everywhere() {
    let place = Place::new();
    place.write("c/m.py", "x: int = 1\n");
    place.write(
        "cofferdam.toml",
        "ask = ['files.nope']\ntest-runners = ['pytst', 'cargo']\n[linters]\n\
         python = ['ruff', 'mipy', 'deno_lint']\nruby = 'x'\n[grants.shel]\nfiles = 'read'\n\
         [roles.r]\ntools = ['files.nope', 'files.*']\n",
    );
    let accepted = place.run(&["policy", "accept"]);
    assert_eq!(accepted.status, 0, "{accepted:?}");
    let warnings = accepted.json()["warnings"].as_array().unwrap().clone();
    let wanted = [
        "nobody is asked for 'files.nope' (`ask`): there is no such tool here",
        "linters.python: there is no linter 'mipy' for python; there are ",
        "linters.python: there is no linter 'deno_lint' for python; there are ",
        "linters.ruby: there is no linter for 'ruby' here; there are some for go, javascript, ",
        "test-runners: there is no test-runner 'pytst'; there are ",
        "grants.shel: there is no plugin 'shel' here; did you mean 'shell'?",
        "roles.r.tools: there is no such tool here as 'files.nope'",
    ];
    assert_eq!(warnings.len(), wanted.len(), "{warnings:#?}");
    let doctor = place.run(&["doctor"]).stdout;
    let listed = place.run(&["backend", "list"]);
    for (warning, wanted) in warnings.iter().map(|warning| warning.as_str().unwrap()).zip(wanted) {
        assert!(warning.starts_with(wanted), "{warning}");
        assert!(doctor.contains(warning), "{doctor}");
        assert!(listed.stderr.contains(warning), "{listed:?}");
    }
    let answer = executed(&place, json!({"type": "run_linter", "files": ["c/m.py"]}));
    assert_eq!((&answer["framework"], &answer["success"]), (&json!("ruff"), &json!(false)));
    let unchecked: Vec<&str> = answer["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| {
            assert_eq!(violation["rule"], "not-checked", "{answer:#}");
            violation["linter"].as_str().unwrap()
        })
        .collect();
    assert_eq!(unchecked, ["mipy", "deno_lint"]);

    place.write("cofferdam.toml", "[linters]\npython = 'nope'\n");
    place.run(&["policy", "accept"]);
    let result = run(&place, &[json!({"type": "run_linter"})]).remove(0);
    assert_eq!(result["status"], "error", "{result:#}");
    let said = result["message"].as_str().unwrap();
    assert!(said.contains("the setting linters.python names 'nope'"), "{said}");
}

#[test]
fn no_linter_blocks_on_special_files() {
    for linter in ["native-ruff", "mypy", "pylint", "ruff", "ty"] {
        let place = project("python", &format!("[linters]\npython = '{linter}'"));
        place.write("apart/whole.py", "import os\n");
        let fifo = place.workspace().join("shop/wait.py");
        mknodat(CWD, fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        // A linter that blocks would reach this timeout, which is an error.
        let answer = executed(&place, json!({"type": "run_linter", "timeout_seconds": 120}));
        assert_eq!(answer["framework"], linter, "{answer:#}");
        let unchecked = |violation: &Value| violation["rule"] == "not-checked";
        assert!(!answer["violations"].as_array().unwrap().iter().any(unchecked), "{answer:#}");
        if !["mypy", "ty"].contains(&linter) {
            assert!(!rules(&answer, "apart/whole.py").is_empty(), "{answer:#}");
        }
        assert!(linter == "ty" || !rules(&answer, "shop/counter.py").is_empty(), "{answer:#}");
    }
}

#[test]
fn a_named_linter_that_cannot_run_is_an_error() {
    let place = Place::new();
    place.write("m.py", "x = 1\n");
    let action = json!({"type": "run_linter", "framework": "mypy"});
    let result = run(&place, &[action]).remove(0);
    assert_eq!(result["metadata"]["code"], "LinterUnavailable", "{result:#}");
    assert!(result["message"].as_str().unwrap().contains("mypy"), "{result:#}");
}

#[test]
fn the_operators_linter_stands_in_for_a_framework_that_is_missing() {
    let place = Place::new();
    place.write("m.py", "import os\n");
    place.write(".pylintrc", "[MAIN]\n");
    for (action, why) in [
        (json!({"type": "run_linter"}), ".pylintrc configures 'pylint'"),
        (json!({"type": "run_linter", "framework": "pylint"}), "'pylint' was named"),
    ] {
        let answer = executed(&place, action);
        assert_eq!(answer["framework"], "ruff", "{answer:#}");
        let note = answer["notes"][0].as_str().unwrap();
        assert!(note.starts_with(why) && note.ends_with("ruff stood in for it"), "{note}");
    }
}

#[test]
fn two_hundred_thousand_findings_are_counted() {
    let place = Place::new();
    // Undefined names. Unused imports would be looked up, which takes too many calls into the host.
    let names: String = (0..100).map(|n| format!("print(undefined_{n})\n")).collect();
    for n in 0..2_000 {
        place.write(&format!("many/module_{n}.py"), &names);
    }
    place.write("a.py", "import sys\n");
    place.write(".venv/lib/other.py", "import json\n");
    let answer = executed(&place, json!({"type": "run_linter"}));
    assert!(answer["violation_count"].as_u64().unwrap() >= 200_000, "{answer:#}");
    let rules: u64 = answer["totals"]["rules"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(rules, answer["violation_count"].as_u64().unwrap());
    assert!(answer.to_string().len() <= 32 * 1024);
    let files: Vec<&str> = answer["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|violation| violation["file"].as_str().unwrap())
        .collect();
    assert!(files.contains(&"a.py") && !files.iter().any(|file| file.contains("venv")));
}

#[test]
fn lint_backend_groups_by_code() {
    let place = project("python", "");
    place.with_git(&["init", "-q"]);
    place.with_git(&["add", "."]);
    place.with_git(&["commit", "-q", "-m", "all"]);
    let lint = |args: Value| {
        let ended = place.run(&["call", "lint_backend", &args.to_string()]);
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()
    };
    // Nothing was modified.
    let clean = lint(json!({"path": null, "check_all": false}));
    let summary = json!({"total_errors": 0, "clean": true, "files_checked": 0});
    assert_eq!(clean, json!({"ruff": {}, "mypy": {}, "summary": summary}));
    // One file is new.
    place.write("shop/new.py", "import os\n\nx: int = \"one\"\n");
    let found = lint(json!({"path": "shop", "check_all": false}));
    assert_eq!(found["ruff"]["F401"]["fix_available"], true, "{found:#}");
    let at = |line: u32| json!([{"file": "shop/new.py", "line": line}]);
    assert_eq!(found["ruff"]["F401"]["occurrences"], at(1), "{found:#}");
    assert_eq!(found["mypy"]["assignment"]["occurrences"], at(3), "{found:#}");
    assert_eq!(found["mypy"]["assignment"]["fix_available"], false, "{found:#}");
    assert_eq!(found["summary"]["clean"], false, "{found:#}");
    assert_eq!(found["summary"]["files_checked"], 1, "{found:#}");
    // All files, with the contracts.
    let all = lint(json!({"path": "shop", "check_all": true}));
    assert!(all["summary"]["files_checked"].as_u64().unwrap() >= 4, "{all:#}");
    let contracts = all["import_linter"].as_object().unwrap();
    assert!(
        contracts
            .values()
            .any(|broken| { broken["occurrences"].to_string().contains("shop/store.py") }),
        "{all:#}"
    );
}

#[test]
fn ty_stands_in_for_a_missing_type_checker() {
    let place = Place::new();
    crate::projects::write(&place, "python");
    place.write("shop/wrong.py", "x: int = \"one\"\n");
    let lint = || {
        let ended = place.run(&["call", "lint_backend", r#"{"path": "shop", "check_all": true}"#]);
        assert_eq!(ended.status, 0, "{ended:?}");
        ended.json()
    };
    let answer = lint();
    assert!(answer["ruff"]["F401"].is_object(), "{answer:#}");
    assert_eq!(answer["mypy"], json!({}), "{answer:#}");
    let at = json!([{"file": "shop/wrong.py", "line": 1}]);
    assert_eq!(answer["ty"]["invalid-assignment"]["occurrences"], at, "{answer:#}");
    let note = answer["notes"][0].as_str().unwrap();
    assert!(note.starts_with("ty stood in for mypy: there is no program 'mypy'"), "{note}");
    // A mypy that the operator chose is not replaced.
    crate::trial::configure(&place, "[linters]\npython = ['ruff', 'mypy']\n");
    let answer = lint();
    let said = answer["mypy"]["not-checked"]["description"].as_str().unwrap();
    assert!(said.starts_with("not checked: mypy: there is no program 'mypy'"), "{said}");
    assert!(answer.get("ty").is_none(), "{answer:#}");
    assert_eq!(answer["summary"]["clean"], false, "{answer:#}");
}

/// A project for ty, which is linted in an instance and needs no program.
fn typed() -> Place {
    let place = Place::new();
    let store = "class Item:\n    def __init__(self, price: int) -> None:\n        \
                 self.price = price\n\n\ndef find(name: str) -> Item | None:\n    \
                 return Item(1) if name else None\n";
    place.write("shop/__init__.py", "");
    place.write("shop/store.py", store);
    place.write(
        "app.py",
        "import numpy\nfrom shop.store import Item, find\n\nprint(len(1))\n\
         print(Item(1).prise)\nprint(find(\"a\").price, numpy.pi)\n",
    );
    crate::trial::configure(&place, "[linters]\npython = 'ty'\n");
    place
}

#[test]
fn ty_checks_types_inside_an_instance() {
    let place = typed();
    let answer = executed(&place, json!({"type": "run_linter"}));
    assert_eq!(answer["framework"], "ty", "{answer:#}");
    let found: Vec<(u64, &str)> = answer["violations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["line"].as_u64().unwrap(), found["rule"].as_str().unwrap()))
        .collect();
    let wanted =
        [(4, "invalid-argument-type"), (5, "unresolved-attribute"), (6, "unresolved-attribute")];
    assert_eq!(found, wanted, "{answer:#}");
    let raw = answer["raw_output"].as_str().unwrap();
    assert!(raw.starts_with("not checked: ") && raw.contains(": numpy"), "{answer:#}");

    // The configuration of the project decides.
    place.write(
        "pyproject.toml",
        "[tool.ty.rules]\nunresolved-attribute = 'ignore'\ninvalid-argument-type = 'warn'\n",
    );
    let answer = executed(&place, json!({"type": "run_linter"}));
    assert_eq!(rules(&answer, "app.py"), ["invalid-argument-type"], "{answer:#}");
    assert_eq!(answer["violations"][0]["severity"], "warning", "{answer:#}");
    let clean = executed(&place, json!({"type": "run_linter", "files": ["shop"]}));
    assert_eq!((&clean["success"], &clean["exit_code"]), (&json!(true), &json!(0)), "{clean:#}");
    place.write("shop/broken.py", "def broken(:\n    pass\n");
    let answer = executed(&place, json!({"type": "run_linter", "files": ["shop"]}));
    assert!(rules(&answer, "shop/broken.py").contains(&"syntax-error"), "{answer:#}");
}

#[test]
fn hostile_python_ends_only_the_call_that_checks_its_types() {
    let place = typed();
    let sum = |terms: usize| format!("x = {}\n", vec!["1"; terms].join(" + "));
    for (path, contents) in [
        ("odd/sum.py", sum(200_000)),
        ("odd/nested.py", format!("x = {}1{}\n", "[".repeat(100_000), "]".repeat(100_000))),
        ("odd/attributes.py", format!("x = a{}\n", ".a".repeat(100_000))),
        ("odd/huge.py", "x = 1\n".repeat(2_000_000)),
    ] {
        place.write(path, contents);
        let result = run(&place, &[json!({"type": "run_linter", "files": [path]})]).remove(0);
        let is_clean = result["metadata"]["success"] == true;
        assert!(result["status"] == "error" || !is_clean, "{path}: {result:#}");
    }
    // What the stack of an instance can't hold is a finding; the other files are checked.
    place.write("odd/sum.py", sum(5_000));
    let files = json!(["odd/sum.py", "app.py"]);
    let answer = executed(&place, json!({"type": "run_linter", "files": files}));
    let deep = rules(&answer, "odd/sum.py");
    assert!(deep.contains(&"io") || deep.contains(&"E902"), "{answer:#}");
    assert!(!rules(&answer, "app.py").is_empty(), "{answer:#}");
    place.write("odd/latin.py", b"# caf\xe9\n");
    std::os::unix::fs::symlink("loop.py", place.workspace().join("odd/loop.py")).unwrap();
    place.write("odd/imports.py", "import odd.loop\nimport loop\n");
    let files = json!(["odd/latin.py", "odd/imports.py"]);
    let answer = executed(&place, json!({"type": "run_linter", "files": files}));
    assert_eq!(rules(&answer, "odd/latin.py"), ["io"], "{answer:#}");
    let answer = executed(&place, json!({"type": "run_linter", "files": ["app.py"]}));
    assert_eq!(rules(&answer, "app.py").len(), 3, "{answer:#}");
    // What people write is checked.
    place.write("odd/sum.py", sum(100));
    let answer = executed(&place, json!({"type": "run_linter", "files": ["odd/sum.py"]}));
    assert_eq!(answer["success"], true, "{answer:#}");
}

/// Output that is returned as findings is not stored in addition.
#[test]
fn a_linters_long_output_is_not_stored() {
    let place = project("python", "[linters]\npython = 'native-ruff'");
    configure_programs(&place, "[linters]\npython = 'native-ruff'");
    let imports: String = (0..1_000).map(|n| format!("import module_{n}\n")).collect();
    place.write("shop/long.py", imports);
    let ended = place.run(&["call", "run_linter", r#"{"files": ["shop/long.py"]}"#]);
    let found = ended.json()["violations"].as_array().map_or(0, Vec::len);
    assert!(found > 0 && !ended.stderr.contains("is kept"), "{found}: {ended:?}");
    assert!(!place.workspace().join(".cofferdam/output").exists());
}

#[test]
fn staged_files_are_linted_before_they_are_committed() {
    let place = project("python", "[linters]\npython = ['native-ruff', 'ruff']");
    configure_programs(&place, "[linters]\npython = ['native-ruff', 'ruff']");
    let actions = [
        json!({"type": "write_file", "path": "shop/staged.py", "content": "import sys\n"}),
        json!({"type": "run_linter", "files": ["shop/staged.py"]}),
    ];
    let ended = place.run_with(&["run", "--dry-run"], &json!({ "actions": actions }).to_string());
    let answer = &ended.json()["results"][1]["metadata"];
    let linters: Vec<&str> = answer["violations"]
        .as_array()
        .unwrap_or_else(|| panic!("{ended:?}"))
        .iter()
        .map(|violation| violation["linter"].as_str().unwrap())
        .collect();
    assert_eq!(linters, ["native-ruff", "ruff"], "{answer:#}");
    assert!(!place.workspace().join("shop/staged.py").exists());
}
