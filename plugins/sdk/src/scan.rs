//! Reads directory trees in bulk: the host lists and reads the files, the plugin gets their
//! contents.

use crate::bindings::cofferdam::host::scan as host;
use crate::{ToolError, WorkspacePath};

pub use host::{File, Query};

/// The number of bytes requested at once. Larger batches measured slower.
const BATCH_BYTES: u32 = 256 * 1024;

/// The number of files listed at once.
const FILES_PER_LIST: u32 = 4096;

/// A query for all files below `root`, except those that ignore files exclude and hidden ones.
pub fn query(root: &WorkspacePath) -> Query {
    Query {
        root: root.as_str().to_owned(),
        globs: Vec::new(),
        exclude_globs: Vec::new(),
        types: Vec::new(),
        ignore_files: true,
        hidden: false,
        follow_links: false,
        max_file_size: None,
    }
}

/// The files that a [`Query`] found, in path order.
pub struct Scanner(host::Scanner);

impl Scanner {
    /// Lists the tree; files are not read yet.
    ///
    /// # Errors
    /// `PathNotFound`, `InvalidPattern` or `PermissionError`.
    pub fn open(query: &Query) -> Result<Self, ToolError> {
        host::Scanner::open(query).map(Self).map_err(|error| match error {
            host::Error::NotFound(message) => ToolError::not_found("PathNotFound", message),
            host::Error::Invalid(message) => ToolError::invalid_args("InvalidPattern", message),
            host::Error::Denied(message) => ToolError::denied("PermissionError", message),
        })
    }

    /// How many files were found.
    pub fn count(&self) -> usize {
        self.0.count() as usize
    }

    /// The files with sizes and times, without their contents.
    pub fn files(&self) -> impl Iterator<Item = File> {
        (0..self.0.count())
            .step_by(FILES_PER_LIST as usize)
            .flat_map(|from| self.0.files(from, FILES_PER_LIST))
    }

    /// Calls `look` with the path and the contents of each file in path order, until it returns
    /// `false`. Getting the path costs a call into the host, so it is a function.
    pub fn each(&self, mut look: impl FnMut(&dyn Fn() -> String, &[u8]) -> bool) {
        loop {
            let batch = self.0.next(BATCH_BYTES);
            if batch.ids.is_empty() {
                return;
            }
            let mut start = 0;
            for (&id, &end) in batch.ids.iter().zip(&batch.ends) {
                let end = end as usize;
                if !look(&|| self.0.path(id), &batch.data[start..end]) {
                    return;
                }
                start = end;
            }
        }
    }

    /// The number of files left out so far because they could not be read.
    pub fn unreadable(&self) -> usize {
        self.0.unreadable() as usize
    }
}
