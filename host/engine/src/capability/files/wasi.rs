//! `wasi:filesystem` on the trees of a call. Operations with a path are checked and implemented
//! here; operations on open files are forwarded to wasmtime-wasi.
//!
//! Hard links can't be created: writing to one name must not change another.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::sync::Arc;

use rustix::fs::{FileType, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use wasmtime::Result;
use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::FsPerms;
use wasmtime_wasi::filesystem::{Descriptor, Dir, File, OpenMode, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::bindings::sync::filesystem::types;
use wasmtime_wasi::p2::bindings::sync::io::streams;
use wasmtime_wasi::p2::{DynOutputStream, FsError, FsResult};

use super::listing::{Listing, descriptor_type};
use super::writer::{Counted, count_write};
use super::{Access, FileState, Open, PathAt};
use crate::capability::state::CallState;
use cofferdam_core::policy::{Files, is_own};
use cofferdam_workspace::path::{Ending, ending};
use cofferdam_workspace::{Opening, Overlay, Refused};

/// The name of the private directory of a call.
const PRIVATE: &str = "/tmp";

pub(in crate::capability) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    types::add_to_linker::<_, FilesData>(linker, |call| FilesView::new(call))?;
    preopens::add_to_linker::<_, FilesData>(linker, |call| FilesView::new(call))
}

pub(super) struct FilesData;

impl HasData for FilesData {
    type Data<'a> = FilesView<'a>;
}

/// The files of one call, and wasmtime-wasi's implementation for open files.
pub(super) struct FilesView<'a> {
    pub(super) state: &'a mut FileState,
    pub(super) wasi: WasiFilesystemCtxView<'a>,
}

impl<'a> FilesView<'a> {
    pub(super) fn new(call: &'a mut CallState) -> Self {
        let wasi = WasiFilesystemCtxView { ctx: call.wasi.filesystem(), table: &mut call.table };
        Self { state: &mut call.files, wasi }
    }

