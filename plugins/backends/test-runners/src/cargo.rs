//! cargo: `cargo nextest run` if nextest is installed, otherwise `cargo test`.
//!
//! nextest prints an event for each test ([`nextest`]). `cargo test` prints only text on a stable
//! toolchain ([`libtest`]). nextest does not run documentation tests. Both print compiler messages
//! as JSON; a target that does not compile is reported as a test with the status `error`.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Request, Test};
use cofferdam_sdk::process::{Command, Output};
use serde::Deserialize;

use crate::Runner;
use crate::output::{self, complete, json_lines};
use crate::pattern;
use crate::project::{Project, set};
use crate::{libtest, nextest};

pub const RUNNER: Runner = Runner { name: "cargo", detect, version, run };

/// nextest's exit code if no test was selected.
const NO_TESTS: i32 = 4;

fn detect(project: &Project) -> u8 {
    if project.has("Cargo.toml") { 80 } else { 0 }
}

fn version(project: &Project) -> Result<String, Error> {
    let shown = project.ask_version("cargo", &["--version"])?;
    // cargo 1.95.0 (f2d3ce0bd 2026-03-21)
    Ok(shown.split_whitespace().nth(1).unwrap_or(&shown).to_owned())
}

fn run(project: &Project, request: &Request) -> Result<Report, Error> {
    let pattern = request.pattern.as_deref().map(part_of_name).transpose()?;
    let mut command = command(project, NEXTEST, pattern);
    command.timeout_ms = request.timeout_ms;
    set(&mut command, &[("NEXTEST_EXPERIMENTAL_LIBTEST_JSON", "1")]);
    let output = project.run(&command)?;
    if is_missing(&output) {
        let mut command = self::command(project, TEST, pattern);
        // 0 would mean the deadline of the call.
        command.timeout_ms = match request.timeout_ms {
            0 => 0,
            timeout => timeout.saturating_sub(output.duration_ms).max(1),
        };
        return of_libtest(&project.run(&command)?);
    }
    of_nextest(&output)
}

const NEXTEST: &[&str] =
    &["nextest", "run", "--message-format=libtest-json-plus", "--cargo-message-format=json"];
const TEST: &[&str] = &["test", "--message-format=json"];

fn command(project: &Project, first: &[&str], pattern: Option<&str>) -> Command {
    let mut command = project.command("cargo", first);
    command.arguments.extend(["--no-fail-fast", "--offline"].map(str::to_owned));
    command.arguments.extend(pattern.filter(|part| !part.is_empty()).map(str::to_owned));
    let target = project.cache("cargo-target");
    let variables = [
        ("CARGO_TARGET_DIR", &*target),
        ("CARGO_TERM_COLOR", "never"),
        ("CARGO_TERM_PROGRESS_WHEN", "never"),
        ("RUST_BACKTRACE", "1"),
    ];
    set(&mut command, &variables);
    command
}

/// Converts a pattern to a substring of test names, which both programs accept.
fn part_of_name(pattern: &str) -> Result<&str, Error> {
    let part = pattern::as_argument(pattern.trim_matches('*'))?;
    if part.contains('*') {
        return Err(Error::Invalid(format!(
            "'{pattern}': cargo chooses tests by a part of their names; '*' can only be at its ends"
        )));
    }
    Ok(part)
}

/// Whether nextest is missing, or too old to print compiler messages.
fn is_missing(output: &Output) -> bool {
    let stderr = output.stderr_text();
    match output.exit_code() {
        Some(101) => stderr.contains("no such command: `nextest`"),
        Some(2) => stderr.contains("unexpected argument '--"),
        _ => false,
    }
}

fn of_nextest(output: &Output) -> Result<Report, Error> {
    let stdout = complete(&output.stdout, "nextest")?;
    let compiled = Compiled::read(&stdout);
    let mut tests = nextest::read(&stdout, output.exit_code().is_none());
    tests.extend(compiled.errors());
    let shown = compiled.shown + &output.stderr_text();
    Ok(output::report("cargo nextest run", tests, output, &shown, &[NO_TESTS]))
}

fn of_libtest(output: &Output) -> Result<Report, Error> {
    let stdout = complete(&output.stdout, "cargo test")?;
    let stderr = output.stderr_text();
    let compiled = Compiled::read(&stdout);
    let printed: String = stdout.split_inclusive('\n').filter(|line| !is_of_cargo(line)).collect();
    let mut tests = libtest::read(&printed, &stderr);
    tests.extend(compiled.errors());
    let shown = compiled.shown + &stderr + &printed;
    Ok(output::report("cargo test", tests, output, &shown, &[]))
}

fn is_of_cargo(line: &str) -> bool {
    line.starts_with("{\"reason\":\"")
}

/// A line of cargo's JSON.
/// <https://doc.rust-lang.org/cargo/reference/external-tools.html#json-messages>
#[derive(Deserialize)]
struct Line {
    reason: String,
    target: Option<Target>,
    message: Option<Diagnostic>,
}

