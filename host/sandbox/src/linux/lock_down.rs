//! Confines a worker process to computing.

use std::collections::BTreeMap;
use std::io;

use landlock::{ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, Scope};
use libc::c_long;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getpid, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use rustix::thread::set_no_new_privs;
use seccompiler::{BackendError, BpfProgram, SeccompAction, SeccompFilter, SeccompRule};

use super::syscalls::{Argument, bits, is, masked, rule};
use super::{confine, rules};

/// Takes everything from this process except its three standard streams, its memory and its
/// threads. It has one thread at this point.
///
/// If the kernel has no Landlock or no seccomp, the other restrictions still apply.
///
/// # Errors
/// Returns an error if the system refuses a limit.
pub(crate) fn lock_down(memory: u64, cpu_seconds: u64) -> io::Result<()> {
    confine::forget_the_caller();
    let set = |resource, most: u64| {
        let known = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let most = Some(most.min(known));
        setrlimit(resource, Rlimit { current: most, maximum: most })
    };
    // Not the address space: allocators and thread stacks reserve more of it than they use.
    set(Resource::Data, memory)?;
    set(Resource::Cpu, cpu_seconds)?;
    set(Resource::Fsize, 0)?;
    set(Resource::Core, 1)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    confine::drop_capabilities()?;
    set_no_new_privs(true)?;
    if rules::version() > 0 {
        no_files().map_err(io::Error::other)?;
    }
    set(Resource::Nofile, 3)?;
    if let Ok(filter) = filter() {
        // A kernel without seccomp.
        let _ = seccompiler::apply_filter(&filter);
    }
    Ok(())
}

/// Landlock without any rule.
fn no_files() -> Result<(), landlock::RulesetError> {
    Ruleset::default()
        .handle_access(AccessFs::from_all(ABI::V9))?
        .handle_access(AccessNet::from_all(ABI::V9))?
        .scope(Scope::from_all(ABI::V9))?
        .create()?
        .restrict_self()
        .map(drop)
}

/// The calls that a computation with threads needs. All other calls fail with ENOSYS, so that the C
/// library falls back from newer calls to older ones.
const ALLOWED: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_read,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_write,
    libc::SYS_writev,
];

fn filter() -> Result<BpfProgram, BackendError> {
    let always = ALLOWED.iter().map(|call| (*call, Vec::new()));
    let mut allowed: BTreeMap<c_long, Vec<SeccompRule>> = always.collect();
    let mut if_fits = |call, arguments: &[Argument]| -> Result<(), BackendError> {
        allowed.insert(call, vec![rule(arguments)?]);
        Ok(())
    };
    // Threads, but no processes.
    if_fits(libc::SYS_clone, &[bits(0, (libc::CLONE_THREAD | libc::CLONE_VM) as u64)])?;
    // Signals to its own threads, which is how it aborts.
    if_fits(libc::SYS_tgkill, &[is(0, getpid().as_raw_pid() as u64)])?;
    if_fits(libc::SYS_prctl, &[is(0, libc::PR_SET_NAME as u64)])?;
    // No new executable memory.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        if_fits(call, &[masked(2, libc::PROT_EXEC as u64, 0)])?;
    }
    let nothing = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(allowed, nothing, SeccompAction::Allow, architecture)?.try_into()
}
