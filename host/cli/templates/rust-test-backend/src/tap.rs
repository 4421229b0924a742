//! Reads the Test Anything Protocol (<https://testanything.org>): a line for each test, such as
//! `ok 1 - adds` or `not ok 2 - divides # SKIP no numbers`. Does not depend on programs or the host.

#[derive(Debug, PartialEq, Eq)]
pub enum Status {
    Pass,
    Fail,
    Skip,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Test {
    pub name: String,
    pub status: Status,
    /// The text after `#`.
    pub directive: Option<String>,
}

/// Finds the tests in an output; other lines are skipped.
pub fn parse(output: &str) -> Vec<Test> {
    output.lines().filter_map(test).collect()
}

fn test(line: &str) -> Option<Test> {
    let (is_ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    if !rest.is_empty() && !rest.starts_with(' ') {
        return None;
    }
    let (name, directive) = match rest.split_once(" # ") {
        Some((name, directive)) => (name, Some(directive.trim().to_owned())),
        None => (rest, None),
    };
    let name = name.trim().trim_start_matches(|c: char| c.is_ascii_digit());
    let name = name.trim_start().trim_start_matches("- ").to_owned();
    let is_skipped = directive.as_deref().is_some_and(|directive| {
        let word = directive.split_whitespace().next().unwrap_or_default().to_uppercase();
        word.starts_with("SKIP") || word == "TODO"
    });
    let status = match (is_skipped, is_ok) {
        (true, _) => Status::Skip,
        (false, true) => Status::Pass,
        (false, false) => Status::Fail,
    };
    Some(Test { name, status, directive })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_tests_or_not() {
        for (line, wanted) in [
            ("ok 1 - adds", Some(("adds", Status::Pass))),
            ("not ok 2 divides", Some(("divides", Status::Fail))),
            ("ok 3 - later # SKIP no numbers", Some(("later", Status::Skip))),
            ("not ok 4 - one day # TODO", Some(("one day", Status::Skip))),
            ("ok", Some(("", Status::Pass))),
            ("okay", None),
            ("1..4", None),
        ] {
            let found = parse(line).pop().map(|test| (test.name, test.status));
            assert_eq!(found, wanted.map(|(name, status)| (name.to_owned(), status)), "{line}");
        }
    }
}