    /// The tree and the place of an open directory.
    fn directory(&self, fd: &Resource<Descriptor>) -> FsResult<(Arc<Overlay>, String)> {
        match self.state.open.get(&fd.rep()) {
            Some(Open { tree, place, is_directory: true, .. }) => {
                Ok((Arc::clone(tree), place.clone()))
            }
            _ => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Resolves a path relative to an open directory, and runs `act` there if the call may access
    /// it.
    fn at<T>(
        &mut self,
        fd: &Resource<Descriptor>,
        at: PathAt<'_>,
        access: Access,
        act: impl Fn(&Overlay, &str) -> io::Result<T>,
    ) -> FsResult<(String, T)> {
        let (tree, base) = self.directory(fd)?;
        let done = self.state.at(&tree, PathAt { base: &base, ..at }, access, act);
        self.noted(done)
    }

    /// The metadata of a path relative to an open directory.
    fn look(
        &mut self,
        fd: &Resource<Descriptor>,
        flags: types::PathFlags,
        path: &str,
    ) -> FsResult<Stat> {
        let follow = flags.contains(types::PathFlags::SYMLINK_FOLLOW);
        let look = |tree: &Overlay, place: &str| tree.look(place, follow);
        Ok(self.at(fd, PathAt::new(path, follow), Access::Look, look)?.1)
    }

    fn noted<T>(&mut self, done: io::Result<T>) -> FsResult<T> {
        self.state.noted(done).map_err(fs_error)
    }

    /// Notes if the disk is full or the quota is exceeded.
    fn written<T>(&self, done: FsResult<T>) -> FsResult<T> {
        let code = done.as_ref().err().and_then(FsError::downcast_ref);
        if matches!(code, Some(ErrorCode::InsufficientSpace | ErrorCode::Quota)) {
            self.state.quota.note_full();
        }
        done
    }

    fn push_directory(
        &mut self,
        tree: Arc<Overlay>,
        place: String,
        (directory, stat): (std::fs::File, Stat),
    ) -> Result<Resource<Descriptor>> {
        let (perms, mode) = if tree.is_writable() {
            (FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE)
        } else {
            (FsPerms::ReadOnly, OpenMode::READ)
        };
        let fd = self.wasi.table.push(Descriptor::Dir(Dir::new(directory, perms, mode, true)))?;
        let open =
            Open { tree, place, is_directory: true, is_writable: false, object: object(&stat) };
        self.state.open.insert(fd.rep(), open);
        Ok(fd)
    }

    fn push_file(
        &mut self,
        file: std::fs::File,
        flags: types::DescriptorFlags,
        open: Open,
    ) -> FsResult<Resource<Descriptor>> {
        let perms = if open.is_writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        let mut mode = OpenMode::empty();
        mode.set(OpenMode::READ, flags.contains(types::DescriptorFlags::READ));
        mode.set(OpenMode::WRITE, flags.contains(types::DescriptorFlags::WRITE));
        let fd = self.wasi.table.push(Descriptor::File(File::new(file, perms, mode, true)))?;
        self.state.open.insert(fd.rep(), open);
        Ok(fd)
    }

    /// The private `/tmp` of the call, and its open top directory.
    fn private(&mut self) -> io::Result<(Arc<Overlay>, (std::fs::File, Stat))> {
        let private = match &self.state.private {
            Some(private) => Arc::clone(private),
            None => Arc::new(Overlay::private()?),
        };
        self.state.private = Some(Arc::clone(&private));
        let opened = private.top()?;
        Ok((private, opened))
    }

    /// The file of a descriptor.
    fn file(&self, fd: &Resource<Descriptor>) -> FsResult<Arc<std::fs::File>> {
        match self.wasi.table.get(fd)? {
            Descriptor::File(file) => Ok(Arc::clone(&file.file)),
            Descriptor::Dir(_) => Err(ErrorCode::IsDirectory.into()),
        }
    }

    /// Lists an open directory.
    pub(super) fn list(&mut self, fd: &Resource<Descriptor>) -> FsResult<Listing> {
        let (tree, _) = self.directory(fd)?;
        let (place, mut entries) =
            self.at(fd, PathAt::new(".", true), Access::Read, Overlay::list)?;
        if Arc::ptr_eq(&tree, self.state.tree()) {
            entries.retain(|entry| !entry.name.to_str().is_some_and(is_own));
        }
        let directory = self.state.open.get(&fd.rep()).ok_or(ErrorCode::BadDescriptor)?.object;
        Ok(Listing::new(&place, directory, entries))
    }

    /// Wraps a stream so that its writes are counted.
    fn counted(
        &mut self,
        fd: u32,
        stream: Resource<streams::OutputStream>,
        offset: Option<u64>,
    ) -> FsResult<Resource<streams::OutputStream>> {
        let file = self.file(&Resource::new_borrow(fd))?;
        let stream = self.wasi.table.delete(stream)?;
        let quota = Arc::clone(&self.state.quota);
        let counted: DynOutputStream = Box::new(Counted::new(stream, file, offset, quota));
        Ok(self.wasi.table.push(counted)?)
    }
}

/// Whether opening with these flags can change anything.
fn changes(create: types::OpenFlags, flags: types::DescriptorFlags) -> bool {
    flags.intersects(types::DescriptorFlags::WRITE)
        || create.intersects(
            types::OpenFlags::CREATE | types::OpenFlags::TRUNCATE | types::OpenFlags::EXCLUSIVE,
        )
}

pub(super) fn fs_error(error: io::Error) -> FsError {
    match Errno::from_io_error(&error) {
        _ if Refused::of(&error).is_some() => ErrorCode::NotPermitted.into(),
        Some(Errno::AGAIN) => ErrorCode::WouldBlock.into(),
        Some(Errno::DQUOT) => ErrorCode::Quota.into(),
        Some(Errno::ROFS) => ErrorCode::ReadOnly.into(),
        Some(Errno::ILSEQ) => ErrorCode::IllegalByteSequence.into(),
        Some(Errno::XDEV) => ErrorCode::CrossDevice.into(),
        // The host ran out of descriptors: the call ends, rather than reporting a broken file.
        Some(Errno::MFILE | Errno::NFILE) => FsError::trap(error),
        _ => error.into(),
    }
}

/// Returns what identifies a file: its device and its inode.
pub(super) fn object(stat: &Stat) -> (u64, u64) {
    (count(stat.st_dev), stat.st_ino)
}

/// Hashes device and inode, which plugins must not see.
fn hash((device, inode): (u64, u64)) -> types::MetadataHashValue {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, device, inode).hash(&mut hasher);
        hasher.finish()
    };
    types::MetadataHashValue { lower: half(0), upper: half(1) }
}

