//! Restrictions on the arguments of allowed system calls.

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

/// Arguments that are refused for some calls. A call is refused if all conditions of one
/// alternative match.
pub(super) struct Refused {
    pub(super) calls: Vec<(&'static str, c_long, Vec<Vec<Argument>>)>,
    /// The only tier in which they are refused, if any.
    pub(super) tier: Option<Tier>,
    /// The refused arguments, and the reason.
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

/// The rules of a tier, by the numbers of the calls.
///
/// # Errors
/// Returns an error if the filter compiler refuses a rule.
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

/// All restrictions on arguments.
pub(super) fn all() -> Vec<Refused> {
    let mut all = vec![descriptors(), descriptor_tables(), devices(), hiding(), large_pages()];
    all.extend(processes());
    all.extend(sockets());
    all.extend([modes(), other_processes(), priorities(), times_by_path()]);
    all
}

/// An allow-list of commands for `fcntl`.
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

/// A command since Linux 6.10.
const F_DUPFD_QUERY: c_int = 1027;

fn descriptor_tables() -> Refused {
    Refused::of(
        "close_range",
        libc::SYS_close_range,
        vec![vec![bits(2, libc::CLOSE_RANGE_UNSHARE.into())]],
        "Descriptors of one thread only (`CLOSE_RANGE_UNSHARE`): the supervisor looks at those of \
         the process.",
    )
}

fn hiding() -> Refused {
    Refused::of(
        "prctl",
        libc::SYS_prctl,
        vec![vec![is(0, libc::PR_SET_DUMPABLE as u64), is(1, 0)]],
        "Hiding a process (`PR_SET_DUMPABLE` with 0): the supervisor could not see its open files \
         any more. Programs that guard secrets in this way work without it.",
    )
}

/// An allow-list of requests for `ioctl`: include/uapi/asm-generic/ioctls.h, linux/sockios.h,
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
    let what = "Pages that the administrator has reserved (`MAP_HUGETLB`): they are not in the \
                count of any process.";
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
            "All but reading it and the default one: others switch protections off.",
        ),
    ]
}

/// In its own network namespace, a program has TCP, UDP, Unix sockets with connections and the list
/// of interfaces. A datagram can be sent to any Unix socket that has a file, without a connection
/// that the supervisor could decide about.
fn sockets() -> [Refused; 3] {
    let families = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_UNIX]
        .map(|family| family as u64);
    let mut protocols =
        none_of(2, &[0, libc::IPPROTO_TCP, libc::IPPROTO_UDP].map(|protocol| protocol as u64));
    protocols.push(not(0, libc::AF_NETLINK as u64));
    let netlink = vec![is(0, libc::AF_NETLINK as u64), not(2, libc::NETLINK_ROUTE as u64)];
    let kind = |kind: c_int| vec![masked(1, 0xf, kind as u64)];
    let unix = |of: c_int| [vec![is(0, libc::AF_UNIX as u64)], kind(of)].concat();
    let [datagrams, raw] = [libc::SOCK_DGRAM, libc::SOCK_RAW].map(unix);
    [
        Refused::of(
            "socket",
            libc::SYS_socket,
            vec![none_of(0, &families), protocols, netlink, datagrams, raw],
            "All but TCP, UDP, Unix sockets with connections, and the list of interfaces. A datagram \
             could be sent to any Unix socket of the host that has a file.",
        )
        .only_in(Tier::A),
        Refused::of(
            "socketpair",
            libc::SYS_socketpair,
            vec![vec![not(0, libc::AF_UNIX as u64)], kind(libc::SOCK_DGRAM), kind(libc::SOCK_RAW)],
            "Pairs of datagram sockets: they could still send to any socket with a name.",
        ),
        Refused::of(
            "setsockopt",
            libc::SYS_setsockopt,
            vec![vec![is(1, libc::SOL_SOCKET as u64), is(2, libc::SO_ZEROCOPY as u64)]],
            "Sending without copying (`SO_ZEROCOPY`): for one byte, a socket would keep two \
             megabytes of memory that is not mapped any more.",
        ),
    ]
}

/// Calls that set a mode, with the index of that argument; then those that can create a file, with
/// the indices of the flags and the mode.
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
        what: "The set-user-id and set-group-id bits of a mode. A set-user-id file that is left in \
               a workspace would be a way to become the host's user, or root.",
    }
}

/// include/uapi/asm-generic/unistd.h of Linux 6.6. Not every C library defines it.
const FCHMODAT2: c_long = 452;

/// Calls that can be applied to another process of the same user, with the index of the argument
/// that names it.
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
        what: "Naming a process other than the caller, which is 0: in tier B all processes of the \
               user can be named, in tier A still the supervisor.",
    }
}

/// The first argument says what the second one names: ioprio_set(2), setpriority(2).
fn priorities() -> Refused {
    const IOPRIO_WHO_PROCESS: u64 = 1;
    // The type of the C library's constant differs between libraries.
    const PRIO_PROCESS: u64 = 0;
    let all_but = |process: u64| vec![vec![not(0, process)], vec![not(1, 0)]];
    Refused {
        calls: vec![
            ("ioprio_set", libc::SYS_ioprio_set, all_but(IOPRIO_WHO_PROCESS)),
            ("setpriority", libc::SYS_setpriority, all_but(PRIO_PROCESS)),
        ],
        tier: None,
        what: "Anything but the calling process, which is 0. A user (`PRIO_USER`) or a group that \
               is 0 is the caller's: all programs of the user would keep the lower priority.",
    }
}

/// Without a path, the call applies to an open file.
fn times_by_path() -> Refused {
    let path = Argument(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0);
    let what = "A path: see modes, owners and times by path.";
    Refused::of("utimensat", libc::SYS_utimensat, vec![vec![path]], what).only_in(Tier::B)
}
