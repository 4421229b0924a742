//! The plugin `ruff`: Python's linter ruff, compiled into this component.
//!
//! The rules and the configuration are ruff's own code. This plugin replaces the rest of the
//! program `ruff check`: it finds the files, finds the settings of each, and converts diagnostics
//! to findings. Not supported are notebooks, whose cells do not correspond to bytes of the file,
//! and the rules about executable files (EXE001, EXE002), since WASI has no permissions.

mod check;
mod files;
mod findings;
mod fix;
mod nesting;
mod offer;
mod settings;

use std::io;
use std::path::{Path, PathBuf};

use cofferdam_sdk::backend::linting::{Report, Request};
use cofferdam_sdk::backend::parts::{self, Part};
use cofferdam_sdk::backend::{Error, Linter};
use cofferdam_sdk::scan::Scanner;
use cofferdam_sdk::{Context, ToolError, WorkspacePath, linter};

pub use files::{List, Tree};

/// Ruff allocates many small values; the target's own allocator takes longer for them.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// The plugin: a linter for Python.
pub struct Ruff;

impl Linter for Ruff {
    fn version(_: &str, _: &Context) -> Result<String, Error> {
        Ok(ruff_linter::VERSION.to_owned())
    }

    fn lint(_: &str, request: &Request, context: &Context) -> Result<Report, Error> {
        lint(request, parts::current(), context, &|tree| {
            Ok(Scanner::open(&tree.query())?.files().map(|file| file.path).collect())
        })
    }
}

linter!(Ruff);

/// Lints a part of the files of a request; `list` lists directories.
///
/// # Errors
/// `Invalid` if a path or the configuration is invalid; `Failed` if the files can't be listed.
pub fn lint(request: &Request, part: Part, context: &Context, list: List) -> Result<Report, Error> {
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
    let mut report = findings::Collector::new(&workspace);
    check::check(&files, part, &mut settings, |checked| report.add(&checked))
        .map_err(invalid(&workspace))?;
    Ok(report.finish())
}

/// Resolves a path of the request.
fn resolve(path: &str, context: &Context) -> Result<WorkspacePath, Error> {
    context.resolve(path).map_err(|error| Error::Invalid(error.message))
}

/// Sets the current directory, from which ruff resolves some paths of a configuration. An instance
/// serves only one request, so this affects no other.
#[expect(clippy::disallowed_methods, reason = "ruff reads it, and nothing else does")]
fn enter(root: &Path) -> io::Result<()> {
    std::env::set_current_dir(root)
}

/// Resolves the configuration file that the request names.
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

/// Converts an error about a request, with paths as the caller knows them.
fn invalid(workspace: &Path) -> impl Fn(anyhow::Error) -> Error + Copy {
    move |error| Error::Invalid(findings::relative_in_text(&format!("{error:#}"), workspace))
}
