//! Converts ruff's diagnostics to findings.

use std::fmt::Write as _;
use std::path::Path;

use cofferdam_sdk::backend::linting::{self, Finding, Report, Severity};
use ruff_db::diagnostic::{self, Diagnostic};
use ruff_diagnostics::{Applicability, Edit, IsolationLevel};
use ruff_source_file::LineColumn;

use crate::check::Checked;
use crate::offer::{Candidate, offered};

/// Makes the report of all files, in order.
pub fn report(checked: &[Checked], workspace: &Path) -> Report {
    let mut findings = Vec::new();
    let mut raw = String::new();
    for file in checked {
        let path = relative(&file.path, workspace);
        if let Some(error) = &file.unread {
            // Writing to a `String` never fails.
            let _ = writeln!(raw, "{path}: not linted: {error}");
        }
        let mut diagnostics: Vec<&Diagnostic> = file.diagnostics.iter().collect();
        diagnostics.sort_by(|a, b| a.ruff_start_ordering(b));
        let candidates: Vec<Option<Candidate>> =
            diagnostics.iter().map(|diagnostic| candidate(diagnostic)).collect();
        let offered = offered(&candidates);
        for (diagnostic, is_offered) in diagnostics.into_iter().zip(offered) {
            let finding = finding(diagnostic, &path, workspace, is_offered);
            let Finding { line, column, code, message, .. } = &finding;
            let _ = writeln!(raw, "{path}:{line}:{column}: {code} {message}");
            findings.push(finding);
        }
    }
    Report {
        findings,
        files_checked: u32::try_from(checked.len()).unwrap_or(u32::MAX),
        exit_code: None,
        raw,
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

fn fix(diagnostic: &Diagnostic, path: &str, message: &str) -> Option<linting::Fix> {
    use ruff_text_size::Ranged as _;

    let fix = diagnostic.fix()?;
    let edit = |edit: &Edit| linting::Edit {
        path: path.to_owned(),
        start: edit.start().to_u32().into(),
        end: edit.end().to_u32().into(),
        text: edit.content().unwrap_or_default().to_owned(),
    };
    Some(linting::Fix {
        description: diagnostic.first_help_text().unwrap_or(message).to_owned(),
        safe: fix.applicability() == Applicability::Safe,
        edits: fix.edits().iter().map(edit).collect(),
    })
}

fn relative(path: &Path, workspace: &Path) -> String {
    path.strip_prefix(workspace).unwrap_or(path).to_string_lossy().into_owned()
}

/// Replaces absolute paths in a text by those that the caller knows.
pub fn relative_in_text(text: &str, workspace: &Path) -> String {
    text.replace(&format!("{}/", workspace.display()), "")
}
