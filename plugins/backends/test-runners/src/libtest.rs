//! Parses the text output of `cargo test`. The results are on standard output, one block for each
//! test binary; the names of the binaries are on standard error, in the same order.

use std::collections::HashMap;

use cofferdam_sdk::backend::testing::{Status, Test};

use crate::output::{self, UNFINISHED, short_message, short_stack};

/// The results of a test binary, or of a crate's documentation tests.
#[derive(Default)]
struct Block {
    tests: Vec<Test>,
    /// The output of failed tests, by name.
    failures: HashMap<String, String>,
    /// Whether the binary ran to its end.
    ended: bool,
}

/// Parses the output of a run.
pub fn read(stdout: &str, stderr: &str) -> Vec<Test> {
    let names = binaries(stderr);
    let blocks = blocks(stdout);
    // A binary with its own harness prints no block; then blocks can't be assigned to names.
    let known = names.len() == blocks.len();
    let crashes: Vec<&str> =
        stderr.lines().filter_map(|line| line.trim().strip_prefix(CRASH)).collect();
    let mut crashes = crashes.into_iter();
    let mut tests = Vec::new();
    for (at, mut block) in blocks.into_iter().enumerate() {
        let suite = names.get(at).filter(|_| known).map_or("", String::as_str);
        for test in &mut block.tests {
            suite.clone_into(&mut test.suite);
            if let Some(failure) = block.failures.get(&test.name) {
                test.message = message(failure).as_deref().and_then(short_message);
                test.stack = short_stack(failure);
            }
        }
        tests.append(&mut block.tests);
        if !block.ended
            && let Some(crash) = crashes.next()
        {
            tests.push(output::error(suite, "[test binary crashed]", crash));
        }
    }
    tests
}

const CRASH: &str = "process didn't exit successfully: ";

/// The names of the test binaries: `Running unittests src/lib.rs
/// (target/debug/deps/demo-194e5f239690026b)` is `demo`, and `Doc-tests demo` is `demo (doc)`.
fn binaries(stderr: &str) -> Vec<String> {
    let name = |line: &str| {
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("Doc-tests ") {
            return Some(format!("{name} (doc)"));
        }
        let path = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once('(')?.1;
        let file = path.rsplit(['/', '\\']).next().unwrap_or(path);
        Some(file.rsplit_once('-').map_or(file, |(name, _digest)| name).to_owned())
    };
    stderr.lines().filter_map(name).collect()
}

fn blocks(stdout: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    // The test whose output follows.
    let mut failing: Option<String> = None;
    for line in stdout.lines() {
        if is_start(line) {
            failing = None;
            blocks.push(Block::default());
            continue;
        }
        let Some(block) = blocks.last_mut() else { continue };
        if block.ended {
            continue;
        }
        if line.starts_with("test result: ") {
            block.ended = true;
        } else if let Some(name) =
            line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"))
        {
            failing = Some(plain_name(name).to_owned());
        } else if let Some(name) = &failing {
            if line == "failures:" {
                failing = None;
            } else {
                let text = block.failures.entry(name.clone()).or_default();
                text.push_str(line);
                text.push('\n');
            }
        } else if let Some(test) = result(line) {
            block.tests.push(test);
        } else if let (Some(status), Some(test)) = (status(line), block.tests.last_mut())
            && test.message.as_deref() == Some(UNFINISHED)
        {
            // Output that the harness did not capture is before the test's result.
            (test.status, test.message) = (status, None);
        }
    }
    blocks
}

/// Whether the line starts a block: `running 6 tests`.
fn is_start(line: &str) -> bool {
    let count = line.strip_prefix("running ").and_then(|line| line.split_once(" test"));
    count.is_some_and(|(count, rest)| count.parse::<u32>().is_ok() && rest.len() < 2)
}

/// Parses a result: `test tests::adds ... ok`.
fn result(line: &str) -> Option<Test> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let mut test = output::error("", plain_name(name), UNFINISHED);
    if let Some(status) = status(rest) {
        test.status = status;
        let reason = rest.strip_prefix("ignored, ");
        test.message = reason.and_then(short_message);
    }
    Some(test)
}

fn status(word: &str) -> Option<Status> {
    match word {
        "ok" => Some(Status::Pass),
        "FAILED" => Some(Status::Fail),
        _ if word == "ignored" || word.starts_with("ignored, ") => Some(Status::Skip),
        _ if word.starts_with("bench: ") => Some(Status::Pass),
        _ => None,
    }
}

/// Removes the harness's notes after the name of a test.
fn plain_name(name: &str) -> &str {
    const NOTES: [&str; 3] = [" - should panic", " - compile fail", " - compile"];
    NOTES.iter().find_map(|note| name.strip_suffix(note)).unwrap_or(name)
}

