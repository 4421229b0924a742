//! Lints one file, and converts diagnostics to findings.

use std::collections::HashSet;

use cofferdam_sdk::backend::linting::{Edit, Finding, Fix, Severity};
use cofferdam_sdk::{Context, WorkspacePath};
use deno_ast::diagnostics::Diagnostic as _;
use deno_ast::{MediaType, ModuleSpecifier, ParseDiagnostic, SourceTextInfo};
use deno_lint::diagnostic::LintDiagnostic;
use deno_lint::linter::LintFileOptions;

use crate::config::Settings;
use crate::text::Text;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Lints a file. A file that can't be read or parsed has a finding for that.
pub fn check(path: &WorkspacePath, settings: &Settings, context: &Context) -> Vec<Finding> {
    let bytes = match context.read(path) {
        Ok(bytes) => bytes,
        Err(error) => return vec![problem(path, "io-error", error.message, (0, 0))],
    };
    let source = match String::from_utf8(bytes) {
        Ok(source) => source,
        Err(error) => {
            let valid = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(&error.as_bytes()[..valid]);
            let position = Text::new(text.trim_start_matches(BYTE_ORDER_MARK)).position(valid);
            return vec![problem(path, "invalid-utf8", "not UTF-8 text".to_owned(), position)];
        }
    };
    let file = File::new(path, &source);
    let media_type = MediaType::from_path(path.as_str().as_ref());
    let lint = |media_type| {
        settings.linter.lint_file(LintFileOptions {
            specifier: specifier(path),
            source_code: file.source.to_owned(),
            media_type,
            config: settings.jsx.clone(),
            external_linter: None,
        })
    };
    let linted = lint(media_type).or_else(|error| match media_type {
        // Many projects have JSX in `.js` files, which Deno does not expect there.
        MediaType::JavaScript => lint(MediaType::Jsx).map_err(|_| error),
        _ => Err(error),
    });
    match linted {
        Ok((parsed, diagnostics)) => {
            let mut findings = file.findings(&diagnostics);
            // The parser recovers from some errors. In declaration files some of these are wrong.
            if !media_type.is_declaration() {
                findings.extend(parsed.diagnostics().iter().map(|error| file.syntax_error(error)));
                findings.sort_by_key(|finding| (finding.line, finding.column));
            }
            findings
        }
        Err(error) => vec![file.syntax_error(&error)],
    }
}

/// A URL for the parser, which does not read from it.
fn specifier(path: &WorkspacePath) -> ModuleSpecifier {
    #[expect(clippy::expect_used, reason = "a literal")]
    let mut specifier = ModuleSpecifier::parse("file:///").expect("a URL");
    specifier.set_path(path.as_str());
    specifier
}

fn problem(path: &WorkspacePath, code: &str, message: String, position: (u32, u32)) -> Finding {
    Finding {
        path: path.as_str().to_owned(),
        line: position.0,
        column: position.1,
        end_line: None,
        end_column: None,
        code: code.to_owned(),
        severity: Severity::Error,
        message,
        url: None,
        fix: None,
    }
}

/// A file that was read.
struct File<'a> {
    path: &'a WorkspacePath,
    /// The text without a byte order mark.
    source: &'a str,
    text: Text<'a>,
    /// The number of bytes before `source` in the file.
    skipped: usize,
}

impl<'a> File<'a> {
    fn new(path: &'a WorkspacePath, contents: &'a str) -> Self {
        let source = contents.strip_prefix(BYTE_ORDER_MARK).unwrap_or(contents);
        Self { path, source, text: Text::new(source), skipped: contents.len() - source.len() }
    }

    fn syntax_error(&self, error: &ParseDiagnostic) -> Finding {
        let start = SourceTextInfo::from_string(String::new()).range().start;
        let range = error.range().as_byte_range(start);
        let (end_line, end_column) = self.text.position(range.end);
        Finding {
            end_line: Some(end_line),
            end_column: Some(end_column),
            ..problem(
                self.path,
                "syntax-error",
                error.message().into_owned(),
                self.text.position(range.start),
            )
        }
    }

    fn findings(&self, diagnostics: &[LintDiagnostic]) -> Vec<Finding> {
        let mut imports = HashSet::new();
        diagnostics.iter().map(|diagnostic| self.finding(diagnostic, &mut imports)).collect()
    }

    /// Converts a diagnostic. `imports` are those that earlier fixes add: adding one twice would be
    /// an error, so only the first of such fixes is offered.
    fn finding(&self, diagnostic: &LintDiagnostic, imports: &mut HashSet<String>) -> Finding {
        let details = &diagnostic.details;
        let range = diagnostic.range.as_ref().map(|found| {
            let range = found.range.as_byte_range(found.text_info.range().start);
            (self.text.position(range.start), self.text.position(range.end))
        });
        let (start, end) = range.map_or(((0, 0), None), |(start, end)| (start, Some(end)));
        let message = match &details.hint {
            Some(hint) => format!("{} (hint: {hint})", details.message),
            None => details.message.clone(),
        };
        let fix = self.fix(diagnostic).filter(|fix| {
            fix.edits.iter().all(|edit| {
                let is_import = edit.text.trim_start().starts_with("import ");
                !is_import || imports.insert(edit.text.trim().to_owned())
            })
        });
        Finding {
            end_line: end.map(|(line, _)| line),
            end_column: end.map(|(_, column)| column),
            url: diagnostic.docs_url().map(|url| url.into_owned()),
            fix,
            ..problem(self.path, &details.code, message, start)
        }
    }

    /// The first of several fixes, as `deno lint --fix` applies it. Deno has no unsafe fixes.
    fn fix(&self, diagnostic: &LintDiagnostic) -> Option<Fix> {
        let fix = diagnostic.details.fixes.first()?;
        let start = diagnostic.range.as_ref()?.text_info.range().start;
        let edits = fix.changes.iter().map(|change| {
            let range = change.range.as_byte_range(start);
            Edit {
                path: self.path.as_str().to_owned(),
                start: (range.start + self.skipped) as u64,
                end: (range.end + self.skipped) as u64,
                text: change.new_text.to_string(),
            }
        });
        Some(Fix { description: fix.description.to_string(), safe: true, edits: edits.collect() })
    }
}
