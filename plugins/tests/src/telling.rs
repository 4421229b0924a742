//! Finds the lines of a failure that tell most: where it happened, and what was expected. Also
//! recognises runs that could not start because something is not installed.

use std::collections::HashSet;

use cofferdam_sdk::shorten;

/// Directories of code that is not the project's, so that places in it tell little.
const THIRD_PARTY: [&str; 6] =
    ["site-packages/", "node_modules/", "/lib/python3", "/usr/", "node:internal", "/rustc/"];

/// A mark for lines that were left out.
const GAP: &str = "...";

/// What runners print if something is not installed or not found, and what to do about it.
const CURES: [(&[&str], &str); 4] = [
    (
        &["No module named", "cannot import name", "ImportError"],
        "install what is missing into the project's .venv, or, if it is a module of the project, \
         name its directory in `pythonpath` of pytest's settings",
    ),
    (
        &["Cannot find module", "Cannot find package", "ERR_MODULE_NOT_FOUND", ": not found"],
        "install the project's dependencies (`npm install`)",
    ),
    (
        &["no required module provides", "missing go.sum entry", "module lookup disabled"],
        "download the project's dependencies (`go mod download`)",
    ),
    (
        &["no matching package named", "failed to download", "failed to get `"],
        "download the project's dependencies (`cargo fetch`)",
    ),
];

/// What to do about an error, if it is one of a missing dependency.
pub fn cure(error: &str) -> Option<String> {
    let (_, cure) =
        CURES.iter().find(|(signs, _)| signs.iter().any(|sign| error.contains(sign)))?;
    Some(format!("{cure}; runs of tests have no network, so this is done outside of them"))
}

/// The telling lines of a stack trace in at most about `most` bytes, without lines of `message`.
/// `None` if nothing is left.
pub fn telling(stack: &str, message: &str, most: usize) -> Option<String> {
    let said: HashSet<&str> = message.lines().map(bare).collect();
    let lines: Vec<&str> = stack
        .lines()
        .map(str::trim_end)
        .filter(|line| !bare(line).is_empty() && !said.contains(bare(line)))
        .collect();
    let size: usize = lines.iter().map(|line| line.len() + 1).sum();
    if lines.is_empty() || size <= most + 1 {
        return (!lines.is_empty()).then(|| lines.join("\n"));
    }
    let mut left = most;
    let mut kept = vec![false; lines.len()];
    // The last lines are nearest to the failure.
    for wanted in [true, false] {
        for (at, line) in lines.iter().enumerate().rev() {
            if kept[at] || is_telling(line) != wanted {
                continue;
            }
            let Some(rest) = left.checked_sub(line.len() + 1) else { break };
            (left, kept[at]) = (rest, true);
        }
    }
    let mut shown: Vec<&str> = Vec::new();
    for (line, kept) in lines.iter().zip(kept) {
        if kept {
            shown.push(line);
        } else if shown.last().is_some_and(|last| *last != GAP) {
            shown.push(GAP);
        }
    }
    let mut text = shown.join("\n");
    if text.is_empty() {
        text = shorten(lines.last()?, most).into_owned();
    }
    Some(text)
}

/// A line without its indentation and pytest's mark of an error.
fn bare(line: &str) -> &str {
    let line = line.trim();
    if line == "E" { "" } else { line.strip_prefix("E ").map_or(line, str::trim) }
}

/// Whether a line is a failed statement, an error message, or a place in the project.
fn is_telling(line: &str) -> bool {
    line.starts_with('>') || line.starts_with("E ") || is_place(line)
}

/// Whether a line names a file of the project with a line number.
fn is_place(line: &str) -> bool {
    let numbered = line.match_indices(':').any(|(at, _)| {
        let name = line[..at].rsplit([' ', '(', '/']).next().unwrap_or_default();
        line[at + 1..].starts_with(|next: char| next.is_ascii_digit())
            && name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && !end.is_empty())
    });
    let python = line.contains("File \"") && line.contains("\", line ");
    (numbered || python) && !THIRD_PARTY.iter().any(|other| line.contains(other))
}

