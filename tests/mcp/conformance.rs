//! Runs the public conformance suite: the scenarios for servers that two revisions require.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;
use serde_json::Value;

use super::server::Server;
use super::{installed, node, script};
use crate::support::{Place, project};
use crate::trial::configure;

/// The latest revision with sessions and the latest one without.
const REVISIONS: [&str; 2] = ["2025-11-25", "2026-07-28"];

/// The suite's tools under short names, which need a role. Some calls need the user's approval, and some
/// are tasks from their beginning; the suite expects a plain one to be the first by name.
const SETTINGS: &str = "\
ask = [
    'conformance.confirm_delete',
    'conformance.test_input_required_result_elicitation',
    'conformance.test_input_required_result_request_state',
    'conformance.test_input_required_result_tampered_state',
    'conformance.test_missing_capability',
    'conformance.test_streaming_elicitation',
]
tasks = [
    'conformance.confirm_delete',
    'conformance.failing_job',
    'conformance.multi_input',
    'conformance.protocol_error_job',
]
[grants.conformance]
files = 'read'
questions = true
[roles.conformance]
tools = ['conformance.*', 'edit.apply_patch', 'files.glob', 'files.read_file']
";

/// The maximum number of runs: a check that passes once has passed. The suite waits only half a
/// second for some answers, even on a busy machine.
const ATTEMPTS: usize = 6;

/// The failed checks by scenario.
type Failures = BTreeMap<String, BTreeSet<String>>;

/// The contents of `tests/clients/conformance.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exceptions {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    reason: String,
    checks: toml::Table,
}

impl Exceptions {
    fn read() -> Self {
        toml::from_str(&fs::read_to_string(script("conformance.toml")).unwrap()).unwrap()
    }

    fn failures(&self) -> Failures {
        let checks = self.group.iter().flat_map(|group| &group.checks);
        let names = |checks: &toml::Value| -> BTreeSet<String> {
            let checks = checks.as_array().unwrap().iter();
            checks.map(|check| check.as_str().unwrap().to_owned()).collect()
        };
        checks.map(|(scenario, checks)| (scenario.clone(), names(checks))).collect()
    }
}

/// All checks pass except the listed ones, and each listed check fails.
#[test]
fn the_public_suite_passes_except_the_listed_checks() {
    let place = Place::new();
    configure(&place, SETTINGS);
    place.write("a.txt", "one\n");
    let server = Server::new(&place, &[]);
    let url = server.url("/mcp/conformance");
    let mut expected = Exceptions::read().failures();
    let mut applied = BTreeSet::new();
    for revision in REVISIONS {
        let all = scenarios(revision);
        let wanted: Failures = expected
            .iter()
            .filter(|(scenario, _)| all.contains(*scenario))
            .map(|(scenario, checks)| (scenario.clone(), checks.clone()))
            .collect();
        let mut found: Option<Failures> = None;
        for attempt in 0..ATTEMPTS {
            let results = place.home_file(&format!("{revision}-{attempt}"));
            let told = ["server", "--url", &url, "--requirements", revision, "--timeout", "120000"];
            run(&place, &told, &results);
            let failed = read(&results, &all);
            found = Some(match found {
                Some(before) => common(&before, &failed),
                None => failed,
            });
            if found.as_ref() == Some(&wanted) {
                break;
            }
        }
        assert_eq!(found, Some(wanted.clone()), "{revision}");
        applied.extend(wanted.into_keys());
    }
    expected.retain(|scenario, _| !applied.contains(scenario));
    assert!(expected.is_empty(), "no scenarios of the suite: {expected:?}");
}

/// The checks that failed in both attempts.
fn common(one: &Failures, other: &Failures) -> Failures {
    let both = |(scenario, checks): (&String, &BTreeSet<String>)| {
        let both: BTreeSet<_> = checks & other.get(scenario)?;
        (!both.is_empty()).then(|| (scenario.clone(), both))
    };
    one.iter().filter_map(both).collect()
}

/// The scenarios for servers that a revision requires or that are run in addition.
fn scenarios(revision: &str) -> BTreeSet<String> {
    let place = Place::new();
    let listed = run(&place, &["list", "--requirements", revision], &place.home());
    let (mut here, mut names) = (false, BTreeSet::new());
    for line in listed.lines() {
        // The suite lists some by category and marks others.
        here = match line {
            line if line.starts_with("Server scenarios") => true,
            line if line.starts_with("Client scenarios") => false,
            _ => here,
        };
        let Some(name) = line.trim().strip_prefix("- ") else { continue };
        match name.rsplit_once(' ') {
            Some((name, "[server]")) => names.insert(name.to_owned()),
            None if here => names.insert(name.to_owned()),
            _ => false,
        };
    }
    assert!(names.len() >= 30, "{listed}");
    names
}

/// The output of the suite. Its exit status only says that some checks did not apply.
#[expect(clippy::disallowed_methods, reason = "the suite is not a part of the host")]
fn run(place: &Place, arguments: &[&str], results: &Path) -> String {
    let suite = installed("npm/node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let mut command = Command::new(node());
    command.arg(suite).args(arguments).current_dir(place.workspace());
    if arguments[0] == "server" {
        command.arg("--output-dir").arg(results);
    }
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The failed checks of every scenario.
fn read(results: &Path, all: &BTreeSet<String>) -> Failures {
    let (mut ran, mut failures) = (BTreeSet::new(), Failures::new());
    for scenario in fs::read_dir(results).unwrap() {
        let folder = scenario.unwrap();
        let name = folder.file_name().into_string().unwrap();
        // The directory's name is like server-SCENARIO-2026-11-22T17-34-13-755Z.
        let name = &name["server-".len()..name.len() - "-2026-11-22T17-34-13-755Z".len()];
        ran.insert(name.to_owned());
        let checks = fs::read_to_string(folder.path().join("checks.json")).unwrap();
        for check in serde_json::from_str::<Vec<Value>>(&checks).unwrap() {
            if !["SUCCESS", "INFO", "SKIPPED"].contains(&check["status"].as_str().unwrap()) {
                let failed = failures.entry(name.to_owned()).or_default();
                failed.insert(check["id"].as_str().unwrap().to_owned());
            }
        }
    }
    assert_eq!(ran, *all);
    failures
}

/// The table in the documentation equals the tested list.
#[test]
fn the_documentation_lists_the_failing_checks() {
    let document = fs::read_to_string(project().join("docs/mcp.md")).unwrap();
    for Group { reason, checks } in Exceptions::read().group {
        let scenarios: Vec<String> = checks.keys().map(|name| format!("`{name}`")).collect();
        let row = format!("| {} | {reason} |", scenarios.join(", "));
        assert!(document.contains(&row), "docs/mcp.md lacks this row:\n{row}");
    }
}
