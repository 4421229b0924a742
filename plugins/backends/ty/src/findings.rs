//! Converts ty's diagnostics to findings.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cofferdam_sdk::backend::BoundedFindings;
use cofferdam_sdk::backend::linting::{Report, Severity};
use ruff_db::diagnostic::{self, Diagnostic, DiagnosticId, UnifiedFile};
use ruff_db::files::File;
use ruff_db::source::{line_index, source_text};
use ruff_text_size::TextSize;

pub use cofferdam_sdk::backend::linting::Finding;

use crate::database::Database;
use crate::fix::fix;
use crate::settings::{SYNTAX_ERROR, Settings, UNRESOLVED_IMPORT};

/// The maximum number of packages that a report names as not installed.
const MAX_NAMED_PACKAGES: usize = 20;

/// How a line of a report begins that says what was not checked.
const NOT_CHECKED: &str = "not checked:";

/// How ty says that a module is missing, before and after its name.
const MISSING_MODULE: [&str; 2] = ["Cannot resolve imported module `", "`"];

/// Makes the report of all files, with a bounded number of findings.
pub struct Collector<'a> {
    db: &'a Database,
    settings: &'a Settings,
    findings: BoundedFindings,
    files_checked: u32,
    /// Packages that may be installed outside of the workspace.
    elsewhere: BTreeSet<String>,
}

impl<'a> Collector<'a> {
    /// Starts without any files.
    pub fn new(db: &'a Database, settings: &'a Settings) -> Self {
        let findings = BoundedFindings::default();
        Self { db, settings, findings, files_checked: 0, elsewhere: BTreeSet::new() }
    }

    /// Adds the diagnostics of a file.
    pub fn add(&mut self, file: File, diagnostics: &[Diagnostic]) {
        self.files_checked = self.files_checked.saturating_add(1);
        for diagnostic in diagnostics {
            if let Some(package) = self.package_elsewhere(diagnostic) {
                self.elsewhere.insert(package);
                continue;
            }
            let code = code(diagnostic);
            let is_error_of_file = matches!(
                diagnostic.id(),
                DiagnosticId::InvalidSyntax | DiagnosticId::Io | DiagnosticId::Panic
            );
            if is_error_of_file || self.settings.selects(code) {
                self.findings.add(self.finding(file, diagnostic, code));
            }
        }
    }

    /// The package that a diagnostic says is missing, if it may be installed outside of the workspace.
    fn package_elsewhere(&self, diagnostic: &Diagnostic) -> Option<String> {
        let importable = self.settings.importable.as_ref()?;
        if diagnostic.id() != DiagnosticId::lint(UNRESOLVED_IMPORT) {
            return None;
        }
        let [before, after] = MISSING_MODULE;
        let (module, _) = diagnostic.headline_message().strip_prefix(before)?.split_once(after)?;
        importable.elsewhere(module, &self.settings.program)
    }

    fn finding(&self, file: File, diagnostic: &Diagnostic, code: &str) -> Finding {
        let path = self.relative(&file.path(self.db).to_string());
        let span = diagnostic.primary_span();
        let is_here = |span: &diagnostic::Span| matches!(span.file(), UnifiedFile::Ty(found) if *found == file);
        let range = span.filter(is_here).and_then(|span| span.range());
        let start = range.map(|range| self.position(file, range.start()));
        let end = range.map(|range| self.position(file, range.end()));
        let (line, column) = start.unwrap_or_default();
        let message = self.relative(&diagnostic.concise_message().to_string());
        Finding {
            line,
            column,
            end_line: end.map(|(line, _)| line),
            end_column: end.map(|(_, column)| column),
            code: code.to_owned(),
            severity: match diagnostic.severity() {
                diagnostic::Severity::Info => Severity::Info,
                diagnostic::Severity::Warning => Severity::Warning,
                diagnostic::Severity::Error | diagnostic::Severity::Fatal => Severity::Error,
            },
            url: diagnostic.documentation_url().map(str::to_owned),
            fix: fix(diagnostic, &path, &message),
            path,
            message,
        }
    }

    /// The line and the column of an offset.
    fn position(&self, file: File, offset: TextSize) -> (u32, u32) {
        let text = source_text(self.db, file);
        let place = line_index(self.db, file).line_column(offset, &text);
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        (number(place.line.get()), number(place.column.get()))
    }

    /// Replaces absolute paths in a text by those that the caller knows.
    fn relative(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.settings.workspace), "")
    }

    /// Returns the report. Its output names first what could not be checked.
    pub fn finish(self) -> Report {
        let findings = self.findings.finish();
        let mut raw = String::new();
        if let Some(line) = not_installed(&self.elsewhere) {
            raw = line;
        }
        for note in &self.settings.notes {
            // Writing to a `String` never fails.
            let _ = writeln!(raw, "note: {note}");
        }
        for Finding { path, line, column, code, message, .. } in
            findings.iter().filter(|found| !found.path.is_empty())
        {
            let _ = writeln!(raw, "{path}:{line}:{column}: {code} {message}");
        }
        Report { findings, files_checked: self.files_checked, exit_code: None, raw }
    }
}

/// The code of a finding: the name of ty's rule.
fn code(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic.id() {
        DiagnosticId::InvalidSyntax => SYNTAX_ERROR,
        _ => diagnostic.name(),
    }
}

/// The line of a report about packages that are not installed in the workspace.
fn not_installed(packages: &BTreeSet<String>) -> Option<String> {
    if packages.is_empty() {
        return None;
    }
    let named: Vec<&str> = packages.iter().take(MAX_NAMED_PACKAGES).map(String::as_str).collect();
    let more = match packages.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = named.join(", ");
    Some(format!(
        "{NOT_CHECKED} what comes from packages that are not installed in the workspace: \
         {named}{more}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_that_are_not_installed_are_named() {
        let packages = |count: usize| (0..count).map(|n| format!("p{n:02}")).collect();
        assert_eq!(not_installed(&packages(0)), None);
        let said = not_installed(&packages(2)).unwrap_or_default();
        assert!(said.starts_with("not checked: ") && said.ends_with(": p00, p01\n"), "{said}");
        let said = not_installed(&packages(23)).unwrap_or_default();
        assert!(said.ends_with("p19 and 3 more\n"), "{said}");
    }
}