/// The message of a failed test: that of its panic without the place, or its last output.
pub fn message(printed: &str) -> Option<String> {
    let lines: Vec<&str> = printed.lines().collect();
    let Some(panic) = lines.iter().position(|line| line.contains("panicked at ")) else {
        let said = |line: &&&str| !line.trim().is_empty() && !line.starts_with("test result: ");
        let last = |line: &&&str| line.starts_with("Error: ") || line.starts_with("note: ");
        let mut words = lines.iter().filter(said);
        return words
            .clone()
            .find(last)
            .or_else(|| words.next_back())
            .map(|line| (*line).to_owned());
    };
    // Until Rust 1.73: thread 'x' panicked at 'message', src/lib.rs:1:1
    let first = lines[panic];
    if let Some((_, quoted)) = first.split_once("panicked at '")
        && let Some((message, _)) = quoted.rsplit_once("', ")
    {
        return Some(message.to_owned());
    }
    let more = lines[panic + 1..]
        .iter()
        .take_while(|line| !line.starts_with("stack backtrace:") && !line.starts_with("note: "));
    let message: Vec<&str> = more.copied().collect();
    let message = message.join("\n");
    // In this format, the place is at the end of the message's last line.
    Some(if message.trim().is_empty() { first.to_owned() } else { message })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded::shown;

    const STDOUT: &str = include_str!("../tests/data/cargo-test.stdout");
    const STDERR: &str = include_str!("../tests/data/cargo-test.stderr");

    #[test]
    fn recorded_results() {
        let tests = read(STDOUT, STDERR);
        assert_eq!(
            shown(&tests),
            [
                "demo_crate tests::adds pass",
                "demo_crate tests::does_not_panic fail: note: test did not panic as expected at \
                 src/lib.rs:24:8",
                "demo_crate tests::errs fail: Error: \"an error value\"",
                "demo_crate tests::later skip: slow",
                "demo_crate tests::panics pass",
                "demo_crate tests::fails fail: assertion `left == right` failed: sum is wrong\n  \
                 left: 3\n right: 4",
                "outside adds_outside pass",
                "demo_crate (doc) src/lib.rs - (line 1) pass",
                "demo_crate (doc) src/lib.rs - add (line 5) fail: assertion `left == right` \
                 failed\n  left: 3\n right: 4",
            ]
        );
        let stack = tests[5].stack.as_ref().unwrap();
        assert!(stack.starts_with("seen\nalso seen\n") && stack.contains("stack backtrace:"));
    }

    #[test]
    fn a_binary_that_crashes_is_an_error() {
        let stdout = "\nrunning 2 tests\ntest a ... ok\ntest b ... \nrunning 1 test\ntest c ... ok\n\n\
                      test result: ok. 1 passed; 0 failed\n";
        let stderr = "     Running unittests src/lib.rs (target/debug/deps/one-0123)\n\
                      error: test failed, to rerun pass `--lib`\n\nCaused by:\n  process didn't exit \
                      successfully: `/t/one-0123` (signal: 6, SIGABRT: process abort signal)\n     \
                      Running tests/two.rs (target/debug/deps/two-0123)\n";
        assert_eq!(
            shown(&read(stdout, stderr)),
            [
                "one a pass",
                "one b error: still running when the run ended",
                "one [test binary crashed] error: `/t/one-0123` (signal: 6, SIGABRT: process \
                 abort signal)",
                "two c pass",
            ]
        );
    }

    #[test]
    fn other_lines_are_not_results() {
        for (stdout, wanted) in [
            ("", &[][..]),
            ("test a ... ok\n", &[]),
            ("running fast tests\ntest a ... ok\n", &[]),
            ("running 1 test\ntest a ... printed\nmore\nFAILED\n", &[" a fail"]),
            ("running 1 test\ntest a has been running for over 60 seconds\n", &[]),
            ("running 1 test\ntest result: ok.\ntest a ... ok\n", &[]),
        ] {
            assert_eq!(shown(&read(stdout, "")), wanted, "{stdout}");
        }
    }

    #[test]
    fn messages_of_panics() {
        for (printed, wanted) in [
            ("", None),
            ("\n\n", None),
            ("a\nb\n", Some("b")),
            ("thread 'x' panicked at 'boom', src/lib.rs:1:1\nnote: run with\n", Some("boom")),
            ("thread 'x' (7) panicked at src/lib.rs:1:1:\nboom\nnote: run with\n", Some("boom")),
            ("thread 'x' panicked at src/lib.rs:1:1:\na\n\nb\nstack backtrace:\n", Some("a\n\nb")),
        ] {
            assert_eq!(message(printed).as_deref(), wanted, "{printed}");
        }
    }
}
