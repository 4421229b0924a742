//! Findings of a linter in a bounded number, with exact totals.
//!
//! A report has no field for what it leaves out. So for each rule and severity of which findings are
//! left out there is one more finding, without a path: its message is their number.

use std::collections::BTreeMap;

use super::linting::{Finding, Severity};

/// The maximum number of findings in a report.
const MAX_FINDINGS: usize = 10_000;

/// The `url` of a finding that counts others.
const LEFT_OUT: &str = "cofferdam:left-out";

/// Collects findings, at most 10,000 of them. Files with the most findings lose some first, so that
/// one large file does not push out the findings of all others.
#[derive(Debug, Default)]
pub struct BoundedFindings {
    files: BTreeMap<String, Vec<Finding>>,
    /// The number of findings in `files`.
    kept: usize,
    /// The maximum number of findings of one file; 0: no maximum yet.
    per_file: usize,
    /// The number of findings left out, by rule and severity.
    left_out: BTreeMap<(String, u8), u64>,
}

impl BoundedFindings {
    /// Adds a finding, which may lead to others being left out.
    pub fn add(&mut self, finding: Finding) {
        let file = self.files.entry(finding.path.clone()).or_default();
        if self.per_file > 0 && file.len() >= self.per_file {
            // The file's findings are sorted by severity. An error is kept rather than others.
            let at = file.partition_point(|kept| rank(kept) <= rank(&finding));
            file.insert(at, finding);
            if let Some(dropped) = file.pop() {
                count(&mut self.left_out, &dropped);
            }
            return;
        }
        file.push(finding);
        self.kept += 1;
        if file.len() == self.per_file {
            file.sort_by_key(rank);
        }
        while self.kept > MAX_FINDINGS {
            self.shrink();
        }
    }

    /// Halves the maximum of one file.
    fn shrink(&mut self) {
        let longest = self.files.values().map(Vec::len).max().unwrap_or_default();
        self.per_file = (longest / 2).max(1);
        if longest <= 1 {
            // There are more files than findings can be listed.
            if let Some((_, findings)) = self.files.pop_last() {
                findings.iter().for_each(|dropped| count(&mut self.left_out, dropped));
                self.kept -= findings.len();
            }
            return;
        }
        for findings in self.files.values_mut().filter(|findings| findings.len() >= self.per_file) {
            findings.sort_by_key(rank);
            for dropped in findings.drain(self.per_file..) {
                count(&mut self.left_out, &dropped);
                self.kept -= 1;
            }
        }
    }

    /// The findings by path, line and column, and those that count others.
    pub fn finish(self) -> Vec<Finding> {
        let mut findings = Vec::with_capacity(self.kept + self.left_out.len());
        for mut of_file in self.files.into_values() {
            of_file.sort_by_key(|found| (found.line, found.column));
            findings.extend(of_file);
        }
        findings.extend(self.left_out.into_iter().map(|((code, rank), count)| Finding {
            path: String::new(),
            line: 0,
            column: 0,
            end_line: None,
            end_column: None,
            code,
            severity: [Severity::Error, Severity::Warning, Severity::Info][usize::from(rank)],
            message: count.to_string(),
            url: Some(LEFT_OUT.to_owned()),
            fix: None,
        }));
        findings
    }
}

/// The number of findings of the same rule and severity that a report left out; `None` for a finding
/// in a file.
pub fn left_out(finding: &Finding) -> Option<u64> {
    let counts = finding.path.is_empty() && finding.url.as_deref() == Some(LEFT_OUT);
    if counts { finding.message.parse().ok() } else { None }
}

fn count(left_out: &mut BTreeMap<(String, u8), u64>, dropped: &Finding) {
    *left_out.entry((dropped.code.clone(), rank(dropped))).or_default() += 1;
}

fn rank(finding: &Finding) -> u8 {
    match finding.severity {
        Severity::Error => 0,
        Severity::Warning => 1,
        Severity::Info => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(path: &str, line: u32, code: &str, severity: Severity) -> Finding {
        Finding {
            path: path.to_owned(),
            line,
            column: 1,
            end_line: None,
            end_column: None,
            code: code.to_owned(),
            severity,
            message: "words".to_owned(),
            url: None,
            fix: None,
        }
    }

    /// The kept findings, and the number of those left out by rule.
    fn collected(all: impl Iterator<Item = Finding>) -> (Vec<Finding>, Vec<(String, u64)>) {
        let mut bounded = BoundedFindings::default();
        all.for_each(|found| bounded.add(found));
        let (counts, kept): (Vec<_>, Vec<_>) =
            bounded.finish().into_iter().partition(|found| left_out(found).is_some());
        let counts = counts.iter().map(|found| (found.code.clone(), left_out(found).unwrap_or(0)));
        (kept, counts.collect())
    }

    #[test]
    fn few_findings_are_kept_in_order() {
        let all = [("b", 2), ("b", 1), ("a", 3)]
            .map(|(path, line)| finding(path, line, "F401", Severity::Warning));
        let (kept, counts) = collected(all.into_iter());
        let places: Vec<_> = kept.iter().map(|found| (found.path.as_str(), found.line)).collect();
        assert_eq!(places, [("a", 3), ("b", 1), ("b", 2)]);
        assert!(counts.is_empty());
    }

    #[test]
    fn many_findings_are_counted_and_spread_over_files() {
        // One file has most of them, and an error at its end.
        let minified = (1..=150_000).map(|n| finding("app.min.js", n, "E501", Severity::Warning));
        let error = finding("app.min.js", 150_001, "syntax-error", Severity::Error);
        let others = (0..5_000).flat_map(|n| {
            (1..=10).map(move |line| finding(&format!("src/{n}.js"), line, "W291", Severity::Info))
        });
        let (kept, counts) = collected(minified.chain([error]).chain(others));
        assert!(kept.len() <= MAX_FINDINGS);
        assert!(kept.iter().any(|found| found.code == "syntax-error"));
        let files: std::collections::BTreeSet<&str> =
            kept.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(files.len(), 5_001, "every file has a finding");
        let total: u64 = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(total + kept.len() as u64, 200_001);
        for (code, all) in [("E501", 150_000), ("W291", 50_000), ("syntax-error", 1)] {
            let kept = kept.iter().filter(|found| found.code == code).count() as u64;
            let left = counts.iter().find(|(known, _)| known == code).map_or(0, |(_, left)| *left);
            assert_eq!(kept + left, all, "{code}");
        }
    }

    #[test]
    fn more_files_than_findings_are_counted() {
        let all = (0..12_000).map(|n| finding(&format!("{n}"), 1, "F401", Severity::Error));
        let (kept, counts) = collected(all);
        assert_eq!(kept.len(), MAX_FINDINGS);
        assert_eq!(counts, [("F401".to_owned(), 2_000)]);
    }
}
