//! What tests share.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;

use cofferdam_sdk::Context;
use ruff_db::system::{SystemPath, SystemPathBuf};
use tempfile::TempDir;

use crate::system::Workspace;

/// A workspace with files.
#[derive(Debug)]
pub struct Files(TempDir);

impl Files {
    /// Writes files to a new workspace.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let directory = Self(TempDir::new().unwrap());
        for (path, text) in files {
            directory.write(path, text);
        }
        directory
    }

    /// Writes a file.
    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap().as_std_path()).unwrap();
        fs::write(path.as_std_path(), contents).unwrap();
    }

    /// The path of a file or directory.
    pub fn path(&self, path: &str) -> SystemPathBuf {
        let root = SystemPath::from_std_path(self.0.path()).unwrap();
        if path.is_empty() { root.to_path_buf() } else { root.join(path) }
    }

    /// The workspace as ty sees it.
    pub fn workspace(&self) -> Workspace {
        Workspace::new(&self.path(""), &self.path(""))
    }

    /// The workspace as the plugin sees it.
    pub fn context(&self) -> Context {
        Context::for_directory(self.0.path())
    }
}
