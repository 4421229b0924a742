//! The plugin `deno_lint`: Deno's linter for JavaScript and TypeScript, compiled into this
//! component.
//!
//! The rules and the parser are deno_lint's. This plugin does what is left of the program
//! `deno lint`: it finds the files, reads `deno.json`, and turns diagnostics into findings. It
//! leaves out lint plugins and what needs more than one file, such as the checks for packages.

mod check;
mod config;
mod files;
mod pattern;
mod text;

use std::rc::Rc;

use cofferdam_sdk::backend::linting::{Finding, Report, Request};
use cofferdam_sdk::backend::{Error, Linter};
use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, WorkspacePath, linter};

pub use files::{List, query};

/// The version of the crate that holds the rules; its own code does not say.
const VERSION: &str = "0.84.1";

/// The backend.
pub struct DenoLint;

impl Linter for DenoLint {
    fn version(_: &str, _: &Context) -> Result<String, Error> {
        Ok(VERSION.to_owned())
    }

    fn lint(_: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        lint(request, context, &|query| {
            Ok(Scanner::open(query)?.files().map(|file| file.path).collect())
        })
    }
}

linter!(DenoLint);

/// Lints what a request names; `list` lists directories.
///
/// # Errors
/// `Invalid` where a path or the configuration is wrong, `Failed` where files can't be listed.
pub fn lint(request: &Request, context: &Context, list: List) -> Result<Report, Error> {
    // Nothing here depends on where the linter was started, but it has to be a place.
    if !request.root.is_empty() {
        resolve(&request.root, context)?;
    }
    let config = request.config.as_deref().map(|path| resolve(path, context)).transpose()?;
    let paths = request
        .paths
        .iter()
        .map(|path| resolve(path, context))
        .collect::<Result<Vec<WorkspacePath>, Error>>()?;
    let mut hierarchy = config::Hierarchy::load(context, config.as_ref(), &request.select)?;
    let mut findings = Vec::new();
    let mut files_checked: u32 = 0;
    for path in files::find(&paths, &mut hierarchy, context, list)? {
        let settings: Rc<config::Settings> = hierarchy.of(&path)?;
        findings.extend(check::check(&path, &settings, context));
        files_checked = files_checked.saturating_add(1);
    }
    let raw = findings.iter().map(line).collect();
    Ok(Report { findings, files_checked, exit_code: None, raw })
}

/// A path of the request.
fn resolve(path: &str, context: &Context) -> Result<WorkspacePath, Error> {
    context.resolve(path).map_err(invalid)
}

fn invalid(error: ToolError) -> Error {
    Error::Invalid(error.message)
}

/// A finding in words.
fn line(Finding { path, line, column, code, message, .. }: &Finding) -> String {
    format!("{path}:{line}:{column}: {code} {message}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_dependencys() {
        let dependency = format!("deno_lint = \"={VERSION}\"");
        assert!(include_str!("../Cargo.toml").contains(&dependency));
    }
}