fn describe(stat: &Stat) -> types::DescriptorStat {
    let time = |seconds: i64, nanoseconds| {
        // Times before 1970 can't be represented.
        let seconds = u64::try_from(seconds).ok()?;
        Some(Datetime { seconds, nanoseconds: u32::try_from(nanoseconds).ok()? })
    };
    types::DescriptorStat {
        type_: descriptor_type(FileType::from_raw_mode(stat.st_mode)),
        link_count: count(stat.st_nlink),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        data_access_timestamp: time(stat.st_atime, stat.st_atime_nsec),
        data_modification_timestamp: time(stat.st_mtime, stat.st_mtime_nsec),
        status_change_timestamp: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// The type of a number differs between systems and architectures.
fn count(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(u64::MAX)
}

fn timestamps(
    accessed: types::NewTimestamp,
    modified: types::NewTimestamp,
) -> FsResult<Timestamps> {
    let time = |time: types::NewTimestamp| {
        let special = |tv_nsec| Ok(Timespec { tv_sec: 0, tv_nsec });
        match time {
            types::NewTimestamp::NoChange => special(UTIME_OMIT),
            types::NewTimestamp::Now => special(UTIME_NOW),
            types::NewTimestamp::Timestamp(time) => match i64::try_from(time.seconds) {
                Ok(tv_sec) if time.nanoseconds < 1_000_000_000 => {
                    Ok(Timespec { tv_sec, tv_nsec: time.nanoseconds.into() })
                }
                _ => Err(ErrorCode::Invalid),
            },
        }
    };
    Ok(Timestamps { last_access: time(accessed)?, last_modification: time(modified)? })
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> Result<Vec<(Resource<Descriptor>, String)>> {
        if self.state.access == Files::None {
            return Ok(Vec::new());
        }
        let mut directories = Vec::new();
        for name in self.state.workspace_names() {
            let workspace = Arc::clone(&self.state.tree);
            let opened = workspace.top()?;
            directories.push((self.push_directory(workspace, String::new(), opened)?, name));
        }
        if self.state.is_taken(PRIVATE) {
            return Ok(directories);
        }
        match self.private() {
            Ok((private, opened)) => {
                let private = self.push_directory(private, String::new(), opened)?;
                directories.push((private, PRIVATE.to_owned()));
            }
            Err(error) => tracing::debug!("no {PRIVATE} for a call: {error}"),
        }
        Ok(directories)
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
        let io_error = self.wasi.table.get(&error)?.downcast_ref::<io::Error>();
        if io_error.and_then(Errno::from_io_error) == Some(Errno::DQUOT) {
            return Ok(Some(types::ErrorCode::Quota));
        }
        types::Host::filesystem_error_code(&mut self.wasi, error)
    }
}

/// Forwards a method to wasmtime-wasi.
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
        get_flags() -> FsResult<types::DescriptorFlags>;
        get_type() -> FsResult<types::DescriptorType>;
        read(length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)>;
        read_via_stream(offset: u64) -> FsResult<Resource<streams::InputStream>>;
    }

    /// With the same times as `stat-at`: wasmtime-wasi takes the time of creation for that of the last change.
    fn stat(&mut self, fd: Resource<Descriptor>) -> FsResult<types::DescriptorStat> {
        let stat = match self.wasi.table.get(&fd)? {
            Descriptor::File(file) => rustix::fs::fstat(&*file.file),
            Descriptor::Dir(directory) => rustix::fs::fstat(&*directory.dir),
        };
        Ok(describe(&stat.map_err(io::Error::from)?))
    }

    /// Does nothing: the commit syncs the files.
    fn sync(&mut self, _: Resource<Descriptor>) -> FsResult<()> {
        Ok(())
    }

    fn sync_data(&mut self, _: Resource<Descriptor>) -> FsResult<()> {
        Ok(())
    }

    fn set_size(&mut self, fd: Resource<Descriptor>, size: u64) -> FsResult<()> {
        let open = self.state.open.get(&fd.rep()).ok_or(ErrorCode::BadDescriptor)?;
        let is_for_reading = !open.is_directory && !open.is_writable && open.tree.is_writable();
        // As `ftruncate` of a file that is open for reading, and with a size that no file can have.
        if is_for_reading || i64::try_from(size).is_err() {
            return Err(ErrorCode::Invalid.into());
        }
        let now = self.file(&fd)?.metadata()?.len();
        self.state.quota.take_bytes(size.saturating_sub(now)).map_err(fs_error)?;
        let set = types::HostDescriptor::set_size(&mut self.wasi, fd, size);
        self.written(set)
    }

    fn write(&mut self, fd: Resource<Descriptor>, buffer: Vec<u8>, offset: u64) -> FsResult<u64> {
        let file = self.file(&fd)?;
        count_write(&self.state.quota, &file, Some(offset), buffer.len()).map_err(fs_error)?;
        let written = types::HostDescriptor::write(&mut self.wasi, fd, buffer, offset);
        self.written(written)
    }

    fn write_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
        offset: u64,
    ) -> FsResult<Resource<streams::OutputStream>> {
        let rep = fd.rep();
        let stream = types::HostDescriptor::write_via_stream(&mut self.wasi, fd, offset)?;
        self.counted(rep, stream, Some(offset))
    }

    fn append_via_stream(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<streams::OutputStream>> {
        let rep = fd.rep();
        let stream = types::HostDescriptor::append_via_stream(&mut self.wasi, fd)?;
        self.counted(rep, stream, None)
    }

    fn metadata_hash(&mut self, fd: Resource<Descriptor>) -> FsResult<types::MetadataHashValue> {
        let open = self.state.open.get(&fd.rep()).ok_or(ErrorCode::BadDescriptor)?;
        Ok(hash(open.object))
    }

    fn is_same_object(&mut self, a: Resource<Descriptor>, b: Resource<Descriptor>) -> Result<bool> {
        let object = |fd: &Resource<Descriptor>| self.state.open.get(&fd.rep()).map(|o| o.object);
        Ok(object(&a).is_some() && object(&a) == object(&b))
    }

    fn drop(&mut self, fd: Resource<Descriptor>) -> Result<()> {
        self.state.open.remove(&fd.rep());
        types::HostDescriptor::drop(&mut self.wasi, fd)
    }

    fn read_directory(
        &mut self,
        fd: Resource<Descriptor>,
    ) -> FsResult<Resource<types::DirectoryEntryStream>> {
        let listing = self.list(&fd)?;
        // The handle has the type of the bindings; its table entry is the host's own type.
        let listing = self.wasi.table.push(listing)?;
        Ok(Resource::new_own(listing.rep()))
    }

    fn set_times(
        &mut self,
        fd: Resource<Descriptor>,
        accessed: types::NewTimestamp,
        modified: types::NewTimestamp,
    ) -> FsResult<()> {
        let times = timestamps(accessed, modified)?;
        let open = self.state.open.get(&fd.rep()).cloned().ok_or(ErrorCode::BadDescriptor)?;
        if open.is_writable {
            // The file is staged, and may have been renamed or removed.
            return Ok(rustix::fs::futimens(self.file(&fd)?, &times).map_err(io::Error::from)?);
        }
        let quota = Arc::clone(&self.state.quota);
        let Open { tree, place, object: opened, .. } = open;
        let path = if place.is_empty() { "." } else { &place };
        let set = self.state.at(&tree, PathAt::new(path, false), Access::Change, |tree, place| {
            match tree.stat(place) {
                Ok(stat) if object(&stat) == opened => tree.set_times(place, &times, &quota),
                // The open file was removed.
                _ => Ok(()),
            }
        });
        self.noted(set.map(|_| ()))
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
        let wants_directory = create.contains(types::OpenFlags::DIRECTORY);
        let (tree, base) = self.directory(&fd)?;
        let named = PathAt { base: &base, ..PathAt::new(&path, follow) };
        if !changes(create, flags) {
            let (place, opened) =
                self.at(&fd, PathAt::new(&path, follow), Access::Read, Overlay::open_read)?;
            return match FileType::from_raw_mode(opened.1.st_mode) {
                FileType::Directory => {
                    Ok(self.push_directory(tree, place, opened).map_err(FsError::trap)?)
                }
                _ if wants_directory => Err(ErrorCode::NotDirectory.into()),
                FileType::RegularFile => {
                    let (file, stat) = opened;
                    self.state.note_opened(&tree, named, &place, &stat);
                    let object = object(&stat);
                    let open =
                        Open { tree, place, is_directory: false, is_writable: false, object };
                    self.push_file(file, flags, open)
                }
                // A FIFO, device or socket could make the host wait.
                _ => {
                    let why = format!("{path} is no regular file and no directory");
                    self.noted(Err(Refused::unsupported(why)))
                }
            };
        }
        if wants_directory {
            return Err(ErrorCode::Invalid.into());
        }
        if create.contains(types::OpenFlags::CREATE) && ending(&path) != Ending::Name {
            return Err(ErrorCode::IsDirectory.into());
        }
        let opening = Opening {
            read: flags.contains(types::DescriptorFlags::READ),
            create: create.contains(types::OpenFlags::CREATE),
            exclusive: create.contains(types::OpenFlags::CREATE | types::OpenFlags::EXCLUSIVE),
            truncate: create.contains(types::OpenFlags::TRUNCATE),
        };
        // With `exclusive`, a link is not followed, since it exists.
        let follow = follow && !opening.exclusive;
        let quota = Arc::clone(&self.state.quota);
        let (place, file) =
            self.at(&fd, PathAt::new(&path, follow), Access::Change, |tree, place| {
                tree.open_write(place, opening, &quota)
            })?;
        let stat = rustix::fs::fstat(&file).map_err(io::Error::from)?;
        self.state.note_opened(&tree, named, &place, &stat);
        let object = object(&stat);
        self.push_file(
            file,
            flags,
            Open { tree, place, is_directory: false, is_writable: true, object },
        )
    }

    fn stat_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::DescriptorStat> {
        let stat = self.look(&fd, flags, &path)?;
        Ok(describe(&stat))
    }

    fn metadata_hash_at(
        &mut self,
        fd: Resource<Descriptor>,
        flags: types::PathFlags,
        path: String,
    ) -> FsResult<types::MetadataHashValue> {
        // The C library calls this for each entry of a listing, to get an inode.
        if let Some(latest) = self.state.latest.take()
            && let Some(open) = self.state.open.get(&fd.rep())
            && !flags.contains(types::PathFlags::SYMLINK_FOLLOW)
            && !open.tree.is_changed()
            && let Some(object) = latest.is(open.object, &path)
        {
            return Ok(hash(object));
        }
        let stat = self.look(&fd, flags, &path)?;
        Ok(hash(object(&stat)))
    }

    fn readlink_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<String> {
        let (_, target) =
            self.at(&fd, PathAt::new(&path, false), Access::Read, Overlay::read_link)?;
        // A plugin must not learn paths outside of the workspace.
        if target.starts_with('/') { Err(ErrorCode::NotPermitted.into()) } else { Ok(target) }
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
        let times = timestamps(accessed, modified)?;
        let quota = Arc::clone(&self.state.quota);
        self.at(&fd, PathAt::new(&path, follow), Access::Change, |tree, place| {
            tree.look(place, follow)?;
            tree.set_times(place, &times, &quota)
        })?;
        Ok(())
    }

    fn create_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        let quota = Arc::clone(&self.state.quota);
        self.at(&fd, PathAt::new(&path, false), Access::Lead, |tree, place| {
            tree.create_directory(place, &quota)
        })?;
        Ok(())
    }

    fn remove_directory_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        match ending(&path) {
            Ending::Dot => return Err(ErrorCode::Invalid.into()),
            Ending::DotDot => {
                // What is above the workspace is refused first.
                self.at(&fd, PathAt::new(&path, false), Access::Look, |_, _| Ok(()))?;
                return Err(ErrorCode::NotEmpty.into());
            }
            Ending::Slash | Ending::Name => {}
        }
        self.at(&fd, PathAt::new(&path, false), Access::Change, Overlay::remove_directory)?;
        Ok(())
    }

    fn unlink_file_at(&mut self, fd: Resource<Descriptor>, path: String) -> FsResult<()> {
        self.at(&fd, PathAt::new(&path, false), Access::Change, Overlay::remove_file)?;
        Ok(())
    }

    fn rename_at(
        &mut self,
        fd: Resource<Descriptor>,
        path: String,
        new_fd: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        let (tree, _) = self.directory(&fd)?;
        if !Arc::ptr_eq(&tree, &self.directory(&new_fd)?.0) {
            return Err(ErrorCode::CrossDevice.into());
        }
        let endings = [ending(&path), ending(&new_path)];
        if endings.iter().any(|ending| matches!(ending, Ending::Dot | Ending::DotDot)) {
            return Err(ErrorCode::Busy.into());
        }
        let look = |tree: &Overlay, place: &str| match tree.stat(place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            stat => Ok(Some(FileType::from_raw_mode(stat?.st_mode))),
        };
        let (source, kind) = self.at(&fd, PathAt::new(&path, false), Access::Change, look)?;
        let (target, _) = self.at(&new_fd, PathAt::new(&new_path, false), Access::Change, look)?;
        let is_file = kind.is_some_and(|kind| kind != FileType::Directory);
        if is_file && endings.contains(&Ending::Slash) {
            return Err(ErrorCode::NotDirectory.into());
        }
        let state = &self.state;
        let allow = |place: &str| state.allow(&tree, place, place, Access::Change);
        let renamed = tree.rename(&source, &target, &allow, &state.quota);
        self.noted(renamed)?;
        self.state.note_moved(&tree, &source, kind);
        // Open directories are renamed as well.
        for open in self.state.open.values_mut().filter(|open| Arc::ptr_eq(&open.tree, &tree)) {
            if let Some(rest) = open.place.strip_prefix(&source)
                && (rest.is_empty() || rest.starts_with('/'))
            {
                open.place = format!("{target}{rest}");
            }
        }
        Ok(())
    }

    fn link_at(
        &mut self,
        _: Resource<Descriptor>,
        _: types::PathFlags,
        path: String,
        _: Resource<Descriptor>,
        _: String,
    ) -> FsResult<()> {
        self.noted(Err(Refused::unsupported(format!("{path}: hard links can't be made"))))
    }

    fn symlink_at(
        &mut self,
        fd: Resource<Descriptor>,
        target: String,
        path: String,
    ) -> FsResult<()> {
        let (tree, base) = self.directory(&fd)?;
        let is_name = ending(&path) == Ending::Name;
        let state = &self.state;
        let at = PathAt { base: &base, ..PathAt::new(&path, false) };
        let made = state.at(&tree, at, Access::Change, |tree, place| {
            if !is_name && tree.stat(place).is_err() {
                // A name with a slash at the end must be a directory.
                return Err(Errno::NOENT.into());
            }
            state.allow_target(tree, place, &target)?;
            tree.create_link(&target, place, &state.quota)
        });
        self.noted(made.map(|_| ()))
    }
}

impl types::HostDirectoryEntryStream for FilesView<'_> {
    fn read_directory_entry(
        &mut self,
        stream: Resource<types::DirectoryEntryStream>,
    ) -> FsResult<Option<types::DirectoryEntry>> {
        let listing = self.wasi.table.get_mut::<Listing>(&Resource::new_borrow(stream.rep()))?;
        let Some((entry, latest)) = listing.next() else { return Ok(None) };
        self.state.latest = latest;
        Ok(Some(entry))
    }

    fn drop(&mut self, stream: Resource<types::DirectoryEntryStream>) -> Result<()> {
        self.wasi.table.delete::<Listing>(Resource::new_own(stream.rep()))?;
        Ok(())
    }
}
