//! The process groups of a run in tier B. A new one has to ask (see [`gate`](super::gate)), so they
//! are known, and there are no more of them than the run may have processes. The kernel kills a
//! group at once, with whatever is just being forked: so all of them die, however quickly they
//! fork.

use std::collections::HashSet;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::procfs;

/// Each is named after its first process.
pub(super) struct Groups {
    known: HashSet<Pid>,
    most: usize,
}

impl Groups {
    /// The group of the program, and room for others.
    pub(super) fn new(program: Pid, most: u64) -> Self {
        Self { known: HashSet::from([program]), most: usize::try_from(most).unwrap_or(usize::MAX) }
    }

    /// Notes the group that a process is about to make. Says whether there may be that many.
    pub(super) fn admit(&mut self, first: Pid) -> bool {
        if !procfs::is_descendant(first) {
            return true; // Who asked is refused by the kernel.
        }
        if self.known.len() >= self.most {
            self.known.retain(|group| {
                procfs::parent(*group).is_some() || test_kill_process_group(*group).is_ok()
            });
        }
        self.known.insert(first);
        self.known.len() <= self.most
    }

    /// Kills them all.
    pub(super) fn kill(&self) {
        // A number is given to somebody else only after the whole group has ended.
        let own = |first: Pid| procfs::parent(first).is_none() || procfs::is_descendant(first);
        for group in self.known.iter().copied().filter(|group| own(*group)) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
