//! Checks the responses of backends.

use std::collections::BTreeMap;

use super::cases::{Case, Expected, Faults};
use super::report::{apply, place, well_formed};
use super::{Answer, Error, Files, Finding, Report, Request, SYNTAX_ERROR};

impl Case {
    /// Checks the response to the case.
    ///
    /// # Errors
    /// What is wrong with the response, in a sentence.
    pub fn check(&self, answer: &Answer) -> Result<(), String> {
        if let Ok(report) = answer {
            well_formed(report, &self.files)?;
        }
        match (&self.expected, answer) {
            (Expected::Invalid, Err(Error::Invalid(why)))
            | (Expected::FaultsOrLimit(_), Err(Error::Limit(why))) => has_words(why),
            (Expected::NotClean { .. }, Err(Error::Invalid(why) | Error::Failed(why))) => {
                has_words(why)
            }
            (Expected::Invalid, _) => {
                Err(format!("expected the error 'invalid', got {}", shown(answer)))
            }
            (_, Err(_)) => Err(format!("expected a report, got {}", shown(answer))),
            (Expected::Faults(faults) | Expected::FaultsOrLimit(faults), Ok(report)) => {
                faults.check(report)
            }
            (Expected::Nothing { code }, Ok(report)) => {
                let is_wrong = |found: &&Finding| [code, SYNTAX_ERROR].contains(&&*found.code);
                match report.findings.iter().find(is_wrong) {
                    Some(found) => Err(format!("found {}, but there is nothing", place(found))),
                    None => Ok(()),
                }
            }
            (Expected::SyntaxError { path }, Ok(report)) => {
                let is_it = |found: &Finding| found.path == *path && found.code == SYNTAX_ERROR;
                if report.findings.iter().any(is_it) {
                    return Ok(());
                }
                Err(format!("expected a finding '{SYNTAX_ERROR}' in {path}, got {}", shown(answer)))
            }
            (Expected::NotClean { path }, Ok(report)) => {
                if report.findings.iter().any(|found| found.path == *path) {
                    return Ok(());
                }
                Err(format!("{path} is no text and has a fault, and the report is clean"))
            }
        }
    }

    /// Applies a fix from the response, if there is one for the fault of the case. Returns the
    /// request to repeat afterwards.
    ///
    /// # Errors
    /// A description of the edits that can't be applied.
    pub fn trials(&self, answer: &Answer) -> Result<Vec<Trial>, String> {
        let (Expected::Faults(faults), Ok(report)) = (&self.expected, answer) else {
            return Ok(Vec::new());
        };
        let is_it = |found: &&Finding| found.code == faults.code;
        let fixed = report.findings.iter().filter(is_it).find_map(|found| {
            let fix = found.fix.as_ref()?;
            Some((found, fix))
        });
        let Some((found, fix)) = fixed else { return Ok(Vec::new()) };
        Ok(vec![Trial {
            name: format!("{}, fixed", self.name),
            files: apply(&self.files, &fix.edits)?,
            request: self.request.clone(),
            wanted: self.fixed.clone(),
            fixed: (found.path.clone(), found.code.clone()),
            safe: fix.safe,
            found: counted(report),
        }])
    }
}

/// A case whose fix was applied. The request has to be repeated.
#[derive(Debug)]
pub struct Trial {
    /// What the trial tests, in words.
    pub name: String,
    /// The files of the workspace after the fix.
    pub files: Files,
    /// The request to the backend.
    pub request: Request,
    wanted: Option<(String, Vec<u8>)>,
    fixed: (String, String),
    safe: bool,
    found: BTreeMap<(String, String), usize>,
}

impl Trial {
    /// Checks that the finding is gone and that there are no new findings.
    ///
    /// # Errors
    /// What is wrong with the response, in a sentence.
    pub fn check(&self, answer: &Answer) -> Result<(), String> {
        if let Some((path, wanted)) = &self.wanted
            && self.files.get(path) != Some(wanted)
        {
            let got = self.files.get(path).map(Vec::as_slice).unwrap_or_default();
            return Err(format!(
                "the fix gives other text than in a file with LF and no byte order mark: {}, not {}",
                got.escape_ascii(),
                wanted.escape_ascii()
            ));
        }
        let Ok(report) = answer else {
            return Err(format!("expected a report after the fix, got {}", shown(answer)));
        };
        well_formed(report, &self.files)?;
        let (path, code) = &self.fixed;
        let after = counted(report);
        let count = |counts: &BTreeMap<_, usize>| counts.get(&self.fixed).copied().unwrap_or(0);
        if count(&after) >= count(&self.found) {
            return Err(format!("{code} in {path} is still there after its fix"));
        }
        // A fix that is not marked as safe may require other changes.
        let new = after.iter().filter(|_| self.safe);
        for (key @ (path, code), count) in new {
            if *count > self.found.get(key).copied().unwrap_or(0) {
                return Err(format!("the fix has brought {code} into {path}"));
            }
        }
        Ok(())
    }
}

impl Faults {
    fn check(&self, report: &Report) -> Result<(), String> {
        let mut found: BTreeMap<(&str, u32), &Finding> = BTreeMap::new();
        for finding in report.findings.iter().filter(|found| found.code == self.code) {
            found.entry((&finding.path, finding.line)).or_insert(finding);
        }
        for (path, line) in &self.places {
            let Some(found) = found.remove(&(path.as_str(), *line)) else {
                return Err(format!("{} in {path}, line {line}, was not found", self.code));
            };
            if found.column != self.column {
                return Err(format!(
                    "{} in {path}, line {line}, is in column {}, not {}",
                    self.code, self.column, found.column
                ));
            }
            let one_line = found.end_line.is_none_or(|end| end == found.line);
            let ends = (self.end_column, found.end_column.filter(|_| one_line));
            if let (Some(wanted), Some(end)) = ends
                && wanted != end
            {
                return Err(format!(
                    "{} in {path}, line {line}, ends before column {wanted}, not {end}",
                    self.code
                ));
            }
        }
        if let Some(found) = found.values().next() {
            return Err(format!("found {}, but there is nothing", place(found)));
        }
        if report.files_checked == 0 {
            return Err("the report says that no file was checked".to_owned());
        }
        match report.findings.iter().find(|found| !found.code.starts_with(&self.code)) {
            Some(found) if self.alone => {
                Err(format!("found {}, which was not asked for", place(found)))
            }
            _ => Ok(()),
        }
    }
}

/// The number of findings by path and code.
fn counted(report: &Report) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for found in &report.findings {
        *counts.entry((found.path.clone(), found.code.clone())).or_default() += 1;
    }
    counts
}

fn has_words(why: &str) -> Result<(), String> {
    if why.trim().is_empty() { Err("the error has no message".to_owned()) } else { Ok(()) }
}

/// Describes a response in a few words.
fn shown(answer: &Answer) -> String {
    match answer {
        Ok(report) => match report.findings.as_slice() {
            [] => "a clean report".to_owned(),
            [first, rest @ ..] => format!("{} and {} more", place(first), rest.len()),
        },
        Err(Error::Unavailable(why)) => format!("the error 'unavailable' ({why})"),
        Err(Error::Invalid(why)) => format!("the error 'invalid' ({why})"),
        Err(Error::Limit(why)) => format!("the error 'limit' ({why})"),
        Err(Error::Failed(why)) => format!("the error 'failed' ({why})"),
    }
}
