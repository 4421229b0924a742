//! The plugin `deno_lint`: Deno's linter for JavaScript and TypeScript, compiled into this
//! component.
//!
//! The rules and the parser are those of the crate deno_lint. This plugin replaces the rest of the
//! program `deno lint`: it finds the files, reads `deno.json`, and converts diagnostics to
//! findings. Lint plugins and checks that need more than one file are not supported.

mod check;
mod config;
mod files;
mod pattern;
mod text;

use std::rc::Rc;

use cofferdam_sdk::backend::linting::{Finding, Report, Request};
use cofferdam_sdk::backend::{BoundedFindings, Error, Linter};
use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, WorkspacePath, linter};

pub use files::{List, query};

/// The version of the crate with the rules, which has no constant for it.
const VERSION: &str = "0.84.1";

/// The plugin: a linter for JavaScript and TypeScript.
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

/// Lints the files of a request; `list` lists directories.
///
/// # Errors
/// `Invalid` if a path or the configuration is invalid; `Failed` if files can't be listed.
pub fn lint(request: &Request, context: &Context, list: List) -> Result<Report, Error> {
    // The root does not affect the result, but it has to exist.
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
    let mut bounded = BoundedFindings::default();
    let mut files_checked: u32 = 0;
    for path in files::find(&paths, &mut hierarchy, context, list)? {
        let settings: Rc<config::Settings> = hierarchy.of(&path)?;
        check::check(&path, &settings, context).into_iter().for_each(|found| bounded.add(found));
        files_checked = files_checked.saturating_add(1);
    }
    let findings = bounded.finish();
    let raw = findings.iter().filter(|found| !found.path.is_empty()).map(line).collect();
    Ok(Report { findings, files_checked, exit_code: None, raw })
}

/// Resolves a path of the request.
fn resolve(path: &str, context: &Context) -> Result<WorkspacePath, Error> {
    context.resolve(path).map_err(invalid)
}

fn invalid(error: ToolError) -> Error {
    Error::Invalid(error.message)
}

/// Formats a finding as a line of text.
fn line(Finding { path, line, column, code, message, .. }: &Finding) -> String {
    format!("{path}:{line}:{column}: {code} {message}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_dependency() {
        let dependency = format!("deno_lint = \"={VERSION}\"");
        assert!(include_str!("../Cargo.toml").contains(&dependency));
    }
}
