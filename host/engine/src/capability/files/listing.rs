//! Listings of directories.

use std::vec;

use rustix::fs::FileType;
use wasmtime_wasi::p2::bindings::sync::filesystem::types;

use cofferdam_workspace::Listed;

/// The remaining entries of a listing.
pub(super) struct Listing {
    /// Device and inode of the directory.
    directory: (u64, u64),
    entries: vec::IntoIter<(types::DirectoryEntry, Option<u64>)>,
}

/// The entry of a directory that was returned last.
pub(super) struct Latest {
    directory: (u64, u64),
    name: String,
    inode: u64,
}

impl Listing {
    /// The entries of the directory at `place`. Names that are not UTF-8 are left out, with a
    /// warning: WASI's names are UTF-8, and the libraries of most languages end a listing at the
    /// first error.
    pub(super) fn new(place: &str, directory: (u64, u64), entries: Vec<Listed>) -> Self {
        let entry = |Listed { name, kind, inode }: Listed| match name.into_string() {
            Ok(name) => Some((types::DirectoryEntry { type_: descriptor_type(kind), name }, inode)),
            Err(name) => {
                let place = if place.is_empty() { "." } else { place };
                tracing::warn!("{place}: no plugin sees {name:?}: the name is not UTF-8");
                None
            }
        };
        let entries: Vec<_> = entries.into_iter().filter_map(entry).collect();
        Self { directory, entries: entries.into_iter() }
    }

    /// The next entry, and its identity for [`Latest`].
    pub(super) fn next(&mut self) -> Option<(types::DirectoryEntry, Option<Latest>)> {
        let (entry, inode) = self.entries.next()?;
        let directory = self.directory;
        let latest = inode.map(|inode| Latest { directory, name: entry.name.clone(), inode });
        Some((entry, latest))
    }
}

impl Latest {
    /// The device and inode of this entry, if it is the one of that name in that directory.
    pub(super) fn is(&self, directory: (u64, u64), name: &str) -> Option<(u64, u64)> {
        (self.directory == directory && self.name == name).then_some((directory.0, self.inode))
    }
}

pub(super) fn descriptor_type(kind: FileType) -> types::DescriptorType {
    match kind {
        FileType::RegularFile => types::DescriptorType::RegularFile,
        FileType::Directory => types::DescriptorType::Directory,
        FileType::Symlink => types::DescriptorType::SymbolicLink,
        FileType::Fifo => types::DescriptorType::Fifo,
        FileType::Socket => types::DescriptorType::Socket,
        FileType::CharacterDevice => types::DescriptorType::CharacterDevice,
        FileType::BlockDevice => types::DescriptorType::BlockDevice,
        FileType::Unknown => types::DescriptorType::Unknown,
    }
}
