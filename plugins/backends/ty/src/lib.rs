//! The plugin `ty`: Python's type checker ty, compiled into this component.
//!
//! The inference of types and the rules are ty's own code (`ty_python_semantic`), and so are the stubs of
//! the standard library. This plugin replaces the rest of the program `ty check`: it reads the
//! configuration, finds the files, and converts diagnostics to findings.
//!
//! Respected are `ty.toml` and `[tool.ty]` of `pyproject.toml`: `rules`, `analysis`, `overrides`, `src`
//! (without `exclude-scripts`) and `environment`. Other options are named in the report. Not supported
//! are notebooks, whose cells do not correspond to bytes of the file; the metadata of scripts (PEP 723);
//! and configurations of the user's account.
//!
//! It also checks texts that are no files ([`check`]), for scripts before they run.
//!
//! An instance sees only the workspace. Packages are found in a virtual environment in it (`.venv` or
//! `venv`), and those that are installed elsewhere can't be told from missing ones. So a missing module
//! is no finding if it may be installed elsewhere: the report names its package as not checked, and
//! everything from it has an unknown type. With a virtual environment in the workspace, or if the
//! configuration names the rule `unresolved-import`, every missing module is a finding.

mod check;
mod database;
mod environment;
mod files;
mod findings;
#[path = "../../ruff/src/fix.rs"]
mod fix;
#[path = "../../ruff/src/nesting.rs"]
mod nesting;
mod options;
mod patterns;
mod settings;
mod system;
#[cfg(test)]
mod testing;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_sdk::backend::linting::{Report, Request};
use cofferdam_sdk::backend::{Checker, Error, Linter};
use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, WorkspacePath, checker, initialized, linter};
use ruff_db::files::system_path_to_file;
use ruff_db::system::SystemPathBuf;

use crate::database::Database;
use crate::findings::Finding;
use crate::options::Project;
use crate::settings::Settings;
use crate::system::Workspace;

pub use files::List;

/// The version of ty's engine: that of its crates.
const VERSION: &str = "0.0.10";

/// The plugin: a type checker for Python.
pub struct Ty;

impl Linter for Ty {
    fn version(_: &str, _: &Context) -> Result<String, Error> {
        Ok(VERSION.to_owned())
    }

    fn lint(_: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        lint(request, context, &|query| {
            Ok(Scanner::open(query)?.files().map(|file| file.path).collect())
        })
    }
}

linter!(Ty);

impl Checker for Ty {
    fn version(_: &str) -> Result<String, Error> {
        Ok(VERSION.to_owned())
    }

    fn check(_: &str, sources: &[(String, String)]) -> Result<Vec<Finding>, Error> {
        check::check(sources).map_err(|error| Error::Invalid(format!("{error:#}")))
    }
}

checker!(Ty);
initialized!(Ty, check::prepare);

/// Checks the files of a request; `list` lists directories.
///
/// # Errors
/// `Invalid` if a path or the configuration is invalid; `Limit` if the time is over; `Failed` if the
/// files can't be listed.
pub fn lint(request: &Request, context: &Context, list: List) -> Result<Report, Error> {
    let started = Instant::now();
    let root = local(".", context)?;
    let directory = match request.root.as_str() {
        "" => root.clone(),
        path => local(path, context)?,
    };
    let config = request.config.as_ref().map(|path| config_file(path, context)).transpose()?;
    let workspace = Workspace::new(&root, &directory);
    let invalid = |error: anyhow::Error| {
        Error::Invalid(format!("{error:#}").replace(&format!("{root}/"), ""))
    };
    let project = Project::find(&workspace, &directory, config.as_deref()).map_err(invalid)?;
    let settings = Arc::new(Settings::new(project, &workspace, &request.select).map_err(invalid)?);
    let paths = request
        .paths
        .iter()
        .map(|path| resolve(path, context))
        .collect::<Result<Vec<WorkspacePath>, Error>>()?;
    let files = Arc::new(files::find(&paths, &settings, context, list)?);
    let db = Database::new(workspace, Arc::clone(&settings), Arc::clone(&files));
    let mut report = findings::Collector::new(&db, &settings);
    for path in files.iter() {
        within(request.timeout_ms, started)?;
        // A file that is gone by now has no findings.
        if let Ok(file) = system_path_to_file(&db, path) {
            report.add(file, &db.check(file));
        }
    }
    Ok(report.finish())
}

/// Returns an error if the time of a request is over. A single file is not interrupted.
fn within(timeout_ms: u32, started: Instant) -> Result<(), Error> {
    let timeout = Duration::from_millis(timeout_ms.into());
    if timeout_ms > 0 && started.elapsed() > timeout {
        return Err(Error::Limit(format!("ty was not done within {timeout_ms} ms")));
    }
    Ok(())
}

/// Resolves a path of the request.
fn resolve(path: &str, context: &Context) -> Result<WorkspacePath, Error> {
    context.resolve(path).map_err(|error| Error::Invalid(error.message))
}

/// The path under which this process opens a path of the request.
fn local(path: &str, context: &Context) -> Result<SystemPathBuf, Error> {
    SystemPathBuf::from_path_buf(context.local(&resolve(path, context)?))
        .map_err(|path| Error::Invalid(format!("{} is not UTF-8", path.display())))
}

/// Resolves the configuration file that the request names.
fn config_file(path: &str, context: &Context) -> Result<SystemPathBuf, Error> {
    let file = local(path, context)?;
    match file.as_std_path().metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(Error::Invalid(ToolError::is_a_directory(path).message))
        }
        Ok(_) => Ok(file),
        Err(error) => Err(Error::Invalid(ToolError::io(path, &error).message)),
    }
}

#[cfg(test)]
mod tests;
