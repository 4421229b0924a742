//! What a program may not say in the arguments of a call that it may make.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{BackendError, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};

use crate::Tier;

/// A condition on one argument: its index, its width, a comparison, a value.
#[derive(Clone)]
pub(in crate::system) struct Argument(u8, SeccompCmpArgLen, SeccompCmpOp, u64);

pub(in crate::system) fn is(index: u8, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
}

fn not(index: u8, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
}

pub(in crate::system) fn masked(index: u8, mask: u64, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value)
}

pub(in crate::system) fn bits(index: u8, all: u64) -> Argument {
    masked(index, all, all)
}

fn below(index: u8, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Lt, value)
}

fn above(index: u8, value: u64) -> Argument {
    Argument(index, SeccompCmpArgLen::Dword, SeccompCmpOp::Gt, value)
}

fn none_of(index: u8, allowed: &[u64]) -> Vec<Argument> {
    allowed.iter().map(|value| not(index, *value)).collect()
}

pub(in crate::system) fn rule(all: &[Argument]) -> Result<SeccompRule, BackendError> {
    let conditions: Result<Vec<_>, _> = all
        .iter()
        .cloned()
        .map(|Argument(index, width, comparison, value)| {
            SeccompCondition::new(index, width, comparison, value)
        })
        .collect();
    SeccompRule::new(conditions?)
}

/// What is refused of some calls. A call is refused where all conditions of one alternative fit.
pub(super) struct Refused {
    pub(super) calls: Vec<(&'static str, c_long, Vec<Vec<Argument>>)>,
    /// Only in this tier.
    pub(super) tier: Option<Tier>,
    /// What is refused, and why.
    pub(super) what: &'static str,
}

impl Refused {
    fn of(
        name: &'static str,
        call: c_long,
        alternatives: Vec<Vec<Argument>>,
        what: &'static str,
    ) -> Self {
        Self { calls: vec![(name, call, alternatives)], tier: None, what }
    }

    fn only_in(self, tier: Tier) -> Self {
        Self { tier: Some(tier), ..self }
    }
}

/// The rules of a tier, by the calls' numbers.
///
/// # Errors
/// A rule that the compiler of filters refuses.
pub(super) fn refused(tier: Tier) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, BackendError> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = BTreeMap::new();
    for refused in all() {
        if refused.tier.is_some_and(|only| only != tier) {
            continue;
        }
        for (_, call, alternatives) in &refused.calls {
            let more: Result<Vec<_>, _> = alternatives.iter().map(|all| rule(all)).collect();
            rules.entry(*call).or_default().extend(more?);
        }
    }
    Ok(rules)
}

/// All that is refused by arguments.
pub(super) fn all() -> Vec<Refused> {
    let mut all = vec![descriptors(), devices(), large_pages()];
    all.extend(processes());
    all.extend(sockets());
    all.extend([modes(), other_processes(), priorities(), times_by_path()]);
    all
}

/// `fcntl` by an allow list of commands.
fn descriptors() -> Refused {
    const ALLOWED: &[c_int] = &[
        libc::F_DUPFD,
        libc::F_GETFD,
        libc::F_SETFD,
        libc::F_GETFL,
        libc::F_SETFL,
        libc::F_GETLK,
        libc::F_SETLK,
        libc::F_SETLKW,
        libc::F_SETOWN,
        libc::F_GETOWN,
        libc::F_GETLEASE,
        F_DUPFD_QUERY,
        libc::F_DUPFD_CLOEXEC,
        libc::F_GETPIPE_SZ,
        libc::F_ADD_SEALS,
        libc::F_GET_SEALS,
    ];
    let allowed: Vec<u64> = ALLOWED.iter().map(|command| *command as u64).collect();
    Refused::of(
        "fcntl",
        libc::SYS_fcntl,
        vec![none_of(1, &allowed)],
        "All commands but those for copying a descriptor, for its flags and owner, for locks of a \
         process, and for asking. So no leases (`F_SETLEASE`) and notifications (`F_NOTIFY`, \
         `F_SETSIG`), which hold up or watch other programs of the user; no locks of an open file \
         (`F_OFD_*`), which could outlive their process; no larger pipes (`F_SETPIPE_SZ`), since \
         the user's pipes share one limit.",
    )
}

/// A command of Linux 6.10 and later.
const F_DUPFD_QUERY: c_int = 1027;

