//! A workspace with one target file, and linters with recorded reports.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::fs;
use std::path::PathBuf;

use cofferdam_sdk::Context;
use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::linters::Backend;
use cofferdam_sdk::backend::linting::{Edit, Finding, Fix, Report, Request, Severity};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{Answer, Failure};
use crate::linting::Linters;

/// A temporary workspace and a fake host.
pub struct Fake {
    directory: tempfile::TempDir,
    pub context: Context,
    /// The chosen linters with their results. There is one more linter, which is not chosen.
    pub answers: Vec<(&'static str, Result<Report, Error>)>,
    /// A chosen linter that does not support Python.
    pub unfit: Option<&'static str>,
    asked: RefCell<Vec<(String, Request)>>,
}

impl Fake {
    /// Makes a workspace whose target has this text.
    pub fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut context = Context::for_directory(directory.path());
        context.scope = vec!["target.py".to_owned(), "pyproject.toml".to_owned()];
        let fake = Self {
            directory,
            context,
            answers: Vec::new(),
            unfit: None,
            asked: RefCell::default(),
        };
        fake.write("target.py", text.as_bytes());
        fake
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub fn write(&self, path: &str, contents: &[u8]) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), contents).unwrap();
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap()
    }

    /// The requests that linters have received.
    pub fn asked(&self) -> Vec<(String, Request)> {
        self.asked.borrow().clone()
    }
}

impl Linters for Fake {
    fn available(&self) -> Vec<Backend> {
        let backend = |name: &str, chosen_for: &[&str]| Backend {
            name: name.to_owned(),
            languages: vec!["python".to_owned()],
            chosen_for: chosen_for.iter().map(|&name| name.to_owned()).collect(),
        };
        let chosen = self.answers.iter().map(|(name, _)| backend(name, &["python"]));
        let unfit =
            self.unfit.map(|name| Backend { languages: Vec::new(), ..backend(name, &["python"]) });
        chosen.chain([backend("pylint", &[])]).chain(unfit).collect()
    }

    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>> {
        self.asked.borrow_mut().extend_from_slice(requests);
        let answer = |name: &String| self.answers.iter().find(|(chosen, _)| name == chosen);
        requests.iter().map(|(name, _)| answer(name).unwrap().1.clone()).collect()
    }
}

/// A finding in the target, without a fix.
pub fn finding(code: &str, line: u32, column: u32) -> Finding {
    Finding {
        path: "target.py".to_owned(),
        line,
        column,
        end_line: None,
        end_column: None,
        code: code.to_owned(),
        severity: Severity::Error,
        message: format!("about {code}"),
        url: None,
        fix: None,
    }
}

/// Adds a fix to a finding.
pub fn fixed(finding: Finding, safe: bool, edits: Vec<Edit>) -> Finding {
    Finding { fix: Some(Fix { description: "Fix it".to_owned(), safe, edits }), ..finding }
}

pub fn edit(path: &str, start: u64, end: u64, text: &str) -> Edit {
    Edit { path: path.to_owned(), start, end, text: text.to_owned() }
}

pub fn report(findings: Vec<Finding>) -> Report {
    Report { findings, files_checked: 1, exit_code: None, raw: String::new() }
}

/// The input and output schemas of a tool.
pub fn schema(tool: &str) -> (Value, Value) {
    macro_rules! of {
        ($($tool:literal),*) => {
            match tool {
                $($tool => (
                    include_str!(concat!("../../../schemas/tools/lint_agent.", $tool, ".input.json")),
                    include_str!(concat!("../../../schemas/tools/lint_agent.", $tool, ".output.json")),
                ),)*
                _ => ("", ""),
            }
        };
    }
    let (input, output) = of!("run_linter", "apply_fix", "read_file", "submit", "ruff_config");
    (serde_json::from_str(input).unwrap(), serde_json::from_str(output).unwrap())
}

/// The result as the host gets it, after it was checked against the tool's schema.
pub fn fits<T: Serialize>(tool: &str, result: Result<T, Failure>) -> Value {
    let answer = serde_json::to_value(Answer::from(result)).unwrap();
    cofferdam_testing::fits(&schema(tool).1, &answer);
    answer
}
