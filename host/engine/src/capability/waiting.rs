//! `wasi:io`: blocking operations on timers and streams. They end at the deadline of the call or
//! when it is cancelled, since the engine can't interrupt a plugin while the host waits for it.
//!
//! Functions that do not block are forwarded to wasmtime-wasi.

use std::time::Instant;

use tokio::time::sleep_until;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime::{Result, Trap};
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};
use wasmtime_wasi::runtime::in_tokio;
use wasmtime_wasi_io::bindings::wasi::io as waiting;

use super::CANCEL_POLL;
use super::state::CallState;
use crate::call::Control;

pub(super) fn add_to_linker(linker: &mut Linker<CallState>) -> Result<()> {
    waiting::error::add_to_linker::<_, Io>(linker, |call| &mut call.table)?;
    poll::add_to_linker::<_, Bounded>(linker, CallState::waiting)?;
    streams::add_to_linker::<_, Bounded>(linker, CallState::waiting)
}

impl CallState {
    fn waiting(&mut self) -> Waiting<'_> {
        Waiting { table: &mut self.table, control: &self.context.control }
    }
}

struct Io;

impl HasData for Io {
    type Data<'a> = &'a mut ResourceTable;
}

struct Bounded;

impl HasData for Bounded {
    type Data<'a> = Waiting<'a>;
}

/// The resources that a call can wait for, and its deadline.
struct Waiting<'a> {
    table: &'a mut ResourceTable,
    control: &'a Control,
}

/// Waits for `work`, or until the call has to stop.
fn wait<T>(control: &Control, work: impl Future<Output = T>) -> Result<T> {
    in_tokio(async {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = stopped(control) => Err(Trap::Interrupt.into()),
        }
    })
}

/// Waits for an operation on a stream, or until the call has to stop.
fn wait_for_stream<T>(
    control: &Control,
    work: impl Future<Output = StreamResult<T>>,
) -> StreamResult<T> {
    wait(control, work).unwrap_or_else(|stopped| Err(StreamError::Trap(stopped)))
}

async fn stopped(control: &Control) {
    while control.stop().is_none() {
        let next = control.deadline().min(Instant::now() + CANCEL_POLL);
        sleep_until(next.into()).await;
    }
}

impl poll::Host for Waiting<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> Result<Vec<u32>> {
        wait(self.control, waiting::poll::Host::poll(self.table, pollables))?
    }
}

impl poll::HostPollable for Waiting<'_> {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> Result<bool> {
        poll::HostPollable::ready(self.table, pollable)
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        wait(self.control, waiting::poll::HostPollable::block(self.table, pollable))?
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> Result<()> {
        poll::HostPollable::drop(self.table, pollable)
    }
}

impl streams::Host for Waiting<'_> {
    fn convert_stream_error(&mut self, error: StreamError) -> Result<streams::StreamError> {
        streams::Host::convert_stream_error(self.table, error)
    }
}

type Input = Resource<DynInputStream>;
type Output = Resource<DynOutputStream>;

impl streams::HostInputStream for Waiting<'_> {
    fn read(&mut self, stream: Input, length: u64) -> StreamResult<Vec<u8>> {
        streams::HostInputStream::read(self.table, stream, length)
    }

    fn blocking_read(&mut self, stream: Input, length: u64) -> StreamResult<Vec<u8>> {
        let read = waiting::streams::HostInputStream::blocking_read(self.table, stream, length);
        wait_for_stream(self.control, read)
    }

    fn skip(&mut self, stream: Input, length: u64) -> StreamResult<u64> {
        streams::HostInputStream::skip(self.table, stream, length)
    }

    fn blocking_skip(&mut self, stream: Input, length: u64) -> StreamResult<u64> {
        let skip = waiting::streams::HostInputStream::blocking_skip(self.table, stream, length);
        wait_for_stream(self.control, skip)
    }

    fn subscribe(&mut self, stream: Input) -> Result<Resource<DynPollable>> {
        streams::HostInputStream::subscribe(self.table, stream)
    }

    fn drop(&mut self, stream: Input) -> Result<()> {
        streams::HostInputStream::drop(self.table, stream)
    }
}

impl streams::HostOutputStream for Waiting<'_> {
    fn check_write(&mut self, stream: Output) -> StreamResult<u64> {
        streams::HostOutputStream::check_write(self.table, stream)
    }

    fn write(&mut self, stream: Output, bytes: Vec<u8>) -> StreamResult<()> {
        streams::HostOutputStream::write(self.table, stream, bytes)
    }

    fn blocking_write_and_flush(&mut self, stream: Output, bytes: Vec<u8>) -> StreamResult<()> {
        let write =
            waiting::streams::HostOutputStream::blocking_write_and_flush(self.table, stream, bytes);
        wait_for_stream(self.control, write)
    }

    fn subscribe(&mut self, stream: Output) -> Result<Resource<DynPollable>> {
        streams::HostOutputStream::subscribe(self.table, stream)
    }

    fn write_zeroes(&mut self, stream: Output, length: u64) -> StreamResult<()> {
        streams::HostOutputStream::write_zeroes(self.table, stream, length)
    }

    fn blocking_write_zeroes_and_flush(&mut self, stream: Output, length: u64) -> StreamResult<()> {
        let write = waiting::streams::HostOutputStream::blocking_write_zeroes_and_flush(
            self.table, stream, length,
        );
        wait_for_stream(self.control, write)
    }

    fn flush(&mut self, stream: Output) -> StreamResult<()> {
        streams::HostOutputStream::flush(self.table, stream)
    }

    fn blocking_flush(&mut self, stream: Output) -> StreamResult<()> {
        let flush = waiting::streams::HostOutputStream::blocking_flush(self.table, stream);
        wait_for_stream(self.control, flush)
    }

    fn splice(&mut self, to: Output, from: Input, length: u64) -> StreamResult<u64> {
        streams::HostOutputStream::splice(self.table, to, from, length)
    }

    fn blocking_splice(&mut self, to: Output, from: Input, length: u64) -> StreamResult<u64> {
        let splice =
            waiting::streams::HostOutputStream::blocking_splice(self.table, to, from, length);
        wait_for_stream(self.control, splice)
    }

    fn drop(&mut self, stream: Output) -> Result<()> {
        streams::HostOutputStream::drop(self.table, stream)
    }
}