/// The last lines of a runner's output that the listed failures don't contain, at most `most`
/// bytes: usually the runner's own summary.
pub fn rest_of_output<'a>(
    raw: &str,
    failures: impl Iterator<Item = (&'a str, [Option<&'a str>; 2])>,
    most: usize,
) -> String {
    const LAST_LINES: usize = 40;
    let mut said: HashSet<&str> = HashSet::new();
    let mut names: Vec<&str> = Vec::new();
    for (name, texts) in failures {
        said.extend(texts.into_iter().flatten().flat_map(str::lines).map(bare));
        names.push(name);
    }
    let is_new = |line: &&str| {
        let line = line.trim();
        !line.is_empty()
            && !said.contains(bare(line))
            && !names.iter().any(|name| line.contains(name))
    };
    let mut lines: Vec<&str> = Vec::new();
    let mut left = most;
    let last = if said.is_empty() { usize::MAX } else { LAST_LINES };
    for line in raw.lines().rev().take(last).filter(is_new) {
        let Some(rest) = left.checked_sub(line.len() + 1) else { break };
        left = rest;
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: &str = "def test_parse(amount):\n        text = f\"{amount}.00EUR\"\n>       assert \
                         prices.parse(text) == (amount, \"EUR\")\n\ntests/test_prices.py:10: \n_ _ _ \
                         _\n\ntext = '49.00EUR'\n\n    def parse(text):\n>       amount, currency = \
                         text.split(\" \")\nE       ValueError: not enough values\n\n/usr/lib/x.py:3: \
                         \nshop/prices.py:6: ValueError";

    #[test]
    fn telling_lines_are_places_and_failed_statements() {
        let message = "ValueError: not enough values";
        let all = telling(STACK, message, 1_000);
        assert!(all.is_some_and(|all| all.contains("def parse") && !all.contains(message)));
        assert_eq!(
            telling(STACK, message, 156).as_deref(),
            Some(
                ">       assert prices.parse(text) == (amount, \"EUR\")\ntests/test_prices.py:10:\n\
                 ...\n>       amount, currency = text.split(\" \")\n...\nshop/prices.py:6: ValueError"
            )
        );
        assert_eq!(telling(message, message, 100), None);
        assert_eq!(telling("", "", 100), None);
        let long = "x".repeat(1_000);
        assert!(telling(&long, "", 100).is_some_and(|text| text.len() < 150));
    }

    #[test]
    fn places_are_recognised() {
        for (line, wanted) in [
            ("shop/prices.py:6: ValueError", true),
            ("    counter_test.go:12: Calculate() = 99", true),
            ("    at Object.<anonymous> (src/counter.test.js:8:19)", true),
            ("thread 'a' panicked at src/lib.rs:3:5:", true),
            ("  File \"tests/a.py\", line 3, in f", true),
            ("    at x (node_modules/jest/index.js:8:19)", false),
            ("/usr/lib/python3.11/importlib/__init__.py:126: in import_module", false),
            ("took 12:30", false),
            ("value: 3.5", false),
        ] {
            assert_eq!(is_place(line), wanted, "{line}");
        }
    }

    #[test]
    fn missing_dependencies_have_a_cure() {
        for (error, wanted) in [
            ("ModuleNotFoundError: No module named 'requests'", Some(".venv")),
            ("sh: 1: mocha: not found", Some("npm install")),
            ("Error: Cannot find module 'left-pad'", Some("npm install")),
            (
                "a.go:3:8: no required module provides package example.com/x",
                Some("go mod download"),
            ),
            ("error: no matching package named `serde` found", Some("cargo fetch")),
            ("SyntaxError: invalid syntax", None),
        ] {
            let found = cure(error);
            match wanted {
                Some(wanted) => assert!(found.is_some_and(|cure| cure.contains(wanted)), "{error}"),
                None => assert_eq!(found, None, "{error}"),
            }
        }
    }
}
