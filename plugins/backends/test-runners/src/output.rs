//! Makes a report from a runner's output: texts of a bounded size, and an error for a failed run
//! without a failed test.

use anstream::adapter::strip_str;
use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Status, Test};
use cofferdam_sdk::process::{Captured, End, Output};
use cofferdam_sdk::shorten;
use serde::de::DeserializeOwned;

/// The maximum size of the raw output, in bytes.
const MAX_RAW_BYTES: usize = 256 * 1024;

/// The maximum size of a test's message, in bytes.
const MAX_MESSAGE_BYTES: usize = 8 * 1024;
const MAX_STACK_BYTES: usize = 32 * 1024;

/// Makes a test; its texts are plain, of a bounded size, and `None` if empty.
pub fn test(suite: &str, name: &str, status: Status) -> Test {
    Test {
        name: name.to_owned(),
        suite: suite.to_owned(),
        status,
        duration: None,
        message: None,
        stack: None,
    }
}

/// Makes a test for something that could not run.
pub fn error(suite: &str, name: &str, message: &str) -> Test {
    Test { message: short_message(message), ..test(suite, name, Status::Error) }
}

/// The message of a test that has started but not ended.
pub const UNFINISHED: &str = "still running when the run ended";

/// Shortens a message for a report.
pub fn short_message(text: &str) -> Option<String> {
    plain(text, MAX_MESSAGE_BYTES)
}

/// Shortens a stack trace for a report.
pub fn short_stack(text: &str) -> Option<String> {
    plain(text, MAX_STACK_BYTES)
}

/// Removes escape sequences, empty lines around the text, and what exceeds the size.
fn plain(text: &str, most: usize) -> Option<String> {
    let text = strip_str(text).to_string();
    let text = text.trim_end();
    let start = text.find(|c: char| !c.is_whitespace())?;
    // The first line keeps its indentation, since others may have the same.
    let start = text[..start].rfind('\n').map_or(0, |end| end + 1);
    Some(shorten(&text[start..], most).into_owned())
}

/// Deserializes each line that is a JSON document; other lines are skipped.
pub fn json_lines<T: DeserializeOwned>(text: &str) -> impl Iterator<Item = T> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
}

/// The whole text of an output stream.
///
/// # Errors
/// The stream was too large, so its middle was cut out.
pub fn complete(stream: &Captured, whose: &str) -> Result<String, Error> {
    if stream.total > stream.bytes.len() as u64 {
        return Err(Error::Failed(format!(
            "{whose} printed {} bytes of results, which is more than can be read; run fewer tests \
             at a time with a pattern",
            stream.total
        )));
    }
    Ok(String::from_utf8_lossy(&stream.bytes).into_owned())
}

/// Makes the report of a run. `what` is its name, `printed` its output for users; `none` are the
/// exit codes for a run without tests.
pub fn report(
    what: &str,
    mut tests: Vec<Test>,
    output: &Output,
    printed: &str,
    none: &[i32],
) -> Report {
    let timed_out = matches!(output.end, End::TimedOut);
    let explained = tests.iter().any(|test| matches!(test.status, Status::Fail | Status::Error));
    let why = match &output.end {
        End::TimedOut => None,
        End::Exited(0) => None,
        End::Exited(status) if explained || none.contains(status) => None,
        End::Exited(status) => Some(format!("it ended with status {status}")),
        End::Signalled(signal) => Some(format!("it was ended by signal {signal}")),
        End::Limit(limit) => Some(format!("it was stopped at a limit: {limit}")),
    };
    if let Some(why) = why {
        let message = format!("{why}\n{}", last_lines(printed));
        tests.push(error("", &format!("[{what}]"), message.trim_end()));
    }
    Report {
        tests,
        exit_code: output.exit_code(),
        timed_out,
        duration_ms: output.duration_ms,
        raw: shorten(&strip_str(printed).to_string(), MAX_RAW_BYTES).into_owned(),
    }
}

/// The last lines of the output, which usually have the reason of a failure.
pub fn last_lines(printed: &str) -> &str {
    const MAX_LAST_LINES: usize = 20;
    let printed = printed.trim_end();
    let start = printed.rmatch_indices('\n').nth(MAX_LAST_LINES - 1).map_or(0, |(at, _)| at + 1);
    &printed[start..]
}

