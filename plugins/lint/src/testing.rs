//! A fake host: linters with recorded reports, a walk with the crate that the host uses, and a list
//! of changed files.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::backend::available::linters::Backend;
use cofferdam_sdk::backend::linting::{Finding, Report, Request, Severity};
use cofferdam_sdk::scan::Query;
use cofferdam_sdk::{Context, ToolError};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use ignore::types::TypesBuilder;

use crate::host::HostApi;

/// A temporary workspace and a fake host.
pub struct Fake {
    directory: tempfile::TempDir,
    pub context: Context,
    pub linters: Vec<Backend>,
    /// The results of the linters, by name.
    pub answers: BTreeMap<&'static str, Result<Report, Error>>,
    /// The changed files that git lists; `None`: not a repository.
    pub changed: Option<Vec<&'static str>>,
    asked: RefCell<Vec<(String, Request)>>,
}

impl Fake {
    /// Makes a workspace with these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self {
            context: Context::for_directory(directory.path()),
            directory,
            linters: Vec::new(),
            answers: BTreeMap::new(),
            changed: None,
            asked: RefCell::default(),
        }
    }

    /// The requests that linters have received.
    pub fn asked(&self) -> Vec<(String, Request)> {
        self.asked.borrow().clone()
    }
}

impl HostApi for Fake {
    fn linters(&self) -> Vec<Backend> {
        self.linters.clone()
    }

    fn lint(&self, requests: &[(String, Request)]) -> Vec<Result<Report, Error>> {
        assert!(requests.iter().all(|(_, request)| !request.paths.is_empty()));
        self.asked.borrow_mut().extend_from_slice(requests);
        requests.iter().map(|(name, _)| self.answers[name.as_str()].clone()).collect()
    }

    fn find(&self, query: &Query) -> Result<Vec<String>, ToolError> {
        let root = self.directory.path().join(&query.root);
        let mut globs = OverrideBuilder::new(&root);
        for glob in &query.globs {
            globs.add(glob).unwrap();
        }
        for glob in &query.exclude_globs {
            globs.add(&format!("!{glob}")).unwrap();
        }
        let mut types = TypesBuilder::new();
        types.add_defaults();
        for name in &query.types {
            types.select(name);
        }
        let walk = WalkBuilder::new(&root)
            .overrides(globs.build().unwrap())
            .types(types.build().unwrap())
            .hidden(!query.hidden)
            .ignore(query.ignore_files)
            .build();
        let mut paths: Vec<String> = walk
            .map(Result::unwrap)
            .filter(|entry| entry.file_type().unwrap().is_file())
            .map(|entry| entry.path().strip_prefix(self.directory.path()).unwrap().to_owned())
            .map(|path| path.into_os_string().into_string().unwrap())
            .collect();
        paths.sort_unstable();
        Ok(paths)
    }

    fn changed(&self) -> Result<Vec<String>, ToolError> {
        match &self.changed {
            Some(paths) => Ok(paths.iter().map(|&path| path.to_owned()).collect()),
            None => Err(ToolError::not_found("NotARepository", "the workspace is no repository")),
        }
    }
}

/// A backend as the host lists it.
pub fn backend(name: &str, languages: &[&str], chosen_for: &[&str]) -> Backend {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Backend { name: name.to_owned(), languages: owned(languages), chosen_for: owned(chosen_for) }
}

/// A finding without a fix.
pub fn finding(path: &str, line: u32, column: u32, code: &str, message: &str) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        column,
        end_line: None,
        end_column: None,
        code: code.to_owned(),
        severity: Severity::Error,
        message: message.to_owned(),
        url: None,
        fix: None,
    }
}

/// A report whose raw output lists the findings.
pub fn report(findings: Vec<Finding>, exit_code: Option<i32>) -> Report {
    let raw = findings
        .iter()
        .map(|found| {
            let Finding { path, line, column, code, message, .. } = found;
            format!("{path}:{line}:{column}: {code} {message}\n")
        })
        .collect();
    Report { findings, files_checked: 1, exit_code, raw }
}
