//! `go test -json`, which prints one event on each line (`go doc test2json`).
//!
//! A test with subtests is reported in addition to its subtests, as Go counts them. For a package
//! that fails without a failed test (because it does not build, or `TestMain` exits), a test with
//! the status `error` is added.

use std::collections::{BTreeMap, HashMap};

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Request, Status, Test};
use serde::Deserialize;

use crate::Runner;
use crate::output::{self, UNFINISHED, complete, json_lines, short_message, short_stack};
use crate::pattern;
use crate::project::{Project, set};

pub const RUNNER: Runner = Runner { name: "go", detect, version, run };

fn detect(project: &Project) -> u8 {
    if project.has("go.mod") {
        90
    } else if project.any_file(|name| name.ends_with("_test.go")) {
        60
    } else {
        0
    }
}

fn version(project: &Project) -> Result<String, Error> {
    let printed = project.ask_version("go", &["version"])?;
    // Format: go version go1.27.3 linux/amd64
    let version = printed.split_whitespace().nth(2).unwrap_or(&printed);
    Ok(version.strip_prefix("go").unwrap_or(version).to_owned())
}

fn run(project: &Project, request: &Request) -> Result<Report, Error> {
    // The run has a timeout; Go's own would apply to each package.
    let mut arguments = vec!["test".to_owned(), "-json".to_owned(), "-timeout=0".to_owned()];
    if let Some(pattern) = &request.pattern {
        // Option and pattern are one argument, so that the pattern can't be an option.
        arguments.push(format!("-run={}", expression(pattern)));
    }
    arguments.push("./...".to_owned());
    let mut command = project.command("go", &[]);
    command.arguments = arguments;
    command.timeout_ms = request.timeout_ms;
    let cache = project.cache("go-build");
    let variables = [
        ("GOCACHE", &*cache),
        ("GOENV", "off"),
        // Users can remove the directories of modules in a cache.
        ("GOFLAGS", "-modcacherw"),
        ("GOTELEMETRY", "off"),
    ];
    set(&mut command, &variables);
    let output = project.run(&command)?;
    let events = complete(&output.stdout, "go test")?;
    let stderr = output.stderr_text();
    let run = read(&events, &stderr);
    Ok(output::report("go test", run.tests, &output, &(run.printed + &stderr), &[]))
}

/// Converts a pattern for `-run`: regular expressions for a test and its subtests, separated by
/// `/`, each of which matches anywhere in a name. A glob matches a whole name.
fn expression(pattern: &str) -> String {
    if !pattern::is_glob(pattern) {
        return pattern.to_owned();
    }
    let levels = pattern.split('/').map(|level| format!("^{}$", level.replace('*', ".*")));
    levels.collect::<Vec<_>>().join("/")
}

/// An event of test2json or of the build.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    test: Option<String>,
    elapsed: Option<f64>,
    #[serde(default)]
    output: String,
    /// The type of the output line, since Go 1.27.
    output_type: Option<String>,
    /// The package, in an event of the build.
    #[serde(default)]
    import_path: String,
    failed_build: Option<String>,
}

/// Packages by import path, each with the import path of the build that failed.
type Packages = BTreeMap<String, (Progress, Option<String>)>;

/// The result of a run.
struct Outcome {
    tests: Vec<Test>,
    /// The output that `go test` prints without `-json`.
    printed: String,
}

/// The state of a test or a package after the events so far.
#[derive(Default)]
struct Progress {
    ended: Option<(Status, Option<f64>)>,
    lines: Vec<Line>,
    /// The output of the runner itself: `FAIL example.com/a [build failed]`.
    summary: String,
}

struct Line {
    text: String,
    /// Whether the line is an error of the test; `None` before Go 1.27.
    error: Option<bool>,
}

fn read(events: &str, stderr: &str) -> Outcome {
    let plain: String =
        events.split_inclusive('\n').filter(|line| !line.starts_with('{')).collect();
    let (packages, builds) = failed_packages(&format!("{stderr}\n{plain}"));
    let mut run = Run { packages, builds, ..Run::default() };
    for event in json_lines::<Event>(events) {
        run.add(event);
    }
    let printed = std::mem::take(&mut run.printed) + &plain;
    Outcome { tests: run.into_tests(), printed }
}

