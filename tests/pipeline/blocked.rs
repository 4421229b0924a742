//! What blocks a round before anything is executed: each row of "Validation Failure Modes" in the
//! pipeline commands up to QA's rejection, and each rule. The workspace is then unchanged.

use serde_json::{Value, json};

use super::{
    HELPERS, approval, assert_state, designer, designer_of, log, package, rejection, replace,
    round, tree, work_order,
};
use crate::support::{Ended, Place};

/// Replaces the value at a JSON pointer.
fn with(mut document: Value, pointer: &str, value: Value) -> Value {
    match document.pointer_mut(pointer) {
        Some(place) => *place = value,
        None => {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[key] = value;
        }
    }
    document
}

fn without(mut document: Value, key: &str) -> Value {
    document.as_object_mut().unwrap().remove(key).unwrap();
    document
}

/// Runs a round that has to be blocked, and asserts that it changed nothing.
#[track_caller]
fn blocked(place: &Place, order: &Value, designer: &str, qa: &str) -> Ended {
    let before = tree(place);
    let ended = round(place, &order.to_string(), designer, qa, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert_eq!(tree(place), before);
    let document = ended.json();
    assert_eq!(document["commands"], json!([]));
    assert_eq!(document["commit"], json!(null));
    ended
}

/// The rows of the table, in its order: the first line of the log, and the place of the problem.
#[test]
fn every_row_of_the_failure_table_blocks() {
    let place = package();
    let order = work_order();
    let good = designer();
    let approved = approval(&good);
    let unknown = with(good.clone(), "/commands/0/tool", json!("write_file"));
    let wrong = with(good.clone(), "/commands/0/args/replacments", json!([]));
    let maybe = with(approved.clone(), "/decision", json!("MAYBE"));
    let reasons = rejection();
    for (designer, qa, stage, line, pointer) in [
        // Designer JSON invalid.
        (
            "{\"touched_files\": [".to_owned(),
            approved.to_string(),
            "designer",
            "parse error: (root): expected one JSON document to its end, found the end of the text within the document that begins in line 1",
            "",
        ),
        // Designer unknown tool.
        (
            unknown.to_string(),
            approved.to_string(),
            "designer",
            "unknown tool: write_file",
            "/commands/0/tool",
        ),
        // Designer args don't match schema.
        (
            wrong.to_string(),
            approved.to_string(),
            "designer",
            "invalid args for tool atomic_replace",
            "/commands/0/args/replacments",
        ),
        // QA JSON invalid.
        (
            good.to_string(),
            "I approve.".to_owned(),
            "qa",
            "parse error: (root): expected one JSON document, found expected value at line 1 column 1",
            "",
        ),
        // QA decision not APPROVED/REJECTED.
        (good.to_string(), maybe.to_string(), "qa", "invalid decision", "/decision"),
        // QA returns REJECTED.
        (
            good.to_string(),
            reasons.to_string(),
            "qa",
            "Replacement 0 touches file outside step scope",
            "-",
        ),
    ] {
        let ended = blocked(&place, &order, &designer, &qa);
        assert_eq!(log(&ended), [line], "{ended:?}");
        let document = ended.json();
        let last = document["stages"].as_array().unwrap().last().unwrap();
        assert_eq!(last["stage"], stage, "{ended:?}");
        let found = last["problems"][0]["pointer"].as_str().unwrap_or("-");
        assert_eq!(found, pointer, "{last:#}");
    }
    // Each is recorded as failed except the rejection, which is not a fault.
    let journal = place.run(&["log", "--failed"]).json();
    let codes = journal["records"].as_array().unwrap().iter().map(|record| &record["code"]);
    assert_eq!(codes.collect::<Vec<_>>(), ["Blocked"; 5], "{journal:#}");
}

/// Invalid outputs of the Designer, each with the whole log.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_rule_of_the_designer_blocks() {
    let place = package();
    let good = designer();
    let move_text = |args: Value| json!({"tool": "move_text", "args": args, "reason": "So"});
    let services = "nomarr/services/api.py";
    let elsewhere = with(replace("a", "b"), "/args/file_path", json!(services));
    let across = move_text(json!({
        "file_path": HELPERS, "source_start": 1, "source_end": 1, "target_line": 1,
        "target_file": "nomarr/helpers/names.py"
    }));
    for (designer, wanted) in [
        (json!([]), vec!["parse error: (root): expected an object, found an array of 0"]),
        (
            without(good.clone(), "verification"),
            vec![
                "parse error: /verification: expected the required field 'verification', found nothing",
            ],
        ),
        (
            without(good.clone(), "changed_signatures"),
            vec![
                "parse error: /changed_signatures: expected the required field 'changed_signatures', found nothing",
            ],
        ),
        (
            with(good.clone(), "/notes", json!("x")),
            vec![
                "parse error: /notes: expected one of the fields touched_files, commands, changed_signatures, verification, found the unknown field 'notes'",
            ],
        ),
        (
            with(good.clone(), "/commands", json!([])),
            vec!["parse error: /commands: expected at least one item, found an array of 0"],
        ),
        (
            with(good.clone(), "/commands/0", without(replace("a", "b"), "reason")),
            vec![
                "parse error: /commands/0/reason: expected the required field 'reason', found nothing",
            ],
        ),
        (
            with(good.clone(), "/verification", json!(null)),
            vec!["parse error: /verification: expected an object, found null"],
        ),
        // Qualified names are not on the allow-list.
        (
            with(good.clone(), "/commands/0/tool", json!("edit.atomic_replace")),
            vec!["unknown tool: edit.atomic_replace"],
        ),
        (
            with(good.clone(), "/verification/tool", json!("run_linter")),
            vec!["unknown tool: run_linter"],
        ),
        (
            with(good.clone(), "/verification/args", json!({"path": 1, "fix": true})),
            vec!["invalid args for tool lint_backend"],
        ),
        // All problems are reported.
        (
            designer_of(&[
                with(replace("a", "b"), "/tool", json!("bash")),
                move_text(json!({"file_path": HELPERS, "source_start": 0})),
                with(replace("a", "b"), "/args/replacements", json!([])),
            ]),
            vec![
                "unknown tool: bash",
                "invalid args for tool move_text",
                "invalid args for tool atomic_replace",
            ],
        ),
        (
            with(good.clone(), "/commands/0/reason", json!("It is asked for. And more.")),
            vec![
                "invalid designer output: /commands/0/reason: expected one sentence at most, found another one: 'And more.'",
            ],
        ),
        (
            with(good.clone(), "/touched_files", json!([])),
            vec![
                "invalid designer output: /touched_files: expected every file that a command touches, found no 'nomarr/helpers/file_helpers.py'",
            ],
        ),
        (
            with(good.clone(), "/touched_files", json!([HELPERS, "nomarr/helpers/names.py"])),
            vec![
                "invalid designer output: /touched_files/1: expected a file that a command touches, found 'nomarr/helpers/names.py', which none does",
            ],
        ),
        (
            designer_of(&[across]),
            vec![
                "invalid designer output: /touched_files: expected every file that a command touches, found no 'nomarr/helpers/names.py'",
            ],
        ),
        (
            with(
                designer_of(std::slice::from_ref(&elsewhere)),
                "/touched_files",
                json!([services]),
            ),
            vec![
                "invalid designer output: /commands/0/args/file_path: expected a path in the step's scope: nomarr/helpers/, found 'nomarr/services/api.py'",
            ],
        ),
        (
            with(
                designer_of(&[with(
                    elsewhere,
                    "/args/file_path",
                    json!("nomarr/helpers/../services/api.py"),
                )]),
                "/touched_files",
                json!([]),
            ),
            vec![
                "invalid designer output: /commands/0/args/file_path: expected a path in the workspace, relative to it, found 'nomarr/helpers/../services/api.py'",
            ],
        ),
        // An error beside commands.
        (
            with(
                designer_of(&[json!({"tool": "__error__", "args": {}, "reason": "I can't"})]),
                "/touched_files",
                json!([HELPERS]),
            ),
            vec![
                "I can't",
                "invalid designer output: /commands: expected one command __error__ without arguments, and neither files nor signatures, found more beside it",
            ],
        ),
    ] {
        let ended = blocked(&place, &work_order(), &designer.to_string(), "not looked at");
        assert_eq!(log(&ended), wanted, "{designer:#}");
    }
    // A changed signature that the work order requires to be kept.
    let order = with(work_order(), "/invariants", json!(["No signature changes."]));
    let designer = with(good, "/changed_signatures", json!(["get_file() takes two arguments"]));
    let ended = blocked(&place, &order, &designer.to_string(), "");
    assert_eq!(
        log(&ended),
        [
            "invalid designer output: /changed_signatures: expected nothing, since an invariant is 'No signature changes.', found get_file() takes two arguments"
        ]
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn every_rule_of_qa_blocks() {
    let place = package();
    let good = designer();
    let approved = approval(&good);
    let rejected = rejection();
    let verification = |path: Value, check_all: bool| {
        with(approved.clone(), "/verification/args", json!({"path": path, "check_all": check_all}))
    };
    for (qa, wanted) in [
        (with(approved.clone(), "/decision", json!("approved")), "invalid decision"),
        (with(approved.clone(), "/decision", json!(null)), "invalid decision"),
        (
            without(approved.clone(), "decision"),
            "parse error: /decision: expected the required field 'decision', found nothing",
        ),
        (
            with(approved.clone(), "/commands", json!([])),
            "parse error: /commands: expected at least one item, found an array of 0",
        ),
        (
            without(approved.clone(), "commands"),
            "parse error: /commands: expected the required field 'commands', found nothing",
        ),
        (
            with(approved.clone(), "/verification", json!(null)),
            "parse error: /verification: expected an object, found null",
        ),
        (
            with(approved.clone(), "/required_changes", json!(["x"])),
            "parse error: /required_changes: expected at most 0 items, found an array of 1",
        ),
        (
            with(rejected.clone(), "/commands", good["commands"].clone()),
            "parse error: /commands: expected at most 0 items, found an array of 1",
        ),
        (
            with(rejected.clone(), "/verification", good["verification"].clone()),
            "parse error: /verification: expected null, found an object of 2 fields",
        ),
        (
            with(rejected.clone(), "/reasons", json!([])),
            "parse error: /reasons: expected at least one item, found an array of 0",
        ),
        (
            without(rejected.clone(), "reasons"),
            "parse error: /reasons: expected the required field 'reasons', found nothing",
        ),
        (
            without(rejected, "required_changes"),
            "parse error: /required_changes: expected the required field 'required_changes', found nothing",
        ),
        // Commands in QA's output are checked like the Designer's.
        (with(approved.clone(), "/commands/0/tool", json!("__error__")), "unknown tool: __error__"),
        (
            with(approved.clone(), "/commands/0/args", json!({})),
            "invalid args for tool atomic_replace",
        ),
        (
            with(approved.clone(), "/commands/0/args/file_path", json!("nomarr/services/api.py")),
            "invalid QA output: /commands/0/args/file_path: expected a path in the step's scope: nomarr/helpers/, found 'nomarr/services/api.py'",
        ),
        // A verification may be wider than required, but not narrower.
        (
            verification(json!("nomarr/helpers/names.py"), true),
            "invalid QA output: /verification/args: expected a verification as wide as the Designer's: path 'nomarr/helpers' with check_all false, found path 'nomarr/helpers/names.py' with check_all true",
        ),
        (
            verification(json!("nomarr/services"), false),
            "invalid QA output: /verification/args: expected a verification as wide as the Designer's: path 'nomarr/helpers' with check_all false, found path 'nomarr/services' with check_all false",
        ),
    ] {
        let ended = blocked(&place, &work_order(), &good.to_string(), &qa.to_string());
        assert_eq!(log(&ended), [wanted], "{qa:#}");
    }
    let all = with(good, "/verification/args/check_all", json!(true));
    let ended = blocked(&place, &work_order(), &all.to_string(), &approved.to_string());
    assert!(log(&ended)[0].contains("with check_all true, found path"), "{ended:?}");
}

#[test]
fn an_invalid_work_order_blocks() {
    let place = package();
    let good = work_order();
    for (order, options, wanted) in [
        (json!("x"), &[][..], "parse error: (root): expected an object, found \"x\""),
        (
            without(good.clone(), "invariants"),
            &[],
            "parse error: /invariants: expected the required field 'invariants', found nothing",
        ),
        (
            with(good.clone(), "/scope_allowlist", json!([])),
            &[],
            "parse error: /scope_allowlist: expected at least one item, found an array of 0",
        ),
        (
            with(good.clone(), "/scope_allowlist", json!(["../x"])),
            &[],
            "invalid work order: /scope_allowlist: expected paths in the workspace, found '../x' leaves the workspace",
        ),
        (
            with(good.clone(), "/acceptance/lint/paht", json!("x")),
            &[],
            "parse error: /acceptance/lint/paht: expected one of the fields path, check_all, found the unknown field 'paht'",
        ),
        (
            with(good, "/acceptance", json!({"lint": {"path": null, "check_all": false}})),
            &["--phase-boundary"],
            "invalid work order: /acceptance/phase_boundary_lint: expected a lint, since the step is the last one of its phase, found nothing",
        ),
    ] {
        let (designer, qa) = (designer(), approval(&designer()));
        let ended =
            round(&place, &order.to_string(), &designer.to_string(), &qa.to_string(), options);
        assert_state(&ended, "BLOCKED", 2);
        assert_eq!(log(&ended), [wanted]);
        assert_eq!(ended.json()["stages"][0]["verdict"], "invalid");
    }
}

#[test]
fn a_document_may_be_as_long_as_an_envelope() {
    let place = package();
    crate::trial::configure(&place, "[limits]\nenvelope-mb = 1\n");
    let long = format!("{}{}", " ".repeat(1 << 20), designer());
    let ended = blocked(&place, &work_order(), &long, "not looked at");
    assert!(log(&ended)[0].contains("at most 1048576 bytes (limits.envelope-mb)"), "{ended:?}");
}

#[test]
fn strict_mode_refuses_text_around_a_document() {
    let place = package();
    let (designer, qa) = (designer(), approval(&designer()));
    let fenced = format!("```json\n{designer}\n```");
    let ended = round(&place, &work_order().to_string(), &fenced, &qa.to_string(), &["--strict"]);
    assert_state(&ended, "BLOCKED", 2);
    assert!(
        log(&ended)[0].starts_with("parse error: (root): expected one JSON document"),
        "{ended:?}"
    );
    // An earlier draft is not used instead of the final answer.
    let draft = format!("{designer}\nBetter: {{\"touched_files\": [], \"commands\": []}}");
    let ended = blocked(&place, &work_order(), &draft, &qa.to_string());
    let wanted = "parse error: /commands: expected at least one item, found an array of 0";
    assert!(log(&ended).iter().any(|line| line == wanted), "{ended:?}");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn an_invalid_command_line_is_refused() {
    let place = package();
    for (arguments, wanted) in [
        (&["pipeline"][..], "--work-order"),
        (&["pipeline", "--work-order", "a", "--designer", "b"], "--qa"),
        (
            &[
                "pipeline",
                "--work-order",
                "a",
                "--designer",
                "b",
                "--designer-cmd",
                "c",
                "--qa",
                "d",
            ],
            "cannot be used with",
        ),
        (
            &["pipeline", "--work-order", "-", "--designer", "-", "--qa", "d"],
            "standard input can be one",
        ),
        (
            &["pipeline", "--work-order", "none", "--designer", "b", "--qa", "d"],
            "none: No such file",
        ),
        (
            &["pipeline", "--work-order", "-", "--designer-agent", "nobody", "--qa", "d"],
            "--designer-agent: there is no agent 'nobody': there is none; cofferdam.toml names them",
        ),
        (
            &["pipeline", "--work-order", "-", "--designer-cmd", "a 'b", "--qa", "d"],
            "--designer-cmd: a quote is not closed",
        ),
        (
            &[
                "pipeline",
                "--work-order",
                "-",
                "--designer",
                "pyproject.toml",
                "--qa",
                "pyproject.toml",
                "--keep",
                "--dry-run",
            ],
            "cannot be used with",
        ),
        (
            &[
                "pipeline",
                "--work-order",
                "-",
                "--designer",
                "pyproject.toml",
                "--qa",
                "pyproject.toml",
                "--record",
                "no/such/folder",
            ],
            "--record: no/such/folder can't be written",
        ),
    ] {
        let ended = place.run_with(arguments, &work_order().to_string());
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(wanted), "{arguments:?}: {ended:?}");
    }
}
