//! Finds the files to lint: those that are named, and those in named directories that the settings
//! include.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use cofferdam_sdk::scan::{self, Query};
use cofferdam_sdk::{Context, ToolError, WorkspacePath};
use ruff_workspace::resolver::{match_any_exclusion, match_exclusion};

use crate::settings::Hierarchy;

/// Lists the files of a tree, relative to the workspace.
pub type List<'a> = &'a dyn Fn(&Tree) -> Result<Vec<String>, ToolError>;

/// A directory whose files are listed.
#[derive(Debug)]
pub struct Tree {
    /// The path of the directory.
    pub root: WorkspacePath,
    /// Whether .gitignore files are respected.
    pub ignore_files: bool,
}

impl Tree {
    /// The query for the host.
    pub fn query(&self) -> Query {
        // Ruff lints hidden files too. Exclusions are applied by its own settings, except for
        // directories of version control, which no configuration includes.
        Query {
            hidden: true,
            ignore_files: self.ignore_files,
            exclude_globs: [".git", ".hg", ".svn"].map(str::to_owned).into(),
            ..scan::query(&self.root)
        }
    }
}

/// A file to lint.
#[derive(Debug)]
pub struct File {
    /// The path under which this process opens it.
    pub path: PathBuf,
    /// Whether the request names the file itself instead of a directory above it.
    pub named: bool,
}

/// Why the files could not be found.
#[derive(Debug)]
pub enum Error {
    /// A directory can't be listed.
    Listing(ToolError),
    /// A path or a configuration is invalid.
    Other(anyhow::Error),
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::Other(error)
    }
}

/// Finds the files for `paths`, in order and without duplicates.
///
/// # Errors
/// See [`Error`].
pub fn find(
    paths: &[WorkspacePath],
    settings: &mut Hierarchy,
    context: &Context,
    list: List,
) -> Result<Vec<File>, Error> {
    let mut found: BTreeMap<PathBuf, bool> = BTreeMap::new();
    for path in paths {
        let local = context.local(path);
        let metadata = local
            .metadata()
            .map_err(|error| anyhow!(ToolError::io(&path.to_string(), &error).message))?;
        if settings.base().file_resolver.force_exclude && is_named_excluded(&local, settings)? {
            continue;
        }
        if metadata.is_dir() {
            for file in beneath(path, settings, context, list)? {
                found.entry(file).or_insert(false);
            }
        } else {
            found.insert(local, true);
        }
    }
    Ok(found.into_iter().map(|(path, named)| File { path, named }).collect())
}

/// The files in a directory that the settings include.
fn beneath(
    directory: &WorkspacePath,
    settings: &mut Hierarchy,
    context: &Context,
    list: List,
) -> Result<Vec<PathBuf>, Error> {
    let ignore_files = settings.base().file_resolver.respect_gitignore;
    let tree = Tree { root: directory.clone(), ignore_files };
    let workspace = context.local(&context.resolve(".").map_err(Error::Listing)?);
    let root = context.local(directory);
    let mut excluded = HashMap::new();
    let mut files = Vec::new();
    for file in list(&tree).map_err(Error::Listing)? {
        let file = workspace.join(file);
        if !is_excluded(&file, &root, settings, &mut excluded)? && is_included(&file, settings)? {
            files.push(file);
        }
    }
    Ok(files)
}

/// Whether the settings exclude a file, or a directory between it and `root`.
fn is_excluded(
    file: &Path,
    root: &Path,
    settings: &mut Hierarchy,
    directories: &mut HashMap<PathBuf, bool>,
) -> anyhow::Result<bool> {
    let below_root: Vec<&Path> =
        file.ancestors().skip(1).take_while(|directory| *directory != root).collect();
    for directory in below_root.into_iter().rev() {
        let is_excluded = match directories.get(directory) {
            Some(is_excluded) => *is_excluded,
            None => {
                let is_excluded = is_entry_excluded(directory, settings)?;
                directories.insert(directory.to_owned(), is_excluded);
                is_excluded
            }
        };
        if is_excluded {
            return Ok(true);
        }
    }
    is_entry_excluded(file, settings)
}

fn is_entry_excluded(path: &Path, settings: &mut Hierarchy) -> anyhow::Result<bool> {
    let settings = settings.of(path)?;
    let name = path.file_name().unwrap_or_default();
    Ok([&settings.file_resolver.exclude, &settings.file_resolver.extend_exclude]
        .into_iter()
        .any(|exclusion| match_exclusion(path, name, exclusion)))
}

/// Whether a path in the request is excluded nevertheless, by the setting `force-exclude`.
fn is_named_excluded(path: &Path, settings: &mut Hierarchy) -> anyhow::Result<bool> {
    let settings = settings.of(path)?;
    Ok(match_any_exclusion(path, &settings.file_resolver, None, None).is_some())
}

fn is_included(path: &Path, settings: &mut Hierarchy) -> anyhow::Result<bool> {
    let settings = settings.of(path)?;
    let resolver = &settings.file_resolver;
    Ok(resolver.include.is_match(path) || resolver.extend_include.is_match(path))
}
