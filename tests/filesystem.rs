//! Compares `wasi:filesystem`, as a plugin sees it, with what a native program gets from Linux.
//!
//! A script (`tests/guests/filesystem` has the language) is run four times: by a native program in
//! a directory of its own; by the guest on files that are on the disk; by the guest on files that
//! the same call created; and by the guest on files that an earlier call of the same transaction
//! created. All of them must have the same result for each step, and leave the same tree.
//!
//! [`scenarios`] are written by hand with their expected results, [`random`] ones are generated.
//! [`differences`] lists where this host deviates on purpose, and [`refactoring`] is a plugin that
//! uses only the standard library.

mod differences;
mod native;
mod random;
mod refactoring;
mod scenarios;
#[path = "guests/filesystem/src/step.rs"]
mod step;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use cofferdam_core::outcome::Outcome;
use serde_json::{Value, json};

use self::step::Step;
use crate::hostile::component::Packed;
use crate::support::Place;
use crate::trial::Trial;

/// Grants the guest everything that it requests.
const ALL: &str = "[grants.filesystem]\nfiles = 'write'\n";

/// A host with the guest, on a workspace of its own.
fn trial() -> Trial {
    Trial::with(Place::new(), vec![Packed::guest("filesystem")], ALL)
}

/// Runs a script in the guest.
fn play(trial: &Trial, tool: &str, steps: &[&str]) -> Vec<String> {
    match trial.call(tool, json!({ "steps": steps })) {
        Outcome::Executed(output) => results(&output),
        failed => panic!("{failed:?}"),
    }
}

fn results(output: &Value) -> Vec<String> {
    let results = output["results"].as_array().unwrap();
    results.iter().map(|result| result.as_str().unwrap().to_owned()).collect()
}

fn parse(steps: &[&str]) -> Vec<Step> {
    steps.iter().map(|step| Step::parse(step).unwrap()).collect()
}

/// Everything below a directory except the host's own: path, permissions, and kind or contents.
fn tree(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    collect(root, "", &mut found);
    found.sort();
    found
}

fn collect(root: &Path, below: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if path == ".cofferdam" {
            continue;
        }
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_dir() {
            found.push(format!("{path} {mode:o} directory"));
            collect(root, &path, found);
        } else if metadata.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            found.push(format!("{path} link {}", target.display()));
        } else {
            let contents = fs::read(entry.path()).unwrap();
            found.push(format!("{path} {mode:o} {}", contents.escape_ascii()));
        }
    }
}
