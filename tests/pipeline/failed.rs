//! Rounds that fail after something was executed: the last two rows of the table of failure modes
//! in the pipeline commands, broken invariants, limits. The workspace is then as before, byte for
//! byte.

use serde_json::{Value, json};

use super::{
    HELPERS, approval, assert_state, designer, designer_of, log, package, replace, round, tree,
    work_order,
};
use crate::support::{Ended, Place};
use crate::trial::configure;

/// Runs a round that has to fail, and asserts that it changed nothing.
#[track_caller]
fn failed(place: &Place, order: &Value, designer: &Value, options: &[&str]) -> Ended {
    let before = tree(place);
    let qa = approval(designer).to_string();
    let ended = round(place, &order.to_string(), &designer.to_string(), &qa, options);
    assert_eq!(ended.json()["state"], "FAILED", "{ended:?}");
    assert_eq!(tree(place), before, "{ended:?}");
    assert_eq!(ended.json()["commit"], json!(null));
    let commits = place.run(&["log", "--commits"]).json();
    assert_eq!(commits["records"], json!([]), "{commits:#}");
    ended
}

#[test]
fn a_tool_that_fails_midway_changes_nothing() {
    let place = package();
    let designer = designer_of(&[
        replace("    file = path\n", "    name = path\n"),
        replace("nothing like this", "x"),
        replace("return file", "return name"),
    ]);
    let ended = failed(&place, &work_order(), &designer, &[]);
    assert_state(&ended, "FAILED", 1);
    let log = log(&ended);
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with("tool error: atomic_replace: ValidationFailed: "), "{log:?}");
    let document = ended.json();
    let outcomes: Vec<&Value> =
        document["commands"].as_array().unwrap().iter().map(|c| &c["outcome"]).collect();
    assert_eq!(outcomes, ["executed", "error", "skipped"]);
    // "Failure Response" of atomic_replace in the pipeline commands.
    let detail = &document["commands"][1]["error"]["detail"];
    assert_eq!(detail["path"], HELPERS);
    assert_eq!(detail["error"], "Validation failed - no changes made");
    assert_eq!(detail["changed"], false);
    assert!(detail["validation_errors"][0].as_str().unwrap().starts_with("Replacement 0: "));
    assert_eq!(document["lints"], json!([]));
    let stages = document["stages"].as_array().unwrap();
    let last = stages.last().unwrap();
    assert_eq!((&last["stage"], &last["verdict"]), (&json!("apply"), &json!("failed")));
    // The first command was executed, and rolled back.
    let journal = place.run(&["log", "--tool", "edit.atomic_replace"]).json();
    let codes: Vec<&str> = journal["records"]
        .as_array()
        .unwrap()
        .iter()
        .map(|record| record["code"].as_str().unwrap())
        .collect();
    assert_eq!(codes.len(), 3, "{journal:#}");
    assert!(codes.contains(&"RolledBack") && codes.contains(&"ValidationFailed"), "{codes:?}");
}

#[test]
fn a_lint_with_findings_changes_nothing() {
    let place = package();
    // The finding did not exist before.
    let designer = designer_of(&[
        replace("\"\"\"Files.\"\"\"\n", "\"\"\"Files.\"\"\"\n\nimport os\n"),
        replace("return file", "return 1"),
    ]);
    let ended = failed(&place, &work_order(), &designer, &[]);
    assert_state(&ended, "FAILED", 1);
    let document = ended.json();
    let lint = &document["lints"][0];
    assert_eq!(lint["clean"], false);
    let places = json!([{"file": HELPERS, "line": 3}]);
    assert_eq!(lint["result"]["ruff"]["F401"]["occurrences"], places, "{document:#}");
    assert_eq!(lint["result"]["mypy"]["return-value"]["occurrences"][0]["file"], HELPERS);
    assert_eq!(lint["errors_before"], 0);
    let log = log(&ended);
    assert!(log.contains(&format!("lint summary: {}", lint["result"]["summary"])), "{log:?}");
    assert_eq!(log.last().unwrap(), "before the change, the same lint had 0 errors");
    let text = round(
        &place,
        &work_order().to_string(),
        &designer.to_string(),
        &approval(&designer).to_string(),
        &["--format", "markdown"],
    );
    assert_eq!(text.status, 1);
    assert!(text.stdout.contains("- ruff `F401`: "), "{}", text.stdout);
    assert!(text.stdout.contains("errors in 1 files, 0 before the change"), "{}", text.stdout);
}

