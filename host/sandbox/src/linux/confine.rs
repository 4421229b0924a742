//! The restrictions on the helper when it starts, and on the program just before it is executed.

use std::io;
use std::os::fd::OwnedFd;

use landlock::RulesetCreated;
use rustix::fs::Mode;
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid, umask,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};

use super::syscalls::Filters;
use crate::{Limits, Tier};

/// Detaches the helper from its caller: from the terminal and its signals, open descriptors,
/// ignored signals.
pub(super) fn forget_the_caller() {
    // It fails for the leader of a group, which a fresh child is not.
    let _ = setsid();
    close_from(3, 0);
    for signal in 1..=64 {
        // Rust's runtime ignores SIGPIPE, as the helper should; std resets it for the program.
        if signal != libc::SIGPIPE {
            // SAFETY: no handler is installed, only removed. The call fails for numbers without a
            // signal.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Processes of a run besides those of the program.
const RESERVED_PROCESSES: u64 = 16;

/// Pending signals and timers, counted for all processes of the user.
const MAX_PENDING_SIGNALS: u64 = 1024;

/// Memory that is locked against swapping, in bytes.
const MAX_LOCKED_BYTES: u64 = 8 << 20;

/// The restrictions that are applied to a program just before it is executed.
pub(super) struct Confinement {
    limits: Limits,
    tier: Tier,
    ruleset: Option<RulesetCreated>,
    filters: &'static Filters,
}

impl Confinement {
    /// Combines resource limits, Landlock rules and seccomp filters.
    pub(super) fn new(
        limits: &Limits,
        tier: Tier,
        ruleset: RulesetCreated,
        filters: &'static Filters,
    ) -> Self {
        Self { limits: limits.clone(), tier, ruleset: Some(ruleset), filters }
    }

    /// Irrevocably confines the calling process, except for the number of its open files. `listener`
    /// receives what [`Filters::apply`] returns.
    ///
    /// # Errors
    /// Returns an error if the system refuses a step, on a second call, or if `listener` fails.
    pub(super) fn apply(
        &mut self,
        listener: impl FnOnce(OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        umask(Mode::WGRP | Mode::WOTH);
        close_from(3, libc::CLOSE_RANGE_CLOEXEC);
        self.limit()?;
        drop_capabilities()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        set_no_new_privs(true)?;
        let ruleset = self.ruleset.take().ok_or_else(|| io::Error::other("confined already"))?;
        ruleset.restrict_self().map_err(io::Error::other)?;
        // The kernel refuses to send a descriptor when more of the user's are in transit than the
        // sender may open: unix(7). So as many as possible, until the listener has been sent.
        set_limit(Resource::Nofile, u64::MAX, u64::MAX)?;
        listener(self.filters.apply()?)?;
        set_limit(Resource::Nofile, self.limits.open_files, self.limits.open_files)
    }

    fn limit(&self) -> io::Result<()> {
        let Limits { cpu_seconds, address_space, file_size, processes, .. } = self.limits;
        // SIGXCPU at the soft limit, SIGKILL at the hard limit.
        set_limit(Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1))?;
        set_limit(Resource::Fsize, file_size, file_size)?;
        // Not 0: if core dumps are piped to a program of the system, that program runs at 0 and not
        // at 1.
        set_limit(Resource::Core, 1, 1)?;
        // Limits that the kernel counts per user: a run must not use them up.
        set_limit(Resource::Sigpending, MAX_PENDING_SIGNALS, MAX_PENDING_SIGNALS)?;
        set_limit(Resource::Memlock, MAX_LOCKED_BYTES, MAX_LOCKED_BYTES)?;
        set_limit(Resource::Msgqueue, 0, 0)?;
        // No priority over other programs of the user.
        set_limit(Resource::Rtprio, 0, 0)?;
        set_limit(Resource::Nice, 0, 0)?;
        if let Some(bytes) = address_space {
            set_limit(Resource::As, bytes, bytes)?;
        }
        if self.tier == Tier::A {
            let most = processes.saturating_mul(2).saturating_add(RESERVED_PROCESSES);
            set_limit(Resource::Nproc, most, most)?;
        }
        Ok(())
    }
}

/// Sets a limit, never above that of the caller.
fn set_limit(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limits = Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) };
    Ok(setrlimit(resource, limits)?)
}

/// Closes all descriptors from `first` on, or applies `flags` to them.
fn close_from(first: libc::c_uint, flags: libc::c_uint) {
    // SAFETY: an owner of one of these descriptors gets an error, not undefined behaviour; the
    // helper owns none yet, and in the program they are only marked.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) };
}

/// Drops all capabilities, and the ways in which root could regain some by executing a file.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Only a process with the required capability can shrink the bounding set. For others,
    // NO_NEW_PRIVS makes it irrelevant.
    if rustix::thread::capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number))
            {
                Ok(()) => {}
                Err(rustix::io::Errno::INVAL) => break, // The kernel knows no more capabilities.
                Err(error) => return Err(error.into()),
            }
        }
        set_capabilities_secure_bits(
            CapabilitiesSecureBits::NO_ROOT
                | CapabilitiesSecureBits::NO_ROOT_LOCKED
                | CapabilitiesSecureBits::NO_SETUID_FIXUP
                | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED,
        )?;
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    Ok(())
}
