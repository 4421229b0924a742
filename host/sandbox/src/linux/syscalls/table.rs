//! Every system call that the filter knows, with the reason why it is allowed or not. Calls that
//! are not in this table fail with ENOSYS.

use libc::{
    EINVAL, EMFILE, ENOSYS, ENOTSUP, EPERM, F_SETLK, F_SETLKW, MAP_ANONYMOUS, MAP_SHARED,
    SO_RCVBUF, SO_RCVBUFFORCE, SO_SNDBUF, SO_SNDBUFFORCE, c_int, c_long,
};

use Action::{Allow, Ask, AskIfBits, AskIfEqual, Fail, IgnoreOptions};

/// What the filter does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The kernel executes the call.
    Allow,
    /// The supervisor decides about the call.
    Ask,
    /// [`Action::Ask`] where an argument has one of these values, otherwise [`Action::Allow`].
    AskIfEqual(u8, &'static [u32]),
    /// [`Action::Ask`] where an argument has all of these bits, otherwise [`Action::Allow`].
    AskIfBits(u8, u32),
    /// `setsockopt` succeeds for these options of a socket, and does nothing; otherwise
    /// [`Action::Allow`].
    IgnoreOptions(&'static [u32]),
    /// The call fails with this error. With 0 it succeeds, and does nothing.
    Fail(c_int),
}

/// The action for calls that are not listed. Programs fall back to older calls when a new one does
/// not exist. So the calls of the x32 interface, from 0x40000000 on, do not exist either.
pub(super) const UNKNOWN: Action = Fail(ENOSYS);

/// A system call. Its number is `None` if this architecture does not have it.
pub(super) struct Call {
    name: &'static str,
    pub(super) number: Option<c_long>,
}

impl Call {
    /// The name without the prefix of the C library's constants.
    pub(super) fn name(&self) -> &'static str {
        self.name.trim_start_matches("SYS_")
    }
}

/// Calls with the same actions and the same reason.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) reason: &'static str,
    pub(super) tier_a: Action,
    pub(super) tier_b: Action,
    pub(super) calls: &'static [Call],
    /// Older calls that newer architectures do not have.
    pub(super) older: &'static [Call],
}

/// Calls, with their numbers where a C library does not define them. Since Linux 5.1, new calls have the same
/// number on all architectures.
macro_rules! calls {
    ($($call:ident $(= $number:tt)?)*) => {
        &[$(Call { name: stringify!($call), number: Some(number!($call $($number)?)) }),*]
    };
}

macro_rules! number {
    ($call:ident) => {
        libc::$call
    };
    ($call:ident $number:tt) => {
        $number
    };
}

/// musl does not define it on all architectures.
const KEXEC_FILE_LOAD: c_long = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

macro_rules! older {
    ($($call:ident)*) => {
        &[$(Call {
            name: stringify!($call),
            #[cfg(target_arch = "x86_64")]
            number: Some(libc::$call),
            #[cfg(not(target_arch = "x86_64"))]
            number: None,
        }),*]
    };
}

/// The commands of `fcntl` that take or release a lock of a process.
const LOCKS: &[u32] = &[F_SETLK as u32, F_SETLKW as u32];

/// The options for the sizes of a socket's buffers.
const BUFFER_SIZES: &[u32] =
    &[SO_SNDBUF as u32, SO_RCVBUF as u32, SO_SNDBUFFORCE as u32, SO_RCVBUFFORCE as u32];

