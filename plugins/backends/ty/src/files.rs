//! Finds the files to check: those that are named, and those in named directories that the
//! configuration includes.

use std::collections::BTreeSet;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::scan::{self, Query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use ruff_db::system::{SystemPath, SystemPathBuf};

use crate::patterns::EXCLUDED_DIRECTORIES;
use crate::settings::Settings;

/// Lists the files of a tree, relative to the workspace.
pub type List<'a> = &'a dyn Fn(&Query) -> Result<Vec<String>, ToolError>;

/// The extensions of the files that ty checks. The cells of notebooks do not correspond to bytes of
/// the file.
const EXTENSIONS: [&str; 3] = ["py", "pyi", "pyw"];

/// Finds the files for `paths`, in order and without duplicates.
///
/// # Errors
/// `Invalid` if a path does not exist; `Failed` if a directory can't be listed.
pub fn find(
    paths: &[WorkspacePath],
    settings: &Settings,
    context: &Context,
    list: List,
) -> Result<BTreeSet<SystemPathBuf>, Error> {
    let workspace = context.resolve(".").map_err(|error| Error::Invalid(error.message))?;
    let mut found = BTreeSet::new();
    for path in paths {
        let local = context.local(path);
        let metadata = local
            .metadata()
            .map_err(|error| Error::Invalid(ToolError::io(&path.to_string(), &error).message))?;
        let system = SystemPathBuf::from_path_buf(local);
        if metadata.is_dir() {
            let files =
                list(&query(path, settings)).map_err(|error| Error::Failed(error.message))?;
            let files = files.iter().map(|file| context.local(&workspace).join(file));
            let files = files.filter_map(|file| SystemPathBuf::from_path_buf(file).ok());
            found.extend(files.filter(|file| is_python(file) && settings.includes(file)));
        } else if metadata.is_file() {
            found.extend(system.ok().filter(|file| is_python(file)));
        }
    }
    Ok(found)
}

fn is_python(path: &SystemPath) -> bool {
    path.extension().is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// The query for the Python files below a directory.
fn query(root: &WorkspacePath, settings: &Settings) -> Query {
    let excluded = match settings.sources.only_excludes() {
        true => EXCLUDED_DIRECTORIES.as_slice(),
        // Only what no configuration includes again.
        false => &[".bzr", ".git", ".hg", ".svn"],
    };
    Query {
        globs: EXTENSIONS.map(|extension| format!("*.{extension}")).into(),
        exclude_globs: excluded.iter().map(|&name| name.to_owned()).collect(),
        ignore_files: settings.ignore_files,
        hidden: true,
        ..scan::query(root)
    }
}
