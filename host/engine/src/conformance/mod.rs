//! What every linter backend has to do, whatever it finds: cases as data, and checks without any
//! I/O. [`run`] lays the files out in an empty workspace, asks the backend, and hands the answer
//! back. What a plugin says itself that its tools do, [`run_examples`] tries.
//!
//! Backends find different things. So the cases of a language start from *seeds*, faults that
//! some linter finds: [`probes`] asks for each seed alone, [`Probe::learn`] takes the backend's
//! own finding of it, and [`cases`] are made of the seeds that it does find. A case never asks
//! for more than that, in another place, encoding or quantity.
//!
//! ```text
//! probes(language) -> files, request -> answer -> Probe::learn -> Known
//! cases(language, known) -> files, request -> answer -> Case::check
//!                                                    -> Case::trials -> files, request -> answer -> Trial::check
//! ```
//!
//! This leaves out what a backend's findings mean, and how fast it is.

mod cases;
mod check;
mod driver;
mod examples;
mod report;
mod seeds;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use cases::{Case, cases};
pub use check::Trial;
pub use driver::{Outcome, run};
pub use examples::{Tried, Verdict, run_examples};
pub use seeds::languages;

use crate::runtime::BackendError as Error;
use crate::runtime::linting::{Finding, Report, Request};
use report::apply;
use seeds::{Seed, language};

/// Time enough for any backend that compiles what it lints.
const TIMEOUT_MS: u32 = 300_000;

/// The code of a finding that says that a file can't be parsed.
const SYNTAX_ERROR: &str = "syntax-error";

/// What a backend answers.
pub type Answer = Result<Report, Error>;

/// The files of a workspace, by their paths.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A question whose answer shows whether the backend finds a seed.
#[derive(Debug)]
pub struct Probe {
    seed: &'static Seed,
    /// The workspace.
    pub files: Files,
    /// What to ask.
    pub request: Request,
}

/// One probe for each seed of a language; none for a language without cases.
pub fn probes(name: &str) -> Vec<Probe> {
    let seeds = language(name).map_or(&[][..], |language| language.seeds);
    let probe = |seed: &'static Seed| Probe {
        seed,
        files: seed.project(seed.path, seed.text(1, "")),
        request: request(&[seed.path]),
    };
    seeds.iter().map(probe).collect()
}

/// A seed that the backend finds, and what it says of it.
#[derive(Debug, Clone)]
pub struct Known {
    seed: &'static Seed,
    code: String,
    column: u32,
    end_column: Option<u32>,
    /// The seed's file with the finding's fix.
    fixed: Option<Vec<u8>>,
}

impl Probe {
    /// The backend's finding of the seed, preferably one with a fix. `None` where it finds
    /// nothing in that line, or can't answer.
    pub fn learn(&self, answer: &Answer) -> Option<Known> {
        let line = self.seed.line();
        let all = || answer.iter().flat_map(|report| &report.findings);
        let is_there = |found: &Finding| found.path == self.seed.path && found.line == line;
        // What is found in other lines too is not about the fault.
        let is_it = |found: &&Finding| {
            let is_elsewhere = |other: &Finding| other.code == found.code && !is_there(other);
            is_there(found) && found.code != SYNTAX_ERROR && !all().any(is_elsewhere)
        };
        let findings = || all().filter(is_it);
        let found = findings().find(|found| found.fix.is_some()).or_else(|| findings().next())?;
        let ends_there = found.end_line.is_none_or(|end| end == line);
        Some(Known {
            seed: self.seed,
            code: found.code.clone(),
            column: found.column,
            end_column: found.end_column.filter(|_| ends_there),
            fixed: found
                .fix
                .as_ref()
                .and_then(|fix| apply(&self.files, &fix.edits).ok())
                .and_then(|mut files| files.remove(self.seed.path)),
        })
    }
}

fn request(paths: &[&str]) -> Request {
    Request {
        root: String::new(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        config: None,
        select: Vec::new(),
        timeout_ms: TIMEOUT_MS,
    }
}