#[derive(Clone, PartialEq, Eq, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    rendered: Option<String>,
    /// Empty for messages that only summarize.
    spans: Vec<serde::de::IgnoredAny>,
}

/// The compiler errors of a run.
struct Compiled {
    shown: String,
    /// Targets with their errors, in the order of the first error.
    failed: Vec<(Target, String)>,
}

impl Compiled {
    fn read(stdout: &str) -> Self {
        let (mut shown, mut failed) = (String::new(), Vec::<(Target, String)>::new());
        for line in json_lines::<Line>(stdout).filter(|line| line.reason == "compiler-message") {
            let (Some(target), Some(message)) = (line.target, line.message) else { continue };
            let Some(rendered) = message.rendered else { continue };
            shown.push_str(&rendered);
            if !message.level.starts_with("error")
                || (message.spans.is_empty() && rendered.starts_with("error: aborting"))
            {
                continue;
            }
            match failed.iter_mut().find(|(known, _)| *known == target) {
                // A library is compiled a second time for its own tests.
                Some((_, errors)) if errors.contains(&rendered) => {}
                Some((_, errors)) => errors.push_str(&rendered),
                None => failed.push((target, rendered)),
            }
        }
        Self { shown, failed }
    }

    fn errors(&self) -> impl Iterator<Item = Test> {
        self.failed.iter().map(|(target, errors)| {
            let kind = target.kind.first().map_or("", String::as_str);
            let name = format!("[{kind} does not compile]");
            output::error(&target.name, &name, errors)
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded::{self, shown};

    #[test]
    fn compile_errors_are_errors() {
        let stdout = include_bytes!("../tests/data/nextest-error.jsonl");
        let stderr = b"error: could not compile `bad-crate` (lib test) due to 2 previous errors\n";
        let output = recorded::output(101, stdout, stderr);
        for report in [of_nextest(&output).unwrap(), of_libtest(&output).unwrap()] {
            let tests = shown(&report.tests);
            assert_eq!(tests.len(), 2, "{tests:?}");
            assert!(
                tests[0].starts_with(
                    "other [test does not compile] error: error[E0425]: cannot find function \
                     `nowhere` in this scope\n --> tests/other.rs:1:18"
                ),
                "{}",
                tests[0]
            );
            assert!(tests[1].starts_with("bad_crate [lib does not compile] error: "));
            assert!(tests[1].contains("error[E0425]") && tests[1].contains("error[E0308]"));
            assert!(!tests[1].contains("warning"), "{}", tests[1]);
            assert!(report.raw.starts_with("warning: unused variable"), "{}", report.raw);
            assert!(report.raw.ends_with("due to 2 previous errors\n"), "{}", report.raw);
            assert_eq!(report.exit_code, Some(101));
        }
    }

    #[test]
    fn raw_output_contains_no_json() {
        let stdout = include_bytes!("../tests/data/cargo-test.stdout");
        let stderr = include_bytes!("../tests/data/cargo-test.stderr");
        let report = of_libtest(&recorded::output(101, stdout, stderr)).unwrap();
        assert_eq!(report.tests.len(), 9);
        assert!(report.raw.starts_with("    Finished `test` profile"), "{}", report.raw);
        assert!(report.raw.contains("\ntest tests::adds ... ok\n"), "{}", report.raw);
        assert!(!report.raw.contains("reason"), "{}", report.raw);
    }

    #[test]
    fn a_missing_lock_file_or_crate_is_explained() {
        let stderr =
            b"error: no matching package named `itoa` found\nlocation searched: crates.io\n";
        let report = of_libtest(&recorded::output(101, b"", stderr)).unwrap();
        assert_eq!(
            shown(&report.tests),
            [
                " [cargo test] error: it ended with status 101\nerror: no matching package named `itoa` \
              found\nlocation searched: crates.io"
            ]
        );
    }

    #[test]
    fn patterns_are_parts_of_names() {
        for (pattern, wanted) in [
            ("adds", Some("adds")),
            ("test_foo*", Some("test_foo")),
            ("*x*", Some("x")),
            ("*", Some("")),
            ("a*b", None),
            ("--ignored", None),
            ("*--ignored", None),
        ] {
            assert_eq!(part_of_name(pattern).ok(), wanted, "{pattern}");
        }
    }

    #[test]
    fn nextest_can_be_missing_or_too_old() {
        for (status, stderr, missing) in [
            (101, "error: no such command: `nextest`\n\nhelp: a command...\n", true),
            (2, "error: unexpected argument '--cargo-message-format' found\n", true),
            (101, "error: could not compile `x`\n", false),
            (100, "error: test run failed\n", false),
            (0, "", false),
        ] {
            let output = recorded::output(status, b"", stderr.as_bytes());
            assert_eq!(is_missing(&output), missing, "{stderr}");
        }
    }
}
