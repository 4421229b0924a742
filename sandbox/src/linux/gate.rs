//! New processes and threads have to ask. Within a run, a call that makes one waits until the
//! supervisor has let it through (seccomp's user notification, seccomp_unotify(2)). So a run never
//! has more than it may, as root too and without namespaces; and once the gate is closed, nothing
//! can fork away from being killed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libc::c_long;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use seccompiler::{BpfProgramRef, sock_filter};

/// The calls that ask. `clone3` does not exist for a program.
pub(super) const ASKS: &[c_long] = &[
    libc::SYS_clone,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// The supervisor's side. Dropping it closes the gate: every later call fails.
pub(super) struct Gate(OwnedFd);

impl Gate {
    /// Lets the call through that waits, if there is one and `admit` says so. One that is not let
    /// through waits on, and fails when the gate is closed. Says whether there is none such.
    ///
    /// # Errors
    /// The kernel refuses, or `admit` fails.
    pub(super) fn let_through_if(
        &self,
        admit: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<bool> {
        // SAFETY: a notification is plain data, and the call wants it to be zero.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is the one that the call fills.
        let received = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV as _, &raw mut call)
        };
        if received != 0 {
            return match io::Error::last_os_error() {
                // Who waited is dead.
                error if error.raw_os_error() == Some(libc::ENOENT) => Ok(true),
                error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                error => Err(error),
            };
        }
        if !admit()? {
            return Ok(false);
        }
        let mut answer = libc::seccomp_notif_resp {
            id: call.id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: the structure is the one that the call reads. Only numbers were looked at, and
        // none of the program's memory, which could have changed meanwhile.
        let sent = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND as _, &raw mut answer)
        };
        match io::Error::last_os_error() {
            _ if sent == 0 => Ok(true),
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(true),
            error => Err(error),
        }
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Applies a filter that answers "ask" to some calls, for good, and gives what they ask. The
/// caller has given up new privileges.
///
/// # Errors
/// A kernel before Linux 5.19; a process that has such a filter already.
pub(super) fn install(filter: BpfProgramRef<'_>) -> io::Result<OwnedFd> {
    #[repr(C)]
    struct Program {
        length: libc::c_ushort,
        filter: *const sock_filter,
    }
    let length = filter.len().try_into().map_err(io::Error::other)?;
    let program = Program { length, filter: filter.as_ptr() };
    // With the second flag, a signal does not take back a call that was let through.
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: the program has the layout of `sock_fprog`, and lives during the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(fd) {
        // SAFETY: the call succeeded, so the descriptor is open, and nobody else's.
        Ok(fd @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The way from the process that installs a filter to the one that supervises it: first the
/// sender, then the receiver.
///
/// # Errors
/// No more descriptors.
pub(super) fn way() -> io::Result<(Sender, Receiver)> {
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok((Sender(one), Receiver(other)))
}

pub(super) struct Sender(OwnedFd);

impl Sender {
    /// Hands over what [`install`] gave.
    ///
    /// # Errors
    /// The receiver is gone.
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
    /// Takes what was sent. It does not wait.
    ///
    /// # Errors
    /// Nothing was sent.
    pub(super) fn receive(&self) -> io::Result<Gate> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
        let mut descriptors = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let listener = descriptors.next().and_then(|mut descriptors| descriptors.next());
        listener.map(Gate).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
