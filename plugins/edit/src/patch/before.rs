//! The state of the workspace before the patch: source files, and whether targets are free.

use std::collections::BTreeSet;
use std::{fs, io};

use cofferdam_sdk::{Context, ToolError, WorkspacePath};

use super::{FilePatch, Kind, Operation};
use crate::paths::editable;

/// What exists at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    File,
    Link,
    Directory,
}

/// Whether a path is free for a new entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Nothing exists at the path.
    Free,
    /// Only files exist there that the patch removes, in these directories, which are listed with
    /// the innermost first.
    Vacated(Vec<WorkspacePath>),
    /// Something exists that the patch does not remove; the string describes it.
    Taken(String),
}

/// The workspace, with the set of paths that the patch removes.
pub(super) struct Before<'a> {
    context: &'a Context,
    removed: BTreeSet<WorkspacePath>,
}

impl<'a> Before<'a> {
    /// Collects the paths that the patch removes.
    ///
    /// # Errors
    /// `PathNotAllowed` for a file that may not be edited.
    pub(super) fn new(context: &'a Context, files: &[FilePatch]) -> Result<Self, ToolError> {
        let removed = files.iter().filter_map(|file| match &file.operation {
            Operation::Delete(name) | Operation::Rename { from: name, .. } => Some(name),
            _ => None,
        });
        let removed = removed.map(|name| editable(context, name)).collect::<Result<_, _>>()?;
        Ok(Self { context, removed })
    }

    /// What exists at `path`; a symbolic link is not followed.
    ///
    /// # Errors
    /// As [`ToolError::io`].
    pub(super) fn find(&self, path: &WorkspacePath) -> Result<Found, ToolError> {
        match self.context.local(path).symlink_metadata() {
            Ok(metadata) if metadata.is_symlink() => Ok(Found::Link),
            Ok(metadata) if metadata.is_dir() => Ok(Found::Directory),
            Ok(_) => Ok(Found::File),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                Ok(Found::Nothing)
            }
            Err(error) => Err(ToolError::io(path.as_str(), &error)),
        }
    }

    /// The kind of a file that the patch reads. Symbolic links above it are an error, so that a
    /// patch changes only files whose paths it names.
    ///
    /// # Errors
    /// `PathNotAllowed` below a link; `FileNotFoundError`, `IsADirectoryError`; those of
    /// [`Before::find`].
    pub(super) fn source(&self, path: &WorkspacePath) -> Result<Kind, ToolError> {
        for parent in path.parents() {
            if self.find(&parent)? == Found::Link {
                return Err(behind_a_link(path, &parent));
            }
        }
        match self.find(path)? {
            Found::File => Ok(Kind::File),
            Found::Link => Ok(Kind::Link),
            Found::Directory => Err(ToolError::is_a_directory(path.as_str())),
            Found::Nothing => Err(ToolError::io(path.as_str(), &io::ErrorKind::NotFound.into())),
        }
    }

    /// Checks whether the patch can create something at `path`.
    ///
    /// # Errors
    /// `PathNotAllowed` below a link that the patch does not remove; those of [`Before::find`].
    pub(super) fn target(&self, path: &WorkspacePath) -> Result<Place, ToolError> {
        for parent in path.parents() {
            if self.removed.contains(&parent) {
                return Ok(Place::Vacated(Vec::new()));
            }
            match self.find(&parent)? {
                Found::Directory => {}
                Found::Nothing => return Ok(Place::Free),
                Found::Link => return Err(behind_a_link(path, &parent)),
                Found::File => {
                    return Ok(Place::Taken(format!("{parent} is a file, not a directory")));
                }
            }
        }
        if self.removed.contains(path) {
            return Ok(Place::Vacated(Vec::new()));
        }
        let taken = || Place::Taken("it exists already".to_owned());
        Ok(match self.find(path)? {
            Found::Nothing => Place::Free,
            Found::Directory => self.emptied(path)?.map_or_else(taken, Place::Vacated),
            Found::File | Found::Link => taken(),
        })
    }

    /// A directory and its subdirectories, if the patch removes all files in them.
    fn emptied(&self, top: &WorkspacePath) -> Result<Option<Vec<WorkspacePath>>, ToolError> {
        let mut directories = vec![top.clone()];
        let mut done = 0;
        while let Some(directory) = directories.get(done).cloned() {
            let error = |error| ToolError::io(directory.as_str(), &error);
            for entry in fs::read_dir(self.context.local(&directory)).map_err(error)? {
                let entry = entry.map_err(error)?;
                let name = entry.file_name();
                let Some(name) = name.to_str() else { return Ok(None) };
                let path = self.context.resolve(&format!("{directory}/{name}"))?;
                if entry.file_type().map_err(error)?.is_dir() {
                    directories.push(path);
                } else if !self.removed.contains(&path) {
                    return Ok(None);
                }
            }
            done += 1;
        }
        directories.reverse();
        Ok(Some(directories))
    }
}

fn behind_a_link(path: &WorkspacePath, link: &WorkspacePath) -> ToolError {
    ToolError::denied(
        "PathNotAllowed",
        format!("patch failed: {path}: {link} is a symbolic link, which no patch may follow"),
    )
}
