//! The figures of the compared runs, and the list of known differences.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use super::intercept::{Comparison, Record};

const KNOWN: &str = include_str!("differences.toml");

/// The known differences in what is accepted.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// The version of git whose tests they are of.
    pub(super) git: String,
    pub(super) difference: Vec<Difference>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Difference {
    pub(super) accepted_by: Side,
    /// Why; a row of the table in `docs/patches.md`.
    pub(super) reason: String,
    /// The runs: `t4100:3` is the third run of `git apply` in t4100.
    pub(super) runs: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Side {
    Git,
    Here,
}

impl Known {
    pub(super) fn read() -> Result<Self> {
        toml::from_str(KNOWN).context("differences.toml")
    }

    fn find(&self, run: &str, side: Side) -> Option<&Difference> {
        let is = |difference: &&Difference| {
            difference.accepted_by == side && difference.runs.iter().any(|known| known == run)
        };
        self.difference.iter().find(is)
    }
}

/// The compared runs of one script.
pub(super) struct Script {
    /// Such as `t4100`.
    name: String,
    passed: usize,
    failed: usize,
    records: Vec<Record>,
}

impl Script {
    /// Reads the output of a script and the records of its runs.
    pub(super) fn parse(name: &str, log: &str, records: &str) -> Result<Self> {
        // Tests of known defects of git count neither way.
        let count = |prefix| {
            let ended = log.lines().filter(|line| line.starts_with(prefix));
            ended.filter(|line| !line.contains("# TODO")).count()
        };
        let records = records.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let name = name.split('-').next().unwrap_or(name).to_owned();
        Ok(Self { name, passed: count("ok "), failed: count("not ok "), records })
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, passed, failed, records } = self;
        write!(f, "{name}: {passed} tests passed, {failed} failed; ")?;
        write!(f, "{} runs of git apply", records.len())
    }
}

/// Counts runs and compares differences with the known ones.
pub(super) struct Report {
    known: Known,
    counts: BTreeMap<String, usize>,
    scripts: BTreeSet<String>,
    seen: BTreeSet<String>,
    problems: Vec<String>,
}

impl Report {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            known: Known::read()?,
            counts: BTreeMap::new(),
            scripts: BTreeSet::new(),
            seen: BTreeSet::new(),
            problems: Vec::new(),
        })
    }

    pub(super) fn add(&mut self, script: Script) -> Result<()> {
        for (index, record) in script.records.into_iter().enumerate() {
            let run = format!("{}:{}", script.name, index + 1);
            let shown = format!("{run}: git apply {}", record.arguments.join(" "));
            let what = match record.result {
                Comparison::Applied => "the same: applied, the same tree".to_owned(),
                Comparison::Refused => "the same: refused, nothing changed".to_owned(),
                Comparison::NotCompared(reason) => format!("not compared: {reason}"),
                Comparison::Different(paths) => {
                    self.problems.push(format!("{shown}: different tree: {}", paths.join(", ")));
                    "DIFFERENT TREE".to_owned()
                }
                Comparison::OnlyHere(reason) => self.one_side(&run, &shown, Side::Here, &reason),
                Comparison::OnlyGit(reason) => self.one_side(&run, &shown, Side::Git, &reason),
            };
            *self.counts.entry(what).or_default() += 1;
        }
        self.scripts.insert(script.name);
        Ok(())
    }

    /// A patch that one side applied; the other one refused it for `refusal`.
    fn one_side(&mut self, run: &str, shown: &str, side: Side, refusal: &str) -> String {
        let by = if side == Side::Git { "git" } else { "apply_patch" };
        self.seen.insert(run.to_owned());
        match self.known.find(run, side) {
            Some(known) => format!("applied by {by} only: {}", known.reason),
            None => {
                self.problems.push(format!("{shown}: applied by {by} only; {refusal}"));
                format!("APPLIED BY {by} ONLY, no known reason")
            }
        }
    }

    /// Prints the figures.
    ///
    /// # Errors
    /// If there is a difference that is not known, or a known one did not occur.
    pub(super) fn finish(mut self) -> Result<()> {
        for (what, count) in &self.counts {
            println!("{count:5} {what}");
        }
        let known = self.known.difference.iter().flat_map(|difference| &difference.runs);
        for run in known {
            let script = run.split(':').next().unwrap_or(run);
            if self.scripts.contains(script) && !self.seen.contains(run) {
                self.problems.push(format!("{run}: a known difference that did not occur"));
            }
        }
        if self.problems.is_empty() {
            return Ok(());
        }
        bail!("the list is of git {}:\n{}", self.known.git, self.problems.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn report(result: &Comparison) -> Result<()> {
        let mut report = Report::new()?;
        let result = serde_json::to_string(result)?;
        let record = format!("{{\"arguments\":[\"x\"],\"result\":{result}}}");
        report.add(Script::parse("t9999-x.sh", "ok 1 - x\n1..1\n", &record)?)?;
        report.finish()
    }

    #[test]
    fn unknown_differences_are_errors() {
        let reason = || "why".to_owned();
        for fine in [Comparison::Applied, Comparison::Refused, Comparison::NotCompared(reason())] {
            report(&fine).unwrap();
        }
        for (bad, wanted) in [
            (Comparison::Different(vec!["d/x".to_owned()]), "different tree: d/x"),
            (Comparison::OnlyHere(reason()), "applied by apply_patch only; why"),
            (Comparison::OnlyGit(reason()), "applied by git only; why"),
        ] {
            let error = report(&bad).unwrap_err().to_string();
            assert!(error.ends_with(&format!("t9999:1: git apply x: {wanted}")), "{error}");
        }
    }

    #[test]
    fn known_differences_that_did_not_occur_are_errors() {
        let run = &Known::read().unwrap().difference[0].runs[0];
        let script = run.split(':').next().unwrap();
        let mut report = Report::new().unwrap();
        report.add(Script::parse(script, "", "").unwrap()).unwrap();
        assert!(report.finish().unwrap_err().to_string().contains(&format!("{run}: a known")));
    }

    #[test]
    fn the_manual_gives_each_reason() {
        let manual = include_str!("../../../docs/patches.md");
        for difference in Known::read().unwrap().difference {
            let by = if difference.accepted_by == Side::Git { "git" } else { "here" };
            let row = format!("| {by} | {} | {} |", difference.runs.len(), difference.reason);
            assert!(manual.contains(&row), "docs/patches.md lacks {row}");
        }
    }
}
