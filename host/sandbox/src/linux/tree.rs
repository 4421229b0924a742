//! Finds the processes of a run, and kills them until none is left.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, wait,
};

use super::groups::Groups;
use super::procfs::{children, parse};

/// How the processes of a run are found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tree {
    /// All other processes in this process's namespace, of which this one is the first.
    Namespace,
    /// The descendants of this process. Orphans among them become its children.
    Descendants,
}

impl Tree {
    /// Returns the processes without this one, perhaps with some that have just ended; not many
    /// more than `most`.
    ///
    /// # Errors
    /// Returns an error if the system does not have the list.
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
                    // A process that has ended in the meantime has no children.
                    pids.extend(children(&pid.as_raw_nonzero().to_string()).unwrap_or_default());
                    next += 1;
                }
                Ok(pids)
            }
        }
    }

    /// Kills all processes and waits until they are gone. Returns whether any was killed. `ended`
    /// receives the status of each. No call passes the gate meanwhile, so there are no groups
    /// besides `groups`.
    ///
    /// # Errors
    /// Returns an error if the processes can't be waited for.
    pub(super) fn kill(
        self,
        groups: &Groups,
        mut ended: impl FnMut(Pid, WaitStatus),
    ) -> io::Result<bool> {
        let mut killed = false;
        loop {
            let options = match self {
                Self::Namespace => {
                    // Kills all at once, so no fork escapes. It fails if no process is left.
                    let _ = kill_process_group(Pid::INIT, Signal::KILL);
                    WaitOptions::empty()
                }
                Self::Descendants => {
                    groups.kill();
                    // Each child, too: the children of a process that was killed become children of
                    // this one.
                    for child in children("self").unwrap_or_default() {
                        let _ = kill_process(child, Signal::KILL);
                    }
                    WaitOptions::NOHANG
                }
            };
            // No child means no descendant: the topmost descendant would be a child.
            while let Some((pid, status)) = match wait(options) {
                Err(rustix::io::Errno::CHILD) => return Ok(killed),
                other => other?,
            } {
                killed |= status.terminating_signal() == Some(Signal::KILL.as_raw());
                ended(pid, status);
            }
            // They have not exited yet, or one was just changing its group.
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Reaps the processes that have exited, without waiting.
pub(super) fn reap(mut ended: impl FnMut(Pid, WaitStatus)) {
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        ended(pid, status);
    }
}
