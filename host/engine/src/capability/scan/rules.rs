//! Checks ignore files before the walk compiles them. They come from the workspace and are not
//! trusted: the glob compiler uses stack for each nested alternative, and opening a FIFO or a
//! device would block.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ignore::DirEntry;

use cofferdam_workspace::Workspace;
use cofferdam_workspace::ignore_files::{
    IGNORE_FILES, MAX_IGNORE_FILE_BYTES, NOT_A_FILE, TOO_COMPLEX, is_unusable,
};

/// The maximum number of files of a listing: about 200 MB of paths.
pub(super) const MAX_FILES: usize = 1_000_000;

/// The maximum size of an ignore file that can't nest too deeply, in bytes.
const HARMLESS_BYTES: u64 = 512;

/// Checks the ignore files of the directories of a walk.
#[derive(Clone)]
pub(super) struct Rules {
    workspace: Arc<Workspace>,
    problem: Arc<Mutex<Option<String>>>,
}

impl Rules {
    pub(super) fn new(workspace: &Arc<Workspace>) -> Self {
        Self { workspace: Arc::clone(workspace), problem: Arc::default() }
    }

    /// Checks the start directory of a walk and its parents.
    pub(super) fn look_above(&self, start: &Path) {
        for directory in
            start.ancestors().take_while(|path| path.starts_with(self.workspace.path()))
        {
            self.look_in(directory);
        }
    }

    /// Whether the walk may enter a directory.
    pub(super) fn allow(&self, entry: &DirEntry) -> bool {
        let goes_in = entry.file_type().is_some_and(|kind| kind.is_dir());
        !goes_in || self.look_in(entry.path())
    }

    /// The first ignore file that can't be used, and the problem.
    pub(super) fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn look_in(&self, directory: &Path) -> bool {
        let problem = IGNORE_FILES.iter().find_map(|name| self.look_at(&directory.join(name)));
        let is_fine = problem.is_none();
        if let Some(problem) = problem {
            self.problem.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(problem);
        }
        is_fine
    }

    /// The problem of one ignore file; `None` if it does not exist or has no problem.
    fn look_at(&self, path: &Path) -> Option<String> {
        // Most directories have no ignore files, and this is the cheapest check.
        let stat = rustix::fs::lstat(path).ok()?;
        let is_file = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        if is_file && stat.st_size.unsigned_abs() <= HARMLESS_BYTES {
            return None;
        }
        let path = path.strip_prefix(self.workspace.path()).ok()?;
        let wrong = |what: &str| Some(format!("{} {what}", path.display()));
        let Ok(file) = self.workspace.open_read(path) else {
            return wrong("is no file of the workspace's; remove it, or scan without ignore files");
        };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return wrong(NOT_A_FILE);
        }
        let mut text = Vec::new();
        let read = file.take(MAX_IGNORE_FILE_BYTES + 1).read_to_end(&mut text);
        if read.is_err() || is_unusable(&text) { wrong(TOO_COMPLEX) } else { None }
    }
}
