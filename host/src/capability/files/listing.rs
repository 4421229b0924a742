//! What a directory holds, entry by entry.

use std::vec;

use rustix::fs::FileType;
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::bindings::sync::filesystem::types;

/// The rest of a listing.
pub(super) struct Listing(vec::IntoIter<(std::ffi::OsString, FileType)>);

impl Listing {
    pub(super) fn new(entries: Vec<(std::ffi::OsString, FileType)>) -> Self {
        Self(entries.into_iter())
    }

    /// The next entry. A name that is not UTF-8 is an error of its own; the rest follows.
    pub(super) fn next(&mut self) -> FsResult<Option<types::DirectoryEntry>> {
        let Some((name, kind)) = self.0.next() else { return Ok(None) };
        let name = name.into_string().map_err(|_| ErrorCode::IllegalByteSequence)?;
        Ok(Some(types::DirectoryEntry { type_: descriptor_type(kind), name }))
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
