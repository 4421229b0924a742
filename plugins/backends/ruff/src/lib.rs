//! The plugin `ruff`: Python's linter ruff, compiled into this component.
//!
//! What is checked, by which rules, and what is wrong with a configuration, all is ruff's own
//! code. This plugin does what is left of the program `ruff check`: it finds the files, picks
//! each file's settings, and turns diagnostics into findings. It leaves out notebooks, whose
//! cells no byte of the file stands for, and the rules about executable files (EXE001, EXE002):
//! WASI knows no permissions.

mod check;
mod files;
mod findings;
mod offer;
mod settings;

use std::io;
use std::path::{Path, PathBuf};

use cofferdam_sdk::backend::linting::{Report, Request};
use cofferdam_sdk::backend::{Error, Linter};
use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, WorkspacePath, linter};

pub use files::{List, Tree};

/// The backend.
pub struct Ruff;

impl Linter for Ruff {
    fn version(_: &str, _: &Context) -> Result<String, Error> {
        Ok(ruff_linter::VERSION.to_owned())
    }

    fn lint(_: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        lint(request, context, &|tree| {
            Ok(Scanner::open(&tree.query())?.files().map(|file| file.path).collect())
        })
    }
}

linter!(Ruff);

/// Lints what a request names; `list` lists directories.
///
/// # Errors
/// `Invalid` where a path or the configuration is wrong, `Failed` where the files can't be listed.
pub fn lint(request: &Request, context: &Context, list: List) -> Result<Report, Error> {
    let workspace = context.local(&resolve(".", context)?);
    let root = match request.root.as_str() {
        "" => workspace.clone(),
        root => context.local(&resolve(root, context)?),
    };
    enter(&root).map_err(|error| Error::Invalid(ToolError::io(&request.root, &error).message))?;
    let config = match &request.config {
        Some(config) => Some(config_file(config, context)?),
        None => None,
    };
    let mut settings =
        settings::Hierarchy::load(&workspace, &root, config.as_deref(), &request.select)
            .map_err(invalid(&workspace))?;
    let paths = request
        .paths
        .iter()
        .map(|path| resolve(path, context))
        .collect::<Result<Vec<WorkspacePath>, Error>>()?;
    let files = files::find(&paths, &mut settings, context, list).map_err(|error| match error {
        files::Error::Listing(error) => Error::Failed(error.message),
        files::Error::Other(error) => invalid(&workspace)(error),
    })?;
    let checked = check::check(&files, &mut settings).map_err(invalid(&workspace))?;
    Ok(findings::report(&checked, &workspace))
}

/// A path of the request.
fn resolve(path: &str, context: &Context) -> Result<WorkspacePath, Error> {
    context.resolve(path).map_err(|error| Error::Invalid(error.message))
}

/// Ruff takes some paths of a configuration from where it was started. An instance serves one
/// request, so the directory of the whole component can be that one's.
#[expect(clippy::disallowed_methods, reason = "ruff reads it, and nothing else does")]
fn enter(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)
}

/// The configuration that the request names.
fn config_file(path: &str, context: &Context) -> Result<PathBuf, Error> {
    let file = context.local(&resolve(path, context)?);
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => {
            Err(Error::Invalid(ToolError::is_a_directory(path).message))
        }
        Ok(_) => Ok(file),
        Err(error) => Err(Error::Invalid(ToolError::io(path, &error).message)),
    }
}

/// What is wrong with a request, with paths as the caller knows them.
fn invalid(workspace: &Path) -> impl Fn(anyhow::Error) -> Error + Copy {
    move |error| Error::Invalid(findings::relative_in_text(&format!("{error:#}"), workspace))
}