/// `ioctl` by an allow list of requests: include/uapi/asm-generic/ioctls.h, linux/sockios.h,
/// linux/fs.h.
fn devices() -> Refused {
    const TERMINALS: (u64, u64) = (0x5401, 0x5460);
    const SOCKETS: (u64, u64) = (0x8901, 0x89ff);
    const TIOCSTI: u64 = 0x5412;
    const TIOCLINUX: u64 = 0x541c;
    const TIOCCONS: u64 = 0x541d;
    const TIOCSETD: u64 = 0x5423;
    const OTHERS: [u64; 9] = [
        0x8004_5430, // TIOCGPTN
        0x4004_5431, // TIOCSPTLCK
        0x802c_542a, // TCGETS2
        0x402c_542b, // TCSETS2
        0x402c_542c, // TCSETSW2
        0x402c_542d, // TCSETSF2
        0x4004_9409, // FICLONE
        0x4020_940d, // FICLONERANGE
        0x8008_6601, // FS_IOC_GETFLAGS
    ];
    let mut beyond = none_of(1, &OTHERS);
    beyond.push(above(1, SOCKETS.1));
    let between = vec![above(1, TERMINALS.1), below(1, SOCKETS.0)];
    let mut alternatives = vec![vec![below(1, TERMINALS.0)], between, beyond];
    alternatives
        .extend([TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD].map(|request| vec![is(1, request)]));
    Refused::of(
        "ioctl",
        libc::SYS_ioctl,
        alternatives,
        "All requests but those to terminals and sockets, cloning a file (`FICLONE`) and reading \
         its flags. So no flags, verity, quota, deduplication or freezing of the user's files \
         (`FS_IOC_*`), which an open file is enough for; of terminals no input that another \
         program would execute (`TIOCSTI`), no console and no line disciplines.",
    )
}

fn large_pages() -> Refused {
    const SHM_HUGETLB: u64 = 0o4000;
    let calls = vec![
        ("mmap", libc::SYS_mmap, vec![vec![bits(3, libc::MAP_HUGETLB as u64)]]),
        ("shmget", libc::SYS_shmget, vec![vec![bits(2, SHM_HUGETLB)]]),
    ];
    let what = "Pages that the administrator has set aside (`MAP_HUGETLB`): they are in no \
                process's count.";
    Refused { calls, tier: None, what }
}

/// The flag of `clone` for each kind of namespace.
const NAMESPACES: [c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

fn processes() -> [Refused; 2] {
    let mut alternatives: Vec<_> =
        NAMESPACES.iter().map(|flag| vec![bits(0, *flag as u64)]).collect();
    let (threads, files) = (libc::CLONE_THREAD as u64, libc::CLONE_FILES as u64);
    alternatives.extend([threads, files].map(|one| vec![masked(0, threads | files, one)]));
    [
        Refused::of(
            "clone",
            libc::SYS_clone,
            alternatives,
            "New namespaces: they bring capabilities, and with them much of the kernel. Processes \
             that share descriptors without being threads of one, and threads that do not: where \
             a process has one thread, no other can exchange a descriptor that the supervisor has \
             looked at.",
        ),
        Refused::of(
            "personality",
            libc::SYS_personality,
            vec![vec![not(0, 0), not(0, 0xffff_ffff)]],
            "Everything but asking and the usual one: others switch protections off.",
        ),
    ]
}

/// In a network of its own, a program has TCP, UDP and the list of interfaces. Unix sockets have
/// names in files, where no namespace keeps one from the host's.
fn sockets() -> [Refused; 3] {
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].map(|family| family as u64);
    let mut protocols =
        none_of(2, &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP].map(|protocol| protocol as u64));
    protocols.push(not(0, libc::AF_NETLINK as u64));
    let netlink = vec![is(0, libc::AF_NETLINK as u64), not(2, libc::NETLINK_ROUTE as u64)];
    let kind = |kind: c_int| vec![masked(1, 0xf, kind as u64)];
    let sizes = [libc::SO_SNDBUF, libc::SO_RCVBUF, libc::SO_SNDBUFFORCE, libc::SO_RCVBUFFORCE];
    let sizes = sizes.map(|size| vec![is(1, libc::SOL_SOCKET as u64), is(2, size as u64)]);
    [
        Refused::of(
            "socket",
            libc::SYS_socket,
            vec![none_of(0, &families), protocols, netlink],
            "All but TCP, UDP and the list of interfaces. Unix sockets have names in files, where \
             no namespace keeps a program from the host's.",
        )
        .only_in(Tier::A),
        Refused::of(
            "socketpair",
            libc::SYS_socketpair,
            vec![vec![not(0, libc::AF_UNIX as u64)], kind(libc::SOCK_DGRAM), kind(libc::SOCK_RAW)],
            "Pairs of datagrams: one could still send to any socket that has a name.",
        ),
        Refused::of(
            "setsockopt",
            libc::SYS_setsockopt,
            sizes.to_vec(),
            "Other sizes of buffers (`SO_SNDBUF`, `SO_RCVBUF`): a socket would hold megabytes that \
             are in no process's count.",
        ),
    ]
}

