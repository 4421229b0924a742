//! Filling a directory that no other program uses yet, such as that of a clone, which gets its name when it
//! is complete. So each file is created at its place, without a transaction, and all of them are synced at
//! once.
//!
//! Leaves out: the content of files, and what becomes of the directory after an error.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use cofferdam_core::policy::{OWN, protected};
use rustix::fs::OFlags;

use crate::disk;
use crate::disk::StatFields as _;
use crate::error::CommitError;
use crate::overlay::ExecutedFile;
use crate::workspace::Workspace;

/// A workspace without files, to be filled.
#[derive(Clone, Copy)]
pub struct NewTree<'a>(&'a Workspace);

/// Creates files, links and directories of a [`NewTree`]. Several of them can do so at the same time.
pub struct NewFiles<'a> {
    workspace: &'a Workspace,
    /// The directory of the latest file, open: mostly, the next file is in it as well.
    directory: Option<(String, OwnedFd)>,
}

impl<'a> NewTree<'a> {
    /// Begins to fill a workspace.
    ///
    /// # Errors
    /// `DirectoryNotEmpty` if it has anything but the host's own directory; I/O errors.
    pub fn begin(workspace: &'a Workspace) -> io::Result<Self> {
        for entry in disk::entries(&**workspace.disk())? {
            if entry?.name != OWN {
                return Err(io::ErrorKind::DirectoryNotEmpty.into());
            }
        }
        Ok(Self(workspace))
    }

    /// Creates files, links and directories.
    pub fn files(self) -> NewFiles<'a> {
        NewFiles { workspace: self.0, directory: None }
    }

    /// Checks what was created as a commit is checked, and waits until it is on the disk. Returns the
    /// files that other programs execute by their names.
    ///
    /// # Errors
    /// [`CommitError::Protected`] if git takes one of the directories for a repository;
    /// [`CommitError::Io`].
    pub fn finish(
        self,
        directories: &[&str],
        files: &[&str],
        links: &[&str],
    ) -> Result<Vec<ExecutedFile>, CommitError> {
        let tree = self.0.plain();
        let places = [directories, files, links].concat();
        if let Some((place, why)) = tree.made_repository(places.into_iter()) {
            return Err(CommitError::Protected { place, why });
        }
        let mut executed = tree.executed_by_names(&[files, links].concat(), links);
        executed.sort_unstable_by(|left, right| left.path.cmp(&right.path));
        disk::sync_file_system(tree.disk()).map_err(|source| about("", source))?;
        Ok(executed)
    }
}

impl NewFiles<'_> {
    /// Creates a directory, whose parent exists.
    ///
    /// # Errors
    /// [`CommitError::Protected`]; [`CommitError::Io`], also if there is something at the place.
    pub fn create_directory(&mut self, place: &str) -> Result<(), CommitError> {
        self.create(place, |directory, name| {
            disk::create_directory(directory, name, disk::DEFAULT_MODE)
        })
    }

    /// Creates an empty file, for reading and writing. `is_executable`: all who may read it may also
    /// execute it.
    ///
    /// # Errors
    /// As for [`NewFiles::create_directory`].
    pub fn create_file(&mut self, place: &str, is_executable: bool) -> Result<File, CommitError> {
        self.create(place, |directory, name| {
            let file = disk::create(directory, name)?;
            if is_executable {
                let mode = rustix::fs::fstat(&file)?.mode() & 0o777;
                rustix::fs::fchmod(&file, disk::permissions(disk::executable(mode)))?;
            }
            Ok(file)
        })
    }

    /// Creates a symbolic link. The caller checks the target.
    ///
    /// # Errors
    /// As for [`NewFiles::create_directory`].
    pub fn create_link(&mut self, target: &str, place: &str) -> Result<(), CommitError> {
        self.create(place, |directory, name| disk::create_link(directory, name, target))
    }

    fn create<T>(
        &mut self,
        place: &str,
        make: impl FnOnce(BorrowedFd<'_>, &str) -> io::Result<T>,
    ) -> Result<T, CommitError> {
        if let Some(why) = protected(place) {
            return Err(CommitError::Protected { place: place.to_owned(), why: why.to_owned() });
        }
        let (directory, name) = disk::split(place);
        let made = self.directory(directory).and_then(|directory| make(directory, name));
        made.map_err(|source| about(place, source))
    }

    fn directory(&mut self, place: &str) -> io::Result<BorrowedFd<'_>> {
        let open = match self.directory.take().filter(|(open, _)| open == place) {
            Some(open) => open,
            None => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                (place.to_owned(), disk::open(&**self.workspace.disk(), place, flags)?)
            }
        };
        Ok(self.directory.insert(open).1.as_fd())
    }
}

fn about(place: &str, source: io::Error) -> CommitError {
    let place = if place.is_empty() { "the workspace" } else { place };
    CommitError::Io { place: place.to_owned(), source }
}
