//! The system calls that a program is refused (seccomp).

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, sock_filter,
};

use super::gate;
use crate::{SandboxError, Tier};

/// The compiled filters of one tier.
pub(super) struct Filters {
    by_number: BpfProgram,
    denied: BpfProgram,
    tier: Tier,
}

impl Filters {
    /// Compiles the filters.
    ///
    /// # Errors
    /// The processor is one that the compiler does not know.
    pub(super) fn new(tier: Tier) -> Result<Self, SandboxError> {
        let failed = |error: BackendError| SandboxError::Unavailable(error.to_string());
        let filter = SeccompFilter::new(
            Denied::of(tier).map_err(failed)?.0,
            SeccompAction::Allow,
            SeccompAction::Errno(libc::EPERM.unsigned_abs()),
            std::env::consts::ARCH.try_into().map_err(failed)?,
        );
        let denied = filter.and_then(TryInto::try_into).map_err(failed)?;
        Ok(Self { by_number: by_number(tier), denied, tier })
    }

    /// Confines the calling process. Gives where calls ask from now on, in tier B.
    ///
    /// # Errors
    /// A kernel without seccomp; in tier B, one before Linux 5.19.
    pub(super) fn apply(&self) -> io::Result<Option<OwnedFd>> {
        let install = |filter| seccompiler::apply_filter(filter).map_err(io::Error::other);
        let listener = match self.tier {
            Tier::A => install(&self.by_number).map(|()| None),
            Tier::B => gate::install(&self.by_number).map(Some),
        }?;
        install(&self.denied)?;
        Ok(listener)
    }
}

/// The last call that was looked at: `removexattrat` of Linux 6.13. What comes later does not
/// exist for a program; nor do the calls of the x32 interface, from 0x40000000 on.
const LAST_KNOWN: c_long = 466;

/// Calls that a program can do without, and that no filter can look into, since their arguments
/// are in memory. Programs take the older call when one does not exist.
const OPAQUE: [c_long; 2] = [libc::SYS_clone3, libc::SYS_openat2];

/// The filter for what the other one can't say: that a call does not exist, or has to ask.
fn by_number(tier: Tier) -> BpfProgram {
    // Instructions: linux/bpf_common.h. The call's number is the first word that is loaded.
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    let instruction = |code, jt, k| sock_filter { code, jt, jf: 0, k };

    // Each test jumps over those that follow it, to its answer; the first answer is to allow.
    const { assert!(OPAQUE.len() + gate::ASKS.len() < 250, "a jump is a byte") };
    let asks = match tier {
        Tier::A => &[][..], // Its namespace is killed as a whole.
        Tier::B => &gate::ASKS[..],
    };
    let tests = [(JUMP_IF_GREATER, LAST_KNOWN, 1)]
        .into_iter()
        .chain(OPAQUE.map(|call| (JUMP_IF_EQUAL, call, 1)))
        .chain(asks.iter().map(|call| (JUMP_IF_EQUAL, *call, 2)));
    let after = (0..tests.clone().count() as u8).rev();
    let mut filter = vec![instruction(LOAD_WORD, 0, 0)];
    filter.extend(
        tests
            .zip(after)
            .map(|((code, call, answer), after)| instruction(code, after + answer, call as u32)),
    );
    filter.extend([
        instruction(RETURN, 0, SeccompAction::Allow.into()),
        instruction(RETURN, 0, SeccompAction::Errno(libc::ENOSYS.unsigned_abs()).into()),
        instruction(RETURN, 0, libc::SECCOMP_RET_USER_NOTIF),
    ]);
    filter
}

/// The denied calls of a tier: each always, or where one of its rules fits.
#[derive(Default)]
struct Denied(BTreeMap<c_long, Vec<SeccompRule>>);

impl Denied {
    fn of(tier: Tier) -> Result<Self, BackendError> {
        let mut denied = Self::default();
        denied.in_both_tiers()?;
        match tier {
            Tier::A => denied.beside_namespaces()?,
            Tier::B => denied.without_namespaces()?,
        }
        Ok(denied)
    }

    fn always(&mut self, calls: &[c_long]) {
        self.0.extend(calls.iter().map(|call| (*call, Vec::new())));
    }

    /// Where all arguments of one of the alternatives fit.
    fn if_any(&mut self, call: c_long, alternatives: &[Vec<Argument>]) -> Result<(), BackendError> {
        let rules: Result<_, _> = alternatives.iter().map(|all| rule(all)).collect();
        self.0.insert(call, rules?);
        Ok(())
    }