/// In the pipeline commands, a lint with findings fails the round, even if they existed before.
#[test]
fn findings_that_existed_before_fail_the_round_and_are_marked() {
    let place = package();
    place.write("nomarr/helpers/old.py", "import os\n");
    let ended = failed(&place, &work_order(), &designer(), &[]);
    assert_eq!(ended.json()["lints"][0]["errors_before"], 1);
    assert_eq!(log(&ended).last().unwrap(), "before the change, the same lint had 1 errors");
}

/// Only this round changes the file: without that, the lint of modified files left it out.
#[test]
fn the_lint_before_the_change_has_the_same_files() {
    let place = package();
    place.write(HELPERS, format!("{}import os\n", place.read(HELPERS)));
    place.with_git(&["commit", "-q", "-a", "-m", "a finding"]);
    let ended = failed(&place, &work_order(), &designer(), &[]);
    let lint = &ended.json()["lints"][0];
    assert_eq!(lint["errors_before"], lint["result"]["summary"]["total_errors"], "{lint:#}");
    assert_eq!(lint["result"]["summary"]["files_checked"], 1);
    // The argument for this is not one of the pipeline commands.
    let mut designer = designer();
    designer["verification"]["args"]["changed"] = json!([HELPERS]);
    let approval = approval(&designer).to_string();
    let order = work_order().to_string();
    let ended = round(&place, &order, &designer.to_string(), &approval, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert!(ended.stdout.contains("the arguments path and check_all only"), "{ended:?}");
}

#[test]
fn what_was_not_checked_is_no_error() {
    let place = package();
    // The programs of the system: mypy is in a directory of its own.
    configure(&place, "[linters]\npython = ['ruff', 'mypy']\n[programs]\npath = ['/usr/bin']\n");
    let ended = failed(&place, &work_order(), &designer(), &[]);
    let document = ended.json();
    assert_eq!(document["lints"][0]["clean"], false, "{document:#}");
    assert_eq!(document["lints"][0]["errors_before"], 0);
    let log = log(&ended);
    let last = log.last().unwrap();
    let head = "before the change, the same lint had 0 errors; not checked: mypy: ";
    assert!(last.starts_with(head), "{log:?}");
}

#[test]
fn a_failed_round_is_committed_with_keep() {
    let place = package();
    let designer = designer_of(&[replace("return file", "return 1")]);
    let qa = approval(&designer).to_string();
    let order = work_order().to_string();
    let ended = round(&place, &order, &designer.to_string(), &qa, &["--keep"]);
    assert_state(&ended, "FAILED", 1);
    assert!(place.read(HELPERS).contains("return 1"));
    let commit = ended.json()["commit"].as_str().unwrap().to_owned();
    assert_eq!(place.run(&["undo", &commit]).status, 0);
    assert!(place.read(HELPERS).contains("return file"));

    // Nothing of the failed tool is kept, and everything of those before it.
    let designer = designer_of(&[replace("file = path", "name = path"), replace("nothing", "x")]);
    let qa = approval(&designer).to_string();
    let ended = round(&place, &order, &designer.to_string(), &qa, &["--keep"]);
    assert_state(&ended, "FAILED", 1);
    assert!(place.read(HELPERS).contains("    name = path\n    return file\n"));
    assert!(ended.json()["commit"].is_string());
}

#[test]
fn a_broken_invariant_changes_nothing() {
    let place = package();
    let names = "nomarr/helpers/names.py";
    let rename = |old: &str, new: &str| {
        let mut command = replace(old, new);
        command["args"]["file_path"] = json!(names);
        let mut designer = designer_of(&[command]);
        designer["touched_files"] = json!([names]);
        designer
    };
    for (designer, wanted) in [
        (rename("song_id = ", "title_key = song_id = "), None),
        (
            rename("file_key", "fileKey"),
            Some(
                "broken invariant: no import shape changes: file_key can't be imported from nomarr/helpers/names.py any more",
            ),
        ),
    ] {
        let Some(wanted) = wanted else {
            let qa = approval(&designer).to_string();
            let order = work_order().to_string();
            let ended = round(&place, &order, &designer.to_string(), &qa, &["--dry-run"]);
            assert_state(&ended, "APPLIED", 0);
            continue;
        };
        let ended = failed(&place, &work_order(), &designer, &[]);
        assert_state(&ended, "FAILED", 1);
        assert_eq!(log(&ended)[0], wanted);
        assert_eq!(
            log(&ended)[1],
            "broken invariant: no _id/_key renames: file_key stands in no touched file any more"
        );
        assert_eq!(ended.json()["lints"], json!([]));
    }
}

/// Without the type checker that the operator chose, the code can't be called clean.
#[test]
fn a_lint_that_can_not_be_run_changes_nothing() {
    let place = package();
    configure(&place, "[linters]\npython = ['ruff', 'mypy']\n");
    let ended = failed(&place, &work_order(), &designer(), &[]);
    assert_state(&ended, "FAILED", 1);
    let said = "lint not checked: mypy: there is no program 'mypy'";
    assert!(log(&ended).iter().any(|line| line.starts_with(said)), "{ended:?}");
}

/// Without mypy, ty checks the types, and a round fails as it does with mypy.
#[test]
fn a_lint_without_mypy_finds_wrong_types() {
    let place = package();
    configure(&place, "");
    let designer = designer_of(&[replace("return file", "return 1")]);
    let ended = failed(&place, &work_order(), &designer, &[]);
    assert_state(&ended, "FAILED", 1);
    let lint = &ended.json()["lints"][0]["result"];
    assert_eq!(lint["ty"]["invalid-return-type"]["occurrences"][0]["file"], HELPERS, "{lint:#}");
    assert_eq!(lint["mypy"], json!({}), "{lint:#}");
}

/// The operator's denials apply to a pipeline as well.
#[test]
fn a_denied_command_changes_nothing() {
    let place = package();
    let denied = "[roles.designer]\ntools = ['edit.move_text']\n";
    configure(&place, &format!("{denied}{}", crate::programs::settings()));
    let ended = failed(&place, &work_order(), &designer(), &[]);
    assert_state(&ended, "FAILED", 3);
    assert!(log(&ended)[0].starts_with("tool error: atomic_replace: ToolNotInRole: "), "{ended:?}");
}

/// Only following the link shows that a path leads out of the scope.
#[test]
fn a_link_does_not_lead_out_of_the_scope() {
    let place = package();
    std::os::unix::fs::symlink(
        place.workspace().join("nomarr/services/api.py"),
        place.workspace().join("nomarr/helpers/link.py"),
    )
    .unwrap();
    let relative = place.workspace().join("nomarr/helpers/near.py");
    std::os::unix::fs::symlink("../services/api.py", relative).unwrap();
    for link in ["nomarr/helpers/link.py", "nomarr/helpers/near.py"] {
        let mut command = replace("An interface", "Another");
        command["args"]["file_path"] = json!(link);
        let mut designer = designer_of(&[command]);
        designer["touched_files"] = json!([link]);
        let ended = failed(&place, &work_order(), &designer, &[]);
        assert_state(&ended, "FAILED", 3);
    }
}

#[test]
fn a_call_that_takes_too_long_changes_nothing() {
    let place = package();
    let ended = failed(&place, &work_order(), &designer(), &["--call-ms", "1"]);
    assert_state(&ended, "FAILED", 4);
    assert!(log(&ended).last().unwrap().contains("WallClockLimit"), "{ended:?}");
}
