//! Tier A: the namespaces of a run, and the first process in them.

use std::fs;
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, getgid, getpid, getuid,
    pidfd_open, set_dumpable_behavior, set_parent_process_death_signal, waitpid,
};
use rustix::thread::{
    ThreadNameSpaceType, UnshareFlags, move_into_thread_name_spaces, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid, unshare_unsafe,
};

use super::mounts::{self, Sources};
use crate::wire::Owner;
use crate::{Command, SandboxError};

/// Which process this is after [`enter`] returns.
pub(super) enum Role {
    /// The helper, after the end of the run: it has to end.
    Outside,
    /// The first process of the namespaces, with the file tree of the command.
    Init,
}

/// The namespaces that do not depend on the command, except that of processes.
const ALIKE: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);

/// The namespaces of [`ALIKE`], to enter them.
const ALIKE_TYPES: ThreadNameSpaceType = ThreadNameSpaceType::USER
    .union(ThreadNameSpaceType::NETWORK)
    .union(ThreadNameSpaceType::INTER_PROCESS_COMMUNICATION)
    .union(ThreadNameSpaceType::HOST_NAME_AND_NIS_DOMAIN_NAME)
    .union(ThreadNameSpaceType::CONTROL_GROUP);

/// The user outside of the namespace that root becomes: unused in systemd's list of user ids
/// (systemd.io/UIDS-GIDS).
const UNUSED_ID: u32 = 2_000_000_000;

/// Enters new namespaces, with the file tree of a command; `ready` are those that root has prepared.
/// Returns twice: in the first process of the namespaces at once, and in the helper when that process has
/// ended.
///
/// # Errors
/// Returns an error in either process if the system refuses a step.
pub(super) fn enter(
    command: &Command,
    ready: Option<OwnedNamespaces>,
) -> Result<Role, SandboxError> {
    let Some((owner, sources)) = OwnedNamespaces::find(command, ready) else {
        let role = prepare()?;
        if let Role::Init = role {
            enter_tree(command)?;
        }
        return Ok(role);
    };
    owner.enter().map_err(|error| setup("namespaces", error))?;
    let role = start_init()?;
    if let Role::Init = role {
        start(sources, command)?;
    }
    Ok(role)
}

/// Enters namespaces in which the user keeps its id, before the command is known: all but that of mounts,
/// so that the tree is as it is when the command comes. Returns twice, as [`enter`].
///
/// # Errors
/// As [`enter`].
pub(super) fn prepare() -> Result<Role, SandboxError> {
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    unshare(ALIKE | UnshareFlags::NEWPID).map_err(|error| setup("namespaces", error))?;
    // Only one of the caller's groups is mapped; the kernel requires this before the map is
    // written.
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")))
        .map_err(|error| setup("a user namespace", error))?;
    furnish().map_err(|error| setup("namespaces", error))?;
    start_init()
}

/// Sets up namespaces that were just made.
fn furnish() -> io::Result<()> {
    // The only name that every /etc/hosts has.
    rustix::system::sethostname(b"localhost")?;
    loopback_up()
}

/// Shows the file tree of a command to a process that [`prepare`] has returned in.
///
/// # Errors
/// The system refuses a step.
pub(super) fn enter_tree(command: &Command) -> Result<(), SandboxError> {
    unshare(UnshareFlags::NEWNS)
        .and_then(|()| mounts::make_private())
        .map_err(|error| setup("a mount namespace", error))?;
    start(Sources::gather(command, None)?, command)
}

/// Starts the first process of the namespaces. Returns twice, as [`enter`].
fn start_init() -> Result<Role, SandboxError> {
    let helper = pidfd_open(getpid(), PidfdFlags::empty());
    let helper = helper.map_err(|error| setup("a process", error))?;
    if let Some(init) = fork().map_err(|error| setup("a process", error))? {
        // It can't fail: the child exists.
        let _ = waitpid(Some(init), WaitOptions::empty());
        return Ok(Role::Outside);
    }
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| setup("a signal", error))?;
    // If the helper was killed before the signal was set, there is nothing to do.
    let mut ended = [PollFd::new(&helper, PollFlags::IN)];
    if poll(&mut ended, Some(&Timespec::default())) != Ok(0) {
        return Ok(Role::Outside);
    }
    Ok(Role::Init)
}

