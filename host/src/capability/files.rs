//! `wasi:filesystem` on the workspace. Open files are served by wasmtime-wasi's own code;
//! everything that takes a path is decided here first: may this call touch that place, and is
//! there something that can be opened without waiting.
//!
//! Links can't be made: nothing a plugin writes may point somewhere else.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use cap_std::fs::OpenOptions;
use wasmtime::Result;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, OpenMode, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::bindings::sync::filesystem::types;
use wasmtime_wasi::p2::bindings::sync::io::streams;
use wasmtime_wasi::p2::{FsError, FsResult};

use super::workspace::{Workspace, or_dot, without_waiting};
use crate::policy::{Capabilities, Files, Scope, protected};
use crate::runtime::CallState;

/// The name of the workspace as a plugin sees it.
const MOUNT: &str = "/workspace";

/// What one call may do with files, and the directories that it has open.
pub(crate) struct FileState {
    workspace: Arc<Workspace>,
    capabilities: Capabilities,
    scope: Scope,
    /// Where each open directory is, relative to the workspace.
    directories: HashMap<u32, String>,
}

/// What a call wants to do at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// See whether something is there; a directory above the scope will do.
    Look,
    Read,
    Change,
}

impl FileState {
    pub(crate) fn new(workspace: Arc<Workspace>, capabilities: Capabilities, scope: Scope) -> Self {
        Self { workspace, capabilities, scope, directories: HashMap::new() }
    }

    pub(super) fn workspace(&self) -> &Arc<Workspace> {
        &self.workspace
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Where `path` (relative to `base`) really is, if the call may go there.
    ///
    /// # Errors
    /// `PermissionDenied`, saying why, and those of [`Workspace::resolve`].
    pub(super) fn locate(
        &self,
        base: &str,
        path: &str,
        follow: bool,
        access: Access,
    ) -> io::Result<String> {
        let place = self.workspace.resolve(base, path, follow)?;
        self.allow(path, &place, access)?;
        Ok(place)
    }

    /// Whether the call may go to `place`, which is what `path` stands for.
    ///
    /// # Errors
    /// `PermissionDenied`, saying why.
    pub(super) fn allow(&self, path: &str, place: &str, access: Access) -> io::Result<()> {
        let denied = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        match self.capabilities.files {
            Files::None => return denied(format!("{path}: the call has nothing to do with files")),
            Files::Read if access == Access::Change => {
                return denied(format!("{path}: the call may only read"));
            }
            Files::Read | Files::Write => {}
        }
        let is_in_sight = access == Access::Look && self.scope.leads_on_from(place);
        if !self.scope.allows(place) && !is_in_sight {
            let path = or_dot(Path::new(path)).display();
            return denied(format!(
                "{path} is outside of the call's scope: {}",
                self.scope.paths().join(", ")
            ));
        }
        match protected(place) {
            Some(why) if access == Access::Change => denied(format!("{path} is protected: {why}")),
            _ => Ok(()),
        }
    }
}

pub(super) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    types::add_to_linker::<_, FilesData>(linker, |call| FilesView::new(call))?;
    preopens::add_to_linker::<_, FilesData>(linker, |call| FilesView::new(call))
}

struct FilesData;

impl HasData for FilesData {
    type Data<'a> = FilesView<'a>;
}

/// The files of one call, with wasmtime-wasi's own implementation beneath.
struct FilesView<'a> {
    state: &'a mut FileState,
    wasi: WasiFilesystemCtxView<'a>,
}

impl<'a> FilesView<'a> {
    fn new(call: &'a mut CallState) -> Self {
        let wasi = WasiFilesystemCtxView { ctx: call.wasi.filesystem(), table: &mut call.table };
        Self { state: &mut call.files, wasi }
    }

    /// The workspace path that a descriptor and a path beneath it stand for.
    fn locate(
        &self,
        fd: &Resource<Descriptor>,
        path: &str,
        follow: bool,
        access: Access,
    ) -> FsResult<String> {
        let base = self.state.directories.get(&fd.rep()).ok_or(ErrorCode::NotDirectory)?;
        // Reading anywhere in the workspace needs no decision, and every open is beneath it.
        if access != Access::Change && self.state.scope.is_everything() {
            return lexical(base, path);
        }
        self.state.locate(base, path, follow, access).map_err(fs_error)
    }

