//! Converts ruff's diagnostics to findings.

use std::fmt::Write as _;
use std::path::Path;

use cofferdam_sdk::backend::BoundedFindings;
use cofferdam_sdk::backend::linting::{Finding, Report, Severity};
use ruff_db::diagnostic::{self, Diagnostic};
use ruff_diagnostics::{Applicability, IsolationLevel};
use ruff_source_file::LineColumn;

use crate::check::Checked;
use crate::fix::fix;
use crate::offer::{Candidate, offered};

/// Makes the report of all files, in order, with a bounded number of findings.
pub struct Collector<'a> {
    workspace: &'a Path,
    findings: BoundedFindings,
    files_checked: u32,
    /// The lines about files that could not be linted.
    unread: String,
}

impl<'a> Collector<'a> {
    /// Starts without any files.
    pub fn new(workspace: &'a Path) -> Self {
        let findings = BoundedFindings::default();
        Self { workspace, findings, files_checked: 0, unread: String::new() }
    }

    /// Adds the diagnostics of a file.
    pub fn add(&mut self, file: &Checked) {
        self.files_checked = self.files_checked.saturating_add(1);
        let path = relative(&file.path, self.workspace);
        if let Some(error) = &file.unread {
            // Writing to a `String` never fails.
            let _ = writeln!(self.unread, "{path}: not linted: {error}");
        }
        let mut diagnostics: Vec<&Diagnostic> = file.diagnostics.iter().collect();
        diagnostics.sort_by(|a, b| a.ruff_start_ordering(b));
        let candidates: Vec<Option<Candidate>> =
            diagnostics.iter().map(|diagnostic| candidate(diagnostic)).collect();
        let offered = offered(&candidates);
        for (diagnostic, is_offered) in diagnostics.into_iter().zip(offered) {
            self.findings.add(finding(diagnostic, &path, self.workspace, is_offered));
        }
    }

    /// The report.
    pub fn finish(self) -> Report {
        let findings = self.findings.finish();
        let mut raw = self.unread;
        for Finding { path, line, column, code, message, .. } in
            findings.iter().filter(|found| !found.path.is_empty())
        {
            let _ = writeln!(raw, "{path}:{line}:{column}: {code} {message}");
        }
        Report { findings, files_checked: self.files_checked, exit_code: None, raw }
    }
}

fn finding(diagnostic: &Diagnostic, path: &str, workspace: &Path, is_offered: bool) -> Finding {
    let (line, column) = position(diagnostic.ruff_start_location()).unwrap_or_default();
    let end = position(diagnostic.ruff_end_location());
    // Without a current directory, ruff writes absolute paths into some messages.
    let message = relative_in_text(&diagnostic.concise_message().to_string(), workspace);
    Finding {
        path: path.to_owned(),
        line,
        column,
        end_line: end.map(|(line, _)| line),
        end_column: end.map(|(_, column)| column),
        code: match diagnostic.is_invalid_syntax() {
            true => "syntax-error".to_owned(),
            false => diagnostic.secondary_code_or_id().to_owned(),
        },
        severity: match diagnostic.severity() {
            diagnostic::Severity::Info => Severity::Info,
            diagnostic::Severity::Warning => Severity::Warning,
            diagnostic::Severity::Error | diagnostic::Severity::Fatal => Severity::Error,
        },
        url: diagnostic.documentation_url().map(str::to_owned),
        fix: if is_offered { fix(diagnostic, path, &message) } else { None },
        message,
    }
}

fn position(location: Option<LineColumn>) -> Option<(u32, u32)> {
    let LineColumn { line, column } = location?;
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Some((number(line.get()), number(column.get())))
}

/// The properties of a diagnostic's fix that decide whether it is offered; `None` without a fix, or
/// with one for display only.
fn candidate(diagnostic: &Diagnostic) -> Option<Candidate> {
    let fix = diagnostic.fix()?;
    let group = match fix.isolation() {
        IsolationLevel::Group(group) => Some(group),
        IsolationLevel::NonOverlapping => None,
    };
    match fix.applicability() {
        Applicability::Safe => Some(Candidate { is_safe: true, group }),
        Applicability::Unsafe => Some(Candidate { is_safe: false, group }),
        Applicability::DisplayOnly => None,
    }
}

fn relative(path: &Path, workspace: &Path) -> String {
    path.strip_prefix(workspace).unwrap_or(path).to_string_lossy().into_owned()
}

/// Replaces absolute paths in a text by those that the caller knows.
pub fn relative_in_text(text: &str, workspace: &Path) -> String {
    text.replace(&format!("{}/", workspace.display()), "")
}
