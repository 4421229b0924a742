//! `wasi:filesystem` of WASI 0.3. All paths and permissions are checked by the implementation for WASI
//! 0.2 ([`super::wasi`]), which each function calls; only streams and the names of types differ.
//!
//! Functions run to their end when they are called: files are on this machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use wasmtime::component::{
    Access, Accessor, Destination, FutureReader, Linker, Resource, Source, StreamConsumer,
    StreamProducer, StreamReader, StreamResult, VecBuffer,
};
use wasmtime::{AsContextMut, Result, StoreContextMut, Trap};
use wasmtime_wasi::filesystem::{Descriptor, OpenMode};
use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as Preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode as ErrorCode02;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{self as wasi02, HostDescriptor as _};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::p3::bindings::filesystem::{preopens, types};
use wasmtime_wasi::p3::filesystem::{FilesystemError, FilesystemResult};

use super::convert::Convert;
use super::wasi::{FilesData, FilesView, fs_error};
use super::writer::count_write;
use crate::call::Control;
use crate::capability::state::CallState;
use cofferdam_workspace::{Quota, is_full};

/// How many bytes are read or written at once: between two of these operations, the call can end.
const MAX_PART_BYTES: usize = 1 << 20;

/// How many bytes are read at once for a reader of the host.
const READ_BYTES: usize = 64 << 10;

pub(in crate::capability) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    types::add_to_linker::<_, FilesData>(linker, |call| FilesView::new(call))?;
    preopens::add_to_linker::<_, FilesData>(linker, |call| FilesView::new(call))
}

type Files<'a> = &'a Accessor<CallState, FilesData>;
type FilesNow<'a> = Access<'a, CallState, FilesData>;
type Fd = Resource<Descriptor>;
/// How a stream ended, for the plugin.
type Ending = FutureReader<Result<(), types::ErrorCode>>;

/// Calls a function of the implementation for WASI 0.2.
fn call<T>(
    files: Files<'_>,
    function: impl FnOnce(&mut FilesView<'_>) -> FsResult<T>,
) -> FilesystemResult<T> {
    files.with(|mut files| function(&mut files.get()).map_err(error))
}

fn error(error: FsError) -> FilesystemError {
    match error.downcast() {
        Ok(code) => error_code(code).into(),
        Err(trap) => FilesystemError::trap(trap),
    }
}

fn error_code(code: ErrorCode02) -> types::ErrorCode {
    code.convert()
}

/// Sends how a stream ended: `Ok` if it is dropped.
struct Outcome(Option<oneshot::Sender<Result<(), types::ErrorCode>>>);

impl Outcome {
    fn new(store: impl AsContextMut<Data = CallState>) -> Result<(Self, Ending)> {
        let (sender, receiver) = oneshot::channel();
        Ok((Self(Some(sender)), FutureReader::new(store, receiver)?))
    }

    fn send(&mut self, outcome: Result<(), types::ErrorCode>) {
        if let Some(sender) = self.0.take() {
            // The plugin may not want to know it.
            let _ = sender.send(outcome);
        }
    }

    fn fail(&mut self, failed: FsError) {
        let code = failed.downcast().map_or(types::ErrorCode::Io, error_code);
        self.send(Err(code));
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        self.send(Ok(()));
    }
}

/// An open file that a stream reads or writes, and the call's deadline.
struct Streamed {
    file: Arc<File>,
    control: Arc<Control>,
    quota: Arc<Quota>,
}

impl Streamed {
    /// The file of a descriptor that was opened for `mode`.
    fn new(files: &mut FilesNow<'_>, fd: &Fd, mode: OpenMode) -> FsResult<Self> {
        let control = Arc::clone(files.data_mut().control());
        let FilesView { state, wasi } = files.get();
        let quota = Arc::clone(state.quota());
        match wasi.table.get(fd)? {
            Descriptor::File(file) if file.open_mode.contains(mode) => {
                Ok(Self { file: Arc::clone(&file.file), control, quota })
            }
            Descriptor::File(_) => Err(ErrorCode02::BadDescriptor.into()),
            Descriptor::Dir(_) => Err(ErrorCode02::IsDirectory.into()),
        }
    }

    /// # Errors
    /// The call has to stop. The engine does not interrupt streams that the host reads and writes
    /// itself, such as one file copied to another.
    fn check(&self) -> Result<()> {
        match self.control.stop() {
            Some(_) => Err(Trap::Interrupt.into()),
            None => Ok(()),
        }
    }
}

/// Reads a file.
struct Reader {
    streamed: Streamed,
    offset: u64,
    outcome: Outcome,
}

impl StreamProducer<CallState> for Reader {
    type Item = u8;
    type Buffer = VecBuffer<u8>;

    fn poll_produce<'a>(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'a, CallState>,
        destination: Destination<'a, u8, VecBuffer<u8>>,
        _: bool,
    ) -> Poll<Result<StreamResult>> {
        self.streamed.check()?;
        let mut destination = destination.as_direct(store, READ_BYTES);
        let buffer = destination.remaining();
        let length = buffer.len().min(MAX_PART_BYTES);
        if length == 0 {
            return Poll::Ready(Ok(StreamResult::Completed));
        }
        Poll::Ready(Ok(match self.streamed.file.read_at(&mut buffer[..length], self.offset) {
            Ok(0) => StreamResult::Dropped,
            Ok(read) => {
                destination.mark_written(read);
                self.offset += read as u64;
                StreamResult::Completed
            }
            Err(failed) => {
                self.outcome.fail(fs_error(failed));
                StreamResult::Dropped
            }
        }))
    }
}

