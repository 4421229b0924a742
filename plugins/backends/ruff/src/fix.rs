//! Converts the fixes of diagnostics. This module is part of the plugin `ty` as well.

use cofferdam_sdk::backend::linting;
use ruff_db::diagnostic::Diagnostic;
use ruff_diagnostics::{Applicability, Edit};
use ruff_text_size::Ranged as _;

/// The fix of a diagnostic of the file `path`; `None` without a fix, or with one for display only.
/// `message` describes a fix that has no description.
pub fn fix(diagnostic: &Diagnostic, path: &str, message: &str) -> Option<linting::Fix> {
    let fix = diagnostic.fix()?;
    if fix.applicability() == Applicability::DisplayOnly {
        return None;
    }
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
