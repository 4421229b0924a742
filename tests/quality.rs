//! Linters, test runners, builders, git and the shell with real programs, on small real projects,
//! as agents call them.

mod agents;
mod backends;
mod builds;
mod examples;
mod linters;
mod repositories;
mod shell;

use serde_json::{Value, json};

use crate::support::Place;
use crate::trial::configure;
use crate::{programs, projects};

/// A workspace with the project of a language, and settings for the real programs.
fn project(language: &str, settings: &str) -> Place {
    let place = Place::new();
    projects::write(&place, language);
    configure_programs(&place, settings);
    place
}

/// Writes settings for the real programs.
fn configure_programs(place: &Place, settings: &str) {
    configure(place, &format!("{settings}\n{}", programs::settings()));
}

/// Whether a program is missing on this machine; prints the reason.
fn is_missing(program: &str) -> bool {
    let why = programs::programs().missing.get(program);
    if let Some(why) = why {
        print_skipped(&format!("{program} is missing: {why}"));
    }
    why.is_some()
}

/// Prints what a test skipped on this machine.
#[expect(clippy::print_stderr, reason = "shown with the test's own output")]
pub fn print_skipped(why: &str) {
    eprintln!("not tried: {why}");
}

/// Runs an envelope and returns its results.
fn run(place: &Place, actions: &[Value]) -> Vec<Value> {
    let ended = place.run_with(&["run", "--strict"], &json!({ "actions": actions }).to_string());
    let results = ended.json()["results"].as_array().cloned();
    results.unwrap_or_else(|| panic!("{ended:?}"))
}

/// The output of one action that has to succeed.
#[track_caller]
fn executed(place: &Place, action: Value) -> Value {
    let result = run(place, &[action]).remove(0);
    assert_eq!(result["status"], "executed", "{result:#}");
    result["metadata"].clone()
}

/// Files of the workspace that were not part of the project, except the host's own.
fn left_over(place: &Place, language: &str) -> Vec<String> {
    let mut found = Vec::new();
    let root = crate::support::project().join("tests/projects").join(language);
    walk(&place.workspace(), "", &mut |path| {
        if !root.join(path).exists() {
            found.push(path.to_owned());
        }
    });
    found
}

fn walk(root: &std::path::Path, below: &str, visit: &mut dyn FnMut(&str)) {
    for entry in std::fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if path == ".cofferdam" {
            continue;
        }
        visit(&path);
        if entry.file_type().unwrap().is_dir() {
            walk(root, &path, visit);
        }
    }
}
