//! The documents in the pipeline commands, word for word.

use serde_json::{Value, json};

use super::{assert_state, log, package, round};
use crate::support::{Place, project};

/// The pipeline commands, "Work Order Fields".
const WORK_ORDER: &str = r#"{
  "step_id": "phase-2.step-3",
  "step_text": "Split analytics_comp.py into 5 one-export files...",
  "scope_allowlist": ["nomarr/components/analytics/"],
  "invariants": [
    "no import shape changes",
    "no _id/_key renames",
    "no behavior changes"
  ],
  "acceptance": {
    "lint": {"path": "nomarr/components/analytics", "check_all": false},
    "phase_boundary_lint": {"path": "nomarr/", "check_all": true}
  }
}"#;

/// The pipeline commands, "On Error".
const ERROR: &str = r#"{
  "touched_files": [],
  "commands": [{"tool": "__error__", "args": {}, "reason": "Could not locate symbol X in file Y"}],
  "changed_signatures": [],
  "verification": {"tool": "lint_backend", "args": {"path": "", "check_all": false}}
}"#;

/// The pipeline commands, "QA Output Schema", "REJECTED".
const REJECTED: &str = r#"{
  "decision": "REJECTED",
  "commands": [],
  "verification": null,
  "reasons": [
    "Replacement 0 touches file outside step scope",
    "move_text args missing target_file for cross-file move"
  ],
  "required_changes": [
    "Remove command targeting nomarr/services/",
    "Add target_file to move_text command"
  ],
  "spot_checks": ["verified: step scope is nomarr/helpers only"]
}"#;

/// The source's Designer output, with commands in place of those that it only describes.
fn designed(commands: Value) -> Value {
    json!({
        "touched_files": ["nomarr/helpers/file_helpers.py"],
        "commands": commands,
        "changed_signatures": ["file_helpers.get_file() now returns Tuple[File, str]"],
        "verification": {
            "tool": "lint_backend",
            "args": {"path": "nomarr/helpers", "check_all": false}
        }
    })
}

