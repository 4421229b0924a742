//! Every system call that the filter knows, with the reason why a program may make it or not.
//! A call that is not in this table does not exist for a program.

use libc::{
    EINVAL, EMFILE, ENOSYS, ENOTSUP, EPERM, F_SETLK, F_SETLKW, MAP_ANONYMOUS, MAP_SHARED, c_int,
    c_long,
};

use Answer::{Allow, Ask, AskIfBits, AskIfEqual, Fail};

/// What the filter says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The kernel executes the call.
    Allow,
    /// The supervisor decides about the call.
    Ask,
    /// [`Answer::Ask`] where an argument has one of these values, otherwise [`Answer::Allow`].
    AskIfEqual(u8, &'static [u32]),
    /// [`Answer::Ask`] where an argument has all of these bits, otherwise [`Answer::Allow`].
    AskIfBits(u8, u32),
    /// The call fails with this error. With 0 it succeeds, and does nothing.
    Fail(c_int),
}

/// A call. This architecture may not have it, and then it has no number.
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

/// Calls that are treated alike, for one reason.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) reason: &'static str,
    pub(super) tier_a: Answer,
    pub(super) tier_b: Answer,
    pub(super) calls: &'static [Call],
    /// Older calls that newer architectures do not have.
    pub(super) older: &'static [Call],
}

macro_rules! calls {
    ($($call:ident)*) => {
        &[$(Call { name: stringify!($call), number: Some(libc::$call) }),*]
    };
}

/// Calls that the C library does not name everywhere. Since Linux 5.1, new calls have the same
/// number on all architectures.
macro_rules! numbered {
    ($($call:ident = $number:literal)*) => {
        &[$(Call { name: stringify!($call), number: Some($number) }),*]
    };
}

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

/// The commands of `fcntl` that take or drop a lock of a process.
const LOCKS: &[u32] = &[F_SETLK as u32, F_SETLKW as u32];

