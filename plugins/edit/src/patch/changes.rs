//! What a patch does, once it is known to fit.

use std::fs;

use cofferdam_sdk::{Context, ToolError, WorkspacePath};

/// Changes, with everything that they need of the files before. They are made in the order of
/// the fields, so that a file may take the name of one that goes, whichever comes first in the
/// patch. Links come last: nothing is written through one that the patch itself makes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Files and links that go.
    pub(super) removals: Vec<WorkspacePath>,
    /// Files and links that move to where nothing is.
    pub(super) renames: Vec<(WorkspacePath, WorkspacePath)>,
    /// Directories that are empty by then, those within others first.
    pub(super) directories: Vec<WorkspacePath>,
    /// Files with all of their bytes.
    pub(super) writes: Vec<(WorkspacePath, Vec<u8>)>,
    /// Files that become executable or no longer are.
    pub(super) modes: Vec<(WorkspacePath, bool)>,
    /// Symbolic links and where they lead.
    pub(super) links: Vec<(WorkspacePath, String)>,
}

impl Changes {
    /// Makes the changes.
    ///
    /// # Errors
    /// Those of [`ToolError::io`], for the first change that fails; those before it are made.
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
        Ok(())
    }
}
