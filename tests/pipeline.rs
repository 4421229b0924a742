//! The pipeline Designer -> QA -> Main through the command: every example, every rule and every row
//! of the table of failure modes in the pipeline commands, with documents from files and from
//! agents, on real linters.

mod agents;
mod applied;
mod blocked;
mod examples;
mod failed;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Ended, Place};
use crate::{programs, trial};

/// A workspace with a small package without lint findings, under git.
fn package() -> Place {
    let place = Place::new();
    place.write("pyproject.toml", "[tool.mypy]\nstrict = true\n");
    place.write("nomarr/__init__.py", "");
    place.write(
        "nomarr/helpers/file_helpers.py",
        "\"\"\"Files.\"\"\"\n\n\ndef get_file(path: str) -> str:\n    file = path\n    return file\n",
    );
    place.write("nomarr/helpers/__init__.py", "");
    place.write(
        "nomarr/helpers/names.py",
        "\"\"\"Names.\"\"\"\n\nsong_id = \"a\"\nfile_key = \"b\"\n",
    );
    place.write("nomarr/services/api.py", "\"\"\"An interface.\"\"\"\n");
    place.write("nomarr/services/__init__.py", "");
    for arguments in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "all"]] {
        place.with_git(arguments);
    }
    trial::configure(&place, &programs::settings());
    place
}

/// A work order for the helpers.
fn work_order() -> Value {
    json!({
        "step_id": "phase-2.step-3",
        "step_text": "Annotate get_file",
        "scope_allowlist": ["nomarr/helpers/"],
        "invariants": ["no import shape changes", "no _id/_key renames", "no behavior changes"],
        "acceptance": {
            "lint": {"path": "nomarr/helpers", "check_all": false},
            "phase_boundary_lint": {"path": "nomarr/", "check_all": true}
        }
    })
}

const HELPERS: &str = "nomarr/helpers/file_helpers.py";

/// A command that replaces text in the helpers.
fn replace(old: &str, new: &str) -> Value {
    json!({
        "tool": "atomic_replace",
        "args": {
            "file_path": HELPERS,
            "replacements": [{"old_string": old, "new_string": new}]
        },
        "reason": "The step asks for it."
    })
}

/// A Designer's output with one replacement.
fn designer() -> Value {
    json!({
        "touched_files": [HELPERS],
        "commands": [replace("    file = path\n    return file", "    return path")],
        "changed_signatures": [],
        "verification": {"tool": "lint_backend", "args": {"path": "nomarr/helpers", "check_all": false}}
    })
}

/// A Designer's output with these commands.
fn designer_of(commands: &[Value]) -> Value {
    let mut designer = designer();
    designer["commands"] = commands.into();
    designer
}

/// QA's approval of a Designer's output.
fn approval(designer: &Value) -> Value {
    json!({
        "decision": "APPROVED",
        "commands": designer["commands"],
        "verification": designer["verification"],
        "reasons": ["optional notes"],
        "spot_checks": ["verified: symbol 'get_file' exists in file_helpers.py"]
    })
}

fn rejection() -> Value {
    json!({
        "decision": "REJECTED",
        "commands": [],
        "verification": null,
        "reasons": ["Replacement 0 touches file outside step scope"],
        "required_changes": ["Remove command targeting nomarr/services/"],
        "spot_checks": ["verified: step scope is nomarr/helpers only"]
    })
}

/// Runs a round with documents from files outside of the workspace.
fn round(place: &Place, order: &str, designer: &str, qa: &str, options: &[&str]) -> Ended {
    let file = |name: &str, text: &str| {
        let path = place.home().join(name);
        fs::create_dir_all(place.home()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (order, designer, qa) =
        (file("order.json", order), file("designer.json", designer), file("qa.json", qa));
    let arguments = ["pipeline", "--work-order", &order, "--designer", &designer, "--qa", &qa];
    assert_fits_schema(place.run(&[&arguments, options].concat()))
}

/// Asserts that the printed document is valid by its schema.
fn assert_fits_schema(ended: Ended) -> Ended {
    if ended.stdout.starts_with('{') {
        let schema =
            fs::read_to_string(crate::support::project().join("schemas/pipeline.result.json"));
        let schema: Value = serde_json::from_str(&schema.unwrap()).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let document = ended.json();
        let errors: Vec<String> =
            validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}\n{document:#}");
    }
    ended
}

/// The log of a round.
fn log(ended: &Ended) -> Vec<String> {
    let document = ended.json();
    let log = document["log"].as_array().unwrap_or_else(|| panic!("{ended:?}"));
    log.iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

/// Asserts the state and the exit status of a round.
#[track_caller]
fn assert_state(ended: &Ended, state: &str, status: i32) {
    assert!(ended.stdout.starts_with('{'), "{ended:?}");
    assert_eq!((&ended.json()["state"], ended.status), (&json!(state), status), "{ended:?}");
}

/// Everything in the workspace except the host's own directory: contents, modes and kinds.
fn tree(place: &Place) -> BTreeMap<String, (u32, Vec<u8>)> {
    use std::os::unix::fs::MetadataExt as _;
    fn below(root: &Path, path: &str, tree: &mut BTreeMap<String, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(root.join(path)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            if path == ".cofferdam" {
                continue;
            }
            let metadata = root.join(&path).symlink_metadata().unwrap();
            let content =
                if metadata.is_file() { fs::read(root.join(&path)).unwrap() } else { Vec::new() };
            if metadata.is_dir() {
                below(root, &path, tree);
            }
            tree.insert(path, (metadata.mode(), content));
        }
    }
    let mut tree = BTreeMap::new();
    below(&place.workspace(), "", &mut tree);
    tree
}