/// All calls. The groups of allowed calls come first.
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
        reason: "Listing, looking, making, moving and removing. Landlock and, in tier A, the \
                 mounts decide about each path.",
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
        reason: "The same since Linux 6.13.",
        tier_a: Allow,
        tier_b: Allow,
        calls: numbered![SYS_getxattrat = 464 SYS_listxattrat = 465],
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
        reason: "The same since Linux 6.6 and 6.13.",
        tier_a: Allow,
        tier_b: Fail(EPERM),
        calls: numbered![SYS_fchmodat2 = 452 SYS_setxattrat = 463 SYS_removexattrat = 466],
        older: older![],
    },
    Group {
        name: "Modes, owners and times of open files",
        reason: "The same for a file that is open. A file that is open only for reading can be \
                 changed so, too: in tier B the supervisor does it instead of the program, and \
                 only for files that the program may write.",
        tier_a: Allow,
        tier_b: Ask,
        calls: calls![SYS_fchmod SYS_fchown SYS_utimensat],
        older: older![],
    },
    Group {
        name: "Extended attributes of open files",
        reason: "Tools that copy files set them where that is supported. Tier B answers that it \
                 is not.",
        tier_a: Allow,
        tier_b: Fail(ENOTSUP),
        calls: calls![SYS_fsetxattr SYS_fremovexattr],
        older: older![],
    },
    Group {
        name: "Locks",
        reason: "Build tools and databases lock their own files. The supervisor looks at each \
                 lock: on a file that the program can't write, it is said to be taken and is \
                 not, since other programs of the user would wait for it.",
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
        reason: "Every program. Memory that processes share can outlive its mapping, so the \
                 supervisor counts it when it is made.",
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
        reason: "The same since Linux 5.17 to 6.10.",
        tier_a: Allow,
        tier_b: Allow,
        calls: numbered![
            SYS_set_mempolicy_home_node = 450 SYS_cachestat = 451 SYS_map_shadow_stack = 453
            SYS_mseal = 462
        ],
        older: older![],
    },
    Group {
        name: "Processes and threads",
        reason: "Starting programs and threads, waiting for them and ending. Their number is \
                 watched.",
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
        reason: "The same since Linux 6.7.",
        tier_a: Allow,
        tier_b: Allow,
        calls: numbered![SYS_futex_wake = 454 SYS_futex_wait = 455 SYS_futex_requeue = 456],
        older: older![],
    },
    Group {
        name: "Sessions and groups",
        reason: "Shells and test runners make process groups. In tier B the supervisor notes \
                 each, so that it can end them all.",
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
        reason: "A program may give itself less. Without capabilities it can't give itself more.",
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
        reason: "Reading clocks, sleeping, timers. A limit bounds the timers of a run.",
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
        name: "Being told of changes of files",
        reason: "Programs that watch files. The user has few instances: in tier A the run's user \
                 namespace has a small number of them; tier B says that there are none left.",
        tier_a: Allow,
        tier_b: Fail(EMFILE),
        calls: calls![SYS_inotify_init1],
        older: older![SYS_inotify_init],
    },
    Group {
        name: "Being told of changes of files, with an instance",
        reason: "As above.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![SYS_inotify_add_watch SYS_inotify_rm_watch],
        older: older![],
    },
    Group {
        name: "Opening sockets",
        reason: "Tests start servers and ask them, in a network namespace of the run's own. \
                 Tier B has none, so it has no sockets.",
        tier_a: Allow,
        tier_b: Fail(EPERM),
        calls: calls![SYS_socket],
        older: older![],
    },
    Group {
        name: "Sockets",
        reason: "What is done with sockets, and with pairs of them, which both tiers have: \
                 runtimes connect a program with its children so.",
        tier_a: Allow,
        tier_b: Allow,
        calls: calls![
            SYS_socketpair SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_connect SYS_shutdown
            SYS_getsockname SYS_getpeername SYS_getsockopt SYS_setsockopt SYS_sendto SYS_recvfrom
            SYS_sendmsg SYS_recvmsg SYS_sendmmsg SYS_recvmmsg
        ],
        older: older![],
    },
    Group {
        name: "System V's memory, semaphores and messages",
        reason: "Databases and some test tools. In tier A they are in a namespace of the run's \
                 own and are counted as its memory; in tier B they would be the host's.",
        tier_a: Allow,
        tier_b: Fail(EPERM),
        calls: calls![
            SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semtimedop
            SYS_semctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl
        ],
        older: older![],
    },
    Group {
        name: "Users and rights",
        reason: "Programs ask who they are. Nothing can be gained: there are no capabilities, \
                 and no file brings any.",
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
        name: "Writing out all of the machine's changes",
        reason: "It would hold up all other programs that write. It succeeds and does nothing: the host \
                 writes out what it keeps of a run.",
        tier_a: Fail(0),
        tier_b: Fail(0),
        calls: calls![SYS_sync SYS_syncfs],
        older: older![],
    },
    Group {
        name: "Newer forms",
        reason: "Their arguments are in memory, where no filter can look. Programs take the \
                 older form where these do not exist.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![SYS_clone3 SYS_openat2],
        older: older![],
    },
    Group {
        name: "Memory without a name",
        reason: "Memory behind a descriptor is in no process's count. Programs take a temporary \
                 file instead.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![SYS_memfd_create SYS_memfd_secret],
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
        reason: "The whole machine has one number of requests for it. Databases do without where \
                 it does not exist.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![SYS_io_setup SYS_io_destroy SYS_io_getevents SYS_io_submit SYS_io_cancel],
        older: older![],
    },
    Group {
        name: "Moving pages into a pipe or a socket",
        reason: "What is moved is not copied: one byte holds a whole block of the file's memory, \
                 up to 2 MB, that no count finds. Programs read and write instead.",
        tier_a: Fail(EINVAL),
        tier_b: Fail(EINVAL),
        calls: calls![SYS_sendfile SYS_splice SYS_tee],
        older: older![],
    },
    Group {
        name: "Rules of a program's own for files",
        reason: "A set of rules takes megabytes that are in no process's count. Programs do \
                 without where it does not exist.",
        tier_a: Fail(ENOSYS),
        tier_b: Fail(ENOSYS),
        calls: calls![
            SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
        ],
        older: older![],
    },
    Group {
        name: "Lending memory to a pipe",
        reason: "The pipe holds whole blocks of memory that no count finds any more.",
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
        reason: "A handle leads to a file past all paths.",
        tier_a: Fail(EPERM),
        tier_b: Fail(EPERM),
        calls: calls![SYS_name_to_handle_at SYS_open_by_handle_at],
        older: older![],
    },
    Group {
        name: "Watching whole file systems",
        reason: "It sees, and can hold up, what others open.",
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
        reason: "Flaws were found in them often, and build tools, linters and tests do without.",
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
            SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load
            SYS_quotactl SYS_quotactl_fd SYS_reboot SYS_swapon SYS_swapoff SYS_syslog SYS_vhangup
        ],
        older: older![SYS_ioperm SYS_iopl SYS_uselib],
    },
];
