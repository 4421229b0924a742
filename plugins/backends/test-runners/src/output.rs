//! From what a runner printed to a report: texts of a bounded size, and a test that stands for the
//! run itself where that failed and no test says why.

use anstream::adapter::strip_str;
use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::testing::{Report, Status, Test};
use cofferdam_sdk::process::{Captured, End, Output};
use cofferdam_sdk::shorten;
use serde::de::DeserializeOwned;

/// The most that is kept of what a person would see, in bytes.
const RAW: usize = 256 * 1024;

/// The most that is kept of one test's message and of its stack, in bytes.
const MESSAGE: usize = 8 * 1024;
const STACK: usize = 32 * 1024;

/// A test, its texts as a report has them: plain, of a bounded size, and none where there is
/// nothing to say.
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

/// A test that could not be run, or something that had to work for tests to run.
pub fn error(suite: &str, name: &str, message: &str) -> Test {
    Test { message: short_message(message), ..test(suite, name, Status::Error) }
}

/// What is said of a test that had started and not ended.
pub const UNFINISHED: &str = "still running when the run ended";

/// A message as a report has it.
pub fn short_message(text: &str) -> Option<String> {
    plain(text, MESSAGE)
}

/// A stack as a report has it.
pub fn short_stack(text: &str) -> Option<String> {
    plain(text, STACK)
}

/// Without escape sequences, lines without text around it, and what is too much.
fn plain(text: &str, most: usize) -> Option<String> {
    let text = strip_str(text).to_string();
    let text = text.trim_end();
    let start = text.find(|c: char| !c.is_whitespace())?;
    // The first line keeps its indentation, which the others may share.
    let start = text[..start].rfind('\n').map_or(0, |end| end + 1);
    Some(shorten(&text[start..], most).into_owned())
}

/// The documents of an output that has one on each line. Other lines are left out.
pub fn json_lines<T: DeserializeOwned>(text: &str) -> impl Iterator<Item = T> {
    text.lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
}

/// The text of a stream that is read by this program.
///
/// # Errors
/// There was too much of it, so that something is missing in the middle.
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

/// The report of a run. `what` names it, `said` is what it printed for a person; `none` are the
/// exit statuses that say that there were no tests.
pub fn report(
    what: &str,
    mut tests: Vec<Test>,
    output: &Output,
    said: &str,
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
        let message = format!("{why}\n{}", last_words(said));
        tests.push(error("", &format!("[{what}]"), message.trim_end()));
    }
    Report {
        tests,
        exit_code: output.exit_code(),
        timed_out,
        duration_ms: output.duration_ms,
        raw: shorten(&strip_str(said).to_string(), RAW).into_owned(),
    }
}

/// What a program said last, which is where it says why it gave up.
pub fn last_words(said: &str) -> &str {
    const LINES: usize = 20;
    let said = said.trim_end();
    let start = said.rmatch_indices('\n').nth(LINES - 1).map_or(0, |(at, _)| at + 1);
    &said[start..]
}

/// Both streams, as far as they hold something.
pub fn both(output: &Output) -> String {
    let (mut said, stderr) = (output.stdout_text(), output.stderr_text());
    if !said.is_empty() && !said.ends_with('\n') && !stderr.is_empty() {
        said.push('\n');
    }
    said + &stderr
}

#[cfg(test)]
pub mod recorded {
    //! Runs as they were recorded.

    use cofferdam_sdk::backend::testing::Test;
    use cofferdam_sdk::process::{Captured, End, Output};

    /// A run in `/work/project` that ended with a status.
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
    fn a_failure_that_no_test_explains_gets_one() {
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
    fn last_words_are_short() {
        let many: String = (0..30).map(|n| format!("{n}\n")).collect();
        let words = last_words(&many);
        assert!(words.starts_with("10\n") && words.ends_with("\n29"), "{words}");
        assert_eq!(last_words("a\n"), "a");
        assert_eq!(last_words("\n"), "");
    }

    #[test]
    fn results_that_were_cut_are_refused() {
        let cut = Captured { bytes: b"{}".to_vec(), total: 3 };
        assert!(matches!(complete(&cut, "go"), Err(Error::Failed(_))));
        let bytes = Captured { bytes: b"a\xff".to_vec(), total: 2 };
        assert_eq!(complete(&bytes, "go").ok().as_deref(), Some("a\u{fffd}"));
    }
}