/// Writes to a file.
struct Writer {
    streamed: Streamed,
    /// The offset of the next write; `None`: the end of the file.
    offset: Option<u64>,
    outcome: Outcome,
}

impl Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Streamed { file, quota, .. } = &self.streamed;
        count_write(quota, file, self.offset, bytes.len())?;
        match &mut self.offset {
            Some(offset) => {
                file.write_all_at(bytes, *offset)?;
                *offset = offset.saturating_add(bytes.len() as u64);
            }
            None => file.write_all_at(bytes, file.metadata()?.len())?,
        }
        Ok(())
    }
}

impl StreamConsumer<CallState> for Writer {
    type Item = u8;

    fn poll_consume(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        store: StoreContextMut<'_, CallState>,
        source: Source<'_, u8>,
        _: bool,
    ) -> Poll<Result<StreamResult>> {
        self.streamed.check()?;
        let mut source = source.as_direct(store);
        let bytes = source.remaining();
        let bytes = &bytes[..bytes.len().min(MAX_PART_BYTES)];
        let length = bytes.len();
        Poll::Ready(Ok(match self.write(bytes) {
            Ok(()) => {
                source.mark_read(length);
                StreamResult::Completed
            }
            Err(failed) => {
                if is_full(&failed) {
                    self.streamed.quota.note_full();
                }
                self.outcome.fail(fs_error(failed));
                StreamResult::Dropped
            }
        }))
    }
}

/// Writes a stream to a file, at `offset` or its end.
fn write(
    mut files: FilesNow<'_>,
    fd: &Fd,
    mut data: StreamReader<u8>,
    offset: Option<u64>,
) -> Result<Ending> {
    let (mut outcome, ending) = Outcome::new(&mut files)?;
    match Streamed::new(&mut files, fd, OpenMode::WRITE) {
        Ok(streamed) => data.pipe(&mut files, Writer { streamed, offset, outcome })?,
        Err(refused) => {
            data.close(&mut files)?;
            outcome.fail(refused);
        }
    }
    Ok(ending)
}

impl types::Host for FilesView<'_> {
    fn convert_error_code(&mut self, error: FilesystemError) -> Result<types::ErrorCode> {
        error.downcast()
    }
}

