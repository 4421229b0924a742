//! System calls that wait for a decision of the supervisor (seccomp's user notification,
//! seccomp_unotify(2)): those of [`requests`](super::requests) in both tiers, and in tier B the
//! calls that create a process group. After the gate is closed, no [groups](super::groups) are
//! added.
//!
//! Calls that fork do not wait. A signal interrupts a waiting call that the supervisor has not
//! received yet; a fork then fails in a program whose signal handler does not restart calls. dash,
//! the shell of Debian, has such a handler for SIGCHLD.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libc::c_long;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::Pid;
use seccompiler::{BpfProgramRef, sock_filter};

/// The supervisor's end. Dropping it closes the gate: every later call fails.
pub(super) struct Gate(OwnedFd);

/// A call that waits for a reply.
pub(super) struct PendingCall {
    id: u64,
    /// The thread that makes the call.
    pub(super) thread: Pid,
    pub(super) call: c_long,
    pub(super) arguments: [u64; 6],
}

/// The decision about a waiting call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    /// The kernel executes it.
    Continue,
    /// It returns success without being executed.
    Done,
    /// It fails with this error.
    Failed(i32),
}

impl Gate {
    fn new(listener: OwnedFd) -> Self {
        // include/uapi/linux/seccomp.h of Linux 6.6: switches synchronously between the calling
        // thread and the supervisor. An older kernel refuses, which only makes the calls slower.
        const SET_FLAGS: u64 = 0x4008_2104;
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: the call takes a number.
        unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, SYNC_WAKE_UP) };
        Self(listener)
    }

    /// Receives the next waiting call, if there is one.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub(super) fn next_call(&self) -> io::Result<Option<PendingCall>> {
        // SAFETY: a notification is plain data, and the kernel requires zeroes.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills this structure.
        let received = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut call)
        };
        if received != 0 {
            return match io::Error::last_os_error() {
                // The calling process is dead.
                error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                error => Err(error),
            };
        }
        let Some(thread) = Pid::from_raw(call.pid.cast_signed()) else { return Ok(None) };
        let (number, arguments) = (c_long::from(call.data.nr), call.data.args);
        Ok(Some(PendingCall { id: call.id, thread, call: number, arguments }))
    }

    /// Whether a call still waits. If so, what was read of its thread before belongs to this
    /// thread.
    pub(super) fn is_pending(&self, call: &PendingCall) -> bool {
        // SAFETY: the call reads one number.
        unsafe {
            libc::ioctl(
                self.0.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID as _,
                &raw const call.id,
            ) == 0
        }
    }

    /// Replies to a waiting call.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub(super) fn reply(&self, call: &PendingCall, reply: Reply) -> io::Result<()> {
        let (error, flags) = match reply {
            Reply::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Reply::Done => (0, 0),
            Reply::Failed(error) => (-error, 0),
        };
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // SAFETY: the kernel reads this structure.
        let sent = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw mut answer)
        };
        match io::Error::last_os_error() {
            _ if sent == 0 => Ok(()),
            // The calling process is dead.
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
            error => Err(error),
        }
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Irrevocably applies a filter that forwards some calls to the supervisor; returns the descriptor
/// from which they are received. The caller has set NO_NEW_PRIVS.
///
/// # Errors
/// Returns an error on a kernel before Linux 5.19, or if the process has such a filter already.
pub(super) fn install(filter: BpfProgramRef<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Program {
        length: libc::c_ushort,
        filter: *const sock_filter,
    }
    let length = filter.len().try_into().map_err(io::Error::other)?;
    let program = Program { length, filter: filter.as_ptr() };
    // With the second flag, a signal does not interrupt a call that was received.
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program has the layout of `sock_fprog`, and lives during the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(fd) {
        // SAFETY: the call succeeded, so the descriptor is open and new.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Creates a channel from the process that confines itself to its supervisor.
///
/// # Errors
/// Returns an error if there are no more descriptors.
pub(super) fn channel() -> io::Result<(Sender, Receiver)> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((Sender(one), Receiver(other)))
}

pub(super) struct Sender(OwnedFd);

impl Sender {
    /// Reports that this process is confined, and sends the descriptor that [`install`] returned.
    ///
    /// # Errors
    /// Returns an error if the receiver is closed.
    pub(super) fn send(&self, listener: &OwnedFd) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors = [listener.as_fd()];
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.0, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        Ok(())
    }
}

pub(super) struct Receiver(OwnedFd);

impl Receiver {
    /// Receives what was sent, without waiting.
    ///
    /// # Errors
    /// Returns an error if nothing was sent.
    pub(super) fn receive(&self) -> io::Result<Gate> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        let listener = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match listener {
            Some(listener) if received.bytes > 0 => Ok(Gate::new(listener)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