    fn in_both_tiers(&mut self) -> Result<(), BackendError> {
        self.always(ALWAYS);
        // New namespaces bring capabilities, and with them much of the kernel.
        self.if_any(libc::SYS_clone, &NAMESPACES.map(|flag| vec![bits(0, flag as u64)]))?;
        // Input that is pushed into a terminal is executed by whoever reads it.
        self.if_any(libc::SYS_ioctl, &[vec![is(1, TIOCSTI)], vec![is(1, TIOCLINUX)]])?;
        self.if_any(libc::SYS_personality, &[vec![not(0, 0), not(0, 0xffff_ffff)]])?;
        // Pairs are for a program and its children. One of datagrams could still be connected
        // to, or send to, any socket that has a name.
        let kind = |kind: c_int| vec![masked(1, 0xf, kind as u64)];
        self.if_any(
            libc::SYS_socketpair,
            &[vec![not(0, libc::AF_UNIX as u64)], kind(libc::SOCK_DGRAM), kind(libc::SOCK_RAW)],
        )?;
        for (call, process) in OF_ANOTHER_PROCESS {
            self.if_any(*call, &[vec![not(*process, 0)]])?;
        }
        let set_id = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
        for (call, mode) in MODES {
            self.if_any(*call, &set_id.map(|set_id| vec![bits(*mode, set_id)]))?;
        }
        for (call, flags, mode) in OPENS {
            let creates = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
            let alternatives = creates.map(|creates| {
                set_id.map(|set_id| vec![bits(*flags, creates as u64), bits(*mode, set_id)])
            });
            self.if_any(*call, alternatives.as_flattened())?;
        }
        Ok(())
    }

    /// In a network of its own, a program has TCP, UDP and the list of interfaces. Unix sockets
    /// have names in files, where no namespace keeps one from the host's.
    fn beside_namespaces(&mut self) -> Result<(), BackendError> {
        let none_of = |index, allowed: &[c_int]| -> Vec<Argument> {
            allowed.iter().map(|value| not(index, *value as u64)).collect()
        };
        let families = none_of(0, &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
        let mut protocols = none_of(2, &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP]);
        protocols.push(not(0, libc::AF_NETLINK as u64));
        let netlink = vec![is(0, libc::AF_NETLINK as u64), not(2, libc::NETLINK_ROUTE as u64)];
        self.if_any(libc::SYS_socket, &[families, protocols, netlink])
    }

    fn without_namespaces(&mut self) -> Result<(), BackendError> {
        // What was denied in part is now denied as a whole.
        self.always(WITHOUT_NAMESPACES);
        // Without a path, it is of a file that is open.
        let path = Argument(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
        self.if_any(libc::SYS_utimensat, &[vec![path]])
    }
}

/// A condition on one argument: its index, its width, a comparison, a value.
#[derive(Clone)]
pub(super) struct Argument(u8, SeccompCmpArgLen, SeccompCmpOp, u64);

pub(super) fn is(index: u8, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn not(index: u8, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

pub(super) fn masked(index: u8, mask: u64, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

pub(super) fn bits(index: u8, all: u64) -> Argument {
    masked(index, all, all)
}

pub(super) fn rule(all: &[Argument]) -> Result<SeccompRule, BackendError> {
    let conditions: Result<Vec<_>, _> = all
        .iter()
        .cloned()
        .map(|Argument(index, width, comparison, value)| {
            SeccompCondition::new(index, width, comparison, value)
        })
        .collect();
    SeccompRule::new(conditions?)
}

/// Refused in both tiers: what reaches into other processes, what changes the system or its
/// mounts, and large parts of the kernel that build tools, linters and tests do not use.
const ALWAYS: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_memfd_secret,
    libc::SYS_migrate_pages,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

const NAMESPACES: [c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// include/uapi/asm-generic/ioctls.h.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541c;

/// Calls that set a mode, and which argument it is. A file that runs as its owner, left behind
/// in a workspace, would be a way to become the host's user, or root.
const MODES: &[(c_long, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
];

/// Calls that can create a file with a mode: which arguments are the flags and the mode.
const OPENS: &[(c_long, u8, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
    (libc::SYS_openat, 2, 3),
];

/// Refused in tier B. There, Landlock leaves open what a path says of a file besides its contents;
/// and what System V and POSIX share between processes is the host's own.
const WITHOUT_NAMESPACES: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_removexattr,
    REMOVEXATTRAT,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_setxattr,
    SETXATTRAT,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
    libc::SYS_socket,
];

/// include/uapi/asm-generic/unistd.h of Linux 6.13. The C library does not name them everywhere.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;

/// Calls that can be made on another process of the same user, and which argument names it.
/// Refused unless they name the caller, as 0: in tier B, all of the user's processes can be named,
/// and in tier A still the one that watches.
const OF_ANOTHER_PROCESS: &[(c_long, u8)] = &[
    (libc::SYS_ioprio_set, 1),
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_setpriority, 1),
];