/// Joins both streams, as far as they are not empty.
pub fn both(output: &Output) -> String {
    let (mut printed, stderr) = (output.stdout_text(), output.stderr_text());
    if !printed.is_empty() && !printed.ends_with('\n') && !stderr.is_empty() {
        printed.push('\n');
    }
    printed + &stderr
}

#[cfg(test)]
pub mod recorded {
    //! Recorded output of runners.

    use cofferdam_sdk::backend::testing::Test;
    use cofferdam_sdk::process::{Captured, End, Output};

    /// A run in `/work/project` with this exit code.
    pub fn output(status: i32, stdout: &[u8], stderr: &[u8]) -> Output {
        let captured =
            |bytes: &[u8]| Captured { total: bytes.len() as u64, bytes: bytes.to_owned() };
        Output {
            end: End::Exited(status),
            stdout: captured(stdout),
            stderr: captured(stderr),
            duration_ms: 1_234,
            workspace: "/work/project".to_owned(),
        }
    }

    /// Suite, name, status and message of each test.
    pub fn shown(tests: &[Test]) -> Vec<String> {
        tests
            .iter()
            .map(|test| {
                let message = test.message.as_deref().map(|message| format!(": {message}"));
                let status = format!("{:?}", test.status).replace("Status::", "").to_lowercase();
                format!("{} {} {status}{}", test.suite, test.name, message.unwrap_or_default())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_plain_and_bounded() {
        for (text, most, wanted) in [
            ("", 10, None),
            (" \n\t\n", 10, None),
            ("\n\n    a\n    b\n\n", 20, Some("    a\n    b")),
            ("\u{1b}[31mred\u{1b}[0m\tx", 10, Some("red\tx")),
            ("0123456789", 10, Some("0123456789")),
            ("0123456789a", 10, Some("01234\n[... 1 bytes left out ...]\n6789a")),
        ] {
            assert_eq!(plain(text, most).as_deref(), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_failed_run_without_a_failed_test_gets_an_error() {
        let failing = || vec![test("s", "t", Status::Fail)];
        let passing = || vec![test("s", "t", Status::Pass)];
        let table = [
            (End::Exited(0), passing(), 1, None),
            (End::Exited(1), failing(), 1, None),
            (End::Exited(1), passing(), 2, Some("it ended with status 1\nno config")),
            (End::Exited(2), vec![], 1, Some("it ended with status 2\nno config")),
            (End::Exited(5), vec![], 0, None),
            (End::TimedOut, vec![], 0, None),
            (End::Signalled(9), failing(), 2, Some("it was ended by signal 9\nno config")),
            (
                End::Limit("memory".into()),
                vec![],
                1,
                Some("it was stopped at a limit: memory\nno config"),
            ),
        ];
        for (end, tests, count, message) in table {
            let output = Output { end, ..recorded::output(0, b"", b"") };
            let report = report("go test", tests, &output, "no config\n", &[5]);
            assert_eq!(report.tests.len(), count, "{:?}", output.end);
            if let Some(message) = message {
                assert_eq!(report.tests[count - 1].message.as_deref(), Some(message));
                assert_eq!(report.tests[count - 1].name, "[go test]");
            }
            assert_eq!(report.timed_out, matches!(output.end, End::TimedOut));
        }
    }

    #[test]
    fn last_lines_are_shortened() {
        let many: String = (0..30).map(|n| format!("{n}\n")).collect();
        let words = last_lines(&many);
        assert!(words.starts_with("10\n") && words.ends_with("\n29"), "{words}");
        assert_eq!(last_lines("a\n"), "a");
        assert_eq!(last_lines("\n"), "");
    }

    #[test]
    fn truncated_results_are_an_error() {
        let cut = Captured { bytes: b"{}".to_vec(), total: 3 };
        assert!(matches!(complete(&cut, "go"), Err(Error::Failed(_))));
        let bytes = Captured { bytes: b"a\xff".to_vec(), total: 2 };
        assert_eq!(complete(&bytes, "go").ok().as_deref(), Some("a\u{fffd}"));
    }
}
