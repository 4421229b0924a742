//! Parses the Test Anything Protocol (testanything.org), versions 12 to 14, as runners for Node.js
//! print it: subtests are indented; details of a test are below it, as a YAML block or as indented
//! lines.
//!
//! Of the YAML, only the fields are read that have the reason of a failure.

use cofferdam_sdk::backend::testing::{Status, Test};

use crate::output::{self, short_message, short_stack};

/// A line with the result of a test.
struct Point<'a> {
    indentation: usize,
    ok: bool,
    name: String,
    /// The text after ` # `: `SKIP reason`, `TODO`, `time=1.5ms`.
    directive: &'a str,
}

/// The tests in an output; `None` if it is not TAP.
pub fn read(text: &str) -> Option<Vec<Test>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_tap = |line: &&str| line.starts_with("TAP version ") || is_plan(line);
    if !lines.iter().any(is_tap) {
        return None;
    }
    // Runners with subtests announce them; others print the title of a group as a comment.
    let announces = lines.iter().any(|line| line.trim_start().starts_with("# Subtest: "));
    let mut tests = Vec::new();
    let mut title = "";
    // The names of the groups around a line, with their indentation.
    let mut around: Vec<(usize, String)> = Vec::new();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        at += 1;
        let indentation = indentation(line);
        let line = line.trim_start();
        if let Some(name) = line.strip_prefix("# Subtest: ") {
            around.retain(|&(above, _)| above < indentation);
            around.push((indentation, unescaped(name)));
        } else if let Some(comment) = line.strip_prefix("# ") {
            title = if announces { "" } else { comment };
        } else if let Some(reason) = line.strip_prefix("Bail out!") {
            tests.push(output::error("", "[bail out]", reason));
        } else if let Some(point) = point(indentation, line) {
            let details = details(&lines[at..], indentation);
            at += details.len();
            around.retain(|&(above, _)| above < point.indentation);
            if let Some(test) = describe(&point, &details, title, &around) {
                tests.push(test);
            }
        }
    }
    Some(tests)
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn is_plan(line: &str) -> bool {
    let count = line.strip_prefix("1..").map(|rest| rest.split(' ').next().unwrap_or(rest));
    count.is_some_and(|count| !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit()))
}

/// Parses `ok 1 - name # directive`; the number and the dash are optional.
fn point(indentation: usize, line: &str) -> Option<Point<'_>> {
    let (ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let rest = rest.trim_start();
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let rest = rest.strip_prefix("- ").unwrap_or(rest);
    let (name, directive) = match rest.rfind("# ").filter(|&hash| !rest[..hash].ends_with('\\')) {
        Some(hash) if is_directive(&rest[hash + 2..]) => (&rest[..hash], &rest[hash + 2..]),
        _ => (rest, ""),
    };
    Some(Point { indentation, ok, name: unescaped(name.trim_end()), directive })
}

fn is_directive(text: &str) -> bool {
    let word = |word: &str| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    word("skip") || word("todo") || word("time=")
}

fn unescaped(name: &str) -> String {
    name.replace("\\#", "#").replace("\\\\", "\\")
}

/// The details below a test: its YAML block, or lines that are indented further.
fn details<'a>(lines: &[&'a str], indentation_of_point: usize) -> Vec<&'a str> {
    let deeper = |line: &&&str| line.trim().is_empty() || indentation(line) > indentation_of_point;
    let below = lines.iter().take_while(deeper).copied();
    if lines.first().is_some_and(|line| line.trim() == "---") {
        let mut block: Vec<&str> = below.collect();
        let own = block.first().map_or(0, |line| indentation(line));
        let end = block.iter().position(|line| line.trim() == "..." && indentation(line) == own);
        block.truncate(end.map_or(block.len(), |end| end + 1));
        return block;
    }
    // Subtests may be recognisable only by their indentation.
    below
        .take_while(|line| {
            let line = line.trim_start();
            point(0, line).is_none() && !line.starts_with("# Subtest") && !is_plan(line)
        })
        .collect()
}

