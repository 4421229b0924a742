//! The files that ty sees: those of the workspace, read-only, or some texts.

use std::any::Any;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use ruff_db::file_revision::FileRevision;
use ruff_db::system::walk_directory::{
    DirectoryWalker, IgnoreIncremental, WalkDirectoryBuilder, WalkDirectoryConfiguration,
    WalkDirectoryVisitorBuilder,
};
use ruff_db::system::{
    DirectoryEntry, FileType, Metadata, Result, System, SystemPath, SystemPathBuf,
    SystemVirtualPath, WhichError, WhichResult, WritableSystem,
};
use ruff_notebook::{Notebook, NotebookError};

use crate::nesting;

/// The maximum size of a file, in bytes. The syntax tree of a file takes many times its size.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// The workspace as ty reads it. There are no programs, no environment, and nothing can be written.
#[derive(Debug, Clone)]
pub struct Workspace {
    root: SystemPathBuf,
    current_directory: SystemPathBuf,
    /// The texts that take the place of all files.
    texts: Option<Arc<Mutex<BTreeMap<SystemPathBuf, String>>>>,
}

impl Workspace {
    /// The files below `root`; relative paths start at `current_directory`.
    pub fn new(root: &SystemPath, current_directory: &SystemPath) -> Self {
        let (root, current_directory) = (root.to_path_buf(), current_directory.to_path_buf());
        Self { root, current_directory, texts: None }
    }

    /// A workspace that has texts instead of files, of which there are none yet.
    pub fn of_texts(root: &SystemPath) -> Self {
        Self { texts: Some(Arc::default()), ..Self::new(root, root) }
    }

    /// Adds a text to a workspace of texts.
    pub fn add_text(&self, path: SystemPathBuf, text: String) {
        if let Some(texts) = &self.texts {
            texts.lock().unwrap_or_else(PoisonError::into_inner).insert(path, text);
        }
    }

    /// The text at a path; `None` in a workspace of files.
    fn text(&self, path: &SystemPath) -> Option<Result<String>> {
        let texts = self.texts.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(texts.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()))
    }

    /// The directory of the workspace.
    pub fn root(&self) -> &SystemPath {
        &self.root
    }

    /// Resolves a path of a configuration in `directory`; `None` if it leads out of the workspace.
    pub fn resolve(&self, path: &str, directory: &SystemPath) -> Option<SystemPathBuf> {
        let path = SystemPath::absolute(path, directory);
        path.starts_with(&self.root).then_some(path)
    }

    /// The names and types of the entries of a directory; empty if it can't be read.
    pub fn entries(&self, directory: &SystemPath) -> Vec<DirectoryEntry> {
        let entries = self.read_directory(directory).into_iter().flatten();
        entries.filter_map(Result::ok).collect()
    }
}

impl System for Workspace {
    fn path_metadata(&self, path: &SystemPath) -> Result<Metadata> {
        if self.texts.is_some() && *path == *self.root {
            return Ok(Metadata::new(FileRevision::default(), None, FileType::Directory));
        }
        if let Some(text) = self.text(path) {
            return text.map(|_| Metadata::new(FileRevision::default(), None, FileType::File));
        }
        let metadata = fs::metadata(path.as_std_path())?;
        let file_type = match metadata.file_type() {
            kind if kind.is_file() => FileType::File,
            kind if kind.is_dir() => FileType::Directory,
            // A FIFO, a socket or a device: reading it might block.
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        // Files do not change during a call.
        Ok(Metadata::new(FileRevision::default(), None, file_type))
    }

    fn canonicalize_path(&self, path: &SystemPath) -> Result<SystemPathBuf> {
        Ok(SystemPath::absolute(path, &self.current_directory))
    }

    fn is_same_file(&self, first: &SystemPath, second: &SystemPath) -> Result<bool> {
        Ok(self.canonicalize_path(first)? == self.canonicalize_path(second)?)
    }

    fn which(&self, _: &str) -> WhichResult {
        Err(WhichError::CannotFindBinaryPath)
    }

    fn read_to_string(&self, path: &SystemPath) -> Result<String> {
        if let Some(text) = self.text(path) {
            return nesting::checked(text?);
        }
        let metadata = fs::metadata(path.as_std_path())?;
        if !metadata.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        if metadata.len() > MAX_FILE_BYTES {
            let most = MAX_FILE_BYTES >> 20;
            return Err(io::Error::other(format!("the file is larger than {most} MiB")));
        }
        let text = fs::read_to_string(path.as_std_path())?;
        match path.extension() {
            Some("py" | "pyi") => nesting::checked(text),
            _ => Ok(text),
        }
    }

    fn read_to_notebook(&self, _: &SystemPath) -> std::result::Result<Notebook, NotebookError> {
        Err(io::Error::from(io::ErrorKind::Unsupported).into())
    }

    fn read_virtual_path_to_string(&self, _: &SystemVirtualPath) -> Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read_virtual_path_to_notebook(
        &self,
        _: &SystemVirtualPath,
    ) -> std::result::Result<Notebook, NotebookError> {
        Err(io::Error::from(io::ErrorKind::NotFound).into())
    }

    fn current_directory(&self) -> &SystemPath {
        &self.current_directory
    }

    fn user_config_directory(&self) -> Option<SystemPathBuf> {
        None
    }

    fn cache_dir(&self) -> Option<SystemPathBuf> {
        None
    }

    fn read_directory<'a>(
        &'a self,
        path: &SystemPath,
    ) -> Result<Box<dyn Iterator<Item = Result<DirectoryEntry>> + 'a>> {
        if let Some(texts) = &self.texts {
            let texts = texts.lock().unwrap_or_else(PoisonError::into_inner);
            let inside = texts.keys().filter(|text| text.parent() == Some(path));
            let entry =
                |text: &SystemPathBuf| Ok(DirectoryEntry::new(text.clone(), FileType::File));
            let entries: Vec<Result<DirectoryEntry>> = inside.map(entry).collect();
            return Ok(Box::new(entries.into_iter()));
        }
        let entries = fs::read_dir(path.as_std_path())?;
        Ok(Box::new(entries.map(|entry| {
            let entry = entry?;
            let path = SystemPathBuf::from_path_buf(entry.path())
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            let file_type = match entry.file_type()? {
                kind if kind.is_symlink() => FileType::Symlink,
                kind if kind.is_dir() => FileType::Directory,
                kind if kind.is_file() => FileType::File,
                // As above; ty asks for the metadata of a symbolic link, which is an error.
                _ => FileType::Symlink,
            };
            Ok(DirectoryEntry::new(path, file_type))
        })))
    }

    fn walk_directory(&self, path: &SystemPath) -> WalkDirectoryBuilder {
        WalkDirectoryBuilder::new(path, NoWalk)
    }

    fn as_writable(&self) -> Option<&dyn WritableSystem> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn dyn_clone(&self) -> Box<dyn System> {
        Box::new(self.clone())
    }
}

/// Visits nothing: the host lists the files to check, and ty's engine walks no directories.
#[derive(Debug)]
struct NoWalk;

impl DirectoryWalker for NoWalk {
    fn walk(&self, _: &mut dyn WalkDirectoryVisitorBuilder, _: WalkDirectoryConfiguration) {}

    fn incremental_matcher(&self, _: WalkDirectoryConfiguration) -> Box<dyn IgnoreIncremental> {
        Box::new(Self)
    }
}

impl IgnoreIncremental for NoWalk {
    fn is_ignored(&mut self, _: &SystemPath, _: bool) -> bool {
        false
    }
}
