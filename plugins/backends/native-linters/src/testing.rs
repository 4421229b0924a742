//! Helpers for the tests of several modules: a workspace, and short forms of findings.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use cofferdam_sdk::Context;
use cofferdam_sdk::backend::linting::{Finding, Report, Request};
use cofferdam_sdk::process::{Captured, End, Output};
use tempfile::TempDir;

/// A temporary directory with files.
pub struct Workspace {
    pub context: Context,
    directory: TempDir,
}

impl Workspace {
    pub fn new<C: AsRef<[u8]>>(files: &[(&str, C)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (path, contents) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, contents).unwrap();
        }
        Self { context: Context::for_directory(directory.path()), directory }
    }

    /// The output of a program that saw the workspace as `/w`.
    pub fn output(code: i32, stdout: &str, stderr: &str) -> Output {
        let captured =
            |text: &str| Captured { bytes: text.as_bytes().to_vec(), total: text.len() as u64 };
        Output {
            end: End::Exited(code),
            stdout: captured(stdout),
            stderr: captured(stderr),
            duration_ms: 1,
            workspace: "/w".to_owned(),
        }
    }

    /// The text of a file after a finding's fix was applied.
    pub fn fixed(&self, finding: &Finding) -> String {
        let fix = finding.fix.as_ref().unwrap();
        let mut contents = fs::read(self.directory.path().join(&finding.path)).unwrap();
        for edit in fix.edits.iter().rev() {
            contents.splice(edit.start as usize..edit.end as usize, edit.text.bytes());
        }
        String::from_utf8(contents).unwrap()
    }
}

/// A request with the workspace as its root.
pub fn request(paths: &[&str]) -> Request {
    Request {
        root: String::new(),
        paths: paths.iter().map(|&path| path.to_owned()).collect(),
        config: None,
        select: Vec::new(),
        timeout_ms: 60_000,
    }
}

/// The findings as `path:line:column-line:column severity code`.
pub fn places(report: &Report) -> Vec<String> {
    let short = |finding: &Finding| {
        let end = match (finding.end_line, finding.end_column) {
            (Some(line), Some(column)) => format!("-{line}:{column}"),
            _ => String::new(),
        };
        let Finding { path, line, column, severity, code, .. } = finding;
        let severity = format!("{severity:?}").to_lowercase().replace("severity::", "");
        format!("{path}:{line}:{column}{end} {severity} {code}")
    };
    report.findings.iter().map(short).collect()
}
