//! Runs the cases on a backend, each request in a new workspace.

use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;

use super::{Answer, Error, Files, cases, probes};
use crate::host::{Host, OpenError};
use crate::runtime::linting::Request;

/// The result of the cases of one language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The names of the cases that passed.
    pub right: Vec<String>,
    /// The names of the cases that failed, and the reasons.
    pub wrong: Vec<(String, String)>,
    /// The reason why no case was run, if the backend is not available.
    pub unavailable: Option<String>,
}

/// The reason why the cases could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The host can't be opened on the workspace of a case.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// I/O error: the files of a case can't be written.
    #[error("a workspace for a case can't be made: {0}")]
    Io(#[from] std::io::Error),
}

/// Runs all cases of `language` on the linter `backend`. `open` opens a host on a directory.
///
/// # Errors
/// See [`RunError`].
pub fn run(
    open: &dyn Fn(&Path) -> Result<Host, OpenError>,
    backend: &str,
    language: &str,
) -> Result<Outcome, RunError> {
    let runner = CaseRunner { open, backend };
    let mut outcome = Outcome::default();
    let probes = probes(language);
    if probes.is_empty() {
        outcome.unavailable = Some("there are no cases for this language".to_owned());
        return Ok(outcome);
    }
    let mut known = Vec::new();
    let mut answers = Vec::new();
    for probe in probes {
        let answer = runner.ask(&probe.files, &probe.request)?.0;
        known.extend(probe.learn(&answer));
        answers.push(answer);
    }
    if known.is_empty() {
        let unavailable = answers.iter().find_map(|answer| match answer {
            Err(Error::Unavailable(why)) => Some(why.clone()),
            _ => None,
        });
        match unavailable {
            Some(why) => outcome.unavailable = Some(why),
            None => {
                let why = format!(
                    "finds none of the seeds of {language}; the last answer: {:?}",
                    answers.last()
                );
                outcome.wrong.push(("seeds".to_owned(), cofferdam_text::shorten(&why, 2_000)));
            }
        }
        return Ok(outcome);
    }
    for case in cases(language, &known) {
        let (answer, untouched) = runner.ask(&case.files, &case.request)?;
        let checked = untouched.and_then(|()| case.check(&answer));
        let trials = checked.and_then(|()| case.trials(&answer));
        let trials = match trials {
            Ok(trials) => trials,
            Err(why) => {
                outcome.wrong.push((case.name, why));
                continue;
            }
        };
        outcome.right.push(case.name.clone());
        for trial in trials {
            let (answer, untouched) = runner.ask(&trial.files, &trial.request)?;
            match untouched.and_then(|()| trial.check(&answer)) {
                Ok(()) => outcome.right.push(trial.name),
                Err(why) => outcome.wrong.push((trial.name, why)),
            }
        }
    }
    Ok(outcome)
}

struct CaseRunner<'a> {
    open: &'a dyn Fn(&Path) -> Result<Host, OpenError>,
    backend: &'a str,
}

impl CaseRunner<'_> {
    /// Sends a request to the backend in a workspace with these files. Returns its response, and
    /// whether the files are unchanged.
    #[expect(clippy::disallowed_methods, reason = "a directory of the case's own")]
    fn ask(
        &self,
        files: &Files,
        request: &Request,
    ) -> Result<(Answer, Result<(), String>), RunError> {
        // The workspace is a subdirectory, so that paths can lead out of it.
        let place = TempDir::new()?;
        let outside = Dir::open_ambient_dir(place.path(), ambient_authority())?;
        outside.write("outside.py", "import os\n")?;
        outside.create_dir("workspace")?;
        let workspace = outside.open_dir("workspace")?;
        for (path, contents) in files {
            if let Some(above) = Path::new(path).parent() {
                workspace.create_dir_all(above)?;
            }
            workspace.write(path, contents)?;
        }
        let host = (self.open)(&place.path().join("workspace"))?;
        let answer = host.lint(self.backend, request.clone());
        for (path, contents) in files {
            if workspace.read(path)? != *contents {
                return Ok((answer, Err(format!("{path} was changed"))));
            }
        }
        Ok((answer, Ok(())))
    }
}
