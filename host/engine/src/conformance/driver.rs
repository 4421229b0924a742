//! Runs the cases on a backend, each request in a workspace of its own.

use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;

use super::{Answer, Error, Files, cases, probes};
use crate::host::{Host, OpenError};
use crate::runtime::linting::Request;

/// What came of the cases of one language.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The cases that went right.
    pub right: Vec<String>,
    /// The others, and why.
    pub wrong: Vec<(String, String)>,
    /// Why nothing was tried: the backend can't work here.
    pub unavailable: Option<String>,
}

/// Why the cases could not be tried.
#[derive(Debug, thiserror::Error)]
pub enum Untried {
    /// A host on a workspace of a case can't be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The files of a case can't be laid out.
    #[error("a workspace for a case can't be made: {0}")]
    Io(#[from] std::io::Error),
}

/// Tries the linter `backend` on everything there is for `language`. `open` opens a host on a
/// directory.
///
/// # Errors
/// See [`Untried`].
pub fn run(
    open: &dyn Fn(&Path) -> Result<Host, OpenError>,
    backend: &str,
    language: &str,
) -> Result<Outcome, Untried> {
    let kit = Kit { open, backend };
    let mut outcome = Outcome::default();
    let probes = probes(language);
    if probes.is_empty() {
        outcome.unavailable = Some("there are no cases for this language".to_owned());
        return Ok(outcome);
    }
    let mut known = Vec::new();
    let mut answers = Vec::new();
    for probe in probes {
        let answer = kit.ask(&probe.files, &probe.request)?.0;
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
        let (answer, untouched) = kit.ask(&case.files, &case.request)?;
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
            let (answer, untouched) = kit.ask(&trial.files, &trial.request)?;
            match untouched.and_then(|()| trial.check(&answer)) {
                Ok(()) => outcome.right.push(trial.name),
                Err(why) => outcome.wrong.push((trial.name, why)),
            }
        }
    }
    Ok(outcome)
}

struct Kit<'a> {
    open: &'a dyn Fn(&Path) -> Result<Host, OpenError>,
    backend: &'a str,
}

impl Kit<'_> {
    /// The backend's answer on a workspace with these files, and whether it left them alone.
    #[expect(clippy::disallowed_methods, reason = "a directory of the case's own")]
    fn ask(
        &self,
        files: &Files,
        request: &Request,
    ) -> Result<(Answer, Result<(), String>), Untried> {
        // The workspace is beneath it, so that a path can lead out.
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
