//! A process that forks helpers. Starting the executable again takes a large one several milliseconds, to
//! be loaded and linked; a fork of a process that has been loaded takes a fraction of that.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::stdio::{dup2_stdin, dup2_stdout};

use super::confine;
use super::namespaces::fork;
use super::syscalls::Filters;
use crate::wire::{PREPARATION_BYTES, Preparation};
use crate::{SandboxError, Tier, wire};

/// Requests a helper of a fork server, which gets the other end of `server`.
///
/// # Errors
/// The server has ended.
pub(crate) fn request(
    server: &UnixStream,
    preparation: Preparation,
    streams: [BorrowedFd<'_>; 2],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&streams));
    let bytes = preparation.to_bytes();
    sendmsg(server, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Forks a helper for each request on standard input. Returns in each helper, with what it does before it
/// has its request; returns `None` in the server when the host has closed its end.
///
/// # Errors
/// The system refuses a step.
pub(crate) fn serve() -> io::Result<Option<Preparation>> {
    confine::forget_the_caller();
    // SAFETY: no handler is installed. The kernel reaps the helpers; they reset this.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    // Compiled once for all helpers. An error comes again when a run needs them.
    let _ = [Tier::A, Tier::B].map(Filters::of);
    while let Some((preparation, [input, output])) = receive()? {
        match fork() {
            Ok(Some(_)) => {}
            Ok(None) => {
                dup2_stdin(input)?;
                dup2_stdout(output)?;
                return Ok(Some(preparation));
            }
            Err(error) => {
                let error = SandboxError::Helper(format!("can't be started: {error}"));
                // If the host is gone, it needs no answer.
                let _ = wire::write_answer(&mut File::from(output), Err(error));
            }
        }
    }
    Ok(None)
}

/// Receives a request: what the helper prepares, its standard input and its standard output.
fn receive() -> io::Result<Option<(Preparation, [OwnedFd; 2])>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; PREPARATION_BYTES];
    let (host, flags) = (rustix::stdio::stdin(), RecvFlags::CMSG_CLOEXEC);
    let received =
        recvmsg(host.as_fd(), &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags)?;
    let mut streams = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(streams) => streams.collect(),
        _ => Vec::new(),
    });
    match (received.bytes, streams.next(), streams.next()) {
        (0, ..) => Ok(None),
        // A request is one piece, since descriptors came with it.
        (PREPARATION_BYTES, Some(input), Some(output)) => {
            Ok(Some((Preparation::from_bytes(bytes), [input, output])))
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
