//! Sockets of a run's loopback interface, which the host and the supervisor exchange while the program
//! runs. So the host can connect the programs of several runs, each in a network namespace of its own.
//!
//! Each exchange is a request of three bytes, an [`Operation`] and a port, and a reply: an error number
//! (4 bytes), a count (2 bytes) and as many ports (2 bytes each), and perhaps a descriptor. All numbers
//! are little-endian.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

/// The size of a request in bytes.
pub(crate) const REQUEST_BYTES: usize = 3;

/// The size of a reply in bytes, without its ports.
pub(crate) const REPLY_BYTES: usize = 6;

/// The most ports in a reply.
pub(crate) const MAX_PORTS: usize = 64;

/// What the host asks of the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    /// Starts the program.
    Start = 1,
    /// Lists the ports on which the run listens.
    Ports = 2,
    /// Opens a listening socket.
    Listen = 3,
    /// Opens a socket that is being connected to a port, by IPv4.
    ConnectV4 = 4,
    /// Opens a socket that is being connected to a port, by IPv6.
    ConnectV6 = 5,
}

impl Operation {
    /// The operation with this number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        let all = [Self::Start, Self::Ports, Self::Listen, Self::ConnectV4, Self::ConnectV6];
        all.into_iter().find(|operation| *operation as u8 == number)
    }
}

/// A reply of the supervisor.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The error of the operation; 0 if it succeeded.
    pub(crate) error: i32,
    pub(crate) ports: Vec<u16>,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// The host's end of the channel to the supervisor of one run. After the end of the run, or after a reply
/// that did not come in time, each operation fails.
#[derive(Debug)]
pub struct Loopback(Mutex<Option<UnixStream>>);

impl Loopback {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self(Mutex::new(Some(stream)))
    }

    /// Starts the program of the run.
    ///
    /// # Errors
    /// Returns an error if the run has ended.
    pub fn start_program(&self) -> io::Result<()> {
        self.exchange(Operation::Start, 0).map(drop)
    }

    /// Returns the TCP ports on which programs of the run listen, in ascending order; at most 64. Ports
    /// of [`Self::listen`] and of the proxy are left out.
    ///
    /// # Errors
    /// Returns an error if the run has ended, or the supervisor can't list them.
    pub fn ports(&self) -> io::Result<Vec<u16>> {
        Ok(self.exchange(Operation::Ports, 0)?.ports)
    }

    /// Returns a new socket that listens on a port of the run's loopback interface, by IPv4 and, if the
    /// system has it, by IPv6.
    ///
    /// # Errors
    /// Returns an error if the run has ended, or the port is in use.
    pub fn listen(&self, port: u16) -> io::Result<TcpListener> {
        self.socket(Operation::Listen, port).map(TcpListener::from)
    }

    /// Returns a new socket in non-blocking mode that is being connected to a port on which a program of
    /// the run listens, on the loopback address of the same kind as `by`.
    ///
    /// # Errors
    /// Returns an error if the run has ended. Whether the connection succeeds shows on the socket.
    pub fn connect(&self, port: u16, by: IpAddr) -> io::Result<TcpStream> {
        let operation = match by {
            IpAddr::V4(_) => Operation::ConnectV4,
            IpAddr::V6(_) => Operation::ConnectV6,
        };
        self.socket(operation, port).map(TcpStream::from)
    }

    /// The addresses for [`Self::connect`], in the order in which they are tried.
    pub const ADDRESSES: [IpAddr; 2] =
        [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

    fn socket(&self, operation: Operation, port: u16) -> io::Result<OwnedFd> {
        let reply = self.exchange(operation, port)?;
        reply.descriptor.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn exchange(&self, operation: Operation, port: u16) -> io::Result<Reply> {
        let mut channel = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // If this fails, the channel stays closed: a later reply would be taken for another one.
        let mut stream = channel.take().ok_or(io::ErrorKind::NotConnected)?;
        let [low, high] = port.to_le_bytes();
        stream.write_all(&[operation as u8, low, high])?;
        let reply = crate::system::receive_reply(&stream)?;
        *channel = Some(stream);
        match reply.error {
            0 => Ok(reply),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}