/// Converts a result; `None` for a failed group, since its tests have the reason.
fn describe(
    point: &Point<'_>,
    details: &[&str],
    title: &str,
    around: &[(usize, String)],
) -> Option<Test> {
    let suite_failure = ["'subtestsFailed'", "\"subtestsFailed\""];
    let of_suite = field(details, "type").is_some_and(|kind| kind == "suite");
    let by_subtests = details.iter().any(|line| {
        line.trim().strip_prefix("failureType: ").is_some_and(|kind| suite_failure.contains(&kind))
    });
    if of_suite && (point.ok || by_subtests) {
        return None;
    }
    let directive = point.directive.to_ascii_lowercase();
    let status = if directive.starts_with("skip") || directive.starts_with("todo") {
        Status::Skip
    } else if point.ok {
        Status::Pass
    } else {
        Status::Fail
    };
    let names = around.iter().map(|(_, name)| name.as_str()).chain([point.name.as_str()]);
    let mut test = output::test(title, &names.collect::<Vec<_>>().join(" > "), status);
    test.duration = duration(details, point.directive);
    match status {
        Status::Skip => {
            let reason = point.directive.split_once(' ').map_or("", |(_, reason)| reason);
            test.message = short_message(reason).filter(|reason| reason != "-");
        }
        Status::Fail => {
            test.message = message(details);
            test.stack = short_stack(&stack(details));
        }
        Status::Pass | Status::Error => {}
    }
    Some(test)
}

/// The duration in seconds.
fn duration(details: &[&str], directive: &str) -> Option<f64> {
    let milliseconds = match directive.strip_prefix("time=") {
        Some(time) => time.trim_end().strip_suffix("ms")?.to_owned(),
        None => field(details, "duration_ms")?,
    };
    milliseconds.parse::<f64>().ok().map(|milliseconds| milliseconds / 1000.0)
}

fn is_block(details: &[&str]) -> bool {
    details.first().is_some_and(|line| line.trim() == "---")
}

/// The reason of a failure: the first field that has one, or the text before the place and the
/// stack trace.
fn message(details: &[&str]) -> Option<String> {
    if !is_block(details) {
        return details.iter().find_map(|line| short_message(line.trim()));
    }
    let said = ["message", "error"].iter().find_map(|key| field(details, key));
    let before =
        |line: &&&str| !["at:", "stack:"].iter().any(|key| line.trim_start().starts_with(key));
    said.as_deref().and_then(short_message).or_else(|| {
        let lines: Vec<&str> = details[1..].iter().take_while(before).copied().collect();
        short_message(&dedented(&lines))
    })
}

fn stack(details: &[&str]) -> String {
    match field(details, "stack") {
        Some(stack) => stack,
        None if is_block(details) => dedented(&details[1..details.len() - 1]),
        None => dedented(details),
    }
}

/// A field of a YAML block, at any depth; `None` if it is empty.
fn field(details: &[&str], key: &str) -> Option<String> {
    let value = |line: &str| line.trim_start().strip_prefix(key)?.strip_prefix(':').map(str::len);
    details.iter().enumerate().find_map(|(at, line)| {
        let rest = line[line.len() - value(line)?..].trim();
        let value = match rest {
            "|" | "|-" | "|+" | ">" | ">-" | ">+" => {
                let deeper = |below: &&&str| {
                    below.trim().is_empty() || indentation(below) > indentation(line)
                };
                let lines: Vec<&str> =
                    details[at + 1..].iter().take_while(deeper).copied().collect();
                dedented(&lines)
            }
            rest => unquoted(rest),
        };
        (!value.trim().is_empty()).then_some(value)
    })
}

fn unquoted(text: &str) -> String {
    let inner = |quote: char| {
        text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote)).map(str::to_owned)
    };
    if let Some(text) = inner('\'') {
        return text.replace("''", "'");
    }
    // Strings in double quotes are decoded as JSON, which is close enough to YAML.
    inner('"').and_then(|_| serde_json::from_str(text).ok()).unwrap_or_else(|| text.to_owned())
}

