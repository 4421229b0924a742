//! Sockets of a run's network namespace, which the helper opens and hands to the host (unix(7),
//! SCM_RIGHTS): the listening socket of the proxy, and those of [`Loopback`](crate::Loopback). The host is
//! on the other end of the helper's standard input, which is a pair of sockets for such a run.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::fstat;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};

use crate::PROXY_PORT;
use crate::loopback::{MAX_PORTS, Operation, REPLY_BYTES, REQUEST_BYTES, Reply};

/// The largest part of a list of sockets that is read, in bytes.
const MAX_LIST_BYTES: u64 = 1 << 20;

/// The state of a listening socket: include/net/tcp_states.h.
const LISTENING: &str = "0A";

/// Tells the host that the namespaces exist, and hands it the socket of the proxy in this network
/// namespace, if the run has one.
///
/// # Errors
/// Returns an error if the port is in use, or if standard input is no socket.
pub(super) fn hand_over(has_proxy: bool) -> io::Result<()> {
    let listener = match has_proxy {
        true => Some(TcpListener::bind((Ipv4Addr::LOCALHOST, PROXY_PORT))?.into()),
        false => None,
    };
    send(&[0], listener.as_ref())
}

/// Sends bytes to the host, with a descriptor if there is one.
fn send(bytes: &[u8], descriptor: Option<&OwnedFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = descriptor.map(|descriptor| [descriptor.as_fd()]);
    if let Some(descriptors) = &descriptors {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let flags = SendFlags::NOSIGNAL;
    sendmsg(rustix::stdio::stdin(), &[IoSlice::new(bytes)], &mut ancillary, flags)?;
    Ok(())
}

/// The supervisor's end of the channel for sockets.
#[derive(Default)]
pub(super) struct Exchange {
    /// The inodes of the listening sockets that the host was given.
    given: Vec<u64>,
}

impl Exchange {
    /// Serves the host until it starts the program.
    ///
    /// # Errors
    /// Returns an error if the host has closed the channel.
    pub(super) fn serve_until_start(&mut self) -> io::Result<()> {
        while self.serve()? != Operation::Start {}
        Ok(())
    }

    /// Waits for a request of the host, and replies.
    ///
    /// # Errors
    /// Returns an error if the host has closed the channel.
    pub(super) fn serve(&mut self) -> io::Result<Operation> {
        let mut request = [0; REQUEST_BYTES];
        let mut filled = 0;
        while filled < REQUEST_BYTES {
            match rustix::io::read(rustix::stdio::stdin(), &mut request[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => filled += length,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let [number, low, high] = request;
        let operation = Operation::of(number).ok_or(io::ErrorKind::InvalidData)?;
        let port = u16::from_le_bytes([low, high]);
        let done = match operation {
            Operation::Start => Ok((Vec::new(), None)),
            Operation::Ports => self.ports().map(|ports| (ports, None)),
            Operation::Listen => self.listen(port).map(|socket| (Vec::new(), Some(socket))),
            Operation::ConnectV4 => {
                connecting((Ipv4Addr::LOCALHOST, port).into()).map(|it| (Vec::new(), Some(it)))
            }
            Operation::ConnectV6 => {
                connecting((Ipv6Addr::LOCALHOST, port).into()).map(|it| (Vec::new(), Some(it)))
            }
        };
        let (error, (ports, descriptor)) = match done {
            Ok(done) => (0, done),
            Err(error) => (error.raw_os_error().unwrap_or(libc::EIO), (Vec::new(), None)),
        };
        let count = u16::try_from(ports.len()).unwrap_or(0);
        let mut reply = error.to_le_bytes().to_vec();
        reply.extend(count.to_le_bytes());
        reply.extend(ports.iter().take(count.into()).flat_map(|port| port.to_le_bytes()));
        send(&reply, descriptor.as_ref())?;
        Ok(operation)
    }

    /// The ports on which this network namespace listens, except those of the host.
    fn ports(&self) -> io::Result<Vec<u16>> {
        let mut ports = Vec::new();
        for name in ["tcp", "tcp6"] {
            let Ok(file) = File::open(format!("/proc/net/{name}")) else { continue };
            let mut list = String::new();
            file.take(MAX_LIST_BYTES).read_to_string(&mut list)?;
            ports.extend(listening(&list).filter(|(_, inode)| !self.given.contains(inode)));
        }
        let mut ports: Vec<u16> = ports.into_iter().map(|(port, _)| port).collect();
        ports.retain(|port| *port != PROXY_PORT);
        ports.sort_unstable();
        ports.dedup();
        ports.truncate(MAX_PORTS);
        Ok(ports)
    }

    fn listen(&mut self, port: u16) -> io::Result<OwnedFd> {
        // On all addresses of the namespace, which are those of the loopback interface.
        let listener =
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|error| {
                match error.kind() {
                    io::ErrorKind::AddrInUse => Err(error),
                    _ => TcpListener::bind((Ipv4Addr::LOCALHOST, port)),
                }
            })?;
        let listener = OwnedFd::from(listener);
        if self.given.len() == MAX_PORTS {
            self.given.remove(0);
        }
        self.given.push(fstat(&listener)?.st_ino);
        Ok(listener)
    }
}

/// The ports and inodes of the listening sockets in a list: proc(5), `/proc/net/tcp`.
fn listening(list: &str) -> impl Iterator<Item = (u16, u64)> {
    list.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (_, port) = words.next()?.rsplit_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let state = words.nth(1)?;
        let inode = words.nth(5)?.parse().ok()?;
        (state == LISTENING).then_some((port, inode))
    })
}

/// Opens a socket in non-blocking mode and begins to connect it.
fn connecting(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the helper has made the namespaces, and receives the socket of the proxy; `None` if the run
/// has none, or if the helper has ended before, for a reason that its answer has.
///
/// # Errors
/// Returns an error if nothing comes in time.
pub(crate) fn receive(host: &UnixStream) -> io::Result<Option<TcpListener>> {
    let (_, descriptor) = receive_some(host, &mut [0])?;
    Ok(descriptor.map(TcpListener::from))
}

/// Receives a reply of the supervisor.
///
/// # Errors
/// Returns an error if the run has ended, or nothing comes in time.
pub(crate) fn receive_reply(host: &UnixStream) -> io::Result<Reply> {
    let mut head = [0; REPLY_BYTES];
    let (length, descriptor) = receive_some(host, &mut head)?;
    let mut host = host;
    host.read_exact(&mut head[length..])?;
    let [a, b, c, d, low, high] = head;
    let error = i32::from_le_bytes([a, b, c, d]);
    let count = usize::from(u16::from_le_bytes([low, high])).min(MAX_PORTS);
    let mut ports = vec![0; 2 * count];
    host.read_exact(&mut ports)?;
    let ports = ports.chunks_exact(2).map(|port| u16::from_le_bytes([port[0], port[1]]));
    Ok(Reply { error, ports: ports.collect(), descriptor })
}

fn receive_some(host: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(host, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let descriptor = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, descriptor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_found_in_the_lists_of_the_kernel() {
        let list = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  \
                    timeout inode\n   \
                    0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        \
                    0 4242 1 0 100 0 0 10 0\n   \
                    1: 0100007F:1F90 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        \
                    0 4243 1 0 20 4 30 10 -1\n   \
                    2: 00000000000000000000000000000000:0BB8 00000000000000000000000000000000:0000 0A \
                    00000000:00000000 00:00000000 00000000  1000        0 77 1 0 100 0 0 10 0\n\
                    nonsense\n   3: x:y z 0A\n";
        assert_eq!(listening(list).collect::<Vec<_>>(), [(8080, 4242), (3000, 77)]);
        assert_eq!(listening("").count(), 0);
    }
}
