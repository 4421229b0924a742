//! What the host calls: `cofferdam:backend/linter`. The rule is in `markers.rs`.

mod markers;

use std::fs;
use std::path::Path;

// Generated from the WIT files.
wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use cofferdam::backend::linting::{Finding, Report, Request, Severity};
use cofferdam::backend::types::Error;

/// Where the plugin sees the workspace.
const WORKSPACE: &str = "/workspace";

/// The name of the rule.
const CODE: &str = "merge-marker";

struct Plugin;

impl exports::cofferdam::backend::linter::Guest for Plugin {
    fn version(_: String) -> Result<String, Error> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    /// Paths in requests and reports are relative to the workspace; `wit/deps/backend` says what
    /// else a report promises.
    fn lint(_: String, request: Request) -> Result<Report, Error> {
        if let Some(config) = request.config {
            return Err(Error::Invalid(format!("{config}: this linter has no configuration")));
        }
        let mut files = Vec::new();
        for path in &request.paths {
            collect(path, &mut files)
                .map_err(|error| Error::Invalid(format!("{path}: {error}")))?;
        }
        files.sort();
        files.dedup();
        let is_selected =
            request.select.is_empty() || request.select.iter().any(|code| CODE.starts_with(code));
        let mut report =
            Report { findings: Vec::new(), files_checked: 0, exit_code: None, raw: String::new() };
        for path in files {
            // Files that are not text are not linted.
            let Ok(text) = fs::read_to_string(Path::new(WORKSPACE).join(&path)) else { continue };
            report.files_checked += 1;
            if is_selected {
                report.findings.extend(markers::find(&text).iter().map(|it| finding(&path, it)));
            }
        }
        for finding in &report.findings {
            let Finding { path, line, message, .. } = finding;
            report.raw.push_str(&format!("{path}:{line}: {message}\n"));
        }
        Ok(report)
    }
}

fn finding(path: &str, marker: &markers::Marker) -> Finding {
    Finding {
        path: path.to_owned(),
        line: marker.line,
        column: 1,
        end_line: Some(marker.line),
        end_column: Some(1 + marker.length),
        code: CODE.to_owned(),
        severity: Severity::Error,
        message: format!("{} is left of an unfinished merge", marker.text),
        url: None,
        fix: None,
    }
}

/// Lists a file, or the files below a directory except hidden ones.
fn collect(path: &str, files: &mut Vec<String>) -> std::io::Result<()> {
    let place = Path::new(WORKSPACE).join(path);
    if !fs::metadata(&place)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place)? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if !name.starts_with('.') {
            let is_root = path.is_empty() || path == ".";
            collect(&if is_root { name } else { format!("{path}/{name}") }, files)?;
        }
    }
    Ok(())
}

export!(Plugin);