fn schema(name: &str) -> jsonschema::Validator {
    let path = project().join(format!("schemas/pipeline.{name}.json"));
    let text = std::fs::read_to_string(path).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

#[test]
fn the_documents_of_the_source_fit_their_schemas() {
    let commands = json!([{
        "tool": "move_text",
        "args": {"file_path": "a.py", "source_start": 1, "source_end": 2, "target_line": 5},
        "reason": "Because."
    }]);
    let approved = json!({
        "decision": "APPROVED",
        "commands": commands,
        "verification": {"tool": "lint_backend", "args": {"path": "nomarr/helpers", "check_all": false}},
        "reasons": ["optional notes"],
        "spot_checks": [
            "verified: symbol 'get_file' exists in helpers.py",
            "not checked: semantic correctness of replacement"
        ]
    });
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (name, document) in [
        ("work-order", value(WORK_ORDER)),
        ("designer", designed(commands)),
        ("designer", value(ERROR)),
        ("qa", approved.clone()),
        ("qa", value(REJECTED)),
    ] {
        let schema = schema(name);
        assert!(schema.is_valid(&document), "{name}: {document:#}");
        // Every field is required, except those that the source calls optional.
        for key in document.as_object().unwrap().keys() {
            let optional =
                key == "spot_checks" || (key == "reasons" && document["decision"] == "APPROVED");
            let mut without = document.clone();
            without.as_object_mut().unwrap().remove(key);
            assert_eq!(schema.is_valid(&without), optional, "{name} without {key}");
        }
        let mut with = document.clone();
        with["more"] = json!(1);
        assert!(!schema.is_valid(&with), "{name} with another field");
    }
    let mut both = approved;
    both["decision"] = "MAYBE".into();
    assert!(!schema("qa").is_valid(&both));
}

#[test]
fn a_designers_error_blocks_with_its_reason() {
    let ended = round(&package(), WORK_ORDER, ERROR, REJECTED, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert_eq!(log(&ended), ["Could not locate symbol X in file Y"]);
    let document = ended.json();
    assert_eq!(document["step_id"], "phase-2.step-3");
    let stages = document["stages"].as_array().unwrap();
    assert_eq!(stages.len(), 2, "{document:#}");
    assert_eq!((&stages[1]["stage"], &stages[1]["verdict"]), (&json!("designer"), &json!("error")));
}

#[test]
fn a_rejection_blocks_with_its_reasons() {
    let order = WORK_ORDER.replace("nomarr/components/analytics", "nomarr/helpers");
    let commands = json!([super::replace("file = path", "file = path + ''")]);
    let ended = round(&package(), &order, &designed(commands).to_string(), REJECTED, &[]);
    assert_state(&ended, "BLOCKED", 2);
    assert_eq!(
        log(&ended),
        [
            "Replacement 0 touches file outside step scope",
            "move_text args missing target_file for cross-file move"
        ]
    );
    let document = ended.json();
    assert_eq!(document["required_changes"][1], "Add target_file to move_text command");
    assert_eq!(document["spot_checks"][0], "verified: step scope is nomarr/helpers only");
    assert_eq!(document["commands"], json!([]));
    assert_eq!(document["stages"][2]["verdict"], "rejected");
}

/// A Designer's output with the edits whose responses the source shows.
fn edits() -> Value {
    let edit = |tool: &str, args: Value| json!({"tool": tool, "args": args, "reason": "So"});
    json!({
        "touched_files": [
            "nomarr/helpers/file_helpers.py", "nomarr/helpers/scanner.py",
            "nomarr/helpers/batch_scanner.py"
        ],
        "commands": [
            edit("atomic_replace", json!({
                "file_path": "nomarr/helpers/file_helpers.py",
                "replacements": [
                    {"old_string": "def get_file(path: str)", "new_string": "def get_file(path: str, /)"},
                    {"old_string": "    file = path\n    return file", "new_string": "    return path"}
                ]
            })),
            edit("move_text", json!({
                "file_path": "nomarr/helpers/scanner.py",
                "source_start": 1, "source_end": 1, "target_line": 3
            })),
            edit("move_text", json!({
                "file_path": "nomarr/helpers/scanner.py", "source_start": 3, "source_end": 3,
                "target_line": 1, "target_file": "nomarr/helpers/batch_scanner.py"
            }))
        ],
        "changed_signatures": [],
        "verification": {"tool": "lint_backend", "args": {"path": "nomarr/helpers", "check_all": false}}
    })
}

/// The responses that the source shows for its edit tools, through a round.
#[test]
fn the_edit_tools_answer_as_the_source_says() {
    let place = package();
    place.write("nomarr/helpers/scanner.py", "a = 1\nb = 2\nc = 3\n");
    place.write("nomarr/helpers/batch_scanner.py", "d = 4\n");
    let designer = edits();
    let mut order = super::work_order();
    order["invariants"] = json!([]);
    let qa = super::approval(&designer);
    let ended = round(&place, &order.to_string(), &designer.to_string(), &qa.to_string(), &[]);
    assert_state(&ended, "APPLIED", 0);
    let document = ended.json();
    let results: Vec<&Value> =
        document["commands"].as_array().unwrap().iter().map(|command| &command["result"]).collect();
    assert_eq!(results[0]["path"], "nomarr/helpers/file_helpers.py");
    assert_eq!(results[0]["changed"], true);
    assert_eq!(results[0]["replacements_applied"], 2);
    assert_eq!(results[0]["details"][0]["status"], "applied");
    assert_eq!(
        *results[1],
        json!({
            "path": "nomarr/helpers/scanner.py", "changed": true, "lines_moved": 1,
            "source_range": {"start": 1, "end": 1}, "target_line": 3
        })
    );
    assert_eq!(
        *results[2],
        json!({
            "source_file": "nomarr/helpers/scanner.py",
            "target_file": "nomarr/helpers/batch_scanner.py",
            "changed": true, "lines_moved": 1,
            "source_range": {"start": 3, "end": 3}, "target_line": 1
        })
    );
    assert_eq!(place.read("nomarr/helpers/scanner.py"), "b = 2\na = 1\n");
    assert_eq!(place.read("nomarr/helpers/batch_scanner.py"), "c = 3\nd = 4\n");
    let lint = &document["lints"][0]["result"];
    assert_eq!(lint["ruff"], json!({}));
    assert_eq!(lint["mypy"], json!({}));
    let summary = json!({"total_errors": 0, "clean": true, "files_checked": 3});
    assert_eq!(lint["summary"], summary);
    assert_eq!(log(&ended).last().unwrap(), &format!("lint summary: {summary}"), "{document:#}");
}

/// `run` and `validate` recognize the documents and say which command is for them.
#[test]
fn documents_of_a_pipeline_are_refused_by_run() {
    let place = Place::new();
    for command in ["run", "validate"] {
        for (text, dialect) in [(ERROR, "'commands'"), (REJECTED, "'decision'")] {
            let ended = place.run_with(&[command], text);
            assert_eq!(ended.status, 2, "{ended:?}");
            let refused = &ended.json()["refused"];
            assert_eq!(refused["problems"][0]["code"], "InvalidEnvelope", "{ended:?}");
            let feedback = refused["feedback"].as_str().unwrap();
            assert!(feedback.contains(dialect), "{feedback}");
            assert!(feedback.contains("cofferdam pipeline --work-order"), "{feedback}");
        }
    }
}