    /// Does something to a place that was decided on. The plugin's own handle and path could
    /// mean another one by now.
    fn at_place<T>(
        &mut self,
        place: String,
        act: impl FnOnce(&mut WasiFilesystemCtxView<'a>, Resource<Descriptor>, String) -> FsResult<T>,
    ) -> FsResult<T> {
        let root = self.state.workspace.root().try_clone()?.into_std_file();
        let root = self.push_directory(root, String::new()).map_err(FsError::trap)?;
        let place = if place.is_empty() { ".".to_owned() } else { place };
        let done = act(&mut self.wasi, Resource::new_own(root.rep()), place);
        types::HostDescriptor::drop(self, root).map_err(FsError::trap)?;
        done
    }

    fn push_directory(
        &mut self,
        directory: std::fs::File,
        path: String,
    ) -> Result<Resource<Descriptor>> {
        let (perms, mode) = match self.state.capabilities.files {
            Files::Write => (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE),
            Files::Read | Files::None => (FsPerms::ReadOnly, OpenMode::READ),
        };
        let fd = self.wasi.table.push(Descriptor::Dir(Dir::new(directory, perms, mode, true)))?;
        self.state.directories.insert(fd.rep(), path);
        Ok(fd)
    }

    fn open(
        &mut self,
        path: String,
        follow: bool,
        create: types::OpenFlags,
        flags: types::DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let root = self.state.workspace.root();
        let changes = changes(create, flags);
        let mut options = OpenOptions::new();
        options
            .read(flags.contains(types::DescriptorFlags::READ) || !changes)
            .write(flags.contains(types::DescriptorFlags::WRITE))
            .create(create.contains(types::OpenFlags::CREATE))
            .create_new(create.contains(types::OpenFlags::CREATE | types::OpenFlags::EXCLUSIVE))
            .truncate(create.contains(types::OpenFlags::TRUNCATE));
        without_waiting(&mut options);
        if let Ok(metadata) = root.symlink_metadata(or_dot(Path::new(&path))) {
            if metadata.is_symlink() && !follow {
                return Err(ErrorCode::Loop.into());
            }
            if changes && metadata.is_file() && has_other_names(&metadata) {
                return Err(ErrorCode::NotPermitted.into());
            }
        }
        let file = root.open_with(or_dot(Path::new(&path)), &options).map_err(fs_error)?;
        let metadata = file.metadata().map_err(fs_error)?;
        if metadata.is_dir() {
            if changes {
                return Err(ErrorCode::IsDirectory.into());
            }
            return self.push_directory(file.into_std(), path).map_err(FsError::trap);
        }
        if create.contains(types::OpenFlags::DIRECTORY) {
            return Err(ErrorCode::NotDirectory.into());
        }
        if !metadata.is_file() {
            // A FIFO, device or socket could make the host wait.
            return Err(ErrorCode::NotPermitted.into());
        }
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, flags.contains(types::DescriptorFlags::READ));
        mode.set(OpenMode::WRITE, flags.contains(types::DescriptorFlags::WRITE));
        let perms = if changes { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let file = Descriptor::File(File::new(file.into_std(), perms, mode, true));
        Ok(self.wasi.table.push(file)?)
    }
}

/// Whether opening with these flags can change anything.
fn changes(create: types::OpenFlags, flags: types::DescriptorFlags) -> bool {
    flags.intersects(types::DescriptorFlags::WRITE)
        || create.intersects(
            types::OpenFlags::CREATE | types::OpenFlags::TRUNCATE | types::OpenFlags::EXCLUSIVE,
        )
}

/// Whether a file has several names: changing it would change a file elsewhere as well.
#[cfg(unix)]
pub(super) fn has_other_names(metadata: &cap_std::fs::Metadata) -> bool {
    use cap_std::fs::MetadataExt as _;
    metadata.nlink() > 1
}

/// Joins without looking at the file system; opening is confined all the same.
fn lexical(base: &str, path: &str) -> FsResult<String> {
    if path.len() > super::workspace::MAX_PATH {
        return Err(ErrorCode::NameTooLong.into());
    }
    if path.starts_with('/') {
        return Err(ErrorCode::NotPermitted.into());
    }
    Ok(if base.is_empty() { path.to_owned() } else { format!("{base}/{path}") })
}

fn fs_error(error: io::Error) -> FsError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorCode::NotPermitted.into(),
        io::ErrorKind::InvalidFilename => ErrorCode::NameTooLong.into(),
        _ => error.into(),
    }
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> Result<Vec<(Resource<Descriptor>, String)>> {
        if self.state.capabilities.files == Files::None {
            return Ok(Vec::new());
        }
        let root = self.state.workspace.root().try_clone()?.into_std_file();
        let fd = self.push_directory(root, String::new())?;
        Ok(vec![(fd, MOUNT.to_owned())])
    }
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FsError) -> Result<types::ErrorCode> {
        types::Host::convert_error_code(&mut self.wasi, error)
    }
    fn filesystem_error_code(
        &mut self,
        error: Resource<streams::Error>,
    ) -> Result<Option<types::ErrorCode>> {
        types::Host::filesystem_error_code(&mut self.wasi, error)
    }
}

/// Hands a method on to wasmtime-wasi as it is.
macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(fn $name(&mut self, fd: Resource<Descriptor> $(, $arg: $type)*) -> $result {
            types::HostDescriptor::$name(&mut self.wasi, fd $(, $arg)*)
        })*
    };
}

