//! What a directory holds, entry by entry.

use std::ffi::OsString;
use std::vec;

use rustix::fs::FileType;
use wasmtime_wasi::p2::bindings::sync::filesystem::types;

/// The rest of a listing.
pub(super) struct Listing(vec::IntoIter<types::DirectoryEntry>);

impl Listing {
    /// The entries of the directory at `place`. WASI's names are UTF-8, and the libraries of most
    /// languages end a listing at the first error: a name that is none is left out, with a warning.
    pub(super) fn new(place: &str, entries: Vec<(OsString, FileType)>) -> Self {
        let entry = |(name, kind): (OsString, FileType)| match name.into_string() {
            Ok(name) => Some(types::DirectoryEntry { type_: descriptor_type(kind), name }),
            Err(name) => {
                let place = if place.is_empty() { "." } else { place };
                tracing::warn!("{place}: no plugin sees {name:?}: the name is not UTF-8");
                None
            }
        };
        Self(entries.into_iter().filter_map(entry).collect::<Vec<_>>().into_iter())
    }

    pub(super) fn next(&mut self) -> Option<types::DirectoryEntry> {
        self.0.next()
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
