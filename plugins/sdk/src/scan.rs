//! Trees in bulk: the host lists and reads, the plugin looks at whole files.

use crate::bindings::cofferdam::host::scan as host;
use crate::{ToolError, WorkspacePath};

pub use host::{File, Query};

/// How much the host is asked for at once, in bytes. Larger batches measured slower.
const BATCH: u32 = 256 * 1024;

/// How many files are listed at once.
const LISTING: u32 = 4096;

/// Everything below `root` but what ignore rules and a leading dot hide.
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
    /// Lists the tree; nothing is read yet.
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

    /// Sizes and times of all files found, without reading them.
    pub fn files(&self) -> impl Iterator<Item = File> {
        (0..self.0.count()).step_by(LISTING as usize).flat_map(|from| self.0.files(from, LISTING))
    }

    /// Shows `look` every file in path order, until it answers `false`. The path is asked for
    /// only where it is needed: it costs a call.
    pub fn each(&self, mut look: impl FnMut(&dyn Fn() -> String, &[u8]) -> bool) {
        loop {
            let batch = self.0.next(BATCH);
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

    /// How many files were left out so far because they could not be read.
    pub fn unreadable(&self) -> usize {
        self.0.unreadable() as usize
    }
}
