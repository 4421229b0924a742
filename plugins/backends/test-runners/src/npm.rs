//! `npm test`, which runs the script `test` of `package.json`.
//!
//! If the script only runs a test runner that can print TAP, it gets the options for that. For any
//! other script, the exit code is reported as one test, unless it prints TAP anyway.

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Request, Status};
use cofferdam_sdk::process::{End, Output};

use crate::Runner;
use crate::output::{self, UNFINISHED, both, complete, last_lines, short_message};
use crate::pattern;
use crate::project::{Project, set};
use crate::tap;

pub const RUNNER: Runner = Runner { name: "npm", detect, version, run };

/// A part of the script that `npm init` writes.
const PLACEHOLDER: &str = "no test specified";

/// The test runner in a script: how to request TAP and select tests.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Mocha,
    Vitest,
    Ava,
    /// Tests can be selected only if the script names no files.
    Node {
        names_files: bool,
    },
    Other,
}

fn detect(project: &Project) -> u8 {
    match project.package() {
        Ok(Some(package)) => match package.scripts.get("test") {
            Some(script) if !script.contains(PLACEHOLDER) => 50,
            _ => 10,
        },
        // If no other runner fits, this one reports the error in `package.json`.
        Err(_) => 10,
        Ok(None) => 0,
    }
}

fn version(project: &Project) -> Result<String, Error> {
    project.ask_version("npm", &["--version"])
}

fn run(project: &Project, request: &Request) -> Result<Report, Error> {
    let package = project
        .package()?
        .ok_or_else(|| Error::Unavailable("there is no package.json".to_owned()))?;
    let script = package
        .scripts
        .get("test")
        .ok_or_else(|| Error::Unavailable("package.json has no script 'test'".to_owned()))?;
    let kind = Kind::of(script);
    let mut command = project.command("npm", &["test"]);
    command.timeout_ms = request.timeout_ms;
    let more = kind.arguments(script, request.pattern.as_deref())?;
    if !more.is_empty() {
        command.arguments.push("--".to_owned());
        command.arguments.extend(more);
    }
    set(
        &mut command,
        &[
            ("CI", "true"),
            ("FORCE_COLOR", "0"),
            ("npm_config_fund", "false"),
            ("npm_config_logs_max", "0"),
            ("npm_config_update_notifier", "false"),
        ],
    );
    if matches!(kind, Kind::Node { .. }) && !script.contains("--test-reporter") {
        set(&mut command, &[("NODE_OPTIONS", "--test-reporter=tap")]);
    }
    let output = project.run(&command)?;
    read(&kind, &output)
}

impl Kind {
    fn of(script: &str) -> Self {
        // Arguments that are added to a script become those of its last command.
        if script.contains(['&', '|', ';', '<', '>', '`', '\n']) || script.contains("$(") {
            return Self::Other;
        }
        let mut words =
            script.split_whitespace().skip_while(|word| ["npx", "c8", "nyc"].contains(word));
        match words.next() {
            Some("mocha") => Self::Mocha,
            Some("vitest") => Self::Vitest,
            Some("ava") => Self::Ava,
            Some("node") if words.clone().any(|word| word == "--test") => {
                Self::Node { names_files: words.any(|word| !word.starts_with('-')) }
            }
            _ => Self::Other,
        }
    }

    /// The arguments that are added to the script.
    fn arguments(&self, script: &str, pattern: Option<&str>) -> Result<Vec<String>, Error> {
        let reporter = match self {
            Self::Mocha if !script.contains("--reporter") && !script.contains(" -R") => {
                Some("--reporter=tap")
            }
            Self::Vitest if !script.contains("--reporter") => Some("--reporter=tap-flat"),
            Self::Ava if !script.contains("--tap") => Some("--tap"),
            _ => None,
        };
        let mut arguments: Vec<String> = reporter.map(str::to_owned).into_iter().collect();
        let Some(pattern) = pattern else { return Ok(arguments) };
        let glob = pattern::is_glob(pattern);
        let expression = if glob { pattern.replace('*', ".*") } else { pattern.to_owned() };
        arguments.push(match self {
            Self::Mocha => format!("--grep={expression}"),
            Self::Vitest => format!("--testNamePattern={expression}"),
            // It accepts only globs that match whole names.
            Self::Ava if glob => format!("--match={pattern}"),
            Self::Ava => format!("--match=*{pattern}*"),
            Self::Node { names_files: false } => format!("--test-name-pattern={expression}"),
            Self::Node { names_files: true } => {
                return Err(Error::Invalid(format!(
                    "the script '{script}' names files, behind which node takes no pattern"
                )));
            }
            Self::Other => pattern::as_argument(pattern)?.to_owned(),
        });
        Ok(arguments)
    }
}

