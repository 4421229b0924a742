//! Kills orphans: processes that an agent started and that have left its process group, such as
//! those in a new session and the agents of agents. They are found by a mark in their initial
//! environment, as build servers do. A process that was started with another environment is not
//! found: agents are not confined.

#[cfg(target_os = "linux")]
pub(super) use linux::kill;

/// Does nothing: other systems don't show the environment of processes, so only the process group
/// is killed.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_mark: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    #![expect(clippy::disallowed_methods, reason = "processes are looked up in /proc")]

    use std::fs;

    use memchr::memmem;
    use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    /// How often to look for processes that were started while others were killed.
    const MAX_ROUNDS: usize = 100;

    /// Kills every process whose environment holds `mark`.
    pub fn kill(mark: &str) {
        for _ in 0..MAX_ROUNDS {
            if processes().filter(|process| kill_marked(*process, mark)).count() == 0 {
                return;
            }
        }
        tracing::warn!("an agent that was ended goes on starting programs");
    }

    fn processes() -> impl Iterator<Item = Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        entries.filter_map(number).filter_map(Pid::from_raw).filter(|pid| *pid != getpid())
    }

    /// Kills a process if its environment contains `mark`. Returns whether it was killed.
    fn kill_marked(process: Pid, mark: &str) -> bool {
        // Opened before its environment is read, so that the id can't be reused in between.
        let Ok(held) = pidfd_open(process, PidfdFlags::empty()) else { return false };
        let environment = fs::read(format!("/proc/{process}/environ"));
        environment.is_ok_and(|text| memmem::find(&text, mark.as_bytes()).is_some())
            && pidfd_send_signal(&held, Signal::KILL).is_ok()
    }
}
