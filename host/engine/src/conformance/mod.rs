//! Requirements for all linter backends: test cases as data, and checks without I/O. [`run`] writes
//! the files of each case to an empty workspace, sends the request to the backend, and checks the
//! response. [`run_examples`] runs the example calls of a plugin.
//!
//! Backends find different faults. So the cases of a language start from *seeds*, faults that at
//! least one linter finds: [`probes`] has a request for each seed alone, [`Probe::learn`] takes the
//! backend's finding from the response, and [`cases`] are made of the seeds that it finds. A case
//! only varies the place, encoding and number of these faults.
//!
//! ```text
//! probes(language) -> files, request -> answer -> Probe::learn -> Known
//! cases(language, known) -> files, request -> answer -> Case::check
//!                                                    -> Case::trials -> files, request -> answer -> Trial::check
//! ```
//!
//! Not tested: whether findings are right, and how fast a backend is.

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
pub use driver::{Outcome, RunError, run};
pub use examples::{Tried, Verdict, run_examples};
pub use seeds::languages;

use crate::runtime::BackendError as Error;
use crate::runtime::linting::{Finding, Report, Request};
use report::apply;
use seeds::{Seed, language};

/// The time limit of a request, in milliseconds: enough for backends that compile what they lint.
const TIMEOUT_MS: u32 = 300_000;

/// The code of a finding that reports a file that can't be parsed.
const SYNTAX_ERROR: &str = "syntax-error";

/// The response of a backend.
pub type Answer = Result<Report, Error>;

/// The files of a workspace: contents by path.
pub type Files = BTreeMap<String, Vec<u8>>;

/// A request whose response shows whether the backend finds a seed.
#[derive(Debug)]
pub struct Probe {
    seed: &'static Seed,
    /// The files of the workspace.
    pub files: Files,
    /// The request to the backend.
    pub request: Request,
}

/// One probe for each seed of a language; empty for a language without cases.
pub fn probes(name: &str) -> Vec<Probe> {
    let seeds = language(name).map_or(&[][..], |language| language.seeds);
    let probe = |seed: &'static Seed| Probe {
        seed,
        files: seed.project(seed.path, seed.text(1, "")),
        request: request(&[seed.path]),
    };
    seeds.iter().map(probe).collect()
}

/// A seed that the backend finds, and what its finding says.
#[derive(Debug, Clone)]
pub struct Known {
    seed: &'static Seed,
    code: String,
    column: u32,
    end_column: Option<u32>,
    /// The contents of the seed's file after the fix.
    fixed: Option<Vec<u8>>,
}

impl Probe {
    /// Returns the backend's finding of the seed, preferably one with a fix. Returns `None` if it
    /// has no finding in that line, or returned an error.
    pub fn learn(&self, answer: &Answer) -> Option<Known> {
        let line = self.seed.line();
        let all = || answer.iter().flat_map(|report| &report.findings);
        let is_there = |found: &Finding| found.path == self.seed.path && found.line == line;
        // A code that is found in other lines as well is not about the fault.
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