/// A run of `go test` while its events are read.
#[derive(Default)]
struct Run {
    /// The output of all events.
    printed: String,
    /// Packages and names of the tests, in the order in which they started.
    order: Vec<(String, String)>,
    /// By package and name.
    tests: HashMap<(String, String), Progress>,
    packages: Packages,
    /// What the compiler printed, by import path.
    builds: BTreeMap<String, String>,
}

impl Run {
    fn add(&mut self, event: Event) {
        self.printed.push_str(&event.output);
        if event.action == "build-output" {
            // Its first line names the package.
            if !event.output.starts_with("# ") {
                self.builds.entry(event.import_path).or_default().push_str(&event.output);
            }
            return;
        }
        if event.package.is_empty() {
            return;
        }
        let progress = match event.test {
            Some(name) => {
                let key = (event.package, name);
                self.tests.entry(key).or_insert_with_key(|key| {
                    self.order.push(key.clone());
                    Progress::default()
                })
            }
            None => {
                let (progress, build) = self.packages.entry(event.package).or_default();
                *build = event.failed_build.or(build.take());
                progress
            }
        };
        match (event.action.as_str(), status(&event.action)) {
            (_, Some(status)) => progress.ended = Some((status, event.elapsed)),
            ("output", None) => progress.add_output(event.output, event.output_type.as_deref()),
            _ => {}
        }
    }

    /// The tests in order, then an error for each package that failed without a failed test.
    fn into_tests(mut self) -> Vec<Test> {
        let mut found: Vec<Test> = Vec::with_capacity(self.order.len());
        for key in self.order {
            let progress = self.tests.remove(&key).unwrap_or_default();
            found.push(describe(&key.0, &key.1, &progress));
        }
        let failing: Vec<String> = found
            .iter()
            .filter(|test| matches!(test.status, Status::Fail | Status::Error))
            .map(|test| test.suite.clone())
            .collect();
        for (package, (progress, build)) in &self.packages {
            let failed = matches!(progress.ended, Some((Status::Fail, _)));
            if failed && !failing.contains(package) {
                found.push(package_error(package, progress, build.as_deref(), &self.builds));
            }
        }
        found
    }
}

impl Progress {
    /// Adds a line to the summary if the runner itself printed it, otherwise to the lines.
    fn add_output(&mut self, text: String, kind: Option<&str>) {
        if is_frame(kind, &text) {
            self.summary.push_str(&text);
        } else {
            let error = kind.map(|kind| kind.starts_with("error"));
            self.lines.push(Line { text, error });
        }
    }
}

fn status(action: &str) -> Option<Status> {
    match action {
        "pass" => Some(Status::Pass),
        "fail" => Some(Status::Fail),
        "skip" => Some(Status::Skip),
        _ => None,
    }
}

/// Whether a line is printed by the runner instead of a test: `=== RUN`, `--- FAIL`.
fn is_frame(kind: Option<&str>, line: &str) -> bool {
    const FRAMES: [&str; 8] = [
        "=== RUN",
        "=== PAUSE",
        "=== CONT",
        "=== NAME",
        "--- PASS: ",
        "--- FAIL: ",
        "--- SKIP: ",
        "FAIL\t",
    ];
    kind == Some("frame")
        || matches!(line, "PASS\n" | "FAIL\n")
        || FRAMES.iter().any(|frame| line.trim_start().starts_with(frame))
}

fn describe(package: &str, name: &str, progress: &Progress) -> Test {
    let mut test = output::test(package, name, Status::Error);
    let Some((status, elapsed)) = progress.ended else {
        // A panic or a timeout of another test in its package ended it too.
        test.message = Some(panic(&progress.lines).unwrap_or_else(|| UNFINISHED.to_owned()));
        test.stack = short_stack(&text(&progress.lines));
        return test;
    };
    test.status = status;
    test.duration = elapsed;
    if status != Status::Pass {
        test.message = message(&progress.lines);
    }
    if status == Status::Fail {
        test.stack = short_stack(&text(&progress.lines));
    }
    test
}