fn read(kind: &Kind, output: &Output) -> Result<Report, Error> {
    let stdout = complete(&output.stdout, "npm test")?;
    let printed = both(output);
    let mut tests = match tap::read(&stdout) {
        Some(tests) => tests,
        None => {
            let mut test = output::test("", "npm test", Status::Error);
            match output.end {
                End::Exited(0) => test.status = Status::Pass,
                End::Exited(_) => {
                    test.status = Status::Fail;
                    test.message = short_message(last_lines(&printed));
                }
                End::TimedOut => test.message = Some(UNFINISHED.to_owned()),
                // The report contains the reason.
                End::Signalled(_) | End::Limit(_) => {
                    return Ok(output::report("npm test", Vec::new(), output, &printed, &[]));
                }
            }
            test.duration = Some(f64::from(output.duration_ms) / 1000.0);
            vec![test]
        }
    };
    if *kind == Kind::Vitest {
        for test in &mut tests {
            if let Some((file, name)) = test.name.split_once(" > ") {
                (test.suite, test.name) = (file.to_owned(), name.to_owned());
            }
        }
    }
    Ok(output::report("npm test", tests, output, &printed, &[]))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded::{self, shown};

    #[test]
    fn scripts_are_recognised() {
        let node = |names_files| Kind::Node { names_files };
        for (script, kind) in [
            ("mocha", Kind::Mocha),
            ("mocha 'test/**/*.js'", Kind::Mocha),
            ("npx vitest run", Kind::Vitest),
            ("nyc ava", Kind::Ava),
            ("node --test", node(false)),
            ("node --import=tsx --test", node(false)),
            ("node --test test/", node(true)),
            ("node test.js", Kind::Other),
            ("tsc && mocha", Kind::Other),
            ("mocha | tee log", Kind::Other),
            ("mochawesome", Kind::Other),
            ("", Kind::Other),
        ] {
            assert_eq!(Kind::of(script), kind, "{script}");
        }
    }

    #[test]
    fn runners_get_options_for_tap_and_patterns() {
        let table: &[(&str, Option<&str>, &[&str])] = &[
            ("mocha", None, &["--reporter=tap"]),
            ("mocha", Some("handles errors"), &["--reporter=tap", "--grep=handles errors"]),
            ("mocha -R dot", Some("a*"), &["--grep=a.*"]),
            ("vitest", Some("-x"), &["--reporter=tap-flat", "--testNamePattern=-x"]),
            ("ava", Some("adds"), &["--tap", "--match=*adds*"]),
            ("ava", Some("adds*"), &["--tap", "--match=adds*"]),
            ("node --test", Some("adds"), &["--test-name-pattern=adds"]),
            ("node --test test/", None, &[]),
            ("make test", None, &[]),
            ("make test", Some("adds"), &["adds"]),
        ];
        for (script, pattern, wanted) in table {
            let arguments = Kind::of(script).arguments(script, *pattern).unwrap();
            assert_eq!(arguments, *wanted, "{script} {pattern:?}");
        }
        for (script, pattern) in [("make test", "--eval=x"), ("node --test test/", "adds")] {
            let refused = Kind::of(script).arguments(script, Some(pattern));
            assert!(matches!(refused, Err(Error::Invalid(_))), "{script}");
        }
    }

    #[test]
    fn a_script_is_one_test_unless_it_writes_tap() {
        let table: [(End, &str, &[&str]); 5] = [
            (End::Exited(0), "fine\n", &[" npm test pass"]),
            (
                End::Exited(2),
                "make: *** [test] Error 2\n",
                &[" npm test fail: make: *** [test] Error 2"],
            ),
            (End::TimedOut, "", &[" npm test error: still running when the run ended"]),
            (End::Exited(1), "1..1\nnot ok 1 - a\n", &[" a fail"]),
            (
                End::Exited(1),
                "1..1\nok 1 - a\n",
                &[" a pass", " [npm test] error: it ended with status 1\n1..1\nok 1 - a"],
            ),
        ];
        for (end, stdout, wanted) in table {
            let output = Output { end, ..recorded::output(0, stdout.as_bytes(), b"") };
            let report = read(&Kind::Other, &output).unwrap();
            assert_eq!(shown(&report.tests), wanted);
        }
    }

    #[test]
    fn vitest_names_files() {
        let stdout = include_bytes!("../tests/data/vitest.tap");
        let report = read(&Kind::Vitest, &recorded::output(1, stdout, b"")).unwrap();
        assert_eq!(shown(&report.tests)[0], "calc.test.js calc > adds pass");
        assert_eq!(report.raw.as_bytes(), stdout);
    }
}
