//! Toolchains of the operator's account without settings: the layouts that their own documentation
//! describes, in a temporary home directory, with the real programs of this machine. Each test runs in
//! both kinds of sandbox.

mod hostile;
mod layouts;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::programs;
use crate::support::{Ended, Place};

/// The kinds of sandbox.
const TIERS: [&str; 2] = ["A", "B"];

/// Chooses the sandbox, and nothing else.
fn set_tier(place: &Place, tier: &str, more: &str) {
    let settings = place.home_file(".config/cofferdam/cofferdam.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(settings, format!("{more}\n[programs]\ntier = '{tier}'\n")).unwrap();
}

/// Runs one action with more variables in the host's environment, and returns its result.
fn act(place: &Place, action: &Value, variables: &[(&str, &Path)]) -> Value {
    let file = place.home_file("envelope.json");
    fs::write(&file, json!({ "actions": [action] }).to_string()).unwrap();
    let mut command = place.command(&["run", "--strict", file.to_str().unwrap()]);
    command.envs(variables.iter().copied());
    let ended = Ended::of(&mut command);
    let results = ended.json()["results"].as_array().cloned();
    results.unwrap_or_else(|| panic!("{ended:?}")).remove(0)
}

/// The output of an action that has to succeed.
#[track_caller]
fn executed(place: &Place, action: &Value, variables: &[(&str, &Path)]) -> Value {
    let result = act(place, action, variables);
    assert_eq!(result["status"], "executed", "{result:#}");
    result["metadata"].clone()
}

/// Runs a program outside of any sandbox, as the operator does in a terminal.
#[expect(clippy::disallowed_methods, reason = "what the operator runs in a terminal")]
fn terminal(program: &Path, arguments: &[&str], variables: &[(&str, &Path)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin");
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{} {arguments:?}: {output:?}", program.display());
    output
}

/// A program of this machine in its search path; prints a message if it is missing.
#[expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "programs of the developer; reports what was skipped"
)]
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|at| at.join(name)).find(|file| file.is_file());
    if found.is_none() {
        eprintln!("not tested without {name}, which is not installed");
    }
    found
}

/// A program that was installed for the tests.
fn installed(name: &str) -> PathBuf {
    programs::find(name).unwrap_or_else(|| panic!("{name} is missing")).canonicalize().unwrap()
}

/// Copies a directory, with the contents of what its links lead to.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let texts = [from, to].map(|path| path.to_str().unwrap());
    terminal(Path::new("/bin/cp"), &["-rL", texts[0], texts[1]], &[]);
}
