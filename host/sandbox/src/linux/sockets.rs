//! Connections in tier A: a program reaches the sockets of its own run, and no others.
//!
//! The run's network namespace separates it from all addresses beyond it, also from abstract names.
//! But a Unix socket with a path is found by its file, and the run sees files of the host: a bind
//! mount leads to the socket of a process beyond the run even if it is read-only. So the supervisor
//! records the file of each socket on which a program of the run listens, and connects to these
//! files only. To the program, nothing listens on any other one.
//!
//! The supervisor connects instead of the program: on the program's own socket, to an address that
//! it has copied, or to the very file that it has looked at. So neither the memory of the program
//! nor a link can be changed in between. What differs for the other side: `SO_PEERCRED` names the
//! supervisor, process 1, with the same user.

use std::fs;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use libc::{EAGAIN, EALREADY, ECONNREFUSED, EFAULT, EINPROGRESS, EINVAL, ENOBUFS, ENOTSOCK, c_int};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fcntl_getfl, fcntl_setfl, fstat, open, openat2,
};
use rustix::io::Errno;
use rustix::process::Pid;

use super::gate::{Gate, PendingCall, Reply};
use super::procfs;
use super::requests::{descriptor, has_one_thread};

/// The most files of listening sockets that are recorded at a time. Each takes a descriptor of the
/// supervisor.
const MAX_LISTENERS: usize = 256;

/// The most connections that can wait for their other side at a time.
const MAX_WAITING: usize = 256;

/// The longest address of a socket in bytes: `struct sockaddr_storage`.
const MAX_ADDRESS_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// The bytes of an address before its path or name: unix(7).
const FAMILY_BYTES: usize = size_of::<libc::sa_family_t>();

/// The longest address of a Unix socket in bytes: `struct sockaddr_un`.
const MAX_UNIX_ADDRESS_BYTES: usize = size_of::<libc::sockaddr_un>();

/// Opens the file of a socket with `O_PATH`: include/uapi/linux/un.h, since Linux 4.12. It needs the
/// capability to administer the run's network namespace, which the supervisor has.
const SIOCUNIXFILE: libc::c_ulong = 0x89e0;

/// The listening sockets of a run, and the connections that wait.
#[derive(Default)]
pub(super) struct Sockets {
    /// The files of the listening sockets. While a file is open, its inode is no other file's.
    listeners: Vec<(OwnedFd, Inode)>,
    waiting: Vec<Connecting>,
}

/// The device and the number of an inode.
type Inode = (u64, u64);

/// A connection that is being made.
struct Connecting {
    call: PendingCall,
    socket: OwnedFd,
    target: Target,
}

/// What to connect to.
enum Target {
    /// An address, as the program gave it.
    Address(Vec<u8>),
    /// The file of a listening socket.
    File(OwnedFd),
}

impl Sockets {
    /// Decides about a `listen` or a `connect`. Returns `None` if the call keeps waiting, or does not
    /// wait any more.
    pub(super) fn decide(
        &mut self,
        gate: &Gate,
        call: PendingCall,
    ) -> Option<(PendingCall, Reply)> {
        let socket = descriptor(gate, &call)?;
        let reply = match socket {
            Err(error) => Reply::Failed(error),
            Ok(socket) if call.call == libc::SYS_listen => self.listen(&socket),
            Ok(socket) => return self.connect(gate, call, socket),
        };
        Some((call, reply))
    }

    /// Whether any connection waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tries again to make the connections that wait.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses a reply.
    pub(super) fn retry(&mut self, gate: &Gate) -> io::Result<()> {
        for waiting in std::mem::take(&mut self.waiting) {
            // Otherwise the thread has been killed.
            if !gate.is_pending(&waiting.call) {
                continue;
            }
            match waiting.attempt() {
                Some(reply) => gate.reply(&waiting.call, reply)?,
                None => self.waiting.push(waiting),
            }
        }
        Ok(())
    }