/// Removes the common indentation of lines.
fn dedented(lines: &[&str]) -> String {
    let full = lines.iter().filter(|line| !line.trim().is_empty());
    let shared = full.map(|line| indentation(line)).min().unwrap_or(0);
    let cut: Vec<&str> = lines.iter().map(|line| line.get(shared..).unwrap_or("")).collect();
    cut.join("\n")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::output::recorded::shown;

    #[test]
    fn node() {
        let tests = read(include_str!("../tests/data/node.tap")).unwrap();
        assert_eq!(
            shown(&tests),
            [
                " adds pass",
                " fails # with hash fail: Expected values to be strictly equal:\n\n3 !== 4",
                " later skip: not now",
                " write me skip",
                " group > inner pass",
                " group > inner fails fail: boom",
            ]
        );
        assert_eq!(tests[0].duration, Some(0.001978532));
        let stack = tests[1].stack.as_ref().unwrap();
        assert!(stack.starts_with("TestContext.<anonymous> (/home/me/project/calc.test.js:3:66)"));
    }

    #[test]
    fn mocha() {
        let tests = read(include_str!("../tests/data/mocha.tap")).unwrap();
        assert_eq!(
            shown(&tests),
            [
                " calc adds pass",
                " calc should handle errors fail: 1 == 2",
                " calc later skip",
                " calc pending skip",
            ]
        );
        assert!(tests[1].stack.as_ref().unwrap().contains("at Context.<anonymous> (spec.js:2:88)"));
    }

    #[test]
    fn vitest() {
        let tests = read(include_str!("../tests/data/vitest.tap")).unwrap();
        assert_eq!(
            shown(&tests),
            [
                " calc.test.js > calc > adds pass",
                " calc.test.js > calc > fails fail: expected 3 to be 4 // Object.is equality",
                " calc.test.js > calc > later skip",
                " calc.test.js > calc > todo skip",
            ]
        );
        assert_eq!(tests[1].duration, Some(0.00858));
    }

    #[test]
    fn ava_and_tape() {
        let tests = read(include_str!("../tests/data/ava.tap")).unwrap();
        let message = "name: AssertionError\nassertion: t.is()\ndetails:\n  'Difference (- actual, \
                       + expected):': |-\n    - 3\n    + 4\nmessage: ''";
        let fails = format!(" fails fail: {message}");
        assert_eq!(shown(&tests), [" later skip", " todo skip", " adds pass", &fails]);
        let tests = read(include_str!("../tests/data/tape.tap")).unwrap();
        assert_eq!(
            shown(&tests),
            ["adds sum pass", "adds wrong fail: operator: equal\nexpected: 4\nactual:   3"]
        );
    }

    #[test]
    fn unusual_tap_is_parsed() {
        for (text, wanted) in [
            ("", None),
            ("ok\n", None),
            ("everything is ok\n1..x\n", None),
            ("1..0 # skipped\n", Some(vec![])),
            ("1..1\nok\n", Some(vec![" ".to_owned() + " pass"])),
            ("1..1\nnot ok 1\n", Some(vec!["  fail".to_owned()])),
            ("1..1\nok 1 - a # skip\n", Some(vec![" a skip".to_owned()])),
            ("1..1\nok 1 - issue # 12\n", Some(vec![" issue # 12 pass".to_owned()])),
            ("1..1\nokay\nnot okay\n", Some(vec![])),
            (
                "TAP version 14\nBail out! no database\n",
                Some(vec![" [bail out] error:  no database".to_owned()]),
            ),
            ("1..1\nnot ok 1 - a\n  ---\n  message: 'cut", Some(vec![" a fail: 'cut".to_owned()])),
            (
                "TAP version 14\n    ok 1 - child\n    1..1\nok 1 - parent\n1..1\n",
                Some(vec![" child pass".to_owned(), " parent pass".to_owned()]),
            ),
        ] {
            assert_eq!(read(text).map(|tests| shown(&tests)), wanted, "{text}");
        }
    }
}