/// The message of a failed test, without the place, which is in the stack trace.
fn message(lines: &[Line]) -> Option<String> {
    if let Some(panic) = panic(lines) {
        return Some(panic);
    }
    let errors = lines.iter().any(|line| line.error == Some(true));
    let mut printed = String::new();
    let mut in_log = false;
    for line in lines.iter().filter(|line| !errors || line.error == Some(true)) {
        let logged = logged(&line.text);
        // Lines that are indented further than a place continue its message.
        in_log = logged.is_some() || (in_log && line.text.starts_with("        "));
        match logged {
            Some(logged) => printed.push_str(logged),
            None if in_log => printed.push_str(line.text.trim_start()),
            None => {}
        }
    }
    // A failed example prints its output without a place.
    short_message(&printed).or_else(|| short_message(&text(lines)))
}

/// The text after `    file_test.go:12: `.
fn logged(line: &str) -> Option<&str> {
    let (place, message) = line.trim_start().split_once(": ")?;
    let (file, number) = place.rsplit_once(':')?;
    (file.ends_with(".go") && number.bytes().all(|b| b.is_ascii_digit())).then_some(message)
}

fn panic(lines: &[Line]) -> Option<String> {
    let line = lines
        .iter()
        .find(|line| line.text.starts_with("panic: ") || line.text.starts_with("fatal error: "))?;
    // `[recovered]`, since Go 1.25 `[recovered, repanicked]`.
    short_message(line.text.split(" [recovered").next().unwrap_or(&line.text))
}

fn text(lines: &[Line]) -> String {
    lines.iter().map(|line| line.text.as_str()).collect()
}

/// The error for a failed package, with the compiler's message or else the package's output.
fn package_error(
    package: &str,
    progress: &Progress,
    build: Option<&str>,
    builds: &BTreeMap<String, String>,
) -> Test {
    let printed = text(&progress.lines) + &progress.summary;
    let name = ["[setup failed]", "[build failed]"].into_iter().find(|name| printed.contains(name));
    let compiled = build.or(Some(package)).and_then(|build| builds.get(build)).cloned();
    let message = match (name, compiled) {
        (Some(_), Some(compiled)) => compiled,
        // The failed build is that of a dependency.
        (Some(_), None) if !builds.is_empty() => builds.values().map(String::as_str).collect(),
        _ => text(&progress.lines),
    };
    let message = if message.trim().is_empty() { "no test says why" } else { &message };
    output::error(package, name.unwrap_or("[package failed]"), message)
}

