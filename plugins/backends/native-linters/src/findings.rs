//! Collects the findings of a run and makes the report.

use std::fmt::Write as _;

use cofferdam_sdk::WorkspacePath;
use cofferdam_sdk::backend::BoundedFindings;
use cofferdam_sdk::backend::linting::{Edit, Finding, Fix, Report, Severity};
use cofferdam_sdk::process::Output;

use crate::job::Job;

/// The code of a finding for a file that can't be parsed.
pub const SYNTAX_ERROR: &str = "syntax-error";

/// Collects findings; those that the request does not ask for are dropped.
pub struct Findings<'a> {
    job: &'a Job<'a>,
    list: Vec<Finding>,
}

/// Makes a finding for a whole file, to be completed by the backend.
pub fn finding(
    path: &WorkspacePath,
    code: &str,
    severity: Severity,
    message: impl Into<String>,
) -> Finding {
    Finding {
        path: path.to_string(),
        line: 0,
        column: 0,
        end_line: None,
        end_column: None,
        code: code.to_owned(),
        severity,
        message: message.into(),
        url: None,
        fix: None,
    }
}

/// Makes a fix of one file; `None` if edits overlap.
pub fn fix(
    path: &WorkspacePath,
    description: impl Into<String>,
    safe: bool,
    edits: impl IntoIterator<Item = (usize, usize, String)>,
) -> Option<Fix> {
    let mut edits: Vec<_> = edits.into_iter().collect();
    edits.sort();
    let in_order = edits.iter().all(|(start, end, _)| start <= end);
    let apart = edits.windows(2).all(|pair| pair[0].1 <= pair[1].0 && pair[0].0 != pair[1].0);
    if edits.is_empty() || !in_order || !apart {
        return None;
    }
    let edit = |(start, end, text)| Edit {
        path: path.to_string(),
        start: start as u64,
        end: end as u64,
        text,
    };
    Some(Fix {
        description: description.into(),
        safe,
        edits: edits.into_iter().map(edit).collect(),
    })
}

impl<'a> Findings<'a> {
    /// Starts without any findings.
    pub fn new(job: &'a Job<'a>) -> Self {
        Self { job, list: Vec::new() }
    }

    /// Adds a finding about `path`, if the request covers that file.
    pub fn add(&mut self, path: &WorkspacePath, finding: Finding) {
        if self.job.covers(path) {
            self.list.push(finding);
        }
    }

    /// Keeps only findings with the selected codes, for programs that can't select codes. Syntax
    /// errors are always kept.
    pub fn choose(&mut self) {
        self.list.retain(|found| found.code == SYNTAX_ERROR || self.job.selects(&found.code));
    }

    /// Whether there are no findings.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Makes the report: sorted findings without duplicates, in a bounded number; as raw text, the
    /// findings and the program's standard error.
    pub fn report(mut self, files_checked: u32, output: &Output) -> Report {
        fn key(found: &Finding) -> impl Ord {
            (&found.path, found.line, found.column, &found.code, &found.message)
        }
        self.list.sort_by(|left, right| key(left).cmp(&key(right)));
        self.list.dedup_by(|later, earlier| key(later) == key(earlier));
        let mut bounded = BoundedFindings::default();
        self.list.into_iter().for_each(|found| bounded.add(found));
        let findings = bounded.finish();
        let mut raw = String::new();
        for Finding { path, line, column, code, message, .. } in
            findings.iter().filter(|found| !found.path.is_empty())
        {
            // Writing to a `String` never fails.
            let _ = match (line, column) {
                (0, _) => writeln!(raw, "{path}: {code} {message}"),
                (line, 0) => writeln!(raw, "{path}:{line}: {code} {message}"),
                (line, column) => writeln!(raw, "{path}:{line}:{column}: {code} {message}"),
            };
        }
        raw.push_str(&output.stderr_text());
        Report { findings, files_checked, exit_code: output.exit_code(), raw }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::testing::{Workspace, places, request};

    #[test]
    fn findings_are_sorted_filtered_and_deduplicated() {
        let workspace = Workspace::new(&[("a.py", ""), ("b/c.py", ""), ("d.py", "")]);
        let mut request = request(&["b", "a.py"]);
        request.select = vec!["F4".to_owned()];
        let job = Job::new(&request, &workspace.context).unwrap();
        let mut findings = Findings::new(&job);
        for (path, line, column, code) in [
            ("b/c.py", 2, 1, "F401"),
            ("b/c.py", 1, 9, "F401"),
            ("b/c.py", 1, 9, "F401"),
            ("a.py", 0, 0, "F403"),
            ("a.py", 3, 0, SYNTAX_ERROR),
            ("a.py", 3, 1, "E501"),
            ("d.py", 1, 1, "F401"),
        ] {
            let path = workspace.context.resolve(path).unwrap();
            let found = finding(&path, code, Severity::Error, "words");
            findings.add(&path, Finding { line, column, ..found });
        }
        findings.choose();
        let report = findings.report(2, &Workspace::output(1, "", "a warning\n"));
        assert_eq!(
            places(&report),
            [
                "a.py:0:0 error F403",
                "a.py:3:0 error syntax-error",
                "b/c.py:1:9 error F401",
                "b/c.py:2:1 error F401",
            ]
        );
        assert_eq!(
            report.raw,
            "a.py: F403 words\na.py:3: syntax-error words\nb/c.py:1:9: F401 words\n\
             b/c.py:2:1: F401 words\na warning\n"
        );
        assert_eq!(report.exit_code, Some(1));
    }

    #[test]
    fn overlapping_edits_are_not_a_fix() {
        let workspace = Workspace::new(&[("a", "")]);
        let path = workspace.context.resolve("a").unwrap();
        for (edits, is_one) in [
            (&[(0, 1), (1, 2)][..], true),
            (&[(5, 6), (0, 1)], true),
            (&[(0, 2), (1, 3)], false),
            (&[(4, 4), (4, 4)], false),
            (&[(3, 2)], false),
            (&[], false),
        ] {
            let edits = edits.iter().map(|&(start, end)| (start, end, String::new()));
            assert_eq!(fix(&path, "", true, edits.clone()).is_some(), is_one, "{edits:?}");
        }
    }
}
