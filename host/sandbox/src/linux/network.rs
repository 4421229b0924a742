//! The way from a run's network namespace to the host's proxy: a listening socket on the loopback
//! interface, which the helper opens and hands to the host (unix(7), SCM_RIGHTS). The host is on the
//! other end of the helper's standard input, which is a pair of sockets for such a run.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::PROXY_PORT;

/// How long the host waits for the socket. The helper needs some milliseconds.
const LISTENER_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the socket in this network namespace, and hands it to the host.
///
/// # Errors
/// Returns an error if the port is in use, or if standard input is no socket.
pub(super) fn hand_over() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL;
    sendmsg(rustix::stdio::stdin(), &[IoSlice::new(&[0])], &mut ancillary, flags)?;
    Ok(())
}

/// Creates the channel to a helper: its standard input, and the host's end.
///
/// # Errors
/// Returns an error if there are no more descriptors.
pub(crate) fn channel() -> io::Result<(OwnedFd, UnixStream)> {
    let (helper, host) = UnixStream::pair()?;
    host.set_read_timeout(Some(LISTENER_TIMEOUT))?;
    Ok((helper.into(), host))
}

/// Receives the socket; `None` if the helper has ended before, for a reason that its answer has.
///
/// # Errors
/// Returns an error if the socket does not come in time.
pub(crate) fn receive(host: &UnixStream) -> io::Result<Option<TcpListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut parts = [IoSliceMut::new(&mut byte)];
    recvmsg(host, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    Ok(ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next().map(Into::into),
        _ => None,
    }))
}