/// All known calls. The groups of allowed calls come first.
pub(super) const GROUPS: &[Group] = &[
    Group {
        name: "Reading and writing",
        reason: "What every program does with its streams and files. A file can only be opened \
                 where Landlock and, in tier A, the mounts allow it; `fsync` waits for the \
                 program's own writes.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_read SYS_write SYS_pread64 SYS_pwrite64 SYS_readv SYS_writev SYS_preadv
            SYS_pwritev SYS_preadv2 SYS_pwritev2 SYS_lseek SYS_close SYS_close_range SYS_openat
            SYS_ftruncate SYS_fallocate SYS_fsync SYS_fdatasync
            SYS_copy_file_range SYS_readahead SYS_fadvise64 SYS_sync_file_range
        ],
        older: older![SYS_open SYS_creat],
    },
    Group {
        name: "Names and directories",
        reason: "Listing, reading attributes, creating, moving and removing. Landlock and, in tier \
                 A, the mounts decide about each path.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_faccessat SYS_faccessat2
            SYS_newfstatat SYS_fstat SYS_statx SYS_statfs SYS_fstatfs SYS_readlinkat SYS_mkdirat
            SYS_mknodat SYS_unlinkat SYS_renameat SYS_renameat2 SYS_linkat SYS_symlinkat SYS_truncate SYS_umask
        ],
        older: older![
            SYS_getdents SYS_access SYS_stat SYS_lstat SYS_readlink SYS_mkdir SYS_mknod SYS_rmdir
            SYS_unlink SYS_rename SYS_link SYS_symlink
        ],
    },
    Group {
        name: "Extended attributes, reading",
        reason: "Tools that copy or list files look for them.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_getxattr SYS_lgetxattr SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr
        ],
        older: older![],
    },
    Group {
        name: "Extended attributes, reading (newer)",
        reason: "Newer calls for the same, since Linux 6.13.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_getxattrat = 464 SYS_listxattrat = 465],
        older: older![],
    },
    Group {
        name: "Modes, owners, times and attributes by path",
        reason: "Archives, installers and build tools set them. In tier A the mounts refuse it \
                 for all that is read-only. Landlock has no right for it, so tier B refuses it.",
        tier_a: Allow,
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_fchmodat SYS_fchownat SYS_setxattr SYS_lsetxattr SYS_removexattr SYS_lremovexattr
        ],
        older: older![SYS_chmod SYS_chown SYS_lchown SYS_futimesat SYS_utime SYS_utimes],
    },
    Group {
        name: "Modes, owners, times and attributes by path (newer)",
        reason: "Newer calls for the same, since Linux 6.6 and 6.13.",
        tier_a: Allow,
        tier_b: Fail(EPERM),
        calls: calls![SYS_fchmodat2 = 452 SYS_setxattrat = 463 SYS_removexattrat = 466],
        older: older![],
    },
    Group {
        name: "Modes, owners and times of open files",
        reason: "Changes of an open file, which are possible even if it is open only for reading: \
                 in tier B the supervisor makes them instead of the program, and only for files \
                 that the program may write.",
        tier_a: Allow,
        tier_b: Ask,
        calls: calls![SYS_fchmod SYS_fchown SYS_utimensat],
        older: older![],
    },
    Group {
        name: "Extended attributes of open files",
        reason: "Tools that copy files set them where that is supported. In tier B it is not.",
        tier_a: Allow,
        tier_b: Fail(ENOTSUP),
        calls: calls![SYS_fsetxattr SYS_fremovexattr],
        older: older![],
    },
    Group {
        name: "Locks",
        reason: "Build tools and databases lock their own files. The supervisor checks each lock: \
                 on a file that the program can't write, the call succeeds without taking the lock, \
                 since other programs of the user would wait for it.",
        tier_a: Ask,
        tier_b: Ask,
        calls: calls![SYS_flock],
        older: older![],
    },
    Group {
        name: "Descriptors",
        reason: "Copying descriptors, their flags, and locks as above.",
        tier_a: AskIfEqual(1, LOCKS),
        tier_b: AskIfEqual(1, LOCKS),
        calls: calls![SYS_fcntl],
        older: older![],
    },
    Group {
        name: "Descriptors and devices",
        reason: "Copying descriptors, asking a terminal or a socket for its state.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_dup SYS_dup3 SYS_ioctl SYS_pipe2],
        older: older![SYS_dup2 SYS_pipe],
    },
    Group {
        name: "Mapping memory",
        reason: "Used by every program. Shared memory can outlive its mapping, so the supervisor \
                 counts it when it is created.",
        tier_a: AskIfBits(3, (MAP_SHARED | MAP_ANONYMOUS) as u32),
        tier_b: AskIfBits(3, (MAP_SHARED | MAP_ANONYMOUS) as u32),
        calls: calls![SYS_mmap],
        older: older![],
    },
    Group {
        name: "Memory",
        reason: "Allocators, loaders, garbage collectors and compilers at run time. What a \
                 process holds is counted; `mlock` has a limit.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_brk SYS_mprotect SYS_munmap SYS_mremap SYS_msync SYS_mincore SYS_madvise SYS_mlock
            SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall SYS_remap_file_pages SYS_mbind
            SYS_set_mempolicy SYS_get_mempolicy SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free
            SYS_membarrier
        ],
        older: older![],
    },
    Group {
        name: "Memory (newer)",
        reason: "Newer calls for the same, since Linux 5.17 to 6.10.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_set_mempolicy_home_node = 450 SYS_cachestat = 451 SYS_map_shadow_stack = 453
            SYS_mseal = 462
        ],
        older: older![],
    },
    Group {
        name: "Processes and threads",
        reason: "Starting programs and threads, waiting for them and exiting. Their number is \
                 polled.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_clone SYS_execve SYS_execveat SYS_exit SYS_exit_group SYS_wait4 SYS_waitid
            SYS_getpid SYS_getppid SYS_gettid SYS_getpgid SYS_getsid SYS_set_tid_address
            SYS_set_robust_list SYS_get_robust_list SYS_futex SYS_futex_waitv SYS_rseq SYS_prctl
            SYS_personality SYS_pidfd_open SYS_restart_syscall
        ],
        older: older![
            SYS_fork SYS_vfork SYS_getpgrp SYS_arch_prctl SYS_set_thread_area SYS_get_thread_area
        ],
    },
    Group {
        name: "Waiting for other threads (newer)",
        reason: "Newer calls for the same, since Linux 6.7.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_futex_wake = 454 SYS_futex_wait = 455 SYS_futex_requeue = 456],
        older: older![],
    },
    Group {
        name: "Sessions and groups",
        reason: "Shells and test runners create process groups. In tier B the supervisor records \
                 each, so that it can kill them all.",
        tier_a: Allow,
        tier_b: Ask,
        calls: calls![SYS_setpgid SYS_setsid],
        older: older![],
    },
    Group {
        name: "Signals",
        reason: "Handlers, and signals to processes of the run: the process namespace or \
                 Landlock keeps them there.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending
            SYS_rt_sigtimedwait SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_rt_sigsuspend
            SYS_sigaltstack SYS_kill SYS_tkill SYS_tgkill SYS_pidfd_send_signal SYS_signalfd4
        ],
        older: older![SYS_pause SYS_signalfd],
    },
    Group {
        name: "Scheduling and limits",
        reason: "A process may lower its own priority and limits. Without capabilities it can't \
                 raise them.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_sched_yield SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_getattr
            SYS_sched_setattr SYS_sched_getparam SYS_sched_setparam SYS_sched_getscheduler
            SYS_sched_setscheduler SYS_sched_get_priority_max SYS_sched_get_priority_min
            SYS_sched_rr_get_interval SYS_getpriority SYS_setpriority SYS_ioprio_get
            SYS_ioprio_set SYS_getcpu SYS_getrusage SYS_getrlimit
            SYS_setrlimit SYS_prlimit64
        ],
        older: older![],
    },
    Group {
        name: "Time",
        reason: "Reading clocks, sleeping, timers. The number of timers is limited.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep SYS_gettimeofday
            SYS_times SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_settime
            SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete SYS_timerfd_create
            SYS_timerfd_settime SYS_timerfd_gettime
        ],
        older: older![SYS_time SYS_alarm],
    },
    Group {
        name: "Waiting for descriptors",
        reason: "Event loops.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_ppoll SYS_pselect6 SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait
            SYS_epoll_pwait2 SYS_eventfd2
        ],
        older: older![SYS_poll SYS_select SYS_epoll_create SYS_epoll_wait SYS_eventfd],
    },
    Group {
        name: "Notifications of file changes",
        reason: "Programs that watch files. A user has few instances: in tier A the run's user \
                 namespace has a small part of them; in tier B there are none.",
        tier_a: Allow,
        tier_b: Fail(EMFILE),
        calls: calls![SYS_inotify_init1],
        older: older![SYS_inotify_init],
    },
    Group {
        name: "Notifications of file changes, with an instance",
        reason: "See above.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_inotify_add_watch SYS_inotify_rm_watch],
        older: older![],
    },
    Group {
        name: "Opening sockets",
        reason: "Tests start servers and connect to them, in a network namespace of the run, and \
                 programs to their own daemons and workers. Tier B has no such namespace, so it has \
                 no sockets; the supervisor says for the report that a program tried, and refuses.",
        tier_a: Allow,
        tier_b: Ask,
        calls: calls![SYS_socket],
        older: older![],
    },
    Group {
        name: "Connecting sockets",
        reason: "A Unix socket is named by a file, which may be one of the host's. The supervisor \
                 records the files on which programs of the run listen, and connects to those only. \
                 It reads other addresses for the report, which says what a program without a network \
                 tried to reach. Tier B has only pairs of sockets, which are connected already.",
        tier_a: Ask,
        tier_b: Allow,
        calls: calls![SYS_listen SYS_connect],
        older: older![],
    },
    Group {
        name: "Sockets",
        reason: "Operations on sockets, and on socket pairs, which both tiers have: runtimes use \
                 them to connect a program with its children.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_socketpair SYS_bind SYS_accept SYS_accept4 SYS_shutdown
            SYS_getsockname SYS_getpeername SYS_getsockopt SYS_sendto SYS_recvfrom
            SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg
        ],
        older: older![],
    },
    Group {
        name: "Options of sockets",
        reason: "Servers and clients set them. The sizes of a socket's buffers stay as they are: \
                 their memory is in the count of no process, and the supervisor counts each socket \
                 as the default sizes allow.",
        tier_a: IgnoreOptions(BUFFER_SIZES),
        tier_b: IgnoreOptions(BUFFER_SIZES),
        calls: calls![SYS_setsockopt],
        older: older![],
    },
    Group {
        name: "System V's memory, semaphores and messages",
        reason: "Databases and some test tools. In tier A they are in a namespace of the run and \
                 count as its memory; in tier B they would be the host's.",
        tier_a: Allow,
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semtimedop
            SYS_semctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl
        ],
        older: older![],
    },
    Group {
        name: "Users and capabilities",
        reason: "Programs read their user ids. They can't gain rights: there are no capabilities, \
                 and no file grants any.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid
            SYS_getgroups SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid
            SYS_setresgid SYS_setgroups SYS_setfsuid SYS_setfsgid SYS_capget SYS_capset
        ],
        older: older![],
    },
    Group {
        name: "A sandbox within the sandbox",
        reason: "A program may confine itself further.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_seccomp],
        older: older![],
    },
    Group {
        name: "The system",
        reason: "Its name, its memory, random numbers.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_uname SYS_sysinfo SYS_getrandom],
        older: older![],
    },
    Group {
        name: "Syncing all file systems",
        reason: "It would delay all other programs that write. It succeeds and does nothing: the \
                 host syncs what it keeps of a run.",
        tier_a: Fail(0),
        tier_b: Fail(0),
        calls: calls![SYS_sync SYS_syncfs],
        older: older![],
    },
    Group {
        name: "Newer forms with arguments in memory",
        reason: "Their arguments are in memory, which a filter can't read. Programs fall back to \
                 the older form if these do not exist.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![SYS_clone3 SYS_openat2],
        older: older![],
    },
    Group {
        name: "Anonymous memory behind a descriptor",
        reason: "Memory behind a descriptor is not in the count of any process. Programs use a \
                 temporary file instead.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![SYS_memfd_create SYS_memfd_secret],
        older: older![],
    },
    Group {
        name: "Rules of Landlock",
        reason: "Their memory is in the count of no process. Programs that confine themselves do \
                 so without Landlock where it does not exist.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![
            SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
        ],
        older: older![],
    },
    Group {
        name: "Moving the content of files into pipes and sockets",
        reason: "For one byte, a pipe or a socket would keep two megabytes of a file in memory, \
                 which can't be counted. Programs read and write instead, as for files that do \
                 not support these calls.",
        tier_a: Fail(EINVAL),
        tier_b: Fail(EINVAL),
        calls: calls![SYS_sendfile SYS_splice SYS_tee],
        older: older![],
    },
    Group {
        name: "POSIX message queues",
        reason: "Their memory counts against one limit of the user.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![
            SYS_mq_open SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify
            SYS_mq_getsetattr
        ],
        older: older![],
    },
    Group {
        name: "Asynchronous input and output",
        reason: "The number of its requests is limited for the whole machine. Databases work \
                 without it if it does not exist.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![SYS_io_setup SYS_io_destroy SYS_io_getevents SYS_io_submit SYS_io_cancel],
        older: older![],
    },
    Group {
        name: "Mapping memory into a pipe",
        reason: "The pipe holds whole blocks of memory that can't be counted any more.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![SYS_vmsplice],
        older: older![],
    },
    Group {
        name: "Other processes",
        reason: "Reading, changing or tracing them, and taking their descriptors.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_process_madvise
            SYS_process_mrelease SYS_pidfd_getfd SYS_kcmp SYS_migrate_pages SYS_move_pages
        ],
        older: older![],
    },
    Group {
        name: "Mounts and namespaces",
        reason: "They bring capabilities over much of the kernel, and could undo the sandbox.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_setns SYS_unshare SYS_fsopen
            SYS_fsconfig SYS_fsmount SYS_fspick SYS_open_tree SYS_move_mount SYS_mount_setattr
            SYS_sethostname SYS_setdomainname
        ],
        older: older![],
    },
    Group {
        name: "Files by handle",
        reason: "A handle opens a file without any path.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![SYS_name_to_handle_at SYS_open_by_handle_at],
        older: older![],
    },
    Group {
        name: "Watching whole file systems",
        reason: "It reports, and can delay, what other programs open.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![SYS_fanotify_init SYS_fanotify_mark],
        older: older![],
    },
    Group {
        name: "Keys",
        reason: "They are the user's, outlive the run, and count against the user's quota.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![SYS_add_key SYS_request_key SYS_keyctl],
        older: older![],
    },
    Group {
        name: "Large parts of the kernel",
        reason: "Flaws were found in them often, and build tools, linters and tests work without \
                 them.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_bpf SYS_perf_event_open SYS_io_uring_setup SYS_io_uring_enter
            SYS_io_uring_register SYS_userfaultfd
        ],
        older: older![SYS_modify_ldt],
    },
    Group {
        name: "The machine",
        reason: "Its clock, modules, swap, quotas, ports and power are the administrator's.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_acct SYS_adjtimex SYS_clock_adjtime SYS_clock_settime SYS_settimeofday
            SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load
            SYS_kexec_file_load = KEXEC_FILE_LOAD
            SYS_quotactl SYS_quotactl_fd SYS_reboot SYS_swapon SYS_swapoff SYS_syslog SYS_vhangup
        ],
        older: older![SYS_ioperm SYS_iopl SYS_uselib],
    },
];
