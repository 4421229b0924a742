//! The process groups of a run in tier B. The supervisor admits each new group (see
//! [`gate`](super::gate)), so all groups are known, and there are at most as many as the run may
//! have processes. The kernel kills a group atomically, including a process that is being forked:
//! so all processes die, however quickly they fork.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::procfs;

/// The known groups, by the ids of their first processes.
pub(super) struct Groups {
    known: HashSet<Pid>,
    most: usize,
}

impl Groups {
    /// Starts with the group of the program.
    pub(super) fn new(program: Pid, most: u64) -> Self {
        Self { known: HashSet::from([program]), most: usize::try_from(most).unwrap_or(usize::MAX) }
    }

    /// Records the group that a process is about to create; returns whether that many are allowed.
    pub(super) fn admit(&mut self, first: Pid) -> bool {
        if !procfs::is_descendant(first) {
            return true; // The kernel refuses the call.
        }
        if self.known.len() >= self.most {
            self.known.retain(|group| {
                procfs::parent(*group).is_some() || test_kill_process_group(*group).is_ok()
            });
        }
        self.known.insert(first);
        self.known.len() <= self.most
    }

    pub(super) fn kill(&self) {
        // An id is reused only after the whole group has ended.
        let own = |first: Pid| procfs::parent(first).is_none() || procfs::is_descendant(first);
        for group in self.known.iter().copied().filter(|group| own(*group)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