    /// Records the file of a socket that is about to listen. If a thread exchanges the descriptor
    /// before the kernel listens, the recorded file is still that of a socket of the run.
    fn listen(&mut self, socket: &OwnedFd) -> Reply {
        let Some(file) = file_of(socket) else { return Reply::Continue };
        let Ok(stat) = fstat(&file) else { return Reply::Failed(ENOBUFS) };
        let inode = inode(&stat);
        if self.listeners.iter().any(|(_, known)| *known == inode) {
            return Reply::Continue;
        }
        if self.listeners.len() >= MAX_LISTENERS {
            // No path leads to a removed file.
            self.listeners.retain(|(file, _)| fstat(file).is_ok_and(|stat| stat.st_nlink > 0));
        }
        if self.listeners.len() >= MAX_LISTENERS {
            return Reply::Failed(ENOBUFS);
        }
        self.listeners.push((file, inode));
        Reply::Continue
    }

    fn connect(
        &mut self,
        gate: &Gate,
        call: PendingCall,
        socket: OwnedFd,
    ) -> Option<(PendingCall, Reply)> {
        let domain = option(&socket, libc::SO_DOMAIN);
        let found = match domain {
            None => Err(ENOTSOCK),
            // Its threads can't exchange the socket for a Unix socket.
            Some(domain) if domain != libc::AF_UNIX && has_one_thread(call.thread) => Ok(None),
            Some(domain) => address(&call).and_then(|address| match domain {
                libc::AF_UNIX => self.unix_target(&call, address).map(Some),
                _ => Ok(Some(Target::Address(address))),
            }),
        };
        // Then all that was read belongs to this thread.
        if !gate.is_pending(&call) {
            return None;
        }
        let target = match found {
            Err(error) => return Some((call, Reply::Failed(error))),
            Ok(None) => return Some((call, Reply::Continue)),
            Ok(Some(target)) => target,
        };
        let connecting = Connecting { call, socket, target };
        match connecting.attempt() {
            Some(reply) => Some((connecting.call, reply)),
            None if self.waiting.len() < MAX_WAITING => {
                self.waiting.push(connecting);
                None
            }
            None => Some((connecting.call, Reply::Failed(EAGAIN))),
        }
    }

    /// Returns what the address of a Unix socket leads to, or the error for the call.
    fn unix_target(&self, call: &PendingCall, address: Vec<u8>) -> Result<Target, i32> {
        let path = match address.get(FAMILY_BYTES..) {
            Some([_, ..]) if address.len() > MAX_UNIX_ADDRESS_BYTES => return Err(EINVAL),
            Some(name @ [_, ..]) if address[..FAMILY_BYTES] == unix_family() => name,
            _ => return Err(EINVAL),
        };
        // An abstract name, which is the network namespace's.
        if path[0] == 0 {
            return Ok(Target::Address(address));
        }
        let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
        let file = open_as(call.thread, Path::new(std::ffi::OsStr::from_bytes(path)));
        let file = file.map_err(Errno::raw_os_error)?;
        let stat = fstat(&file).map_err(Errno::raw_os_error)?;
        let is_socket = FileType::from_raw_mode(stat.st_mode) == FileType::Socket;
        let is_own = self.listeners.iter().any(|(_, known)| *known == inode(&stat));
        if is_socket && is_own { Ok(Target::File(file)) } else { Err(ECONNREFUSED) }
    }
}

impl Connecting {
    /// Tries to connect, without waiting. Returns `None` if the call waits and the other side is not
    /// ready.
    fn attempt(&self) -> Option<Reply> {
        let Ok(flags) = fcntl_getfl(&self.socket) else { return Some(Reply::Failed(EINVAL)) };
        let waits = !flags.contains(OFlags::NONBLOCK);
        // The program shares this flag of its socket. It does not use the socket meanwhile, since it
        // is not connected.
        if waits && fcntl_setfl(&self.socket, flags | OFlags::NONBLOCK).is_err() {
            return Some(Reply::Failed(EINVAL));
        }
        let connected = self.target.connect(&self.socket);
        if waits && fcntl_setfl(&self.socket, flags).is_err() {
            return Some(Reply::Failed(EINVAL));
        }
        match connected {
            Ok(()) => Some(Reply::Done),
            Err(EAGAIN | EALREADY | EINPROGRESS) if waits => None,
            Err(error) => Some(Reply::Failed(error)),
        }
    }
}

