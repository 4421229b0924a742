//! Ends what an agent started and what has left its process group since: what was started in a
//! session of its own, and the agents of agents. They are known by a mark in the environment that
//! they began with, as build servers do. A program that begins with another environment is not
//! found; an agent is not confined.

#[cfg(target_os = "linux")]
pub(super) use linux::kill;

/// Other systems show nobody's environment: there, the process group is all that is ended.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_mark: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    #![expect(clippy::disallowed_methods, reason = "processes are looked up in /proc")]

    use std::fs;

    use memchr::memmem;
    use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

    /// How often what is killed may have started something else meanwhile.
    const ROUNDS: usize = 100;

    /// Kills every process whose environment holds `mark`.
    pub fn kill(mark: &str) {
        for _ in 0..ROUNDS {
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

    /// Whether it has the mark, and was killed.
    fn kill_marked(process: Pid, mark: &str) -> bool {
        // Held before it is looked at, so that its number can't mean another process by then.
        let Ok(held) = pidfd_open(process, PidfdFlags::empty()) else { return false };
        let environment = fs::read(format!("/proc/{process}/environ"));
        environment.is_ok_and(|text| memmem::find(&text, mark.as_bytes()).is_some())
            && pidfd_send_signal(&held, Signal::KILL).is_ok()
    }
}