/// Calls that set a mode, and which argument it is; then those that can create a file: which
/// arguments are the flags and the mode.
fn modes() -> Refused {
    const MODES: &[(&str, c_long, u8)] = &[
        #[cfg(target_arch = "x86_64")]
        ("chmod", libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        ("creat", libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        ("mknod", libc::SYS_mknod, 1),
        ("fchmod", libc::SYS_fchmod, 1),
        ("fchmodat", libc::SYS_fchmodat, 2),
        ("fchmodat2", FCHMODAT2, 2),
        ("mknodat", libc::SYS_mknodat, 2),
    ];
    const OPENS: &[(&str, c_long, u8, u8)] = &[
        #[cfg(target_arch = "x86_64")]
        ("open", libc::SYS_open, 1, 2),
        ("openat", libc::SYS_openat, 2, 3),
    ];
    let set_id = [libc::S_ISUID, libc::S_ISGID].map(u64::from);
    let modes = MODES.iter().map(|(name, call, mode)| {
        (*name, *call, set_id.map(|set_id| vec![bits(*mode, set_id)]).to_vec())
    });
    let opens = OPENS.iter().map(|(name, call, flags, mode)| {
        let creates = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];
        let alternatives = creates.map(|creates| {
            set_id.map(|set_id| vec![bits(*flags, creates as u64), bits(*mode, set_id)])
        });
        (*name, *call, alternatives.as_flattened().to_vec())
    });
    Refused {
        calls: modes.chain(opens).collect(),
        tier: None,
        what: "The set-user-id and set-group-id bits of a mode. A file that runs as its owner, \
               left behind in a workspace, would be a way to become the host's user, or root.",
    }
}

/// include/uapi/asm-generic/unistd.h of Linux 6.6. The C library does not name it everywhere.
const FCHMODAT2: c_long = 452;

/// Calls that can be made on another process of the same user, and which argument names it.
fn other_processes() -> Refused {
    const CALLS: &[(&str, c_long, u8)] = &[
        ("prlimit64", libc::SYS_prlimit64, 0),
        ("sched_setaffinity", libc::SYS_sched_setaffinity, 0),
        ("sched_setattr", libc::SYS_sched_setattr, 0),
        ("sched_setparam", libc::SYS_sched_setparam, 0),
        ("sched_setscheduler", libc::SYS_sched_setscheduler, 0),
    ];
    let calls =
        CALLS.iter().map(|(name, call, process)| (*name, *call, vec![vec![not(*process, 0)]]));
    Refused {
        calls: calls.collect(),
        tier: None,
        what: "Naming another process than the caller, which is 0: in tier B all of the user's \
               can be named, in tier A still the one that watches.",
    }
}

/// `setpriority` and `ioprio_set` take a kind of target and its number. For each kind, 0 means the
/// caller's own: its process, but also its user.
fn priorities() -> Refused {
    /// linux/ioprio.h.
    const IOPRIO_WHO_PROCESS: u64 = 1;
    let only_itself = |process| vec![vec![not(0, process)], vec![not(1, 0)]];
    Refused {
        calls: vec![
            ("ioprio_set", libc::SYS_ioprio_set, only_itself(IOPRIO_WHO_PROCESS)),
            ("setpriority", libc::SYS_setpriority, only_itself(libc::PRIO_PROCESS as u64)),
        ],
        tier: None,
        what: "The priority of any process but the caller, of a process group and of a user: in \
               tier B, all programs of the user would get less of the processor and the disk, \
               and only an administrator could undo it.",
    }
}

/// Without a path, it is of a file that is open.
fn times_by_path() -> Refused {
    let path = Argument(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let what = "A path: see the modes, owners and times by path.";
    Refused::of("utimensat", libc::SYS_utimensat, vec![vec![path]], what).only_in(Tier::B)
}