impl types::HostDescriptor for FilesView<'_> {
    fn drop(&mut self, fd: Fd) -> Result<()> {
        wasi02::HostDescriptor::drop(self, fd)
    }
}

impl preopens::Host for FilesView<'_> {
    fn get_directories(&mut self) -> Result<Vec<(Fd, String)>> {
        Preopens::get_directories(self)
    }
}

/// Functions that differ in the names of types only.
macro_rules! forward {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(async fn $name(files: Files<'_>, fd: Fd $(, $arg: $type)*) -> FilesystemResult<$result> {
            call(files, |files| files.$name(fd $(, $arg.convert())*)).map(Convert::convert)
        })*
    };
}

impl types::HostDescriptorWithStore<CallState> for FilesData {
    forward! {
        advise(offset: u64, length: u64, advice: types::Advice) -> ();
        sync_data() -> ();
        get_flags() -> types::DescriptorFlags;
        get_type() -> types::DescriptorType;
        set_size(size: u64) -> ();
        set_times(accessed: types::NewTimestamp, modified: types::NewTimestamp) -> ();
        sync() -> ();
        create_directory_at(path: String) -> ();
        stat() -> types::DescriptorStat;
        stat_at(flags: types::PathFlags, path: String) -> types::DescriptorStat;
        set_times_at(
            flags: types::PathFlags,
            path: String,
            accessed: types::NewTimestamp,
            modified: types::NewTimestamp
        ) -> ();
        link_at(flags: types::PathFlags, path: String, other: Fd, new_path: String) -> ();
        open_at(
            path_flags: types::PathFlags,
            path: String,
            create: types::OpenFlags,
            flags: types::DescriptorFlags
        ) -> Fd;
        readlink_at(path: String) -> String;
        remove_directory_at(path: String) -> ();
        rename_at(path: String, other: Fd, new_path: String) -> ();
        symlink_at(target: String, path: String) -> ();
        unlink_file_at(path: String) -> ();
        metadata_hash() -> types::MetadataHashValue;
        metadata_hash_at(flags: types::PathFlags, path: String) -> types::MetadataHashValue;
    }

    fn read_via_stream(
        mut files: FilesNow<'_>,
        fd: Fd,
        offset: u64,
    ) -> Result<(StreamReader<u8>, Ending)> {
        let (mut outcome, ending) = Outcome::new(&mut files)?;
        let stream = match Streamed::new(&mut files, &fd, OpenMode::READ) {
            Ok(streamed) => StreamReader::new(&mut files, Reader { streamed, offset, outcome })?,
            Err(refused) => {
                outcome.fail(refused);
                StreamReader::new(&mut files, Vec::new())?
            }
        };
        Ok((stream, ending))
    }

    fn write_via_stream(
        files: FilesNow<'_>,
        fd: Fd,
        data: StreamReader<u8>,
        offset: u64,
    ) -> Result<Ending> {
        write(files, &fd, data, Some(offset))
    }

    fn append_via_stream(files: FilesNow<'_>, fd: Fd, data: StreamReader<u8>) -> Result<Ending> {
        write(files, &fd, data, None)
    }

    fn read_directory(
        mut files: FilesNow<'_>,
        fd: Fd,
    ) -> Result<(StreamReader<types::DirectoryEntry>, Ending)> {
        let (mut outcome, ending) = Outcome::new(&mut files)?;
        let mut entries = Vec::new();
        match files.get().list(&fd) {
            Ok(mut listing) => {
                while let Some((wasi02::DirectoryEntry { type_, name }, _)) = listing.next() {
                    entries.push(types::DirectoryEntry { type_: type_.convert(), name });
                }
            }
            Err(refused) => outcome.fail(refused),
        }
        Ok((StreamReader::new(&mut files, entries)?, ending))
    }

    async fn is_same_object(files: Files<'_>, fd: Fd, other: Fd) -> Result<bool> {
        files.with(|mut files| files.get().is_same_object(fd, other))
    }
}