impl Target {
    fn connect(&self, socket: &OwnedFd) -> Result<(), i32> {
        let of_file;
        let address = match self {
            Self::Address(address) => address,
            Self::File(file) => {
                // This link leads to the open file itself, wherever its path leads by now.
                let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
                of_file = [&unix_family(), path.as_bytes()].concat();
                &of_file
            }
        };
        // SAFETY: the address lives during the call, and has this length.
        let status = unsafe {
            libc::connect(
                socket.as_raw_fd(),
                address.as_ptr().cast(),
                address.len() as libc::socklen_t,
            )
        };
        match status {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error().raw_os_error().unwrap_or(EINVAL)),
        }
    }
}

fn inode(stat: &Stat) -> Inode {
    (stat.st_dev, stat.st_ino)
}

fn unix_family() -> [u8; FAMILY_BYTES] {
    (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes()
}

/// Copies the address of a `connect` from the memory of the program.
fn address(call: &PendingCall) -> Result<Vec<u8>, i32> {
    let length = usize::try_from(call.arguments[2] as c_int).map_err(|_| EINVAL)?;
    if length > MAX_ADDRESS_BYTES {
        return Err(EINVAL);
    }
    let mut address = vec![0; length];
    procfs::read_memory(call.thread, call.arguments[1], &mut address).ok_or(EFAULT)?;
    Ok(address)
}

/// Opens the file that a path names for a thread, only to refer to it. Links of `/proc` to open
/// files and directories are refused: they would be those of the supervisor.
fn open_as(thread: Pid, path: &Path) -> rustix::io::Result<OwnedFd> {
    let (flags, mode) = (OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let resolve = ResolveFlags::NO_MAGICLINKS;
    if path.is_absolute() {
        return openat2(CWD, path, flags, mode, resolve);
    }
    let directory = format!("/proc/{}/cwd", thread.as_raw_nonzero());
    openat2(open(directory, flags | OFlags::DIRECTORY, mode)?, path, flags, mode, resolve)
}

/// The file of a Unix socket that was bound to a path; `None` for any other socket.
fn file_of(socket: &OwnedFd) -> Option<OwnedFd> {
    if option(socket, libc::SO_DOMAIN)? != libc::AF_UNIX {
        return None;
    }
    // SAFETY: the call takes no pointer, and returns a new descriptor.
    let file = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCUNIXFILE as _, 0) };
    // SAFETY: the call succeeded, so the descriptor is open and new.
    (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
}

/// An option of a socket that is a number: socket(7). `None` if this is not a socket.
fn option(socket: &OwnedFd, option: c_int) -> Option<c_int> {
    let (mut value, mut length): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: the value has the given length, and lives during the call.
    let status = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    (status == 0).then_some(value)
}

/// The number of Unix sockets of the run's network namespace that no process has open: connections
/// that are not accepted, and sockets in transit through others: proc(5), `/proc/net/unix`. `is_open`
/// says whether a process has the socket with an inode open.
pub(super) fn without_descriptor(is_open: impl Fn(u64) -> bool) -> u64 {
    let text = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // A connection that is not accepted has the inode 0.
    let inodes = text.lines().skip(1).filter_map(|line| {
        line.split_ascii_whitespace().nth(6).and_then(|inode| inode.parse::<u64>().ok())
    });
    inodes.filter(|inode| !is_open(*inode)).count() as u64
}

/// The number of Unix sockets of the run's network namespace.
pub(super) fn count() -> u64 {
    without_descriptor(|_| false)
}
