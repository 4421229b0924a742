//! Output streams of files, counted against the call's quota.

use std::fs::File;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

use cofferdam_workspace::{Quota, is_full};

/// Counts a write of `length` bytes at `offset`, and the hole between the end of the file and
/// `offset`.
///
/// # Errors
/// `EDQUOT` if the quota is exceeded.
pub(super) fn count_write(
    quota: &Quota,
    file: &File,
    offset: Option<u64>,
    length: usize,
) -> io::Result<()> {
    let size = file.metadata()?.len();
    let hole = offset.unwrap_or(size).saturating_sub(size);
    quota.take_bytes(hole.saturating_add(length as u64))
}

/// An output stream of wasmtime-wasi, whose writes are counted.
pub(super) struct Counted {
    stream: DynOutputStream,
    file: Arc<File>,
    /// The offset of the next write; `None`: the end of the file.
    offset: Option<u64>,
    quota: Arc<Quota>,
}

impl Counted {
    pub(super) fn new(
        stream: DynOutputStream,
        file: Arc<File>,
        offset: Option<u64>,
        quota: Arc<Quota>,
    ) -> Self {
        Self { stream, file, offset, quota }
    }

    /// Notes if the disk is full or the quota is exceeded.
    fn noted<T>(&self, done: StreamResult<T>) -> StreamResult<T> {
        if let Err(StreamError::LastOperationFailed(error)) = &done
            && error.downcast_ref::<io::Error>().is_some_and(is_full)
        {
            self.quota.note_full();
        }
        done
    }
}

impl OutputStream for Counted {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let length = bytes.len();
        count_write(&self.quota, &self.file, self.offset, length)
            .map_err(|error| StreamError::LastOperationFailed(error.into()))?;
        let written = self.stream.write(bytes);
        self.noted(written)?;
        self.offset = self.offset.map(|offset| offset.saturating_add(length as u64));
        Ok(())
    }
    fn flush(&mut self) -> StreamResult<()> {
        let flushed = self.stream.flush();
        self.noted(flushed)
    }
    fn check_write(&mut self) -> StreamResult<usize> {
        let checked = self.stream.check_write();
        self.noted(checked)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Counted {
    async fn ready(&mut self) {
        self.stream.ready().await;
    }
}