impl types::HostDescriptor for FilesView<'_> {
    forward! {
        advise(offset: u64, length: u64, advice: types::Advice) -> FsResult<()>;
        sync_data() -> FsResult<()>;
        get_flags() -> FsResult<types::DescriptorFlags>;
        get_type() -> FsResult<types::DescriptorType>;
        set_size(size: u64) -> FsResult<()>;
        read(length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)>;
        write(buffer: Vec<u8>, offset: u64) -> FsResult<u64>;
        sync() -> FsResult<()>;
        stat() -> FsResult<types::DescriptorStat>;
        read_via_stream(offset: u64) -> FsResult<Resource<streams::InputStream>>;
        write_via_stream(offset: u64) -> FsResult<Resource<streams::OutputStream>>;
        append_via_stream() -> FsResult<Resource<streams::OutputStream>>;
        metadata_hash() -> FsResult<types::MetadataHashValue>;
    }

    fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<types::DirectoryEntryStream>> {
        let directory = self.state.directories.get(&fd.rep()).ok_or(ErrorCode::NotDirectory)?;
        if !self.state.scope.allows(directory) {
            return Err(ErrorCode::NotPermitted.into());
        }
        types::HostDescriptor::read_directory(&mut self.wasi, fd)
    }

    /// Of files only: a directory's handle does not say where the directory is by now.
    fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        if self.state.directories.contains_key(&fd.rep()) {
            return Err(ErrorCode::NotPermitted.into());
        }
        types::HostDescriptor::set_times(&mut self.wasi, fd, accessed, modified)
    }

    fn is_same_object(&mut self, a: Resource<Descriptor>, b: Resource<Descriptor>) -> Result<bool> {
        types::HostDescriptor::is_same_object(&mut self.wasi, a, b)
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> Result<()> {
        self.state.directories.remove(&fd.rep());
        types::HostDescriptor::drop(&mut self.wasi, fd)
    }

    fn open_at(
        &mut self,
        fd: Resource<Descriptor>,
        path_flags: types::PathFlags,
        path: String,
        create: types::OpenFlags,
        flags: types::DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        let follow = path_flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let access = if changes(create, flags) { Access::Change } else { Access::Read };
        let path = self.locate(&fd, &path, follow, access)?;
        self.open(path, follow, create, flags)
    }

    fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::DescriptorStat> {
        let follow = flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let place = self.locate(&fd, &path, follow, Access::Look)?;
        if self.state.scope.is_everything() {
            return types::HostDescriptor::stat_at(&mut self.wasi, fd, flags, path);
        }
        self.at_place(place, |wasi, root, place| {
            types::HostDescriptor::stat_at(wasi, root, types::PathFlags::empty(), place)
        })
    }

    fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        let follow = flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let place = self.locate(&fd, &path, follow, Access::Look)?;
        if self.state.scope.is_everything() {
            return types::HostDescriptor::metadata_hash_at(&mut self.wasi, fd, flags, path);
        }
        self.at_place(place, |wasi, root, place| {
            types::HostDescriptor::metadata_hash_at(wasi, root, types::PathFlags::empty(), place)
        })
    }

    fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        let place = self.locate(&fd, &path, false, Access::Read)?;
        self.at_place(place, types::HostDescriptor::readlink_at)
    }

    fn set_times_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: types::PathFlags,
        path: String,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        let follow = flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let place = self.locate(&fd, &path, follow, Access::Change)?;
        let flags = types::PathFlags::empty();
        self.at_place(place, |wasi, root, place| {
            types::HostDescriptor::set_times_at(wasi, root, flags, place, accessed, modified)
        })
    }

    fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let path = self.locate(&fd, &path, false, Access::Change)?;
        self.state.workspace.root().create_dir(path).map_err(fs_error)
    }

    fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let path = self.locate(&fd, &path, false, Access::Change)?;
        self.state.workspace.root().remove_dir(path).map_err(fs_error)
    }

    fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let path = self.locate(&fd, &path, false, Access::Change)?;
        self.state.workspace.root().remove_file(path).map_err(fs_error)
    }

    fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let source = self.locate(&fd, &path, false, Access::Change)?;
        let target = self.locate(&new_fd, &new_path, false, Access::Change)?;
        let root = self.state.workspace.root();
        root.rename(source, root, target).map_err(fs_error)
    }

    fn link_at(
        &mut self,
        _: Resource<Descriptor>,
        _: types::PathFlags,
        _: String,
        _: Resource<Descriptor>,
        _: String,
    ) -> FsResult<()> {
        Err(ErrorCode::NotPermitted.into())
    }

    fn symlink_at(&mut self, _: Resource<Descriptor>, _: String, _: String) -> FsResult<()> {
        Err(ErrorCode::NotPermitted.into())
    }
}

impl types::HostDirectoryEntryStream for FilesView<'_> {
    fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        types::HostDirectoryEntryStream::read_directory_entry(&mut self.wasi, stream)
    }
    fn drop(&mut self, stream: Resource<types::DirectoryEntryStream>) -> Result<()> {
        types::HostDirectoryEntryStream::drop(&mut self.wasi, stream)
    }
}
