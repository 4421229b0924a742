//! The changes that a checked patch makes, and making them.

use std::fs;

use cofferdam_sdk::{Context, ToolError, WorkspacePath};

/// All changes of a patch. They are made in the order of the fields, so that a file can take the
/// path of a removed one regardless of the order in the patch. Links are created after files, so
/// that nothing is written through them. Directories that are left empty are removed last.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Files and links to remove.
    pub(super) removals: Vec<WorkspacePath>,
    /// Files and links to rename; the new paths are free.
    pub(super) renames: Vec<(WorkspacePath, WorkspacePath)>,
    /// Directories to remove, which are empty by then, the innermost first.
    pub(super) directories: Vec<WorkspacePath>,
    /// Files to write, with their contents.
    pub(super) writes: Vec<(WorkspacePath, Vec<u8>)>,
    /// Files to make executable or not executable.
    pub(super) modes: Vec<(WorkspacePath, bool)>,
    /// Symbolic links to create, with their targets.
    pub(super) links: Vec<(WorkspacePath, String)>,
}

impl Changes {
    /// Makes all changes in order.
    ///
    /// # Errors
    /// Those of [`ToolError::io`], for the first change that fails; earlier ones stay.
    pub(super) fn apply(self, context: &Context) -> Result<(), ToolError> {
        for path in &self.removals {
            context.remove(path)?;
        }
        for (source, target) in &self.renames {
            context.rename(source, target)?;
        }
        for path in &self.directories {
            fs::remove_dir(context.local(path))
                .map_err(|error| ToolError::io(path.as_str(), &error))?;
        }
        for (path, contents) in &self.writes {
            context.write(path, contents)?;
        }
        for (path, executable) in &self.modes {
            context.set_executable(path, *executable)?;
        }
        for (path, target) in &self.links {
            context.create_link(path, target)?;
        }
        let sources = self.renames.iter().map(|(source, _)| source);
        for path in self.removals.iter().chain(sources) {
            remove_emptied(path, context);
        }
        Ok(())
    }
}

/// Removes the directories above a removed file that are empty now, as git does. Those that may not
/// be removed stay.
fn remove_emptied(path: &WorkspacePath, context: &Context) {
    let parents: Vec<WorkspacePath> = path.parents().collect();
    for parent in parents.iter().rev() {
        let local = context.local(parent);
        let is_empty = fs::read_dir(&local).is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty || fs::remove_dir(local).is_err() {
            break;
        }
    }
}
