//! Finds the files to lint: those that are named, and those in named directories that the
//! configuration includes.

use std::collections::BTreeSet;

use cofferdam_sdk::backend::Error;
use cofferdam_sdk::scan::{self, Query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use deno_ast::MediaType;

use crate::config::Hierarchy;
use crate::invalid;

/// Lists files, relative to the workspace.
pub type List<'a> = &'a dyn Fn(&Query) -> Result<Vec<String>, ToolError>;

/// The query for the files of a directory.
pub fn query(root: &WorkspacePath) -> Query {
    let endings = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];
    Query {
        globs: endings.iter().map(|ending| format!("*.{ending}")).collect(),
        exclude_globs: vec!["node_modules".to_owned()],
        ..scan::query(root)
    }
}

/// Finds the files for `paths`, in order and without duplicates. A named file is linted unless a
/// configuration excludes it or it is in another language.
///
/// # Errors
/// `Invalid` if a path or a configuration is invalid; `Failed` if files can't be listed.
pub fn find(
    paths: &[WorkspacePath],
    hierarchy: &mut Hierarchy,
    context: &Context,
    list: List,
) -> Result<BTreeSet<WorkspacePath>, Error> {
    let mut found = BTreeSet::new();
    for path in paths {
        let metadata = context
            .local(path)
            .metadata()
            .map_err(|error| invalid(ToolError::io(&path.to_string(), &error)))?;
        if metadata.is_dir() {
            for file in list(&query(path)).map_err(|error| Error::Failed(error.message))? {
                let file = context.resolve(&file).map_err(invalid)?;
                let settings = hierarchy.of(&file)?;
                if settings.includes(file.as_str()) && !settings.excludes(file.as_str()) {
                    found.insert(file);
                }
            }
        } else if is_lintable(path) && !hierarchy.of(path)?.excludes(path.as_str()) {
            found.insert(path.clone());
        }
    }
    Ok(found)
}

fn is_lintable(path: &WorkspacePath) -> bool {
    use MediaType::{Cjs, Cts, Dcts, Dmts, Dts, JavaScript, Jsx, Mjs, Mts, Tsx, TypeScript};
    matches!(
        MediaType::from_path(path.as_str().as_ref()),
        JavaScript | Jsx | Mjs | Cjs | TypeScript | Mts | Cts | Dts | Dmts | Dcts | Tsx
    )
}