/// Packages that failed before any test could run, with the compiler's messages. Before Go 1.24
/// these are text, below the compiler's messages on standard error:
///
/// ```text
/// # example.com/a [example.com/a.test]
/// a/a_test.go:5:28: undefined: f
/// FAIL    example.com/a [build failed]
/// ```
fn failed_packages(text: &str) -> (Packages, BTreeMap<String, String>) {
    let mut packages = Packages::new();
    let mut builds: BTreeMap<String, String> = BTreeMap::new();
    let mut package = None;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            package = Some(match heading.split_once(" [") {
                Some((_, test)) => test.trim_end_matches(']').trim_end_matches(".test"),
                None => heading,
            });
        } else if let Some((failed, _)) =
            line.strip_prefix("FAIL\t").and_then(|l| l.split_once(" ["))
        {
            let (progress, _) = packages.entry(failed.to_owned()).or_default();
            progress.ended = Some((Status::Fail, None));
            progress.summary = line.to_owned();
        } else if let Some(package) = package {
            let text = builds.entry(package.to_owned()).or_default();
            text.push_str(line);
            text.push('\n');
        }
    }
    (packages, builds)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded::shown;

    const EVENTS: &str = include_str!("../tests/data/go.jsonl");

    /// The results that both recordings have.
    const SHOWN: [&str; 12] = [
        "example.com/demo/calc TestAdd pass",
        "example.com/demo/calc TestCalculate fail: Expected 100, got 99\nsecond\nof two lines",
        "example.com/demo/calc TestLater skip: not on this machine",
        "example.com/demo/calc TestTable fail",
        "example.com/demo/calc TestTable/one pass",
        "example.com/demo/calc TestTable/two_words fail: bad \"two words\"",
        "example.com/demo/calc ExampleAdd fail: got:\n3\nwant:\n4",
        "example.com/demo/panics TestFine pass",
        "example.com/demo/panics TestPanics fail: panic: assignment to entry in nil map",
        "example.com/demo/broken [build failed] error: broken/broken_test.go:5:28: undefined: \
         undefinedFunction",
        "example.com/demo/main [package failed] error: giving up",
        "example.com/demo/setup [setup failed] error: setup/s_test.go:3:8: no required module \
         provides package example.com/nowhere; to add it:\n\tgo get example.com/nowhere",
    ];

    fn read_all(events: &str, stderr: &str) -> Vec<Test> {
        read(events, stderr).tests
    }

    #[test]
    fn recorded_results() {
        let older = include_str!("../tests/data/go-1.19.jsonl");
        let stderr = include_str!("../tests/data/go-1.19.stderr");
        assert_eq!(shown(&read_all(EVENTS, "")), SHOWN);
        // Before Go 1.27, logged lines and errors can't be distinguished.
        let wanted = SHOWN.map(|shown| shown.replace(": Expected", ": a log line\nExpected"));
        assert_eq!(shown(&read_all(older, stderr)), wanted);
    }

    #[test]
    fn stacks_contain_the_output_of_a_test() {
        let tests = read_all(EVENTS, "");
        let stack = |name: &str| {
            tests.iter().find(|test| test.name == name).unwrap().stack.clone().unwrap()
        };
        assert_eq!(
            stack("TestCalculate"),
            "printed\nto stderr\n    calc_test.go:18: a log line\n    calc_test.go:19: Expected \
             100, got 99\n    calc_test.go:20: second\n        of two lines"
        );
        assert!(stack("TestPanics").contains("panics_test.go:8"));
        assert!(tests.iter().all(|test| test.duration.is_some() || test.name.starts_with('[')));
    }

    #[test]
    fn unfinished_tests_are_errors() {
        let events: String = EVENTS
            .lines()
            .filter(|line| !line.contains("\"fail\""))
            .fold(String::new(), |all, line| all + line + "\n");
        let tests = read_all(&events, "");
        assert!(
            shown(&tests).contains(
                &"example.com/demo/calc TestCalculate error: still running when the run ended"
                    .to_owned()
            )
        );
        assert!(
            shown(&tests).contains(
                &"example.com/demo/panics TestPanics error: panic: assignment to entry in nil map"
                    .to_owned()
            )
        );
    }

    #[test]
    fn raw_output_is_that_of_go_without_json() {
        let printed = read(EVENTS, "").printed;
        assert!(printed.starts_with("# example.com/demo/"), "{printed}");
        assert!(printed.contains("\n--- FAIL: TestCalculate (0.00s)\n"), "{printed}");
        assert!(printed.contains("\nFAIL\texample.com/demo/broken [build failed]\n"), "{printed}");
    }

    #[test]
    fn globs_become_expressions() {
        for (pattern, wanted) in [
            ("TestDatabase", "TestDatabase"),
            ("TestFoo*", "^TestFoo.*$"),
            ("*", "^.*$"),
            ("TestTable/two*", "^TestTable$/^two.*$"),
            ("^TestA|TestB$", "^TestA|TestB$"),
            ("Test.*Foo", "Test.*Foo"),
            ("-count=3", "-count=3"),
        ] {
            assert_eq!(expression(pattern), wanted, "{pattern}");
        }
    }

    #[test]
    fn a_long_run_is_parsed_in_linear_time() {
        let event = |n: u32, action: &str| {
            format!("{{\"Action\":\"{action}\",\"Package\":\"p\",\"Test\":\"Test{n}\"}}\n")
        };
        let events: String = (0..20_000).map(|n| event(n, "run") + &event(n, "pass")).collect();
        let started = std::time::Instant::now();
        assert_eq!(read_all(&events, "").len(), 20_000);
        assert!(started.elapsed().as_secs() < 10);
    }
}