/// Prepares the first process before it starts a program.
fn start(sources: Sources, command: &Command) -> Result<(), SandboxError> {
    sources.enter(command)?;
    if command.proxy || command.loopback {
        super::network::hand_over(command.proxy)
            .map_err(|error| setup("the host's sockets", error))?;
    }
    // Other processes must not access its memory and descriptors.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| setup("a flag", error))
}

/// The namespaces of a run of root, but those of processes and mounts. Root becomes a user: inside of the
/// user namespace the owner of the files that it works on, outside an unused id. As root, it would still own
/// files of root, such as those in `/proc/sys`.
pub(crate) struct OwnedNamespaces {
    owner: Owner,
    users: OwnedFd,
    keeper: Keeper,
}

/// A process in namespaces, which keeps them until others have entered them.
struct Keeper {
    process: Pid,
    /// The process ends when this is closed.
    open: Option<PipeWriter>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.open = None;
        // It fails if the process has been waited for.
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }
}

impl OwnedNamespaces {
    /// Makes namespaces for files of this owner.
    ///
    /// # Errors
    /// The system refuses a step.
    pub(super) fn make(owner: Owner) -> io::Result<Self> {
        let (mut ready, mut done) = io::pipe()?;
        let (mut over, open) = io::pipe()?;
        let Some(child) = fork()? else {
            drop(open);
            let made = set_parent_process_death_signal(Some(Signal::KILL)).is_ok()
                && unshare(ALIKE).is_ok()
                && furnish().is_ok();
            let _ = done.write_all(&[u8::from(made)]);
            let _ = over.read(&mut [0]);
            // SAFETY: it ends this process, which is a copy of another one.
            unsafe { libc::_exit(0) }
        };
        drop(done);
        let keeper = Keeper { process: child, open: Some(open) };
        let mut made = [0];
        ready.read_exact(&mut made)?;
        if made == [0] {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let files = format!("/proc/{}", child.as_raw_nonzero());
        fs::write(format!("{files}/uid_map"), format!("{} {UNUSED_ID} 1", owner.uid))?;
        fs::write(format!("{files}/gid_map"), format!("{} {UNUSED_ID} 1", owner.gid))?;
        let users = fs::File::open(format!("{files}/ns/user"))?.into();
        Ok(Self { owner, users, keeper })
    }

    /// Finds or makes the namespaces for a command, and gathers its files. Returns `None` for users other
    /// than root, with an overlay (it writes as the user that mounted it, and its layers are not mapped),
    /// and if a file system does not support mapped mounts.
    fn find(command: &Command, ready: Option<Self>) -> Option<(Self, Sources)> {
        let owner = Owner::of(command)?;
        let own = match ready.filter(|ready| ready.owner == owner) {
            Some(ready) => ready,
            None => Self::make(owner).ok()?,
        };
        let sources = Sources::gather(command, Some(own.users.as_fd())).ok()?;
        Some((own, sources))
    }

    fn enter(self) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.owner.uid), Gid::from_raw(self.owner.gid));
        let keeper = pidfd_open(self.keeper.process, PidfdFlags::empty())?;
        set_thread_groups(&[])?;
        move_into_thread_name_spaces(keeper.as_fd(), ALIKE_TYPES)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        unshare(UnshareFlags::NEWNS | UnshareFlags::NEWPID)?;
        mounts::make_private()
    }
}

fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the process has one thread, so no other thread shares descriptors or the working
    // directory.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Forks; returns `None` in the child.
pub(super) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the helper has one thread, so its memory is consistent in the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(Pid::from_raw(child)),
    }
}

/// Brings the loopback interface of a new network namespace up: netdevice(7).
fn loopback_up() -> io::Result<()> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    use std::os::fd::AsRawFd as _;

    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: an interface request is plain data, for which zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the request lives during the call, and is of the kind that this call takes.
    let status =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as _, &raw mut request) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn setup(what: impl std::fmt::Display, error: impl Into<io::Error>) -> SandboxError {
    SandboxError::Setup(format!("{what}: {}", error.into()))
}
