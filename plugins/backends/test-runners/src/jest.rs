//! jest, whose option `--json` prints one document at the end.
//!
//! A project's own jest is run by `node`; without one, the program `jest` is run.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Request, Status, Test};
use cofferdam_sdk::process::{End, Output};
use cofferdam_sdk::telling;
use serde::Deserialize;

use crate::Runner;
use crate::output::{self, complete, short_message, short_stack};
use crate::pattern;
use crate::project::{Project, set};

pub const RUNNER: Runner = Runner { name: "jest", detect, version, run };

const LOCAL_JEST: &str = "node_modules/jest/bin/jest.js";

const CONFIGURATIONS: [&str; 6] = [
    "jest.config.js",
    "jest.config.ts",
    "jest.config.mjs",
    "jest.config.cjs",
    "jest.config.cts",
    "jest.config.json",
];

fn detect(project: &Project) -> u8 {
    let package = project.package().ok().flatten().unwrap_or_default();
    let depends =
        package.dependencies.contains_key("jest") || package.dev_dependencies.contains_key("jest");
    let configured = package.jest.is_some() || CONFIGURATIONS.iter().any(|name| project.has(name));
    if depends || configured { 88 } else { 0 }
}

/// The program, and its arguments before the options.
fn program(project: &Project) -> (&'static str, &'static [&'static str]) {
    if project.has(LOCAL_JEST) { ("node", &[LOCAL_JEST]) } else { ("jest", &[]) }
}

fn version(project: &Project) -> Result<String, Error> {
    let (program, first) = program(project);
    project.ask_version(program, &[first, &["--version"]].concat())
}

fn run(project: &Project, request: &Request) -> Result<Report, Error> {
    let (program, first) = program(project);
    let mut command = project.command(program, first);
    command.timeout_ms = request.timeout_ms;
    command.arguments.extend(["--json", "--ci", "--watchman=false"].map(str::to_owned));
    command.arguments.push(format!("--cacheDirectory={}", project.cache("jest")));
    if let Some(pattern) = &request.pattern {
        command.arguments.push(format!("--testNamePattern={}", expression(pattern)));
    }
    set(&mut command, &[("CI", "true"), ("FORCE_COLOR", "0")]);
    let output = project.run(&command)?;
    let stdout = complete(&output.stdout, "jest")?;
    let printed = output.stderr_text();
    let tests = match results(&stdout) {
        Some(results) => read(results, &output),
        None if matches!(output.end, End::Exited(0)) => {
            return Err(Error::Failed(format!(
                "jest printed no results, but: {}",
                telling(&stdout)
            )));
        }
        None => Vec::new(),
    };
    Ok(output::report("jest", tests, &output, &printed, &[]))
}

/// Converts a pattern for `--testNamePattern`: a regular expression that matches anywhere in the
/// names of a test and the blocks around it.
fn expression(pattern: &str) -> String {
    if pattern::is_glob(pattern) { pattern.replace('*', ".*") } else { pattern.to_owned() }
}

/// The document that `--json` prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Results {
    test_results: Vec<File>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    /// The absolute path of the test file.
    name: String,
    status: String,
    #[serde(default)]
    message: String,
    assertion_results: Vec<Assertion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assertion {
    full_name: String,
    status: String,
    /// The duration in milliseconds.
    duration: Option<f64>,
    #[serde(default)]
    failure_messages: Vec<String>,
}

/// Finds the document, which is on one line; tests may have printed other lines.
fn results(stdout: &str) -> Option<Results> {
    let documents = stdout.lines().rev().filter_map(|line| Some(&line[line.find("{\"num")?..]));
    documents.filter_map(|line| serde_json::from_str(line).ok()).next()
}

fn read(results: Results, output: &Output) -> Vec<Test> {
    let mut tests = Vec::new();
    for file in results.test_results {
        let suite = output.relative(&file.name);
        if file.status == "failed" && file.assertion_results.is_empty() {
            let message =
                file.message.trim_start().trim_start_matches("● Test suite failed to run");
            tests.push(Test {
                stack: short_stack(&file.message),
                ..output::error(suite, "[test suite failed to run]", first_paragraph(message))
            });
        }
        tests.extend(file.assertion_results.iter().map(|assertion| describe(suite, assertion)));
    }
    tests
}

fn describe(suite: &str, assertion: &Assertion) -> Test {
    let status = match assertion.status.as_str() {
        "passed" | "focused" => Status::Pass,
        "failed" => Status::Fail,
        // Other statuses: pending, skipped, todo, disabled.
        _ => Status::Skip,
    };
    let mut test = output::test(suite, &assertion.full_name, status);
    test.duration = assertion.duration.map(|milliseconds| milliseconds / 1000.0);
    if let Some(first) = assertion.failure_messages.first() {
        let message = first.split("\n    at ").next().unwrap_or(first);
        test.message = short_message(message);
        test.stack = short_stack(&assertion.failure_messages.join("\n\n"));
    }
    test
}

/// The text before quoted source or a stack trace.
fn first_paragraph(text: &str) -> &str {
    let text = text.trim_start();
    text.split("\n\n").next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded;

    const STDOUT: &str = include_str!("../tests/data/jest.stdout");

    #[test]
    fn recorded_results() {
        let output =
            Output { workspace: "/home/me/project".into(), ..recorded::output(1, b"", b"") };
        let tests = read(results(STDOUT).unwrap(), &output);
        assert_eq!(
            recorded::shown(&tests),
            [
                "src/calc.test.js calc adds pass",
                "src/calc.test.js calc should handle errors fail: Error: \
                 expect(received).toBe(expected) // Object.is equality\n\nExpected: 4\nReceived: 3",
                "src/calc.test.js calc skipped one skip",
                "src/calc.test.js calc write me skip",
                "src/calc.test.js calc deeper throws fail: TypeError: boom é",
                "src/syntax.test.js [test suite failed to run] error: Jest encountered an \
                 unexpected token",
                "src/broken.test.js [test suite failed to run] error: Cannot find module \
                 './nowhere' from 'src/broken.test.js'",
            ]
        );
        assert!(tests[0].duration.is_some_and(|seconds| seconds < 1.0));
        let stack = tests[1].stack.as_ref().unwrap();
        assert!(stack.contains("at Object.toBe (/home/me/project/src/calc.test.js:4:116)"));
        let stack = tests[5].stack.as_ref().unwrap();
        assert!(stack.contains("Unexpected token (2:0)") && !stack.contains('\u{1b}'), "{stack}");
    }

    #[test]
    fn output_of_tests_is_not_a_result() {
        let document = STDOUT.lines().last().unwrap();
        for stdout in [
            document.to_owned(),
            format!("{{\"num\": 1}}\n{document}"),
            format!("printed without an end {document}\nand more\n"),
        ] {
            assert!(results(&stdout).is_some(), "{}", &stdout[..40]);
        }
        for stdout in ["", "{}", "{\"numTotalTests\": 1}", &document[..document.len() - 1]] {
            assert!(results(stdout).is_none(), "{stdout}");
        }
    }

    #[test]
    fn patterns_are_expressions() {
        for (pattern, wanted) in [
            ("should handle errors", "should handle errors"),
            ("TestFoo*", "TestFoo.*"),
            ("^calc (adds|fails)$", "^calc (adds|fails)$"),
        ] {
            assert_eq!(expression(pattern), wanted);
        }
    }
}
