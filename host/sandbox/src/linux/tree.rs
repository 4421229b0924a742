//! The processes of a run: finding them, and killing them until none is left.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait};

use super::groups::Groups;
use super::procfs::{children, parse};

/// Where the processes of a run are found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tree {
    /// All others in this process's namespace. This one is its first.
    Namespace,
    /// The descendants of this process. Orphans among them become its children.
    Descendants,
}

impl Tree {
    /// The processes that live now, without this one, or some that have just ended; not many more
    /// than `most`.
    ///
    /// # Errors
    /// A system without the list.
    pub(super) fn members(self, most: usize) -> io::Result<Vec<Pid>> {
        match self {
            Self::Namespace => {
                let mut pids = Vec::new();
                for entry in fs::read_dir("/proc")? {
                    let name = entry?.file_name();
                    pids.extend(name.to_str().and_then(parse).filter(|pid| *pid != Pid::INIT));
                    if pids.len() > most {
                        break;
                    }
                }
                Ok(pids)
            }
            Self::Descendants => {
                let mut pids = children("self")?;
                let mut next = 0;
                while let Some(pid) = pids.get(next)
                    && pids.len() <= most
                {
                    // One that has ended meanwhile has no children any more.
                    pids.extend(children(&pid.as_raw_nonzero().to_string()).unwrap_or_default());
                    next += 1;
                }
                Ok(pids)
            }
        }
    }

    /// Kills everything and waits until all are gone. Says whether one was still there. `ended`
    /// sees how each ended. Nobody is let through the gate, so there are no groups besides
    /// `groups`.
    ///
    /// # Errors
    /// The processes can't be waited for.
    pub(super) fn kill(
        self,
        groups: &Groups,
        mut ended: impl FnMut(Pid, WaitStatus),
    ) -> io::Result<bool> {
        let mut killed = false;
        loop {
            let options = match self {
                Self::Namespace => {
                    // Reaches all at once, so no fork gets away. Nobody left is an error.
                    let _ = kill_process_group(Pid::INIT, Signal::KILL);
                    WaitOptions::empty()
                }
                Self::Descendants => {
                    groups.kill();
                    WaitOptions::NOHANG
                }
            };
            // No child means no descendant: the topmost of those would be a child.
            while let Some((pid, status)) = match wait(options) {
                Err(rustix::io::Errno::CHILD) => return Ok(killed),
                other => other?,
            } {
                killed |= status.terminating_signal() == Some(Signal::KILL.as_raw());
                ended(pid, status);
            }
            // They have not gone yet, or one was just changing its group.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Reaps what has ended, without waiting.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        ended(pid, status);
    }
}
