//! What is taken from the helper when it starts, and from the program just before it is executed.

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

/// Frees the helper of what its caller has left: a terminal and its signals, open descriptors,
/// ignored signals.
pub(super) fn forget_the_caller() {
    // It fails for the leader of a group, which a fresh child is not.
    let _ = setsid();
    close_from(3, 0);
    for signal in 1..=64 {
        // The runtime ignores SIGPIPE, as the helper should; std resets it for the program.
        if signal != libc::SIGPIPE {
            // SAFETY: no handler is installed, only removed. It fails for numbers that have none.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Those of a run that are not the program's.
const OTHER_PROCESSES: u64 = 16;

/// Signals that wait, and timers, of all processes of the user.
const SIGNALS: u64 = 1024;

/// Memory that is kept from being swapped out, in bytes.
const LOCKED: u64 = 8 << 20;

/// The last steps before a program is executed.
pub(super) struct Confinement {
    limits: Limits,
    tier: Tier,
    ruleset: Option<RulesetCreated>,
    filters: Filters,
}

impl Confinement {
    /// With limits, Landlock's rules and seccomp's filters.
    pub(super) fn new(
        limits: &Limits,
        tier: Tier,
        ruleset: RulesetCreated,
        filters: Filters,
    ) -> Self {
        Self { limits: limits.clone(), tier, ruleset: Some(ruleset), filters }
    }

    /// Confines the calling process, for good. Returns what [`Filters::apply`] returns.
    ///
    /// # Errors
    /// A step that the system refuses, or a second call.
    pub(super) fn apply(&mut self) -> io::Result<OwnedFd> {
        umask(Mode::WGRP | Mode::WOTH);
        close_from(3, libc::CLOSE_RANGE_CLOEXEC);
        self.limit()?;
        drop_capabilities()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        set_no_new_privs(true)?;
        let ruleset = self.ruleset.take().ok_or_else(|| io::Error::other("confined already"))?;
        ruleset.restrict_self().map_err(io::Error::other)?;
        self.filters.apply()
    }

    /// Limits the number of open files. Apart from [`Confinement::apply`]: below the limit, a
    /// descriptor can't be sent while other programs of the user have many on their way.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn limit_open_files(&self) -> io::Result<()> {
        set(Resource::Nofile, self.limits.open_files, self.limits.open_files)
    }

    fn limit(&self) -> io::Result<()> {
        let Limits { cpu_seconds, address_space, file_size, processes, .. } = self.limits;
        // SIGXCPU at the first, SIGKILL at the second.
        set(Resource::Cpu, cpu_seconds, cpu_seconds.saturating_add(1))?;
        set(Resource::Fsize, file_size, file_size)?;
        // For now as many as there may be; see `limit_open_files`.
        set(Resource::Nofile, u64::MAX, u64::MAX)?;
        // Not 0: where dumps go to a program of the system, that runs at 0 and is left out at 1.
        set(Resource::Core, 1, 1)?;
        // What the user has one number of for all processes: a run must not take it all.
        set(Resource::Sigpending, SIGNALS, SIGNALS)?;
        set(Resource::Memlock, LOCKED, LOCKED)?;
        set(Resource::Msgqueue, 0, 0)?;
        // No priority over the user's other programs.
        set(Resource::Rtprio, 0, 0)?;
        set(Resource::Nice, 0, 0)?;
        if let Some(bytes) = address_space {
            set(Resource::As, bytes, bytes)?;
        }
        if self.tier == Tier::A {
            let most = processes.saturating_mul(2).saturating_add(OTHER_PROCESSES);
            set(Resource::Nproc, most, most)?;
        }
        Ok(())
    }
}

/// Sets a limit, never above what the caller may have itself.
fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limits = Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) };
    Ok(setrlimit(resource, limits)?)
}

/// Closes all descriptors from `first` on, or does to them what `flags` say.
fn close_from(first: libc::c_uint, flags: libc::c_uint) {
    // SAFETY: whoever owns one of these descriptors finds it closed, which is a plain error; in the
    // helper nobody does yet, and in the program they are only marked.
    unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) };
}

/// Gives up all capabilities, and the ways to get some back, which root has by executing a file.
pub(super) fn drop_capabilities() -> io::Result<()> {
    // Only a process that has the capability to do so can shrink the bounding set. For others,
    // NO_NEW_PRIVS keeps it from mattering.
    if rustix::thread::capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..u64::BITS {
            match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number))
            {
                Ok(()) => {}
                Err(rustix::io::Errno::INVAL) => break, // The kernel knows no more.
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
